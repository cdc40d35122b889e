"""Deletion vectors: which rows of a fragment are deleted, from and to files.

Two forms: an Arrow IPC file of one batch with one column `row_id` (uint32, not nullable), and a
portable 32-bit roaring bitmap. Both hold physical row offsets, all that were deleted so far.

Source: docs/format/table.md, "Deletion files".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.errors import CorruptFileError
from alance.format.arrow_sizes import batch_place, batch_sizes
from alance.format.numbers import as_numbers, to_arrow
from alance.format.proto import table_pb2
from alance.format.table.naming import deletion_name
from alance.format.table.roaring import parse_roaring, roaring_bytes
from alance.records import dataclass

if TYPE_CHECKING:
    from alance.arrays import Int64s, Mask

PADDING: Final = 64  # bytes that Arrow may fill a buffer up by
ARROW_MAX_ROWS: Final = 5000  # more are written as a bitmap
ROW_ID_FIELD: Final = pa.field("row_id", pa.uint32(), nullable=False)


@dataclass(frozen=True, slots=True)
class NewDeletionFile:
    """A deletion file that must be written before the manifest that names it.

    Attributes:
        fragment_id: whose rows it has.
        name: the file's name inside `_deletions/` of the table's own root.
        record: what the fragment says of it.
    """

    fragment_id: int
    name: str
    content: bytes
    record: table_pb2.DeletionFile


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """Deleted rows of a fragment: physical row offsets, sorted and unique."""

    rows: Int64s  # shape (n,)
    num_physical_rows: int

    @property
    def num_bytes(self) -> int:
        """Bytes held."""
        return self.rows.nbytes + 100

    def live_mask(self, start: int, stop: int) -> Mask | None:
        """Which physical rows of a range are live; None: all of them."""
        first, last = np.searchsorted(self.rows, (start, stop))
        if first == last:
            return None
        mask = np.ones(stop - start, np.bool_)
        mask[self.rows[first:last] - start] = False
        return mask

    def contains(self, rows: Int64s) -> Mask:
        """Which of some physical rows are deleted."""
        places = np.searchsorted(self.rows, rows)
        places[places == len(self.rows)] = 0
        return self.rows[places] == rows if len(self.rows) else np.zeros(len(rows), np.bool_)

    def to_physical(self, offsets: Int64s) -> Int64s:
        """Physical row offsets of the n-th live rows.

        Deleted row i has `rows[i] - i` live rows before it, so as many deleted rows come before
        live row n as have at most n.
        """
        live_before = self.rows - np.arange(len(self.rows))
        return offsets + np.searchsorted(live_before, offsets, "right")

    def to_live(self, rows: Int64s) -> Int64s:
        """How many live rows come before some physical rows."""
        return rows - np.searchsorted(self.rows, rows)


def parse_arrow(content: memoryview, num_physical_rows: int) -> DeletionVector:
    """A deletion vector from an Arrow IPC file.

    Raises:
        CorruptFileError: not one batch of one column as told, or rows beyond the fragment.
    """
    try:
        with pa.ipc.open_file(pa.py_buffer(content)) as reader:
            if reader.num_record_batches != 1:
                raise CorruptFileError(
                    f"deletion file: {reader.num_record_batches} batches, expected one"
                )
            schema = reader.schema
        if schema.names != ["row_id"] or not schema.field(0).equals(ROW_ID_FIELD):
            raise CorruptFileError(f"deletion file: schema {schema}, expected {ROW_ID_FIELD}")
        message = pa.ipc.read_message(pa.py_buffer(content[batch_place(content) :]))
        _check_sizes(message, num_physical_rows)
        batch = pa.ipc.read_record_batch(message, schema)
        batch.validate(full=True)
    except (pa.ArrowException, OSError, EOFError, ValueError) as error:
        raise CorruptFileError(f"deletion file: {error}") from error
    column = batch.column(0)
    if column.null_count:
        raise CorruptFileError(f"deletion file: {column.null_count} nulls")
    return _checked(as_numbers(column).astype(np.int64), num_physical_rows)


def parse_bitmap(content: memoryview, num_physical_rows: int) -> DeletionVector:
    """A deletion vector from a portable roaring bitmap.

    Raises:
        CorruptFileError: no bitmap, or rows beyond the fragment.
    """
    try:
        rows = parse_roaring(content, num_physical_rows)
    except CorruptFileError as error:
        raise CorruptFileError(
            f"deletion file: {error}; the fragment has {num_physical_rows} rows"
        ) from error
    return DeletionVector(rows, num_physical_rows)


def _check_sizes(message: pa.ipc.Message, num_physical_rows: int) -> None:
    """Check the sizes that a batch states, before memory is taken for them.

    A compressed buffer begins with the size of what it holds, which Arrow allocates unasked.

    Raises:
        CorruptFileError: more than the fragment has rows; no batch.
    """
    if message.type != "record batch":
        raise CorruptFileError(f"deletion file: {message.type}, expected a record batch")
    length, buffers = batch_sizes(memoryview(message.metadata), memoryview(message.body))
    if length > num_physical_rows or max(buffers, default=0) > 4 * num_physical_rows + PADDING:
        raise CorruptFileError(
            f"deletion file: {length} rows in buffers of {buffers} bytes, the fragment has "
            f"{num_physical_rows}"
        )


def _checked(rows: Int64s, num_physical_rows: int) -> DeletionVector:
    unique = np.unique(rows)
    if len(unique) and unique[-1] >= num_physical_rows:
        raise CorruptFileError(
            f"deletion file: row {unique[-1]}, the fragment has {num_physical_rows}"
        )
    return DeletionVector(unique, num_physical_rows)


def new_deletion_file(
    fragment_id: int,
    rows: Int64s,
    read_version: int,
    *,
    as_bitmap: bool = False,
    file_id: int | None = None,
) -> NewDeletionFile:
    """The file of a fragment's deleted rows.

    Args:
        rows: all rows that were deleted so far, physical offsets, sorted and unique; shape (n,).
        read_version: the version that `rows` was computed from.
        as_bitmap: a bitmap also where the rows are few.
        file_id: 64 bits; None: random ones.
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
    """The content of an Arrow deletion file; shape (n,)."""
    schema = pa.schema([ROW_ID_FIELD])
    batch = pa.RecordBatch.from_arrays([to_arrow(rows.astype(np.uint32))], schema=schema)
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())
