"""Rows by position, row id or address, in the order asked for."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa

from alance.errors import InvalidInputError, NotFoundError
from alance.file.batches import empty_batch, empty_columns, side_by_side
from alance.file.fragment import open_fragment
from alance.file.open import open_file
from alance.file.taken import TakenRows
from alance.file.tracing import describe, note_rows
from alance.format.numbers import to_arrow
from alance.format.plans import together
from alance.io import trace
from alance.io.tasks import all_of
from alance.ops.read.placed import by_fragment, by_position
from alance.ops.read.positions import as_positions
from alance.ops.read.rows import with_meta
from alance.ops.read.warm import learn, warm_files, warm_plan
from alance.ops.version.first_use import load_readers
from alance.ops.version.handle import local_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    from alance.file.fragment import FragmentTask, OpenFragment
    from alance.format.layouts.paged_rows import LocalFile
    from alance.format.plans import Plan
    from alance.format.schema import Schema
    from alance.ops.read.placed import Placed
    from alance.ops.version.projection import Columns, Projection
    from alance.ops.version.snapshot import FragmentHandle, Snapshot, Wanted

INLINE_BYTES: Final = 256 << 10  # encoded; a tenth of a millisecond, as long as a hop to the pool
SHARED_BYTES: Final = 1 << 20  # below this one thread is done before another begins


async def take(snapshot: Snapshot, indices: object, columns: Columns = None) -> pa.Table:
    """Rows by position in the dataset, in the order asked for, repeated as asked.

    Cost: one round of requests when warm (two for full-zip strings without a cached index), one
    hop to the pool; cold, one more for footers and one for deletion vectors of the fragments hit.

    Raises:
        InvalidInputError: a position at or beyond the number of rows.
    """
    wanted = as_positions(indices, "indices")
    firsts = await snapshot.first_rows()
    if len(wanted) and wanted.max() >= firsts[-1]:
        raise InvalidInputError(f"index {wanted.max()}: the dataset has {firsts[-1]} rows")
    return await _take_placed(snapshot, by_position(wanted, firsts), columns, live=True)


async def take_addresses(
    snapshot: Snapshot, addresses: object, columns: Columns = None
) -> pa.Table:
    """Rows by address (fragment id << 32 | row offset), in the order asked for.

    Raises:
        NotFoundError: no such fragment, or the row is deleted or beyond its end.
    """
    wanted = as_positions(addresses, "addresses")
    fragments, offsets = await snapshot.locate_addresses(wanted)
    return await take_located(snapshot, fragments, offsets, columns, live=False)


async def take_rows(snapshot: Snapshot, row_ids: object, columns: Columns = None) -> pa.Table:
    """Rows by row id, in the order asked for: stable ids where the dataset has them.

    Raises:
        NotFoundError: a row id that no live row has.
    """
    wanted = as_positions(row_ids, "row_ids")
    addresses = await snapshot.addresses_of(wanted)
    fragments, offsets = await snapshot.locate_addresses(addresses)
    return await take_located(snapshot, fragments, offsets, columns, live=False)


async def take_located(
    snapshot: Snapshot,
    fragments: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    columns: Columns,
    *,
    live: bool,
) -> pa.Table:
    """Rows by place; `fragments` are positions in the snapshot's list.

    Args:
        live: `offsets` count live rows only; else they are physical, and must not be deleted.
    """
    return await _take_placed(snapshot, by_fragment(fragments, offsets), columns, live=live)


async def _take_placed(
    snapshot: Snapshot, placed: Placed, columns: Columns, *, live: bool
) -> pa.Table:
    """As of `take_located`."""
    await load_readers(snapshot, columns)
    wanted = snapshot.wanted(columns)
    projection, schema = wanted.projection, wanted.schema
    positions, rows, cuts, places = placed
    if not positions:
        return in_order(_nothing(projection, schema), None)
    handles = [snapshot.handles[position] for position in positions]
    await snapshot.recall(handles)
    await _prepare(snapshot, handles, schema)
    if projection.meta:
        await snapshot.load_meta(handles, projection.meta)
    rows_of = []
    for handle, start, stop in zip(handles, cuts, cuts[1:], strict=False):
        mine = rows[start:stop]
        if live and (handle.deleted is not None or mine[-1] >= handle.num_physical_rows):
            mine = handle.physical(mine)
        elif not live:
            _check_live(handle, mine)
        rows_of.append(mine)
    taken = TakenRows(schema, await _tasks(snapshot, handles, rows_of, wanted))

    def finish(batch: pa.RecordBatch) -> pa.Table:
        if projection.meta:
            batch = _with_meta(batch, handles, rows_of, projection)
        return in_order(projection.apply(batch), places)

    begun = trace.now()
    table = await _decode(snapshot, taken, finish)
    note_rows(taken, begun)
    return table


async def _tasks(
    snapshot: Snapshot,
    handles: Sequence[FragmentHandle],
    rows_of: Sequence[npt.NDArray[np.int64]],
    wanted: Wanted,
) -> list[FragmentTask]:
    """The rows of each fragment, fetched."""
    engine = snapshot.engine
    if snapshot.is_remote:
        plan = warm_plan(engine.cache, handles, rows_of, wanted)
        if plan is not None:
            return await engine.drive(plan, "take")
    files = local_files(handles)
    if files:
        warm = warm_files(engine.cache, handles, rows_of, wanted, files)
        if warm is not None:
            return warm
    plans = [
        _take_fragment(snapshot, handle, mine, wanted, files)
        for handle, mine in zip(handles, rows_of, strict=True)
    ]
    is_known = engine.cache.peek(("fragment", handles[0].identity, wanted.key)) is not None
    tasks = await engine.drive(together(plans), "take")
    if files and is_known:
        learn(engine.cache, handles, rows_of, wanted)
    return tasks


async def _decode(
    snapshot: Snapshot, taken: TakenRows, finish: Callable[[pa.RecordBatch], pa.Table]
) -> pa.Table:
    """Decode on the loop what is small and needs no disk, in the pool what is not, and by all
    its threads what is large.
    """
    pool, num_bytes = snapshot.engine.pool, taken.num_bytes
    if num_bytes <= INLINE_BYTES:
        batch = taken.decode(wait=False)
        if batch is not None:
            table = finish(batch)
            await pool.share_turn()
            return table
    if num_bytes <= SHARED_BYTES:
        return await pool.run(lambda: finish(_all_of(taken)))
    parts = taken.split(snapshot.session.decode_threads)
    batches: list[pa.RecordBatch | None] = [None] * len(parts)
    left = [*range(len(parts))]

    def decode(number: int) -> pa.Table | None:
        batches[number] = _all_of(parts[number])
        is_last = left.pop() == 0  # each thread has another answer
        return finish(side_by_side(cast("list[pa.RecordBatch]", batches))) if is_last else None

    tables = await all_of(pool.run(partial(decode, number)) for number in range(len(parts)))
    return next(table for table in tables if table is not None)


def _all_of(taken: TakenRows) -> pa.RecordBatch:
    batch = taken.decode()
    assert batch is not None
    return batch


async def _prepare(snapshot: Snapshot, handles: Sequence[FragmentHandle], schema: Schema) -> None:
    """Learn deletions, and beside them open the files whose rows can be told only after that."""
    if all(handle.is_prepared for handle in handles):
        return
    await snapshot.resolve_sizes(handles)
    engine = snapshot.engine
    opening = together(
        [
            open_fragment(schema, handle.sources, handle.num_physical_rows, engine.cache)
            for handle in handles
        ]
    )
    await all_of([engine.drive(opening, "open files"), snapshot.prepare(handles)])


def _take_fragment(
    snapshot: Snapshot,
    handle: FragmentHandle,
    rows: npt.NDArray[np.int64],
    wanted: Wanted,
    files: Mapping[str, LocalFile],
) -> Plan[FragmentTask]:
    cache = snapshot.engine.cache
    key = ("fragment", handle.identity, wanted.key)
    opened: OpenFragment | None = cache.peek(key)
    if opened is None:
        # Of callers that waited for the same files, one opens the fragment.
        sources = [one for one in handle.sources if not wanted.ids.isdisjoint(one.columns)]
        yield from together([open_file(one.location, one.file_bytes, cache) for one in sources])
        opened = cache.peek(key)
    if opened is None:
        opened = yield from open_fragment(
            wanted.schema, handle.sources, handle.num_physical_rows, cache
        )
        cache.put(key, opened, opened.num_bytes)
        files = local_files([handle])  # which that has opened
    describe(opened)
    found = opened.take_now(rows, cache, files)
    if found is not None:
        return found
    return (yield from opened.take(rows, cache, guess=snapshot.is_remote, files=files))


def _check_live(handle: FragmentHandle, rows: npt.NDArray[np.int64]) -> None:
    beyond = rows[rows >= handle.num_physical_rows]
    if len(beyond):
        raise NotFoundError(
            f"row offset {beyond[0]} in fragment {handle.id}: "
            f"it has {handle.num_physical_rows} rows"
        )
    gone = rows[~handle.is_live(rows)]
    if len(gone):
        raise NotFoundError(f"row offset {gone[0]} in fragment {handle.id}: the row is deleted")


def _with_meta(
    batch: pa.RecordBatch,
    handles: Sequence[FragmentHandle],
    rows_of: Sequence[npt.NDArray[np.int64]],
    projection: Projection,
) -> pa.RecordBatch:
    """The batch of rows of several fragments, with the meta columns of the projection."""
    parts, first = [], 0
    for handle, rows in zip(handles, rows_of, strict=True):
        part = batch.slice(first, len(rows))
        parts.append(with_meta(part, handle, rows, projection.meta))
        first += len(rows)
    return parts[0] if len(parts) == 1 else pa.concat_batches(parts)


def _nothing(projection: Projection, schema: Schema) -> pa.RecordBatch:
    """The output batch of a take of no rows."""
    arrow = pa.schema([field.to_arrow() for field in schema.fields])
    batch = empty_batch(arrow)
    for name in projection.meta:
        batch = batch.append_column(name, pa.nulls(0, pa.uint64()))
    return projection.apply(batch)


def in_order(batch: pa.RecordBatch, places: npt.NDArray[np.int64] | None) -> pa.Table:
    """The fetched rows in the order asked for: `places` are positions among them; None: as is."""
    if places is not None:
        batch = batch.take(to_arrow(places)) if batch.num_columns else empty_columns(len(places))
    return pa.Table.from_batches([batch])
