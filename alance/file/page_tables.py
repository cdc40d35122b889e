"""Tables of the pages of open fragments, in which the kernel looks rows up.

A table has those pages of a column from which rows can be taken in one call. A page that is not
known yet is a hole. A take fills it from the caches, or by a plan.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from alance.file.columns import OpenColumn
from alance.file.field_forms import FieldForms, forms_of, with_tables
from alance.file.kernel_arrays import is_built
from alance.file.new_pages import NewPages
from alance.file.open import from_content
from alance.file.recall import kept_by
from alance.format.layouts.miniblock import MiniBlockState
from alance.format.plans import together

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from alance._kernels import RowTable
    from alance.file.columns import States
    from alance.file.leaves import OpenLeaf
    from alance.format.container import Container
    from alance.format.field import Field
    from alance.format.layouts.base import PageState
    from alance.format.layouts.paged_rows import RowPage
    from alance.format.plans import Plan

NONE_LEFT_OUT: Final[frozenset[int]] = frozenset()


class PageTables:
    """The page tables of a fragment, one a leaf; None of a leaf whose rows go another way.

    Attributes:
        containers: the files of the leaves.
        placed: the numbers of the leaves that have tables.
        num_bytes: memory of the columns, of the tables and of what they keep alive.
        whole: files that are kept whole, of the leaves; a bool if all leaves' files are, or none.
        has_grown: pages were learned since the tables were last weighed.
        lock: held by the thread that learns pages, where several read the same.
    """

    __slots__ = (
        "_by_field",
        "_fields",
        "_forms",
        "_left_out",
        "_ranged",
        "containers",
        "has_grown",
        "leaves",
        "lock",
        "num_bytes",
        "placed",
        "tables",
        "whole",
    )

    def __init__(self, fields: Sequence[Field], leaves: Sequence[OpenLeaf]) -> None:
        self._fields = fields
        self.leaves = leaves
        self.tables = [
            leaf.column.row_table() if is_built(leaf.leaf.field) else None for leaf in leaves
        ]
        columns = [leaf.column.column for leaf in leaves]
        self.num_bytes = sum([84 + 24 * column.num_pages + column.num_bytes for column in columns])
        self.containers = [leaf.column.container for leaf in leaves]
        self.placed = _numbers(self.tables)
        files = {id(container): container for container in self.containers}
        kept = {container.is_whole for container in files.values()}
        self.whole: bool | Sequence[bool] = (
            True in kept if len(kept) < 2 else [container.is_whole for container in self.containers]
        )
        self.has_grown = True
        self.lock = threading.Lock()
        self._ranged: RangeTables | None = None
        self._forms: FieldForms | None = None
        self._by_field: Mapping[int, OpenLeaf] | None = None
        self._left_out = NONE_LEFT_OUT

    def drop(self, at: int) -> None:
        """Rows of a leaf go another way."""
        self.tables[at] = None
        self.placed = _numbers(self.tables)
        self._ranged = None

    def leave_out(self, numbers: Iterable[int]) -> None:
        """Neighbouring rows of some leaves go another way; single ones do not."""
        self._left_out = self._left_out.union(numbers)
        self._ranged = None

    @property
    def by_field(self) -> Mapping[int, OpenLeaf]:
        """The leaves by their fields' ids."""
        if self._by_field is None:
            self._by_field = {leaf.leaf.field.id: leaf for leaf in self.leaves}
        return self._by_field

    @property
    def forms(self) -> FieldForms:
        """The fields whose arrays the kernel builds."""
        if self._forms is None:
            self._forms = forms_of(self._fields, self.leaves)
        return self._forms

    def by_file(self, forms: FieldForms) -> Iterator[tuple[FieldForms, bool]]:
        """Forms whose files are kept whole (True), and the others, as far as there are any."""
        if isinstance(self.whole, bool):
            if forms.forms:
                yield forms, self.whole
            return
        are_whole = [all(map(self.whole.__getitem__, form.leaves)) for form in forms.forms]
        for is_whole in (True, False):
            own = forms.only([way is is_whole for way in are_whole])
            if own.forms:
                yield own, is_whole

    @property
    def ranged(self) -> RangeTables:
        """The fields of which the kernel takes neighbouring rows, as far as it is known."""
        if self._ranged is None:
            forms = with_tables(self.forms, {*self.placed}.difference(self._left_out))
            fields = forms.only([not form.is_viewed for form in forms.forms])
            self._ranged = RangeTables.of(fields, self)
        return self._ranged


class RangeTables(NamedTuple):
    """Fields of which the kernel takes neighbouring rows, and the tables of their leaves.

    Attributes:
        tables: of each leaf its table, as a list.
        paths: of the file of each leaf.
        columns: the number of each leaf in `tables`.
        containers: the files.
    """

    fields: FieldForms
    tables: Sequence[Sequence[RowTable]]
    paths: Sequence[str]
    columns: Sequence[int]
    containers: Sequence[Container]

    @classmethod
    def of(cls, fields: FieldForms, pages: PageTables) -> RangeTables:
        """The tables of fields, all of which are there."""
        tables = [table for at in fields.leaves if (table := pages.tables[at]) is not None]
        containers = [pages.containers[at] for at in fields.leaves]
        return cls(
            fields,
            [[table] for table in tables],
            [container.path for container in containers],
            range(len(tables)),
            [*{container.path: container for container in containers}.values()],
        )


def _numbers(tables: Sequence[RowTable | None]) -> list[int]:
    return [number for number, table in enumerate(tables) if table is not None]


class Hole(NamedTuple):
    """A page of which a table knows nothing."""

    tables: PageTables
    at: int  # number of the leaf
    number: int  # of the page

    @property
    def leaf(self) -> OpenLeaf:
        """The leaf that it is a page of."""
        return self.tables.leaves[self.at]

    def fill(self, state: PageState | None) -> None:
        """Note what is known of the page; None: nothing has to be. Without rows that the kernel
        takes the leaf has no table any more.

        Raises:
            CorruptFileError: the state contradicts the page's description.
        """
        table = self.tables.tables[self.at]
        if table is None:
            return
        if isinstance(state, MiniBlockState) and state.rows is not None:
            page: RowPage | None = state.rows
        else:
            page = self.leaf.column.row_page(self.number, state)
        if page is None:
            self.tables.drop(self.at)
        else:
            table.set(self.number, page.kernel, page, page.layers)
            self.tables.num_bytes += 0 if state is None else state.num_bytes
        self.tables.has_grown = True

    def is_at_hand(self, states: States) -> bool:
        """Fill it with what the file's end or the disk has; whether they have it."""
        column = self.leaf.column
        assert isinstance(column, OpenColumn)
        state = column.at_hand(self.number, states)
        if state is not None:
            self.fill(state)
        return state is not None

    def learn(self, states: States) -> Plan[None]:
        """Plan what has to be known of the page: one round at most."""
        column = self.leaf.column
        learning = column.learn(self.number, states)
        self.fill((yield from from_content(learning, column.container)))


def fill_known(holes: Iterable[Hole], states: States) -> list[Hole]:
    """Fill holes of which the caches know all, or the ends of files; gives the others.

    Raises:
        CorruptFileError, UnsupportedError: the description of a page, or what is known of it.
    """
    far: list[Hole] = []
    near: list[Hole] = []
    at_hand = []
    for hole in holes:
        column = hole.leaf.column
        if not isinstance(column, OpenColumn):
            hole.fill(None)
        elif (state := column.cached(hole.number, states)) is not None:
            hole.fill(state)
        elif column.container.is_whole or column.container.search is not None:
            at_hand.append(hole)
        else:
            far.append(hole)
    if at_hand:
        pages = NewPages(at_hand, far=False)
        pages.fill_held(states)
        near = pages.left
    if kept_by(states) is not None:
        far, near = [], far + near
    return far + [hole for hole in near if not hole.is_at_hand(states)]


def learn(holes: Sequence[Hole], states: States) -> Plan[None]:
    """Plan what has to be known of pages that are not at hand: one round.

    Raises:
        CorruptFileError, UnsupportedError: the description of a page, or what is read of it.
    """
    if kept_by(states) is not None:
        return (yield from _learn_singly(holes, states))
    # Most pages are of mini-blocks: theirs need no plans of their own.
    pages = NewPages(holes, far=True)
    if pages.left:
        yield from together([pages.learn(states), _learn_singly(pages.left, states)])
    else:
        yield from pages.learn(states)


def _learn_singly(holes: Sequence[Hole], states: States) -> Plan[None]:
    yield from together([hole.learn(states) for hole in holes])
