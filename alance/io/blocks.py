"""The block cache: bytes of objects that many callers want, in blocks of 64 KiB.

A request costs as much as 80 to 150 KiB of body, so under many concurrent takes it pays to read
the whole block around a few kilobytes and to keep it: the next caller's rows are likely in it.
Objects are immutable, scans do not come here, and the least recently used block goes first.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    Asked = tuple[int, int, int]

BLOCK_BYTES: Final = 64 << 10


class BlockCache:
    """Blocks of objects, bounded by bytes.

    Args:
        max_bytes: budget; 0 keeps nothing.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._blocks: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._num_bytes = 0
        self._ends: dict[str, int] = {}  # how far each object is known to reach
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
        """Remember that an object has bytes up to `stop`."""
        if stop > self._ends.get(location, 0):
            self._ends[location] = stop

    def widened(self, location: str, start: int, stop: int) -> tuple[int, int]:
        """A range widened to whole blocks, as far as the object is known to reach."""
        end = -(-stop // BLOCK_BYTES) * BLOCK_BYTES
        reach = self._ends.get(location, 0)
        return start // BLOCK_BYTES * BLOCK_BYTES, max(stop, min(end, reach))

    def get(self, location: str, start: int, stop: int) -> memoryview | None:
        """Bytes of an object if all of their blocks are here; `start` < `stop`."""
        first, last = start // BLOCK_BYTES, (stop - 1) // BLOCK_BYTES
        blocks = []
        for number in range(first, last + 1):
            block = self._blocks.get((location, number))
            if block is None or min(stop - number * BLOCK_BYTES, BLOCK_BYTES) > len(block):
                self.misses += 1
                return None
            blocks.append(block)
        self.hits += 1
        for number in range(first, last + 1):
            self._blocks.move_to_end((location, number))
        skip = start - first * BLOCK_BYTES
        content = blocks[0] if len(blocks) == 1 else b"".join(blocks)
        return memoryview(content)[skip : skip + stop - start]

    def answer(
        self, location: str, ranges: Sequence[Asked], buffers: list[memoryview | None]
    ) -> Sequence[Asked]:
        """Give what is here of some ranges (number in `buffers`, start, stop) of an object.

        Returns:
            Those that are not here.
        """
        blocks = self._blocks
        if not blocks:
            self.misses += len(ranges)
            return ranges
        left = []
        for asked in ranges:
            number, start, stop = asked
            key = location, start // BLOCK_BYTES
            first = key[1] * BLOCK_BYTES
            block = blocks.get(key)
            if block is not None and stop - first <= len(block):  # all in one
                blocks.move_to_end(key)
                self.hits += 1
                buffers[number] = memoryview(block)[start - first : stop - first]
            elif stop - first <= BLOCK_BYTES:
                self.misses += 1
                left.append(asked)
            elif (content := self.get(location, start, stop)) is not None:
                buffers[number] = content
            else:
                left.append(asked)
        return left

    def put(self, location: str, start: int, content: memoryview) -> None:
        """Keep the blocks whose beginning is in some bytes of an object."""
        stop = start + len(content)
        for position in range(-(-start // BLOCK_BYTES) * BLOCK_BYTES, stop, BLOCK_BYTES):
            block = bytes(content[position - start : position - start + BLOCK_BYTES])
            key = (location, position // BLOCK_BYTES)
            old = self._blocks.pop(key, b"")
            if len(old) > len(block):
                block = old
            self._blocks[key] = block
            self._num_bytes += len(block) - len(old)
        while self._num_bytes > self._max_bytes:
            _, dropped = self._blocks.popitem(last=False)
            self._num_bytes -= len(dropped)
