"""Changes of existing tables: rows, compaction, many fragments and versions.

In each round, both sides in turn change a copy of the table, which consists of links to its files.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import lance
import pyarrow as pa
from lance.optimize import Compaction

import alance
from benchmarks.data import FOLDER, table

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from alance.testing.lab import Lab

PERCENT: Final = "l_shipdate >= date '1994-01-01' AND l_shipdate < date '1994-01-26'"
KEYS: Final = ["l_orderkey", "l_linenumber"]
PRODUCT: Final = {"product": "l_quantity * l_linenumber"}
SPREAD: Final = [997 * number for number in range(100)]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a table, made by both sides.

    Attributes:
        source: returns the path of the table at a scale; writes the table if it does not exist.
        ours, theirs: make the change, given the table's URI, the data and storage options.
        data: returns the data that both sides get; called once.
        target: intended ratio of wall times.
    """

    name: str
    source: Callable[[float], Path]
    ours: Callable[[str, Any, Any], Awaitable[object]]
    theirs: Callable[[str, Any, Any], object]
    data: Callable[[Path], Any] = lambda _: None
    target: float = 1.0
    is_remote: bool = False


def lineitem(scale: float) -> Path:
    return table("lineitem", scale)


def small_fragments(scale: float) -> Path:
    """Return the path of a table of a thousand fragments of a thousand rows."""
    path = FOLDER / f"fragments-{scale:g}.lance"
    if not path.exists():
        rows = lance.dataset(lineitem(scale)).head(int(1_000_000 * min(scale, 1.0)))
        lance.write_dataset(rows, path, max_rows_per_file=1000)
    return path


def many_versions(scale: float) -> Path:
    """Return the path of a table with ten thousand fragments in the last of a thousand versions."""
    path = FOLDER / f"versions-{scale:g}.lance"
    if not path.exists():
        dataset = lance.write_dataset(pa.table({"x": [0]}), path)
        for number in range(int(998 * min(scale, 1.0))):
            dataset.update_config({"number": str(number)})
        fragments = int(10_000 * min(scale, 1.0))
        rows = pa.table({"x": range(10 * fragments)})
        lance.write_dataset(rows, path, mode="overwrite", max_rows_per_file=10)
    return path


def hundred_versions(_: float) -> Path:
    """Return the path of a table with a hundred versions."""
    path = FOLDER / "hundred.lance"
    if not path.exists():
        for number in range(100):
            mode = "append" if number else "create"
            lance.write_dataset(pa.table({"x": [number]}), path, mode=mode)
    return path


def wide(_: float) -> Path:
    """Return the path of a table with a row of two thousand columns."""
    path = FOLDER / "wide.lance"
    if not path.exists():
        kinds = [pa.int32(), pa.float64(), pa.string(), pa.list_(pa.int64())]
        columns = {f"c{number}": pa.nulls(1, kinds[number % 4]) for number in range(2000)}
        lance.write_dataset(pa.table(columns), path)
    return path


def percent_of_rows(path: Path) -> pa.Table:
    """Return every hundredth row, with another comment."""
    dataset = lance.dataset(path)
    rows = dataset.take(range(0, dataset.count_rows(), 100))
    at = rows.schema.get_field_index("l_comment")
    return rows.set_column(at, rows.schema.field(at), pa.array(["another"] * len(rows)))


async def _with_alance(uri: str, options: Any, work: Callable[[Any], Awaitable[object]]) -> None:
    async with alance.Session() as session:
        await work(await alance.dataset(uri, storage_options=options, session=session))


async def _schema(dataset: alance.Dataset) -> pa.Schema:
    return dataset.schema


def _opened(uri: str, options: Any) -> lance.LanceDataset:
    return lance.dataset(uri, storage_options=options, session=lance.Session())


def upsert(builder: Any) -> Any:
    return builder.when_matched_update_all().when_not_matched_insert_all()


CHANGES: Final = [
    Change(
        "delete 1 % of lineitem",
        lineitem,
        lambda uri, _, options: _with_alance(uri, options, lambda dataset: dataset.delete(PERCENT)),
        lambda uri, _, options: _opened(uri, options).delete(PERCENT),
    ),
    Change(
        "update 1 % of lineitem",
        lineitem,
        lambda uri, _, options: _with_alance(
            uri, options, lambda dataset: dataset.update({"l_comment": "'another'"}, where=PERCENT)
        ),
        lambda uri, _, options: _opened(uri, options).update(
            {"l_comment": "'another'"}, where=PERCENT
        ),
    ),
    Change(
        "merge_insert 1 % into lineitem",
        lineitem,
        lambda uri, rows, options: _with_alance(
            uri, options, lambda dataset: upsert(dataset.merge_insert(KEYS)).execute(rows)
        ),
        lambda uri, rows, options: upsert(_opened(uri, options).merge_insert(KEYS)).execute(rows),
        data=percent_of_rows,
    ),
    Change(
        "add a column by SQL to lineitem",
        lineitem,
        lambda uri, _, options: _with_alance(
            uri, options, lambda dataset: dataset.add_columns(PRODUCT)
        ),
        lambda uri, _, options: _opened(uri, options).add_columns(PRODUCT),
        target=0.7,
    ),
    Change(
        "index 100 000 vectors, IVF_HNSW_SQ of 4 partitions",
        lambda scale: table("vectors", scale),
        lambda uri, _, options: _with_alance(
            uri,
            options,
            lambda dataset: dataset.create_index("vec", "IVF_HNSW_SQ", "linked", num_partitions=4),
        ),
        lambda uri, _, options: _opened(uri, options).create_index(
            "vec", "IVF_HNSW_SQ", name="linked", num_partitions=4
        ),
    ),
    Change(
        "compact 1 000 fragments",
        small_fragments,
        lambda uri, _, options: _with_alance(
            uri, options, lambda dataset: dataset.optimize.compact_files()
        ),
        lambda uri, _, options: _opened(uri, options).optimize.compact_files(),
    ),
    Change(
        "open and take 1 of 10 000 fragments, 1 000 versions",
        many_versions,
        lambda uri, _, options: _with_alance(uri, options, lambda dataset: dataset.take([54_321])),
        lambda uri, _, options: _opened(uri, options).take([54_321]),
    ),
    Change(
        "open and count 10 000 fragments",
        many_versions,
        lambda uri, _, options: _with_alance(uri, options, lambda dataset: dataset.count_rows()),
        lambda uri, _, options: _opened(uri, options).count_rows(),
    ),
    Change(
        "open and take 100 rows of 10 000 fragments",
        many_versions,
        lambda uri, _, options: _with_alance(uri, options, lambda dataset: dataset.take(SPREAD)),
        lambda uri, _, options: _opened(uri, options).take(SPREAD),
    ),
    Change(
        "open and append a row to 10 000 fragments",
        many_versions,
        lambda uri, row, options: _with_alance(uri, options, lambda dataset: dataset.insert(row)),
        lambda uri, row, options: _opened(uri, options).insert(row),
        data=lambda _: pa.table({"x": [1]}),
    ),
    Change(
        "open and plan the compaction of 10 000 fragments",
        many_versions,
        lambda uri, _, options: _with_alance(uri, options, alance.Compaction.plan),
        lambda uri, _, options: Compaction.plan(_opened(uri, options), {}),
    ),
    Change(
        "open 2 000 columns",
        wide,
        lambda uri, _, options: _with_alance(uri, options, _schema),
        lambda uri, _, options: _opened(uri, options).schema,
    ),
    Change(
        "list 100 versions, lab",
        hundred_versions,
        lambda uri, _, options: _with_alance(uri, options, lambda dataset: dataset.versions()),
        lambda uri, _, options: _opened(uri, options).versions(),
        target=0.1,
        is_remote=True,
    ),
]


def run_changes(lab: Lab, only: str, scale: float, rounds: int) -> list[dict[str, Any]]:
    """Measure all cases that `only` selects, and print each when it ends."""
    measured = []
    for change in CHANGES:
        if only in change.name:
            measured.append(measure_change(lab, change, scale, rounds))
            print(line(measured[-1]), flush=True)
    return measured


def measure_change(lab: Lab, change: Change, scale: float, rounds: int) -> dict[str, Any]:
    """Measure both sides in turn; return the medians, without the first round."""
    source = change.source(scale)
    data = change.data(source)
    runs: dict[str, list[dict[str, float]]] = {"alance": [], "pylance": []}
    for number in range(rounds + 1):
        for side in list(runs)[:: 1 if number % 2 else -1]:
            copy = FOLDER / f"changed-{side}.lance"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(source, copy, copy_function=os.link)
            uri, options = str(copy), None
            if change.is_remote:
                lab.rescan()
                uri, options = f"s3://{FOLDER.name}/{copy.name}", lab.lance_options()
            with lab.recording() as seen:
                begun, cpu = time.perf_counter(), time.process_time()
                if side == "alance":
                    asyncio.run(change.ours(uri, data, options))  # type: ignore[arg-type]
                else:
                    change.theirs(uri, data, options)
                result = {
                    "ms": (time.perf_counter() - begun) * 1e3,
                    "cpu_ms": (time.process_time() - cpu) * 1e3,
                }
            result["requests"] = sum("op" in record for record in seen.records)
            if number:
                runs[side].append(result)
            shutil.rmtree(copy)
    sides = {
        side: {key: statistics.median(run[key] for run in results) for key in results[0]}
        for side, results in runs.items()
    }
    return {"name": change.name, "target": change.target, "sides": sides}


def line(case: dict[str, Any]) -> str:
    """Return a row of the table."""
    ours, theirs = case["sides"]["alance"], case["sides"]["pylance"]
    times = [f"{side['ms']:,.0f} ({side['cpu_ms']:,.0f})" for side in (ours, theirs)]
    requests = f"{ours['requests']:,.0f} / {theirs['requests']:,.0f}"
    cells = [case["name"], *times, f"{ours['ms'] / theirs['ms']:.2f}", f"{case['target']:.2f}"]
    return f"| {' | '.join([*cells, requests if ours['requests'] else ''])} |"


def section(cases: list[dict[str, Any]]) -> str:
    """Return the part of the report about changes."""
    names = ["work", "alance ms (cpu)", "pylance ms (cpu)", "ratio", "target", "requests"]
    head = [f"| {' | '.join(names)} |", f"|---|{'---:|' * (len(names) - 1)}"]
    text = "With opening the table; on local disk, where nothing else is said.\n"
    return "\n".join(["## Changing tables\n", text, *head, *map(line, cases), ""])
