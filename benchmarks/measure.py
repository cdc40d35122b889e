"""Measurement of a case: all sides in turn, round by round, with the requests to the lab."""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from alance.testing.lab import Lab
    from benchmarks.cases import Case, Opened
    from benchmarks.peer import Peer


class Waits(list[float]):
    """Seconds that each call of a crowd waited: the result of a case of many callers."""

    def quantile(self, share: float) -> float:
        """Return the wait that a share of the calls does not exceed."""
        return sorted(self)[min(len(self) - 1, int(share * len(self)))]


async def crowd(
    call: Callable[[Any], Awaitable[object]], values: Iterable[Any], callers: int
) -> Waits:
    """Make all calls by `callers` concurrent callers; return how long each call waited."""
    remaining, waits = iter(values), Waits()

    async def caller() -> None:
        for question in remaining:
            begun = time.perf_counter()
            await call(question)
            waits.append(time.perf_counter() - begun)

    await asyncio.gather(*(caller() for _ in range(callers)))
    return waits


@dataclass(frozen=True)
class Turn:
    """Measurements of one round of one side.

    Attributes:
        wall, cpu: seconds of the round by the clock, and of processor time of all threads.
        rows: number of returned rows; None if the work returns none.
        p99: seconds that 99 of 100 calls do not exceed; None without a crowd.
    """

    wall: float
    cpu: float
    rows: int | None
    p99: float | None

    @classmethod
    def ended(cls, begun: tuple[float, float], result: Any) -> Turn:
        """Return the measurements of a round that ends now, given the result of its work."""
        rows = result if isinstance(result, int) else getattr(result, "num_rows", None)
        p99 = result.quantile(0.99) if isinstance(result, Waits) else None
        wall, cpu = begun
        return cls(time.perf_counter() - wall, time.process_time() - cpu, rows, p99)


def timed(work: Callable[[], Any]) -> Turn:
    """Measure work that blocks."""
    begun = time.perf_counter(), time.process_time()
    return Turn.ended(begun, work())


async def timed_task(work: Awaitable[Any]) -> Turn:
    """Measure work that is awaited."""
    begun = time.perf_counter(), time.process_time()
    return Turn.ended(begun, await work)


@dataclass
class Side:
    """Measurements of one side, round by round."""

    turns: list[Turn] = field(default_factory=list)
    requests: int = 0
    rounds: int = 0
    megabytes: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return medians in milliseconds; requests, rounds and megabytes of the last round."""
        figures = {
            "ms": statistics.median(turn.wall for turn in self.turns) * 1e3,
            "cpu_ms": statistics.median(turn.cpu for turn in self.turns) * 1e3,
            "requests": self.requests,
            "rounds": self.rounds,
            "megabytes": self.megabytes,
        }
        if waits := [turn.p99 for turn in self.turns if turn.p99 is not None]:
            figures["p99_ms"] = statistics.median(waits) * 1e3
        return figures


@dataclass(frozen=True)
class Measured:
    """Measurements of all sides of a case.

    Attributes:
        pylance: measurements by the number of pylance's threads.
        vortex: None if Vortex does not support the work.
    """

    alance: Side
    pylance: dict[int, Side]
    vortex: Side | None

    def as_json(self) -> dict[str, Any]:
        """Return the measurements of all sides; those of pylance with the faster number of threads.

        The measurements with other numbers of threads are returned separately.
        """
        by_threads = {threads: side.as_json() for threads, side in self.pylance.items()}
        best = min(by_threads, key=lambda threads: float(by_threads[threads]["ms"]))
        sides = {
            "alance": self.alance.as_json(),
            "pylance": {**by_threads.pop(best), "threads": best},
        }
        if self.vortex is not None:
            sides["vortex"] = self.vortex.as_json()
        return {"sides": sides, "other_threads": by_threads}


def waves(records: Sequence[dict[str, Any]]) -> int:
    """Count waves of requests: each wave begins when all requests before it have ended.

    A request that its client dropped has no end, and does not delay the next wave.
    """
    count, end = 0, float("-inf")
    for record in sorted(records, key=lambda record: record["t0"]):
        count += record["t0"] >= end
        end = max(end, record.get("t2", record["t0"]))
    return count


async def measure(
    case: Case, opened: Opened, lab: Lab, rounds: int, peers: Sequence[Peer]
) -> Measured:
    """Measure all sides in turn, in another order each round; the first round is not counted.

    After the first round all objects are frozen. Otherwise the cycle collector would examine the
    modules of all sides, in the turn of the side that happens to fill a generation.
    """
    works: dict[str | int, Callable[[Opened], Awaitable[Turn]]] = {
        "alance": lambda turned: timed_task(case.ours(turned))
    }
    for peer in peers:
        works[peer.threads] = lambda turned, peer=peer: asyncio.to_thread(peer.run, case, turned)
    if case.vortex is not None:
        run_vortex = case.vortex
        works["vortex"] = lambda turned: asyncio.to_thread(timed, lambda: run_vortex(turned))
    names = list(works)
    sides = {name: Side() for name in names}
    counts: set[int | None] = set()  # numbers of rows that sides returned
    for number in range(rounds + 1):
        turned = replace(opened, number=number)
        if number == 1:
            gc.collect()
            gc.freeze()
        first = number % len(names)
        for name in names[first:] + names[:first]:
            side = sides[name]
            before = lab.stats()["requests"] if case.remote else 0
            turn = await works[name](turned)
            if case.remote:
                log = [record for record in lab.log(before) if "op" in record]
                side.requests, side.rounds = len(log), waves(log)
                side.megabytes = sum(record.get("out", 0) for record in log) / 1e6
            counts.add(turn.rows)
            if number:
                side.turns.append(turn)
    gc.unfreeze()
    if len(counts) > 1:
        raise RuntimeError(f"{case.label}: the sides gave {counts} rows")
    pylance = {peer.threads: sides[peer.threads] for peer in peers}
    return Measured(sides["alance"], pylance, sides.get("vortex"))
