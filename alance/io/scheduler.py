"""The scheduler of a session: what all its callers ask for at once, in few requests.

Ranges of all plans, columns, files and callers are collected until the loop's next turn, then
de-duplicated and merged for each object, and sent. A range that a request under way covers joins
that request. What a local page cache or memory has is answered at once.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from alance.errors import InvalidInputError
from alance.io import trace
from alance.io.blocks import BlockCache
from alance.io.booking import book, from_blocks
from alance.io.budget import Budget
from alance.io.files import FILES_AT_ONCE
from alance.io.flights import Lane
from alance.io.futures import done, failed
from alance.io.inline import SMALL_BYTES, Note, at_hand, read_many, sort_out
from alance.io.observing import Reading
from alance.io.reads import Held, Read
from alance.io.registry import KEPT_STORES
from alance.io.store import ObjectMeta

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
    from alance.io.booking import Asked
    from alance.io.inline import ObjectRanges
    from alance.io.registry import StoreRegistry
    from alance.io.speed import Speed
    from alance.io.store import PieceSource, Store

CROWD: Final = 8  # takes that wait: their rows are likely near each other
PLAN_SECONDS: Final = 0.004  # of planning in one turn of the loop

R = TypeVar("R")


class Scheduler:
    """Reads of one event loop.

    Args:
        registry: finds the store of a location.
        max_requests: requests under way to one store; None: what suits its kind.
        io_buffer_bytes: bytes under way to one store; the room of takes.
        block_cache_bytes: what takes ask of remote stores is kept up to this size.

    Attributes:
        blocks: what takes have read.
        room: for large takes: what they read ahead, and their output.
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
        self._num_takes = 0
        self._lanes: dict[str, Lane] = {}
        self._pending: dict[tuple[str, bool], list[Asked]] = {}
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
        """Bytes of objects, in the order of `ranges`, read-only. Begins at once.

        Pieces are answered by one buffer.

        Cancelling the future withdraws from its requests; those that nobody else waits for are
        dropped.

        Args:
            reason: what for, in traces.
            bulk: merge over the wider gaps of scans.
            takes: how many it is for; what these ask for is kept in the block cache, which is
                asked first.

        Raises:
            CorruptFileError: (in the future) no range, or one beyond the object's end.
            NotFoundError, StoreError: (in the future) of the store.
            InvalidInputError: the session is closed.
        """
        self._check_open()
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
        """What `read` gives, where memory or the page cache has all of it, without a future.

        None: something is to be waited for; `send` for it.

        Raises:
            CorruptFileError, NotFoundError, StoreError: of the store.
            InvalidInputError: the session is closed.
        """
        self._check_open()
        return at_hand(ranges, self._registry, reason)

    def send(
        self,
        ranges: Sequence[Extent],
        *,
        reason: str = "",
        bulk: bool = False,
        takes: int = 0,
    ) -> asyncio.Future[Sequence[memoryview]]:
        """Like `read`, without a look at what is at hand."""
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
        """Like `read`: the bytes of pieces as they come, for kernels that decode them, without a
        copy in between.

        Args:
            takes: as of `read`.
            is_part: none of them by a buffer of its own.
        """
        loop = asyncio.get_running_loop()
        self._check_open()
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
        """Whether the block cache has room for what a take reads."""
        return 0 < num_bytes <= self.blocks.max_bytes

    def _started(self, read: Read, extents: Sequence[Extent], *, bulk: bool) -> Read:
        self._check_open()
        self._begin(read, extents, bulk=bulk)
        return read

    def reader(self, locations: Collection[str], reason: str) -> Reader | None:
        """What brings bytes of objects to the kernel that decodes them, in its thread; None where
        one of them is in a store that has to be waited for.

        Reads go into the trace of the caller of this.
        """
        self._check_open()
        if len(locations) > FILES_AT_ONCE:
            return None
        pieces_of, paths_inside = self._registry.piece_reader(list(locations))
        if pieces_of is None:
            return None
        inside = dict(zip(locations, paths_inside, strict=True))
        note = Note.of_caller(reason)
        # Columns of the same rows share a source. A thread has its own: a source has one place.
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

    def _ended(self, read: asyncio.Future[Any]) -> None:
        own = cast("Read", read)
        self._num_takes -= own.takes
        self._reads.discard(own)

    def _begin(self, read: Read, extents: Sequence[Extent], *, bulk: bool) -> None:
        """Send for many small objects, and put the rest on the list of this turn."""
        later: list[tuple[str, Asked]] = []
        many: dict[Store, list[tuple[str, ObjectRanges]]] = {}  # small objects of a store
        try:
            by_object = sort_out(extents, read, self._registry)
            if read.takes and not self.can_keep(sum(own.num_bytes for own in by_object.values())):
                read.takes = 0
            for location, ranges in by_object.items():
                store, path = self._registry.resolve(location)
                if store.pieces is not None and ranges.num_bytes <= SMALL_BYTES:
                    many.setdefault(store, []).append((path, ranges))
                    continue
                own = ranges.asked(read)
                if read.is_part:
                    read.keep(location, own)
                asked: Asked | None = own
                if read.takes and store.profile.is_remote:
                    asked = from_blocks(self.blocks, location, own)
                if asked is not None:
                    later.append((location, asked))
            for store, objects in many.items():
                if store.pieces is None or len(objects) == 1:  # as others may ask for the same
                    later += [(store.root + path, own.asked(read)) for path, own in objects]
                    continue
                gap = store.profile.scan_gap if bulk else store.profile.take_gap
                read_many(store, store.pieces, objects, read, gap)
        except Exception as error:
            read.failed(error)
            return
        if not later:
            read.finish_if_complete()
            if read.done():
                return
        for location, asked in later:
            read.unplanned += 1
            self._pending.setdefault((location, bulk), []).append(asked)
        self._num_takes += read.takes
        self._reads.add(read)
        read.add_done_callback(self._ended)
        if self._planned is None and later:
            self._planned = read.get_loop().call_soon(self._plan)

    async def read_tail(
        self, location: str, num_bytes: int, *, size: int | None = None, reason: str = ""
    ) -> tuple[memoryview, int]:
        """The last bytes of an object (all of a smaller one), and its size. One request.

        Args:
            size: the object's size where it is known; without it, Azure costs a second request.
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
        """A whole object, in one request; by its tag, if one is given, as for `Store.get`."""
        store, path = self._resolve(location)
        get = partial(store.get, path, e_tag=e_tag)
        return await self._traced(get, "get", location, reason, len)

    async def size(self, location: str, *, reason: str = "") -> int:
        """Bytes of an object. One request."""
        store, path = self._resolve(location)
        return await self._traced(lambda: store.size(path), "head", location, reason, lambda _: 0)

    async def list(
        self, location: str, *, start_after: str | None = None, reason: str = ""
    ) -> AsyncIterator[ObjectMeta]:
        """Objects under a folder, as for `Store.list`, with locations for paths.

        Stopping after the first one costs one request; close the iterator then.
        """
        store, path = self._resolve(location)
        _, after = (None, None) if start_after is None else self._resolve(start_after)
        notes, ok = trace.Notes(), True
        try:
            async with aclosing(store.list(path, start_after=after)) as metas:  # type: ignore[type-var]
                async for meta in metas:
                    self._check_open()
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
        """Locations of the folders directly under a folder, and of the objects; sorted.

        One request, or one a page.
        """
        store, path = self._resolve(location)
        folders, objects = await self._traced(
            lambda: store.list_level(path), "list", location, reason, lambda _: 0
        )
        return [store.root + name for name in folders], [store.root + name for name in objects]

    @property
    def block_bytes(self) -> int:
        """Bytes that the block cache holds."""
        return self.blocks.num_bytes

    def readings(self) -> Iterator[Reading]:
        """Queues of the stores, what the block cache did and holds, and what large takes hold."""
        for lane in list(self._lanes.values()):
            yield from lane.readings()
        yield Reading("block_cache_hits_total", "", self.blocks.hits)
        yield Reading("block_cache_misses_total", "", self.blocks.misses)
        yield Reading("block_cache_bytes", "", self.block_bytes)
        yield Reading("take_bytes", "", self.budget.num_taken)

    def speed(self, location: str) -> Speed:
        """How fast an object's store is, as far as was seen."""
        return self._lane(self._resolve(location)[0]).speed

    async def aclose(self) -> None:
        """Cancel all reads and requests, and wait until they are gone."""
        self._closed = True
        for read in list(self._reads):
            read.cancel()
        if self._planned is not None:
            self._planned.cancel()
            self._planned = None
        self._pending.clear()
        calls = [call.future for lane in self._lanes.values() for call in lane.calls]
        left = [*self._calls, *(future for future in calls if future is not None)]
        for future in left:
            future.cancel()
        if left:
            await asyncio.gather(*left, return_exceptions=True)

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidInputError("the session is closed")

    def _resolve(self, location: str) -> tuple[Store, str]:
        self._check_open()
        return self._registry.resolve(location)

    def _lane(self, store: Store) -> Lane:
        lane = self._lanes.get(store.root)
        if lane is None:
            idle = [root for root, other in self._lanes.items() if other.is_idle]
            for root in idle[: max(0, len(self._lanes) + 1 - KEPT_STORES)]:
                del self._lanes[root]  # else stores would stay, one for each set of credentials
            limit = self._max_requests or store.profile.max_requests
            lane = self._lanes[store.root] = Lane(store, limit, self._io_buffer_bytes, self.blocks)
        return lane

    def _plan(self) -> None:
        """All that was asked for in this turn of the loop: join, merge, send.

        Objects are planned one after the other; what takes long goes on in the next turn.
        """
        self._planned = None
        deadline = trace.now() + PLAN_SECONDS
        while self._pending:
            location, bulk = next(iter(self._pending))
            asked = self._pending.pop((location, bulk))
            live = [own for own in asked if not own.read.done()]
            try:
                store, path = self._registry.resolve(location)
                lane = self._lane(store)
                book(lane, path, live, bulk=bulk, crowded=self._num_takes >= CROWD)
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
        """The result of a call to a store, recorded; cancelled when the scheduler is closed."""
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
