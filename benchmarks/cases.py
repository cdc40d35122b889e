"""What is measured: each case does the same work with alance and with pylance."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import lance
import numpy as np

import alance

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


@dataclass(frozen=True)
class Opened:
    """A table open in both, and the storage options it was opened with."""

    uri: str
    ours: alance.Dataset
    theirs: lance.LanceDataset
    options: dict[str, str] | None
    count: int


@dataclass(frozen=True)
class Case:
    """One piece of work.

    Attributes:
        target: the ratio of wall times that is aimed at.
    """

    name: str
    table: str
    ours: Callable[[Opened], Awaitable[Any]]
    theirs: Callable[[Opened], Any]
    target: float
    remote: bool = False


def rows(opened: Opened, count: int) -> list[int]:
    """The same random rows in every round of a run."""
    return np.random.default_rng(count).integers(0, opened.count, count).tolist()


async def scan(opened: Opened, **options: Any) -> int:
    """All batches, dropped as they come."""
    total = 0
    async for batch in opened.ours.to_batches(**options):
        total += batch.num_rows
    return total


def their_scan(opened: Opened, **options: Any) -> int:
    """As of `scan`."""
    return sum(batch.num_rows for batch in opened.theirs.scanner(**options).to_batches())


def scans(name: str, table: str, target: float, *, remote: bool = False, **options: Any) -> Case:
    """A scan with some options."""
    return Case(
        name,
        table,
        lambda opened: scan(opened, **options),
        lambda opened: their_scan(opened, **options),
        target,
        remote,
    )


def takes(
    name: str,
    table: str,
    count: int,
    target: float,
    columns: list[str] | None = None,
    *,
    remote: bool = False,
) -> Case:
    """A take of random rows on an open handle."""
    return Case(
        name,
        table,
        lambda opened: opened.ours.take(rows(opened, count), columns),
        lambda opened: opened.theirs.take(rows(opened, count), columns),
        target,
        remote,
    )


async def cold_take(opened: Opened, count: int) -> None:
    """Open a new handle that knows nothing, and take."""
    async with alance.Session() as session:
        dataset = await alance.dataset(opened.uri, storage_options=opened.options, session=session)
        await dataset.take(rows(opened, count))


def their_cold_take(opened: Opened, count: int) -> None:
    """As of `cold_take`."""
    session = lance.Session()
    dataset = lance.dataset(opened.uri, storage_options=opened.options, session=session)
    dataset.take(rows(opened, count))


def cold(name: str, table: str, count: int, target: float, *, remote: bool = False) -> Case:
    """Open and take."""
    return Case(
        name,
        table,
        lambda opened: cold_take(opened, count),
        lambda opened: their_cold_take(opened, count),
        target,
        remote,
    )


CALLS: Final = 512


async def crowd(opened: Opened, callers: int, column: str) -> None:
    """Many callers, each taking ten rows of a column again and again."""
    wanted = np.random.default_rng(callers).integers(0, opened.count, (CALLS, 10))
    left = iter(wanted)

    async def caller() -> None:
        for picked in left:
            await opened.ours.take(picked, [column])

    await asyncio.gather(*(caller() for _ in range(callers)))


def their_crowd(opened: Opened, callers: int, column: str) -> None:
    """As of `crowd`, with threads."""
    wanted = np.random.default_rng(callers).integers(0, opened.count, (CALLS, 10))
    with ThreadPoolExecutor(callers) as pool:
        list(pool.map(lambda one: opened.theirs.take(one.tolist(), [column]), wanted))


def crowds(callers: int, target: float, *, remote: bool) -> Case:
    """Concurrent takes of ten rows."""
    return Case(
        f"{callers} callers of take(10), one column",
        "lineitem",
        lambda opened: crowd(opened, callers, "l_extendedprice"),
        lambda opened: their_crowd(opened, callers, "l_extendedprice"),
        target,
        remote,
    )


PERCENT: Final = "l_shipdate >= date '1994-01-01' AND l_shipdate < date '1994-01-26'"
THREE: Final = ["l_orderkey", "l_extendedprice", "l_shipdate"]

CASES: Final = [
    scans("scan all", "lineitem", 0.5),
    scans("scan 2 columns", "lineitem", 0.5, columns=["l_orderkey", "l_extendedprice"]),
    scans("filter 1 %, 3 columns", "lineitem", 0.4, columns=THREE, filter=PERCENT),
    takes("take 10 000, all columns", "lineitem", 10_000, 0.2),
    takes("take 10 000, one column", "lineitem", 10_000, 0.2, ["l_extendedprice"]),
    takes("take 100, all columns", "lineitem", 100, 0.4),
    takes("take 1, all columns", "lineitem", 1, 0.8),
    cold("open and take 100, new handle", "lineitem", 100, 0.6),
    crowds(64, 0.5, remote=False),
    scans("scan all", "events", 0.6),
    takes("take 100, all columns", "events", 100, 0.55),
    scans("scan all", "embeddings", 0.25),
    takes("take 100, all columns", "embeddings", 100, 0.55),
    cold("cold take 1, all columns", "lineitem", 1, 0.85, remote=True),
    cold("cold take 100, all columns", "lineitem", 100, 0.6, remote=True),
    takes("warm take 100, all columns", "lineitem", 100, 0.75, remote=True),
    takes("warm take 100, all columns", "events", 100, 0.55, remote=True),
    takes("warm take 100, all columns", "embeddings", 100, 0.55, remote=True),
    scans("scan all", "lineitem", 0.7, remote=True),
    crowds(64, 1 / 3, remote=True),
    crowds(256, 1 / 3, remote=True),
]
