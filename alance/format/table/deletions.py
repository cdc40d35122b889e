"""Deletion vectors: the deleted rows of a fragment, read from and written to files.

A deletion file is either an Arrow IPC file of one batch with one column `row_id` (uint32, not
nullable), or a portable 32-bit roaring bitmap. Both have the physical offsets of all rows deleted
so far.

Source: docs/format/table.md, "Deletion files"; Apache Arrow columnar format, "Serialization and
interprocess communication".
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.format.numbers import as_numbers, places_in, to_arrow
from alance.format.proto import table_pb2
from alance.format.table.naming import deletion_name
from alance.format.table.roaring import parse_roaring, roaring_bytes

if TYPE_CHECKING:
    from alance.base.arrays import Int64s, Mask

ARROW_PADDING_BYTES: Final = 64  # bytes; Arrow pads a buffer by at most this much
ARROW_MAX_ROWS: Final = 5000  # rows; more deleted rows are written as a bitmap
DELETED_ROW_FIELD: Final = pa.field("row_id", pa.uint32(), nullable=False)
# Fields of flatbuffer tables, see `batch_sizes`.
BATCHES: Final = 3
HEADER_FIELD: Final = 2
FOOTER_END: Final = 10  # i32 size of the footer, "ARROW1"
LENGTH_FIELD, BUFFERS_FIELD, COMPRESSION_FIELD = 0, 2, 3
UNCOMPRESSED_SIZE: Final = -1  # declared size of a buffer that is stored uncompressed


@dataclass(frozen=True, slots=True)
class NewDeletionFile:
    """Deletion file to write before the manifest that refers to it.

    Attributes:
        name: file name inside `_deletions/` of the table's own root.
    """

    fragment_id: int
    name: str
    content: bytes
    record: table_pb2.DeletionFile


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """Deleted rows of a fragment, as sorted, unique physical offsets."""

    rows: Int64s  # shape (n,)
    num_physical_rows: int

    @property
    def num_bytes(self) -> int:
        return self.rows.nbytes + 100

    def live_mask(self, start: int, stop: int) -> Mask | None:
        """Return the mask of live rows in a range of physical rows; None if all are live."""
        first, last = np.searchsorted(self.rows, (start, stop))
        if first == last:
            return None
        mask = np.ones(stop - start, np.bool_)
        mask[self.rows[first:last] - start] = False
        return mask

    def contains(self, rows: Int64s) -> Mask:
        """Return the mask of deleted rows among physical rows."""
        return places_in(self.rows, rows)[1]

    def to_physical(self, offsets: Int64s) -> Int64s:
        """Convert positions among live rows to physical offsets.

        There are `rows[i] - i` live rows before the i-th deleted row. A deleted row is before live
        row n if at most n live rows are before it.
        """
        live_before = self.rows - np.arange(len(self.rows))
        return offsets + np.searchsorted(live_before, offsets, "right")

    def to_live(self, rows: Int64s) -> Int64s:
        """Return the number of live rows before each physical row."""
        return rows - np.searchsorted(self.rows, rows)


def parse_arrow(content: memoryview, num_physical_rows: int) -> DeletionVector:
    """Parse a deletion vector from an Arrow IPC file."""
    try:
        with pa.ipc.open_file(pa.py_buffer(content)) as reader:
            if reader.num_record_batches != 1:
                raise CorruptFileError(
                    f"deletion file: {reader.num_record_batches} batches, expected one"
                )
            schema = reader.schema
        if schema.names != ["row_id"] or not schema.field(0).equals(DELETED_ROW_FIELD):
            raise CorruptFileError(f"deletion file: schema {schema}, expected {DELETED_ROW_FIELD}")
        message = pa.ipc.read_message(pa.py_buffer(content[batch_place(content) :]))
        _check_sizes(message, num_physical_rows)
        batch = pa.ipc.read_record_batch(message, schema)
        batch.validate(full=True)
    except (pa.ArrowException, OSError, EOFError, ValueError) as error:
        raise CorruptFileError(f"deletion file: {error}") from error
    column = batch.column(0)
    if column.null_count:
        raise CorruptFileError(f"deletion file: {column.null_count} nulls")
    rows = np.unique(as_numbers(column).astype(np.int64))
    if len(rows) and rows[-1] >= num_physical_rows:
        raise CorruptFileError(
            f"deletion file: row {rows[-1]}, the fragment has {num_physical_rows}"
        )
    return DeletionVector(rows, num_physical_rows)


def parse_bitmap(content: memoryview, num_physical_rows: int) -> DeletionVector:
    """Parse a deletion vector from a portable roaring bitmap."""
    try:
        rows = parse_roaring(content, num_physical_rows)
    except CorruptFileError as error:
        raise CorruptFileError(
            f"deletion file: {error}; the fragment has {num_physical_rows} rows"
        ) from error
    return DeletionVector(rows, num_physical_rows)


def _check_sizes(message: pa.ipc.Message, num_physical_rows: int) -> None:
    """Check the sizes that a batch declares before memory is allocated for them."""
    if message.type != "record batch":
        raise CorruptFileError(f"deletion file: {message.type}, expected a record batch")
    length, buffers = batch_sizes(memoryview(message.metadata), memoryview(message.body))
    if (
        length > num_physical_rows
        or max(buffers, default=0) > 4 * num_physical_rows + ARROW_PADDING_BYTES
    ):
        raise CorruptFileError(
            f"deletion file: {length} rows in buffers of {buffers} bytes, the fragment has "
            f"{num_physical_rows}"
        )


def new_deletion_file(
    fragment_id: int,
    rows: Int64s,
    read_version: int,
    *,
    as_bitmap: bool = False,
    file_id: int | None = None,
) -> NewDeletionFile:
    """Build the deletion file of a fragment.

    Args:
        rows: offsets of all rows deleted so far; sorted and unique; shape (n,).
        file_id: 64-bit id in the file name; None for a random one.
    """
    import secrets

    as_bitmap = as_bitmap or len(rows) > ARROW_MAX_ROWS
    record = table_pb2.DeletionFile(
        file_type=table_pb2.DeletionFile.BITMAP
        if as_bitmap
        else table_pb2.DeletionFile.ARROW_ARRAY,
        read_version=read_version,
        id=secrets.randbits(64) if file_id is None else file_id,
        num_deleted_rows=len(rows),
    )
    name = deletion_name(fragment_id, read_version, record.id, is_bitmap=as_bitmap)
    content = roaring_bytes(rows) if as_bitmap else arrow_bytes(rows)
    return NewDeletionFile(fragment_id, name, content, record)


def arrow_bytes(rows: Int64s) -> bytes:
    """Return the content of an Arrow deletion file of sorted and unique offsets."""
    schema = pa.schema([DELETED_ROW_FIELD])
    batch = pa.RecordBatch.from_arrays([to_arrow(rows.astype(np.uint32))], schema=schema)
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def batch_place(content: memoryview) -> int:
    """Return the position of a file's first record batch message, by the footer."""
    end = len(content) - FOOTER_END
    length = _number(content, "<i", end)
    footer = content[end - length : end] if 0 < length <= end else content[:0]
    place = _field(footer, _follow(footer, 0), BATCHES)
    start = _number(footer, "<q", _follow(footer, place) + 4) if place else -1
    if not 0 <= start < end:
        raise CorruptFileError(f"Arrow file of {len(content)} bytes: a batch at {start}")
    return start


def batch_sizes(metadata: memoryview, body: memoryview) -> tuple[int, list[int]]:
    """Return the number of rows of a record batch, and the decompressed size of each buffer.

    The first eight bytes of a compressed buffer declare its decompressed size, and pyarrow
    allocates as much. The message is a flatbuffer. A table in it begins with the signed distance
    back to its vtable. The vtable has the u16 sizes of itself and of the table, then the offset of
    each field in the table (0 if absent).

      Footer:       version, schema, dictionaries, batches (structs: i64 place, i32 size, i64 size)
      Message:      version, header type, header (a table), body length, ..
      RecordBatch:  length (i64), nodes, buffers (structs: i64 offset, i64 length), compression

    Args:
        metadata: flatbuffer of a message whose header is a record batch.
    """
    batch = _follow(metadata, _field(metadata, _follow(metadata, 0), HEADER_FIELD))
    place = _field(metadata, batch, LENGTH_FIELD)
    length = _number(metadata, "<q", place) if place else 0
    place = _field(metadata, batch, BUFFERS_FIELD)
    vector = _follow(metadata, place) if place else 0
    count = _number(metadata, "<I", vector) if place else 0
    is_compressed = bool(_field(metadata, batch, COMPRESSION_FIELD))
    sizes = []
    for entry in range(vector + 4, vector + 4 + 16 * count, 16):
        start, size = _number(metadata, "<q", entry), _number(metadata, "<q", entry + 8)
        if start < 0 or size < 0 or start + size > len(body):
            raise CorruptFileError(
                f"Arrow message: buffer of {size} bytes at {start}, the body has {len(body)}"
            )
        stated = _number(body, "<q", start) if is_compressed and size >= 8 else UNCOMPRESSED_SIZE
        sizes.append(size if stated == UNCOMPRESSED_SIZE else stated)
    if length < 0 or min(sizes, default=0) < 0:
        raise CorruptFileError(f"Arrow message: {length} rows in buffers of {sizes} bytes")
    return length, sizes


def _number(content: memoryview, form: str, place: int) -> int:
    if not 0 <= place <= len(content) - struct.calcsize(form):
        raise CorruptFileError(f"Arrow message of {len(content)} bytes: a number at {place}")
    return int(struct.unpack_from(form, content, place)[0])


def _follow(content: memoryview, place: int) -> int:
    return place + _number(content, "<I", place)


def _field(content: memoryview, table: int, number: int) -> int:
    """Return the position of a field of a flatbuffer table; 0 if the field is absent."""
    vtable = table - _number(content, "<i", table)
    if 4 + 2 * number + 2 > _number(content, "<H", vtable):
        return 0
    offset = _number(content, "<H", vtable + 4 + 2 * number)
    return table + offset if offset else 0
