"""Turns ranges that reads ask for into flights: joins those under way, and books new ones.

It joins first, since a range that is on its way costs nothing more. Only the rest is merged, so
that two callers of one turn never fetch the same bytes twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from alance.format.coalesce import coalesce, split
from alance.io import trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.arrays import Int64s
    from alance.format.coalesce import Coalesced
    from alance.io.blocks import BlockCache
    from alance.io.flights import Flight, Lane
    from alance.io.profile import StoreProfile
    from alance.io.reads import Read

MOST_IN_VAIN: Final = 64 << 20  # bytes between pieces of one turn, where requests would cost more


class Asked(NamedTuple):
    """Ranges of one object that a read asks for, none empty; shape (n,), n > 0.

    Attributes:
        num_puts: of the block cache, when it had none of them; -1: it was not asked.
    """

    read: Read
    starts: Int64s
    stops: Int64s
    num_puts: int = -1


def book(
    lane: Lane, path: str, asked: Sequence[Asked], *, bulk: bool, crowded: bool = False
) -> None:
    """Flights for ranges of one object: joined where one is under way, else new ones, merged.

    What the block cache has is answered at once, if takes ask.

    Args:
        asked: their reads are told which flights bring their ranges.
        bulk: merge over the wider gaps of scans.
        crowded: many takes are waiting: read whole blocks.
    """
    location, profile = lane.store.root + path, lane.store.profile
    # They were asked for when the ranges came in: blocks may have come in between.
    keep = profile.is_remote and any(own.read.takes for own in asked)
    if keep:
        asked = [left for own in asked if (left := from_blocks(lane.blocks, location, own))]
    asked = [left for own in asked if (left := _joined(lane, location, path, own))]
    if not asked:
        return
    starts, stops = asked[0].starts, asked[0].stops
    if len(asked) > 1:
        starts = np.concatenate([own.starts for own in asked])
        stops = np.concatenate([own.stops for own in asked])
    if keep:
        starts, stops = lane.blocks.widened(location, starts, stops, everywhere=crowded)
    # What a crowd reads over, the next of it will ask for.
    gap = profile.take_gap if crowded else lane.rate.gap(profile.take_gap)
    plan = _coalesced(profile, gap, starts, stops, bulk=bulk)
    flights = [
        [lane.book(path, *piece, is_kept=keep) for piece in split(*span, profile.max_request_bytes)]
        for span in plan.spans
    ]
    first = 0
    for own in asked:
        owners = plan.owners[first : first + len(own.starts)]
        first += len(own.starts)
        for owner in dict.fromkeys(owners):
            for flight in flights[owner]:
                # Of the flights of a long span it may need some.
                if len(flights[owner]) == 1 or _overlaps(own, flight):
                    own.read.expect(flight)
        if own.read.is_watched:
            for start, stop, owner in zip(
                own.starts.tolist(), own.stops.tolist(), owners, strict=True
            ):
                _note(flights[owner], start, stop)


def _coalesced(
    profile: StoreProfile, take_gap: int, starts: Int64s, stops: Int64s, *, bulk: bool
) -> Coalesced:
    """Ranges merged. A scan that asks for little pieces of pages would read most of the file in
    vain, and hold it: then its gaps are those of a take, at last none that are longer than a piece.
    """
    ranges = np.array((starts, stops)).T
    num_asked, max_bytes = int((stops - starts).sum()), profile.max_request_bytes
    gaps = [(profile.scan_gap, max_bytes), (take_gap, MOST_IN_VAIN)] if bulk else []
    for gap, in_vain in gaps:
        plan = coalesce(ranges, gap, max_bytes)
        num_read = sum([stop - start for start, stop in plan.spans])
        if num_read <= num_asked + max(num_asked, in_vain):
            return plan
    gap = min(take_gap, num_asked // len(ranges)) if bulk else take_gap
    return coalesce(ranges, gap, max_bytes)


def _overlaps(asked: Asked, flight: Flight) -> bool:
    return bool(((asked.starts < flight.stop) & (asked.stops > flight.start)).any())


def _note(flights: Sequence[Flight], start: int, stop: int) -> None:
    """Note in flights what is asked of them, for traces."""
    for flight in flights:
        if flight.start < stop and start < flight.stop:
            flight.asked.append((max(start, flight.start), min(stop, flight.stop)))


def _joined(lane: Lane, location: str, path: str, asked: Asked) -> Asked | None:
    """Wait for flights under way that bring ranges; gives the others; None: there are none."""
    read, starts, stops, _ = asked
    flights, places = lane.find(path, starts, stops)
    if read.recorder is not None:
        for place in places.tolist() if flights else [-1] * len(starts):
            trace.look("requests under way", hit=place >= 0, recorder=read.recorder)
    if not flights:
        return asked
    is_new = places < 0
    for place in sorted({*places[~is_new].tolist()}):
        read.expect(flights[place])
    if read.is_watched:
        for start, stop, place in zip(
            starts.tolist(), stops.tolist(), places.tolist(), strict=True
        ):
            if place >= 0:
                _note([flights[place]], start, stop)
    return Asked(read, starts[is_new], stops[is_new]) if is_new.any() else None


def from_blocks(blocks: BlockCache, location: str, asked: Asked) -> Asked | None:
    """Answer what the block cache has of an object; gives what it has not, None if it has all."""
    if asked.num_puts == blocks.num_puts:
        return asked  # nothing came since it was asked
    read, starts, stops, _ = asked
    is_missing = blocks.answer(location, starts, stops, read)
    if read.recorder is not None and blocks.num_bytes:
        for missing in [True] * len(starts) if is_missing is None else is_missing.tolist():
            trace.look("block cache", hit=not missing, recorder=read.recorder)
    if is_missing is not None:
        if not is_missing.any():
            return None
        starts, stops = starts[is_missing], stops[is_missing]
    return Asked(read, starts, stops, blocks.num_puts)
