"""Memory of Python workers that are used again: bounded by what the option says."""

from __future__ import annotations

import lance
import numpy as np
import pyarrow as pa

import alance.spark

NUM_ROWS = 4 << 20
MEMORY = 8 << 20
BATCH_ROWS = 64 << 10
BATCH_BYTES = BATCH_ROWS * 32
TASKS = 4  # of one worker
# docs/spark.md: fetched, caches, kept blocks; batches under way, encoded and decoded; and what the
# allocator does not give back.
BOUND = MEMORY * 11 // 4 + (2 + 2) * 2 * BATCH_BYTES + (32 << 20)


def measure():
    """A function that is pickled as it is."""

    def measured(batches):
        """Return the bytes that a task adds to its process: at the peak, and at the end."""
        import os
        from pathlib import Path

        def resident(name: str) -> int:
            lines = Path("/proc/self/status").read_text().splitlines()
            return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))

        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before, total = resident("VmRSS"), 0
        for batch in batches:
            total += sum(batch.column(0).to_pylist()[:20_000])  # slower than reading
        end = resident("VmRSS")
        values = {"pid": os.getpid(), "peak": resident("VmHWM"), "before": before, "end": end}
        yield pa.record_batch({name: [value] for name, value in values.items()})

    return measured


def test_tasks_of_one_worker(spark, tmp_path):
    uri = str(tmp_path / "table")
    random = np.random.default_rng(0)
    columns = {name: random.integers(0, 1 << 62, NUM_ROWS) for name in "abcd"}
    lance.write_dataset(pa.table(columns), uri)
    size = sum(path.stat().st_size for path in (tmp_path / "table" / "data").iterdir())
    assert size > 120 << 20 > BOUND
    workers: dict[int, list[dict[str, int]]] = {}
    # A worker that has been idle for a minute is ended, and another one begins.
    while max(map(len, workers.values()), default=0) < TASKS:
        frame = alance.spark.map_batches(
            spark, uri, measure(), "pid long, peak long, before long, end long",
            memory_bytes=MEMORY, batch_size=BATCH_ROWS, partition_bytes=1 << 30, parallelism=1,
        )  # fmt: skip
        (row,) = frame.collect()
        workers.setdefault(row.pid, []).append(row.asDict())
    for tasks in workers.values():
        _, *later = tasks  # in the first one modules are imported
        for task in later:
            assert task["peak"] - task["before"] < BOUND, workers
            assert task["peak"] - later[0]["before"] < BOUND, workers
