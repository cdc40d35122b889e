"""The bytes of a 2.x file around its pages: places of buffers, metadata, tables, footer.

    page buffers, blobs, global buffers from 1 on      each at a multiple of 64
    search-cache buffer, the last of these             see format.search_buffer
    global buffer 0: FileDescriptor                    at a multiple of 64
    column metadata | their offset table | offset table of global buffers | footer

Buffers that readers need before others are kept back until the end, for the search-cache buffer.

Source: docs/format/file.md, "Container".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
from google.protobuf.any_pb2 import Any

from alance import _kernels
from alance.errors import InvalidInputError, UnsupportedError
from alance.file_version import FileVersion
from alance.format.container import COLUMN_ENCODING, FOOTER, MAGIC
from alance.format.encode.planar import planar_layout
from alance.format.field import BLOB, BLOB_V2_TYPE
from alance.format.layouts import PAGE_LAYOUT
from alance.format.layouts.fields import leaf_columns
from alance.format.layouts.place import PLANAR_LAYOUT
from alance.format.proto import copied, encodings_v2_0_pb2, file2_pb2, file_pb2
from alance.format.search_buffer import table_of
from alance.format.types import logical_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alance.arrays import Bytes, Int64s
    from alance.format.blocks import VariableWidth
    from alance.format.encode.base import EncodedPage
    from alance.format.field import Field
    from alance.format.schema import Schema

ALIGNMENT: Final = 64  # of every buffer, as readers of 2.1 and later demand
FILLER: Final = 0x48
PADDING: Final = np.full(ALIGNMENT, FILLER, np.uint8)
FOOTER_NUMBERS: Final = {
    FileVersion.V2_0: (0, 3),
    FileVersion.V2_1: (2, 1),
    FileVersion.V2_2: (2, 2),
    FileVersion.V2_3: (2, 3),
}
MANIFEST_NUMBERS: Final = {  # what `DataFile` says
    **FOOTER_NUMBERS,
    FileVersion.V0_1: (0, 2),
    FileVersion.V2_0: (2, 0),
}

SEARCH_BYTES: Final = 1 << 20  # kept back at most, of one file
PAGE_BYTES: Final = 32 << 10  # of one page; a larger repetition index stays with its page


@dataclass(frozen=True, slots=True)
class _Kept:
    """Buffers of a page: their numbers in it and their bytes."""

    page: file2_pb2.ColumnMetadata.Page
    buffers: tuple[tuple[int, Bytes], ...]
    num_bytes: int


@dataclass(slots=True)
class SearchEntries:
    """What a file's search-cache buffer will hold.

    Args:
        limit: bytes kept back at most; 0: the file gets no such buffer.
    """

    limit: int = SEARCH_BYTES
    num_bytes: int = 0
    _kept: list[_Kept] = field(default_factory=list)

    def wants(self, page: EncodedPage) -> tuple[int, ...]:
        """The numbers of the page's buffers to keep back: all that readers need first, or none."""
        num_bytes = sum(len(page.buffers[number]) for number in page.search)
        if num_bytes > PAGE_BYTES or self.num_bytes + num_bytes > self.limit:
            return ()
        return tuple(number for number in page.search if len(page.buffers[number]))

    def keep(
        self, message: file2_pb2.ColumnMetadata.Page, page: EncodedPage, numbers: tuple[int, ...]
    ) -> None:
        """Keep buffers back; the page's message learns their places by `place`."""
        buffers = tuple((number, page.buffers[number]) for number in numbers)
        num_bytes = sum(len(content) for _, content in buffers)
        if buffers:
            self.num_bytes += num_bytes
            self._kept.append(_Kept(message, buffers, num_bytes))

    def place(self, start: int, alignment: int) -> list[tuple[int, Bytes]]:
        """Give each buffer a place from `start` on; gives (offset, content) and the table, last.

        Small pages come last: as many pages as can be lie within a read of the file's end.
        """
        placed: list[tuple[int, Bytes]] = []
        for kept in sorted(self._kept, key=lambda page: -page.num_bytes):
            for number, content in kept.buffers:
                kept.page.buffer_offsets[number] = start
                placed.append((start, content))
                start += len(content) + -len(content) % alignment
        if not placed:
            return []
        return [*placed, (start, table_of(placed))]


class FileBuilder:
    """Where everything of one file goes; the caller appends what methods return, in order.

    Not safe to share among threads. What it keeps is the metadata: about 100 bytes a page.

    Attributes:
        num_bytes: bytes given out so far; after `finish` the size of the file.
    """

    def __init__(
        self, schema: Schema, version: FileVersion, search_bytes: int = SEARCH_BYTES
    ) -> None:
        """An empty file. Its columns are `leaf_columns` of the fields of `schema`, in order.

        Args:
            search_bytes: of the search-cache buffer at most; 0: none.

        Raises:
            UnsupportedError: a version that is not written.
        """
        if version not in FOOTER_NUMBERS:
            numbers = [number.value for number in FOOTER_NUMBERS]
            raise UnsupportedError(f"file version {version.value}: files of {numbers} are written")
        leaves = [leaf for field in schema.fields for leaf in leaf_columns(field)]
        self.num_bytes = 0
        self._schema = schema
        self._version = version
        self._multipliers = [leaf.multiplier for leaf in leaves]
        encoding = column_encoding()
        self._columns = [file2_pb2.ColumnMetadata(encoding=encoding) for _ in leaves]
        self._lengths = [0] * len(leaves)
        self._buffers: list[tuple[int, int]] = [(0, 0)]
        self._search = SearchEntries(search_bytes)

    @property
    def num_rows(self) -> int:
        """Rows of the longest column so far."""
        pairs = zip(self._lengths, self._multipliers, strict=True)
        return max((length // multiplier for length, multiplier in pairs), default=0)

    def add_page(self, column: int, page: EncodedPage) -> list[Bytes]:
        """The bytes of the next page of a column: its buffers and their padding.

        Pages of a column come in row order; columns may take turns in any way.
        """
        chunks: list[Bytes] = []
        kept = self._search.wants(page)
        places = [
            (0, len(buffer)) if number in kept else self._place(buffer, chunks)
            for number, buffer in enumerate(page.buffers)
        ]
        message = self._columns[column].pages.add(
            buffer_offsets=[offset for offset, _ in places],
            buffer_sizes=[size for _, size in places],
            length=page.num_rows,
            encoding=self._described(page),
            priority=self._lengths[column] // self._multipliers[column],
        )
        self._search.keep(message, page, kept)
        self._lengths[column] += page.num_rows
        return chunks

    def _described(self, page: EncodedPage) -> file2_pb2.Encoding:
        if self._version >= FileVersion.V2_3:
            layout = planar_layout(page.layout).SerializeToString(deterministic=True)
            return direct(PLANAR_LAYOUT, layout)
        return direct(PAGE_LAYOUT, page.layout.SerializeToString(deterministic=True))

    def add_blobs(self, values: VariableWidth) -> tuple[Int64s, list[Bytes]]:
        """Place each payload as a buffer of its own.

        Returns:
            Where each begins (0 where it is empty), shape (n,), and the bytes to append.
        """
        sizes = np.diff(values.offsets).astype(np.int64)
        padded = -(-sizes // ALIGNMENT) * ALIGNMENT
        starts = np.cumsum(padded) - padded
        total = int(padded.sum())
        if total == 0:
            return np.zeros(len(sizes), np.int64), []
        content = _kernels.place_strings(values.offsets, values.data, starts, total, FILLER)
        positions = np.where(sizes > 0, starts + self.num_bytes, 0)
        self.num_bytes += total
        return positions, [content]

    def add_buffer(self, content: Bytes) -> tuple[int, list[Bytes]]:
        """The number of a new global buffer, from 1 on, and the bytes to append."""
        chunks: list[Bytes] = []
        self._buffers.append(self._place(content, chunks))
        return len(self._buffers) - 1, chunks

    def finish(self) -> list[Bytes]:
        """The end of the file: schema, column metadata, tables, footer.

        Raises:
            InvalidInputError: columns of different numbers of rows.
        """
        num_rows = self.num_rows
        for number, (length, multiplier) in enumerate(
            zip(self._lengths, self._multipliers, strict=True)
        ):
            if length != num_rows * multiplier:
                raise InvalidInputError(
                    f"column {number} has {length} rows, expected {num_rows * multiplier}"
                )
        return self._end(num_rows)

    def _end(self, num_rows: int) -> list[Bytes]:
        """The bytes behind all pages of a file of so many rows."""
        chunks = self._end_search()
        descriptor = file_descriptor(self._schema, num_rows).SerializeToString(deterministic=True)
        self._buffers[0] = (self.num_bytes, len(descriptor))
        parts = [descriptor]
        position = self.num_bytes + len(descriptor)
        tables: list[list[tuple[int, int]]] = [[], self._buffers]
        for column in self._columns:
            parts.append(column.SerializeToString(deterministic=True))
            tables[0].append((position, len(parts[-1])))
            position += len(parts[-1])
        metadata_start = self.num_bytes + len(descriptor)
        table_starts = []
        for table in tables:
            table_starts.append(position)
            parts.append(np.array(table, "<u8").tobytes())
            position += len(parts[-1])
        numbers = len(self._buffers), len(self._columns), *FOOTER_NUMBERS[self._version]
        parts.append(FOOTER.pack(metadata_start, *table_starts, *numbers, MAGIC))
        self.num_bytes = position + FOOTER.size
        return [*chunks, np.frombuffer(b"".join(parts), np.uint8)]

    def _end_search(self) -> list[Bytes]:
        """The search-cache buffer, the last of the global buffers; nothing where it is empty."""
        chunks: list[Bytes] = []
        start = self.num_bytes
        for _, content in self._search.place(start, ALIGNMENT):
            _, size = self._place(content, chunks)
        if chunks:
            self._buffers.append((start, self.num_bytes - start - -size % ALIGNMENT))
        return chunks

    def _place(self, content: Bytes, chunks: list[Bytes]) -> tuple[int, int]:
        """The place of a buffer that goes next; an empty one takes no space."""
        place = self.num_bytes, len(content)
        if len(content):
            padding = -len(content) % ALIGNMENT
            chunks.append(content)
            if padding:
                chunks.append(PADDING[:padding])
            self.num_bytes += len(content) + padding
        return place


def file_descriptor(schema: Schema, num_rows: int) -> file_pb2.FileDescriptor:
    """The file's descriptor: its schema and number of rows."""
    fields = [message for field in schema.fields for message in _messages(field)]
    metadata = {key: value.encode() for key, value in schema.metadata.items()}
    return file_pb2.FileDescriptor(
        schema=file_pb2.Schema(fields=fields, metadata=metadata), length=num_rows
    )


def _messages(field: Field) -> Iterator[file_pb2.Field]:
    """A field and all below it, as files list them."""
    if not field.is_blob_v2:
        yield field.message
        for child in field.children:
            yield from _messages(child)
        return
    own = copied(field.message)
    own.extension_name = ""
    own.metadata.clear()
    own.metadata.update({BLOB: b"true", "lance-encoding:packed": b"true"})
    yield own
    for number in range(BLOB_V2_TYPE.num_fields):
        child = BLOB_V2_TYPE.field(number)
        yield file_pb2.Field(
            name=child.name,
            id=-1,
            parent_id=-1,
            logical_type=logical_type(child.type),
            nullable=False,
            encoding=file_pb2.VAR_BINARY if child.name == "blob_uri" else file_pb2.PLAIN,
        )


def column_encoding() -> file2_pb2.Encoding:
    """What the metadata of every column say of it."""
    values = encodings_v2_0_pb2.ColumnEncoding()
    values.values.SetInParent()
    return direct(COLUMN_ENCODING, values.SerializeToString())


def direct(url: str, content: bytes) -> file2_pb2.Encoding:
    """The encoding of a page or column that stands in the metadata."""
    message = Any(type_url=url, value=content).SerializeToString(deterministic=True)
    return file2_pb2.Encoding(direct=file2_pb2.DirectEncoding(encoding=message))
