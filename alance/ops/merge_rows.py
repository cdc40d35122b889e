"""The new rows of a merge: updated ones with what the source lacks taken from the table, then
inserted ones; both in the order of the source.
"""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.format.numbers import to_arrow
from alance.ops.blob_bytes import with_bytes
from alance.ops.merge_source import pieces
from alance.ops.projection import ROW_ADDRESS
from alance.ops.sources import conform
from alance.ops.take import take_addresses
from alance.ops.write import table_schema

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    import numpy.typing as npt

    from alance.ops.data_files import DataFiles
    from alance.ops.merge_plan import Merge
    from alance.ops.merge_source import HeldSource
    from alance.ops.snapshot import Snapshot

    Rows = npt.NDArray[np.int64]
    U64 = npt.NDArray[np.uint64]

PIECE_ROWS: Final = 64 << 10
TAKEN_ROWS: Final = 16 << 10  # of the table at once


async def write_updated(
    base: Snapshot, merge: Merge, source: HeldSource, files: DataFiles, rows: Rows, places: U64
) -> None:
    """Write the rows that are updated.

    Args:
        rows: numbers of source rows, ascending, repeated where they update several.
        places: addresses of the rows that they update.

    Raises:
        InvalidInputError: nulls in columns that have none.
    """
    if not len(rows):
        return
    schema = table_schema(base.manifest)
    async for batch, start, stop in chosen_rows(source, rows):
        if not merge.lacking:
            await files.write(batch)
            continue
        for first in range(start, stop, TAKEN_ROWS):
            last = min(stop, first + TAKEN_ROWS)
            kept = await _kept(base, merge.lacking, places[first:last])
            part = batch.slice(first - start, last - first)
            await files.write(await base.engine.pool.run(partial(_side, part, kept, schema)))


async def write_inserted(
    base: Snapshot,
    source: HeldSource,
    files: DataFiles,
    matched: npt.NDArray[np.bool_],
) -> None:
    """Write the rows that match none; columns that the source lacks are null.

    Args:
        matched: those that do; shape (source rows,).
    """
    schema = table_schema(base.manifest)
    async for batch, _, _ in chosen_rows(source, np.flatnonzero(~matched)):
        await files.write(await base.engine.pool.run(lambda batch=batch: conform(batch, schema)))  # type: ignore[misc]


async def chosen_rows(
    source: HeldSource, rows: Rows
) -> AsyncGenerator[tuple[pa.RecordBatch, int, int], None]:
    """Source rows by number, a batch at a time, and which of `rows` they are."""
    run = source.rows.scratch.pool.run
    first = 0
    async with aclosing(pieces(source.rows, PIECE_ROWS)) as batches:
        async for batch in batches:
            last = first + batch.num_rows
            start, stop = np.searchsorted(rows, [first, last]).tolist()
            for begin in range(start, stop, PIECE_ROWS):
                end = min(stop, begin + PIECE_ROWS)
                wanted = rows[begin:end] - first
                if len(wanted) < batch.num_rows or (wanted != np.arange(len(wanted))).any():
                    yield (
                        await run(partial(_picked, batch, wanted)),
                        begin,
                        end,
                    )
                else:
                    yield batch, begin, end
            first = last
            if stop == len(rows):
                return


def _picked(batch: pa.RecordBatch, rows: Rows) -> pa.RecordBatch:
    return batch.take(to_arrow(rows))


async def _kept(base: Snapshot, names: tuple[str, ...], places: U64) -> pa.RecordBatch:
    """Columns of the table for rows by address."""
    taken = await take_addresses(base, places.astype(np.int64), list(names))
    batch = taken.combine_chunks().to_batches()[0]
    blobs = [name for name in names if base.schema.field(name).is_blob_v1]
    if not blobs:
        return batch
    batch = batch.append_column(ROW_ADDRESS, to_arrow(places))

    async def one() -> AsyncGenerator[pa.RecordBatch, None]:
        yield batch

    async with aclosing(with_bytes(base, one(), blobs, keep_address=False)) as filled:
        return await anext(filled)


def _side(part: pa.RecordBatch, kept: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows with columns of two batches, as the table has them."""
    arrays, fields = [], []
    for field in schema:
        side = part if part.schema.get_field_index(field.name) >= 0 else kept
        arrays.append(side.column(field.name))
        fields.append(side.schema.field(field.name))
    return conform(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)), schema)
