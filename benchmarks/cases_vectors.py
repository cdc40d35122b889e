"""Indices of vectors: the cost of building them, and the recall of searches for their time."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.alone import measure_alone
from benchmarks.data import near_directions, table
from benchmarks.measure import waves
from benchmarks.searchers import SIDES, K, dimension, searchers, truth

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.testing.lab import Lab
    from benchmarks.searchers import Searcher, Vectors

NPROBES: Final = (1, 2, 5, 10, 20, 50)
CALLS: Final = 512
CALLERS: Final = (1, 64, 256)
KINDS: Final = ("IVF_PQ", "IVF_RQ", "IVF_HNSW_SQ")
BUILT: Final = ("wide_vectors", "many_vectors")
# Tables to search, each with the numbers of partitions to probe.
SEARCHED: Final = {"vectors": NPROBES, "many_searched": (10, 50), "wide_searched": (10, 50)}
ABOUT: Final = """\
Indices are built by processes of their own, with a partition for each thousand rows (of graphs with
four): IVF_PQ of 16 codes, IVF_RQ of one bit. Searches are for the 10 nearest of 100 000 x 128
(`vectors`), 1 000 000 x 128 (`many_searched`) and 100 000 x 768 floats (`wide_searched`), by one
IVF_PQ of pylance for all that read tables; recall is the share of the true 10 that is found. The
**first** search of an open table reads what the index says of itself, **others** (30, one after the
other) the partitions that are not in memory, and **again** are the same 30 once more. LanceDB reads
the same table by its `await`-based API. Faiss has the vectors and an IVF_PQ of the same numbers in
memory, and neither a table nor a file: what a search can take.
"""


def run_builds(only: str, scale: float, rounds: int) -> list[dict[str, Any]]:
    """Build all kinds of indices of both tables, each on a copy and in a process of its own."""
    results = []
    for name, kind in itertools.product(BUILT, KINDS):
        if only not in f"vectors build {name} {kind}":
            continue
        with tempfile.TemporaryDirectory(dir=table(name, scale).parent) as folder:
            sides = {}
            for side in ("alance", "pylance"):
                path = Path(folder) / side
                shutil.copytree(table(name, scale), path, copy_function=os.link)
                sides[side] = measure_alone(side, f"index {kind}", str(path), rounds)
        results.append({"table": name, "kind": kind, "sides": sides})
        print(results[-1], flush=True)
    return results


def places(lab: Lab) -> dict[str, Lab | None]:
    """Return the places from which tables are read, each with the lab that records requests."""
    return {"local": None, "lab": lab}


async def measured(
    side: Searcher,
    queries: Vectors,
    right: Sequence[set[int]],
    lab: Lab | None,
    **options: Any,
) -> dict[str, float]:
    """Run queries one after the other; return means."""
    before = lab.stats()["requests"] if lab else 0
    wall, cpu = time.perf_counter(), time.process_time()
    answers = [await side.ask(query, **options) for query in queries]
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    log = [record for record in lab.log(before) if "op" in record] if lab else []
    hits = sum(len(own & nearest) for own, nearest in zip(answers, right, strict=True))
    count = len(queries)
    return {
        "recall": hits / (K * count),
        "ms": wall / count * 1e3,
        "cpu_ms": cpu / count * 1e3,
        "requests": len(log) / count,
        "rounds": waves(log) / count,
    }


async def run_recall(lab: Lab, only: str, scale: float) -> list[dict[str, Any]]:
    """Measure recall and cost of a first search, of others after it, and of these again."""
    results: list[dict[str, Any]] = []
    for name, (place, log) in itertools.product(SEARCHED, places(lab).items()):
        if only not in f"vectors recall {name} {place}":
            continue
        path = table(name, scale)
        lab.rescan()
        queries = near_directions(31, seed=8, dim=dimension(path))
        right = truth(path, queries)
        for refine, nprobes in itertools.product((None, 10), SEARCHED[name]):
            options: dict[str, Any] = {"nprobes": nprobes, "refine_factor": refine}
            results += await _searches(name, path, place, log, queries, right, options)
    return results


async def _searches(
    name: str,
    path: Path,
    place: str,
    lab: Lab | None,
    queries: Vectors,
    right: Sequence[set[int]],
    options: dict[str, Any],
) -> list[dict[str, Any]]:
    """Return the rows of a table for a number of partitions: first searches, others, and again."""
    parts = {"first": slice(0, 1), "others": slice(1, 31), "again": slice(1, 31)}
    values: dict[str, dict[str, Any]] = {when: {} for when in parts}
    async with searchers(path, lab) as sides:
        for side, searcher in sides.items():
            for when, part in parts.items():
                values[when][side] = await measured(
                    searcher, queries[part], right[part], lab, **options
                )
    rows = [
        {"table": name, "place": place, "when": when, **options, "sides": values[when]}
        for when in parts
    ]
    print(*map(line, rows), sep="\n", flush=True)
    return rows


async def run_crowds(lab: Lab, only: str, scale: float) -> list[dict[str, Any]]:
    """Measure queries per second of concurrent callers; each runs one query after the other."""
    results: list[dict[str, Any]] = []
    for name, (place, log), callers in itertools.product(SEARCHED, places(lab).items(), CALLERS):
        if only not in f"vectors callers {name} {place} {callers}":
            continue
        path = table(name, scale)
        lab.rescan()
        queries = near_directions(CALLS, seed=9, dim=dimension(path))
        chosen_queries = list(queries[: CALLS if callers > 1 else CALLS // 8])
        rates: dict[str, float] = {}
        async with searchers(path, log) as sides:
            for side, searcher in sides.items():
                await searcher.crowd(chosen_queries, callers, nprobes=20)
                seconds = []
                for _ in range(3):  # the best: others use the machine, too
                    begun = time.perf_counter()
                    await searcher.crowd(chosen_queries, callers, nprobes=20)
                    seconds.append(time.perf_counter() - begun)
                rates[side] = len(chosen_queries) / min(seconds)
        results.append({"table": name, "place": place, "callers": callers, "sides": rates})
        print(results[-1], flush=True)
    return results


def run_vectors(lab: Lab, only: str, scale: float, rounds: int) -> dict[str, Any]:
    """Run all measurements of vectors."""
    return {
        "builds": run_builds(only, scale, rounds),
        "recall": asyncio.run(run_recall(lab, only, scale)),
        "callers": asyncio.run(run_crowds(lab, only, scale)),
    }


def line(point: dict[str, Any]) -> str:
    """Return a row of the table of searches."""
    sides = point["sides"]
    ours, theirs = sides["alance"], sides["pylance"]
    cells = [point["table"], point["place"], point["when"], str(point["nprobes"])]
    cells.append(str(point["refine_factor"] or ""))
    cells += [_cell(sides, name, "recall", ".3f") for name in SIDES]
    cells += [
        f"{_cell(sides, name, 'ms', '.1f')} ({_cell(sides, name, 'cpu_ms', '.1f')})"
        if name in sides
        else ""
        for name in SIDES
    ]
    cells.append(f"{ours['ms'] / theirs['ms']:.2f}")
    for what in ("requests", "rounds"):
        numbers = " / ".join(_cell(sides, name, what, ".1f") for name in SIDES if name in sides)
        cells.append(numbers if point["place"] != "local" else "")
    return f"| {' | '.join(cells)} |"


def _cell(sides: dict[str, dict[str, float]], name: str, what: str, form: str) -> str:
    return format(sides[name][what], form) if name in sides else ""


def section(results: dict[str, Any]) -> str:
    """Return the part of the report about vectors."""
    parts = ["## Vectors\n", ABOUT]
    if results["recall"]:
        parts.append("![Recall against time and requests, of the table `vectors`](recall.svg)\n")
    if results["builds"]:
        parts += ["| table | index | alance s (cpu) | pylance s (cpu) | ratio | peak MB |",
                  "|---|---|---:|---:|---:|---:|"]  # fmt: skip
    for built in results["builds"]:
        ours, theirs = built["sides"]["alance"], built["sides"]["pylance"]
        cells = [built["table"], built["kind"]]
        cells += [f"{side['ms'] / 1e3:.1f} ({side['cpu_ms'] / 1e3:.1f})" for side in (ours, theirs)]
        cells += [f"{ours['ms'] / theirs['ms']:.2f}"]
        cells += [f"{ours['megabytes']:.0f} / {theirs['megabytes']:.0f}"]
        parts.append(f"| {' | '.join(cells)} |")
    names = ["table", "where", "search", "nprobes", "refined"]
    names += ["recall", *SIDES[1:], *(f"{side} ms (cpu)" for side in SIDES)]
    names += ["ratio", "requests", "rounds"]
    if results["recall"]:
        parts += [f"\n| {' | '.join(names)} |", f"|{'---|' * 3}{'---:|' * (len(names) - 3)}"]
    parts += map(line, results["recall"])
    if results["callers"]:
        names = ["table", "where", "callers", *(f"{side} queries/s" for side in SIDES), "ratio"]
        parts += [f"\n| {' | '.join(names)} |", f"|---|---|{'---:|' * (len(names) - 2)}"]
    for crowd in results["callers"]:
        rates = crowd["sides"]
        cells = [crowd["table"], crowd["place"], str(crowd["callers"])]
        cells += [f"{rates[side]:,.0f}" if side in rates else "" for side in SIDES]
        cells.append(f"{rates['alance'] / rates['pylance']:.1f}")
        parts.append(f"| {' | '.join(cells)} |")
    return "\n".join([*parts, ""])
