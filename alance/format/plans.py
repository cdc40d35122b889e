"""How the pure half asks for bytes.

A plan is a generator. It yields the byte ranges of one round, is sent their buffers in the same
order, and returns its result. It never waits, so the same plan runs over a store, over bytes in
memory, and in a dry run. If it consists of many parts, it takes long between rounds; at a `TURN`
its driver can leave it for a while and let the event loop run.

`step` advances a plan, and all drivers are made of it: `answered` over bytes in memory, `through`
inside another plan, `together` for many in lockstep, `io.reading.drive` over a store.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, NoReturn, TypeAlias, TypeVar

from alance.format.coalesce import coalesce
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from alance import _kernels
    from alance.arrays import Int64s

T = TypeVar("T")


class ByteRange(NamedTuple):
    """A half-open range of an object's bytes."""

    path: str  # location of the object: a store's root followed by the path under it
    start: int  # byte offset, inclusive
    stop: int  # byte offset, exclusive

    @property
    def num_bytes(self) -> int:
        return self.stop - self.start


def joined_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same bytes or rows in ascending spans, that neither touch nor overlap."""
    return coalesce([*spans], 0).spans


class Pieces(NamedTuple):
    """Many ranges of objects, asked for together and answered by one buffer.

    The buffer has the bytes of all pieces, one behind the other.
    """

    paths: Sequence[str]  # of the objects; not empty
    ends: Sequence[int]  # where the pieces of each object end, in `starts` and `stops`
    starts: Int64s  # shape (n,), n > 0; of an object ascending, none overlap
    stops: Int64s  # shape (n,), exclusive
    num_bytes: int

    @classmethod
    def of(cls, path: str, starts: Int64s, stops: Int64s) -> Pieces:
        """Pieces of one object."""
        return cls((path,), (len(starts),), starts, stops, int((stops - starts).sum()))

    @property
    def path(self) -> str:
        """The object, of pieces of one."""
        (path,) = self.paths
        return path

    @property
    def start(self) -> int:
        """Where the first piece begins, of pieces of one object."""
        return int(self.starts[0])

    @property
    def stop(self) -> int:
        """Where the last piece ends, of pieces of one object."""
        return int(self.stops[-1])

    def bytes_over(self, gap: int) -> int:
        """Bytes of the pieces, and of gaps between neighbours of up to so many."""
        gaps = self.starts[1:] - self.stops[:-1]
        gaps[[end - 1 for end in self.ends[:-1]]] = 0  # from one object to the next
        return self.num_bytes + int(gaps[(gaps > 0) & (gaps <= gap)].sum())

    def split(self, most: int) -> list[Pieces]:
        """The same as pieces of at most so many objects each, in order."""
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
        """The pieces one by one."""
        starts, stops = self.starts.tolist(), self.stops.tolist()
        if len(self.paths) == 1:
            paths = [*self.paths] * len(starts)
        else:
            counts = zip(self.paths, pairwise([0, *self.ends]), strict=True)
            paths = [path for path, (first, end) in counts for _ in range(first, end)]
        return list(map(ByteRange, paths, starts, stops))


Extent: TypeAlias = ByteRange | Pieces
Plan: TypeAlias = Generator[Sequence[Extent], Sequence[memoryview], T]
# Gives what brings bytes of objects to the kernel that decodes them, in the thread that does: for
# paths of objects, and for traces the pieces that will be read.
Reader: TypeAlias = (
    "Callable[[Sequence[str], Callable[[], Pieces]], AbstractContextManager[_kernels.Source]]"
)


def cut(extent: Extent, content: memoryview, first: int = 0) -> memoryview:
    """The answer to a range or pieces, from an object's bytes that begin at byte `first`."""
    if isinstance(extent, ByteRange):
        return content[extent.start - first : extent.stop - first]
    return memoryview(b"".join([cut(part, content, first) for part in extent.ranges()]))


class Turn(tuple[Extent, ...]):
    """What a plan asks for that has worked for long: nothing, but that others may run first."""

    __slots__ = ()


TURN: Final = Turn()
PLANS_A_TURN: Final = 16  # of many that go on together: a few milliseconds of work


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """The end of a plan."""

    result: T


def step(plan: Plan[T], buffers: Sequence[memoryview] | None = None) -> Sequence[Extent] | Done[T]:
    """Go on with a plan: what it asks for next, or its end.

    Args:
        buffers: the answer to what it asked for last; None: it has not begun.
    """
    try:
        return plan.send(buffers)  # type: ignore[arg-type]  # None begins a generator
    except StopIteration as done:
        return Done(done.value)


class NotAtHand(Exception):
    """Bytes that a plan asks for are not at hand."""


def answered(plan: Plan[T], answer: Callable[[Sequence[Extent]], Sequence[memoryview]]) -> T:
    """The result of a plan whose bytes are at hand; the plan is closed however this ends.

    Args:
        answer: gives the buffers of a round; what it raises (`NotAtHand`) ends this.
    """
    try:
        asked = step(plan)
        while not isinstance(asked, Done):
            asked = step(plan, () if asked is TURN else answer(asked))
        return asked.result
    finally:
        plan.close()


def through(
    plan: Plan[T], answer: Callable[[Sequence[Extent]], Plan[Sequence[memoryview]]]
) -> Plan[T]:
    """The same plan, each round of which is answered by a plan; its turns stay turns."""
    try:
        asked = step(plan)
        while not isinstance(asked, Done):
            if asked is TURN:
                yield TURN
                asked = step(plan, ())
            else:
                asked = step(plan, (yield from answer(asked)))
        return asked.result
    finally:
        plan.close()


def all_read(paths: Sequence[str], pieces: Callable[[], Pieces]) -> NoReturn:
    """The reader of what has been read before."""
    raise AssertionError(f"{pieces().num_bytes} bytes are still to be read")


def together(plans: Sequence[Plan[T]]) -> Plan[list[T]]:
    """Drive plans in lockstep: each round asks for the ranges of all that still need bytes.

    Costs as many rounds as the longest of them. The results keep the order of `plans`. Between some
    plans and the next ones there is a turn for others.
    """
    if len(plans) == 1:
        return [(yield from plans[0])]
    asked: list[Sequence[Extent] | Done[T]] = []
    for number, plan in enumerate(plans, 1):
        ranges = step(plan)
        if ranges is TURN:
            ranges = yield from _after_turn(plan)
        asked.append(ranges)
        if number % PLANS_A_TURN == 0:
            yield TURN
    while waiting := [
        (number, ranges) for number, ranges in enumerate(asked) if not isinstance(ranges, Done)
    ]:
        buffers = yield [extent for _, ranges in waiting for extent in ranges]
        sent = 0
        for count, (number, ranges) in enumerate(waiting, 1):
            stop = sent + len(ranges)
            ranges = step(plans[number], buffers[sent:stop])
            if ranges is TURN:
                ranges = yield from _after_turn(plans[number])
            asked[number] = ranges
            sent = stop
            if count % PLANS_A_TURN == 0:
                yield TURN
    return [end.result for end in asked if isinstance(end, Done)]


def _after_turn(plan: Plan[T]) -> Plan[Sequence[Extent] | Done[T]]:
    """What a plan that gives others a turn asks the store for, after its turns are passed on."""
    asked: Sequence[Extent] | Done[T] = TURN
    while asked is TURN:
        yield TURN
        asked = step(plan, ())
    return asked


def run(plan: Plan[T], content: bytes) -> tuple[T, list[Sequence[Extent]]]:
    """Drive a plan over bytes in memory; returns its result and the ranges of each round."""
    rounds: list[Sequence[Extent]] = []
    view = memoryview(content)

    def answer(ranges: Sequence[Extent]) -> Sequence[memoryview]:
        rounds.append(ranges)
        return [cut(extent, view) for extent in ranges]

    return answered(plan, answer), rounds
