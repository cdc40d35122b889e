"""New columns, indices and maintenance by tasks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance.ray
import alance.sync

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCHEMA = pa.schema([("twice", pa.int64())])


def test_columns_by_sql_and_by_a_class(table: Callable[[int], str], tmp_path: Path) -> None:
    uri, workers = table(9000), tmp_path / "workers"
    alance.sync.dataset(uri).delete("id % 9 = 4")
    assert alance.ray.map_columns(uri, {"twice": "id * 2", "n": "length(large)"}) == 3

    class Vectors:
        def __init__(self) -> None:
            with workers.open("a") as file:
                file.write(f"{os.getpid()}\n")

        def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
            numbers = batch["id"].to_numpy().astype(np.float32)
            flat = pa.array(np.stack([numbers, numbers + 1], axis=1).ravel())
            return pa.record_batch({"w": pa.FixedSizeListArray.from_arrays(flat, 2)})

    schema = pa.schema([("w", pa.list_(pa.float32(), 2))])
    alance.ray.map_columns(uri, Vectors, schema=schema, read_columns=["id"], batch_size=100)
    dataset = lance.dataset(uri)
    dataset.validate()
    entries = dataset.to_table().to_pylist()
    assert [row["id"] for row in entries] == [n for n in range(9000) if n % 9 != 4]
    assert all(row["twice"] == 2 * row["id"] for row in entries)
    processes = workers.read_text().split()
    assert 1 <= len(processes) == len(set(processes)) < len(dataset.get_fragments()) == 5
    assert all(row["w"] == [row["id"], row["id"] + 1] for row in entries)


def test_a_worker_that_dies_in_a_function_is_replaced(
    table: Callable[[int], str], tmp_path: Path
) -> None:
    uri, flag = table(5000), tmp_path / "died"

    def dies_once(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch["id"][0].as_py() >= 2000 and not flag.exists():
            flag.touch()
            os._exit(1)
        return pa.record_batch({"twice": pa.compute.multiply(batch["id"], 2)})

    folder = str(tmp_path / "notes")
    alance.ray.map_columns(uri, dies_once, schema=SCHEMA, checkpoint=folder)
    assert flag.exists()
    dataset = lance.dataset(uri)
    assert dataset.version == 2
    assert dataset.to_table(columns=["twice"])["twice"].to_pylist() == list(range(0, 10_000, 2))


def test_a_second_run_computes_only_what_the_first_has_not(
    table: Callable[[int], str], tmp_path: Path
) -> None:
    uri, calls, fixed = table(6000), tmp_path / "calls", tmp_path / "fixed"

    def fails(batch: pa.RecordBatch) -> pa.RecordBatch:
        first = batch["id"][0].as_py()
        with calls.open("a") as file:
            file.write(f"{first}\n")
        if first == 4000 and not fixed.exists():
            raise ValueError("spoiled")
        return pa.record_batch({"twice": pa.compute.multiply(batch["id"], 2)})

    folder, arguments = str(tmp_path / "notes"), {"num_cpus": 2}  # a task at a time
    for _ in range(2):
        with pytest.raises(ValueError, match="spoiled"):
            alance.ray.map_columns(
                uri, fails, schema=SCHEMA, checkpoint=folder, ray_remote_args=arguments
            )
    assert alance.sync.dataset(uri).version == 1
    fixed.touch()
    alance.sync.write_dataset(alance.sync.dataset(uri).take([0]), uri, mode="append")
    alance.ray.map_columns(uri, fails, schema=SCHEMA, checkpoint=folder)
    assert sorted(calls.read_text().split()) == ["0", "0", "2000", "4000", "4000", "4000"]
    dataset = lance.dataset(uri)
    dataset.validate()
    assert dataset.to_table(columns=["twice"])["twice"].to_pylist() == [*range(0, 12_000, 2), 0]


def test_mistakes_in_columns_are_errors_of_alance(table: Callable[[int], str]) -> None:
    uri = table(10)
    with pytest.raises(alance.InvalidInputError, match="id"):
        alance.ray.map_columns(uri, {"id": "id + 1"})
    with pytest.raises(alance.InvalidInputError, match="schema: expected"):
        alance.ray.map_columns(uri, lambda batch: batch)
    with pytest.raises(alance.InvalidInputError, match="rows"):
        alance.ray.map_columns(uri, lambda batch: batch.slice(1), schema=SCHEMA)


@pytest.mark.parametrize(
    ("column", "kind"),
    [("id", "BTREE"), ("day", "BITMAP"), ("large", "INVERTED"), ("v", "IVF_PQ")],
)
def test_indices_are_built_by_tasks(table: Callable[[int], str], column: str, kind: str) -> None:
    uri = table(5000)
    vectors = {"num_partitions": 4, "num_sub_vectors": 2} if kind == "IVF_PQ" else None
    assert alance.ray.build_index(uri, column, kind, vectors=vectors) == 2
    (index,) = lance.dataset(uri).describe_indices()
    assert index.name == f"{column}_idx"
    dataset = lance.dataset(uri)
    assert dataset.to_table(filter="id = 4321", columns=["id"])["id"].to_pylist() == [4321]
    assert alance.sync.dataset(uri).index_statistics(f"{column}_idx")["num_unindexed_rows"] == 0


def test_upkeep_that_is_due_is_done_by_tasks(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    for number in range(12):
        mode = "append" if number else "create"
        alance.sync.write_dataset({"id": [number]}, uri, mode=mode)
    policy = alance.MaintenancePolicy(min_small_fragments=5)
    assert alance.ray.maintain(uri, policy, dry_run=True).version == 12
    report = alance.ray.maintain(uri, policy)
    assert "done" in {step.outcome for step in report.steps}
    dataset = lance.dataset(uri)
    assert len(dataset.get_fragments()) == 1
    assert sorted(dataset.to_table()["id"].to_pylist()) == list(range(12))
