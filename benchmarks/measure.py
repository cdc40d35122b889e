"""Measuring a case: all sides in turn, round by round, and what the lab saw of each."""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from alance.testing.lab import Lab
    from benchmarks.cases import Case, Opened


@dataclass
class Side:
    """What one side took, round by round."""

    wall: list[float] = field(default_factory=list)  # seconds
    cpu: list[float] = field(default_factory=list)
    requests: int = 0
    rounds: int = 0
    megabytes: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Medians in milliseconds; requests, rounds and megabytes of the last round."""
        return {
            "ms": statistics.median(self.wall) * 1e3,
            "cpu_ms": statistics.median(self.cpu) * 1e3,
            "requests": self.requests,
            "rounds": self.rounds,
            "megabytes": self.megabytes,
        }


def waves(records: Sequence[dict[str, Any]]) -> int:
    """Requests one after the other: each wave begins when all before have ended.

    A request that its client dropped has no end, and keeps none waiting.
    """
    count, end = 0, float("-inf")
    for record in sorted(records, key=lambda record: record["t0"]):
        count += record["t0"] >= end
        end = max(end, record.get("t2", record["t0"]))
    return count


async def measure(case: Case, opened: Opened, lab: Lab, rounds: int) -> dict[str, Side]:
    """The sides by name. They take turns, in another order each round; the first is not counted.

    What stands after the first round is not looked at by the collector of cycles: the modules of
    all sides would be, in the turn of the one that happens to fill a generation.
    """
    works: dict[str, Callable[[], Awaitable[Any]]] = {
        "alance": lambda: case.ours(turned),
        "pylance": lambda: asyncio.to_thread(case.theirs, turned),
    }
    if case.vortex is not None:
        run_vortex = case.vortex
        works["vortex"] = lambda: asyncio.to_thread(run_vortex, turned)
    names = list(works)
    sides = {name: Side() for name in names}
    turned = opened
    counts: set[int | None] = set()  # rows that a side gave
    for number in range(rounds + 1):
        turned = replace(opened, number=number)
        if number == 1:
            gc.collect()
            gc.freeze()
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            side = sides[name]
            before = lab.stats()["requests"] if case.remote else 0
            wall, cpu = time.perf_counter(), time.process_time()
            result = await works[name]()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if case.remote:
                log = [one for one in lab.log(before) if "op" in one]
                side.requests, side.rounds = len(log), waves(log)
                side.megabytes = sum(one.get("out", 0) for one in log) / 1e6
            counts.add(result if isinstance(result, int) else getattr(result, "num_rows", None))
            if number:
                side.wall.append(wall)
                side.cpu.append(cpu)
    gc.unfreeze()
    if len(counts) > 1:
        raise RuntimeError(f"{case.label}: the sides gave {counts} rows")
    return sides
