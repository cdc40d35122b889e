"""Rows by position, row id or address, in the order asked for."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.errors import InvalidInputError, NotFoundError
from alance.file.fragment import empty_batch, empty_columns, open_fragment, side_by_side
from alance.format.numbers import as_numbers, to_arrow
from alance.format.plans import together
from alance.ops.projection import project
from alance.ops.rows import with_meta
from alance.versioning.load import all_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from alance.file.fragment import FragmentTask
    from alance.format.plans import Plan
    from alance.format.schema import Schema
    from alance.ops.projection import Columns, Projection
    from alance.ops.snapshot import FragmentHandle, Snapshot

SHARED_BYTES: Final = 1 << 20  # encoded; below this one thread is done before another begins


def as_positions(values: object, what: str) -> npt.NDArray[np.int64]:
    """Non-negative integers from a list, numpy or Arrow array; shape (n,).

    Raises:
        InvalidInputError: anything else.
    """
    if isinstance(values, pa.Array | pa.ChunkedArray):
        if values.null_count:
            raise InvalidInputError(f"{what}: {values.null_count} of them are null")
        if len(values) and not pa.types.is_integer(values.type):
            raise InvalidInputError(f"{what}: expected integers, got {values.type}")
        values = as_numbers(values) if len(values) else []
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(f"{what}: {error}") from error
    if array.size == 0 and array.ndim == 1:
        return np.empty(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InvalidInputError(
            f"{what}: expected integers in one dimension, got {array.dtype} of shape {array.shape}"
        )
    if array.dtype.kind == "i" and array.min() < 0:
        raise InvalidInputError(f"{what}: {array.min()} is negative")
    if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
        raise InvalidInputError(f"{what}: {array.max()} is out of range")
    return array.astype(np.int64, copy=False)


async def take(snapshot: Snapshot, indices: object, columns: Columns = None) -> pa.Table:
    """Rows by position in the dataset, in the order asked for, repeated as asked.

    Cost: one round of requests when warm (two for full-zip strings without a cached index), one
    hop to the pool; cold, one more for footers and one for deletion vectors of the fragments hit.

    Raises:
        InvalidInputError: a position at or beyond the number of rows.
    """
    wanted = as_positions(indices, "indices")
    counts = await snapshot.live_counts()
    first = np.concatenate(([0], np.cumsum(counts)))
    if len(wanted) and wanted.max() >= first[-1]:
        raise InvalidInputError(f"index {wanted.max()}: the dataset has {first[-1]} rows")
    fragments = np.searchsorted(first, wanted, "right") - 1
    offsets = wanted - first[fragments]
    return await take_located(snapshot, fragments, offsets, columns, live=True)


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
    projection = project(snapshot.schema, columns, flat=False)
    schema = snapshot.schema.project(projection.fields)
    hit = np.unique(fragments)
    handles = [snapshot.handles[position] for position in hit.tolist()]
    await _prepare(snapshot, handles, schema)
    if projection.meta:
        await snapshot.load_row_ids(handles, projection.meta)
    physical = np.empty(len(offsets), np.int64)
    rows_of: list[npt.NDArray[np.int64]] = []
    places = np.empty(len(offsets), np.int64)  # of each asked row among the rows fetched
    fetched = 0
    for position, handle in zip(hit.tolist(), handles, strict=True):
        mine = fragments == position
        found = handle.physical(offsets[mine]) if live else offsets[mine]
        if not live:
            _check_live(handle, found)
        physical[mine] = found
        rows, back = np.unique(found, return_inverse=True)
        places[mine] = back.reshape(-1) + fetched
        fetched += len(rows)
        rows_of.append(rows)
    plans = [
        _take_fragment(snapshot, handle, rows, schema)
        for handle, rows in zip(handles, rows_of, strict=True)
    ]
    tasks = await snapshot.engine.drive(together(plans), "take")

    num_bytes = sum(task.num_bytes for task in tasks)
    decoded = [task.decode for task in tasks]
    if num_bytes > SHARED_BYTES:
        decoded = await _decode_in_threads(snapshot, tasks)

    def finish() -> pa.Table:
        batches = [
            _with_meta(batch(), handle, rows, projection)
            for batch, handle, rows in zip(decoded, handles, rows_of, strict=True)
        ]
        return in_order(batches or [_nothing(projection, schema)], places)

    return await snapshot.engine.decode(finish, num_bytes)


async def _decode_in_threads(
    snapshot: Snapshot, tasks: Sequence[FragmentTask]
) -> list[Callable[[], pa.RecordBatch]]:
    """The batches of tasks, each shared among the threads by its columns."""
    pool, threads = snapshot.engine.pool, snapshot.session.decode_threads
    parts = [task.split(threads) for task in tasks]
    found = iter(await all_of(pool.run(part.decode) for group in parts for part in group))
    batches = [[next(found) for _ in group] for group in parts]
    return [partial(side_by_side, group) for group in batches]


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
    snapshot: Snapshot, handle: FragmentHandle, rows: npt.NDArray[np.int64], schema: Schema
) -> Plan[FragmentTask]:
    cache = snapshot.engine.cache
    opened = yield from open_fragment(schema, handle.sources, handle.num_physical_rows, cache)
    return (yield from opened.take(rows, cache, guess=snapshot.is_remote))


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
    handle: FragmentHandle,
    rows: npt.NDArray[np.int64],
    projection: Projection,
) -> pa.RecordBatch:
    if projection.meta:
        batch = with_meta(batch, handle, rows, projection.meta)
    return projection.apply(batch)


def _nothing(projection: Projection, schema: Schema) -> pa.RecordBatch:
    """The output batch of a take of no rows."""
    arrow = pa.schema([field.to_arrow() for field in schema.fields])
    batch = empty_batch(arrow)
    for name in projection.meta:
        batch = batch.append_column(name, pa.nulls(0, pa.uint64()))
    return projection.apply(batch)


def in_order(batches: Sequence[pa.RecordBatch], places: npt.NDArray[np.int64]) -> pa.Table:
    """The fetched rows in the order asked for: `places` are positions among them."""
    table = pa.Table.from_batches(batches)
    if table.num_columns == 0:
        return pa.Table.from_batches([empty_columns(len(places))])
    if len(batches) > 1:
        table = table.combine_chunks()
    if len(places) == table.num_rows and bool((places == np.arange(len(places))).all()):
        return table
    return table.take(to_arrow(places))
