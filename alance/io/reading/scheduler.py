"""The scheduler of a session: merges the reads of all its callers into few requests.

Ranges of all plans, columns, files and callers are collected until the loop's next turn, then
de-duplicated and merged for each object, and sent. A range that is covered by a request under way
joins that request. Bytes in memory or in the local page cache are returned at once.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing, contextmanager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from alance.errors import InvalidInputError
from alance.io.caches.blocks import BlockCache
from alance.io.disk.files import MAX_FILES_PER_READ
from alance.io.events import trace
from alance.io.events.observing import Reading
from alance.io.loop.futures import done, failed
from alance.io.opening.registry import MAX_OPEN_STORES
from alance.io.reading.booking import book, from_blocks
from alance.io.reading.budget import Budget
from alance.io.reading.flights import Lane
from alance.io.reading.inline import (
    OBJECTS_A_LOOK,
    SMALL_OBJECT_BYTES,
    Note,
    at_hand,
    read_many,
    sort_out,
)
from alance.io.reading.reads import Held, Read
from alance.io.stores.store import ObjectMeta

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Awaitable,
        Callable,
        Collection,
        Iterator,
        Sequence,
    )

    from alance import _kernels
    from alance.format.plans import Extent, Pieces, Reader
    from alance.io.opening.registry import StoreRegistry
    from alance.io.reading.booking import RangeRequest
    from alance.io.reading.inline import ObjectRanges
    from alance.io.reading.speed import Speed
    from alance.io.stores.store import PieceSource, Store

# From this number of waiting takes on, their rows are likely to be near each other, so whole blocks
# are read.
CROWD_TAKES: Final = 8
PLANNING_TURN_S: Final = 0.004  # seconds of work on reads, which continues in the next turn

R = TypeVar("R")


class Scheduler:
    """All reads of one session, for one event loop.

    Args:
        registry: resolves locations to stores.
        max_requests: upper bound of requests under way to one store; None: the bound of the store's
            profile.
        io_buffer_bytes: upper bound of bytes under way to one store, and the budget that large
            takes share.
        block_cache_bytes: size of the block cache.

    Attributes:
        blocks: the block cache.
        budget: memory of large takes: the bytes that they read ahead, and their output.
    """

    def __init__(
        self,
        registry: StoreRegistry,
        *,
        max_requests: int | None = None,
        io_buffer_bytes: int = 256 << 20,
        block_cache_bytes: int = 0,
    ) -> None:
        self._registry = registry
        self._max_requests = max_requests
        self._io_buffer_bytes = io_buffer_bytes
        self.blocks = BlockCache(block_cache_bytes)
        self.budget = Budget(io_buffer_bytes)
        self._lanes: dict[str, Lane] = {}
        self._pending: dict[tuple[str, bool], list[RangeRequest]] = {}  # by location and `bulk`
        self._reads: set[Read] = set()
        self._calls: set[asyncio.Future[Any]] = set()
        self._planned: asyncio.Handle | None = None
        self._closed = False

    def read(
        self,
        ranges: Sequence[Extent],
        *,
        reason: str = "",
        bulk: bool = False,
        takes: int = 0,
    ) -> asyncio.Future[Sequence[memoryview]]:
        """Start reading ranges of objects.

        The future's result is read-only buffers in the order of `ranges`, one buffer for each
        `Pieces`. A cancelled future leaves its requests; a request that no other read waits for is
        dropped.

        Args:
            reason: purpose of the read, as traces show it.
            bulk: True to merge over the wider gaps of scans.
            takes: number of takes that the read serves. Unless it is 0, the block cache is looked
                up first, and the bytes that are read are added to it.

        Raises:
            CorruptFileError: from the returned future: a range is wrong, or ends beyond its object.
            NotFoundError, StoreError: from the returned future: the store failed.
            InvalidInputError: the session is closed.
        """
        if self._closed:
            raise _closed()
        if not bulk:
            loop = asyncio.get_running_loop()
            try:
                buffers = at_hand(ranges, self._registry, reason)
            except Exception as error:
                return failed(error, loop)
            if buffers is not None:
                return done(buffers, loop)
        return self.send(ranges, reason=reason, bulk=bulk, takes=takes)

    def at_hand(self, ranges: Sequence[Extent], *, reason: str) -> Sequence[memoryview] | None:
        """Return the buffers of `read` if all bytes are in memory or in the page cache.

        Returns None if some bytes are not there, or if there are too many for a read on the loop;
        call `send` then.

        Raises:
            CorruptFileError, NotFoundError, StoreError: the store failed.
            InvalidInputError: the session is closed.
        """
        if self._closed:
            raise _closed()
        return at_hand(ranges, self._registry, reason)

    def send(
        self,
        ranges: Sequence[Extent],
        *,
        reason: str = "",
        bulk: bool = False,
        takes: int = 0,
    ) -> asyncio.Future[Sequence[memoryview]]:
        """Start reading like `read`, without trying `at_hand` first."""
        read = Read(ranges, reason, trace.current(), asyncio.get_running_loop(), takes=takes)
        return self._started(read, ranges, bulk=bulk)

    def hold(
        self,
        pieces: Sequence[Pieces],
        *,
        reason: str = "",
        takes: int = 0,
        is_part: bool = False,
    ) -> asyncio.Future[Held]:
        """Start reading pieces for kernels that decode them; the bytes are not copied.

        Args:
            reason, takes: as for `read`.
            is_part: True if more reads of these objects follow; see `Read`.

        Raises:
            CorruptFileError, NotFoundError, StoreError: from the returned future: as for `read`.
            InvalidInputError: the session is closed.
        """
        loop = asyncio.get_running_loop()
        if self._closed:
            raise _closed()
        if not is_part:
            try:
                buffers = at_hand(pieces, self._registry, reason)
            except Exception as error:
                return failed(error, loop)
            if buffers is not None:
                return done(Held(buffers, {}), loop)
        recorder = trace.current()
        read = Read(pieces, reason, recorder, loop, is_held=True, is_part=is_part, takes=takes)
        return self._started(read, pieces, bulk=False)

    def can_keep(self, num_bytes: int) -> bool:
        """True if the block cache can hold a take of `num_bytes`; False for an empty take."""
        return 0 < num_bytes <= self.blocks.max_bytes

    def _started(self, read: Read, extents: Sequence[Extent], *, bulk: bool) -> Read:
        if self._closed:
            raise _closed()
        read.unplanned += 1  # until it has begun
        self._advance(read, self._begin(read, extents, bulk=bulk))
        if not read.done():
            self._reads.add(read)
            read.add_done_callback(self._reads.discard)
        return read

    def _advance(self, read: Read, beginning: Iterator[None]) -> None:
        """Continue to begin a read; after `PLANNING_TURN_S`, in the next turn of the loop."""
        if read.done():  # since the last turn
            return
        deadline = trace.now() + PLANNING_TURN_S
        try:
            for _ in beginning:
                if read.done():
                    return
                if trace.now() > deadline:
                    read.get_loop().call_soon(self._advance, read, beginning)
                    return
        except Exception as error:
            read.failed(error)
            return
        read.unplanned -= 1
        read.finish_if_complete()

    def reader(self, locations: Collection[str], reason: str) -> Reader | None:
        """Return a reader that reads bytes in the thread of the kernel that decodes them.

        The reads appear in the trace of the caller of this method. Returns None if there are more
        than `MAX_FILES_PER_READ` objects, if they are in several stores, or if their store cannot
        be read without the loop.
        """
        if self._closed:
            raise _closed()
        if len(locations) > MAX_FILES_PER_READ:
            return None
        pieces_of, paths_inside = self._registry.piece_reader(list(locations))
        if pieces_of is None:
            return None
        inside = dict(zip(locations, paths_inside, strict=True))
        note = Note.of_caller(reason)
        # Columns of the same rows share a source. Each thread has its own source, which holds the
        # state of one read.
        sources: dict[tuple[int, int], tuple[Sequence[str], PieceSource]] = {}

        @contextmanager
        def read(paths: Sequence[str], pieces: Callable[[], Pieces]) -> Iterator[_kernels.Source]:
            begun = trace.now()
            key = threading.get_ident(), id(paths)
            if key not in sources:
                sources[key] = paths, pieces_of.source([inside[path] for path in paths])
            with sources[key][1].reading() as source:
                yield source
            if note.recorder is not None:
                note.read(pieces(), begun)

        return read

    def _begin(self, read: Read, extents: Sequence[Extent], *, bulk: bool) -> Iterator[None]:
        """Read many small objects in jobs of threads; queue the rest for `_plan`.

        Yields after every few objects, where other callers of the loop may run.
        """
        small: dict[Store, list[tuple[str, ObjectRanges]]] = {}
        by_object = yield from sort_out(extents, read, self._registry)
        if read.takes and not self.can_keep(sum([own.num_bytes for own in by_object.values()])):
            read.takes = 0
        for number, (location, ranges) in enumerate(by_object.items(), 1):
            if number % OBJECTS_A_LOOK == 0:
                yield
            store, path = self._registry.resolve(location)
            if store.pieces is not None and ranges.num_bytes <= SMALL_OBJECT_BYTES:
                small.setdefault(store, []).append((path, ranges))
                continue
            own = ranges.request(read)
            if read.is_part:
                read.note_part(location, own)
            request: RangeRequest | None = own
            if read.takes and store.profile.is_remote:
                request = from_blocks(self.blocks, location, own)
            if request is not None:
                self._queue(location, request, bulk=bulk)
        for store, objects in small.items():
            if store.pieces is None or len(objects) == 1:
                # `_plan` lets other reads of this turn join the request.
                for path, own_ranges in objects:
                    self._queue(store.root + path, own_ranges.request(read), bulk=bulk)
                continue
            gap = store.profile.scan_gap if bulk else store.profile.take_gap
            yield from read_many(store, store.pieces, objects, read, gap)

    def _queue(self, location: str, request: RangeRequest, *, bulk: bool) -> None:
        """Let `_plan` send a request in the next turn of the loop."""
        request.read.unplanned += 1
        self._pending.setdefault((location, bulk), []).append(request)
        if self._planned is None:
            self._planned = request.read.get_loop().call_soon(self._plan)

    async def read_tail(
        self, location: str, num_bytes: int, *, size: int | None = None, reason: str = ""
    ) -> tuple[memoryview, int]:
        """Read the last bytes of an object, or the whole of a smaller object.

        Cost: one request. If the size is unknown, two for an empty object, and on stores without
        suffix ranges: Azure, and file systems of fsspec.

        Args:
            size: the object's size; None if unknown.

        Returns:
            The bytes, and the object's size.
        """
        store, path = self._resolve(location)
        return await self._traced(
            lambda: store.get_tail(path, num_bytes, size=size),
            "tail",
            location,
            reason,
            lambda tail: len(tail[0]),
        )

    async def read_all(
        self, location: str, *, e_tag: str | None = None, reason: str = ""
    ) -> memoryview:
        """Read a whole object in one request.

        Args:
            e_tag: expected entity tag, as for `Store.get`.
        """
        store, path = self._resolve(location)
        get = partial(store.get, path, e_tag=e_tag)
        return await self._traced(get, "get", location, reason, len)

    async def size(self, location: str, *, reason: str = "") -> int:
        """Return the size of an object in bytes. Cost: one request."""
        store, path = self._resolve(location)
        return await self._traced(lambda: store.size(path), "head", location, reason, lambda _: 0)

    async def list(
        self, location: str, *, start_after: str | None = None, reason: str = ""
    ) -> AsyncIterator[ObjectMeta]:
        """List the objects under a folder, as `Store.list`; each `path` is a location.

        Closing the iterator after the first object costs one request.
        """
        store, path = self._resolve(location)
        _, after = (None, None) if start_after is None else self._resolve(start_after)
        notes, ok = trace.CallNotes(), True
        try:
            async with aclosing(store.list(path, start_after=after)) as metas:  # type: ignore[type-var]
                async for meta in metas:
                    if self._closed:
                        raise _closed()
                    yield ObjectMeta(
                        store.root + meta.path, meta.num_bytes, meta.last_modified, meta.e_tag
                    )
        except Exception:
            ok = False
            raise
        finally:
            notes.record("list", location, reason, 0, ok=ok)

    async def list_level(
        self, location: str, *, reason: str = ""
    ) -> tuple[Sequence[str], Sequence[str]]:
        """List the direct children of a folder: locations of folders, and of objects; each sorted.

        Cost: one request per page of the listing.
        """
        store, path = self._resolve(location)
        folders, objects = await self._traced(
            lambda: store.list_level(path), "list", location, reason, lambda _: 0
        )
        return [store.root + name for name in folders], [store.root + name for name in objects]

    @property
    def block_bytes(self) -> int:
        """Bytes in the block cache."""
        return self.blocks.num_bytes

    def readings(self) -> Iterator[Reading]:
        """Readings of the lanes, the block cache, and the memory of large takes."""
        for lane in list(self._lanes.values()):
            yield from lane.readings()
        yield Reading("block_cache_hits_total", "", self.blocks.hits)
        yield Reading("block_cache_misses_total", "", self.blocks.misses)
        yield Reading("block_cache_bytes", "", self.block_bytes)
        yield Reading("take_bytes", "", self.budget.num_taken)

    def speed(self, location: str) -> Speed:
        """Return the measured speed of the store of an object."""
        return self._lane(self._resolve(location)[0]).speed

    async def aclose(self) -> None:
        """Cancel all reads and requests, and wait for the requests to end."""
        self._closed = True
        for read in list(self._reads):
            read.cancel()
        if self._planned is not None:
            self._planned.cancel()
            self._planned = None
        self._pending.clear()
        calls = [call.future for lane in self._lanes.values() for call in lane.calls]
        under_way = [*self._calls, *(future for future in calls if future is not None)]
        for future in under_way:
            future.cancel()
        if under_way:
            await asyncio.gather(*under_way, return_exceptions=True)

    def _resolve(self, location: str) -> tuple[Store, str]:
        if self._closed:
            raise _closed()
        return self._registry.resolve(location)

    def _lane(self, store: Store) -> Lane:
        lane = self._lanes.get(store.root)
        if lane is None:
            idle = [root for root, other in self._lanes.items() if other.is_idle]
            for root in idle[: max(0, len(self._lanes) + 1 - MAX_OPEN_STORES)]:
                # Otherwise the lanes would reference a store for each set of credentials.
                del self._lanes[root]
            limit = self._max_requests or store.profile.max_requests
            lane = self._lanes[store.root] = Lane(store, limit, self._io_buffer_bytes, self.blocks)
        return lane

    def _plan(self) -> None:
        """Join, merge and send the requests of this turn of the loop.

        Objects are planned in turn. After `PLANNING_TURN_S` the rest waits for the next turn.
        """
        self._planned = None
        deadline = trace.now() + PLANNING_TURN_S
        takes = (read.takes for read in self._reads if read.takes)
        crowded = sum(islice(takes, CROWD_TAKES)) >= CROWD_TAKES
        while self._pending:
            location, bulk = next(iter(self._pending))
            requests = self._pending.pop((location, bulk))
            live = [own for own in requests if not own.read.done()]
            try:
                store, path = self._registry.resolve(location)
                lane = self._lane(store)
                book(lane, path, live, bulk=bulk, crowded=crowded)
                for own in live:
                    own.read.unplanned -= 1
                    own.read.finish_if_complete()
                lane.send()
            except Exception as error:
                for own in live:
                    own.read.failed(error)
            if self._pending and trace.now() > deadline:
                self._planned = asyncio.get_running_loop().call_soon(self._plan)
                return

    async def _traced(
        self,
        start: Callable[[], Awaitable[R]],
        kind: trace.Kind,
        location: str,
        reason: str,
        num_bytes: Callable[[R], int],
    ) -> R:
        """Await a call to a store and record it. `aclose` cancels the call.

        Args:
            start: begins the call.
            num_bytes: bytes received, by the result.
        """
        with trace.noting() as notes:
            future = asyncio.ensure_future(start())
        self._calls.add(future)
        future.add_done_callback(self._calls.discard)
        received, ok = 0, False
        try:
            result = await future
            received, ok = num_bytes(result), True
            return result
        finally:
            notes.record(kind, location, reason, received, ok=ok)


def _closed() -> InvalidInputError:
    """Return the error of a read after the session's end."""
    return InvalidInputError("the session is closed")
