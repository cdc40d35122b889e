"""Work in a process of its own: the time to import a library, and the peak of memory.

python -m benchmarks.alone SIDE WORK PATH   prints JSON: seconds and megabytes.

Only the measured library is imported, so this module imports none at its top.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

SIDES: Final = {"alance": "alance", "pylance": "lance", "vortex": "vortex"}
BLOCKING: Final = {**SIDES, "alance": "alance.sync"}
TAKE: Final = 10_000

# The work, and the table it reads; None: only the import.
WORKS: Final = [
    ("import", None),
    ("import blocking", None),
    ("scan", "lineitem"),
    ("scan", "events"),
    ("scan", "embeddings"),
    ("take", "lineitem"),
]
NAMES: Final = {
    "import": "import of the package",
    "import blocking": "import of the blocking face",
    "scan": "scan all, batch by batch",
    "take": "take 10 000, all columns",
}


def run_alance(work: str, path: str) -> None:
    """Run the work with alance."""
    import asyncio

    import alance

    async def main() -> None:
        dataset = await alance.dataset(path)
        if work == "take":
            await dataset.take(_rows(await dataset.count_rows()))
            return
        if work.startswith("index "):
            kind, options = _index(work, await dataset.count_rows())
            await dataset.create_index("vec", kind, replace=True, **options)
            return
        async for batch in dataset.to_batches():
            batch.num_rows  # noqa: B018  # dropped at once

    asyncio.run(main())


def run_pylance(work: str, path: str) -> None:
    """Run the work with pylance."""
    import lance

    dataset = lance.dataset(path)
    if work == "take":
        dataset.take(_rows(dataset.count_rows()))
        return
    if work.startswith("index "):
        kind, options = _index(work, dataset.count_rows())
        dataset.create_index("vec", kind, replace=True, **options)
        return
    for _ in dataset.scanner().to_batches():
        pass


def run_vortex(work: str, path: str) -> None:
    """Run the work with Vortex."""
    import pyarrow as pa
    import vortex

    file = vortex.open(path)
    if work == "take":
        indices = pa.array(sorted(set(_rows(len(file)))), pa.uint64())
        file.to_arrow(indices=vortex.array(indices)).read_all()
        return
    for _ in file.to_arrow():
        pass


RUNS: Final[dict[str, Callable[[str, str], None]]] = {
    "alance": run_alance,
    "pylance": run_pylance,
    "vortex": run_vortex,
}


def _rows(count: int) -> list[int]:
    return random.Random(TAKE).choices(range(count), k=TAKE)


def _index(work: str, count: int) -> tuple[Any, dict[str, Any]]:
    """Return the kind of an index and its options.

    There is a partition for each 1,000 rows; indices with graphs have four partitions.
    """
    kind = work.removeprefix("index ")
    options = {"IVF_PQ": {"num_sub_vectors": 16}, "IVF_RQ": {"num_bits": 1}}.get(kind, {})
    return kind, {"num_partitions": 4 if "HNSW" in kind else max(4, count // 1000), **options}


def peak_megabytes() -> float:
    """Return the peak of this process's memory in MB, without that of its parent process."""
    status = Path("/proc/self/status").read_text()
    (line,) = (text for text in status.splitlines() if text.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 / 1e6


def with_bytecode() -> dict[str, str]:
    """Return the environment of a process that may write the bytecode of imported modules."""
    return {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def measure_alone(side: str, work: str, path: str, rounds: int) -> dict[str, float]:
    """Return the medians over several processes."""
    runs: list[dict[str, float]] = []
    for _ in range(rounds):
        command = [sys.executable, "-m", "benchmarks.alone", side, work, path]
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, env=with_bytecode()
        )
        runs.append(json.loads(done.stdout))
    return {
        "ms": statistics.median(run["seconds"] for run in runs) * 1e3,
        "cpu_ms": statistics.median(run["cpu"] for run in runs) * 1e3,
        "megabytes": statistics.median(run["megabytes"] for run in runs),
    }


def main() -> None:
    """Run the command line."""
    side, work, path = sys.argv[1:]
    begun, used = time.perf_counter(), time.process_time()
    importlib.import_module((BLOCKING if work == "import blocking" else SIDES)[side])
    if not work.startswith("import"):
        RUNS[side](work, path)
    result: dict[str, Any] = {
        "seconds": time.perf_counter() - begun,
        "cpu": time.process_time() - used,
        "megabytes": peak_megabytes(),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
