"""Batches of few rows and files of few rows: processor time of each, in turns in one process."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import lance
import pyarrow as pa

import alance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCHEMA: Final = pa.schema([("id", pa.int64()), ("x", pa.float64()), ("name", pa.string())])
BATCH_ROWS: Final = 100
FILE_ROWS: Final = 10
VERSION: Final = "2.2"


@dataclass(frozen=True)
class Small:
    """A row: the same rows written by both.

    Attributes:
        count: of batches or files.
        target: ratio of processor times.
    """

    name: str
    count: int
    target: float
    ours: Callable[[int, str], None]
    theirs: Callable[[int, str], None]


@cache
def table_of(num_rows: int) -> pa.Table:
    """Rows of a number, a fraction and a short text."""
    numbers = range(num_rows)
    columns = [list(numbers), [n / 7 for n in numbers], [f"name {n % 977}" for n in numbers]]
    return pa.table(columns, schema=SCHEMA)


def batches(count: int) -> Iterator[pa.RecordBatch]:
    """So many small batches."""
    return iter(table_of(count * BATCH_ROWS).to_batches(max_chunksize=BATCH_ROWS))


def reader(count: int) -> pa.RecordBatchReader:
    """The same as a reader."""
    return pa.RecordBatchReader.from_batches(SCHEMA, batches(count))


def write(count: int, path: str) -> None:
    """Small batches to a table."""
    asyncio.run(alance.write_dataset(reader(count), path, data_storage_version=VERSION))


def ingest(count: int, path: str) -> None:
    """The same as a stream."""

    async def run() -> None:
        async with alance.ingest(path, SCHEMA, data_storage_version=VERSION) as sink:
            for batch in batches(count):
                await sink.write(batch)

    asyncio.run(run())


def files(count: int, path: str) -> None:
    """Small files."""
    rows = table_of(count * FILE_ROWS)
    options: dict[str, Any] = {"max_rows_per_file": FILE_ROWS, "data_storage_version": VERSION}
    asyncio.run(alance.write_dataset(rows, path, **options))


def write_theirs(count: int, path: str) -> None:
    """Small batches to a table, by pylance."""
    lance.write_dataset(reader(count), path, data_storage_version=VERSION)


def files_theirs(count: int, path: str) -> None:
    """Small files, by pylance."""
    rows = table_of(count * FILE_ROWS)
    lance.write_dataset(
        rows,
        path,
        max_rows_per_file=FILE_ROWS,
        max_rows_per_group=FILE_ROWS,
        data_storage_version=VERSION,
    )


CASES: Final[tuple[Small, ...]] = (
    Small("batch of 100 rows, of a reader", 3000, 0.7, write, write_theirs),
    Small("batch of 100 rows, of a stream (pylance: of a reader)", 3000, 0.7, ingest, write_theirs),
    Small("file of 10 rows", 1000, 1.0, files, files_theirs),
)


def processor_us(work: Callable[[str], None], count: int, path: Path) -> float:
    """Microseconds of all threads for each batch or file."""
    shutil.rmtree(path, ignore_errors=True)
    begun = time.process_time()
    work(str(path))
    used = time.process_time() - begun
    shutil.rmtree(path, ignore_errors=True)
    return used / count * 1e6


def run_small(only: str, rounds: int) -> list[dict[str, Any]]:
    """All cases that are asked for, printed as they end: the best of some rounds."""
    results = []
    path = Path(tempfile.mkdtemp(prefix="alance-small-")) / "small.lance"
    for case in CASES:
        if only not in f"small {case.name}":
            continue
        table_of(case.count * (FILE_ROWS if "file" in case.name else BATCH_ROWS))
        sides: dict[str, list[float]] = {"alance": [], "pylance": []}
        for _ in range(rounds):
            for side, work in (("alance", case.ours), ("pylance", case.theirs)):
                sides[side].append(processor_us(partial(work, case.count), case.count, path))
        best = {side: min(times) for side, times in sides.items()}
        results.append({"name": case.name, "sides": best, "target": case.target})
        print(line(results[-1]), flush=True)
    shutil.rmtree(path.parent)
    return results


def line(case: dict[str, Any]) -> str:
    """A row of the table."""
    ours, theirs = case["sides"]["alance"], case["sides"]["pylance"]
    cells = [case["name"], f"{ours:,.0f}", f"{theirs:,.0f}", f"{ours / theirs:.2f}"]
    return f"| {' | '.join([*cells, format(case['target'], '.2f')])} |"


def section(cases: list[dict[str, Any]]) -> str:
    """A part of the report."""
    names = ["one", "alance us", "pylance us", "ratio", "target"]
    head = [f"| {' | '.join(names)} |", f"|---|{'---:|' * (len(names) - 1)}"]
    text = "Processor time of all threads for each batch or file, on local disk; three columns.\n"
    return "\n".join(["## Small batches and files\n", text, *head, *map(line, cases), ""])
