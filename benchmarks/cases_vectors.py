"""Indices of vectors: what building them takes, and what searches find for their time."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import lance
import numpy as np

from benchmarks.alone import measure_alone
from benchmarks.data import FOLDER, near_directions, table
from benchmarks.measure import waves
from benchmarks.sides import Ours, Theirs, opened

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from alance.testing.lab import Lab

    Vector = npt.NDArray[np.float32]

K: Final = 10
NPROBES: Final = (1, 2, 5, 10, 20, 50)
CALLS: Final = 512
CALLERS: Final = (1, 64, 256)
KINDS: Final = ("IVF_PQ", "IVF_RQ", "IVF_HNSW_SQ")
TABLES: Final = ("wide_vectors", "many_vectors")
ABOUT: Final = """\
Indices are built by processes of their own, with a partition for each thousand rows (of graphs with
four): IVF_PQ of 16 codes, IVF_RQ of one bit. Searches are for the 10 nearest of the table
`vectors`, by one IVF_PQ for both sides; recall is the share of the true 10 that is found. The
**first** search of an open table reads what the index says of itself, **others** (30, one after the
other) the partitions that are not in memory, and **again** are the same 30 once more.
"""


def run_builds(only: str, scale: float, rounds: int) -> list[dict[str, Any]]:
    """All kinds of both tables, each in processes of its own, on a copy of the table."""
    results = []
    for name, kind in itertools.product(TABLES, KINDS):
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


def truth(path: Path, queries: Sequence[Vector] | Vector) -> list[set[int]]:
    """The ids of the nearest rows of each query."""
    rows = lance.dataset(path).to_table(["id", "vec"])
    values = rows["vec"].combine_chunks().flatten().to_numpy().reshape(len(rows), -1)
    ids = rows["id"].to_numpy()
    squares = (values**2).sum(axis=1)
    return [
        set(ids[np.argpartition(squares - 2 * values @ query, K)[:K]].tolist()) for query in queries
    ]


class Alance(Ours["Vector"]):
    """Searches by alance."""

    async def ask(self, query: Vector, **asked: Any) -> set[int]:
        """The ids of the rows that are found."""
        rows = await self.dataset.nearest("vec", query, K, columns=["id"], **asked)
        return set(rows["id"].to_pylist())


class Pylance(Theirs["Vector"]):
    """Searches by pylance."""

    def find(self, query: Vector, **asked: Any) -> set[int]:
        """The ids of the rows that are found."""
        nearest = {"column": "vec", "q": query, "k": K, **asked}
        rows = self.dataset.to_table(["id", "_distance"], nearest=nearest)
        return set(rows["id"].to_pylist())

    async def ask(self, query: Vector, **asked: Any) -> set[int]:
        """The same, in a thread."""
        return await asyncio.to_thread(self.find, query, **asked)


async def measured(
    side: Alance | Pylance,
    queries: Sequence[Vector],
    right: Sequence[set[int]],
    lab: Lab | None,
    **asked: Any,
) -> dict[str, float]:
    """Means over queries, one after the other."""
    before = lab.stats()["requests"] if lab else 0
    wall, cpu = time.perf_counter(), time.process_time()
    answers = [await side.ask(query, **asked) for query in queries]
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    log = [record for record in lab.log(before) if "op" in record] if lab else []
    hits = sum(len(own & known) for own, known in zip(answers, right, strict=True))
    count = len(queries)
    return {
        "recall": hits / (K * count),
        "ms": wall / count * 1e3,
        "cpu_ms": cpu / count * 1e3,
        "requests": len(log) / count,
        "rounds": waves(log) / count,
    }


async def run_recall(lab: Lab, only: str, scale: float) -> list[dict[str, Any]]:
    """What a first search finds and costs, others behind it, and these again; of one index."""
    queries = near_directions(31, seed=8)
    path = table("vectors", scale)
    lab.rescan()
    remote = (f"s3://{FOLDER.name}/{path.name}", lab.lance_options(), lab)
    results: list[dict[str, Any]] = []
    right = truth(path, queries)
    for place, (uri, options, log) in {"local": (str(path), None, None), "lab": remote}.items():
        for refine, nprobes in itertools.product((None, 10), NPROBES):
            if only not in f"vectors recall {place} {nprobes}":
                continue
            asked: dict[str, Any] = {"nprobes": nprobes, "refine_factor": refine}
            parts = {"first": slice(0, 1), "others": slice(1, 31), "again": slice(1, 31)}
            found: dict[str, dict[str, Any]] = {when: {} for when in parts}
            async with opened(uri, options, Alance, Pylance) as sides:
                for name, side in sides.items():
                    for when, part in parts.items():
                        found[when][name] = await measured(
                            side, queries[part], right[part], log, **asked
                        )
            for when, values in found.items():
                results.append({"place": place, "when": when, **asked, "sides": values})
                print(line(results[-1]), flush=True)
    return results


async def run_crowds(lab: Lab, only: str, scale: float) -> list[dict[str, Any]]:
    """Queries a second, of callers who each wait for one after the other."""
    queries = list(near_directions(CALLS, seed=9))
    path = table("vectors", scale)
    lab.rescan()
    remote = (f"s3://{FOLDER.name}/{path.name}", lab.lance_options())
    results: list[dict[str, Any]] = []
    for place, (uri, options) in {"local": (str(path), None), "lab": remote}.items():
        for callers in CALLERS:
            if only not in f"vectors callers {place} {callers}":
                continue
            asked = queries[: CALLS if callers > 1 else CALLS // 8]
            rates: dict[str, float] = {}
            async with opened(uri, options, Alance, Pylance) as sides:
                for name, side in sides.items():
                    await side.crowd(asked, callers, nprobes=20)
                    seconds = []
                    for _ in range(3):  # the best: others use the machine, too
                        begun = time.perf_counter()
                        await side.crowd(asked, callers, nprobes=20)
                        seconds.append(time.perf_counter() - begun)
                    rates[name] = len(asked) / min(seconds)
            results.append({"place": place, "callers": callers, "sides": rates})
            print(results[-1], flush=True)
    return results


def run_vectors(lab: Lab, only: str, scale: float, rounds: int) -> dict[str, Any]:
    """All of it."""
    return {
        "builds": run_builds(only, scale, rounds),
        "recall": asyncio.run(run_recall(lab, only, scale)),
        "callers": asyncio.run(run_crowds(lab, only, scale)),
    }


def line(point: dict[str, Any]) -> str:
    """A row of the table of searches."""
    ours, theirs = point["sides"]["alance"], point["sides"]["pylance"]
    cells = [
        point["place"],
        point["when"],
        str(point["nprobes"]),
        str(point["refine_factor"] or ""),
    ]
    cells += [f"{side['recall']:.3f}" for side in (ours, theirs)]
    cells += [f"{side['ms']:.1f} ({side['cpu_ms']:.1f})" for side in (ours, theirs)]
    cells += [f"{ours['ms'] / theirs['ms']:.2f}"]
    for what in ("requests", "rounds"):
        remote = point["place"] != "local"
        cells.append(f"{ours[what]:.1f} / {theirs[what]:.1f}" if remote else "")
    return f"| {' | '.join(cells)} |"


def section(results: dict[str, Any]) -> str:
    """A part of the report."""
    parts = ["## Vectors\n", ABOUT]
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
    names = ["where", "search", "nprobes", "refined", "recall", "pylance", "alance ms (cpu)",
             "pylance ms (cpu)", "ratio", "requests", "rounds"]  # fmt: skip
    if results["recall"]:
        parts += [f"\n| {' | '.join(names)} |", f"|{'---|' * 2}{'---:|' * (len(names) - 2)}"]
    parts += map(line, results["recall"])
    if results["callers"]:
        parts += ["\n| where | callers | alance queries/s | pylance queries/s | ratio |",
                  "|---|---:|---:|---:|---:|"]  # fmt: skip
    for crowd in results["callers"]:
        ours, theirs = crowd["sides"]["alance"], crowd["sides"]["pylance"]
        cells = [crowd["place"], str(crowd["callers"]), f"{ours:,.0f}", f"{theirs:,.0f}"]
        parts.append(f"| {' | '.join([*cells, f'{ours / theirs:.1f}'])} |")
    return "\n".join([*parts, ""])
