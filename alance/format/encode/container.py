"""Writer of a 2.x file around its pages: buffer positions, metadata, tables, footer.

  page buffers, blobs, global buffers from 1 on      each at a multiple of 64
  search-cache buffer, the last global buffer        see format.search_buffer
  global buffer 0: FileDescriptor                    at a multiple of 64
  column metadata | their offset table | offset table of global buffers | footer

Buffers that readers need first are written at the end, in the search-cache buffer. The kernel
assigns positions, and writes all that follows the pages (kernels/encode/container.cpp).

Source: docs/format/file.md, "Container".
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

import numpy as np
from google.protobuf.any_pb2 import Any

from alance import _kernels
from alance.errors import InvalidInputError, UnsupportedError
from alance.file_version import FileVersion
from alance.format.container import ARRAY_ENCODING, COLUMN_ENCODING, FILE_BUFFER_ALIGNMENT
from alance.format.field import BLOB, BLOB_V2_TYPE
from alance.format.layouts import PAGE_LAYOUT
from alance.format.layouts.fields import leaf_columns
from alance.format.layouts.place import PLANAR_LAYOUT
from alance.format.proto import copied, encodings_v2_0_pb2, file2_pb2, file_pb2
from alance.format.types import logical_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from alance.base.arrays import Bytes, Int64s
    from alance.format.blocks import VariableWidth
    from alance.format.encode.page_inputs import EncodedPage
    from alance.format.field import Field
    from alance.format.schema import Schema

FILLER: Final = 0x48
FILLER_BUFFER: Final = np.full(FILE_BUFFER_ALIGNMENT, FILLER, np.uint8)
FOOTER_NUMBERS: Final = {
    FileVersion.V2_0: (0, 3),
    FileVersion.V2_1: (2, 1),
    FileVersion.V2_2: (2, 2),
    FileVersion.V2_3: (2, 3),
}
MANIFEST_NUMBERS: Final = {  # version numbers in `DataFile` records
    **FOOTER_NUMBERS,
    FileVersion.V0_1: (0, 2),
    FileVersion.V2_0: (2, 0),
}

SEARCH_BYTES: Final = 1 << 20  # bytes; largest search-cache buffer of a file
COPIED_CHUNK_BYTES: Final = 256 << 10  # bytes; smaller chunks are joined, which copies them


class FileBuilder:
    """Encoder of a file; the caller appends the returned bytes to the file, in order.

    Not thread-safe. Memory: about 300 bytes of metadata per page.
    """

    def __init__(
        self,
        schema: Schema,
        version: FileVersion,
        search_bytes: int = SEARCH_BYTES,
        encodings: list[bytes] | None = None,
        multipliers: Mapping[int, int] | None = None,
    ) -> None:
        """Start an empty file.

        Args:
            search_bytes: largest search-cache buffer; 0 for none.
            encodings: encoding of each column; None if the columns are the `leaf_columns` of the
                schema's fields.
            multipliers: rows of a column for each row of the file, by column number, without
                columns of items of lists; None if the columns are `leaf_columns`.
        """
        if version not in FOOTER_NUMBERS:
            numbers = [number.value for number in FOOTER_NUMBERS]
            raise UnsupportedError(f"file version {version.value}: files of {numbers} are written")
        self._schema = schema
        self._version = version
        if multipliers is None:
            leaves = [leaf for field in schema.fields for leaf in leaf_columns(field)]
            multipliers = {number: leaf.multiplier for number, leaf in enumerate(leaves)}
        self._multipliers = multipliers
        if encodings is None:
            encodings = [column_encoding()] * len(multipliers)
        self._lengths = [0] * len(encodings)
        self._container = _kernels.Container(encodings, *FOOTER_NUMBERS[version], search_bytes)

    @property
    def num_bytes(self) -> int:
        """Number of bytes returned so far; after `finish`, the size of the file."""
        return self._container.num_bytes

    @property
    def num_rows(self) -> int:
        """Number of rows of the longest column so far."""
        pairs = self._multipliers.items()
        return max((self._lengths[number] // multiplier for number, multiplier in pairs), default=0)

    def add_page(self, column: int, page: EncodedPage) -> list[Bytes]:
        """Return the bytes of a column's next page: its buffers with padding.

        Add the pages of a column in row order; the order of columns is free.
        """
        url, description, priority = PAGE_LAYOUT, page.description, 0
        if self._version is FileVersion.V2_0:
            url = ARRAY_ENCODING
        else:
            priority = self._lengths[column] // self._multipliers[column]
        if self._version >= FileVersion.V2_3:
            from alance.format.layouts.planar import planar_layout

            url = PLANAR_LAYOUT
            description = planar_layout(page.layout).SerializeToString(deterministic=True)
        starts = self._container.add_page(
            column,
            url,
            description,
            page.buffers,
            page.search,
            page.num_rows,
            priority=priority,
        )
        self._lengths[column] += page.num_rows
        placed = zip(page.buffers, starts, strict=True)
        return [chunk for buffer, start in placed if start >= 0 for chunk in padded(buffer)]

    def add_blobs(self, values: VariableWidth) -> tuple[Int64s, list[Bytes]]:
        """Place each payload in a buffer of its own.

        Returns:
            File positions (0 for empty payloads), shape (n,); and the bytes to append.
        """
        sizes = np.diff(values.offsets).astype(np.int64)
        places = -(-sizes // FILE_BUFFER_ALIGNMENT) * FILE_BUFFER_ALIGNMENT
        starts = np.cumsum(places) - places
        total = int(places.sum())
        if total == 0:
            return np.zeros(len(sizes), np.int64), []
        content = _kernels.place_strings(values.offsets, values.data, starts, total, FILLER)
        return np.where(sizes > 0, starts + self._container.place(total), 0), [content]

    def add_buffer(self, content: Bytes) -> tuple[int, list[Bytes]]:
        """Add a global buffer. Returns its number, from 1 on, and the bytes to append."""
        return self._container.add_buffer(len(content)), padded(content)

    def finish(self) -> list[Bytes]:
        """Return the bytes at the end of the file: schema, column metadata, tables, footer."""
        num_rows = self.num_rows
        for number, multiplier in self._multipliers.items():
            if self._lengths[number] != num_rows * multiplier:
                raise InvalidInputError(
                    f"column {number} has {self._lengths[number]} rows, "
                    f"expected {num_rows * multiplier}"
                )
        descriptor = file_descriptor(self._schema, num_rows).SerializeToString(deterministic=True)
        return [np.frombuffer(self._container.end(descriptor), np.uint8)]


def padded(content: Bytes) -> list[Bytes]:
    """Return a buffer, padded to the alignment; nothing for an empty buffer."""
    padding = -len(content) % FILE_BUFFER_ALIGNMENT
    return [chunk for chunk in (content, FILLER_BUFFER[:padding]) if len(chunk)]


def with_small_ones_joined(chunks: Iterable[Bytes]) -> list[Bytes]:
    """Join small adjacent chunks; large chunks stay as they are."""
    joined: list[Bytes] = []
    for is_small, run in groupby(chunks, lambda chunk: len(chunk) < COPIED_CHUNK_BYTES):
        parts = [*run]
        joined += [np.concatenate(parts)] if is_small and len(parts) > 1 else parts
    return joined


def file_descriptor(schema: Schema, num_rows: int) -> file_pb2.FileDescriptor:
    """Build the descriptor of a file: its schema and number of rows."""
    fields = [message for field in schema.fields for message in _messages(field)]
    metadata = {key: value.encode() for key, value in schema.metadata.items()}
    return file_pb2.FileDescriptor(
        schema=file_pb2.Schema(fields=fields, metadata=metadata), length=num_rows
    )


def _messages(field: Field) -> Iterator[file_pb2.Field]:
    """Yield the messages of a field and its descendants, in a file's order."""
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


def column_encoding(*, is_blob: bool = False) -> bytes:
    """Return the encoding in a column's metadata; only 2.0 uses it, to mark blob columns."""
    encoding = encodings_v2_0_pb2.ColumnEncoding()
    (encoding.blob.inner if is_blob else encoding).values.SetInParent()
    content = Any(type_url=COLUMN_ENCODING, value=encoding.SerializeToString())
    direct = file2_pb2.DirectEncoding(encoding=content.SerializeToString(deterministic=True))
    return file2_pb2.Encoding(direct=direct).SerializeToString(deterministic=True)
