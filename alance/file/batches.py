"""Arrow batches of special shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa

from alance.errors import BatchTooLargeError
from alance.format.numbers import to_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from alance.arrays import Int64s
    from alance.format.field import Field
    from alance.format.layouts.fields import LeafColumn
    from alance.format.schema import Schema


RowsT = TypeVar("RowsT", pa.Array, pa.RecordBatch)


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """A batch of no rows; of any types, extension types inside of others too."""
    arrays = [pa.nulls(0, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def empty_columns(num_rows: int) -> pa.RecordBatch:
    """A batch of no columns that still knows its number of rows."""
    struct = pa.StructArray.from_buffers(pa.struct([]), num_rows, [None])
    return pa.RecordBatch.from_struct_array(struct)


def in_order(rows: RowsT, order: Int64s | None) -> RowsT:
    """Select rows of an array or batch by number; None selects all, without a copy.

    Raises:
        BatchTooLargeError: the rows have more bytes of strings than 32-bit offsets can address.
    """
    if order is None:
        return rows
    if isinstance(rows, pa.RecordBatch) and not rows.num_columns:
        return empty_columns(len(order))
    from alance.compute import call_function

    # What `rows.take` calls, which takes as long again to make the options that are usual.
    try:
        return call_function("take", [rows, to_arrow(order)])
    except pa.ArrowInvalid as error:
        raise BatchTooLargeError(f"{len(order)} rows: {error}: read fewer rows at once") from error


def side_by_side(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The columns of batches of the same rows in one."""
    if len(batches) == 1:
        return batches[0]
    columns = [column for batch in batches for column in batch.columns]
    schema = pa.schema([field for batch in batches for field in batch.schema])
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def completed(
    schema: Schema,
    batches: Sequence[tuple[Sequence[Field], pa.RecordBatch]],
    column: Callable[[Field], pa.Array | None],
) -> pa.RecordBatch | None:
    """The batch of a schema, of which batches have some fields; None where a column is None.

    Args:
        batches: with their fields, in the order of the schema.
        column: gives each other one.
    """
    if len(batches) == 1 and batches[0][1].num_columns == len(schema.fields):
        return batches[0][1]
    at_hand = {
        field.id: (batch, place) for fields, batch in batches for place, field in enumerate(fields)
    }
    arrays = []
    for field in schema.fields:
        batch, place = at_hand.get(field.id, (None, 0))
        array = column(field) if batch is None else batch.column(place)
        if array is None:
            return None
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema.read_arrow())


def fixed_bytes(arrow: pa.DataType) -> float:
    """Bytes of a value of a fixed-width type; 0 for others."""
    if pa.types.is_fixed_size_list(arrow):
        return float(arrow.list_size * fixed_bytes(arrow.value_type))
    try:
        return float(arrow.bit_width) / 8
    except ValueError:
        return 0.0


def leaf_bytes(leaf: LeafColumn) -> float:
    """Bytes of a row of a leaf of fixed width; 0 for others."""
    return leaf.multiplier * leaf.field.derive("bytes", _fixed_bytes)


def _fixed_bytes(field: Field) -> float:
    return fixed_bytes(field.arrow_type)


def batch_bytes(batch: pa.RecordBatch) -> int:
    """Memory of the rows of a batch, about: of a slice its share."""
    return sum(column.nbytes for column in batch.columns)


def one_batch(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenate batches of one schema, at least one; a single batch is not copied.

    Raises:
        BatchTooLargeError: the rows do not fit into one batch.
    """
    return batches[0] if len(batches) == 1 else _concatenated(pa.concat_batches, batches)


def one_array(arrays: Sequence[pa.Array]) -> pa.Array:
    """Concatenate arrays of one type, at least one; a single array is not copied.

    Raises:
        BatchTooLargeError: the values do not fit into one array.
    """
    return arrays[0] if len(arrays) == 1 else _concatenated(pa.concat_arrays, arrays)


def _concatenated(concat: Callable[[Sequence[RowsT]], RowsT], parts: Sequence[RowsT]) -> RowsT:
    try:
        return concat(parts)
    except pa.ArrowInvalid as error:
        raise BatchTooLargeError(f"{error}: read fewer rows at once") from error


COLUMN_BYTES: Final = 4 << 10  # what a call of Arrow for a column costs, in bytes that are decoded


def work_bytes(batches: Iterable[pa.RecordBatch]) -> int:
    """What a step over all columns of batches costs, in bytes of columns that are decoded."""
    return sum(batch.nbytes + COLUMN_BYTES * batch.num_columns for batch in batches)
