"""Every request of a piece of code: what it was for, when it began and ended.

    with alance.trace() as recorder:
        await dataset.take([7])
    print(recorder.waterfall())

Only requests are recorded that were asked for inside of the `with` block, by its tasks and those
they started. A request that serves many callers is recorded by each of their recorders, and by
those of the blocks around theirs. Without a block nothing is noted.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from alance.format.plans import joined_spans
from alance.io.store import without_number
from alance.io.trace_events import HopEvent, Kind, Places, RequestEvent, Totals
from alance.io.trace_text import chrome, span_of, table, waterfall, waves

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator
    from pathlib import Path

    from alance.io.trace_events import Span

__all__ = ["HopEvent", "Kind", "Notes", "Recorder", "RequestEvent", "Totals", "trace"]

T = TypeVar("T")
R = TypeVar("R", bound="Recorder")

_current: ContextVar[Recorder | None] = ContextVar("alance_recorder", default=None)
_together: ContextVar[tuple[str, ...]] = ContextVar("alance_callers", default=())
_notes: ContextVar[Notes | None] = ContextVar("alance_notes", default=None)
# Recorders of the blocks that run now, in any task: what is only for traces asks this first.
active: Final[set[int]] = set()


@dataclass(slots=True)
class Notes:
    """A call to a store: who made it, and what the store tells of it while it runs."""

    begun: float = field(default_factory=time.perf_counter)
    recorder: Recorder | None = field(default_factory=lambda: _current.get())
    first_byte: float | None = None
    retries: int = 0

    def record(self, kind: Kind, location: str, reason: str, num_bytes: int, *, ok: bool) -> None:
        """Note the request, which ends now."""
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
class Recorder:
    """The requests of a `with alance.trace()` block, in the order in which they ended."""

    events: list[RequestEvent] = field(default_factory=list)
    hops: list[HopEvent] = field(default_factory=list)
    looks: Counter[tuple[str, bool]] = field(default_factory=Counter)  # (cache, found)
    places: Places = field(default_factory=Places)
    outer: Recorder | None = None  # of the block around this one

    def _looked_for(self, key: Hashable, *, hit: bool) -> None:
        """Told of each key that a cache was asked for; others than this one may want to know."""

    def _compared(self, num_values: int) -> None:
        """Told of the values of an index that a question was compared with."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.num_requests} requests, {self.num_bytes} bytes)"

    @property
    def num_requests(self) -> int:
        """How many requests there were."""
        return len(self.events)

    @property
    def num_bytes(self) -> int:
        """Bytes received."""
        return sum(event.num_bytes for event in self.events)

    @property
    def waves(self) -> list[tuple[float, float]]:
        """Begin and end of each wave: a request begins a new one if all before had ended."""
        return waves(self.events)

    @property
    def rounds(self) -> int:
        """Waves of requests."""
        return len(self.waves)

    @property
    def totals(self) -> Totals:
        """The whole trace in numbers."""
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
        """The columns whose bytes a request was for; none where they are not known."""
        return self.places.of(event.location, event.asked or ((event.start, event.stop),))

    def is_footer(self, event: RequestEvent) -> bool:
        """Whether a request was for what stands behind the pages of a data file."""
        return self.places.is_behind(
            event.location, event.stop if not event.asked else event.asked[-1][1]
        )

    def summary(self) -> str:
        """A table: requests, bytes and time by kind and reason; then rounds, waste, hit rates."""
        return table(self.events, self.totals)

    def waterfall(self, width: int = 100) -> str:
        """A bar for each request over time, for a terminal of `width` columns."""
        return waterfall(self.events, width)

    def to_chrome(self, path: str | Path) -> None:
        """Write the trace as JSON for `chrome://tracing` and Perfetto: a lane a request at once,
        and one a thread that decodes."""
        chrome(self.events, self.hops, path)


@contextmanager
def trace() -> Iterator[Recorder]:
    """Record the requests that this block asks for."""
    with recording(Recorder()) as recorder:
        yield recorder


@contextmanager
def recording(recorder: R, *, alone: bool = False) -> Iterator[R]:
    """Record in this recorder what the block asks for; the block around it records it too.

    Args:
        alone: the block around it does not.
    """
    recorder.outer = None if alone else _current.get()
    token = _current.set(recorder)
    active.add(id(recorder))
    try:
        yield recorder
    finally:
        active.discard(id(recorder))
        _current.reset(token)


def current() -> Recorder | None:
    """The recorder of the code that runs now."""
    return _current.get()


def callers() -> tuple[str, ...]:
    """The names of the tasks that the running code works for: its own, or several together."""
    if together := _together.get():
        return together
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return ()
    return () if task is None else (task.get_name(),)


def work_for(names: Iterable[str]) -> None:
    """Say for whom the running code, and the tasks that it starts, work."""
    _together.set(tuple(names))


def record(
    recorders: Iterable[Recorder | None],
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
    asked: Iterable[tuple[int, int]] = (),
    callers: Iterable[str] = (),
    retries: int = 0,
) -> None:
    """Note a request that ends now in the recorders of those who asked for it."""
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
        tuple(joined_spans(asked)),
        tuple(sorted({name for name in callers if name})),
        retries,
    )
    for receiver in receivers:
        receiver.events.append(event)


def timed(work: Callable[[], T], recorder: Recorder, what: str = "decode") -> Callable[[], T]:
    """The same work, noting how long it waited for a thread and how long it ran."""
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


def look(cache: str, *, hit: bool, key: Hashable = None, recorder: Recorder | None = None) -> None:
    """Count a look into a cache; ask `active` before, as looks are many."""
    for receiver in _with_outer([recorder or _current.get()]):
        receiver.looks[cache, hit] += 1
        receiver._looked_for(key, hit=hit)


def compare(num_values: int) -> None:
    """Note that a question is compared with so many values of an index."""
    if active:
        for receiver in _with_outer([_current.get()]):
            receiver._compared(num_values)


def describe(location: str, name: str, spans: Callable[[], Iterable[Span]]) -> None:
    """Tell what is where in an object: the bytes of a column, worked out when asked for."""
    for receiver in _with_outer([_current.get()]):
        receiver.places.add(without_number(location), name, spans)


@contextmanager
def noting() -> Iterator[Notes]:
    """Collect what the store tells of calls that are begun in this block."""
    notes = Notes()
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)


def note_first_byte() -> None:
    """The head of an answer is there."""
    notes = _notes.get()
    if notes is not None:
        notes.first_byte = time.perf_counter()


def note_retry() -> None:
    """An attempt failed, another follows."""
    notes = _notes.get()
    if notes is not None:
        notes.retries += 1


def _with_outer(recorders: Iterable[Recorder | None]) -> list[Recorder]:
    """The recorders and those of the blocks around, each once."""
    by_id: dict[int, Recorder] = {}
    for recorder in recorders:
        while recorder is not None and id(recorder) not in by_id:
            by_id[id(recorder)] = recorder
            recorder = recorder.outer
    return list(by_id.values())


now: Final = time.perf_counter
