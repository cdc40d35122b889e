"""From the ranges that are asked for to flights: which to join, which to send."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from alance.io import trace
from alance.io.coalesce import coalesce, split
from alance.io.reads import Read

if TYPE_CHECKING:
    from alance.io.blocks import BlockCache
    from alance.io.flights import Lane
    from alance.io.reads import Part

ReadRange: TypeAlias = tuple[Read, int, int, int]  # a read, the number of its range, start, stop


def book(
    lane: Lane, path: str, ranges: list[ReadRange], *, bulk: bool, crowded: bool = False
) -> None:
    """Flights for ranges of one object: joined where one is under way, else new ones, merged.

    What the block cache has is answered at once.

    Args:
        ranges: none empty; their reads are told which parts of which flights are theirs.
        bulk: merge over the wider gaps of scans; the block cache is left alone.
        crowded: many callers are waiting: read whole blocks, and keep them.
    """
    profile = lane.store.profile
    location = lane.store.root + path
    if not bulk and lane.blocks.is_on:
        ranges = _not_kept(lane.blocks, location, ranges)
    new: list[ReadRange] = []
    flown = lane.find(path, [(start, stop) for _, _, start, stop in ranges])
    for read_range, flight in zip(ranges, flown, strict=True):
        read, number, start, stop = read_range
        if read.recorder is not None:
            trace.look("requests under way", hit=flight is not None, recorder=read.recorder)
        if flight is None:
            new.append(read_range)
        else:
            read.expect(number, [(flight, start, stop)])
    if not new:
        return
    gap = profile.scan_gap if bulk else profile.take_gap
    spans = [(start, stop) for _, _, start, stop in new]
    keep = crowded and not bulk and lane.blocks.is_on
    if keep:
        spans = [lane.blocks.widened(location, *span) for span in spans]
    plan = coalesce(spans, gap, profile.max_request_bytes)
    flights = [
        [lane.book(path, *piece) for piece in split(*span, profile.max_request_bytes)]
        for span in plan.spans
    ]
    for group in flights:
        for booked in group:
            booked.is_kept = keep
    for (read, number, start, stop), owner in zip(new, plan.owners, strict=True):
        parts: list[Part] = [
            (flight, max(start, flight.start), min(stop, flight.stop))
            for flight in flights[owner]
            if flight.start < stop and start < flight.stop
        ]
        read.expect(number, parts)


def _not_kept(blocks: BlockCache, location: str, ranges: list[ReadRange]) -> list[ReadRange]:
    """The ranges that the block cache cannot answer; it answers those that came in meanwhile."""
    left: list[ReadRange] = []
    answered = set()
    for read_range in ranges:
        read, number, start, stop = read_range
        content = blocks.get(location, start, stop)
        if content is None:
            left.append(read_range)
        else:
            read.unplanned -= 1
            read.buffers[number] = content
            answered.add(read)
    for read in answered:
        read.finish_if_complete()
    return left
