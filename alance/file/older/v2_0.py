"""Fields of open 2.0 files: opening of their columns, and plans over their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import AlanceError
from alance.format.v2_0.arrays import ArrayPage, array_page, plain_values
from alance.format.v2_0.base import Spans
from alance.format.v2_0.fields import FieldNode, LeafNode

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from alance.base.arrays import Int64s
    from alance.file.open.columns import OpenColumn
    from alance.format.column_metadata import Page
    from alance.format.container import Container
    from alance.format.field import Field
    from alance.format.plans import Plan
    from alance.format.v2_0.fields import FieldPiece

BYTE_ITEM_TYPE: str = "uint8"


@dataclass(frozen=True, slots=True)
class ArrayColumn:
    """Column of an open file; its pages are parsed on access."""

    opened: OpenColumn
    logical_type: str  # logical type of the field

    @property
    def first_rows(self) -> Int64s:
        return self.opened.first_rows

    def array_page(self, number: int) -> ArrayPage:
        """Parse a page.

        Raises:
            CorruptFileError, UnsupportedError: the page's description is malformed or unknown.
        """
        pages = self.opened.parsed
        parsed: ArrayPage | None = pages[number]
        if parsed is None:
            page, column = self.opened.page(number), self.opened
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
        """Return the encoding class of the first page; None if there are no pages."""
        return type(self.array_page(0).root) if self.opened.num_pages else None


@dataclass(frozen=True, slots=True)
class FieldRows:
    """Rows of a field that were read."""

    field: Field
    rows: FieldPiece

    @property
    def num_bytes(self) -> int:
        """Number of bytes of the input."""
        return self.rows.num_bytes

    def decode(self) -> pa.Array:
        """Decode the rows into the field's array.

        Raises:
            CorruptFileError: the bytes contradict the format.
            UnsupportedError: there are more strings or lists than the type's offsets can address.
        """
        return self.rows.decode(self.field.to_arrow().type)


@dataclass(frozen=True, slots=True)
class FieldPages:
    """Pages of all columns of a field."""

    index: int  # number of the field's first column in the file
    pages: Sequence[Page]
    num_rows: int  # number of rows of the field

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
    """Field of the schema with all its columns."""

    field: Field
    node: FieldNode
    container: Container  # file of the field's first column
    column: FieldPages

    @property
    def num_rows(self) -> int:
        return self.column.num_rows

    @property
    def encoded_bytes(self) -> int:
        """Total bytes of all page buffers."""
        return self.column.buffer_bytes

    def take(self, rows: Int64s) -> Plan[FieldRows]:
        """Plan single rows: one round, plus one for strings and for each level of lists.

        Args:
            rows: sorted and unique, below `num_rows`; shape (n,).
        """
        return FieldRows(self.field, (yield from self.node.plan(Spans.of_rows(rows))))

    def read(self, start: int, stop: int) -> Plan[FieldRows]:
        """Plan the rows from `start` to `stop`, in as many rounds as `take`."""
        return FieldRows(self.field, (yield from self.node.plan(Spans.of_range(start, stop))))

    def spans(self) -> list[tuple[int, int]]:
        """Return the byte range of each buffer in the file."""
        buffers = [buffer for page in self.column.pages for buffer in page.buffers]
        return [(start, start + size) for start, size in buffers]

    def row_table(self) -> _kernels.RowTable | None:
        """Return the pages' table for the kernel; None if the kernel cannot take their rows."""
        if not isinstance(self.node, LeafNode) or not self.column.num_rows:
            return None
        if self.field.is_blob_v1:
            return None  # a place stands for null
        if plain_values(self.node.column.array_page(0)) is None:
            return None  # other pages are probably of the same kind, and costly to parse
        return _kernels.RowTable(self.node.column.first_rows)

    def fill(self, table: _kernels.RowTable, number: int) -> bool:
        """Put a page into `row_table`. Returns False if the kernel cannot take its rows.

        Raises:
            CorruptFileError, UnsupportedError: the page's description is malformed or unknown.
        """
        assert isinstance(self.node, LeafNode)
        page = self.node.column.array_page(number)
        values = plain_values(page)
        if values is None:
            return False
        buffer, bits = values
        with page.place.checking():
            table.set_plain(number, *page.place.buffers[buffer], bits, page.place.start)
        return True
