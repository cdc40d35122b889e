"""What a trace is made of: requests, pieces of CPU work, and their totals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from alance.io.trace_places import Span

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
