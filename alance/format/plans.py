"""Plans: generators by which pure format code requests bytes.

A plan yields the byte ranges of one round, receives their buffers in the same order, and returns
its result. It never waits, so the same plan runs over a store, over bytes in memory, and in a dry
run. A plan that computes for long between rounds yields a `TURN`, so that its driver can let the
event loop run.

All drivers advance a plan with `step`: `answered` over bytes in memory, `through` inside another
plan, `together` for many plans in lockstep, `io.reading.drive` over a store.

A driver coalesces the ranges of an object: it merges them over small gaps, and splits large ones.
`io/stores/profile.py` and `io/reading/speed.py` choose the largest gap for a store. Kernels merge
by the same rule; see `kernels/io/coalesce.hpp`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, NoReturn, TypeAlias, TypeVar

from alance import _kernels
from alance.base.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from alance.base.arrays import Int64s

T = TypeVar("T")

MAX_STOP: Final = 1 << 62  # a position plus a gap still fits into an int64
MAX_RANGE_BYTES: Final = 1 << 40  # above any machine's memory; still a moderate number of requests
NO_LIMIT: Final = (1 << 64) - 1


class ByteRange(NamedTuple):
    """Half-open range of an object's bytes."""

    path: str  # location of the object: the store's root, then the path below it
    start: int  # byte offset, inclusive
    stop: int  # byte offset, exclusive

    @property
    def num_bytes(self) -> int:
        return self.stop - self.start


def is_range(start: int, stop: int) -> bool:
    """True if the range is valid: within the largest object and the largest memory."""
    return 0 <= start <= stop <= MAX_STOP and stop - start <= MAX_RANGE_BYTES


def are_ranges(starts: Int64s, stops: Int64s) -> bool:
    """True if all pairs are valid ranges; see `is_range`."""
    is_inside = (starts >= 0).all() and (starts <= stops).all() and (stops <= MAX_STOP).all()
    return bool(is_inside and (stops - starts <= MAX_RANGE_BYTES).all())


class Coalesced(NamedTuple):
    """Spans of bytes that cover ranges, and the number of the span for each range."""

    spans: list[tuple[int, int]]  # ascending by start; disjoint, unless `max_bytes` cut them
    owners: list[int]  # for each range, in input order, the number of its span

    def cut(
        self, ranges: Sequence[tuple[int, int]], contents: Sequence[memoryview]
    ) -> list[memoryview]:
        """Cut the bytes of each range out of the spans' contents; views."""
        firsts = [start for start, _ in self.spans]
        return [
            contents[owner][start - firsts[owner] : stop - firsts[owner]]
            for (start, stop), owner in zip(ranges, self.owners, strict=True)
        ]


def coalesce(
    ranges: Sequence[tuple[int, int]] | Int64s, max_gap_bytes: int, max_bytes: int = NO_LIMIT
) -> Coalesced:
    """Merge ranges of one object that overlap, touch, or are separated by a small gap.

    Args:
        ranges: start and stop of each, in any order, perhaps overlapping; an array has shape (n,
            2).
        max_gap_bytes: largest gap to read in order to save a request.
        max_bytes: largest span that merging may produce; a single range may be larger.
    """
    return Coalesced(*_kernels.coalesce(ranges, max_gap_bytes, max_bytes))


def split(start: int, stop: int, max_bytes: int) -> list[tuple[int, int]]:
    """Split a span into pieces of about equal size, at most `max_bytes` each."""
    count = -(-(stop - start) // max_bytes)
    if count <= 1:
        return [(start, stop)]
    cuts = [start + (stop - start) * number // count for number in range(count + 1)]
    return list(pairwise(cuts))


def joined_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge spans that overlap or touch; the result is ascending."""
    return coalesce([*spans], 0).spans


class Pieces(NamedTuple):
    """Many ranges of objects, requested together and answered by a single buffer.

    The buffer holds the bytes of all pieces, concatenated.
    """

    paths: Sequence[str]  # paths of the objects, at least one
    ends: Sequence[int]  # end of each object's pieces, as an index into `starts`
    starts: Int64s  # shape (n,), n > 0; ascending and disjoint within an object
    stops: Int64s  # shape (n,), exclusive
    num_bytes: int

    @classmethod
    def of(cls, path: str, starts: Int64s, stops: Int64s) -> Pieces:
        """Return pieces of one object."""
        return cls((path,), (len(starts),), starts, stops, int((stops - starts).sum()))

    @property
    def path(self) -> str:
        """Path of the object, for pieces of a single object."""
        (path,) = self.paths
        return path

    @property
    def start(self) -> int:
        """Start of the first piece, for pieces of a single object."""
        return int(self.starts[0])

    @property
    def stop(self) -> int:
        """End of the last piece, for pieces of a single object."""
        return int(self.stops[-1])

    def bytes_over(self, gap: int) -> int:
        """Return the size of the pieces, including gaps of up to `gap` bytes between neighbours."""
        gaps = self.starts[1:] - self.stops[:-1]
        gaps[[end - 1 for end in self.ends[:-1]]] = 0  # between two objects
        return self.num_bytes + int(gaps[(gaps > 0) & (gaps <= gap)].sum())

    def split(self, most: int) -> list[Pieces]:
        """Split into parts of at most `most` objects each, in order."""
        if len(self.paths) <= most:
            return [self]
        parts = []
        for first in range(0, len(self.paths), most):
            begin = self.ends[first - 1] if first else 0
            ends = [end - begin for end in self.ends[first : first + most]]
            starts = self.starts[begin : begin + ends[-1]]
            stops = self.stops[begin : begin + ends[-1]]
            num_bytes = int((stops - starts).sum())
            parts.append(Pieces(self.paths[first : first + most], ends, starts, stops, num_bytes))
        return parts

    def ranges(self) -> list[ByteRange]:
        starts, stops = self.starts.tolist(), self.stops.tolist()
        if len(self.paths) == 1:
            paths = [*self.paths] * len(starts)
        else:
            counts = zip(self.paths, pairwise([0, *self.ends]), strict=True)
            paths = [path for path, (first, end) in counts for _ in range(first, end)]
        return list(map(ByteRange, paths, starts, stops))


Extent: TypeAlias = ByteRange | Pieces
Plan: TypeAlias = Generator[Sequence[Extent], Sequence[memoryview], T]
# Function that opens a source of bytes for a decoding kernel, in the decoding thread. Arguments:
# paths of objects, and a function that returns the pieces to read, for traces.
Reader: TypeAlias = (
    "Callable[[Sequence[str], Callable[[], Pieces]], AbstractContextManager[_kernels.Source]]"
)


def cut(extent: Extent, content: memoryview, first: int = 0) -> memoryview:
    """Cut a range or pieces out of an object's bytes, which begin at byte `first`."""
    if isinstance(extent, ByteRange):
        return content[extent.start - first : extent.stop - first]
    return memoryview(b"".join([cut(part, content, first) for part in extent.ranges()]))


class Turn(tuple[Extent, ...]):
    """Request without ranges: lets other tasks run during a long computation."""

    __slots__ = ()


TURN: Final = Turn()
PLANS_A_TURN: Final = 16  # plans to advance between turns, which takes a few milliseconds


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """End of a plan, with the plan's result."""

    result: T


def step(plan: Plan[T], buffers: Sequence[memoryview] | None = None) -> Sequence[Extent] | Done[T]:
    """Advance a plan, or start it. Returns its next request, or `Done` at its end."""
    try:
        return plan.send(buffers)  # type: ignore[arg-type]  # None starts a generator
    except StopIteration as done:
        return Done(done.value)


class NotAtHand(Exception):
    """Error of a driver over memory: the requested bytes are not in memory."""


def answered(plan: Plan[T], answer: Callable[[Sequence[Extent]], Sequence[memoryview]]) -> T:
    """Run a plan over bytes in memory and return its result; close the plan in any case.

    Args:
        answer: returns the buffers of a round. Its errors, such as `NotAtHand`, end the plan and
            are raised.
    """
    try:
        request = step(plan)
        while not isinstance(request, Done):
            request = step(plan, () if request is TURN else answer(request))
        return request.result
    finally:
        plan.close()


def through(
    plan: Plan[T], answer: Callable[[Sequence[Extent]], Plan[Sequence[memoryview]]]
) -> Plan[T]:
    """Run a plan inside another one: `answer` plans the buffers of each round.

    Turns are passed on.
    """
    try:
        request = step(plan)
        while not isinstance(request, Done):
            if request is TURN:
                yield TURN
                request = step(plan, ())
            else:
                request = step(plan, (yield from answer(request)))
        return request.result
    finally:
        plan.close()


def all_read(paths: Sequence[str], pieces: Callable[[], Pieces]) -> NoReturn:
    """Raise an error. This is the `Reader` for decoding that needs no more bytes."""
    raise AssertionError(f"{pieces().num_bytes} bytes are still to be read")


def together(plans: Sequence[Plan[T]]) -> Plan[list[T]]:
    """Run plans in lockstep: each round requests the ranges of all unfinished plans.

    Takes as many rounds as the longest plan. Results are in the order of `plans`. Yields a `TURN`
    after every `PLANS_A_TURN` plans.
    """
    if len(plans) == 1:
        return [(yield from plans[0])]
    requests: list[Sequence[Extent]] = [()] * len(plans)
    results: dict[int, T] = {}
    waiting: Sequence[int] = range(len(plans))
    buffers: Sequence[memoryview] | None = None
    while waiting:
        sent = 0
        for count, number in enumerate(waiting, 1):
            stop = sent + len(requests[number])
            request = step(plans[number], None if buffers is None else buffers[sent:stop])
            while request is TURN:
                yield TURN
                request = step(plans[number], ())
            if isinstance(request, Done):
                results[number] = request.result
            else:
                requests[number] = request
            sent = stop
            if count % PLANS_A_TURN == 0:
                yield TURN
        waiting = [number for number in waiting if number not in results]
        if waiting:
            buffers = yield [extent for number in waiting for extent in requests[number]]
    return [results[number] for number in range(len(plans))]


def run(plan: Plan[T], content: bytes) -> tuple[T, list[Sequence[Extent]]]:
    """Run a plan over bytes in memory; return its result and the ranges of each round."""
    rounds: list[Sequence[Extent]] = []
    view = memoryview(content)

    def answer(ranges: Sequence[Extent]) -> Sequence[memoryview]:
        rounds.append(ranges)
        return [cut(extent, view) for extent in ranges]

    return answered(plan, answer), rounds
