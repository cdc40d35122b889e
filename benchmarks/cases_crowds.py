"""Crowds of concurrent callers: many small takes, a few large ones, searches."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import lance
import numpy as np

import alance
from benchmarks.cases import Case, Opened, queries, vortex_rows
from benchmarks.measure import Waits, crowd

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    import numpy.typing as npt

CALLS: Final = 512
LARGE_CALLERS: Final = 16
COLUMN: Final = "l_extendedprice"


def crowd_of_threads(call: Callable[[Any], object], values: Iterable[Any], callers: int) -> Waits:
    """Do the work of `crowd` in threads: return how long each call waited, in seconds."""

    def wait(question: Any) -> float:
        begun = time.perf_counter()
        call(question)
        return time.perf_counter() - begun

    with ThreadPoolExecutor(callers) as pool:
        return Waits(pool.map(wait, values))


def query_vectors(opened: Opened) -> npt.NDArray[np.float32]:
    """Return the query of each call: twenty queries, repeated."""
    return np.resize(queries(opened), (CALLS, queries(opened).shape[1]))


def search_crowds(callers: int, *, remote: bool) -> Case:
    """Return the case of concurrent searches by IVF_PQ, in 20 of 128 partitions."""

    async def ours(opened: Opened) -> Waits:
        def search(query: Any) -> Awaitable[object]:
            return opened.ours.nearest("vec", query, 10, columns=["id"], nprobes=20)

        return await crowd(search, query_vectors(opened), callers)

    def theirs(opened: Opened) -> Waits:
        def search(query: Any) -> object:
            nearest = {"column": "vec", "q": query, "k": 10, "nprobes": 20}
            return opened.theirs.to_table(columns=["id", "_distance"], nearest=nearest)

        return crowd_of_threads(search, query_vectors(opened), callers)

    name = f"{callers} callers of searches"
    return Case(name, "vectors", ours, theirs, 1 / 3, remote, calls=CALLS)


def picks(opened: Opened, callers: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return ten random row numbers for each call of a crowd."""
    rng = np.random.default_rng((callers, opened.number))
    return rng.integers(0, opened.count, (calls_of(callers), 10))


def calls_of(callers: int) -> int:
    """Return the number of calls of a crowd; each caller calls at least twice."""
    return max(CALLS, 2 * callers)


def crowds(callers: int, target: float | None, *, remote: bool) -> Case:
    """Return the case of concurrent takes of ten rows of a column."""

    async def ours(opened: Opened) -> Waits:
        return await crowd(
            lambda rows: opened.ours.take(rows, [COLUMN]), picks(opened, callers), callers
        )

    def theirs(opened: Opened) -> Waits:
        return crowd_of_threads(
            lambda rows: opened.theirs.take(rows.tolist(), [COLUMN]),
            picks(opened, callers),
            callers,
        )

    def vortex(opened: Opened) -> Waits:
        return crowd_of_threads(
            lambda rows: vortex_rows(opened, opened.vortex, rows, [COLUMN]),
            picks(opened, callers),
            callers,
        )

    name = f"{callers} callers of take(10), one column"
    calls = calls_of(callers)
    return Case(
        name, "lineitem", ours, theirs, target, remote, vortex, calls=calls, is_cached=remote
    )


def cold_crowds(callers: int, target: float | None) -> Case:
    """Return the case of `crowds` on the lab, in a new session without cached metadata."""
    warm = crowds(callers, target, remote=True)
    run_vortex = warm.vortex
    assert run_vortex is not None

    async def ours(opened: Opened) -> Waits:
        async with alance.Session() as session:
            options = opened.options
            dataset = await alance.dataset(opened.uri, storage_options=options, session=session)
            waits: Waits = await warm.ours(replace(opened, ours=dataset))
            return waits

    def theirs(opened: Opened) -> Waits:
        session = lance.Session()
        dataset = lance.dataset(opened.uri, storage_options=opened.options, session=session)
        waits: Waits = warm.theirs(replace(opened, theirs=dataset))
        return waits

    def vortex(opened: Opened) -> Waits:
        waits: Waits = run_vortex(replace(opened, vortex=opened.open_vortex()))
        return waits

    name = f"{callers} callers of take(10), one column, cold"
    return replace(warm, name=name, ours=ours, theirs=theirs, vortex=vortex)


def large_crowd() -> Case:
    """Return the case of concurrent takes of ten thousand rows each, all columns."""

    def large_picks(opened: Opened) -> Any:
        rng = np.random.default_rng((16, opened.number))
        return rng.integers(0, opened.count, (LARGE_CALLERS, 10_000))

    async def ours(opened: Opened) -> Waits:
        return await crowd(opened.ours.take, large_picks(opened), LARGE_CALLERS)

    def theirs(opened: Opened) -> Waits:
        return crowd_of_threads(
            lambda rows: opened.theirs.take(rows.tolist()), large_picks(opened), LARGE_CALLERS
        )

    name = f"{LARGE_CALLERS} callers of take(10 000), all columns"
    return Case(name, "lineitem", ours, theirs, None, remote=True, calls=LARGE_CALLERS)


CROWDS: Final = [
    crowds(64, 0.5, remote=False),
    *(search_crowds(count, remote=remote) for count in (64, 256) for remote in (False, True)),
    *(crowds(count, 0.2, remote=True) for count in (64, 256, 1000)),
    *(cold_crowds(count, None) for count in (64, 256, 1000)),
    large_crowd(),
]


def section(cases: list[dict[str, Any]]) -> str:
    """Return the part of the report that compares crowds with a single caller."""
    names = ["where", "work", "alance", "pylance", "Vortex"]
    head = [f"| {' | '.join(names)} |", f"|---|---|{'---:|' * (len(names) - 2)}"]
    text = "Calls a second, and in brackets the wait in ms that 99 of 100 calls do not exceed.\n"
    return "\n".join(["## Callers at once\n", text, *head, *map(line, cases), ""])


def line(case: dict[str, Any]) -> str:
    """Return a row of its table."""
    cells = ["lab" if case["remote"] else "local", f"{case['table']}: {case['name']}"]
    for name in ("alance", "pylance", "vortex"):
        side = case["sides"].get(name)
        rate = side and f"{case['calls'] / side['ms'] * 1e3:,.0f} ({side['p99_ms']:,.0f})"
        cells.append(rate or "-")
    return f"| {' | '.join(cells)} |"
