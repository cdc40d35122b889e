"""Fields of open 2.0 files: their columns, opened together, and plans over their rows."""

from __future__ import annotations

from dataclasses import field as attribute
from typing import TYPE_CHECKING, Any

from alance import _kernels
from alance.errors import AlanceError
from alance.format.v2_0.arrays import ArrayPage, array_page, row_page
from alance.format.v2_0.base import Spans
from alance.format.v2_0.fields import LeafNode, Node
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from alance.arrays import Int64s
    from alance.file.open.columns import OpenColumn, States
    from alance.format.column_metadata import Page
    from alance.format.container import Container
    from alance.format.field import Field
    from alance.format.layouts.base import PageState
    from alance.format.layouts.row_pages import RowPage
    from alance.format.plans import Plan
    from alance.format.v2_0.fields import FieldPiece

BYTES: str = "uint8"


@dataclass(frozen=True, slots=True)
class ArrayColumn:
    """A column of an open file; its pages are parsed on access."""

    opened: OpenColumn
    logical_type: str  # type of the field

    @property
    def first_rows(self) -> Int64s:
        return self.opened.column.first_rows

    def array_page(self, number: int) -> ArrayPage:
        """Return a page.

        Raises:
            CorruptFileError, UnsupportedError: its description is malformed or unknown.
        """
        pages: list[Any] = self.opened.layouts
        parsed: ArrayPage | None = pages[number]
        if parsed is None:
            page, column = self.opened.column.pages[number], self.opened.column
            path = self.opened.container.path
            try:
                parsed = pages[number] = array_page(
                    page.encoding,
                    path=path,
                    buffers=page.buffers,
                    num_rows=page.num_rows,
                    logical_type=self.logical_type,
                )
            except AlanceError as error:
                error.add_note(f"in page {number} of column {column.index} of {path}")
                raise
        return parsed

    def kind(self) -> type | None:
        """Return the encoding of the first page, or None if there are no pages."""
        return type(self.array_page(0).root) if self.opened.column.pages else None


@dataclass(frozen=True, slots=True)
class FieldRows:
    """Rows of a schema's field that were read."""

    field: Field
    rows: FieldPiece

    @property
    def num_bytes(self) -> int:
        """Bytes of the input."""
        return self.rows.num_bytes

    def decode(self) -> pa.Array:
        """Decode the field's array.

        Raises:
            CorruptFileError: the bytes contradict the format.
            UnsupportedError: more strings or lists than the type's offsets can address.
        """
        return self.rows.decode(self.field.to_arrow().type)


@dataclass(frozen=True, slots=True)
class FieldPages:
    """Pages of all columns of a field."""

    index: int  # of the first column in the file
    pages: Sequence[Page]
    num_rows: int  # of the field

    @property
    def buffer_bytes(self) -> int:
        """Total bytes of the buffers of all pages."""
        return sum(size for page in self.pages for _, size in page.buffers)

    @property
    def num_bytes(self) -> int:
        """Memory of the pages in bytes."""
        return 200 + sum(len(page.encoding) + 120 for page in self.pages)


@dataclass(frozen=True, slots=True)
class FieldColumn:
    """A field of the schema with all its columns: the counterpart of `OpenColumn` for 2.0."""

    field: Field
    node: Node
    container: Container  # of the first of its columns
    column: FieldPages
    row_page_of: dict[int, RowPage | None] = attribute(default_factory=dict)  # by page number

    @property
    def num_rows(self) -> int:
        return self.column.num_rows

    @property
    def encoded_bytes(self) -> int:
        """Total bytes of all page buffers."""
        return self.column.buffer_bytes

    def take(self, rows: Int64s, states: States, *, guess: bool = True) -> Plan[FieldRows]:
        """Plan single rows: one round, and one more for strings and for each level of lists.

        Args:
            rows: sorted and unique, shape (n,), all below `num_rows`.
        """
        return FieldRows(self.field, (yield from self.node.plan(Spans.of_rows(rows))))

    def read(self, start: int, stop: int, states: States) -> Plan[FieldRows]:
        """Plan the rows from `start` to `stop`; takes as many rounds as `take`."""
        return FieldRows(self.field, (yield from self.node.plan(Spans.of_range(start, stop))))

    def load(self, start: int, stop: int, states: States) -> Plan[None]:
        """Do nothing: reading rows needs no preparation."""
        return
        yield

    def row_table(self) -> _kernels.RowTable | None:
        """Return a table of the pages for the kernel that places rows, or None if unsupported."""
        if not isinstance(self.node, LeafNode) or not self.column.num_rows:
            return None
        if self._row_page(0) is None:
            return None  # the others are most likely of the same kind, and parsing them is costly
        return _kernels.RowTable(self.node.column.first_rows)

    def learn(self, number: int, states: States) -> Plan[None]:
        """Do nothing, like `load`."""
        return
        yield

    def row_page(self, number: int, state: PageState | None) -> RowPage | None:
        """Return a page for the kernel that takes rows. None if it is of another kind.

        Raises:
            CorruptFileError, UnsupportedError: its description is malformed or unknown.
        """
        return self._row_page(number)

    def _row_page(self, number: int) -> RowPage | None:
        if number not in self.row_page_of:
            assert isinstance(self.node, LeafNode)
            self.row_page_of[number] = row_page(self.node.column.array_page(number))
        return self.row_page_of[number]
