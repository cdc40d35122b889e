"""The bytes of a 2.0 file around its pages: those of later versions, with columns of its own.

Source: file format 2.0, "The container, as far as 2.0 needs it", "Pages".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alance.errors import InvalidInputError
from alance.file_version import FileVersion
from alance.format.container_columns import COLUMN_ENCODING
from alance.format.encode.container import FileBuilder, direct
from alance.format.proto import encodings_v2_0_pb2 as pb
from alance.format.proto import file2_pb2
from alance.format.v2_0.arrays import ARRAY_ENCODING
from alance.format.v2_0.messages import Page

if TYPE_CHECKING:
    from alance.format.blocks import Bytes
    from alance.format.schema import Schema
    from alance.format.v2_0.encode_fields import Columns

HEADER: Final = pb.ArrayEncoding(struct=pb.SimpleStruct())


class ArrayFileBuilder(FileBuilder):
    """Where everything of one file of 2.0 goes: a `FileBuilder` with other pages."""

    def __init__(self, schema: Schema, columns: Columns) -> None:
        super().__init__(schema, FileVersion.V2_0, search_bytes=0)
        count = len(columns.by_field)
        self._headers = set(columns.headers)
        self._tops = {columns.by_field[field.id] for field in schema.fields}
        self._lengths = [0] * count
        self._columns = [_column(is_blob=number in columns.blobs) for number in range(count)]

    @property
    def num_rows(self) -> int:
        """Rows of the longest top column so far."""
        return max((self._lengths[number] for number in self._tops), default=0)

    def add_array_page(self, column: int, page: Page) -> list[Bytes]:
        """The bytes of the next page of a column: its buffers and their padding."""
        chunks: list[Bytes] = []
        places = [self._place(buffer, chunks) for buffer in page.buffers]
        self._columns[column].pages.add(
            buffer_offsets=[offset for offset, _ in places],
            buffer_sizes=[size for _, size in places],
            length=page.num_rows,
            encoding=direct(ARRAY_ENCODING, page.encoding.SerializeToString(deterministic=True)),
        )
        self._lengths[column] += page.num_rows
        return chunks

    def add_header_rows(self, column: int, num_rows: int) -> None:
        """Rows of a struct, which get their page at the end."""
        self._headers.add(column)
        self._lengths[column] += num_rows

    def finish(self) -> list[Bytes]:
        """The end of the file.

        Raises:
            InvalidInputError: top columns of different numbers of rows.
        """
        num_rows = self.num_rows
        for number in self._tops:
            if self._lengths[number] != num_rows:
                raise InvalidInputError(
                    f"column {number} has {self._lengths[number]} rows, expected {num_rows}"
                )
        for number in sorted(self._headers):
            length, self._lengths[number] = self._lengths[number], 0
            self.add_array_page(number, Page(HEADER, (), length))
        return self._end(num_rows)


def _column(*, is_blob: bool) -> file2_pb2.ColumnMetadata:
    """A column without pages."""
    values = pb.ColumnEncoding()
    values.values.SetInParent()
    encoding = pb.ColumnEncoding(blob=pb.Blob(inner=values)) if is_blob else values
    return file2_pb2.ColumnMetadata(encoding=direct(COLUMN_ENCODING, encoding.SerializeToString()))
