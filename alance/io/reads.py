"""What a caller of the scheduler awaits: the buffers of its ranges."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from alance import _kernels
from alance.format.coalesce import coalesce
from alance.format.plans import Pieces
from alance.io import trace
from alance.io.futures import in_thread, threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from alance.format.plans import Extent
    from alance.io.booking import Asked
    from alance.io.flights import Flight

R = TypeVar("R")

GATHERED_BYTES: Final = 1 << 20  # to copy more of pieces would hold the loop for a millisecond
OTHERS_SHARE: Final = 1 / 8  # of a buffer that is kept as it came, needed by others alone


class Landed:
    """Bytes of one object, as they were brought: buffers that begin anywhere, and may overlap."""

    __slots__ = ("_begins", "_buffers", "_ends", "_file")

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._buffers: list[memoryview] = []
        self._ends: list[int] = []
        self._file: _kernels.HeldFile | None = None

    def add(self, begin: int, buffer: memoryview) -> None:
        """Bytes from `begin` on."""
        self._begins.append(begin)
        self._buffers.append(buffer)

    def close(self) -> None:
        """All is there: put it in order."""
        spans = sorted(zip(self._begins, self._buffers, strict=True), key=lambda span: span[0])
        self._begins, self._buffers, self._ends = [], [], []
        for begin, buffer in spans:
            if not self._ends or begin + len(buffer) > self._ends[-1]:
                self._begins.append(begin)
                self._buffers.append(buffer)
                self._ends.append(begin + len(buffer))

    @property
    def file(self) -> _kernels.HeldFile:
        """The same for kernels."""
        if self._file is None:
            self._file = _kernels.HeldFile(self._begins, self._buffers)
        return self._file

    def cut(self, start: int, stop: int) -> memoryview:
        """Some of the bytes; a copy only where they are in several buffers."""
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
    """What a read of pieces has brought, as it came: no copy.

    Attributes:
        contents: of pieces that were read by one call; None where the bytes are in the objects.
    """

    def __init__(self, contents: Sequence[memoryview | None], objects: dict[str, Landed]) -> None:
        self.contents = contents
        self._objects = objects

    @contextmanager
    def reader(
        self, paths: Sequence[str], pieces: Callable[[], Pieces]
    ) -> Iterator[_kernels.Source]:
        """Brings the bytes to the kernel that decodes them; see `Reader`."""
        nothing = Landed()
        files = [self._objects.get(path, nothing).file for path in paths]
        yield _kernels.HeldSource(files)


class Read(asyncio.Future[Any]):
    """The buffers of some ranges, in the order asked for; or what is `Held`.

    Args:
        is_held: what was brought is given as it is, without making one buffer of pieces.
        is_part: no call gives the bytes of pieces as one buffer: others of its objects follow. Of
            requests that others share, it keeps what it has asked for, about.
        takes: how many it is for; what it brings goes into the block cache.
    """

    def __init__(
        self,
        extents: Sequence[Extent],
        reason: str,
        recorder: trace.Recorder | None,
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
        self.unplanned = 0  # objects of which it is not known yet who brings what
        self._extents = extents
        self.is_held = is_held
        self.is_part = is_part
        self.takes = takes
        self._objects: dict[str, Landed] = {}
        self._others: set[asyncio.Future[Any]] = set()  # what brings bytes without a flight
        self._missing: set[Flight] = set()
        self._asked: dict[str, Sequence[tuple[int, int]]] = {}  # of a part, in order

    def cancel(self, msg: object = None) -> bool:
        """Withdraw from the flights that are still under way."""
        if self.done():
            return False
        self._withdraw()
        return super().cancel(msg)

    def bring(self, location: str, begin: int, buffer: memoryview) -> None:
        """Bytes of an object are here."""
        self._of(location).add(begin, buffer)

    def expect(self, flight: Flight) -> None:
        """A flight brings bytes of an object."""
        if self.recorder is not None:
            flight.is_traced = True
        if flight.readers:
            flight.is_shared = True
        self._missing.add(flight)
        flight.readers.add(self)

    def keep(self, location: str, asked: Asked) -> None:
        """All that is asked of an object, of a part."""
        self._asked[location] = coalesce(np.array((asked.starts, asked.stops)).T, 0).spans

    @property
    def is_watched(self) -> bool:
        """Whether a trace wants to know what is asked of flights: this one's, or one that joins."""
        return self.recorder is not None or bool(trace.active)

    def wait_for(self, other: asyncio.Future[R], bring: Callable[[R], None]) -> None:
        """Another future brings something; it is cancelled with this one."""
        self._others.add(other)

        def ended(done: asyncio.Future[R]) -> None:
            if done not in self._others:
                if not done.cancelled():
                    done.exception()  # nobody waits for it any more
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
        """One of the flights is there."""
        if self.is_part and (flight.is_shared or flight.is_kept):
            # In turns of their own: what many share is cut by each of them.
            self.get_loop().call_soon(self._take_share, flight)
        elif flight in self._missing:
            assert flight.buffer is not None
            location = flight.lane.store.root + flight.path
            self._take(flight, location, [(flight.start, flight.buffer)])

    def _take_share(self, flight: Flight) -> None:
        if flight in self._missing:
            assert flight.buffer is not None
            location = flight.lane.store.root + flight.path
            self._take(flight, location, _shares(flight, flight.buffer, self._asked[location]))

    def _take(self, flight: Flight, location: str, spans: Sequence[tuple[int, memoryview]]) -> None:
        self._missing.discard(flight)
        for begin, buffer in spans:
            self.bring(location, begin, buffer)
        self.finish_if_complete()

    def failed(self, error: BaseException) -> None:
        """One of the flights failed: so does the read."""
        if not self.done():
            self._withdraw()
            self.set_exception(error)

    def finish_if_complete(self) -> None:
        """Give the buffers if nothing is missing."""
        if self._missing or self.unplanned or self._others or self.done():
            return
        objects, answers = self._objects, self.answers
        self._objects = {}
        for landed in objects.values():
            landed.close()
        if self.is_held:
            self.set_result(Held(answers, objects))
            return
        left = [
            (number, extent)
            for number, extent in enumerate(self._extents)
            if answers[number] is None
        ]

        def answered() -> None:
            for number, extent in left:
                answers[number] = _cut(extent, objects)

        pieces = [extent for _, extent in left if isinstance(extent, Pieces)]
        if sum([own.num_bytes for own in pieces]) > GATHERED_BYTES:
            job = in_thread(threads.executor(), answered, self.get_loop())
            self.wait_for(job, lambda _: None)
            return
        try:
            answered()
        except Exception as error:  # no memory: who else waits for these flights goes on
            self.failed(error)
            return
        self.set_result(answers)

    def _of(self, location: str) -> Landed:
        landed = self._objects.get(location)
        if landed is None:
            landed = self._objects[location] = Landed()
        return landed

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
    flight: Flight, buffer: memoryview, asked: Sequence[tuple[int, int]]
) -> Sequence[tuple[int, memoryview]]:
    """What a read keeps of a flight's bytes: copies where most of them are for others.

    Args:
        asked: what it asked for of the object: spans that ascend and are apart.
    """
    first, last = flight.start, flight.stop
    place = max(0, bisect_right(asked, (first,)) - 1)  # of the last span that begins before it
    end = bisect_left(asked, (last,))
    inside = [(max(start, first), min(stop, last)) for start, stop in asked[place:end]]
    ranges = [(start, stop) for start, stop in inside if start < stop]
    spans = coalesce(ranges, flight.lane.store.profile.take_gap).spans
    if sum([stop - start for start, stop in spans]) >= (1 - OTHERS_SHARE) * flight.num_bytes:
        return [(first, buffer)]
    return [
        (start, memoryview(bytes(buffer[start - first : stop - first]))) for start, stop in spans
    ]


def _cut(extent: Extent, objects: dict[str, Landed]) -> memoryview:
    """The bytes of an extent."""
    if isinstance(extent, Pieces):
        return _gathered(extent, objects)
    path, start, stop = extent
    return objects[path].cut(start, stop)


def _gathered(pieces: Pieces, objects: dict[str, Landed]) -> memoryview:
    """The bytes of pieces as one buffer; a view where they are one piece of one object."""
    if len(pieces.starts) == 1 and len(pieces.paths) == 1 and pieces.num_bytes:
        return objects[pieces.path].cut(pieces.start, pieces.stop)
    nothing = Landed()
    files = [objects.get(path, nothing).file for path in pieces.paths]
    content = _kernels.gather(files, pieces.ends, pieces.starts, pieces.stops)
    return content.data.toreadonly()
