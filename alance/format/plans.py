"""How the pure half asks for bytes.

A plan is a generator: it yields the byte ranges of one round, is sent the buffers in the same
order, and returns its result. It never waits. `run` drives it over bytes in memory, `io.drive`
over a store.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")


class ByteRange(NamedTuple):
    """A half-open range of an object's bytes."""

    path: str  # location of the object: a store's root followed by the path under it
    start: int  # byte offset, inclusive
    stop: int  # byte offset, exclusive

    @property
    def num_bytes(self) -> int:
        return self.stop - self.start


Plan: TypeAlias = Generator[Sequence[ByteRange], Sequence[memoryview], T]


def together(plans: Sequence[Plan[T]]) -> Plan[list[T]]:
    """Drive plans in lockstep: each round asks for the ranges of all that still need bytes.

    Costs as many rounds as the longest of them. The results keep the order of `plans`.
    """
    results: list[T | None] = [None] * len(plans)
    waiting: list[tuple[int, Plan[T], Sequence[ByteRange]]] = []
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


def run(plan: Plan[T], content: bytes) -> tuple[T, list[Sequence[ByteRange]]]:
    """Drive a plan over bytes in memory; returns its result and the ranges of each round."""
    rounds: list[Sequence[ByteRange]] = []
    view = memoryview(content)
    try:
        wanted = next(plan)
        while True:
            rounds.append(wanted)
            wanted = plan.send([view[r.start : r.stop] for r in wanted])
    except StopIteration as done:
        return done.value, rounds
