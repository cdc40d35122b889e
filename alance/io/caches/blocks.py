"""The block cache: bytes that takes from a remote store have read, cached for later takes.

Callers often take rows that others took, and rows near these. So the buffers of a take's requests
are cached as they arrive. A request costs as much as the transfer of 80 to 150 KiB. So a block of
64 KiB is read whole if a part of it is in the cache, or if many takes run at once. Objects never
change, so entries never become stale. Scans do not use the cache. The least recently used bytes are
evicted first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from alance.format.numbers import distinct
from alance.format.plans import coalesce

if TYPE_CHECKING:
    from alance.base.arrays import Int64s, Mask
    from alance.io.reading.reads import Read

CACHED_BLOCK_BYTES: Final = 64 << 10
MAX_ENDS: Final = 1 << 16  # objects whose size has a known lower bound; some 10 MB
# A smaller buffer is copied: it may be a view that keeps a larger buffer of a connection alive.
COPIED_BYTES: Final = 16 << 10
BLOCK_ENTRY_BYTES: Final = 1 << 10  # bytes of the Python objects of an entry, besides its buffer


class _CachedBytes(NamedTuple):
    """A cached buffer with bytes of an object."""

    location: str
    begin: int
    buffer: memoryview

    @property
    def stop(self) -> int:
        return self.begin + len(self.buffer)

    @property
    def key(self) -> tuple[str, int, int]:
        return self.location, self.begin, self.stop

    @property
    def num_bytes(self) -> int:
        return len(self.buffer) + BLOCK_ENTRY_BYTES

    @property
    def numbers(self) -> range:
        """Numbers of the blocks that the buffer overlaps."""
        return range(self.begin // CACHED_BLOCK_BYTES, -(-self.stop // CACHED_BLOCK_BYTES))


class BlockCache:
    """An LRU cache of bytes of objects, looked up by block.

    Args:
        max_bytes: upper bound of the cached bytes; 0 turns the cache off.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._blocks: dict[str, dict[int, list[_CachedBytes]]] = {}  # by location and block number
        self._entries: OrderedDict[tuple[str, int, int], _CachedBytes] = OrderedDict()
        self._num_bytes = 0
        self._ends: dict[str, int] = {}  # lower bound of each object's size
        self.num_puts = 0
        self.hits = 0
        self.misses = 0

    def view(self) -> BlockCache:
        """Return a view of this cache that ignores `put`."""
        view = _View(self.max_bytes)
        view._blocks, view._entries, view._ends = self._blocks, self._entries, self._ends
        return view

    @property
    def num_bytes(self) -> int:
        """Bytes in the cache."""
        return self._num_bytes

    def note_end(self, location: str, stop: int) -> None:
        """Record that an object has at least `stop` bytes; the oldest records are dropped."""
        if stop > self._ends.get(location, 0):
            self._ends.pop(location, None)
            self._ends[location] = stop
            if len(self._ends) > MAX_ENDS:
                del self._ends[next(iter(self._ends))]

    def widened(
        self, location: str, starts: Int64s, stops: Int64s, *, everywhere: bool
    ) -> tuple[Int64s, Int64s]:
        """Widen ranges of an object to whole blocks, but not beyond the known end of the object.

        Args:
            everywhere: True to widen all ranges; False to widen only into partly cached blocks.
        """
        blocks = self._blocks.get(location, {})
        if not (blocks or everywhere):
            return starts, stops
        firsts, ends = starts // CACHED_BLOCK_BYTES, -(-stops // CACHED_BLOCK_BYTES)
        begins = firsts * CACHED_BLOCK_BYTES
        reach = np.maximum(
            stops, np.minimum(ends * CACHED_BLOCK_BYTES, self._ends.get(location, 0))
        )
        if everywhere:
            return begins, reach
        is_begun = np.array([number in blocks for number in firsts.tolist()])
        is_ended = np.array([number - 1 in blocks for number in ends.tolist()])
        return np.where(is_begun, begins, starts), np.where(is_ended, reach, stops)

    def answer(self, location: str, starts: Int64s, stops: Int64s, read: Read) -> Mask | None:
        """Add the cached bytes of ranges of an object to a read; no range is empty.

        Returns:
            A mask of the ranges that are not wholly cached. None if no block that they overlap has
            cached bytes; then no range is cached.
        """
        blocks = self._blocks.get(location)
        if not blocks:
            self.misses += len(starts)
            return None
        firsts, lasts = starts // CACHED_BLOCK_BYTES, (stops - 1) // CACHED_BLOCK_BYTES
        counts = lasts - firsts + 1
        steps = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        numbers, _ = distinct(np.repeat(firsts, counts) + steps)
        near = {entry.key: entry for number in numbers.tolist() for entry in blocks.get(number, ())}
        here = sorted(near.values(), key=lambda entry: entry.begin)
        if not here:
            self.misses += len(starts)
            return None
        islands = np.array(coalesce([(entry.begin, entry.stop) for entry in here], 0).spans)
        places = np.searchsorted(islands[:, 0], starts, "right") - 1
        is_missing: Mask = (places < 0) | (stops > islands[places, 1])
        self._give(location, here, starts[~is_missing], stops[~is_missing], read)
        count = int(is_missing.sum())
        self.hits += len(starts) - count
        self.misses += count
        return is_missing

    def _give(
        self, location: str, here: list[_CachedBytes], starts: Int64s, stops: Int64s, read: Read
    ) -> None:
        """Add the buffers that overlap the ranges to a read."""
        spans = coalesce(np.array((starts, stops)).T, 0).spans
        for entry in here:
            last = bisect_left(spans, (entry.stop,)) - 1  # last span before the entry's end
            if last >= 0 and spans[last][1] > entry.begin:
                self._entries.move_to_end(entry.key)
                read.bring(location, [(entry.begin, entry.buffer)])

    def put(self, location: str, begin: int, buffer: memoryview) -> None:
        """Cache bytes of an object, and drop entries that lie inside them."""
        if len(buffer) + BLOCK_ENTRY_BYTES > self.max_bytes:
            return
        if len(buffer) < COPIED_BYTES:
            buffer = memoryview(bytes(buffer))
        entry = _CachedBytes(location, begin, buffer)
        self.num_puts += 1
        if location in self._blocks:
            self._drop_inside(entry)
        blocks = self._blocks.setdefault(location, {})
        for number in entry.numbers:
            blocks.setdefault(number, []).append(entry)
        self._entries[entry.key] = entry
        self._num_bytes += entry.num_bytes
        while self._num_bytes > self.max_bytes:
            self._drop(next(iter(self._entries.values())))

    def _drop_inside(self, entry: _CachedBytes) -> None:
        blocks = self._blocks[entry.location]
        near = {old.key: old for number in entry.numbers for old in blocks.get(number, ())}
        for old in near.values():
            if entry.begin <= old.begin and old.stop <= entry.stop:
                self._drop(old)

    def _drop(self, entry: _CachedBytes) -> None:
        del self._entries[entry.key]
        self._num_bytes -= entry.num_bytes
        blocks = self._blocks[entry.location]
        for number in entry.numbers:
            others = [other for other in blocks[number] if other is not entry]
            if others:
                blocks[number] = others
            else:
                del blocks[number]
        if not blocks:
            del self._blocks[entry.location]


class _View(BlockCache):
    """A view of another cache that adds nothing to it."""

    def put(self, location: str, begin: int, buffer: memoryview) -> None:
        """Do nothing."""
