"""Datasets of Ray Data as tables: one commit, each row once, no files that stay."""

from __future__ import annotations

import os
import traceback
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import ray
from ray.data.expressions import col

import alance.ray
import alance.sync
from alance.ray import writing
from alance.testing.lab import Lab
from tests.ray.conftest import rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def files_of(uri: str) -> set[str]:
    return {path.name for path in Path(uri, "data").glob("*")}


def test_a_table_is_written_as_it_was_read(table: Callable[[int], str], tmp_path: Path) -> None:
    uri, copy = table(5000), str(tmp_path / "copy")
    read = alance.ray.read_table(uri, override_num_blocks=3)
    assert alance.ray.write_table(read, copy, max_rows_per_file=700) == 1
    written = lance.dataset(copy)
    written.validate()
    assert len(written.get_fragments()) > 1
    assert alance.sync.dataset(copy).to_table().sort_by("id").equals(rows(5000))
    assert written.to_table().sort_by("id").equals(lance.dataset(uri).to_table())
    with pytest.raises(alance.AlreadyExistsError, match="append"):
        alance.ray.write_table(read, copy)
    assert alance.ray.write_table(read, copy, mode="append") == 2
    assert lance.dataset(copy).count_rows() == 10_000
    few = ray.data.from_arrow(pa.table({"id": [1.0]}))
    assert alance.ray.write_table(few, copy, mode="overwrite", message="few") == 3
    assert lance.dataset(copy).to_table() == pa.table({"id": [1.0]})


def test_appended_rows_get_the_types_of_the_table(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    schema = pa.schema([("id", pa.int64()), ("v", pa.list_(pa.float32(), 3)), ("t", pa.string())])
    empty = ray.data.from_arrow(pa.table({"id": []}))
    assert alance.ray.write_table(empty, uri, schema=schema) == 1
    assert alance.ray.write_table(empty, uri, mode="append") == 1
    frame = pd.DataFrame({"id": np.arange(3, dtype=np.int32), "v": list(np.ones((3, 3)))})
    assert alance.ray.write_table(ray.data.from_pandas(frame), uri, mode="append") == 2
    dataset = lance.dataset(uri)
    assert dataset.schema.equals(schema)
    assert dataset.to_table().to_pylist() == [
        {"id": number, "v": [1.0] * 3, "t": None} for number in range(3)
    ]


def test_results_without_rows_are_tables_with_columns(
    table: Callable[[int], str], tmp_path: Path
) -> None:
    uri, copy = table(4000), str(tmp_path / "copy")
    schema = rows(0).schema
    none = alance.ray.read_table(uri, filter="id < 0")
    assert alance.ray.write_table(none, copy) == 1
    assert alance.sync.dataset(copy).to_table().schema.equals(schema)
    unindexed = alance.ray.read_table(uri, filter="id % 4000 = 3999", override_num_blocks=2)
    assert alance.ray.write_table(unindexed, copy, mode="overwrite") == 2
    assert alance.sync.dataset(copy).to_table()["id"].to_pylist() == [3999]
    renamed = none.select_columns(["id"]).rename_columns({"id": "n"})
    assert alance.ray.write_table(renamed, copy, mode="overwrite") == 3
    assert alance.sync.dataset(copy).to_table() == pa.table({"n": pa.array([], pa.int64())})


def test_tensors_are_vectors_or_tensors_of_arrow(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")

    def tensors(batch: dict[str, Any]) -> dict[str, Any]:
        ids = batch["id"].astype(np.float32)
        square = np.broadcast_to(ids[:, None, None], (len(ids), 2, 2))
        ragged = np.array([np.ones((n % 2 + 1, 2)) for n in batch["id"]] + [None], object)[:-1]
        return {"id": batch["id"], "v": np.stack([ids, ids], 1), "m": square, "r": ragged}

    alance.ray.write_table(ray.data.range(20).map_batches(tensors), uri)
    dataset = alance.sync.dataset(uri)
    assert dataset.schema.field("v").type == pa.list_(pa.float32(), 2)
    assert dataset.schema.field("m").type == pa.fixed_shape_tensor(pa.float32(), (2, 2))
    nearest = dataset.nearest("v", [7.0, 7.0], 1)
    assert nearest["id"].to_pylist() == [7]
    entries = {row["id"]: row for row in alance.ray.read_table(uri).take_all()}
    assert entries[9]["m"].tolist() == [[9.0, 9.0], [9.0, 9.0]]
    assert entries[9]["r"].tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_what_no_table_can_hold_is_refused(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    objects = ray.data.range(3).map(lambda row: {"o": object})
    with pytest.raises(alance.InvalidInputError, match="Python objects"):
        alance.ray.write_table(objects, uri)
    with pytest.raises(alance.InvalidInputError, match="schema="):
        alance.ray.write_table(ray.data.range(3).flat_map(lambda row: []), uri)
    with pytest.raises(alance.InvalidInputError, match="create, append or overwrite"):
        alance.ray.write_table(objects, uri, mode="replace")
    assert not Path(uri, "_versions").exists()


def test_a_worker_that_dies_after_it_wrote_a_file_writes_no_row_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, flag, sink = str(tmp_path / "table"), tmp_path / "died", writing._TableSink

    class DiesOnce(sink):
        def write(self, blocks: Iterable[Any], ctx: object) -> tuple[bytes, ...]:
            records = super().write(blocks, ctx)
            if not flag.exists():
                flag.touch()
                os._exit(1)
            return records

    monkeypatch.setattr(writing, "_TableSink", DiesOnce)
    monkeypatch.setattr(writing, "WRITE_BYTES", 1)
    alance.ray.write_table(ray.data.range(1000, override_num_blocks=4), uri)
    assert flag.exists()
    dataset = alance.sync.dataset(uri)
    assert sorted(dataset.to_table()["id"].to_pylist()) == list(range(1000))
    assert dataset.version == 1
    named = {file.path for part in dataset.fragments for file in part.metadata.files}
    assert files_of(uri) > named
    dataset.cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert files_of(uri) == named


def test_a_write_that_fails_makes_no_version(table: Callable[[int], str]) -> None:
    uri = table(3000)

    def fails(batch: pa.Table) -> pa.Table:
        if 2500 in batch["id"].to_pylist():
            raise ValueError("spoiled")
        return batch

    before = files_of(uri)
    bad = alance.ray.read_table(uri).map_batches(fails, batch_format="pyarrow", batch_size=500)
    with pytest.raises(ray.exceptions.RayTaskError, match="spoiled"):
        alance.ray.write_table(bad, uri, mode="append")
    unfit = ray.data.range(10).map(lambda row: {"id": "x"})
    with pytest.raises(alance.InvalidInputError, match="id"):
        alance.ray.write_table(unfit, uri, mode="append")
    dataset = alance.sync.dataset(uri)
    assert (dataset.version, dataset.count_rows()) == (1, 3000)
    dataset.cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert files_of(uri) == before


def test_a_commit_that_another_one_rules_out_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, sink = str(tmp_path / "table"), writing._TableSink

    class IsLate(sink):
        def on_write_complete(self, write_result: Any) -> None:
            alance.sync.write_dataset({"id": [1]}, uri)
            super().on_write_complete(write_result)

    monkeypatch.setattr(writing, "_TableSink", IsLate)
    with pytest.raises(alance.AlreadyExistsError):
        alance.ray.write_table(ray.data.range(10), uri)
    assert alance.sync.dataset(uri).to_table() == pa.table({"id": [1]})
    assert len(files_of(uri)) == 1


def _exported(dataset: ray.data.Dataset) -> str:
    """Return what Ray's dashboard gets about the steps of a plan."""
    from ray.data._internal.metadata_exporter import sanitize_for_struct

    steps = dataset._logical_plan.dag.post_order_iter()
    return "".join(str(sanitize_for_struct(step._get_args())) for step in steps)


def test_options_of_the_store_reach_the_tasks_and_no_log(tmp_path: Path) -> None:
    with Lab() as lab:
        uri = "s3://lab/table"
        options = {**lab.lance_options(), "secret_access_key": "shown-to-nobody"}
        secret = {"storage_options": options}
        alance.ray.write_table(ray.data.range(50), uri, **secret)
        alance.ray.map_columns(uri, {"twice": "id * 2"}, **secret)
        alance.ray.build_index(uri, "id", **secret)
        read = alance.ray.read_table(uri, **secret)
        assert read.sum("twice") == 2 * sum(range(50))
        target = writing._Target(uri, "create", None, 1, None, False, "", options)
        filtered = read.filter(expr=col("id") > 9)
        shown = [repr(read), repr(target), filtered.stats(), *map(_exported, (read, filtered))]
        alance.ray.maintain(uri, **secret)
        with pytest.raises(alance.AlanceError) as error:
            alance.ray.write_table(ray.data.from_items([{"x": 1}]), uri, mode="append", **secret)
        shown.append("".join(traceback.format_exception(error.value)))
    logs = Path(ray._private.worker._global_node.get_logs_dir_path())
    shown += [path.read_text(errors="replace") for path in logs.rglob("*") if path.is_file()]
    assert len(shown) > 5
    assert not any("shown-to-nobody" in text for text in shown)
