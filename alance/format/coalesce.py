"""Turns byte ranges of an object into few requests: merges over small gaps, splits large ranges.

`io/stores/profile.py` and `io/reading/speed.py` choose the widest gap for a store. Kernels merge by
the same rule, see `kernels/io/coalesce.hpp`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from alance import _kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.arrays import Int64s

MAX_STOP: Final = 1 << 62  # with a gap added, still an int64
MAX_RANGE_BYTES: Final = 1 << 40  # more than any memory holds, yet few enough requests
NO_LIMIT: Final = (1 << 64) - 1


def is_range(start: int, stop: int) -> bool:
    """True if an object can have these bytes, and memory can hold them."""
    return 0 <= start <= stop <= MAX_STOP and stop - start <= MAX_RANGE_BYTES


def are_ranges(starts: Int64s, stops: Int64s) -> bool:
    """True if all pairs are ranges; see `is_range`."""
    is_inside = (starts >= 0).all() and (starts <= stops).all() and (stops <= MAX_STOP).all()
    return bool(is_inside and (stops - starts <= MAX_RANGE_BYTES).all())


class Coalesced(NamedTuple):
    """Spans of bytes that cover ranges, and the span that covers each range."""

    spans: list[tuple[int, int]]  # ascending by start; disjoint, unless `max_bytes` cut them
    owners: list[int]  # number of the span that covers each range, in the order given

    def cut(
        self, ranges: Sequence[tuple[int, int]], contents: Sequence[memoryview]
    ) -> list[memoryview]:
        """Return the bytes of each range as views of the spans' contents."""
        firsts = [start for start, _ in self.spans]
        return [
            contents[owner][start - firsts[owner] : stop - firsts[owner]]
            for (start, stop), owner in zip(ranges, self.owners, strict=True)
        ]


def coalesce(
    ranges: Sequence[tuple[int, int]] | Int64s, max_gap_bytes: int, max_bytes: int = NO_LIMIT
) -> Coalesced:
    """Merge ranges of one object that overlap, touch, or are separated by a small gap.

    Args:
        ranges: start and stop of each, in any order, may overlap; an array has the shape (n, 2).
        max_gap_bytes: largest gap whose bytes are read in vain to save a request.
        max_bytes: largest span made by merging; a single range may be larger.
    """
    return Coalesced(*_kernels.coalesce(ranges, max_gap_bytes, max_bytes))


def split(start: int, stop: int, max_bytes: int) -> list[tuple[int, int]]:
    """Split a span into pieces of about equal size, none above `max_bytes`."""
    count = -(-(stop - start) // max_bytes)
    if count <= 1:
        return [(start, stop)]
    cuts = [start + (stop - start) * number // count for number in range(count + 1)]
    return list(pairwise(cuts))
