"""Coalescing of byte ranges of an object: merge over small gaps, split large ranges.

`io/stores/profile.py` and `io/reading/speed.py` choose the largest gap for a store. Kernels merge
by the same rule; see `kernels/io/coalesce.hpp`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from alance import _kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Int64s

MAX_STOP: Final = 1 << 62  # a position plus a gap still fits into an int64
MAX_RANGE_BYTES: Final = 1 << 40  # above any machine's memory; still a moderate number of requests
NO_LIMIT: Final = (1 << 64) - 1


def is_range(start: int, stop: int) -> bool:
    """True if the range is valid: within the largest object and the largest memory."""
    return 0 <= start <= stop <= MAX_STOP and stop - start <= MAX_RANGE_BYTES


def are_ranges(starts: Int64s, stops: Int64s) -> bool:
    """True if all pairs are valid ranges; see `is_range`."""
    is_inside = (starts >= 0).all() and (starts <= stops).all() and (stops <= MAX_STOP).all()
    return bool(is_inside and (stops - starts <= MAX_RANGE_BYTES).all())


class Coalesced(NamedTuple):
    """Spans of bytes that cover ranges, and the number of the span for each range."""

    spans: list[tuple[int, int]]  # ascending by start; disjoint, unless `max_bytes` cut them
    owners: list[int]  # for each range, in input order, the number of its span

    def cut(
        self, ranges: Sequence[tuple[int, int]], contents: Sequence[memoryview]
    ) -> list[memoryview]:
        """Cut the bytes of each range out of the spans' contents; views."""
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
        ranges: start and stop of each, in any order, perhaps overlapping; an array has shape (n,
            2).
        max_gap_bytes: largest gap to read in order to save a request.
        max_bytes: largest span that merging may produce; a single range may be larger.
    """
    return Coalesced(*_kernels.coalesce(ranges, max_gap_bytes, max_bytes))


def split(start: int, stop: int, max_bytes: int) -> list[tuple[int, int]]:
    """Split a span into pieces of about equal size, at most `max_bytes` each."""
    count = -(-(stop - start) // max_bytes)
    if count <= 1:
        return [(start, stop)]
    cuts = [start + (stop - start) * number // count for number in range(count + 1)]
    return list(pairwise(cuts))
