"""What a trace is made of: requests, pieces of CPU work, their totals, and whose bytes are read."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Span: TypeAlias = tuple[int, int]  # start and stop of a range of bytes, half-open


class Places:
    """Named spans of objects, worked out when they are first asked for."""

    def __init__(self) -> None:
        self._told: dict[str, dict[str, Callable[[], Iterable[Span]]]] = {}
        self._sorted: dict[str, tuple[list[int], list[int], list[str]]] = {}

    def add(self, location: str, name: str, spans: Callable[[], Iterable[Span]]) -> None:
        """Tell the spans of a name; the first one to tell counts."""
        names = self._told.setdefault(location, {})
        if name not in names:
            names[name] = spans
            self._sorted.pop(location, None)

    def of(self, location: str, spans: Sequence[Span]) -> tuple[str, ...]:
        """The names whose spans overlap some of these, in the order of the object's bytes.

        None of bytes that go beyond all spans: those are the end of the file.
        """
        if location not in self._told or self.is_behind(location, spans[-1][1]):
            return ()
        starts, reach, names = self._index(location)
        ordered: dict[str, None] = {}
        for start, stop in spans:
            first, last = bisect_right(reach, start), bisect_left(starts, stop)
            ordered.update(dict.fromkeys(names[first:last]))
        return tuple(ordered)

    def is_behind(self, location: str, stop: int) -> bool:
        """Whether bytes up to `stop` go beyond all that was told of an object."""
        reach = self._index(location)[1] if location in self._told else []
        return bool(reach) and stop > reach[-1]

    def _index(self, location: str) -> tuple[list[int], list[int], list[str]]:
        index = self._sorted.get(location)
        if index is None:
            told = sorted(
                (start, stop, name)
                for name, spans in self._told[location].items()
                for start, stop in spans()
                if start < stop
            )
            index = self._sorted[location] = (
                [start for start, _, _ in told],
                list(accumulate((stop for _, stop, _ in told), max)),
                [name for _, _, name in told],
            )
        return index


Kind: TypeAlias = Literal["get", "tail", "list", "head", "put", "copy", "delete"]


@dataclass(frozen=True, slots=True)
class RequestEvent:
    """One request to a store, or one read of a local file. Times: clock of `perf_counter`."""

    kind: Kind
    location: str
    start: int  # first byte; of whole objects and listings 0
    stop: int  # exclusive
    reasons: tuple[str, ...]  # of those who asked, each once
    begun: float  # sent
    ended: float  # the last byte was there
    num_bytes: int  # received
    ok: bool
    queued: float | None = None  # asked for; None: not known, or sent at once
    first_byte: float | None = None  # where the store tells
    asked: tuple[Span, ...] = ()  # what was asked for of it, merged; none: all of it
    callers: tuple[str, ...] = ()  # names of the tasks that it serves
    retries: int = 0  # attempts that failed before; the store client's own are not seen

    @property
    def num_used(self) -> int:
        """Received bytes that somebody asked for; the others only fill gaps and blocks."""
        if not self.asked:
            return self.num_bytes
        return min(self.num_bytes, sum(stop - start for start, stop in self.asked))

    @property
    def num_wasted(self) -> int:
        """Received bytes that nobody asked for."""
        return self.num_bytes - self.num_used


@dataclass(frozen=True, slots=True)
class HopEvent:
    """One piece of CPU work: in a thread of the decode pool, or small and done in the loop."""

    what: str
    queued: float
    begun: float
    ended: float
    thread: str  # "" in the loop
    ok: bool


@dataclass(frozen=True, slots=True)
class Totals:
    """A trace in numbers."""

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
    hit_rates: dict[str, tuple[int, int]]  # cache: looks that found, all looks
