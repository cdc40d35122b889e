"""Byte ranges of one object to few requests: merged over small gaps, and split where too large.

`io/stores/profile.py` and `io/reading/speed.py` say how wide a gap may be: it depends on the store.
Kernels merge by the same rule, `kernels/io/coalesce.hpp`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from alance import _kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.arrays import Int64s

MAX_STOP: Final = 1 << 62  # with a gap added, still an int64
MAX_RANGE_BYTES: Final = 1 << 40  # more than any memory holds, and not too many requests yet
NO_LIMIT: Final = (1 << 64) - 1


def is_range(start: int, stop: int) -> bool:
    """True if an object can have these bytes, and memory can hold them."""
    return 0 <= start <= stop <= MAX_STOP and stop - start <= MAX_RANGE_BYTES


def are_ranges(starts: Int64s, stops: Int64s) -> bool:
    """True if all pairs are ranges; see `is_range`."""
    is_inside = (starts >= 0).all() and (starts <= stops).all() and (stops <= MAX_STOP).all()
    return bool(is_inside and (stops - starts <= MAX_RANGE_BYTES).all())


class Coalesced(NamedTuple):
    """Spans of bytes that cover ranges, and which span covers each of them."""

    spans: list[tuple[int, int]]  # ascending by start; apart, unless `max_bytes` has cut them
    owners: list[int]  # of each range, in the order given: the span that covers it

    def cut(
        self, ranges: Sequence[tuple[int, int]], contents: Sequence[memoryview]
    ) -> list[memoryview]:
        """Return the bytes of each range, which are views of the contents of the spans."""
        firsts = [start for start, _ in self.spans]
        return [
            contents[owner][start - firsts[owner] : stop - firsts[owner]]
            for (start, stop), owner in zip(ranges, self.owners, strict=True)
        ]


def coalesce(
    ranges: Sequence[tuple[int, int]] | Int64s, max_gap_bytes: int, max_bytes: int = NO_LIMIT
) -> Coalesced:
    """Merge ranges of one object that overlap, touch, or have a small gap between them.

    Args:
        ranges: start and stop of each, in any order, overlapping or not; an array of them has the
            shape (n, 2).
        max_gap_bytes: bytes between two ranges that may be read in vain to save a request.
        max_bytes: size that merging must not go beyond; a single range may be larger.
    """
    return Coalesced(*_kernels.coalesce(ranges, max_gap_bytes, max_bytes))


def split(start: int, stop: int, max_bytes: int) -> list[tuple[int, int]]:
    """A span in pieces of about equal size, none above `max_bytes`."""
    count = -(-(stop - start) // max_bytes)
    if count <= 1:
        return [(start, stop)]
    cuts = [start + (stop - start) * number // count for number in range(count + 1)]
    return list(pairwise(cuts))
