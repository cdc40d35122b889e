"""Takes of rows of fragments: planning, memory budget, reading, and decoding.

A take needs memory for bytes that are not decoded yet, and for its output. A large take first
reserves both in the session's memory budget. Then it reads parts ahead, like a scan. If it exceeds
the budget, it reads and decodes ranges of rows one after the other.
"""

from __future__ import annotations

import asyncio
import itertools
from contextlib import aclosing
from functools import partial
from operator import attrgetter, mul
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np

from alance.file.batches import in_order, one_array, one_batch, side_by_side
from alance.file.open.files import FileOf, open_files
from alance.file.open.tracing import describe
from alance.file.rows.fragment import open_fragments
from alance.file.rows.placing import FEW_FRAGMENTS, placed_rows
from alance.file.rows.tasks import TakenRows
from alance.format.plans import TURN, all_read
from alance.io.loop.readahead import Job, readahead
from alance.io.loop.tasks import all_of
from alance.ops.version.first_use import beside

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    import pyarrow as pa

    from alance.base.arrays import Int64s
    from alance.file.rows.fragment import OpenFragment
    from alance.format.plans import Pieces, Plan, Reader
    from alance.format.schema import Schema
    from alance.io.caches.cache import SearchCache
    from alance.io.reading.pool import DecodePool
    from alance.ops.version.snapshot import FragmentHandle, Snapshot, TakenColumns

    Decoder: TypeAlias = Callable[[Reader], pa.RecordBatch | None]

T = TypeVar("T")
_ROW_BYTES = attrgetter("row_bytes")

# Encoded bytes that the event loop decodes, in 0.1 ms: as long as a hop to the pool.
INLINE_TAKE_BYTES: Final = 256 << 10
FEW_CALLERS: Final = 8  # maximum callers whose rows the event loop splits, 10 to 50 us each
# Encoded bytes; below this, one thread finishes before a second one starts.
SHARED_TAKE_BYTES: Final = 1 << 20
# Encoded bytes per part on a remote store; parts are read and decoded concurrently.
TAKE_PART_BYTES: Final = 16 << 20
FILES_BEGUN_A_TURN: Final = 64  # files to read from that need no turn of their own, 10 us each
FRAGMENTS_A_TURN: Final = 512  # fragments to look up between turns, 2 to 4 us each
# Rows; for more, reading takes longer than the round that a guess saves.
ROUND_WORTH_ROWS: Final = 1 << 10


class TooMuch(Exception):
    """Error: the rows of several callers exceed the memory for one take.

    The `Joint` of the callers then tries again with fewer callers at a time.
    """


class PhysicalRows(NamedTuple):
    """Physical rows of consecutive fragments."""

    handles: Sequence[FragmentHandle]
    offsets: Int64s  # row offsets, ascending and unique in each fragment
    ends: Sequence[int]  # end of each fragment's rows in `offsets`

    @property
    def num_rows(self) -> int:
        return len(self.offsets)

    def at(self, numbers: Int64s | None) -> PhysicalRows:
        """Select rows by ascending numbers, or all; fragments without rows are omitted."""
        if numbers is None:
            return self
        ends = np.searchsorted(numbers, self.ends)
        places = np.flatnonzero(np.diff(ends, prepend=0)).tolist()
        handles = [self.handles[place] for place in places]
        return PhysicalRows(handles, self.offsets[numbers], ends[places].tolist())

    def live_mask(self) -> None:
        """Return None, because all rows are live."""

    def meta(self, name: str) -> pa.Array:
        """Return a meta column of the rows."""
        return one_array([handle.meta(name, offsets) for handle, offsets in self.by_fragment()])

    def by_fragment(self) -> list[tuple[FragmentHandle, Int64s]]:
        """Return the row offsets of each fragment."""
        bounds = itertools.pairwise([0, *self.ends])
        return [
            (handle, self.offsets[first:last])
            for handle, (first, last) in zip(self.handles, bounds, strict=True)
        ]

    def ranges(self, count: int) -> list[PhysicalRows]:
        """Split the rows into up to `count` ranges of about equal size, in order."""
        parts = np.array_split(np.arange(self.num_rows), count)
        return [self.at(part) for part in parts if len(part)]


async def read_rows(
    snapshot: Snapshot,
    rows: PhysicalRows,
    choice: TakenColumns,
    finish: Callable[[pa.RecordBatch], T],
    *,
    order: Int64s | None = None,
    callers: int = 1,
    module: str | None = None,
    reason: str = "take",
    is_quick: bool = True,
) -> T:
    """Read rows of fragments, and return the result of `finish` for them.

    Small takes are decoded on the event loop, larger ones in the pool, and large ones by all
    threads of the pool.

    Args:
        finish: converts the batch to the result, in the thread that decodes it.
        order: numbers of the rows to return, in this order; None for all rows in their order.
        callers: number of callers that share the take.
        module: name of a module to import for `finish`; None if it needs none.
        reason: name of the requests in traces.
        is_quick: False if `finish` may take long even for a few rows.

    Raises:
        TooMuch: there are several callers, and the rows are too many for one take.
    """
    engine = snapshot.engine
    pool, budget = engine.pool, engine.scheduler.budget
    taking = engine.drive(take_rows(snapshot, rows, choice), reason, takes=callers)
    taken, opened = await (taking if module is None else beside(engine, module, taking))
    num_bytes = taken.num_bytes
    if num_bytes <= SHARED_TAKE_BYTES:
        is_little = num_bytes <= INLINE_TAKE_BYTES and callers <= FEW_CALLERS
        is_little = is_little and len(rows.handles) <= FEW_FRAGMENTS
        inline = is_little and is_quick and not choice.projection.is_computed
        read = await engine.reader(taken.unread, reason, inline=inline, takes=callers)
        decode = partial(taken.decode, read, order)
        return await pool.run(lambda: finish(decode()), inline=inline, is_decoding=True)
    # Half of the budget, so that there is room for other reads.
    most = max(budget.num_bytes // 2, SHARED_TAKE_BYTES)
    counts = np.diff(rows.ends, prepend=0).tolist()
    decoded_bytes = int(sum(map(mul, counts, map(_ROW_BYTES, opened))))  # of the output
    if order is not None:  # rows may be repeated
        decoded_bytes = max(decoded_bytes, decoded_bytes * len(order) // rows.num_rows)
    if callers > 1 and 2 * decoded_bytes > most:
        raise TooMuch
    await asyncio.sleep(0)  # because with thousands of columns, each step takes milliseconds
    source, num_parts = engine.source(taken.unread, reason), snapshot.session.decode_threads
    if source is None:
        num_parts = max(num_parts, -(-num_bytes // TAKE_PART_BYTES))
    parts = taken.split(num_parts)
    # A source reads during decoding, so that no bytes of the parts are held.
    unread = [part.unread if source is None else () for part in parts]
    pieces_of = [[columns.pieces for columns in own] for own in unread]
    sizes = [*map(engine.held_bytes, pieces_of)]
    await asyncio.sleep(0)
    largest, takes = max(sizes), callers if engine.scheduler.can_keep(sum(sizes)) else 0
    if largest > most and rows.num_rows > 1:
        ranges = rows.ranges(min(rows.num_rows, -(-largest // most)))
        batches = [
            await read_rows(snapshot, part, choice, lambda batch: batch, reason=reason)
            for part in ranges
        ]
        return await pool.run(lambda: finish(in_order(one_batch(batches), order)))

    async def reader(pieces: Sequence[Pieces]) -> Reader:
        if source is not None:
            return source
        # Parts of few files begin in one turn of the loop, so that their ranges are merged.
        if sum([len(own.paths) for own in pieces]) > FILES_BEGUN_A_TURN:
            await pool.share_turn()
        return await engine.hold(pieces, reason, takes=takes) if pieces else all_read

    pairs = zip(sizes, pieces_of, strict=True)
    readers = [Job(size, partial(reader, pieces)) for size, pieces in pairs]
    ahead_bytes = max(largest, min(sum(sizes), most))
    decoders: list[Decoder] = [partial(part.decode, order=order) for part in parts]
    if source is not None and len(parts) < pool.num_threads:
        shares = taken.shares(pool.num_threads, order)
        decoders = [share.decode for share in shares] or decoders
        readers = readers[:1] * len(decoders)
    async with budget.taken(2 * decoded_bytes + ahead_bytes):
        return await _decode_apart(pool, decoders, readers, finish, ahead_bytes)


async def _decode_apart(
    pool: DecodePool,
    decoders: Sequence[Decoder],
    readers: Sequence[Job[Reader]],
    finish: Callable[[pa.RecordBatch], T],
    ahead_bytes: int,
) -> T:
    """Decode the columns of a take in several threads; the last one to end computes the result.

    Args:
        readers: for each decoder, a job that reads its bytes.
        ahead_bytes: maximum bytes to read ahead.
    """
    batches_of: list[pa.RecordBatch | None] = [None] * len(decoders)
    remaining = [*range(len(decoders))]

    def decode(number: int, read: Reader) -> T | None:
        batches_of[number] = decoders[number](read)
        is_last = remaining.pop() == 0  # `pop` is atomic, so only one thread is the last
        if not is_last:
            return None
        return finish(side_by_side([batch for batch in batches_of if batch is not None]))

    async def part(number: int) -> T | None:
        read = await readers[number].start()
        return await pool.run(partial(decode, number, read), is_decoding=True)

    jobs = [Job(own.num_bytes, partial(part, number)) for number, own in enumerate(readers)]
    ahead = readahead(jobs, budget_bytes=ahead_bytes, max_jobs=len(jobs), ordered=False)
    async with aclosing(ahead) as ready:
        answers = [answer async for answer in ready]
    return next(answer for answer in answers if answer is not None)


async def prepare_take(
    snapshot: Snapshot, handles: Sequence[FragmentHandle], schema: Schema
) -> None:
    """Load deletion vectors, and concurrently open the files that are needed afterwards."""
    if snapshot.unprepared(handles):
        await snapshot.resolve_sizes(handles)
        to_open = [handle.to_open(snapshot.engine.cache) for handle in handles]
        await prepared(snapshot, handles, open_fragments(schema, to_open))


async def prepared(snapshot: Snapshot, handles: Sequence[FragmentHandle], opening: Plan[T]) -> T:
    """Run a plan that opens files, and read the deletion vectors of fragments concurrently."""
    reading = snapshot.engine.drive(opening, "open files")
    if not snapshot.unprepared(handles):
        return await reading
    results: list[Any] = await all_of([reading, snapshot.prepare(handles)])
    return cast("T", results[0])


def take_rows(
    snapshot: Snapshot, rows: PhysicalRows, choice: TakenColumns
) -> Plan[tuple[TakenRows, Sequence[OpenFragment]]]:
    """Plan a take of rows of fragments; one more round if fragments are not cached.

    Returns the rows to decode, some of which may be `unread`, and the opened fragments.
    """
    cache = snapshot.engine.cache
    handles, offsets, ends = rows
    opened = yield from opened_fragments(cache, handles, choice)
    guess = snapshot.is_remote and rows.num_rows <= ROUND_WORTH_ROWS
    tasks = yield from placed_rows(choice.schema, opened, offsets, ends, cache, guess=guess)
    for first in range(0, len(handles), FRAGMENTS_A_TURN):
        if len(handles) > FRAGMENTS_A_TURN:
            yield TURN
        part = slice(first, first + FRAGMENTS_A_TURN)
        keep_grown(cache, handles[part], opened[part], choice)
    return TakenRows(choice.schema, tasks), opened


def opened_fragments(
    cache: SearchCache, handles: Sequence[FragmentHandle], choice: TakenColumns
) -> Plan[list[OpenFragment]]:
    """Return open fragments; plan to open those that are not cached, in one round."""
    keys: list[Hashable] = []
    fragments: list[OpenFragment | None] = []
    for first in range(0, len(handles), FRAGMENTS_A_TURN):
        if first:
            yield TURN
        part = handles[first : first + FRAGMENTS_A_TURN]
        of_part = [("fragment", handle.identity, choice.key) for handle in part]
        keys += of_part
        fragments += cache.peek_all(of_part)
    if None in fragments:
        missing = [number for number, fragment in enumerate(fragments) if fragment is None]
        sources: list[FileOf] = []
        for first in range(0, len(missing), FRAGMENTS_A_TURN):
            if len(missing) > FRAGMENTS_A_TURN:
                yield TURN
            sources += [
                FileOf(source.location, source.file_bytes)
                for number in missing[first : first + FRAGMENTS_A_TURN]
                for source in handles[number].sources
                if not choice.ids.isdisjoint(source.columns)
            ]
        yield from open_files(sources, cache)
        if len(missing) > FRAGMENTS_A_TURN:
            yield TURN
        # If several callers waited for the same files, only the first opens the fragments.
        cached = cache.peek_all([keys[number] for number in missing])
        for number, fragment in zip(missing, cached, strict=True):
            fragments[number] = fragment
        missing = [number for number in missing if fragments[number] is None]
        if len(missing) > FRAGMENTS_A_TURN:
            yield TURN
        to_open = [handles[number].to_open(cache) for number in missing]
        opened = yield from open_fragments(choice.schema, to_open)
        for count, (number, fragment) in enumerate(zip(missing, opened, strict=True), 1):
            fragments[number] = fragment
            cache.put(keys[number], fragment, fragment.num_bytes)
            if count % FRAGMENTS_A_TURN == 0:
                yield TURN
    complete = cast("list[OpenFragment]", fragments)
    for first in range(0, len(complete), FRAGMENTS_A_TURN):
        if first:
            yield TURN
        describe(complete[first : first + FRAGMENTS_A_TURN])
    return complete


def keep_grown(
    cache: SearchCache,
    handles: Sequence[FragmentHandle],
    opened: Sequence[OpenFragment],
    choice: TakenColumns,
) -> None:
    """Update opened fragments in the cache if a take has loaded page states."""
    for handle, fragment in zip(handles, opened, strict=True):
        if fragment.has_grown:
            fragment.has_grown = False
            key = ("fragment", handle.identity, choice.key)
            cache.put(key, fragment, fragment.num_bytes)
