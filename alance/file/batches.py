"""Construction, selection, joining and sizes of Arrow batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa

from alance.errors import BatchTooLargeError
from alance.format.numbers import to_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from alance.base.arrays import Int64s
    from alance.format.layouts.fields import LeafColumn


RowsT = TypeVar("RowsT", pa.Array, pa.RecordBatch)


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch without rows; fields may have extension types at any depth."""
    arrays = [pa.nulls(0, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def empty_columns(num_rows: int) -> pa.RecordBatch:
    """Return a batch with `num_rows` rows and no columns."""
    struct = pa.StructArray.from_buffers(pa.struct([]), num_rows, [None])
    return pa.RecordBatch.from_struct_array(struct)


def in_order(rows: RowsT, order: Int64s | None) -> RowsT:
    """Select rows of an array or batch by number; if `order` is None, return all without a copy.

    Raises:
        BatchTooLargeError: strings have more bytes than 32-bit offsets can address.
    """
    if order is None:
        return rows
    if isinstance(rows, pa.RecordBatch) and not rows.num_columns:
        return empty_columns(len(order))
    from alance.base.compute import call_function

    # `rows.take` makes the same call, but takes twice as long, because it creates default options.
    try:
        return call_function("take", [rows, to_arrow(order)])
    except pa.ArrowInvalid as error:
        raise BatchTooLargeError(f"{len(order)} rows: {error}: read fewer rows at once") from error


def side_by_side(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Combine the columns of batches that have the same rows."""
    if len(batches) == 1:
        return batches[0]
    columns = [column for batch in batches for column in batch.columns]
    schema = pa.schema([field for batch in batches for field in batch.schema])
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def fixed_bytes(arrow: pa.DataType) -> float:
    """Return the bytes per value of a fixed-width type; 0 for other types."""
    if pa.types.is_fixed_size_list(arrow):
        return float(arrow.list_size * fixed_bytes(arrow.value_type))
    try:
        return float(arrow.bit_width) / 8
    except ValueError:
        return 0.0


def leaf_bytes(leaf: LeafColumn) -> float:
    """Return the bytes per row of a fixed-width leaf; 0 for other leaves."""
    own: float = leaf.field.derive("bytes", lambda field: fixed_bytes(field.arrow_type))
    return leaf.multiplier * own


def one_batch(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenate one or more batches of the same schema; a single batch is not copied.

    Raises:
        BatchTooLargeError: the rows do not fit into one batch.
    """
    return batches[0] if len(batches) == 1 else _concatenated(pa.concat_batches, batches)


def one_array(arrays: Sequence[pa.Array]) -> pa.Array:
    """Concatenate one or more arrays of the same type; a single array is not copied.

    Raises:
        BatchTooLargeError: the values do not fit into one array.
    """
    return arrays[0] if len(arrays) == 1 else _concatenated(pa.concat_arrays, arrays)


def _concatenated(concat: Callable[[Sequence[RowsT]], RowsT], parts: Sequence[RowsT]) -> RowsT:
    try:
        return concat(parts)
    except pa.ArrowInvalid as error:
        raise BatchTooLargeError(f"{error}: read fewer rows at once") from error


MANY_CALLS_BYTES: Final = 1 << 20  # work that no caller does on the event loop
COLUMN_CALL_BYTES: Final = 4 << 10  # bytes; decoding them takes as long as one Arrow call


def work_bytes(batches: Iterable[pa.RecordBatch]) -> int:
    """Estimate the CPU work of one Arrow call per column, as a number of bytes to decode.

    Ignores the bytes of rows with many columns, since asking for them takes a call per column.
    """
    own = [*batches]
    work: int = COLUMN_CALL_BYTES * sum([batch.num_columns for batch in own])
    if work < MANY_CALLS_BYTES:
        work += sum([int(batch.nbytes) for batch in own])
    return work
