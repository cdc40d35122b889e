"""How the pure half asks for bytes.

A plan is a generator: it yields the byte ranges of one round, is sent the buffers in the same
order, and returns its result. It never waits. `run` drives it over bytes in memory, `io.drive`
over a store.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

T = TypeVar("T")


class ByteRange(NamedTuple):
    """A half-open range of an object's bytes."""

    path: str  # location of the object: a store's root followed by the path under it
    start: int  # byte offset, inclusive
    stop: int  # byte offset, exclusive

    @property
    def num_bytes(self) -> int:
        return self.stop - self.start


class Pieces(NamedTuple):
    """Many ranges of one object, asked for together and answered by one buffer.

    The buffer has the bytes of all pieces, one behind the other.
    """

    path: str
    starts: npt.NDArray[np.int64]  # shape (n,), n > 0; ascending, no two pieces overlap
    stops: npt.NDArray[np.int64]  # shape (n,), exclusive

    @property
    def start(self) -> int:
        """Where the first piece begins."""
        return int(self.starts[0])

    @property
    def stop(self) -> int:
        """Where the last piece ends."""
        return int(self.stops[-1])

    @property
    def num_bytes(self) -> int:
        return int((self.stops - self.starts).sum())

    def ranges(self) -> list[ByteRange]:
        """The pieces one by one."""
        path, starts, stops = self.path, self.starts.tolist(), self.stops.tolist()
        return [ByteRange(path, *span) for span in zip(starts, stops, strict=True)]


Wanted: TypeAlias = ByteRange | Pieces
Plan: TypeAlias = Generator[Sequence[Wanted], Sequence[memoryview], T]


def cut(wanted: Wanted, content: memoryview, first: int = 0) -> memoryview:
    """The answer to a range or pieces, from an object's bytes that begin at byte `first`."""
    if isinstance(wanted, ByteRange):
        return content[wanted.start - first : wanted.stop - first]
    return memoryview(b"".join([cut(one, content, first) for one in wanted.ranges()]))


def together(plans: Sequence[Plan[T]]) -> Plan[list[T]]:
    """Drive plans in lockstep: each round asks for the ranges of all that still need bytes.

    Costs as many rounds as the longest of them. The results keep the order of `plans`.
    """
    if len(plans) == 1:
        return [(yield from plans[0])]
    results: list[T | None] = [None] * len(plans)
    waiting: list[tuple[int, Plan[T], Sequence[Wanted]]] = []
    for position, plan in enumerate(plans):
        try:
            waiting.append((position, plan, next(plan)))
        except StopIteration as done:
            results[position] = done.value
    while waiting:
        buffers = yield [wanted for _, _, ranges in waiting for wanted in ranges]
        sent = 0
        still_waiting = []
        for position, plan, ranges in waiting:
            mine = buffers[sent : sent + len(ranges)]
            sent += len(ranges)
            try:
                still_waiting.append((position, plan, plan.send(mine)))
            except StopIteration as done:
                results[position] = done.value
        waiting = still_waiting
    return results  # type: ignore[return-value]  # every plan has returned by now


def run(plan: Plan[T], content: bytes) -> tuple[T, list[Sequence[Wanted]]]:
    """Drive a plan over bytes in memory; returns its result and the ranges of each round."""
    rounds: list[Sequence[Wanted]] = []
    view = memoryview(content)
    try:
        wanted = next(plan)
        while True:
            rounds.append(wanted)
            wanted = plan.send([cut(one, view) for one in wanted])
    except StopIteration as done:
        return done.value, rounds
