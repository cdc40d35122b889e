"""Scans that give blobs as bytes: `blob_handling="all_binary"`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from alance.format.numbers import as_numbers
from alance.format.plans import ByteRange
from alance.ops.projection import ROW_ADDRESS, project

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence

    from alance.ops.projection import Columns
    from alance.ops.snapshot import Snapshot


def blob_columns(snapshot: Snapshot, columns: Columns) -> tuple[str, ...]:
    """The output columns that are whole blob columns of the table."""
    found = []
    for output in project(snapshot.schema, columns, flat=True).outputs:
        if len(output.path) == 1 and not output.is_meta:
            field = snapshot.schema.field(output.path[0])
            if field.is_blob_v1 or field.is_blob_v2:
                found.append(output.name)
    return tuple(found)


def bytes_field(snapshot: Snapshot, name: str) -> pa.Field:
    """The output field of a blob column given as bytes."""
    field = snapshot.schema.field(name)
    arrow = field.to_arrow()
    return pa.field(
        name, pa.large_binary(), arrow.nullable, arrow.metadata if field.is_blob_v1 else None
    )


def bytes_schema(snapshot: Snapshot, schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """A scan's schema with some blob columns as bytes."""
    for name in names:
        schema = schema.set(schema.get_field_index(name), bytes_field(snapshot, name))
    return schema


async def with_bytes(
    snapshot: Snapshot,
    batches: AsyncIterator[pa.RecordBatch],
    names: Sequence[str],
    *,
    keep_address: bool,
) -> AsyncGenerator[pa.RecordBatch, None]:
    """The batches with blobs in place of their descriptions; all of a batch are read at once.

    Args:
        batches: with the column `_rowaddr`.
        keep_address: leave `_rowaddr` in the output.
    """
    async for batch in batches:
        filled = batch
        for name in names:
            filled = await _filled(snapshot, filled, name)
        yield filled if keep_address else filled.drop_columns([ROW_ADDRESS])


async def _filled(snapshot: Snapshot, batch: pa.RecordBatch, name: str) -> pa.RecordBatch:
    await snapshot.engine.pool.load("alance.ops.blob_moves", "alance.ops.blob_places")
    from alance.ops.blob_moves import binary_array
    from alance.ops.blob_places import places_of

    fragments = as_numbers(batch.column(ROW_ADDRESS)) >> np.uint64(32)
    field = snapshot.schema.field(name)
    places = await places_of(snapshot, field, batch.column(name), fragments)
    wanted = [
        ByteRange(place.location, place.start, place.start + place.num_bytes)
        for place in places
        if place is not None and place.num_bytes
    ]
    found = iter(await snapshot.engine.scheduler.read(wanted, reason="blobs", bulk=True))
    parts = [b"" if place is None or not place.num_bytes else next(found) for place in places]
    valid = np.array([place is not None for place in places], np.bool_)
    array = await snapshot.engine.pool.run(lambda: binary_array(parts, valid))
    index = batch.schema.get_field_index(name)
    return batch.set_column(index, bytes_field(snapshot, name), array)
