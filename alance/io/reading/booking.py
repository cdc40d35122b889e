"""Booking: turns requested ranges into flights, by joining flights under way or creating new ones.

Joining comes first, because a range that is already being read costs nothing more. Only the other
ranges are merged, so two callers of one turn never fetch the same bytes twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from alance.format.plans import coalesce, split
from alance.io.events import trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Int64s
    from alance.format.plans import Coalesced
    from alance.io.caches.blocks import BlockCache
    from alance.io.reading.flights import Flight, Lane
    from alance.io.reading.reads import Read
    from alance.io.stores.profile import StoreProfile

# Bytes that a bulk read may read in gaps no wider than the take gap, even if it requests fewer:
# reading 64 MiB costs less than the requests that this saves.
MAX_GAP_TOTAL_BYTES: Final = 64 << 20


class RangeRequest(NamedTuple):
    """Non-empty ranges of one object that a read requests; at least one.

    Attributes:
        read: the read that waits for the bytes.
        starts, stops: file offsets, shape (n,).
        num_puts: value of `BlockCache.num_puts` at the last look-up of these ranges in the block
            cache; -1 if there was none.
    """

    read: Read
    starts: Int64s
    stops: Int64s
    num_puts: int = -1


def book(
    lane: Lane, path: str, requests: Sequence[RangeRequest], *, bulk: bool, crowded: bool = False
) -> None:
    """Find or create the flights that read the requested ranges of one object.

    Ranges of takes are first looked up in the block cache. Ranges that are not cached join flights
    under way. The rest is merged into new flights. Each read then waits for its flights.

    Args:
        bulk: True to merge over the wider gaps of scans.
        crowded: True if many takes are waiting, so that whole blocks are read.
    """
    # 1. The block cache. It was looked up when the requests arrived; blocks may have been added
    # since.
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
    # Bytes in gaps are cached for a crowd, because its next take will request them.
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
    """Add to a read the new flights that read its ranges.

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
    """Merge ranges of an object whose gaps are narrow.

    A take merges over `take_gap`. A bulk read tries wider gaps, but a scan of small pieces of pages
    must not read most of the file in gaps. So it tries three gaps in turn:

    1. the scan gap, if the bytes in gaps are at most the requested bytes or the largest request;
    2. `take_gap`, if the bytes in gaps are at most the requested bytes or `MAX_GAP_TOTAL_BYTES`;
    3. the mean length of a range, but at most `take_gap`.
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
    """Record a requested range in its flights, for traces."""
    for flight in flights:
        if flight.start < stop and start < flight.stop:
            flight.requested.append((max(start, flight.start), min(stop, flight.stop)))


def _joined(lane: Lane, location: str, path: str, request: RangeRequest) -> RangeRequest | None:
    """Add to a read the flights under way that read some of its ranges.

    Returns the ranges that no flight covers, or None if there are none.
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
    """Serve ranges from the block cache.

    Returns the ranges that the cache lacks, or None if it has all of them.
    """
    if request.num_puts == blocks.num_puts:
        return request  # nothing was added since the last look-up
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
