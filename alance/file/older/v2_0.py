"""Fields of open 2.0 files: opening of their columns, and plans over their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import AlanceError
from alance.file.open.files import from_content
from alance.file.rows.kernel_arrays import has_values
from alance.format.layouts.fields import LeafColumn
from alance.format.v2_0.arrays import ArrayPage, array_page, plain_values
from alance.format.v2_0.base import Spans
from alance.format.v2_0.fields import FieldNode, LeafNode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Int64s
    from alance.file.open.columns import OpenColumn
    from alance.format.container import Container, Page
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
class FieldColumn:
    """Field of the schema with all its columns.

    Attributes:
        container: file of the field's first column.
        spans: byte ranges of all pages' buffers; shape (n, 2).
        pages: pages of all columns of a file of 2.0.
    """

    field: Field
    node: FieldNode
    container: Container
    num_rows: int
    spans: Int64s
    pages: Sequence[Page] = ()

    @property
    def leaf(self) -> LeafColumn:
        return LeafColumn(self.field, 1)

    @property
    def encoded_bytes(self) -> int:
        """Total bytes of all page buffers."""
        return int((self.spans[:, 1] - self.spans[:, 0]).sum())

    def take(self, rows: Int64s) -> Plan[FieldPiece]:
        """Plan single rows: one round, plus one for strings and for each level of lists.

        Args:
            rows: sorted and unique, below `num_rows`; shape (n,).
        """
        return from_content(self.node.plan(Spans.of_rows(rows)), self.container)

    def read(self, spans: Sequence[tuple[int, int]]) -> Plan[FieldPiece]:
        """Plan ascending ranges of rows, in as many rounds as `take`."""
        starts, stops = np.array(spans, np.int64).reshape(-1, 2).T
        return from_content(self.node.plan(Spans.of(starts, stops)), self.container)

    def listed(self) -> tuple[_kernels.RowTable | None, int, int]:
        """Return the page table, its encoded bytes and its memory, as `LeafTables` takes them.

        The table is None if the kernel cannot take rows from the pages.
        """
        num_bytes = 200 + sum(len(page.encoding) + 120 for page in self.pages)
        return self._row_table(), self.encoded_bytes, num_bytes

    def _row_table(self) -> _kernels.RowTable | None:
        """Return the pages' table for the kernel; None if the kernel cannot take all their rows.

        Returns None for damaged pages, too, because their reader says what is wrong.
        """
        if not (isinstance(self.node, LeafNode) and self.num_rows and has_values(self.field)):
            return None
        if self.field.is_blob_v1:
            return None  # a place stands for null
        column = self.node.column
        table, values = _kernels.RowTable(column.first_rows), dict[bytes, tuple[int, int] | None]()
        try:
            for number, page in enumerate(self.pages):
                if page.encoding not in values:
                    values[page.encoding] = plain_values(column.array_page(number))
                plain = values[page.encoding]
                if plain is None:
                    return None
                buffer, bits = plain
                table.set_plain(number, *page.buffers[buffer], bits, page.buffers[0][0])
        except (AlanceError, IndexError, ValueError):
            return None
        return table
