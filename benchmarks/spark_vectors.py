"""A vector index of many rows, written and built by Spark's tasks, searched by both libraries.

    python -m benchmarks.spark_vectors [--rows 10000000] [--out FOLDER]

Needs Java. Tasks compute the vectors from the row numbers, so that no process ever has all of them.
The command fails unless both libraries see all rows in the index and find the same rows by it. With
10 million rows it takes some ten minutes of two cores, and 6 GB of disk.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import lance
import numpy as np
import pyarrow as pa

from alance import sync
from alance.spark import jobs
from alance.spark.session import session
from benchmarks.spark import CORES, timed

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

DIM: Final = 64
BLOCK: Final = 8192  # rows that are computed together, and rows of a batch
CODES: Final = 16
K: Final = 10
QUERIES: Final = 20
NPROBES: Final = 40
REFINED: Final = 10
SCHEMA: Final = "id long, vec array<float>"
LEAST_RECALL: Final = 0.8


def vectors_of(block: int) -> npt.NDArray[np.float32]:
    """Return the vectors of a block of rows, which differ mostly in 12 directions."""
    strong = 0.5 * np.random.default_rng(24).normal(size=(12, DIM))
    rng = np.random.default_rng([block, DIM])
    values = rng.normal(size=(BLOCK, 12)) @ strong + 0.4 * rng.normal(size=(BLOCK, DIM))
    return values.astype(np.float32)


def rows_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of numbered blocks."""
    for batch in batches:
        for block in batch.column(0).to_pylist():
            ids = pa.array(np.arange(block * BLOCK, (block + 1) * BLOCK))
            values = pa.array(vectors_of(block).reshape(-1))
            offsets = pa.array(np.arange(0, BLOCK * DIM + 1, DIM, dtype=np.int32))
            vectors = pa.ListArray.from_arrays(offsets, values)
            yield pa.record_batch([ids, vectors], names=["id", "vec"])


def searched(uri: str, num_blocks: int) -> dict[str, Any]:
    """Search with both libraries by the index; compare with the nearest of all rows."""
    theirs, dataset = lance.dataset(uri), sync.dataset(uri)
    chosen = np.linspace(0, num_blocks - 1, QUERIES).astype(int).tolist()
    noise = np.random.default_rng(1).normal(size=(QUERIES, DIM)).astype(np.float32)
    queries = np.stack([vectors_of(block)[7] for block in chosen]) + 0.3 * noise
    hits = {"alance": 0, "pylance": 0}
    num_common = 0
    for query in queries:
        search: dict[str, Any] = {"column": "vec", "q": query, "k": K}
        names = ["id", "_distance"]
        right = theirs.to_table(names, nearest={**search, "use_index": False})["id"].to_pylist()
        probed = {"nprobes": NPROBES, "refine_factor": REFINED}
        own = dataset.nearest("vec", query, K, columns=["id"], **probed)["id"].to_pylist()
        other = theirs.to_table(names, nearest={**search, **probed})["id"].to_pylist()
        hits["alance"] += len({*own} & {*right})
        hits["pylance"] += len({*other} & {*right})
        num_common += len({*own} & {*other})
    count = K * QUERIES
    recall = {side: number / count for side, number in hits.items()}
    return {"recall": recall, "same": num_common / count}


def run(num_rows: int) -> dict[str, Any]:
    """Write the rows, build the index and search it."""
    num_blocks = max(1, num_rows // BLOCK)
    num_rows = num_blocks * BLOCK
    spark = session(
        "vectors",
        master=f"local[{CORES}]",
        conf={"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"},
    )
    spark.sparkContext.setLogLevel("OFF")
    with tempfile.TemporaryDirectory() as folder:
        uri = str(Path(folder) / "vectors.lance")

        def write() -> None:
            blocks = spark.range(0, num_blocks, 1, max(1, num_blocks // 128))
            frame = blocks.mapInArrow(rows_of, SCHEMA)
            frame.write.format("alance").option("vectors", f"vec:{DIM}").save(uri)

        options: Any = {"num_partitions": max(1, num_rows // 8192), "num_sub_vectors": CODES}
        built: list[Any] = []

        def build() -> None:
            built.append(jobs.build_index(spark, uri, "vec", "IVF_PQ", vectors=options))

        written, build_times = timed(write)[0], timed(build)[0]
        spark.stop()
        statistics = lance.dataset(uri).stats.index_stats("vec_idx")
        begun = time.perf_counter()
        recalls = searched(uri, num_blocks)
        return {
            "rows": num_rows,
            "write": written,
            "build": {**build_times, **built[0].counts},
            "indexed": statistics["num_indexed_rows"],
            "unindexed": statistics["num_unindexed_rows"],
            **recalls,
            "search_s": time.perf_counter() - begun,
        }


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--out", type=Path, help="folder for the results")
    args = parser.parse_args()
    results = run(args.rows)
    print(json.dumps(results, indent=1), flush=True)
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "spark_vectors.json").write_text(json.dumps(results, indent=1) + "\n")
    assert (results["indexed"], results["unindexed"]) == (results["rows"], 0)
    assert min(results["recall"].values()) >= LEAST_RECALL
    assert results["same"] >= 0.99  # rows with equal codes may differ


if __name__ == "__main__":
    main()
