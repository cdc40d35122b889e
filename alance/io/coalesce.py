"""Byte ranges of one object to few requests: sorted, de-duplicated, merged over small gaps."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.arrays import Int64s, Mask

MAX_STOP: Final = 1 << 62  # with a gap added, still an int64
FEW: Final = 96  # ranges; with more, the calls for arrays are worth it
MAX_RANGE_BYTES: Final = 1 << 40  # more than any memory holds, and not too many requests yet


def is_range(start: int, stop: int) -> bool:
    """Whether these can be bytes of an object, read into memory."""
    return 0 <= start <= stop <= MAX_STOP and stop - start <= MAX_RANGE_BYTES


def are_ranges(starts: Int64s, stops: Int64s) -> bool:
    """Like `is_range`, of all."""
    return bool(
        (starts >= 0).all() and (stops <= MAX_STOP).all() and (stops >= starts).all()
    ) and bool((stops - starts <= MAX_RANGE_BYTES).all())


class Coalesced(NamedTuple):
    """Spans of bytes that cover ranges, and which span covers each of them.

    A span is larger than the limit only where a single range is.
    """

    spans: list[tuple[int, int]]  # ascending by start
    owners: list[int]  # of each range, in the order given: the span that covers it


def coalesce(ranges: Sequence[tuple[int, int]] | Int64s, gap: int, max_bytes: int) -> Coalesced:
    """Merge ranges of one object.

    Args:
        ranges: start and stop of each, none empty, in any order, overlapping or not; an array of
            them has the shape (n, 2).
        gap: bytes between two ranges that may be read in vain to save a request.
        max_bytes: size that merging must not go beyond.
    """
    if len(ranges) <= FEW:
        few = (
            ranges if isinstance(ranges, list) else [(a, b) for a, b in np.asarray(ranges).tolist()]
        )
        if (coalesced := _coalesce_few(few, gap, max_bytes)) is not None:
            return coalesced
    bounds = np.asarray(ranges, np.int64)
    order = np.lexsort((-bounds[:, 1], bounds[:, 0]))
    starts, stops = bounds[order, 0], bounds[order, 1]
    reach = np.maximum.accumulate(stops)
    is_first = np.ones(len(order), np.bool_)
    np.greater(starts[1:], reach[:-1] + gap, out=is_first[1:])
    firsts = np.flatnonzero(is_first)
    lasts = np.append(firsts[1:], len(order)) - 1
    too_long = reach[lasts] - starts[firsts] > max_bytes
    if too_long.any():
        for first, last in zip(firsts[too_long], lasts[too_long], strict=True):
            _cut(is_first, starts, stops, int(first), int(last), max_bytes)
        firsts = np.flatnonzero(is_first)
        lasts = np.append(firsts[1:], len(order)) - 1
    ends = np.maximum.reduceat(stops, firsts)
    owners = np.empty(len(order), np.int64)
    owners[order] = np.cumsum(is_first) - 1
    spans = list(zip(starts[firsts].tolist(), ends.tolist(), strict=True))
    return Coalesced(spans, owners.tolist())


def _coalesce_few(ranges: Sequence[tuple[int, int]], gap: int, max_bytes: int) -> Coalesced | None:
    """Like `coalesce`, without arrays; None where merging goes beyond the limit."""
    if len(ranges) == 1:
        return Coalesced([ranges[0]], [0])
    spans: list[tuple[int, int]] = []
    owners = [0] * len(ranges)
    begin, end = -1, -gap - 1
    for number in sorted(range(len(ranges)), key=ranges.__getitem__):
        start, stop = ranges[number]
        if start > end + gap:
            spans.append((start, stop))
            begin, end = start, stop
        elif stop > end:
            if stop - begin > max_bytes:
                return None
            end = stop
            spans[-1] = begin, end
        owners[number] = len(spans) - 1
    return Coalesced(spans, owners)


def _cut(
    is_first: Mask, starts: Int64s, stops: Int64s, first: int, last: int, max_bytes: int
) -> None:
    """Begin new spans inside a group, so that none grows beyond the limit by merging."""
    begin, end = int(starts[first]), int(stops[first])
    for position in range(first + 1, last + 1):
        start, stop = int(starts[position]), int(stops[position])
        if stop > end:
            if stop - begin > max_bytes:
                is_first[position] = True
                begin = start
            end = stop


def split(start: int, stop: int, max_bytes: int) -> list[tuple[int, int]]:
    """A span in pieces of about equal size, none above `max_bytes`."""
    count = -(-(stop - start) // max_bytes)
    if count <= 1:
        return [(start, stop)]
    cuts = [start + (stop - start) * number // count for number in range(count + 1)]
    return list(pairwise(cuts))
