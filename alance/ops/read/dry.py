"""Dry run: the code of a read, run on a store that returns zeros for the values of pages.

Metadata that a read needs before values (manifest parts, footers, page tables, deletions) is read
from the real store, through the session's scheduler. It is not cached. The requests are those of
the real read, because the same code plans and merges them.
"""

from __future__ import annotations

import asyncio
import contextvars
from copy import copy
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from alance.file.open.data_spans import DataSpans
from alance.file.rows.fragment import OpenFragment
from alance.format.container import Container
from alance.format.plans import ByteRange
from alance.io.caches.cache import SearchCache
from alance.io.events import trace
from alance.io.reading.budget import Budget
from alance.io.reading.engine import Engine
from alance.io.reading.pool import DecodePool
from alance.io.reading.scheduler import Scheduler
from alance.ops.version.snapshot import Handles
from alance.session import Session

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Sequence

    from alance.format.plans import Pieces, Reader, T
    from alance.io.opening.registry import StoreRegistry
    from alance.io.reading.engine import Unread
    from alance.io.reading.speed import Speed
    from alance.io.stores.store import Span, Store
    from alance.ops.version.snapshot import Snapshot

# Seconds; longer than it takes to send a wave of requests, so that a wave counts as one round.
WAVE_PAUSE_S: Final = 0.002


class TakePlanned(Exception):
    """Control flow of a dry run: ends a take after its last request, before decoding."""


class DryStore:
    """Store that returns zeros for the values of pages, and reads other ranges."""

    pieces = None

    def __init__(self, store: Store, dry: DrySession) -> None:
        self._store = store
        self._dry = dry
        self.root = store.root
        self.profile = store.profile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def read_now(self, path: str, ranges: Sequence[Span]) -> None:
        """Return None, so that ranges in memory are requested, too, and counted."""

    def get_ranges(self, path: str, ranges: Sequence[Span]) -> asyncio.Future[Sequence[memoryview]]:
        """Return the contents of ranges, with zeros for the values of pages."""
        loop = asyncio.get_running_loop()
        return loop.create_task(self._answer(path, ranges), context=self._dry.outside.copy())

    async def _answer(self, path: str, ranges: Sequence[Span]) -> Sequence[memoryview]:
        location = self.root + path
        needed = await self._dry.needed_within(location, ranges)
        byte_ranges = [ByteRange(location, *span) for spans in needed for span in spans]
        if not byte_ranges:
            await asyncio.sleep(WAVE_PAUSE_S)
        contents = iter(
            await self._dry.real.scheduler.read(byte_ranges, reason="explain")
            if byte_ranges
            else []
        )
        answers = []
        for (start, stop), spans in zip(ranges, needed, strict=True):
            if spans == [(start, stop)]:
                answers.append(next(contents))
                continue
            blank = np.zeros(stop - start, np.uint8)
            for begin, end in spans:
                blank[begin - start : end - start] = np.frombuffer(next(contents), np.uint8)
            answers.append(blank.data)
        return answers


class _Registry:
    def __init__(self, dry: DrySession) -> None:
        self._dry = dry
        self._stores: dict[str, DryStore] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dry.real.registry, name)

    def resolve(self, location: str) -> tuple[DryStore, str]:
        store, path = self._dry.real.registry.resolve(location)
        dry_store = self._stores.get(store.root)
        if dry_store is None:
            dry_store = self._stores[store.root] = DryStore(store, self._dry)
        return dry_store, path


class _Cache(SearchCache):
    """Search cache over another cache: reads from both, and writes only to itself."""

    def __init__(self, real: SearchCache, spans: DataSpans) -> None:
        super().__init__(1 << 62)
        self._real = real
        self._spans = spans

    def peek(self, key: Hashable) -> Any | None:
        value = super().peek(key)
        if value is None:
            value = self._real.peek(key)
            if isinstance(value, OpenFragment):
                return None  # it would be changed, so it is opened again with copied columns
            if isinstance(value, Container):
                value = replace(value, columns=value.columns.copy())
                super().put(key, value, value.num_bytes)
        self._spans.learn(value)
        return value

    def peek_all(self, keys: Sequence[Hashable]) -> list[Any | None]:
        return [*map(self.peek, keys)]

    def put(self, key: Hashable, value: Any, num_bytes: int) -> None:
        self._spans.learn(value)
        super().put(key, value, num_bytes)


class _Pool(DecodePool):
    """Decode pool of a dry run: decodes nothing, and returns (None, None)."""

    def __init__(self, real: DecodePool) -> None:
        super().__init__(1)
        self.real = real

    async def run(
        self, work: Callable[[], T], *, inline: bool = False, is_decoding: bool = False
    ) -> T:
        return cast("T", (None, None))


class _DryScheduler(Scheduler):
    """Scheduler that knows the speed of real stores."""

    real: Scheduler

    def speed(self, location: str) -> Speed:
        """Return the speed of the real store."""
        return self.real.speed(location)


class _DryEngine(Engine):
    """Engine that ends a take after its rows were requested."""

    __slots__ = ()

    async def reader(
        self, unread: Sequence[Unread], reason: str, *, inline: bool = False, takes: int = 0
    ) -> Reader:
        read = await Engine.reader(self, unread, reason, inline=True, takes=takes)
        if reason == "take":
            raise TakePlanned
        return read

    def source(self, unread: Sequence[Unread], reason: str) -> None:
        """Return None, so that values are requested, and counted, before they are decoded."""

    async def hold(self, pieces: Sequence[Pieces], reason: str, *, takes: int = 0) -> Reader:
        read = await Engine.hold(self, pieces, reason, takes=takes)
        if reason == "take":
            raise TakePlanned
        return read

    async def decode(self, work: Callable[[], T], num_bytes: float) -> T:
        return await cast("_Pool", self.pool).real.run(work)

    def local_file(self, location: str) -> None:
        """Return None, so that local files are requested like others, and counted."""


class DrySession(Session):
    """Session that reads values of pages from a dry store."""

    def __init__(self, session: Session) -> None:
        super().__init__(
            io_buffer_bytes=session.io_buffer_bytes, decode_threads=session.decode_threads
        )
        self.real = real = session.engine
        self.spans = DataSpans()
        self._looking = asyncio.Lock()
        self.outside = contextvars.copy_context()  # context with the caller's traces
        registry = cast("StoreRegistry", _Registry(self))
        scheduler = _DryScheduler(registry, io_buffer_bytes=session.io_buffer_bytes)
        scheduler.budget = Budget(1 << 62)  # so that all parts of a take are requested in one turn
        scheduler.real = real.scheduler
        scheduler.blocks = real.scheduler.blocks.view()
        parts = {part.name: getattr(real, part.name) for part in fields(Engine)}
        parts |= {
            "registry": registry,
            "scheduler": scheduler,
            "cache": _Cache(real.cache, self.spans),
            "pool": _Pool(real.pool),
        }
        self._dry = _DryEngine(**parts)

    @property
    def engine(self) -> Engine:
        return self._dry

    async def needed_within(self, location: str, ranges: Sequence[Span]) -> list[list[Span]]:
        """Return the parts of each range that contain no values of pages."""
        if not self.spans.is_open(location):
            return [[span] for span in ranges]
        async with self._looking:  # so that the pages of a file are listed once
            needed = self.spans.needed
            return await self.real.pool.run(lambda: [needed(location, *span) for span in ranges])


async def dry_run(
    snapshot: Snapshot, run: Callable[[Snapshot], Awaitable[Any]], recorder: trace.RequestRecorder
) -> DataSpans:
    """Run a read with zeros as page values, record its requests, and return the spans of its pages.

    The requests of the dry run itself are in the caller's traces, with the reason "explain".
    """
    session = DrySession(snapshot.session)
    try:
        copied = await snapshot.engine.pool.run(lambda: _copy(snapshot, session))
        with trace.recording(recorder, alone=True):
            await run(copied)
    except TakePlanned:
        pass
    finally:
        await session.engine.scheduler.aclose()
    return session.spans


def _copy(snapshot: Snapshot, session: Session) -> Snapshot:
    """Copy a snapshot with its memos into another session; memos added later are not shared."""
    copied = copy(snapshot)
    copied.session = session
    copied.handles = Handles(copied, [copy(handle) for handle in snapshot.handles])
    for handle in copied.handles:
        handle._snapshot = copied
        handle.set_apart()  # so that it is opened again, and the spans of its pages are recorded
    return copied
