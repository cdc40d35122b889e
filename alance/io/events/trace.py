"""Traces: a record of each read of a piece of code, with its purpose and times.

    with alance.trace() as recorder:
        await dataset.take([7])
    print(recorder.waterfall())

A recorder gets the requests that the code inside its `with` block causes, also in tasks that this
code starts, but no writes: these are events of `observing`. A request that serves several callers
is recorded for each of them, and in the recorders of all enclosing blocks. Outside of blocks
nothing is recorded.
"""

from __future__ import annotations

import asyncio
import threading
import time
import warnings
from bisect import bisect_left, bisect_right
from collections import Counter
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar

from alance.base.records import dataclass
from alance.format.plans import joined_spans
from alance.io.events.trace_text import chrome, span_of, table, waterfall, waves
from alance.io.stores.store import without_number

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

Span: TypeAlias = tuple[int, int]  # start and stop of a range of bytes, half-open


class NamedSpans:
    """Named spans of objects, computed at the first look-up."""

    def __init__(self) -> None:
        self._spans: dict[str, dict[str, Callable[[], Iterable[Span]]]] = {}
        self._sorted: dict[str, tuple[list[int], list[int], list[str]]] = {}

    def add(self, location: str, named: Mapping[str, Callable[[], Iterable[Span]]]) -> None:
        """Set the spans of names in an object, except of names that are set already."""
        names = self._spans.setdefault(location, {})
        if not names.keys() >= named.keys():
            self._spans[location] = {**named, **names}
            self._sorted.pop(location, None)

    def of(self, location: str, spans: Sequence[Span]) -> tuple[str, ...]:
        """Return the names whose spans overlap any of `spans`, in the order of the object's bytes.

        The result is empty if `spans` extend beyond all named spans, into the end of the file.
        """
        if location not in self._spans or self.is_behind(location, spans[-1][1]):
            return ()
        starts, reach, names = self._index(location)
        ordered: dict[str, None] = {}
        for start, stop in spans:
            first, last = bisect_right(reach, start), bisect_left(starts, stop)
            ordered.update(dict.fromkeys(names[first:last]))
        return tuple(ordered)

    def is_behind(self, location: str, stop: int) -> bool:
        """True if `stop` lies behind all named spans of an object; False if it has none."""
        reach = self._index(location)[1] if location in self._spans else []
        return bool(reach) and stop > reach[-1]

    def _index(self, location: str) -> tuple[list[int], list[int], list[str]]:
        index = self._sorted.get(location)
        if index is None:
            ordered = sorted(
                (start, stop, name)
                for name, spans in self._spans[location].items()
                for start, stop in spans()
                if start < stop
            )
            index = self._sorted[location] = (
                [start for start, _, _ in ordered],
                list(accumulate((stop for _, stop, _ in ordered), max)),
                [name for _, _, name in ordered],
            )
        return index


Kind: TypeAlias = Literal["get", "tail", "list", "head", "put", "copy", "delete"]


@dataclass(frozen=True, slots=True)
class RequestEvent:
    """A read from a store, also of local files. Times are those of `perf_counter`."""

    kind: Kind
    location: str
    start: int  # first byte; 0 for whole objects and listings
    stop: int  # offset after the last byte
    reasons: tuple[str, ...]  # purposes of the callers, without duplicates
    begun: float  # time at which the request was sent
    ended: float  # time at which the last byte arrived
    num_bytes: int  # received bytes
    ok: bool
    queued: float | None = None  # time of the caller's request; None: unknown or sent at once
    first_byte: float | None = None  # time; None if the store does not report it
    ranges: tuple[Span, ...] = ()  # ranges that callers requested, merged; empty: the whole object
    callers: tuple[str, ...] = ()  # names of the tasks that the request serves
    retries: int = 0  # failed attempts before this one, without retries inside the store's client

    @property
    def asked(self) -> tuple[tuple[int, int], ...]:
        """Former name of `ranges`."""
        warnings.warn("RequestEvent.asked is now ranges", DeprecationWarning, stacklevel=2)
        return self.ranges

    @property
    def num_used(self) -> int:
        """Received bytes that a caller requested; the other bytes fill gaps and blocks."""
        if not self.ranges:
            return self.num_bytes
        return min(self.num_bytes, sum(stop - start for start, stop in self.ranges))

    @property
    def num_wasted(self) -> int:
        """Received bytes that no caller requested."""
        return self.num_bytes - self.num_used


@dataclass(frozen=True, slots=True)
class HopEvent:
    """A piece of CPU work, in a thread of the decode pool or, if small, on the loop."""

    what: str
    queued: float
    begun: float
    ended: float
    thread: str  # empty for the main thread
    ok: bool


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of a trace."""

    num_requests: int
    num_failed: int
    num_retries: int
    num_bytes: int
    num_wasted: int
    rounds: int
    num_objects: int
    num_hops: int
    seconds: float  # from the first request to the last byte
    hop_seconds: float  # CPU work, summed over threads
    hit_rates: dict[str, tuple[int, int]]  # by cache: number of hits and of all look-ups


__all__ = ["CallNotes", "HopEvent", "Kind", "RequestEvent", "RequestRecorder", "Totals", "trace"]

T = TypeVar("T")
R = TypeVar("R", bound="RequestRecorder")

_current: ContextVar[RequestRecorder | None] = ContextVar("alance_recorder", default=None)
_together: ContextVar[tuple[str, ...]] = ContextVar("alance_callers", default=())
_notes: ContextVar[CallNotes | None] = ContextVar("alance_notes", default=None)
# Ids of the recorders of all current blocks. Code that only serves traces checks this set first.
active: Final[set[int]] = set()


@dataclass(slots=True)
class CallNotes:
    """Recorder of a call to a store, and the facts that the store reports about the call."""

    begun: float = field(default_factory=time.perf_counter)
    recorder: RequestRecorder | None = field(default_factory=_current.get)
    first_byte: float | None = None
    retries: int = 0

    def record(self, kind: Kind, location: str, reason: str, num_bytes: int, *, ok: bool) -> None:
        """Record the request, which ends now."""
        if self.recorder is not None:
            record(
                [self.recorder],
                kind,
                location,
                (0, num_bytes),
                [reason],
                self.begun,
                num_bytes=num_bytes,
                ok=ok,
                first_byte=self.first_byte,
                callers=callers(),
                retries=self.retries,
            )


@dataclass(slots=True, repr=False, eq=False)
class RequestRecorder:
    """Reads of a `with alance.trace()` block, in the order in which they ended."""

    events: list[RequestEvent] = field(default_factory=list)
    hops: list[HopEvent] = field(default_factory=list)
    looks: Counter[tuple[str, bool]] = field(default_factory=Counter)  # by (cache, is hit)
    places: NamedSpans = field(default_factory=NamedSpans)
    outer: RequestRecorder | None = None  # recorder of the enclosing block

    def _looked_for(self, key: Hashable, *, hit: bool) -> None:
        """Receive each key that is looked up in a cache. For subclasses; does nothing here."""

    def _compared(self, num_values: int) -> None:
        """Receive the number of compared index values. For subclasses; does nothing here."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.num_requests} requests, {self.num_bytes} bytes)"

    @property
    def num_requests(self) -> int:
        """Number of recorded requests."""
        return len(self.events)

    @property
    def num_bytes(self) -> int:
        """Number of received bytes."""
        return sum(event.num_bytes for event in self.events)

    @property
    def waves(self) -> list[tuple[float, float]]:
        """Start and end of each wave: a time in which at least one request is under way."""
        return waves(self.events)

    @property
    def rounds(self) -> int:
        """Number of waves of requests."""
        return len(self.waves)

    @property
    def totals(self) -> Totals:
        """Totals of the whole trace."""
        caches = sorted({cache for cache, _ in self.looks})
        hits = {cache: self.looks[cache, True] for cache in caches}
        return Totals(
            num_requests=self.num_requests,
            num_failed=sum(not event.ok for event in self.events),
            num_retries=sum(event.retries for event in self.events),
            num_bytes=self.num_bytes,
            num_wasted=sum(event.num_wasted for event in self.events),
            rounds=self.rounds,
            num_objects=len({event.location for event in self.events}),
            num_hops=len(self.hops),
            seconds=span_of(self.events),
            hop_seconds=sum(hop.ended - hop.begun for hop in self.hops),
            hit_rates={
                cache: (hits[cache], hits[cache] + self.looks[cache, False]) for cache in caches
            },
        )

    def columns_of(self, event: RequestEvent) -> tuple[str, ...]:
        """Return the columns whose bytes a request read; empty if they are unknown.

        Args:
            event: the request.
        """
        return self.places.of(event.location, event.ranges or ((event.start, event.stop),))

    def is_footer(self, event: RequestEvent) -> bool:
        """Return True if a request read bytes after the pages of a data file.

        Args:
            event: the request.
        """
        return self.places.is_behind(
            event.location, event.stop if not event.ranges else event.ranges[-1][1]
        )

    def summary(self) -> str:
        """Return a table of requests, bytes and time by kind and reason, and of rounds, waste and
        hit rates.
        """
        return table(self.events, self.totals)

    def waterfall(self, width: int = 100) -> str:
        """Return a bar for each request over time, as text for a terminal.

        Args:
            width: columns of the terminal.
        """
        return waterfall(self.events, width)

    def to_chrome(self, path: str | Path) -> None:
        """Write the trace as JSON for `chrome://tracing` and Perfetto, with a lane for each
        concurrent request and each decode thread.

        Args:
            path: path of the file.
        """
        chrome(self.events, self.hops, path)


@contextmanager
def trace() -> Iterator[RequestRecorder]:
    """Record the reads that the code in this block causes."""
    with recording(RequestRecorder()) as recorder:
        yield recorder


@contextmanager
def recording(recorder: R, *, alone: bool = False) -> Iterator[R]:
    """Record the requests of the block in `recorder`, and in the recorders of enclosing blocks.

    Args:
        alone: True to hide the requests from enclosing blocks.
    """
    recorder.outer = None if alone else _current.get()
    token = _current.set(recorder)
    active.add(id(recorder))
    try:
        yield recorder
    finally:
        active.discard(id(recorder))
        _current.reset(token)


def current() -> RequestRecorder | None:
    """Return the recorder of the current block; None outside of all blocks."""
    return _current.get() if active else None


def callers() -> tuple[str, ...]:
    """Return the names of the tasks that the running code works for.

    They are the names set by `work_for`, or else the name of the running task.
    """
    if together := _together.get():
        return together
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return ()
    return () if task is None else (task.get_name(),)


def work_for(names: Iterable[str]) -> None:
    """Set the names that `callers` returns, here and in tasks that start from here."""
    _together.set(tuple(names))


def record(
    recorders: Iterable[RequestRecorder | None],
    kind: Kind,
    location: str,
    span: tuple[int, int],
    reasons: Iterable[str],
    begun: float,
    *,
    num_bytes: int,
    ok: bool = True,
    queued: float | None = None,
    first_byte: float | None = None,
    ranges: Iterable[tuple[int, int]] = (),
    callers: Iterable[str] = (),
    retries: int = 0,
) -> None:
    """Add a request that ends now to the recorders of its callers."""
    receivers = _with_outer(recorders)
    if not receivers:
        return
    event = RequestEvent(
        kind,
        without_number(location),
        span[0],
        span[1],
        tuple(dict.fromkeys(reason for reason in reasons if reason)),
        begun,
        time.perf_counter(),
        num_bytes,
        ok,
        queued,
        first_byte,
        tuple(joined_spans(ranges)),
        tuple(sorted({name for name in callers if name})),
        retries,
    )
    for receiver in receivers:
        receiver.events.append(event)


def timed(
    work: Callable[[], T], recorder: RequestRecorder, what: str = "decode"
) -> Callable[[], T]:
    """Wrap work so that a recorder gets the work's waiting time and running time."""
    queued = time.perf_counter()

    def run() -> T:
        begun, ok = time.perf_counter(), False
        try:
            result = work()
            ok = True
            return result
        finally:
            thread = threading.current_thread()
            name = "" if thread is threading.main_thread() else thread.name
            hop = HopEvent(what, queued, begun, time.perf_counter(), name, ok)
            for receiver in _with_outer([recorder]):
                receiver.hops.append(hop)

    return run


def look(
    cache: str, *, hit: bool, key: Hashable = None, recorder: RequestRecorder | None = None
) -> None:
    """Count a look-up in a cache. Callers check `active` first, because look-ups are frequent."""
    for receiver in _with_outer([recorder or _current.get()]):
        receiver.looks[cache, hit] += 1
        receiver._looked_for(key, hit=hit)


def compare(num_values: int) -> None:
    """Report that a query is compared with `num_values` values of an index."""
    if active:
        for receiver in _with_outer([_current.get()]):
            receiver._compared(num_values)


def describe(location: str, named: Mapping[str, Callable[[], Iterable[Span]]]) -> None:
    """Name spans of an object, such as those of its columns.

    Args:
        named: functions by name that return the spans; called when needed.
    """
    for receiver in _with_outer([_current.get()]):
        receiver.places.add(without_number(location), named)


@contextmanager
def noting() -> Iterator[CallNotes]:
    """Collect the facts that the store reports about calls that begin in this block."""
    notes = CallNotes()
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)


def note_first_byte() -> None:
    """Record the arrival of an answer's head."""
    notes = _notes.get()
    if notes is not None:
        notes.first_byte = time.perf_counter()


def note_retry() -> None:
    """Record a failed attempt that is followed by another."""
    notes = _notes.get()
    if notes is not None:
        notes.retries += 1


def _with_outer(recorders: Iterable[RequestRecorder | None]) -> list[RequestRecorder]:
    """Return recorders and those of their enclosing blocks, without duplicates."""
    by_id: dict[int, RequestRecorder] = {}
    for recorder in recorders:
        while recorder is not None and id(recorder) not in by_id:
            by_id[id(recorder)] = recorder
            recorder = recorder.outer
    return list(by_id.values())


now: Final = time.perf_counter
