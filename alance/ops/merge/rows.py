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
from alance.ops.merge.parts import filled
from alance.ops.merge.source import pieces
from alance.ops.read.take import take_addresses
from alance.ops.version.projection import ROW_ADDRESS
from alance.ops.write.blob_moves import moved_blobs, with_payloads
from alance.ops.write.sources import conform
from alance.ops.write.write import table_schema

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    import numpy.typing as npt

    from alance.ops.merge.plan import Merge
    from alance.ops.merge.source import HeldSource
    from alance.ops.version.snapshot import Snapshot
    from alance.ops.write.files import DataFiles

    Rows = npt.NDArray[np.int64]
    U64 = npt.NDArray[np.uint64]

PIECE_ROWS: Final = 64 << 10
TAKEN_ROWS: Final = 16 << 10  # of the table at once, at most
TAKEN_BYTES: Final = 32 << 20  # encoded


async def write_updated(
    base: Snapshot, merge: Merge, source: HeldSource, files: DataFiles, rows: Rows, places: U64
) -> None:
    """Write the rows that are updated.

    Args:
        rows: numbers of source rows, ascending, repeated where they update several.
        places: addresses of the rows that they update.

    Raises:
        InvalidInputError: nulls in columns that have none.
        UnsupportedError: columns that the source lacks have blobs that are not moved.
    """
    if not len(rows):
        return
    names = (*merge.lacking, *merge.partial)
    async for batch, start, stop in chosen_rows(source, rows):
        async with aclosing(completed(base, names, batch, places[start:stop])) as parts:
            async for part in parts:
                await files.write(part)


async def completed(
    base: Snapshot, names: Sequence[str], batch: pa.RecordBatch, places: U64
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Source rows with what they lack taken from the rows that they replace, some at a time.

    Args:
        names: the columns that the source lacks, or has some members of.
        places: addresses of the rows that are replaced; shape (rows of the batch,).

    Raises:
        InvalidInputError: nulls in columns that have none.
        UnsupportedError: these columns have blobs that are not moved.
    """
    if not names:
        yield batch
        return
    schema = table_schema(base.manifest)
    run = base.engine.pool.run
    done = 0
    async with aclosing(_kept(base, names, places)) as taken:
        async for kept in taken:
            part = batch.slice(done, kept.num_rows)
            done += kept.num_rows
            yield await run(partial(_side, part, kept, schema))


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
    run = base.engine.pool.run
    rows = await run(lambda: np.flatnonzero(~matched))
    async for batch, _, _ in chosen_rows(source, rows):
        await files.write(await run(partial(conform, batch, schema)))


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


async def _kept(
    base: Snapshot, names: Sequence[str], places: U64
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Columns of the table for rows by address, some rows at a time."""
    blobs = moved_blobs(base, names)
    count = _rows_at_once(base)

    async def taken() -> AsyncGenerator[pa.RecordBatch, None]:
        for start in range(0, len(places), count):
            part = places[start : start + count]
            table = await take_addresses(base, part.astype(np.int64), list(names))
            batch = table.combine_chunks().to_batches()[0]
            yield batch.append_column(ROW_ADDRESS, to_arrow(part)) if blobs else batch

    if not blobs:
        async for batch in taken():
            yield batch
        return
    async with aclosing(with_payloads(base, taken(), blobs, keep_address=False)) as filled:
        async for batch in filled:
            yield batch


def _rows_at_once(base: Snapshot) -> int:
    """How many rows are taken together, by what one has in the table's files on average."""
    rows = sum(handle.num_physical_rows for handle in base.handles)
    files = (file for handle in base.handles for file in handle.fragment.files)
    num_bytes = sum(file.num_bytes for file in files)
    return int(min(TAKEN_ROWS, max(1, TAKEN_BYTES * max(1, rows) // max(1, num_bytes))))


def _side(part: pa.RecordBatch, kept: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows with columns of two batches, as the table has them."""
    arrays, fields = [], []
    for field in schema:
        sides = [one.column(field.name) for one in (part, kept) if field.name in one.schema.names]
        arrays.append(sides[0] if len(sides) == 1 else filled(*sides))
        fields.append(field.with_type(arrays[-1].type))
    return conform(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)), schema)
