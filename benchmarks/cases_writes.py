"""Writing local tables: time, peak memory and size, each in a process of its own.

python -m benchmarks.cases_writes SIDE SOURCE TARGET   prints JSON.

The source is an Arrow stream on disk, which both sides read batch by batch; each column is copied
to an alignment that pylance accepts. The cost of this reading alone is reported, too. Only the
measured library is imported.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from benchmarks.alone import peak_megabytes, with_bytecode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NAMES: Final = ("lineitem", "events", "embeddings")
TARGET: Final = 1.0  # ratio of times
TARGET_MEGABYTES: Final = 300


def reader_of(source: str) -> pa.RecordBatchReader:
    """Return the rows, batch by batch."""
    stream = pa.ipc.open_stream(pa.OSFile(source))

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in stream:
            columns = [pa.concat_arrays([column]) for column in batch.columns]
            yield pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    return pa.RecordBatchReader.from_batches(stream.schema, batches())


def run_alance(source: str, target: str) -> None:
    """Write with alance."""
    import asyncio

    import alance

    asyncio.run(alance.write_dataset(reader_of(source), target))


def run_pylance(source: str, target: str) -> None:
    """Write with pylance, in the file version that alance writes."""
    import lance

    lance.write_dataset(reader_of(source), target, data_storage_version="2.2")


def run_reading(source: str, target: str) -> None:
    """Only read the source."""
    for batch in reader_of(source):
        batch.num_rows  # noqa: B018  # dropped at once


RUNS: Final[dict[str, Callable[[str, str], None]]] = {
    "alance": run_alance,
    "pylance": run_pylance,
    "reading": run_reading,
}


def source_of(name: str, scale: float) -> Path:
    """Return the path of the rows as an Arrow stream; write it if it does not exist."""
    from benchmarks.data import FOLDER, MAKERS

    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}-{scale:g}.arrows"
    if not path.exists():
        partial = path.with_suffix(".partial")
        reader = MAKERS[name](scale)
        with pa.OSFile(str(partial), "wb") as sink, pa.ipc.new_stream(sink, reader.schema) as out:
            for batch in reader:
                out.write_batch(batch)
        partial.rename(path)
    return path


def measure_write(name: str, scale: float, rounds: int) -> dict[str, dict[str, float]]:
    """Measure all sides in turn, each in processes of its own; return the medians."""
    source = source_of(name, scale)
    runs: dict[str, list[dict[str, float]]] = {side: [] for side in RUNS}
    for _ in range(rounds):
        for side, results in runs.items():
            target = source.with_name(f"written-{side}-{name}.lance")
            shutil.rmtree(target, ignore_errors=True)
            command = [sys.executable, "-m", "benchmarks.cases_writes", side, source, target]
            done = subprocess.run(
                command, check=True, capture_output=True, text=True, env=with_bytecode()
            )
            files = target.glob("data/*")
            size = sum(file.stat().st_size for file in files) / 1e6
            results.append({**json.loads(done.stdout), "file_megabytes": size})
            shutil.rmtree(target, ignore_errors=True)
    return {
        side: {key: statistics.median(run[key] for run in results) for key in results[0]}
        for side, results in runs.items()
    }


def run_writes(only: str, scale: float, rounds: int) -> list[dict[str, Any]]:
    """Measure all cases that `only` selects, and print each when it ends."""
    measured = []
    for name in NAMES:
        if only in f"write {name}":
            measured.append({"table": name, "sides": measure_write(name, scale, rounds)})
            print(line(measured[-1]), flush=True)
    return measured


def line(case: dict[str, Any]) -> str:
    """Return a row of the table."""
    ours, theirs = case["sides"]["alance"], case["sides"]["pylance"]
    cells = [case["table"], f"{ours['ms']:,.0f}", f"{theirs['ms']:,.0f}"]
    cells += [f"{case['sides']['reading']['ms']:,.0f}", f"{ours['ms'] / theirs['ms']:.2f}"]
    cells += [f"{TARGET:.2f}", f"{ours['megabytes']:,.0f}", f"{theirs['megabytes']:,.0f}"]
    cells += [f"{ours['file_megabytes']:,.1f}", f"{theirs['file_megabytes']:,.1f}"]
    return f"| {' | '.join(cells)} |"


def section(cases: list[dict[str, Any]]) -> str:
    """Return the part of the report about writes."""
    names = ["table", "alance ms", "pylance ms", "reading the source ms", "ratio", "target"]
    names += ["alance peak MB", "pylance peak MB", "alance file MB", "pylance file MB"]
    head = [f"| {' | '.join(names)} |", f"|---|{'---:|' * (len(names) - 1)}"]
    text = (
        "A stream of Arrow batches from disk to a new table, file version 2.2, with the import and "
        f"the start of the process. At most {TARGET_MEGABYTES} MB are aimed at.\n"
    )
    return "\n".join(["## Writing local tables\n", text, *head, *map(line, cases), ""])


def main() -> None:
    """Run the command line."""
    side, source, target = sys.argv[1:]
    begun = time.perf_counter()
    RUNS[side](source, target)
    result = {"ms": (time.perf_counter() - begun) * 1e3, "megabytes": peak_megabytes()}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
