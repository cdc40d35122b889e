"""Rows by position, row id or address, in the order asked for."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import pyarrow as pa

from alance.errors import InvalidInputError, RowNotFoundError
from alance.file.batches import empty_batch, empty_columns, one_batch, side_by_side
from alance.file.fragment import open_fragment
from alance.file.fragment import take_rows as take_fragments
from alance.file.open import open_file
from alance.file.taken import TakenRows
from alance.file.tracing import describe
from alance.format.numbers import to_arrow
from alance.format.plans import all_read, together
from alance.io.joined import Joint
from alance.io.tasks import all_of
from alance.ops.read.placed import by_key, by_position
from alance.ops.read.positions import as_positions
from alance.ops.read.rows import with_meta
from alance.ops.version.first_use import ARROW, beside, load_readers
from alance.ops.version.projection import plain_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from alance.arrays import Int64s
    from alance.file.fragment import FragmentTask, OpenFragment
    from alance.format.plans import Plan, Reader
    from alance.format.schema import Schema
    from alance.io.cache import SearchCache
    from alance.ops.read.placed import Placed
    from alance.ops.version.projection import Columns, Projection
    from alance.ops.version.snapshot import FragmentHandle, Snapshot, TakenColumns

INLINE_BYTES: Final = 256 << 10  # encoded; a tenth of a millisecond, as long as a hop to the pool
FEW_CALLERS: Final = 8  # whose rows are put apart on the loop, 10 to 50 microseconds each
JOINT_ROWS: Final = 16 << 10  # of takes that go together: more are placed for milliseconds
PART_BYTES: Final = (
    16 << 20
)  # encoded, of a remote store: read and decoded side by side with others
GUESSED_ROWS: Final = 1 << 10  # of more, what is read in vain costs more than a round
UNDER_WAY: Final = 8  # takes of one kind; what comes meanwhile shares the next
SHARED_BYTES: Final = 1 << 20  # below this one thread is done before another begins


async def take(snapshot: Snapshot, indices: object, columns: Columns = None) -> pa.Table:
    """Rows by position in the dataset, in the order asked for, repeated as asked.

    Cost: one round of requests when warm (two for full-zip strings without a cached index), one
    hop to the pool; cold, one more for footers and one for deletion vectors of the fragments hit.

    Raises:
        InvalidInputError: a position at or beyond the number of rows.
    """
    positions = as_positions(indices, "indices")
    firsts = await snapshot.first_rows()
    if len(positions) and positions.max() >= firsts[-1]:
        raise InvalidInputError(f"index {positions.max()}: the dataset has {firsts[-1]} rows")
    return await _take_joined(
        snapshot, positions, lambda rows: by_position(rows, firsts), columns, live=True
    )


async def take_addresses(
    snapshot: Snapshot, addresses: object, columns: Columns = None
) -> pa.Table:
    """Rows by address (fragment id << 32 | row offset), in the order asked for.

    Raises:
        NotFoundError: no such fragment, or the row is deleted or beyond its end.
    """
    rows = as_positions(addresses, "addresses")
    fragments, offsets = await snapshot.locate_addresses(rows)
    return await take_located(snapshot, fragments, offsets, columns, live=False)


async def take_rows(snapshot: Snapshot, row_ids: object, columns: Columns = None) -> pa.Table:
    """Rows by row id, in the order asked for: stable ids where the dataset has them.

    Raises:
        RowNotFoundError: a row id that no live row has.
    """
    ids = as_positions(row_ids, "row_ids")
    addresses = await snapshot.addresses_of(ids)
    fragments, offsets = await snapshot.locate_addresses(addresses)
    return await take_located(snapshot, fragments, offsets, columns, live=False)


async def flat_rows(
    snapshot: Snapshot,
    rows: npt.NDArray[np.integer[Any]],
    projection: Projection,
    *,
    by_address: bool = False,
) -> pa.RecordBatch:
    """Rows by row id or address, in one batch with the columns of a scan.

    Raises:
        NotFoundError: a row that is not there.
    """
    needed = list(dict.fromkeys([*projection.fields, *projection.meta]))
    taking = take_addresses if by_address else take_rows
    return projection.apply(batch_of(await taking(snapshot, rows, needed)))


def batch_of(table: pa.Table) -> pa.RecordBatch:
    """The rows of a table in one batch."""
    batches = table.to_batches()
    if len(batches) > 1:
        batches = table.combine_chunks().to_batches()
    return batches[0] if batches else empty_batch(table.schema)


async def take_located(
    snapshot: Snapshot, fragments: Int64s, offsets: Int64s, columns: Columns, *, live: bool
) -> pa.Table:
    """Rows by place; `fragments` are positions in the snapshot's list.

    Args:
        live: `offsets` count live rows only; else they are physical, and must not be deleted.
    """
    keys = fragments << 32 | offsets
    return await _take_joined(snapshot, keys, by_key, columns, live=live)


async def _take_joined(
    snapshot: Snapshot,
    keys: Int64s,
    placing: Callable[[Int64s], Placed],
    columns: Columns,
    *,
    live: bool,
) -> pa.Table:
    """Rows of a caller; what several ask for at once of a remote store is one take.

    Args:
        placing: where the rows with some keys are.
        live: as of `take_located`.
    """
    names = plain_names(columns)
    if not snapshot.is_remote or (columns is not None and names is None):
        (table,) = await _take_placed(snapshot, placing(keys), columns, [len(keys)], live=live)
        return table

    async def answer(asked: Sequence[Int64s]) -> Sequence[pa.Table]:
        await snapshot.engine.pool.share_turn()
        rows = asked[0] if len(asked) == 1 else np.concatenate(asked)
        counts = [len(own) for own in asked]
        return await _take_placed(snapshot, placing(rows), columns, counts, live=live)

    # Of this loop: callers of another one wait there.
    key = Joint, asyncio.get_running_loop(), placing is by_key, live, names
    joint: Joint[Int64s, pa.Table] = snapshot.remember(key, lambda: Joint(JOINT_ROWS, UNDER_WAY))
    return await joint.ask(keys, len(keys), answer)


async def _take_placed(
    snapshot: Snapshot, placed: Placed, columns: Columns, counts: Sequence[int], *, live: bool
) -> list[pa.Table]:
    """As of `take_located`: a table of the rows of each caller, of which there are `counts`."""
    await load_readers(snapshot, columns)
    choice = snapshot.wanted(columns)
    projection, schema = choice.projection, choice.schema
    positions, rows, cuts, places = placed
    if not positions:
        return [in_order(_nothing(projection, schema), None)] * len(counts)
    handles = [snapshot.handles[position] for position in positions]
    await snapshot.recall(handles)
    await prepare_take(snapshot, handles, schema)
    if projection.meta:
        await snapshot.load_meta(handles, projection.meta)
    rows_of = []
    for handle, start, stop in zip(handles, cuts, cuts[1:], strict=False):
        own_rows = rows[start:stop]
        if live and (handle.deleted is not None or own_rows[-1] >= handle.num_physical_rows):
            own_rows = handle.physical(own_rows)
        elif not live:
            _check_live(handle, own_rows)
        rows_of.append(own_rows)
    engine = snapshot.engine
    taking = _take_fragments(snapshot, handles, rows_of, choice)
    driving = engine.drive(taking, "take", callers=len(counts))
    if places is not None or len(counts) > 1:
        driving = beside(engine, ARROW, driving)
    taken = TakenRows(schema, await driving)

    def finish(batch: pa.RecordBatch) -> list[pa.Table]:
        if projection.meta:
            batch = _with_meta(batch, handles, rows_of, projection)
        batch = projection.apply(batch)
        if len(counts) == 1:
            return [in_order(batch, places)]
        # Rows of their own: a caller that keeps few rows does not keep those of all.
        order = np.arange(batch.num_rows) if places is None else places
        return [in_order(batch, own) for own in np.split(order, np.cumsum(counts)[:-1])]

    return await _decode(snapshot, taken, finish, len(counts))


async def _decode(
    snapshot: Snapshot,
    taken: TakenRows,
    finish: Callable[[pa.RecordBatch], list[pa.Table]],
    callers: int,
) -> list[pa.Table]:
    """Decode on the loop what is small, in the pool what is not, and by all its threads what is
    large.
    """
    engine, num_bytes = snapshot.engine, taken.num_bytes
    pool = engine.pool
    if num_bytes <= INLINE_BYTES and callers <= FEW_CALLERS:
        read = await engine.reader(taken.unread, "take", inline=True, callers=callers)
        tables = finish(taken.decode(read))
        await pool.share_turn()
        return tables
    if num_bytes <= SHARED_BYTES:
        read = await engine.reader(taken.unread, "take", callers=callers)
        return await pool.run(lambda: finish(taken.decode(read)))
    count = snapshot.session.decode_threads
    held = None
    if snapshot.is_remote:
        count = max(count, -(-num_bytes // PART_BYTES))
    else:
        held = await engine.reader(taken.unread, "take", callers=callers)
    parts = taken.split(count)
    batches: list[pa.RecordBatch | None] = [None] * len(parts)
    left = [*range(len(parts))]

    def decode(number: int, read: Reader) -> list[pa.Table] | None:
        batches[number] = parts[number].decode(read)
        is_last = left.pop() == 0  # each thread has another answer
        return finish(side_by_side(cast("list[pa.RecordBatch]", batches))) if is_last else None

    async def part(number: int) -> list[pa.Table] | None:
        if held is not None:
            return await pool.run(partial(decode, number, held))
        # What other takes need of the same columns goes together where it is asked for at once.
        async with engine.scheduler.room.taken(parts[number].num_bytes, number):
            pieces = parts[number].unread_pieces
            read = await engine.hold(pieces, "take", callers) if pieces else all_read
            return await pool.run(partial(decode, number, read))

    answers = await all_of(part(number) for number in range(len(parts)))
    return next(tables for tables in answers if tables is not None)


async def prepare_take(
    snapshot: Snapshot, handles: Sequence[FragmentHandle], schema: Schema
) -> None:
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


def _take_fragments(
    snapshot: Snapshot,
    handles: Sequence[FragmentHandle],
    rows_of: Sequence[Int64s],
    choice: TakenColumns,
) -> Plan[list[FragmentTask]]:
    """Plan rows of fragments, of which those that the cache does not know are opened: one round."""
    cache = snapshot.engine.cache
    opened = yield from opened_fragments(cache, handles, choice)
    guess = snapshot.is_remote and sum(map(len, rows_of)) <= GUESSED_ROWS
    asked = [*zip(opened, rows_of, strict=True)]
    tasks = yield from take_fragments(choice.schema, asked, cache, guess=guess)
    keep_grown(cache, handles, opened, choice)
    return tasks


def opened_fragments(
    cache: SearchCache, handles: Sequence[FragmentHandle], choice: TakenColumns
) -> Plan[list[OpenFragment]]:
    """Plan the opening of fragments that the cache does not know: one round."""
    keys = [("fragment", handle.identity, choice.key) for handle in handles]
    fragments: list[OpenFragment | None] = [cache.peek(key) for key in keys]
    missing = [number for number, fragment in enumerate(fragments) if fragment is None]
    if missing:
        opening = [_open(handles[number], choice, cache) for number in missing]
        for number, fragment in zip(missing, (yield from together(opening)), strict=True):
            fragments[number] = fragment
    opened = [fragment for fragment in fragments if fragment is not None]
    for fragment in opened:
        describe(fragment)
    return opened


def keep_grown(
    cache: SearchCache,
    handles: Sequence[FragmentHandle],
    opened: Sequence[OpenFragment],
    choice: TakenColumns,
) -> None:
    """Put open fragments into the cache of whose pages a take has learned more."""
    for handle, fragment in zip(handles, opened, strict=True):
        if fragment.tables.has_grown:
            fragment.tables.has_grown = False
            key = ("fragment", handle.identity, choice.key)
            cache.put(key, fragment, fragment.num_bytes)


def _open(handle: FragmentHandle, choice: TakenColumns, cache: SearchCache) -> Plan[OpenFragment]:
    """Plan the opening of a fragment; of callers that waited for the same files, one does it."""
    sources = [source for source in handle.sources if not choice.ids.isdisjoint(source.columns)]
    yield from together(
        [open_file(source.location, source.file_bytes, cache) for source in sources]
    )
    opened: OpenFragment | None = cache.peek(("fragment", handle.identity, choice.key))
    if opened is None:
        rows = handle.num_physical_rows
        opened = yield from open_fragment(choice.schema, handle.sources, rows, cache)
        cache.put(("fragment", handle.identity, choice.key), opened, opened.num_bytes)
    return opened


def _check_live(handle: FragmentHandle, rows: Int64s) -> None:
    beyond = rows[rows >= handle.num_physical_rows]
    if len(beyond):
        raise RowNotFoundError(
            f"row offset {beyond[0]} in fragment {handle.id}: "
            f"it has {handle.num_physical_rows} rows",
            (beyond | handle.id << 32).tolist(),
        )
    gone = rows[~handle.is_live(rows)]
    if len(gone):
        raise RowNotFoundError(
            f"row offset {gone[0]} in fragment {handle.id}: the row is deleted",
            (gone | handle.id << 32).tolist(),
        )


def _with_meta(
    batch: pa.RecordBatch,
    handles: Sequence[FragmentHandle],
    rows_of: Sequence[Int64s],
    projection: Projection,
) -> pa.RecordBatch:
    """The batch of rows of several fragments, with the meta columns of the projection."""
    parts, first = [], 0
    for handle, rows in zip(handles, rows_of, strict=True):
        part = batch.slice(first, len(rows))
        parts.append(with_meta(part, handle, rows, projection.meta))
        first += len(rows)
    return one_batch(parts)


def _nothing(projection: Projection, schema: Schema) -> pa.RecordBatch:
    """The output batch of a take of no rows."""
    arrow = pa.schema([field.to_arrow() for field in schema.fields])
    batch = empty_batch(arrow)
    for name in projection.meta:
        batch = batch.append_column(name, pa.nulls(0, pa.uint64()))
    return projection.apply(batch)


def in_order(batch: pa.RecordBatch, places: Int64s | None) -> pa.Table:
    """The fetched rows in the order asked for: `places` are positions among them; None: as is."""
    if places is not None:
        batch = batch.take(to_arrow(places)) if batch.num_columns else empty_columns(len(places))
    return pa.Table.from_batches([batch])
