"""Time that callbacks block the event loop while many callers work; the other sides have no loop.

`Stalls` times each callback of the loop; a turn is the run of one callback.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import alance
from alance.testing.stalls import Stalls
from benchmarks.cases_small import BATCH_ROWS, PRODUCERS, produced
from benchmarks.data import FOLDER, table

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from alance.testing.lab import Lab

TARGET_MS: Final = 10


@dataclass(frozen=True)
class Place:
    """Place of the work: the URI of a table, or of a folder for new tables."""

    uri: str
    options: dict[str, str] | None

    async def opened(self, session: alance.Session) -> alance.Dataset:
        """Open the table."""
        return await alance.dataset(self.uri, storage_options=self.options, session=session)


@dataclass(frozen=True)
class Crowd:
    """Many callers of one session.

    Attributes:
        table: name of the table to read; None: the work writes a new table.
    """

    name: str
    table: str | None
    run: Callable[[Place, alance.Session], Awaitable[object]]


async def scans(place: Place, session: alance.Session) -> None:
    """Run sixty-four scans of two columns."""
    dataset = await place.opened(session)

    async def scan() -> None:
        async for _ in dataset.to_batches(["l_orderkey", "l_extendedprice"]):
            pass

    await asyncio.gather(*(scan() for _ in range(64)))


async def wide_opens(place: Place, session: alance.Session) -> None:
    """Open the table in sixteen new sessions, and take a row of all columns in each."""

    async def open_row(row: int) -> None:
        async with alance.Session() as own:
            dataset = await place.opened(own)
            await dataset.take([row])

    await asyncio.gather(*(open_row(row) for row in range(16)))


async def large_takes(place: Place, session: alance.Session) -> None:
    """Run sixteen takes of ten thousand rows, all columns."""
    dataset = await place.opened(session)
    count = await dataset.count_rows()
    picked = np.random.default_rng(16).integers(0, count, (16, 10_000))
    await asyncio.gather(*map(dataset.take, picked))


async def producers(place: Place, session: alance.Session) -> None:
    """Write small batches from several producers."""
    options = {"storage_options": place.options, "session": session}
    await produced(place.uri, PRODUCERS, 12_800, **options)


CROWDS: Final = (
    Crowd("64 scans of 2 columns", "lineitem", scans),
    Crowd("16 new sessions take a row of 2 000 columns", "wide", wide_opens),
    Crowd("16 takes of 10 000 rows", "lineitem", large_takes),
    Crowd(f"{PRODUCERS} producers of batches of {BATCH_ROWS} rows", None, producers),
)


async def run_loop(lab: Lab, only: str, scale: float) -> list[dict[str, Any]]:
    """Measure all crowds that `only` selects, and print each when it ends.

    Each crowd runs once before it is measured.
    """
    results = []
    for crowd in CROWDS:
        for where in ("local", "lab"):
            if only in f"loop {where} {crowd.name}":
                stalls = await measure_crowd(crowd, where, lab, scale)
                result = {
                    "name": crowd.name,
                    "where": where,
                    "turns": len(stalls.spent),
                    "p999_ms": stalls.quantile(0.999) * 1e3,
                    "longest_ms": stalls.longest_callback * 1e3,
                }
                results.append(result)
                print(line(result), flush=True)
    return results


async def measure_crowd(crowd: Crowd, where: str, lab: Lab, scale: float) -> Stalls:
    """Return the turns of the second run."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="loop-", dir=FOLDER))
    try:
        for number in range(2):
            path = table(crowd.table, scale) if crowd.table else folder / f"{number}.lance"
            place = Place(str(path), None)
            if where == "lab":
                lab.rescan()
                key = path.relative_to(FOLDER)
                place = Place(f"s3://{FOLDER.name}/{key}", lab.lance_options())
            async with alance.Session() as session, Stalls() as stalls:
                await crowd.run(place, session)
        return stalls
    finally:
        shutil.rmtree(folder)


def line(result: dict[str, Any]) -> str:
    """Return a row of the table."""
    cells = [result["where"], result["name"], f"{result['turns']:,d}"]
    cells += [f"{result['p999_ms']:.1f}", f"{result['longest_ms']:.1f}"]
    return f"| {' | '.join(cells)} |"


def section(results: list[dict[str, Any]]) -> str:
    """Return the part of the report about the event loop."""
    names = ["where", "crowd", "turns", "ms of 999 of 1 000", "longest ms"]
    head = [f"| {' | '.join(names)} |", f"|---|---|{'---:|' * (len(names) - 2)}"]
    text = (
        "How long single turns of the event loop were while many callers worked: without the "
        "time that the process waited for a processor, and without the cycle collector. Less than "
        f"{TARGET_MS} ms are aimed at.\n"
    )
    return "\n".join(["## The event loop\n", text, *head, *map(line, results), ""])
