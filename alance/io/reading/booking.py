"""Booking: turns requested ranges into flights, by joining flights under way or making new ones.

Joining comes first, since a range that is on its way costs nothing more. Only the other ranges are
merged, so two callers of one turn never fetch the same bytes twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from alance.format.coalesce import coalesce, split
from alance.io.events import trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.arrays import Int64s
    from alance.format.coalesce import Coalesced
    from alance.io.caches.blocks import BlockCache
    from alance.io.reading.flights import Flight, Lane
    from alance.io.reading.reads import Read
    from alance.io.stores.profile import StoreProfile

# Bytes that a bulk read may read in gaps at take width even if it asks for fewer: 64 MiB cost less
# than the requests that they save.
MAX_GAP_TOTAL_BYTES: Final = 64 << 20


class RangeRequest(NamedTuple):
    """Ranges of one object that a read asks for; at least one range, and none is empty.

    Attributes:
        read: the read that waits for the bytes.
        starts, stops: file offsets, shape (n,).
        num_puts: value of `BlockCache.num_puts` when the block cache was last looked up for these
            ranges; -1 if it was not.
    """

    read: Read
    starts: Int64s
    stops: Int64s
    num_puts: int = -1


def book(
    lane: Lane, path: str, requests: Sequence[RangeRequest], *, bulk: bool, crowded: bool = False
) -> None:
    """Find or make the flights that bring the requested ranges of one object.

    Ranges of takes are first answered from the block cache, then ranges join flights under way.
    The rest is merged into new flights. Each read of `requests` learns which flights to expect.

    Args:
        bulk: merge over the wider gaps of scans.
        crowded: many takes are waiting, so read whole blocks.
    """
    # 1. The block cache. It was looked up when the requests came in; blocks may have come since.
    location, profile = lane.store.root + path, lane.store.profile
    caches = profile.is_remote and any(own.read.takes for own in requests)
    if caches:
        requests = [rest for own in requests if (rest := from_blocks(lane.blocks, location, own))]
    # 2. Flights under way.
    requests = [rest for own in requests if (rest := _joined(lane, location, path, own))]
    if not requests:
        return
    # 3. New flights for the rest.
    starts, stops = requests[0].starts, requests[0].stops
    if len(requests) > 1:
        starts = np.concatenate([own.starts for own in requests])
        stops = np.concatenate([own.stops for own in requests])
    if caches:
        starts, stops = lane.blocks.widened(location, starts, stops, everywhere=crowded)
    # Bytes in the gaps of a crowd are cached, and the next take of the crowd will ask for them.
    gap = profile.take_gap if crowded else lane.rate.gap(profile.take_gap)
    plan = _coalesced(profile, gap, starts, stops, bulk=bulk)
    flights = [
        [
            lane.book(path, *piece, is_cached=caches)
            for piece in split(*span, profile.max_request_bytes)
        ]
        for span in plan.spans
    ]
    first = 0
    for own in requests:
        owners = plan.owners[first : first + len(own.starts)]
        first += len(own.starts)
        _expect(own, flights, owners)


def _expect(
    request: RangeRequest, flights: Sequence[Sequence[Flight]], owners: Sequence[int]
) -> None:
    """Let a read wait for the new flights that bring its ranges.

    Args:
        flights: the flights of each merged span.
        owners: for each range of the request, the number of its span.
    """
    for owner in dict.fromkeys(owners):
        for flight in flights[owner]:
            # A long span has several flights, and the request may need only some of them.
            if len(flights[owner]) == 1 or _overlaps(request, flight):
                request.read.expect(flight)
    if request.read.is_watched:
        for start, stop, owner in zip(
            request.starts.tolist(), request.stops.tolist(), owners, strict=True
        ):
            _note(flights[owner], start, stop)


def _coalesced(
    profile: StoreProfile, take_gap: int, starts: Int64s, stops: Int64s, *, bulk: bool
) -> Coalesced:
    """Merge ranges over the widest gap that does not waste too many bytes.

    A scan that asks for small pieces of pages would read most of the file in its gaps, and hold
    these bytes. So if the scan gap wastes more bytes than are asked for, the take gap is tried;
    at last, no gap is wider than the mean range.
    """
    ranges = np.array((starts, stops)).T
    num_bytes, max_bytes = int((stops - starts).sum()), profile.max_request_bytes
    gaps = [(profile.scan_gap, max_bytes), (take_gap, MAX_GAP_TOTAL_BYTES)] if bulk else []
    for gap, max_wasted in gaps:
        plan = coalesce(ranges, gap, max_bytes)
        num_read = sum([stop - start for start, stop in plan.spans])
        if num_read <= num_bytes + max(num_bytes, max_wasted):
            return plan
    gap = min(take_gap, num_bytes // len(ranges)) if bulk else take_gap
    return coalesce(ranges, gap, max_bytes)


def _overlaps(request: RangeRequest, flight: Flight) -> bool:
    return bool(((request.starts < flight.stop) & (request.stops > flight.start)).any())


def _note(flights: Sequence[Flight], start: int, stop: int) -> None:
    """Note in flights that a range was requested of them, for traces."""
    for flight in flights:
        if flight.start < stop and start < flight.stop:
            flight.requested.append((max(start, flight.start), min(stop, flight.stop)))


def _joined(lane: Lane, location: str, path: str, request: RangeRequest) -> RangeRequest | None:
    """Let a read wait for flights under way that bring some of its ranges.

    Returns the ranges that no flight brings, or None if there are none.
    """
    read, starts, stops, _ = request
    flights, places = lane.find(path, starts, stops)
    if read.recorder is not None:
        for place in places.tolist() if flights else [-1] * len(starts):
            trace.look("requests under way", hit=place >= 0, recorder=read.recorder)
    if not flights:
        return request
    is_new = places < 0
    for place in sorted({*places[~is_new].tolist()}):
        read.expect(flights[place])
    if read.is_watched:
        for start, stop, place in zip(
            starts.tolist(), stops.tolist(), places.tolist(), strict=True
        ):
            if place >= 0:
                _note([flights[place]], start, stop)
    return RangeRequest(read, starts[is_new], stops[is_new]) if is_new.any() else None


def from_blocks(blocks: BlockCache, location: str, request: RangeRequest) -> RangeRequest | None:
    """Answer ranges from the block cache.

    Returns the ranges that the cache does not have, or None if it has them all.
    """
    if request.num_puts == blocks.num_puts:
        return request  # nothing was put since the last lookup
    read, starts, stops, _ = request
    is_missing = blocks.answer(location, starts, stops, read)
    if read.recorder is not None and blocks.num_bytes:
        for missing in [True] * len(starts) if is_missing is None else is_missing.tolist():
            trace.look("block cache", hit=not missing, recorder=read.recorder)
    if is_missing is not None:
        if not is_missing.any():
            return None
        starts, stops = starts[is_missing], stops[is_missing]
    return RangeRequest(read, starts, stops, blocks.num_puts)
