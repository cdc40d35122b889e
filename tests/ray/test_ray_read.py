"""Tables as datasets of Ray Data: equal to plain reads, also when workers die."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import ray
from ray.data import DataContext

import alance.ray
import alance.sync
from alance.distributed import splits
from alance.ray import searching
from alance.testing.lab import Lab
from tests.ray.conftest import rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def whole(dataset: ray.data.Dataset) -> pa.Table:
    return pa.concat_tables(ray.get(dataset.to_arrow_refs()))


def test_reads_are_equal_to_plain_reads(table: Callable[[int], str]) -> None:
    uri = table(5000)
    alance.sync.dataset(uri).delete("id % 7 = 3")
    dataset = alance.sync.dataset(uri)
    read = alance.ray.read_table(uri)
    assert read.schema().base_schema.equals(dataset.schema)
    assert read.count() == dataset.count_rows()
    assert whole(read).sort_by("id").equals(dataset.to_table())
    columns = ["large", "_rowid"]
    filtered = alance.ray.read_table(uri, columns, filter="id % 5 = 1 and kind = 'a'")
    plain = dataset.to_table(columns, filter="id % 5 = 1 and kind = 'a'")
    assert whole(filtered).sort_by("_rowid").equals(plain.sort_by("_rowid"))
    assert filtered.count() == plain.num_rows
    assert alance.ray.read_table(uri, version=1).count() == 5000
    assert alance.ray.read_table(uri, [], filter="id < 20").count() == 17


def test_tables_and_results_without_rows_have_columns(tmp_path: Path) -> None:
    uri = str(tmp_path / "empty")
    alance.sync.write_dataset(rows(0), uri)
    for filter in (None, "id > 5"):
        read = alance.ray.read_table(uri, filter=filter)
        assert read.schema().base_schema.equals(rows(0).schema)
        assert read.count() == 0
        assert read.take_all() == []


def test_columns_selected_later_are_the_only_ones_read(tmp_path: Path) -> None:
    with Lab() as lab:
        uri, options = "s3://lab/table", lab.lance_options()
        alance.sync.write_dataset(rows(20_000), uri, storage_options=options)
        read = alance.ray.read_table(uri, storage_options=options)
        with lab.recording() as seen:
            assert len(read.take_all()) == 20_000
        everything = seen.summary()["get_bytes"]
        with lab.recording() as seen:
            assert read.select_columns(["id"]).sum("id") == sum(range(20_000))
        assert seen.summary()["get_bytes"] < everything / 3


def test_a_search_gives_the_nearest_rows_in_order(table: Callable[[int], str]) -> None:
    uri = table(3000)
    query = {"column": "v", "q": [70.0] * 4, "k": 5}
    read = alance.ray.read_table(uri, ["id"], nearest=query, filter="id > 10")
    plain = alance.sync.dataset(uri).to_table(["id"], nearest=query, filter="id > 10")
    assert whole(read).equals(plain)


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_many_tasks_search_a_column_without_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metric: str
) -> None:
    uri, rng = str(tmp_path / "table"), np.random.default_rng(5)
    vectors = rng.random((6000, 8)).astype(np.float32)
    vectors[4000:] = 5  # each of these rows is equally far
    table = {"id": range(6000), "v": vectors, "text": [f"t{n}" for n in range(6000)]}
    alance.sync.write_dataset(table, uri, max_rows_per_file=500)
    alance.sync.dataset(uri).delete("id % 11 = 3")
    monkeypatch.setattr(splits, "WORTH_A_TASK", 1)
    searched: list[int] = []

    async def count(work: Any, parts: list[Any], arguments: Any) -> list[Any]:
        searched.append(len(parts))
        return await run_tasks(work, parts, arguments)

    run_tasks = searching.run_tasks
    monkeypatch.setattr(searching, "run_tasks", count)
    plain = alance.sync.dataset(uri)
    for k, query in [(20, rng.random(8)), (3000, rng.random(8)), (9999, np.zeros(8) + 5)]:
        nearest = {"column": "v", "q": query.astype(np.float32), "k": k, "metric": metric}
        got = whole(alance.ray.read_table(uri, ["id", "text"], nearest=nearest))
        expected = plain.to_table(["id", "text"], nearest=nearest)
        assert got.schema.equals(expected.schema)
        assert got["_distance"].to_pylist() == expected["_distance"].to_pylist()
        last = got["_distance"][-1].as_py()  # of rows that are equally far, any may be the last
        nearer = [rows.filter(pc.field("_distance") < last) for rows in (got, expected)]
        assert nearer[0].sort_by("id").equals(nearer[1].sort_by("id"))
        assert len(set(got["id"].to_pylist())) == got.num_rows
    assert len(searched) == 3
    assert min(searched) > 1
    query = {"column": "v", "q": [5.0] * 8, "k": 4}
    filtered = alance.ray.read_table(uri, ["id"], nearest=query, filter="id > 10")
    assert whole(filtered).num_rows <= 4
    plain.create_index("v", "IVF_FLAT", num_partitions=2)
    assert alance.ray.read_table(uri, ["id"], nearest=query).count() == 4
    assert len(searched) == 3


def test_mistakes_are_seen_before_tasks_start(table: Callable[[int], str]) -> None:
    uri = table(10)
    with pytest.raises(alance.InvalidInputError, match="nothing"):
        alance.ray.read_table(uri, ["nothing"])
    with pytest.raises(alance.InvalidInputError, match="nothing"):
        alance.ray.read_table(uri, filter="nothing = 1")
    with pytest.raises(alance.NotFoundError):
        alance.ray.read_table(uri + "x")


def test_a_worker_that_dies_in_the_middle_of_a_read_costs_no_row(tmp_path: Path) -> None:
    """Some blocks of its task are already with the consumer."""
    uri, flag, num_rows = str(tmp_path / "table"), tmp_path / "died", 400_000
    alance.sync.write_dataset({"id": range(num_rows)}, uri, max_rows_per_file=300_000)

    def dies_once(batch: pa.Table) -> pa.Table:
        if batch["id"][-1].as_py() > 250_000 and not flag.exists():
            flag.touch()
            os._exit(1)
        return batch

    context = DataContext.get_current()
    block_bytes = context.target_max_block_size
    context.target_max_block_size = 1 << 18
    try:
        read = alance.ray.read_table(uri, filter="id % 3 < 2", override_num_blocks=1)
        mapped = read.map_batches(dies_once, batch_format="pyarrow", batch_size=None)
        blocks = [batch["id"] for batch in mapped.iter_batches(batch_size=None)]
    finally:
        context.target_max_block_size = block_bytes
    assert flag.exists()
    assert len(blocks) > 3
    ids = [number for block in blocks for number in block.tolist()]
    assert sorted(ids) == [number for number in range(num_rows) if number % 3 < 2]
