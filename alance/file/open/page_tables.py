"""Page tables of open fragments, in which the kernel looks up rows.

A table has the pages of a column whose rows the kernel can take in one call. A page of unknown
state is a hole in the table, which `NewPages` or a plan for the page fills.
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
    """Page tables of a fragment, one per leaf.

    Attributes:
        tables: table of each leaf; None if the kernel cannot take the leaf's rows.
        containers: file of each leaf.
        placed: numbers of the leaves that have tables.
        whole: for each leaf, True if its file is completely in memory; a single bool if all leaves
            agree.
        kinds: class of each leaf's column; a set if all leaves have the same class.
        has_grown: True if page states were added since `num_bytes` was last computed.
        lock: held by a thread while it loads page states.
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
            else column.kernel
            if isinstance(column := leaf.column, OpenColumn)
            else column.row_table()
            for leaf, is_kernel in zip(leaves, are_built, strict=True)
        ]
        self.containers = [leaf.column.container for leaf in leaves]
        self.placed = _numbers(self.tables)
        files = {id(container): container for container in self.containers}
        are_whole = {container.is_whole for container in files.values()}
        self.whole: bool | Sequence[bool] = (
            True in are_whole
            if len(are_whole) < 2
            else [container.is_whole for container in self.containers]
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
        """Memory of the columns and their page states in bytes."""
        num_bytes = COLUMN_BYTES * len(self.leaves)
        for leaf in self.leaves:
            column = leaf.column
            pages = column.kernel if isinstance(column, OpenColumn) else column.column
            num_bytes += pages.num_bytes
        return num_bytes

    def drop(self, at: int) -> None:
        """Drop the table of a leaf whose rows the kernel cannot take."""
        self.tables[at] = None
        self.placed = _numbers(self.tables)
        self._ranged = None

    def leave_out(self, numbers: Iterable[int]) -> None:
        """Exclude leaves from `ranged`; their tables are still used for single rows."""
        self._left_out = self._left_out.union(numbers)
        self._ranged = None

    @property
    def by_field(self) -> Mapping[int, OpenLeaf]:
        """Leaves by field id."""
        if self._by_field is None:
            self._by_field = {leaf.leaf.field.id: leaf for leaf in self.leaves}
        return self._by_field

    @property
    def forms(self) -> FieldForms:
        """Fields whose arrays the kernel can build."""
        if self._forms is None:
            self._forms = forms_of(self._fields, [leaf.leaf.field.id for leaf in self.leaves])
        return self._forms

    def by_file(self, forms: FieldForms) -> list[tuple[FieldForms, bool]]:
        """Split forms: those with all files completely in memory (True), and others (False).

        An empty part is omitted.
        """
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
        """Fields from which the kernel takes ranges of rows, by the current tables."""
        if self._ranged is None:
            forms = with_tables(self.forms, {*self.placed}.difference(self._left_out))
            fields = forms.only([not form.is_viewed for form in forms.forms])
            self._ranged = RangeTables.of(fields, self)
        return self._ranged


class RangeTables(NamedTuple):
    """Fields from which the kernel takes ranges of rows, with the tables of their leaves.

    Attributes:
        tables: for each leaf, a list with its table.
        paths: path of each leaf's file.
        columns: number of each leaf in `tables`.
        containers: distinct files of the leaves.
    """

    fields: FieldForms
    tables: Sequence[Sequence[RowTable]]
    paths: Sequence[str]
    columns: Sequence[int]
    containers: Sequence[Container]

    @classmethod
    def of(cls, fields: FieldForms, pages: PageTables) -> RangeTables:
        """Collect the tables of fields; every leaf must have a table."""
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
    """Page of a table whose state is unknown."""

    tables: PageTables
    at: int  # number of the leaf
    number: int  # number of the page

    @property
    def leaf(self) -> OpenLeaf:
        return self.tables.leaves[self.at]

    def fill(self, state: PageState | None) -> None:
        """Fill the hole by the page's state; drop the table if the kernel cannot take its rows.

        Args:
            state: state of the page; None for columns whose pages have no state.

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
        """Fill the hole from memory, the file's tail or the disk cache.

        Returns False if unknown.
        """
        column = self.leaf.column
        if not isinstance(column, OpenColumn):
            self.fill(None)
            return True
        state = column.known_state(self.number, states)
        if state is not None:
            self.fill(state)
        return state is not None

    def learn(self, states: States) -> Plan[None]:
        """Plan the state of the page, and fill the hole; at most one round."""
        column = self.leaf.column
        learning = column.learn(self.number, states)
        self.fill((yield from from_content(learning, column.container)))
