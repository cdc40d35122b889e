"""Tables of the pages of open fragments, in which the kernel looks rows up.

A table has those pages of a column from which rows can be taken in one call. A page that is not
known yet is a hole. It is filled by `NewPages`, or by itself.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from alance.file.open.columns import COLUMN_BYTES, OpenColumn
from alance.file.open.files import from_content
from alance.file.rows.field_forms import FieldForms, forms_of, with_tables
from alance.file.rows.kernel_arrays import is_built

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from alance._kernels import RowTable
    from alance.file.open.columns import States
    from alance.file.rows.leaves import OpenLeaf
    from alance.format.container import Container
    from alance.format.layouts.base import PageState
    from alance.format.plans import Plan
    from alance.format.schema import Schema

NONE_LEFT_OUT: Final[frozenset[int]] = frozenset()


class PageTables:
    """The page tables of a fragment, one a leaf; None of a leaf whose rows go another way.

    Attributes:
        containers: the files of the leaves.
        placed: the numbers of the leaves that have tables.
        whole: files that are kept whole, of the leaves; a bool if all leaves' files are, or none.
        kinds: classes of the columns of the leaves; a set if all are of one.
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
        "kinds",
        "leaves",
        "lock",
        "placed",
        "tables",
        "whole",
    )

    def __init__(
        self, schema: Schema, leaves: Sequence[OpenLeaf], leaf_ids: tuple[int, ...]
    ) -> None:
        self._fields = schema.fields
        self.leaves = leaves
        are_built = schema.remember(
            (is_built, leaf_ids), lambda: [is_built(leaf.leaf.field) for leaf in leaves]
        )
        self.tables = [
            None
            if not is_kernel
            else column.column.kernel
            if isinstance(column := leaf.column, OpenColumn)
            else column.row_table()
            for leaf, is_kernel in zip(leaves, are_built, strict=True)
        ]
        self.containers = [leaf.column.container for leaf in leaves]
        self.placed = _numbers(self.tables)
        files = {id(container): container for container in self.containers}
        kept = {container.is_whole for container in files.values()}
        self.whole: bool | Sequence[bool] = (
            True in kept if len(kept) < 2 else [container.is_whole for container in self.containers]
        )
        kinds = [type(leaf.column) for leaf in leaves]
        self.kinds: Collection[type] = {*kinds} if len({*kinds}) < 2 else kinds
        self.has_grown = True
        self.lock = threading.Lock()
        self._ranged: RangeTables | None = None
        self._forms: FieldForms | None = None
        self._by_field: Mapping[int, OpenLeaf] | None = None
        self._left_out = NONE_LEFT_OUT

    @property
    def num_bytes(self) -> int:
        """Memory of the columns and of what is known of their pages."""
        num_bytes = COLUMN_BYTES * len(self.leaves)
        for leaf in self.leaves:
            column = leaf.column
            pages = column.column.kernel if isinstance(column, OpenColumn) else column.column
            num_bytes += pages.num_bytes
        return num_bytes

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
            self._forms = forms_of(self._fields, [leaf.leaf.field.id for leaf in self.leaves])
        return self._forms

    def by_file(self, forms: FieldForms) -> list[tuple[FieldForms, bool]]:
        """Forms whose files are kept whole (True), and the others, as far as there are any."""
        if isinstance(self.whole, bool):
            return [(forms, self.whole)] if forms.forms else []
        are_whole = [all(map(self.whole.__getitem__, form.leaves)) for form in forms.forms]
        parts = [
            (forms.only([way is is_whole for way in are_whole]), is_whole)
            for is_whole in (True, False)
        ]
        return [part for part in parts if part[0].forms]

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
        page = self.leaf.column.row_page(self.number, state)
        if page is None:
            self.tables.drop(self.at)
        else:
            table.set(self.number, page.kernel, page.layers, page.start)
        self.tables.has_grown = True

    def is_known(self, states: States) -> bool:
        """Fill it with what was learned, or is in the file's end or on disk; False without."""
        column = self.leaf.column
        if not isinstance(column, OpenColumn):
            self.fill(None)
            return True
        state = column.kept_state(self.number, states)
        if state is not None:
            self.fill(state)
        return state is not None

    def learn(self, states: States) -> Plan[None]:
        """Plan what has to be known of the page: one round at most."""
        column = self.leaf.column
        learning = column.learn(self.number, states)
        self.fill((yield from from_content(learning, column.container)))
