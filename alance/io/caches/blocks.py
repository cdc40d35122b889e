"""The block cache: bytes that takes of a remote store have read, kept for later takes.

Callers often ask for rows that others read, and for rows near these. So the bytes of a take's
requests are kept as they came. A request costs as much as 80 to 150 KiB of body. Therefore a block
of 64 KiB is read whole if a part of it is in the cache, or if many takes run at once. Objects never
change, so entries never become stale. Scans do not use the cache. The least recently used bytes are
dropped first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from alance.format.coalesce import coalesce
from alance.format.numbers import distinct

if TYPE_CHECKING:
    from alance.arrays import Int64s, Mask
    from alance.io.reading.reads import Read

CACHED_BLOCK_BYTES: Final = 64 << 10
MAX_ENDS: Final = 1 << 16  # of objects; some 10 MB
# Fewer bytes are copied: they may lie in a larger buffer of a connection.
COPIED_BYTES: Final = 16 << 10
BLOCK_ENTRY_BYTES: Final = 1 << 10  # of objects of Python for each buffer that is kept


class _Kept(NamedTuple):
    """Bytes of an object."""

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
        """The blocks that it has bytes of."""
        return range(self.begin // CACHED_BLOCK_BYTES, -(-self.stop // CACHED_BLOCK_BYTES))


class BlockCache:
    """Bytes of objects, found by blocks, within a budget.

    Args:
        max_bytes: budget; 0 keeps nothing.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._blocks: dict[str, dict[int, list[_Kept]]] = {}  # by object and number
        self._kept: OrderedDict[tuple[str, int, int], _Kept] = OrderedDict()
        self._num_bytes = 0
        self._ends: dict[str, int] = {}  # how far each object is known to reach
        self.num_puts = 0  # so far
        self.hits = 0
        self.misses = 0

    def view(self) -> BlockCache:
        """The same bytes; what is put there is not kept."""
        view = _View(self.max_bytes)
        view._blocks, view._kept, view._ends = self._blocks, self._kept, self._ends
        return view

    @property
    def num_bytes(self) -> int:
        """Bytes held."""
        return self._num_bytes

    def note_end(self, location: str, stop: int) -> None:
        """Remember that an object has bytes up to `stop`, of the objects that were read last."""
        if stop > self._ends.get(location, 0):
            self._ends.pop(location, None)
            self._ends[location] = stop
            if len(self._ends) > MAX_ENDS:
                del self._ends[next(iter(self._ends))]

    def widened(
        self, location: str, starts: Int64s, stops: Int64s, *, everywhere: bool
    ) -> tuple[Int64s, Int64s]:
        """Ranges of an object, widened to whole blocks as far as the object is known to reach.

        Args:
            everywhere: not only where something of a block is here.
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
        """Give a read what is here of some ranges of an object, none empty.

        Returns:
            Which of them are not here; None: all of them.
        """
        blocks = self._blocks.get(location)
        if not blocks:
            self.misses += len(starts)
            return None
        firsts, lasts = starts // CACHED_BLOCK_BYTES, (stops - 1) // CACHED_BLOCK_BYTES
        counts = lasts - firsts + 1
        steps = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        numbers, _ = distinct(np.repeat(firsts, counts) + steps)
        near = {kept.key: kept for number in numbers.tolist() for kept in blocks.get(number, ())}
        here = sorted(near.values(), key=lambda kept: kept.begin)
        if not here:
            self.misses += len(starts)
            return None
        islands = np.array(coalesce([(kept.begin, kept.stop) for kept in here], 0).spans)
        places = np.searchsorted(islands[:, 0], starts, "right") - 1
        is_missing: Mask = (places < 0) | (stops > islands[places, 1])
        self._give(location, here, starts[~is_missing], stops[~is_missing], read)
        count = int(is_missing.sum())
        self.hits += len(starts) - count
        self.misses += count
        return is_missing

    def _give(
        self, location: str, here: list[_Kept], starts: Int64s, stops: Int64s, read: Read
    ) -> None:
        """Give a read the buffers that have bytes of ranges."""
        spans = coalesce(np.array((starts, stops)).T, 0).spans
        for kept in here:
            last = bisect_left(spans, (kept.stop,)) - 1  # that begins before the buffer ends
            if last >= 0 and spans[last][1] > kept.begin:
                self._kept.move_to_end(kept.key)
                read.bring(location, kept.begin, kept.buffer)

    def put(self, location: str, begin: int, buffer: memoryview) -> None:
        """Keep bytes of an object, in the place of those that lie inside of them."""
        if len(buffer) + BLOCK_ENTRY_BYTES > self.max_bytes:
            return
        if len(buffer) < COPIED_BYTES:
            buffer = memoryview(bytes(buffer))
        kept = _Kept(location, begin, buffer)
        self.num_puts += 1
        if location in self._blocks:
            self._drop_inside(kept)
        blocks = self._blocks.setdefault(location, {})
        for number in kept.numbers:
            blocks.setdefault(number, []).append(kept)
        self._kept[kept.key] = kept
        self._num_bytes += kept.num_bytes
        while self._num_bytes > self.max_bytes:
            self._drop(next(iter(self._kept.values())))

    def _drop_inside(self, kept: _Kept) -> None:
        blocks = self._blocks[kept.location]
        near = {old.key: old for number in kept.numbers for old in blocks.get(number, ())}
        for old in near.values():
            if kept.begin <= old.begin and old.stop <= kept.stop:
                self._drop(old)

    def _drop(self, kept: _Kept) -> None:
        del self._kept[kept.key]
        self._num_bytes -= kept.num_bytes
        blocks = self._blocks[kept.location]
        for number in kept.numbers:
            others = [other for other in blocks[number] if other is not kept]
            if others:
                blocks[number] = others
            else:
                del blocks[number]
        if not blocks:
            del self._blocks[kept.location]


class _View(BlockCache):
    """Bytes of another cache, to which it adds nothing."""

    def put(self, location: str, begin: int, buffer: memoryview) -> None:
        """Nothing."""
