"""Processor time of small batches and of small files; both sides in turn, in one process.

python -m benchmarks.cases_small PRODUCERS PATH   prints JSON: a stream of small batches alone.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import lance
import numpy as np
import pyarrow as pa

import alance
from benchmarks.alone import peak_megabytes
from benchmarks.measure import Waits, crowd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCHEMA: Final = pa.schema([("id", pa.int64()), ("x", pa.float64()), ("name", pa.string())])
BATCH_ROWS: Final = 100
FILE_ROWS: Final = 10
VERSION: Final = "2.2"
PRODUCERS: Final = 64
STREAM_BATCHES: Final = 20_000


@dataclass(frozen=True)
class Small:
    """A row of the table: the same rows, written by both sides.

    Attributes:
        count: number of batches or files.
        target: intended ratio of processor times.
    """

    name: str
    count: int
    target: float
    ours: Callable[[int, str], None]
    theirs: Callable[[int, str], None]


@cache
def rows_of(num_rows: int) -> pa.RecordBatch:
    """Return rows of a number, a fraction and a short text."""
    numbers = np.arange(num_rows)
    names = pa.array([f"name {number}" for number in range(977)]).take(pa.array(numbers % 977))
    return pa.record_batch([numbers, numbers / 7, names], schema=SCHEMA)


def batches(count: int) -> Iterator[pa.RecordBatch]:
    """Return `count` small batches."""
    rows = rows_of(count * BATCH_ROWS)
    return (rows.slice(BATCH_ROWS * number, BATCH_ROWS) for number in range(count))


def reader(count: int) -> pa.RecordBatchReader:
    """Return a reader of `count` small batches."""
    return pa.RecordBatchReader.from_batches(SCHEMA, batches(count))


def write(count: int, path: str) -> None:
    """Write small batches to a table."""
    asyncio.run(alance.write_dataset(reader(count), path, data_storage_version=VERSION))


async def produced(uri: str, producers: int, count: int, **options: Any) -> Waits:
    """Ingest small batches from several producers; return how long each write waited."""
    async with alance.ingest(uri, SCHEMA, data_storage_version=VERSION, **options) as sink:
        return await crowd(sink.write, batches(count), producers)


def ingest(count: int, path: str) -> None:
    """Ingest small batches from one producer."""
    asyncio.run(produced(path, 1, count))


def files(count: int, path: str) -> None:
    """Write small files."""
    rows = pa.Table.from_batches([rows_of(count * FILE_ROWS)])
    options: dict[str, Any] = {"max_rows_per_file": FILE_ROWS, "data_storage_version": VERSION}
    asyncio.run(alance.write_dataset(rows, path, **options))


def write_theirs(count: int, path: str) -> None:
    """Write small batches to a table with pylance."""
    lance.write_dataset(reader(count), path, data_storage_version=VERSION)


def files_theirs(count: int, path: str) -> None:
    """Write small files with pylance."""
    rows = pa.Table.from_batches([rows_of(count * FILE_ROWS)])
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
    """Return the microseconds of all threads for each batch or file."""
    shutil.rmtree(path, ignore_errors=True)
    begun = time.process_time()
    work(str(path))
    used = time.process_time() - begun
    shutil.rmtree(path, ignore_errors=True)
    return used / count * 1e6


def run_small(only: str, rounds: int) -> list[dict[str, Any]]:
    """Measure all cases that `only` selects, print each when it ends; the best of the rounds."""
    results = []
    path = Path(tempfile.mkdtemp(prefix="alance-small-")) / "small.lance"
    for case in CASES:
        if only not in f"small {case.name}":
            continue
        rows_of(case.count * (FILE_ROWS if "file" in case.name else BATCH_ROWS))
        sides: dict[str, list[float]] = {"alance": [], "pylance": []}
        for _ in range(rounds):
            for side, work in (("alance", case.ours), ("pylance", case.theirs)):
                sides[side].append(processor_us(partial(work, case.count), case.count, path))
        best = {side: min(times) for side, times in sides.items()}
        results.append({"name": case.name, "sides": best, "target": case.target})
        print(line(results[-1]), flush=True)
    shutil.rmtree(path.parent)
    return results


def run_streams(rounds: int) -> list[dict[str, Any]]:
    """Measure streams of alance, each in a process of its own; return the medians."""
    results = []
    for producers in (1, PRODUCERS):
        runs = []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory(prefix="alance-stream-") as folder:
                command = [sys.executable, "-m", "benchmarks.cases_small", str(producers), folder]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
            runs.append(json.loads(done.stdout))
        medians = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        results.append({"producers": producers, **medians})
        print(stream_line(results[-1]), flush=True)
    return results


def stream_line(stream: dict[str, Any]) -> str:
    """Return a row of the table of streams."""
    cells = [f"{stream['producers']}", f"{stream['rows_s']:,.0f}", f"{stream['p99_ms']:.1f}"]
    return f"| {' | '.join([*cells, format(stream['megabytes'], ',.0f')])} |"


def stream_section(streams: list[dict[str, Any]]) -> str:
    """Return the part of the report about streams."""
    names = ["producers", "rows/s", "p99 of a write, ms", "peak MB"]
    head = [f"| {' | '.join(names)} |", f"|{'---:|' * len(names)}"]
    text = (
        f"`ingest` of {STREAM_BATCHES:,d} batches of {BATCH_ROWS} rows of three columns to local "
        "disk, which pylance has not. Two million rows/s, 20 ms and bounded memory are aimed at.\n"
    )
    return "\n".join(["## Streams of small batches\n", text, *head, *map(stream_line, streams), ""])


def line(case: dict[str, Any]) -> str:
    """Return a row of the table."""
    ours, theirs = case["sides"]["alance"], case["sides"]["pylance"]
    cells = [case["name"], f"{ours:,.0f}", f"{theirs:,.0f}", f"{ours / theirs:.2f}"]
    return f"| {' | '.join([*cells, format(case['target'], '.2f')])} |"


def section(cases: list[dict[str, Any]]) -> str:
    """Return the part of the report about small batches and files."""
    names = ["one", "alance us", "pylance us", "ratio", "target"]
    head = [f"| {' | '.join(names)} |", f"|---|{'---:|' * (len(names) - 1)}"]
    text = "Processor time of all threads for each batch or file, on local disk; three columns.\n"
    return "\n".join(["## Small batches and files\n", text, *head, *map(line, cases), ""])


def main() -> None:
    """Run the command line."""
    producers, folder = sys.argv[1:]
    rows_of(STREAM_BATCHES * BATCH_ROWS)
    asyncio.run(produced(f"{folder}/first.lance", 1, 100))  # what is loaded once in a process
    begun = time.perf_counter()
    waits = asyncio.run(produced(f"{folder}/stream.lance", int(producers), STREAM_BATCHES))
    rate = STREAM_BATCHES * BATCH_ROWS / (time.perf_counter() - begun)
    figures = {"rows_s": rate, "p99_ms": waits.quantile(0.99) * 1e3, "megabytes": peak_megabytes()}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
