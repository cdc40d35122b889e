"""Memos within a budget of bytes, and the search cache: a session's memo of files and tables.

Keys of the search cache name a file and a part of it, never a projection, so that every reader of
a file profits. The values are immutable, and hold no more memory than they say. docs/caches.md
lists all caches.
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

from alance.io.events import observing, trace
from alance.io.events.observing import Reading
from alance.io.loop import lifecycle
from alance.io.loop.futures import seen
from alance.io.loop.tasks import Begun
from alance.records import dataclass

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
    """Values by key, within a budget of bytes; the least recently used are dropped first.

    For all threads, also after a fork.

    Args:
        max_bytes: budget. A value that is larger is not kept.
        share: the part of the budget that one value may take.
    """

    def __init__(self, max_bytes: int, share: float = 1.0) -> None:
        self._max_bytes = max_bytes
        self._max_value_bytes = int(max_bytes * share)
        # A pair an entry would be one more object that the collector of cycles looks at.
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._sizes: dict[K, int] = {}
        self._num_bytes = 0
        self._evictions = 0
        self._lock = RLock()  # a finalizer may come in between, in the same thread
        lifecycle.on_fork(self)

    def after_fork(self) -> None:
        """Make the lock anew: another thread may have held it."""
        self._lock = RLock()

    def peek(self, key: K) -> V | None:
        """Return the value of a key, or None."""
        with self._lock:
            value = self._entries.get(key)
            if value is not None:
                self._entries.move_to_end(key)
            return value

    def put(self, key: K, value: V, num_bytes: int) -> None:
        """Keep a value, which is not None, in place of an older one."""
        with self._lock:
            if key in self._entries:
                self._drop(key)
            if num_bytes <= self._max_value_bytes:
                self._entries[key] = value
                self._sizes[key] = num_bytes
                self._num_bytes += num_bytes
                while self._num_bytes > self._max_bytes:
                    self._drop(next(iter(self._entries)))
                    self._evictions += 1
                return
        self._refuse(num_bytes)

    def _refuse(self, num_bytes: int) -> None:
        """Answer a value that is too large; it is not kept."""

    def discard(self, key: K) -> None:
        """Forget a key."""
        with self._lock:
            self._drop(key)

    def clear(self) -> None:
        """Forget everything."""
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
    """A load of some keys, and how many wait for it.

    Attributes:
        values: what it gave, where it did not have to wait for anything.
        task: of one that has to.
    """

    keys: Sequence[Hashable]
    values: Mapping[Hashable, Any] | None = None
    task: asyncio.Task[Mapping[Hashable, Any]] = field(init=False, repr=False)
    askers: int = 0


class SearchCache(Memo[Hashable, Any]):
    """A memo for one event loop that loads each missing value once, and counts hits and misses.

    Args:
        max_bytes: budget; 0 keeps nothing. An entry of more than a quarter of it is not kept.
        kept: where those who learn something look before, and leave its bytes.
    """

    def __init__(self, max_bytes: int, kept: DiskCache | None = None) -> None:
        super().__init__(max_bytes, share=1 / 4)
        self.kept = kept
        self._loads: dict[Hashable, _Load] = {}
        self._hits = self._misses = 0

    @property
    def max_bytes(self) -> int:
        """The budget."""
        return self._max_bytes

    @property
    def stats(self) -> CacheStats:
        """Hits, misses, evictions, entries and bytes."""
        return CacheStats(
            self._hits, self._misses, self._evictions, len(self._entries), self._num_bytes
        )

    def readings(self) -> Iterator[Reading]:
        """The same for observers."""
        yield Reading("cache_hits_total", "", self._hits)
        yield Reading("cache_misses_total", "", self._misses)
        yield Reading("cache_evictions_total", "", self._evictions)
        yield Reading("cache_bytes", "", self._num_bytes)

    def peek(self, key: Hashable) -> Any | None:
        """Return the value of a key, or None."""
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
        """The values of keys; None for one that is not there."""
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
        if self._max_bytes > 0 and num_bytes < sys.maxsize:  # who wants none kept says that
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
        """The value of a key, loaded where it is not there: once, however many ask meanwhile.

        A cancelled asker leaves the load to the others; the last one cancels it. A failed load
        reaches all who wait for it, and is not kept.

        Args:
            is_near: the load most likely waits for nothing, as of local files: it begins at once,
                and no task is made for one that ends so.
        """
        kept: V | None = self.peek(key)
        if kept is not None:
            return kept
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
        """The values of keys; those that are not there are loaded by one call, or by that of others
        that is under way.

        A cancelled asker leaves loads to the others; the last one cancels them, and waits for their
        end. A failed load reaches who began it; others load for themselves.

        Args:
            keys: each once.
            load: gives a value for each of some keys.
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
            unasked = [key for key in missing if key not in self._loads]
            own = self._begin(unasked, partial(load, unasked), num_bytes) if unasked else None
            for loaded in await self._all_of(own, others):
                values.update((key, loaded[key]) for key in missing if key in loaded)
            missing = [key for key in missing if key not in values]
        return [values[key] for key in keys]

    async def _all_of(
        self, own: _Load | None, others: Collection[_Load]
    ) -> list[Mapping[Hashable, Any]]:
        """What loads give; nothing where that of another failed."""
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
            left = [under_way.task for under_way in loads if self._leave(under_way)]
            if left:
                await asyncio.wait(left)

    def _begin(
        self,
        keys: Sequence[Hashable],
        work: Callable[[], Awaitable[Sequence[V]]],
        num_bytes: Callable[[V], int],
        *,
        is_near: bool = False,
    ) -> _Load:
        """Load keys, none of which is under way, for all who ask meanwhile."""

        async def run() -> Mapping[Hashable, V]:
            try:
                values = dict(zip(keys, await work(), strict=True))
            finally:  # not in a callback of the task: who asks before that would find a failure
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
        """Wait no more for a load. Where nobody else does, it ends; true if it had not yet."""
        load.askers -= 1
        if load.askers:
            return False
        self._forget(load)  # a task that is cancelled before its first step does not do it
        return load.task.cancel()

    def _forget(self, load: _Load) -> None:
        """Let those who ask from now on load for themselves."""
        for key in load.keys:
            if self._loads.get(key) is load:
                del self._loads[key]
