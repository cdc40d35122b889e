"""The block cache: bytes of objects that many callers want, in blocks of 64 KiB.

A request costs as much as 80 to 150 KiB of body, so under many concurrent takes it pays to read
the whole block around a few kilobytes and to keep it: the next caller's rows are likely in it.
Objects are immutable, scans do not come here, and what was used least recently goes first. What a
request has brought is kept as it is, without a copy: its blocks come and go together.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from alance.format.numbers import distinct

if TYPE_CHECKING:
    from alance.arrays import Int64s, Mask
    from alance.io.reads import Read

BLOCK_BYTES: Final = 64 << 10
MOST_ENDS: Final = 1 << 16  # of objects; some 10 MB


class _Kept(NamedTuple):
    """Bytes of an object."""

    location: str
    begin: int  # of a block, as a byte of the object
    buffer: memoryview

    @property
    def stop(self) -> int:
        return self.begin + len(self.buffer)

    @property
    def numbers(self) -> range:
        """The blocks that begin in it."""
        first = self.begin // BLOCK_BYTES
        return range(first, first + -(-len(self.buffer) // BLOCK_BYTES))


class BlockCache:
    """Blocks of objects, bounded by bytes.

    Args:
        max_bytes: budget; 0 keeps nothing.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._blocks: dict[str, dict[int, _Kept]] = {}  # by object and number
        self._kept: OrderedDict[tuple[str, int], _Kept] = OrderedDict()
        self._num_bytes = 0
        self._ends: dict[str, int] = {}  # how far each object is known to reach
        self.num_puts = 0  # so far
        self.hits = 0
        self.misses = 0

    @property
    def is_on(self) -> bool:
        """Whether anything is kept."""
        return self._max_bytes > 0

    @property
    def num_bytes(self) -> int:
        """Bytes held."""
        return self._num_bytes

    def note_end(self, location: str, stop: int) -> None:
        """Remember that an object has bytes up to `stop`, of the objects that were read last."""
        if stop > self._ends.get(location, 0):
            self._ends.pop(location, None)
            self._ends[location] = stop
            if len(self._ends) > MOST_ENDS:
                del self._ends[next(iter(self._ends))]

    def widened(self, location: str, starts: Int64s, stops: Int64s) -> tuple[Int64s, Int64s]:
        """Ranges widened to whole blocks, as far as the object is known to reach."""
        reach = self._ends.get(location, 0)
        ends = -(-stops // BLOCK_BYTES) * BLOCK_BYTES
        return starts // BLOCK_BYTES * BLOCK_BYTES, np.maximum(stops, np.minimum(ends, reach))

    def answer(self, location: str, starts: Int64s, stops: Int64s, read: Read) -> Mask | None:
        """Give a read what is here of some ranges of an object, none empty.

        Returns:
            Which of them are not here; None: all of them.
        """
        blocks = self._blocks.get(location)
        if not blocks:
            self.misses += len(starts)
            return None
        firsts, lasts = starts // BLOCK_BYTES, (stops - 1) // BLOCK_BYTES
        counts = lasts - firsts + 1
        steps = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        asked = np.repeat(firsts, counts) + steps  # the blocks of each range
        numbers, places = distinct(asked)
        here = [blocks.get(number) for number in numbers.tolist()]
        reach = np.array([-1 if kept is None else kept.stop for kept in here])
        gaps = np.cumsum(np.concatenate([[0], reach < (numbers + 1) * BLOCK_BYTES]))
        first_places, last_places = np.searchsorted(numbers, [firsts, lasts])
        is_here = (gaps[last_places] == gaps[first_places]) & (stops <= reach[last_places])
        used = places[np.repeat(is_here, counts)]
        brought = [kept for place in sorted({*used.tolist()}) if (kept := here[place]) is not None]
        for kept in {kept.begin: kept for kept in brought}.values():
            self._kept.move_to_end((location, kept.begin))
            read.bring(location, kept.begin, kept.buffer)
        count = int(is_here.sum())
        self.hits += count
        self.misses += len(starts) - count
        is_missing: Mask = ~is_here
        return is_missing

    def put(self, location: str, begin: int, buffer: memoryview) -> None:
        """Keep the bytes of an object from the first block on that begins in them."""
        skipped = -begin % BLOCK_BYTES
        begin, buffer = begin + skipped, buffer[skipped:]
        if not buffer:
            return
        self.num_puts += 1
        self._drop((location, begin))
        kept = self._kept[location, begin] = _Kept(location, begin, buffer)
        self._num_bytes += len(buffer)
        blocks = self._blocks.setdefault(location, {})
        for number in kept.numbers:
            old = blocks.get(number)
            end = (number + 1) * BLOCK_BYTES
            if old is None or min(old.stop, end) <= min(kept.stop, end):
                blocks[number] = kept
        while self._num_bytes > self._max_bytes:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: tuple[str, int]) -> None:
        kept = self._kept.pop(key, None)
        if kept is None:
            return
        self._num_bytes -= len(kept.buffer)
        blocks = self._blocks[kept.location]
        for number in kept.numbers:
            if blocks.get(number) is kept:
                del blocks[number]
        if not blocks:
            del self._blocks[kept.location]
