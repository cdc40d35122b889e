"""Vectors of all rows of a table, computed by Ray's tasks, and a search among them.

Run `python examples/ray_embeddings.py` after `pip install '.[ray]'`. On a cluster, `ray.init` finds
it, and the folder has to be on a store that all nodes reach.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import ray

import alance.ray
import alance.sync

FOLDER = Path("ray-embeddings").resolve()
DIMENSION = 32


class Embed:
    """Counts letters, where another would load a model: rows of the same letters are alike."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.weights = rng.standard_normal((256, DIMENSION)).astype(np.float32)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        texts = [np.frombuffer(text.encode(), np.uint8) for text in batch["text"].to_pylist()]
        counts = np.stack([np.bincount(text, minlength=256) for text in texts])
        vectors = (counts @ self.weights).astype(np.float32)
        flat = pa.array(vectors.ravel())
        return pa.record_batch({"vector": pa.FixedSizeListArray.from_arrays(flat, DIMENSION)})


def main() -> None:
    ray.init(include_dashboard=False, log_to_driver=False)
    uri = str(FOLDER / "texts.lance")
    texts = ray.data.range(2000).map(lambda row: {"id": row["id"], "text": f"row {row['id']}"})
    alance.ray.write_table(texts, uri, mode="overwrite", max_rows_per_file=250)
    alance.ray.map_columns(
        uri,
        Embed,
        schema=pa.schema([("vector", pa.list_(pa.float32(), DIMENSION))]),
        read_columns=["text"],
        checkpoint=str(FOLDER / "notes"),
    )
    version = alance.ray.build_index(uri, "vector", "IVF_FLAT", vectors={"num_partitions": 8})
    table = alance.sync.dataset(uri)
    query = table.to_table(["vector"], filter="id = 1234")["vector"][0].as_py()
    nearest = table.nearest("vector", query, 6, columns=["id", "text"])
    print(f"version {version}, {table.count_rows()} rows, nearest to row 1234:")
    for row in nearest.to_pylist():
        print(row["id"], row["text"], round(row["_distance"], 2))
    ray.shutdown()


if __name__ == "__main__":
    main()
