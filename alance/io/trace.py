"""Every request of a piece of code: what it was for, when it began and ended.

    with alance.trace() as recorder:
        await dataset.take([7])
    print(recorder.waterfall())

Only requests are recorded that were asked for inside of the `with` block, by its tasks and those
they started. A request that serves many callers is recorded by each of their recorders.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Kind: TypeAlias = Literal["get", "tail", "list", "head"]

_current: ContextVar[Recorder | None] = ContextVar("alance_recorder", default=None)


@dataclass(frozen=True, slots=True)
class RequestEvent:
    """One request to a store, or one read of a local file."""

    kind: Kind
    location: str
    start: int  # first byte; of whole objects and listings 0
    stop: int  # exclusive
    reasons: tuple[str, ...]  # of those who asked, each once
    begun: float  # seconds on the clock of `time.perf_counter`
    ended: float
    num_bytes: int  # received
    ok: bool


class Recorder:
    """The requests of a `with alance.trace()` block, in the order in which they ended."""

    def __init__(self) -> None:
        self.events: list[RequestEvent] = []

    def __repr__(self) -> str:
        return f"Recorder({self.num_requests} requests, {self.num_bytes} bytes)"

    @property
    def num_requests(self) -> int:
        """How many requests there were."""
        return len(self.events)

    @property
    def num_bytes(self) -> int:
        """Bytes received."""
        return sum(event.num_bytes for event in self.events)

    @property
    def rounds(self) -> int:
        """Waves of requests: a request begins a new one if all of the wave before had ended."""
        waves, wave_ends = 0, float("-inf")
        for event in sorted(self.events, key=lambda one: one.begun):
            if event.begun >= wave_ends:
                waves, wave_ends = waves + 1, event.ended
            wave_ends = max(wave_ends, event.ended)
        return waves

    def summary(self) -> str:
        """A table: requests, bytes and time by kind and reason."""
        rows: dict[tuple[str, str], list[RequestEvent]] = defaultdict(list)
        for event in self.events:
            rows[event.kind, " + ".join(event.reasons) or "-"].append(event)
        lines = [f"{'kind':<6}{'for':<36}{'requests':>9}{'bytes':>13}{'ms':>9}"]
        for (kind, reason), events in rows.items():
            lines.append(
                f"{kind:<6}{reason[:35]:<36}{len(events):>9}"
                f"{sum(one.num_bytes for one in events):>13,}{_span(events) * 1e3:>9.1f}"
            )
        lines.append(
            f"{'all':<6}{f'in {self.rounds} rounds':<36}{self.num_requests:>9}"
            f"{self.num_bytes:>13,}{_span(self.events) * 1e3:>9.1f}"
        )
        return "\n".join(lines)

    def waterfall(self, width: int = 100) -> str:
        """A bar for each request over time, for a terminal of `width` columns."""
        if not self.events:
            return "no requests"
        first = min(event.begun for event in self.events)
        total = max(_span(self.events), 1e-6)
        room = max(10, width - 49)
        lines = []
        for event in sorted(self.events, key=lambda one: (one.begun, one.location, one.start)):
            left = int((event.begun - first) / total * (room - 1))
            length = max(1, round((event.ended - event.begun) / total * room))
            bar = " " * left + "█" * min(length, room - left)
            name = event.location.rsplit("/", 1)[-1][-14:]
            label = f"{event.kind:<5}{' + '.join(event.reasons)[:15]:<16}{name:<15}"
            lines.append(f"{label}{event.num_bytes:>10,} |{bar:<{room}}|")
        lines.append(f"{'':<46} |{'0 ms':<{room - 12}}{total * 1e3:>9.1f} ms|")
        return "\n".join(lines)

    def to_chrome(self, path: str | Path) -> None:
        """Write the trace as JSON for `chrome://tracing` and Perfetto; a lane a request at once."""
        first = min((event.begun for event in self.events), default=0.0)
        lanes: list[float] = []
        records = []
        for event in sorted(self.events, key=lambda one: one.begun):
            lane = next((n for n, free in enumerate(lanes) if free <= event.begun), len(lanes))
            lanes[lane : lane + 1] = [event.ended]
            records.append(
                {
                    "name": " + ".join(event.reasons) or event.kind,
                    "cat": event.kind,
                    "ph": "X",
                    "ts": (event.begun - first) * 1e6,
                    "dur": (event.ended - event.begun) * 1e6,
                    "pid": 1,
                    "tid": lane,
                    "args": {
                        "location": event.location,
                        "bytes": [event.start, event.stop],
                        "ok": event.ok,
                    },
                }
            )
        Path(path).write_text(json.dumps({"traceEvents": records}))


@contextmanager
def trace() -> Iterator[Recorder]:
    """Record the requests that this block asks for."""
    recorder = Recorder()
    token = _current.set(recorder)
    try:
        yield recorder
    finally:
        _current.reset(token)


def current() -> Recorder | None:
    """The recorder of the code that runs now."""
    return _current.get()


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
) -> None:
    """Note a request that ends now in the recorders of those who asked for it."""
    asked = {id(one): one for one in recorders if one is not None}
    if not asked:
        return
    names = tuple(dict.fromkeys(reason for reason in reasons if reason))
    event = RequestEvent(
        kind, location, span[0], span[1], names, begun, time.perf_counter(), num_bytes, ok
    )
    for recorder in asked.values():
        recorder.events.append(event)


def _span(events: Iterable[RequestEvent]) -> float:
    """Seconds from the first beginning to the last end."""
    times = [(event.begun, event.ended) for event in events]
    return max(end for _, end in times) - min(begin for begin, _ in times) if times else 0.0


now: Final = time.perf_counter
