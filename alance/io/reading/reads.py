"""Reads: the futures that callers of the scheduler await, with the buffers of their ranges."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from contextlib import contextmanager
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from alance import _kernels
from alance.format.plans import Pieces, coalesce
from alance.io.events import trace
from alance.io.loop.futures import in_thread, threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from alance.format.plans import Extent
    from alance.io.reading.booking import RangeRequest
    from alance.io.reading.flights import Flight

R = TypeVar("R")
_BEGIN = itemgetter(0)

GATHERED_BYTES: Final = 1 << 20  # larger copies block the loop for 1 ms: in a thread
ANSWERED_AT_ONCE: Final = 512  # objects and ranges to cut on the loop, at some 2 us each
# A read with `is_part` keeps a shared buffer, without a copy, if at most this share of the buffer
# serves only other reads.
OTHERS_SHARE: Final = 1 / 8


class Landed:
    """Received bytes of one object: buffers at any offsets, which may overlap."""

    __slots__ = ("_begins", "_buffers", "_ends", "_file")

    def __init__(self, spans: Sequence[tuple[int, memoryview]] = ()) -> None:
        """Sort buffers that begin at offsets of the object, and drop those that add no bytes."""
        self._begins: list[int] = []
        self._buffers: list[memoryview] = []
        self._ends: list[int] = []
        self._file: _kernels.HeldFile | None = None
        for begin, buffer in spans if len(spans) < 2 else sorted(spans, key=_BEGIN):
            if not self._ends or begin + len(buffer) > self._ends[-1]:
                self._begins.append(begin)
                self._buffers.append(buffer)
                self._ends.append(begin + len(buffer))

    @property
    def file(self) -> _kernels.HeldFile:
        """The buffers in the form that kernels take."""
        if self._file is None:
            self._file = _kernels.HeldFile(self._begins, self._buffers)
        return self._file

    def cut(self, start: int, stop: int) -> memoryview:
        """Return a range of the object: a view, or a copy if it spans several buffers."""
        place = bisect_right(self._begins, start) - 1
        begin = self._begins[place]
        if self._ends[place] >= stop:
            return self._buffers[place][start - begin : stop - begin]
        parts = []
        while start < stop:
            place = bisect_right(self._begins, start) - 1
            begin, end = self._begins[place], min(stop, self._ends[place])
            parts.append(self._buffers[place][start - begin : end - begin])
            start = end
        return memoryview(b"".join(parts))


class Held:
    """Result of `Scheduler.hold`: the bytes of pieces, not copied.

    Attributes:
        contents: for each `Pieces`, its buffer if a single call read it; None if its bytes are in
            the buffers of the objects.
    """

    def __init__(self, contents: Sequence[memoryview | None], objects: dict[str, Landed]) -> None:
        self.contents = contents
        self._objects = objects

    @contextmanager
    def reader(
        self, paths: Sequence[str], pieces: Callable[[], Pieces]
    ) -> Iterator[_kernels.Source]:
        """Yield a source of the pieces' bytes for the kernel that decodes them; see `Reader`."""
        nothing = Landed()
        files = [self._objects.get(path, nothing).file for path in paths]
        yield _kernels.HeldSource(files)


class Read(asyncio.Future[Any]):
    """Future of the buffers of some ranges, in the order of the ranges, or of a `Held`.

    Args:
        is_held: True for a `Held` as the result, without copying pieces into one buffer.
        is_part: True if more reads of these objects follow: pieces are not copied into one buffer,
            and the read holds little more than its own bytes of a request shared with other reads.
        takes: number of takes that the read serves; 0 keeps its bytes out of the block cache.
    """

    def __init__(
        self,
        extents: Sequence[Extent],
        reason: str,
        recorder: trace.RequestRecorder | None,
        loop: asyncio.AbstractEventLoop,
        *,
        is_held: bool = False,
        is_part: bool = False,
        takes: int = 0,
    ) -> None:
        super().__init__(loop=loop)
        self.reason = reason
        self.recorder = recorder
        self.callers = trace.callers() if recorder is not None else ()
        self.answers: list[memoryview | None] = [None] * len(extents)
        self.unplanned = 0  # objects whose flights are not booked yet
        self._extents = extents
        self.is_held = is_held
        self.is_part = is_part
        self.takes = takes
        self._objects: dict[str, list[tuple[int, memoryview]]] = {}  # offsets and buffers
        self._others: set[asyncio.Future[Any]] = set()  # jobs that bring bytes without a flight
        self._missing: set[Flight] = set()
        self._part_spans: dict[str, Sequence[tuple[int, int]]] = {}  # of a part, by location

    def cancel(self, msg: object = None) -> bool:
        """Leave the flights that are still under way."""
        if self.done():
            return False
        self._withdraw()
        return super().cancel(msg)

    def bring(self, location: str, spans: Iterable[tuple[int, memoryview]]) -> None:
        """Add received buffers of an object, each with its offset."""
        self._objects.setdefault(location, []).extend(spans)

    def expect(self, flight: Flight) -> None:
        """Register a flight that reads some of the bytes; the read ends only after it."""
        if self.recorder is not None:
            flight.is_traced = True
        if flight.readers:
            flight.is_shared = True
        self._missing.add(flight)
        flight.readers.add(self)

    def note_part(self, location: str, request: RangeRequest) -> None:
        """Record the spans of an object that this read requests; only for reads with `is_part`."""
        ranges = np.array((request.starts, request.stops)).T
        self._part_spans[location] = coalesce(ranges, 0).spans

    @property
    def is_watched(self) -> bool:
        """True if the flights of this read must record its ranges.

        They must if the read is traced. They also must while any trace is active, because a traced
        read may join the flights.
        """
        return self.recorder is not None or bool(trace.active)

    def wait_for(self, other: asyncio.Future[R], bring: Callable[[R], None]) -> None:
        """Register another future that this one needs; `bring` gets its result.

        Its failure is the failure of this read, and both are cancelled together.
        """
        self._others.add(other)

        def ended(done: asyncio.Future[R]) -> None:
            if done not in self._others:
                if not done.cancelled():
                    done.exception()  # marks the failure as retrieved
                return
            self._others.discard(done)
            if done.cancelled():
                self.cancel()
            elif (error := done.exception()) is not None:
                self.failed(error)
            else:
                bring(done.result())
                self.finish_if_complete()

        other.add_done_callback(ended)

    def landed(self, flight: Flight) -> None:
        """Add the bytes of a flight that has ended."""
        if self.is_part and (flight.is_shared or flight.is_cached):
            # In a separate turn, because each of many reads copies its share of the flight.
            self.get_loop().call_soon(self._take_share, flight)
        elif flight in self._missing:
            assert flight.buffer is not None
            location = flight.lane.store.root + flight.path
            self._take(flight, location, [(flight.start, flight.buffer)])

    def _take_share(self, flight: Flight) -> None:
        if flight in self._missing:
            assert flight.buffer is not None
            location = flight.lane.store.root + flight.path
            self._take(flight, location, _shares(flight, flight.buffer, self._part_spans[location]))

    def _take(self, flight: Flight, location: str, spans: Sequence[tuple[int, memoryview]]) -> None:
        self._missing.discard(flight)
        self.bring(location, spans)
        self.finish_if_complete()

    def failed(self, error: BaseException) -> None:
        """Fail with the error of a flight, and leave the other flights."""
        if not self.done():
            self._withdraw()
            self.set_exception(error)

    def finish_if_complete(self) -> None:
        """Set the result if no bytes are missing."""
        if self._missing or self.unplanned or self._others or self.done():
            return
        landed, self._objects = self._objects, {}
        answers = self.answers
        unanswered = [
            (number, extent)
            for number, extent in enumerate(self._extents)
            if answers[number] is None
        ]

        def answer() -> Any:
            objects = {path: Landed(own) for path, own in landed.items()}
            if self.is_held:
                return Held(answers, objects)
            for number, extent in unanswered:
                answers[number] = _cut(extent, objects)
            return answers

        pieces = [extent for _, extent in unanswered if isinstance(extent, Pieces)]
        copied_bytes = 0 if self.is_held else sum([own.num_bytes for own in pieces])
        if copied_bytes > GATHERED_BYTES or len(landed) + len(unanswered) > ANSWERED_AT_ONCE:
            job = in_thread(threads.executor(), answer, self.get_loop())
            self.wait_for(job, self.set_result)
            return
        try:
            result = answer()
        except Exception as error:  # out of memory: other reads of these flights continue
            self.failed(error)
            return
        self.set_result(result)

    def _withdraw(self) -> None:
        missing, self._missing = self._missing, set()
        others, self._others = self._others, set()
        self._objects.clear()
        for other in others:
            other.cancel()
        for flight in missing:
            flight.readers.discard(self)
            if not flight.readers:
                flight.lane.drop(flight)


def _shares(
    flight: Flight, buffer: memoryview, own_spans: Sequence[tuple[int, int]]
) -> Sequence[tuple[int, memoryview]]:
    """Return the buffers of a flight that a part keeps in memory, each with its offset.

    The buffers are copies of the needed spans if more than `OTHERS_SHARE` of the flight is only for
    other reads; otherwise the whole buffer is returned.

    Args:
        own_spans: spans of the object that the read requests, ascending and disjoint.
    """
    first, last = flight.start, flight.stop
    place = max(0, bisect_right(own_spans, (first,)) - 1)  # last span at or before `first`
    end = bisect_left(own_spans, (last,))
    inside = [(max(start, first), min(stop, last)) for start, stop in own_spans[place:end]]
    ranges = [(start, stop) for start, stop in inside if start < stop]
    spans = coalesce(ranges, flight.lane.store.profile.take_gap).spans
    if sum([stop - start for start, stop in spans]) >= (1 - OTHERS_SHARE) * flight.num_bytes:
        return [(first, buffer)]
    return [
        (start, memoryview(bytes(buffer[start - first : stop - first]))) for start, stop in spans
    ]


def _cut(extent: Extent, objects: dict[str, Landed]) -> memoryview:
    """Return the bytes of an extent."""
    if isinstance(extent, Pieces):
        return _gathered(extent, objects)
    path, start, stop = extent
    return objects[path].cut(start, stop)


def _gathered(pieces: Pieces, objects: dict[str, Landed]) -> memoryview:
    """Return the bytes of pieces as one buffer; a view if there is only one piece."""
    if len(pieces.starts) == 1 and len(pieces.paths) == 1 and pieces.num_bytes:
        return objects[pieces.path].cut(pieces.start, pieces.stop)
    nothing = Landed()
    files = [objects.get(path, nothing).file for path in pieces.paths]
    content = _kernels.gather(files, pieces.ends, pieces.starts, pieces.stops)
    return content.data.toreadonly()
