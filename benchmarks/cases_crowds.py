"""Callers at once: many small takes, a few large ones, searches."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.cases import Case, Opened, queries

if TYPE_CHECKING:
    import numpy.typing as npt

CALLS: Final = 512
LARGE_CALLERS: Final = 16


def asked(opened: Opened) -> npt.NDArray[np.float32]:
    """The query of each call: twenty, again and again."""
    return np.resize(queries(opened), (CALLS, queries(opened).shape[1]))


async def search_crowd(opened: Opened, callers: int) -> None:
    """Many callers, each searching again and again."""
    calls = iter(asked(opened))

    async def caller() -> None:
        for query in calls:
            await opened.ours.nearest("vec", query, 10, columns=["id"], nprobes=20)

    await asyncio.gather(*(caller() for _ in range(callers)))


def their_search_crowd(opened: Opened, callers: int) -> None:
    """As of `search_crowd`, with threads."""

    def ask(query: npt.NDArray[np.float32]) -> None:
        nearest = {"column": "vec", "q": query, "k": 10, "nprobes": 20}
        opened.theirs.to_table(columns=["id", "_distance"], nearest=nearest)

    with ThreadPoolExecutor(callers) as pool:
        list(pool.map(ask, asked(opened)))


def search_crowds(callers: int, *, remote: bool) -> Case:
    """Searches at once by IVF_PQ, 20 of 128 partitions."""
    return Case(
        f"{callers} callers of searches",
        "vectors",
        lambda opened: search_crowd(opened, callers),
        lambda opened: their_search_crowd(opened, callers),
        1 / 3,
        remote,
    )


def picks(opened: Opened, callers: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Ten random rows for each call of a crowd."""
    calls = max(CALLS, 2 * callers)
    return np.random.default_rng((callers, opened.number)).integers(0, opened.count, (calls, 10))


async def crowd(opened: Opened, callers: int, column: str) -> None:
    """Many callers, each taking ten rows of a column again and again."""
    calls = iter(picks(opened, callers))

    async def caller() -> None:
        for picked in calls:
            await opened.ours.take(picked, [column])

    await asyncio.gather(*(caller() for _ in range(callers)))


def their_crowd(opened: Opened, callers: int, column: str) -> None:
    """As of `crowd`, with threads."""
    calls = picks(opened, callers)
    with ThreadPoolExecutor(callers) as pool:
        list(pool.map(lambda picked: opened.theirs.take(picked.tolist(), [column]), calls))


def crowds(callers: int, target: float | None, *, remote: bool) -> Case:
    """Concurrent takes of ten rows."""
    return Case(
        f"{callers} callers of take(10), one column",
        "lineitem",
        lambda opened: crowd(opened, callers, "l_extendedprice"),
        lambda opened: their_crowd(opened, callers, "l_extendedprice"),
        target,
        remote,
    )


async def large_crowd(opened: Opened) -> None:
    """Callers that take ten thousand rows each, all columns, at once."""
    picked = np.random.default_rng((16, opened.number)).integers(
        0, opened.count, (LARGE_CALLERS, 10_000)
    )
    await asyncio.gather(*(opened.ours.take(rows) for rows in picked))


def their_large_crowd(opened: Opened) -> None:
    """As of `large_crowd`, with threads."""
    picked = np.random.default_rng((16, opened.number)).integers(
        0, opened.count, (LARGE_CALLERS, 10_000)
    )
    with ThreadPoolExecutor(LARGE_CALLERS) as pool:
        list(pool.map(lambda rows: opened.theirs.take(rows.tolist()), picked))


CROWDS: Final = [
    crowds(64, 0.5, remote=False),
    *(search_crowds(count, remote=remote) for count in (64, 256) for remote in (False, True)),
    crowds(64, 1 / 3, remote=True),
    crowds(256, 1 / 3, remote=True),
    crowds(1000, 1 / 3, remote=True),
    Case(
        f"{LARGE_CALLERS} callers of take(10 000), all columns",
        "lineitem",
        large_crowd,
        their_large_crowd,
        None,
        remote=True,
    ),
]
