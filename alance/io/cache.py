"""The search cache: what was learned of files and tables, the least recently used dropped first.

Keys name a file and a part of it, never a projection, so that every reader of a file profits. The
values are immutable, and hold no more memory than they say.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from alance.io import trace

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

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


@dataclass(slots=True)
class _Load:
    """A load under way, and how many wait for it."""

    task: asyncio.Task[Any]
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
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._loads: dict[Hashable, _Load] = {}
        self._num_bytes = 0
        self._hits = self._misses = self._evictions = 0

    @property
    def stats(self) -> CacheStats:
        """Hits, misses, evictions, entries and bytes."""
        return CacheStats(
            self._hits, self._misses, self._evictions, len(self._entries), self._num_bytes
        )

    def peek(self, key: Hashable) -> Any | None:
        """The value of a key; None where it is not there."""
        entry = self._entries.get(key)
        if trace.active:
            trace.look("search cache", hit=entry is not None)
        if entry is None:
            self._misses += 1
            return None
        self._hits += 1
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: Hashable, value: Any, num_bytes: int) -> None:
        """Keep a value, in place of an older one."""
        self.discard(key)
        if num_bytes > self._max_bytes // 4:
            return
        self._entries[key] = (value, num_bytes)
        self._num_bytes += num_bytes
        while self._num_bytes > self._max_bytes:
            _, (_, freed) = self._entries.popitem(last=False)
            self._num_bytes -= freed
            self._evictions += 1

    def discard(self, key: Hashable) -> None:
        """Forget a key."""
        old = self._entries.pop(key, None)
        if old is not None:
            self._num_bytes -= old[1]

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
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

    def _ended(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        self._forget(key, task)
        if not task.cancelled():
            task.exception()  # an asker has seen it, or all are gone

    def _forget(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        load = self._loads.get(key)
        if load is not None and load.task is task:
            del self._loads[key]
