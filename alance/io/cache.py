"""The search cache: what was learned of files and tables, the least recently used dropped first.

Keys name a file and a part of it, never a projection, so that every reader of a file profits. The
values are immutable, and hold no more memory than they say.
"""

from __future__ import annotations

import asyncio
import sys
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from alance.io import observing, trace
from alance.io.observing import Reading

if TYPE_CHECKING:
    from collections.abc import (
        Awaitable,
        Callable,
        Collection,
        Hashable,
        Iterator,
        Mapping,
        Sequence,
    )

    from alance.io.disk_cache import DiskCache

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What a cache did so far, and holds now."""

    hits: int
    misses: int
    evictions: int
    num_entries: int
    num_bytes: int


@dataclass(slots=True, eq=False)
class _Load:
    """A load under way, how many wait for it, and what it is of, where that is more than one."""

    task: asyncio.Task[Any]
    keys: Sequence[Hashable] = ()
    askers: int = 0


class SearchCache:
    """A cache bounded by bytes, for one event loop.

    Args:
        max_bytes: budget; 0 keeps nothing. An entry of more than a quarter of it is not kept.
        kept: where those who learn something look before, and leave its bytes.
    """

    def __init__(self, max_bytes: int, kept: DiskCache | None = None) -> None:
        self.kept = kept
        self._max_bytes = max_bytes
        # A pair an entry would be one more object that the collector of cycles looks at.
        self._entries: OrderedDict[Hashable, Any] = OrderedDict()
        self._sizes: dict[Hashable, int] = {}
        self._loads: dict[Hashable, _Load] = {}
        self._shared: dict[Hashable, _Load] = {}  # by `get_many`
        self._num_bytes = 0
        self._hits = self._misses = self._evictions = 0

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
        """The value of a key; None where it is not there."""
        value = self._entries.get(key)
        if trace.active:
            trace.look("search cache", hit=value is not None)
        if value is None:
            self._misses += 1
            return None
        self._hits += 1
        self._entries.move_to_end(key)
        return value

    def put(self, key: Hashable, value: Any, num_bytes: int) -> None:
        """Keep a value, which is not None, in place of an older one."""
        if key in self._entries:
            self.discard(key)
        if num_bytes > self._max_bytes // 4:
            if self._max_bytes > 0 and num_bytes < sys.maxsize:  # who wants none kept says that
                self._warn(num_bytes)
            return
        self._entries[key] = value
        self._sizes[key] = num_bytes
        self._num_bytes += num_bytes
        while self._num_bytes > self._max_bytes:
            oldest, _ = self._entries.popitem(last=False)
            self._num_bytes -= self._sizes.pop(oldest)
            self._evictions += 1

    def _warn(self, num_bytes: int) -> None:
        observing.warn_rarely(
            "search cache",
            "",
            "the search cache of %d bytes (cache_bytes) keeps no entry of %d: it is read each time",
            self._max_bytes,
            num_bytes,
        )

    def discard(self, key: Hashable) -> None:
        """Forget a key."""
        if self._entries.pop(key, None) is not None:
            self._num_bytes -= self._sizes.pop(key)

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._sizes.clear()
        self._num_bytes = 0

    async def get(
        self, key: Hashable, load: Callable[[], Awaitable[V]], num_bytes: Callable[[V], int]
    ) -> V:
        """The value of a key, loaded where it is not there: once, however many ask meanwhile.

        A cancelled asker leaves the load to the others; the last one cancels it. A failed load
        reaches all who wait for it, and is not kept.
        """
        kept: V | None = self.peek(key)
        if kept is not None:
            return kept
        under_way = self._loads.get(key)
        if under_way is None:

            async def run() -> V:
                value = await load()
                self.put(key, value, num_bytes(value))
                return value

            under_way = self._loads[key] = _Load(asyncio.ensure_future(run()))
            under_way.task.add_done_callback(lambda task: self._ended(key, task))
        under_way.askers += 1
        try:
            result: V = await asyncio.shield(under_way.task)
            return result
        finally:
            under_way.askers -= 1
            if not under_way.askers and not under_way.task.done():
                under_way.task.cancel()
                self._forget(key, under_way.task)

    async def get_many(
        self,
        keys: Sequence[Hashable],
        load: Callable[[Sequence[Hashable]], Awaitable[Sequence[V]]],
        num_bytes: Callable[[V], int],
    ) -> list[V]:
        """The values of keys; those that are not there are loaded by one call, or by that of others
        that is under way.

        Cancellation is as of `get`. A failed load reaches who began it; others load for themselves.

        Args:
            keys: each once; `get` is not asked for them.
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
            loads = {self._shared[key] for key in missing if key in self._shared}
            unasked = [key for key in missing if key not in self._shared]
            own = self._load_many(unasked, load, num_bytes) if unasked else None
            for loaded in await self._all_of(own, loads):
                values.update((key, loaded[key]) for key in missing if key in loaded)
            missing = [key for key in missing if key not in values]
        return [values[key] for key in keys]

    def _load_many(
        self,
        keys: Sequence[Hashable],
        load: Callable[[Sequence[Hashable]], Awaitable[Sequence[V]]],
        num_bytes: Callable[[V], int],
    ) -> _Load:
        async def run() -> dict[Hashable, V]:
            try:
                values = dict(zip(keys, await load(keys), strict=True))
            finally:  # not in a callback of the task: who asks before that would find a failure
                self._unshare(under_way)
            for key, value in values.items():
                self.put(key, value, num_bytes(value))
            return values

        under_way = _Load(asyncio.ensure_future(run()), keys)
        self._shared.update(dict.fromkeys(keys, under_way))
        under_way.task.add_done_callback(_seen)
        return under_way

    def _unshare(self, load: _Load) -> None:
        """Let those who ask from now on load for themselves."""
        for key in load.keys:
            if self._shared.get(key) is load:
                del self._shared[key]

    async def _all_of(
        self, own: _Load | None, others: Collection[_Load]
    ) -> list[Mapping[Hashable, Any]]:
        """What loads of many give; nothing where that of another failed."""
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
            left = []
            for under_way in loads:
                under_way.askers -= 1
                if not under_way.askers and not under_way.task.done():
                    self._unshare(under_way)
                    under_way.task.cancel()
                    left.append(under_way.task)
            if left:
                await asyncio.wait(left)

    def _ended(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        self._forget(key, task)
        _seen(task)

    def _forget(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        load = self._loads.get(key)
        if load is not None and load.task is task:
            del self._loads[key]


def _seen(task: asyncio.Task[Any]) -> None:
    """Who began it has seen its failure, or is gone."""
    if not task.cancelled():
        task.exception()
