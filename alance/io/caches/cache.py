"""Memos with a budget of bytes, and the search cache: a session's memo of files and tables.

A key of the search cache names a file and a part of it, never a projection, so that every reader of
the file profits. The values are immutable, and hold no more memory than was declared for them.
docs/caches.md lists all caches.
"""

from __future__ import annotations

import asyncio
import sys
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import field
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from alance.base.records import dataclass
from alance.io.events import observing, trace
from alance.io.events.observing import Reading
from alance.io.loop import lifecycle
from alance.io.loop.futures import seen
from alance.io.loop.tasks import Begun

if TYPE_CHECKING:
    from collections.abc import (
        Awaitable,
        Callable,
        Collection,
        Coroutine,
        Iterator,
        Mapping,
        Sequence,
    )

    from alance.io.caches.disk_cache import DiskCache

K = TypeVar("K")
V = TypeVar("V")


class Memo(Generic[K, V]):
    """A cache of values by key, with a budget of bytes; the least recently used are evicted first.

    Safe to use from all threads, also after a fork.

    Args:
        max_bytes: budget. A larger value is not cached.
        share: maximum fraction of the budget that one value may take.
    """

    def __init__(self, max_bytes: int, share: float = 1.0) -> None:
        self._max_bytes = max_bytes
        self._max_value_bytes = int(max_bytes * share)
        # Two dicts, because a tuple per entry would be another object for the cycle collector to
        # visit.
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._sizes: dict[K, int] = {}
        self._num_bytes = 0
        self._evictions = 0
        self._lock = RLock()  # reentrant: a finalizer may run in this thread while it is held
        lifecycle.on_fork(self)

    def after_fork(self) -> None:
        """Replace the lock: another thread may have held it at the fork."""
        self._lock = RLock()

    def peek(self, key: K) -> V | None:
        """Return the value of a key; None if it is not cached."""
        with self._lock:
            value = self._entries.get(key)
            if value is not None:
                self._entries.move_to_end(key)
            return value

    def put(self, key: K, value: V, num_bytes: int) -> None:
        """Cache a value other than None; it replaces the former value of the key."""
        with self._lock:
            if num_bytes <= self._max_value_bytes:
                self._num_bytes += num_bytes - self._sizes.get(key, 0)
                self._entries[key] = value
                self._entries.move_to_end(key)
                self._sizes[key] = num_bytes
                while self._num_bytes > self._max_bytes:
                    self._drop(next(iter(self._entries)))
                    self._evictions += 1
                return
            self._drop(key)
        self._refuse(num_bytes)

    def _refuse(self, num_bytes: int) -> None:
        """Handle a value that is too large to be cached; does nothing here."""

    def discard(self, key: K) -> None:
        """Remove a key."""
        with self._lock:
            self._drop(key)

    def clear(self) -> None:
        """Remove all keys."""
        with self._lock:
            self._entries.clear()
            self._sizes.clear()
            self._num_bytes = 0

    def _drop(self, key: K) -> None:
        if self._entries.pop(key, None) is not None:
            self._num_bytes -= self._sizes.pop(key)


@dataclass(frozen=True, slots=True)
class CacheStats:
    """Counters of a cache, and its current size."""

    hits: int
    misses: int
    evictions: int
    num_entries: int
    num_bytes: int


@dataclass(slots=True, eq=False)
class _Load:
    """A load of some keys, which one or more callers wait for.

    Attributes:
        values: the loaded values, if the load ended without waiting; else None.
        task: the task of a load that waits; not set if `values` is not None.
    """

    keys: Sequence[Hashable]
    values: Mapping[Hashable, Any] | None = None
    task: asyncio.Task[Mapping[Hashable, Any]] = field(init=False, repr=False)
    askers: int = 0


class SearchCache(Memo[Hashable, Any]):
    """A memo for one event loop that loads each missing value once, and counts hits and misses.

    Args:
        max_bytes: upper bound of the cached bytes; 0 turns the cache off. A value over a quarter of
            it is not cached.
        disk: the disk cache that loaders look in before a read, and fill after it; None if there
            is no such cache.
    """

    def __init__(self, max_bytes: int, disk: DiskCache | None = None) -> None:
        super().__init__(max_bytes, share=1 / 4)
        self.disk = disk
        self._loads: dict[Hashable, _Load] = {}
        self._hits = self._misses = 0

    @property
    def max_bytes(self) -> int:
        """Upper bound of the cached bytes."""
        return self._max_bytes

    @property
    def stats(self) -> CacheStats:
        """Hits, misses, evictions, entries and bytes."""
        return CacheStats(
            self._hits, self._misses, self._evictions, len(self._entries), self._num_bytes
        )

    def readings(self) -> Iterator[Reading]:
        """Yield the counters for observers."""
        yield Reading("cache_hits_total", "", self._hits)
        yield Reading("cache_misses_total", "", self._misses)
        yield Reading("cache_evictions_total", "", self._evictions)
        yield Reading("cache_bytes", "", self._num_bytes)

    def peek(self, key: Hashable) -> Any | None:
        """Return the value of a key; None if it is not cached."""
        value = self._entries.get(key)  # without the lock: the loop's thread alone changes it
        if value is None:
            self._misses += 1
        else:
            self._hits += 1
            self._entries.move_to_end(key)
        if trace.active:
            trace.look("search cache", hit=value is not None, key=key)
        return value

    def peek_all(self, keys: Sequence[Hashable]) -> list[Any | None]:
        """Return the values of keys; None for each key that is not cached."""
        values = [*map(self._entries.get, keys)]
        missing = values.count(None)
        self._hits += len(keys) - missing
        self._misses += missing
        for key, value in zip(keys, values, strict=True):
            if value is not None:
                self._entries.move_to_end(key)
            if trace.active:
                trace.look("search cache", hit=value is not None, key=key)
        return values

    def _refuse(self, num_bytes: int) -> None:
        if self._max_bytes > 0 and num_bytes < sys.maxsize:  # maxsize: not to be cached
            observing.warn_rarely(
                "search cache",
                "",
                "the search cache of %d bytes (cache_bytes) keeps no entry of %d: it is read each "
                "time",
                self._max_bytes,
                num_bytes,
            )

    async def get(
        self,
        key: Hashable,
        load: Callable[[], Awaitable[V]],
        num_bytes: Callable[[V], int],
        *,
        is_near: bool = False,
    ) -> V:
        """Return the value of a key; if it is missing, load it once for all concurrent callers.

        A cancelled caller leaves the load to the other callers; the last caller cancels it. The
        failure of a load is raised in all callers that wait for it, and is not cached.

        Args:
            is_near: True if the load will probably not wait, as for local files. It then begins at
                once, and needs no task if it ends without waiting.
        """
        cached: V | None = self.peek(key)
        if cached is not None:
            return cached
        under_way = self._loads.get(key)
        if under_way is None:

            async def work() -> Sequence[V]:
                return (await load(),)

            under_way = self._begin((key,), work, num_bytes, is_near=is_near)
            if under_way.values is not None:
                begun: V = under_way.values[key]
                return begun
        under_way.askers += 1
        try:
            loaded = await asyncio.shield(under_way.task)
        finally:
            self._leave(under_way)
        value: V = loaded[key]
        return value

    async def get_many(
        self,
        keys: Sequence[Hashable],
        load: Callable[[Sequence[Hashable]], Awaitable[Sequence[V]]],
        num_bytes: Callable[[V], int],
    ) -> list[V]:
        """Return the values of keys; load the missing keys by one call, or join loads under way.

        A cancelled caller leaves its loads to the other callers; the last caller cancels them and
        waits for their end. The failure of a load is raised in the caller that began it; the other
        callers load the keys themselves.

        Args:
            keys: keys without duplicates.
            load: returns the values of a sequence of keys, in order.
        """
        values: dict[Hashable, V] = {}
        missing = []
        for key in keys:
            value: V | None = self.peek(key)
            if value is None:
                missing.append(key)
            else:
                values[key] = value
        while missing:
            others = {self._loads[key] for key in missing if key in self._loads}
            unloaded = [key for key in missing if key not in self._loads]
            own = self._begin(unloaded, partial(load, unloaded), num_bytes) if unloaded else None
            for loaded in await self._all_of(own, others):
                values.update((key, loaded[key]) for key in missing if key in loaded)
            missing = [key for key in missing if key not in values]
        return [values[key] for key in keys]

    async def _all_of(
        self, own: _Load | None, others: Collection[_Load]
    ) -> list[Mapping[Hashable, Any]]:
        """Return the values of loads; omit loads of other callers that failed."""
        loads = [*others, *([] if own is None else [own])]
        for under_way in loads:
            under_way.askers += 1
        try:
            loaded: list[Mapping[Hashable, Any]] = []
            for under_way in loads:
                try:
                    loaded.append(await asyncio.shield(under_way.task))
                except Exception:
                    if under_way is own:
                        raise
            return loaded
        finally:
            cancelled = [under_way.task for under_way in loads if self._leave(under_way)]
            if cancelled:
                await asyncio.wait(cancelled)

    def _begin(
        self,
        keys: Sequence[Hashable],
        work: Callable[[], Awaitable[Sequence[V]]],
        num_bytes: Callable[[V], int],
        *,
        is_near: bool = False,
    ) -> _Load:
        """Begin to load keys for all callers; none of the keys may be loading already."""

        async def run() -> Mapping[Hashable, V]:
            try:
                values = dict(zip(keys, await work(), strict=True))
            finally:  # a callback would run too late: a caller before it would join a failed load
                self._forget(under_way)
            for key, value in values.items():
                self.put(key, value, num_bytes(value))
            return values

        under_way = _Load(keys)
        self._loads.update(dict.fromkeys(keys, under_way))
        loading: Coroutine[Any, Any, Mapping[Hashable, V]] = run()
        if is_near:
            loading = begun = Begun(loading)
            if begun.ended is not None:
                under_way.values = begun.ended.value
                return under_way
        under_way.task = asyncio.ensure_future(loading)
        under_way.task.add_done_callback(seen)
        return under_way

    def _leave(self, load: _Load) -> bool:
        """Stop waiting for a load, and cancel it if nobody else waits.

        Returns True if the load was cancelled before its end.
        """
        load.askers -= 1
        if load.askers:
            return False
        self._forget(load)  # a task that is cancelled before its first step runs no `finally`
        return load.task.cancel()

    def _forget(self, load: _Load) -> None:
        """Remove a load, so that later callers begin a new one."""
        for key in load.keys:
            if self._loads.get(key) is load:
                del self._loads[key]
