"""From the ranges that are asked for to flights: which to join, which to send."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from alance.io import trace
from alance.io.coalesce import coalesce, split

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.arrays import Int64s
    from alance.io.blocks import BlockCache
    from alance.io.flights import Flight, Lane
    from alance.io.reads import Read


class Asked(NamedTuple):
    """Ranges of one object that a read asks for, none empty; shape (n,), n > 0."""

    read: Read
    starts: Int64s
    stops: Int64s


def book(
    lane: Lane, path: str, asked: Sequence[Asked], *, bulk: bool, crowded: bool = False
) -> None:
    """Flights for ranges of one object: joined where one is under way, else new ones, merged.

    What the block cache has is answered at once.

    Args:
        asked: their reads are told which flights bring their ranges.
        bulk: merge over the wider gaps of scans; the block cache is left alone.
        crowded: many callers are waiting: read whole blocks, and keep them.
    """
    location = lane.store.root + path
    if not bulk and lane.blocks.is_on:
        asked = [left for own in asked if (left := from_blocks(lane.blocks, location, own))]
    if not asked:
        return
    flown = _Flown(asked)
    under_way, places = lane.find(path, flown.starts, flown.stops)
    for own, first, last in flown.parts:
        if own.read.recorder is not None:
            for place in places[first:last].tolist():
                trace.look("requests under way", hit=place >= 0, recorder=own.read.recorder)
    flown.expect(location, under_way, places, places)
    is_new = places < 0
    if not is_new.any():
        return
    profile = lane.store.profile
    gap = profile.scan_gap if bulk else profile.take_gap
    starts, stops = flown.starts[is_new], flown.stops[is_new]
    keep = crowded and not bulk and lane.blocks.is_on
    wide = lane.blocks.widened(location, starts, stops) if keep else (starts, stops)
    plan = coalesce(np.stack(wide, axis=1), gap, profile.max_request_bytes)
    flights: list[Flight] = []
    ends = [0]  # where the flights of each span end
    for span in plan.spans:
        flights += [
            lane.book(path, *piece, is_kept=keep)
            for piece in split(*span, profile.max_request_bytes)
        ]
        ends.append(len(flights))
    owners = np.array(plan.owners, np.int64)
    lows, highs = np.array(ends[:-1])[owners], np.array(ends[1:])[owners] - 1
    if len(flights) > len(plan.spans):  # a range may need some of the flights of its span
        begins = np.array([flight.start for flight in flights])
        lows, highs = (
            np.clip(np.searchsorted(begins, at, "right") - 1, lows, highs)
            for at in (starts, stops - 1)
        )
    first_flights, last_flights = np.full_like(places, -1), np.full_like(places, -1)
    first_flights[is_new], last_flights[is_new] = lows, highs
    flown.expect(location, flights, first_flights, last_flights)


class _Flown:
    """Ranges of several reads, end to end."""

    def __init__(self, asked: Sequence[Asked]) -> None:
        ends = np.cumsum([0, *(len(own.starts) for own in asked)]).tolist()
        self.parts = [
            (own, first, last) for own, (first, last) in zip(asked, pairwise(ends), strict=True)
        ]
        self.starts = np.concatenate([own.starts for own in asked])
        self.stops = np.concatenate([own.stops for own in asked])

    def expect(self, location: str, flights: Sequence[Flight], lows: Int64s, highs: Int64s) -> None:
        """Tell reads which flights bring their ranges: of each the first and last; -1: none."""
        for own, first, last in self.parts:
            pairs = {*zip(lows[first:last].tolist(), highs[first:last].tolist(), strict=True)}
            for low, high in pairs:
                for flight in flights[low : high + 1] if low >= 0 else ():
                    own.read.expect(location, flight)
            if own.read.is_watched:
                self._note(flights, lows, highs, first, last)

    def _note(
        self, flights: Sequence[Flight], lows: Int64s, highs: Int64s, first: int, last: int
    ) -> None:
        """Note in flights what is asked of them, for traces."""
        for at in range(first, last):
            if lows[at] >= 0:
                for flight in flights[lows[at] : highs[at] + 1]:
                    start, stop = int(self.starts[at]), int(self.stops[at])
                    flight.asked.append((max(start, flight.start), min(stop, flight.stop)))


def from_blocks(blocks: BlockCache, location: str, asked: Asked) -> Asked | None:
    """Answer what the block cache has of an object; gives what it has not, None if it has all."""
    read, starts, stops = asked
    is_missing = blocks.answer(location, starts, stops, read)
    if read.recorder is not None and blocks.num_bytes:
        for missing in is_missing.tolist():
            trace.look("block cache", hit=not missing, recorder=read.recorder)
    if is_missing.all():
        return asked
    return Asked(read, starts[is_missing], stops[is_missing]) if is_missing.any() else None
