"""Flights and lanes: the requests that serve reads, and the limits of requests under way.

A `Read` is the future that a caller awaits: the buffers of its ranges. A `Flight` is one request,
which may serve ranges of several reads. A `Lane` sends the flights of one store in order, within
its limits. There are no tasks here, only futures and callbacks: a cancelled read leaves its flights
at once, and a flight that no read waits for is dropped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

import numpy as np

from alance.io.events import observing, trace
from alance.io.events.observing import Reading
from alance.io.loop.futures import failed
from alance.io.reading.speed import Burst, Speed, rate_of
from alance.io.stores.store import without_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alance.base.arrays import Int64s
    from alance.io.caches.blocks import BlockCache
    from alance.io.reading.reads import Read
    from alance.io.stores.store import Store

LONG_WAIT_S: Final = 5.0  # a request that waits longer for its turn is logged as a warning
MAX_SHARED_GROUP: Final = 4096  # ranges of a call to a store that divides it among its threads


class Flight:
    """One request for a span of an object's bytes."""

    __slots__ = (
        "begun",
        "buffer",
        "call",
        "is_cached",
        "is_shared",
        "is_traced",
        "lane",
        "path",
        "queued",
        "readers",
        "requested",
        "start",
        "stop",
    )

    def __init__(self, lane: Lane, path: str, start: int, stop: int) -> None:
        self.lane = lane
        self.path = path
        self.start = start
        self.stop = stop
        self.readers: set[Read] = set()
        self.buffer: memoryview | None = None
        self.call: CallerRead | None = None  # None while the flight waits in the lane
        self.queued = trace.now()
        self.is_traced = False  # True if one of its reads has a recorder
        self.begun = 0.0
        self.requested: list[tuple[int, int]] = []  # ranges that its reads requested, for traces
        self.is_cached = False  # True if its bytes go into the block cache
        self.is_shared = False  # True if several reads have requested it

    @property
    def num_bytes(self) -> int:
        return self.stop - self.start

    def record(self, num_bytes: int, *, ok: bool = True, retries: int = 0) -> None:
        """Record the request in the traces of its reads."""
        if not self.is_traced:
            return
        readers = list(self.readers)
        trace.record(
            [read.recorder for read in readers],
            "get",
            self.lane.store.root + self.path,
            (self.start, self.stop),
            [read.reason for read in readers],
            self.begun,
            num_bytes=num_bytes,
            ok=ok,
            queued=self.queued,
            ranges=self.requested,
            callers=[name for read in readers for name in read.callers],
            retries=retries,
        )


class CallerRead:
    """Flights of one object that are passed to the store in one call."""

    __slots__ = ("flights", "future", "landed_before", "num_bytes", "num_requests")

    def __init__(self, flights: list[Flight]) -> None:
        self.flights = flights
        self.num_bytes = sum(flight.num_bytes for flight in flights)
        shares_calls = flights[0].lane.store.profile.shares_calls
        self.num_requests = 1 if shares_calls else len(flights)
        self.landed_before = flights[0].lane.speed.landed
        self.future: asyncio.Future[Sequence[memoryview]] | None = None


class Lane:
    """The flights of one store: those that wait, and those under way, within limits.

    Args:
        max_requests: maximum number of requests under way.
        max_bytes: maximum bytes under way; a single call may exceed it.
        blocks: the block cache.
    """

    def __init__(self, store: Store, max_requests: int, max_bytes: int, blocks: BlockCache) -> None:
        self.store = store
        self.blocks = blocks
        self.air: dict[str, dict[tuple[int, int], Flight]] = {}  # by path: not ended
        self.calls: set[CallerRead] = set()
        self.speed = Speed()
        self.rate = rate_of(store)
        self._waiting: deque[Flight] = deque()
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self._num_requests = 0
        self._num_bytes = 0
        self._burst = Burst(0.0)

    @property
    def is_idle(self) -> bool:
        """True if no flight waits or is under way."""
        return not self.calls and not self.air

    def readings(self) -> Iterator[Reading]:
        """Readings of the queue, and of requests and bytes under way."""
        where = without_number(self.store.root)
        yield Reading("requests_waiting", where, len(self._waiting))
        yield Reading("requests_under_way", where, self._num_requests)
        yield Reading("bytes_under_way", where, self._num_bytes)

    def find(self, path: str, starts: Int64s, stops: Int64s) -> tuple[list[Flight], Int64s]:
        """Find flights under way that cover ranges of an object.

        Returns:
            The flights to the object, and for each range the index of a flight that covers it, or
            -1. Ignore the indices if there are no flights.
        """
        if path not in self.air:
            return [], starts
        flights = sorted(self.air[path].values(), key=lambda flight: flight.start)
        # Of the flights that begin at or before a range, the one that extends farthest.
        farthest = [0]
        for place in range(1, len(flights)):
            before = farthest[-1]
            farthest.append(place if flights[place].stop > flights[before].stop else before)
        begins = np.array([flight.start for flight in flights])
        ends = np.array([flights[place].stop for place in farthest])
        places = np.searchsorted(begins, starts, "right") - 1
        covers = (places >= 0) & (ends[places] >= stops)
        return flights, np.where(covers, np.array(farthest)[places], -1)

    def book(self, path: str, start: int, stop: int, *, is_cached: bool = False) -> Flight:
        """Append a new flight to the queue.

        Args:
            is_cached: True to put its bytes into the block cache.
        """
        if not self.air:
            self._burst = Burst(trace.now())
        self._burst.ask(is_take=is_cached)
        flight = Flight(self, path, start, stop)
        flight.is_cached = is_cached
        self.air.setdefault(path, {})[start, stop] = flight
        self._waiting.append(flight)
        return flight

    def send(self) -> None:
        """Send waiting flights, as many as the limits allow."""
        waiting = self._waiting
        while waiting:
            first = waiting[0]
            if not first.readers:
                waiting.popleft()
                continue
            # If nothing is under way, a call of any size is sent; otherwise it would wait for ever.
            if self.calls and (
                self._num_requests >= self._max_requests
                or self._num_bytes + first.num_bytes > self._max_bytes
            ):
                return
            self._start(CallerRead(self._group()))

    def drop(self, flight: Flight) -> None:
        """Drop a flight that no read waits for; cancel its call if it serves no other flight."""
        self._landed(flight)
        call = flight.call
        if call is None or call.future is None:
            return  # still in the queue, which skips it
        if not any(member.readers for member in call.flights):
            call.future.cancel()

    def _group(self) -> list[Flight]:
        """Take the flights of the next call from the queue: one large or several small ones."""
        profile, waiting = self.store.profile, self._waiting
        group = [waiting.popleft()]
        room = min(profile.group_size, self._max_requests - self._num_requests)
        if profile.shares_calls:
            room = MAX_SHARED_GROUP
        while (
            waiting
            and len(group) < room
            and group[0].num_bytes <= profile.group_range_bytes
            and waiting[0].path == group[0].path
            and waiting[0].num_bytes <= profile.group_range_bytes
        ):
            flight = waiting.popleft()
            if flight.readers:
                group.append(flight)
        return group

    def _start(self, call: CallerRead) -> None:
        self.calls.add(call)
        self._num_requests += call.num_requests
        self._num_bytes += call.num_bytes
        begun = trace.now()
        if begun - call.flights[0].queued > LONG_WAIT_S:
            self._warn(begun - call.flights[0].queued)
        for flight in call.flights:
            flight.call = call
            flight.begun = begun
        spans = [(flight.start, flight.stop) for flight in call.flights]
        future: asyncio.Future[Sequence[memoryview]]
        try:
            future = self.store.get_ranges(call.flights[0].path, spans)
        except Exception as error:  # any failure has to free the call's slot
            future = failed(error, asyncio.get_running_loop())
        call.future = future
        future.add_done_callback(lambda done: self._ended(call, done))

    def _warn(self, waited_s: float) -> None:
        observing.warn_rarely(
            "requests",
            self.store.root,
            "%s: a request has waited %.1f s for its turn; the session lets %d requests and %d "
            "bytes be under way (max_requests, io_buffer_bytes)",
            without_number(self.store.root),
            waited_s,
            self._max_requests,
            self._max_bytes,
        )

    def _ended(self, call: CallerRead, done: asyncio.Future[Sequence[memoryview]]) -> None:
        self.calls.discard(call)
        self._num_requests -= call.num_requests
        self._num_bytes -= call.num_bytes
        for flight in call.flights:
            # First: a read that joined after the reads were notified would wait for ever.
            self._landed(flight)
        if done.cancelled():
            self._fail(call, asyncio.CancelledError())
        elif (error := done.exception()) is not None:
            self._fail(call, error)
        else:
            seconds = trace.now() - call.flights[0].begun
            self.speed.note(call.num_bytes, seconds, call.landed_before)
            blocks, retries = self.blocks, getattr(done, "retries", 0)
            self._burst.land(call.num_requests, call.num_bytes, trace.now(), retries=retries)
            if not self.air:
                self.rate.note(self._burst, self.store.profile.latency_s)
            location = self.store.root + call.flights[0].path
            for flight, buffer in zip(call.flights, done.result(), strict=True):
                flight.buffer = buffer
                if flight.is_traced:
                    flight.record(len(buffer), retries=retries)
                blocks.note_end(location, flight.stop)
                if flight.is_cached:
                    blocks.put(location, flight.start, buffer)
                readers, flight.readers = flight.readers, set()
                for read in readers:
                    read.landed(flight)
        for flight in call.flights:
            flight.call = None  # otherwise bytes stay alive in a cycle until garbage collection
        self.send()

    def _fail(self, call: CallerRead, error: BaseException) -> None:
        self._burst.tells = False
        for flight in call.flights:
            flight.record(0, ok=False, retries=getattr(call.future, "retries", 0))
            # A read that ends leaves its flights, which changes their sets.
            readers, flight.readers = flight.readers, set()
            for read in readers:
                if isinstance(error, asyncio.CancelledError):
                    read.cancel()
                else:
                    read.failed(error)

    def _landed(self, flight: Flight) -> None:
        """Remove the flight from those under way, so that no read can join it."""
        flights = self.air.get(flight.path)
        if flights is not None and flights.get((flight.start, flight.stop)) is flight:
            del flights[flight.start, flight.stop]
            if not flights:
                del self.air[flight.path]
