"""From the ranges that are asked for to flights: which to join, which to send."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from alance.io.coalesce import coalesce, split
from alance.io.reads import Read

if TYPE_CHECKING:
    from alance.io.flights import Lane
    from alance.io.reads import Part

Wanted: TypeAlias = tuple[Read, int, int, int]  # a read, the number of its range, start, stop
Wanteds: TypeAlias = list[Wanted]


def book(lane: Lane, path: str, wanted: Wanteds, *, bulk: bool) -> None:
    """Flights for ranges of one object: joined where one is under way, else new ones, merged.

    Args:
        wanted: none empty; their reads are told which parts of which flights are theirs.
        bulk: merge over the wider gaps of scans.
    """
    profile = lane.store.profile
    new: Wanteds = []
    flown = lane.find(path, [(start, stop) for _, _, start, stop in wanted])
    for one, flight in zip(wanted, flown, strict=True):
        read, number, start, stop = one
        if flight is None:
            new.append(one)
        else:
            read.expect(number, [(flight, start, stop)])
    if not new:
        return
    gap = profile.scan_gap if bulk else profile.take_gap
    plan = coalesce([(start, stop) for _, _, start, stop in new], gap, profile.max_request_bytes)
    flights = [
        [lane.book(path, *piece) for piece in split(*span, profile.max_request_bytes)]
        for span in plan.spans
    ]
    for (read, number, start, stop), owner in zip(new, plan.owners, strict=True):
        parts: list[Part] = [
            (flight, max(start, flight.start), min(stop, flight.stop))
            for flight in flights[owner]
            if flight.start < stop and start < flight.stop
        ]
        read.expect(number, parts)
