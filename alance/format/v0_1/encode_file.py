"""The bytes of a 0.1 file: batches, page table, statistics, dictionaries, schema, metadata.

Source: docs/format/file-0.1.md, "File skeleton" and "Rules for a 0.1 writer".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from alance.errors import InvalidInputError, UnsupportedError
from alance.format.container import MAGIC
from alance.format.proto import file_pb2, table_pb2
from alance.format.table.dictionaries import place_values
from alance.format.v0_1.encode import check_types, pages_of
from alance.format.v0_1.encode_dictionary import values_of
from alance.format.v0_1.encode_statistics import Gathered
from alance.format.v0_1.fields import is_list, page_bits
from alance.format.v0_1.metadata import FOOTER, LENGTH
from alance.format.v0_1.statistics import has_statistics

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from google.protobuf.message import Message

    from alance.format.blocks import Bytes
    from alance.format.field import Field
    from alance.format.schema import Schema
    from alance.format.v0_1.encode import Page

MAX_ROWS: Final = (1 << 31) - 1  # of a file


class BatchFileBuilder:
    """Where everything of one file goes; the caller appends what methods return, in order.

    Not safe to share among threads. What it keeps is the page table and statistics.

    Attributes:
        num_bytes: bytes given out so far; after `finish` the size of the file.
        lost: names of fields that had nulls, which the file does not keep.
    """

    def __init__(self, schema: Schema, *, statistics: bool = True) -> None:
        """An empty file.

        Args:
            statistics: keep null counts and bounds of each batch.

        Raises:
            UnsupportedError: a type that files of 0.1 do not hold.
        """
        for field in schema.fields:
            check_types(field)
        if not any(one.logical_type != "struct" for one in schema.walk()):
            raise UnsupportedError("a file of version 0.1 without any values")
        self.num_bytes = 0
        self.lost: dict[str, None] = {}
        self._schema = schema
        self._first_rows = [0]
        self._table: dict[int, list[tuple[int, int]]] = {one.id: [] for one in schema.walk()}
        self._dictionaries = values_of(schema.walk())
        measured = schema.fields if statistics else ()
        self._statistics = {
            one.id: Gathered(one) for top in measured for one in _outside_lists(top)
        }

    @property
    def num_rows(self) -> int:
        """Rows so far."""
        return self._first_rows[-1]

    @property
    def field_ids(self) -> list[int]:
        """All fields of the file, ascending."""
        return sorted(self._table)

    def add_batch(self, arrays: Sequence[pa.Array]) -> list[Bytes]:
        """The bytes of the next batch: a page a field.

        Args:
            arrays: of each field of the schema, all of the same length.

        Raises:
            InvalidInputError: values that do not fit the schema, or too many rows for a file.
        """
        num_rows = self.num_rows + len(arrays[0])
        if num_rows > MAX_ROWS:
            raise InvalidInputError(f"more than {MAX_ROWS} rows in a file of version 0.1")
        chunks: list[Bytes] = []
        for field, array in zip(self._schema.fields, arrays, strict=True):
            for page in pages_of(field, array, self._dictionaries):
                self._place(page, chunks)
        self._first_rows.append(num_rows)
        return chunks

    def finish(self) -> list[Bytes]:
        """The end of the file."""
        chunks: list[Bytes] = []
        metadata = file_pb2.Metadata(batch_offsets=self._first_rows if self.num_rows else [])
        if self.num_rows:
            metadata.page_table_position = self.num_bytes
            self._put(chunks, self._table_bytes())
            self._add_statistics(metadata, chunks)
        manifest = table_pb2.Manifest(version=1)
        for values in self._dictionaries.values():
            values.keep()
        manifest.fields.extend(one.message for one in self._schema.walk())
        for key, value in self._schema.metadata.items():
            manifest.schema_metadata[key] = value.encode()
        manifest.data_format.file_format, manifest.data_format.version = "lance", "0.1"
        for part in place_values(manifest.fields, self.num_bytes):
            self._put(chunks, part)
        metadata.manifest_position = self.num_bytes
        self._put(chunks, _message(manifest))
        start = self.num_bytes
        self._put(chunks, _message(metadata) + FOOTER.pack(start, 0, 2, MAGIC))
        return chunks

    def _place(self, page: Page, chunks: list[Bytes]) -> None:
        start, field = self.num_bytes, page.field
        body = page.body
        self._put(chunks, page.data)
        if page.offsets is not None:
            body = (page.offsets + start).astype("<i8").view(np.uint8)
        self._table[field.id].append((self.num_bytes, page.length))
        assert body is not None
        self._put(chunks, body)
        if page.is_lossy:
            self.lost[field.name] = None
        if page.leaf is not None and field.id in self._statistics:
            self._statistics[field.id].add(page.leaf)

    def _put(self, chunks: list[Bytes], content: Bytes | bytes) -> None:
        if len(content):
            data = np.frombuffer(content, np.uint8) if isinstance(content, bytes) else content
            chunks.append(data)
            self.num_bytes += len(content)

    def _table_bytes(self) -> bytes:
        """Pages by field id from the smallest to the largest, zeros where there are none."""
        ids, count = self.field_ids, len(self._first_rows) - 1
        table = np.zeros((ids[-1] - ids[0] + 1, count, 2), "<i8")
        for field_id, pages in self._table.items():
            if pages:
                table[field_id - ids[0]] = pages
        return table.tobytes()

    def _add_statistics(self, metadata: file_pb2.Metadata, chunks: list[Bytes]) -> None:
        kept = [one for _, one in sorted(self._statistics.items())]
        if not kept:
            return
        into, count = metadata.statistics, len(self._first_rows) - 1
        table: list[tuple[int, int]] = []
        for one in kept:
            into.schema.extend(one.messages(len(table)))
            table.append((0, 0))
            for content in one.pages():
                if isinstance(content, list):
                    sizes = np.zeros(count + 1, np.int64)
                    np.cumsum([len(text) for text in content], out=sizes[1:])
                    offsets = sizes + self.num_bytes
                    self._put(chunks, b"".join(content))
                    content = offsets.astype("<i8").tobytes()
                table.append((self.num_bytes, count))
                self._put(chunks, content)
        into.fields.extend(range(len(table)))
        into.page_table_position = self.num_bytes
        self._put(chunks, np.array(table, "<i8").tobytes())


def _outside_lists(field: Field) -> Iterator[Field]:
    """The leaves that have statistics."""
    if is_list(field):
        return
    if page_bits(field) is not None and has_statistics(field):
        yield field
    for child in field.children:
        yield from _outside_lists(child)


def _message(message: Message) -> bytes:
    content = message.SerializeToString()
    return LENGTH.pack(len(content)) + bytes(content)
