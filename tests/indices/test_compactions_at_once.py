"""Two compactions of fragments of one segment: the later one brings along what the other wrote."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import lance
import pytest

import alance
from alance.errors import RetryableConflictError
from alance.optimize import Compaction
from tests.indices.test_indices_moved import index_files, unindexed
from tests.indices.test_vectors_moved import nearest, vectors

if TYPE_CHECKING:
    from pathlib import Path

    from alance.optimize import RewriteResult


async def two_results(
    path: Path, *, stable: bool = False
) -> tuple[alance.Dataset, list[RewriteResult]]:
    """A table with an index of each kind, and two compactions of a half of it each."""
    lance.write_dataset(vectors(), path, max_rows_per_file=150, enable_stable_row_ids=stable)
    theirs = lance.dataset(path)
    theirs.create_index("v", "IVF_SQ", num_partitions=7)
    theirs.create_scalar_index("id", "BTREE")
    theirs.delete("id % 10 = 3")
    dataset = await alance.dataset(path)
    plan = await Compaction.plan(dataset, target_rows_per_fragment=600)
    results = [await task.execute(dataset) for task in plan.tasks]
    assert len(results) == 2
    return dataset, results


@pytest.mark.parametrize("stable", [False, True])
async def test_the_later_one_keeps_what_indices_cover(tmp_path: Path, stable: bool) -> None:
    path = tmp_path / "t"
    dataset, results = await two_results(path, stable=stable)
    queries = [vectors()["v"][number].as_py() for number in (0, 700, 1400)]
    before = await dataset.nearest_many("v", queries, 1500, columns=["id"], nprobes=7)
    await Compaction.commit(dataset, results[:1])
    committed = await Compaction.commit(dataset, results[1:])
    assert committed.summary is not None
    assert committed.summary["warnings"] == []
    assert unindexed(path) == {"v_idx": 0, "id_idx": 0}
    assert await committed.nearest_many("v", queries, 1500, columns=["id"], nprobes=7) == before
    numbers = [number for number, _ in nearest(path, 0)]
    assert numbers == before["id"].to_pylist()[: before.num_rows // 3]
    for number in (1, 800, 1499):
        assert lance.dataset(path).count_rows(f"id = {number}") == 1
        assert await committed.count_rows(f"id = {number}") == 1


async def test_an_index_that_was_replaced_meanwhile_is_brought_along(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset, results = await two_results(path)
    await dataset.optimize.optimize_indices(retrain=True)
    await Compaction.commit(dataset, results)
    assert unindexed(path) == {"v_idx": 0, "id_idx": 0}
    assert {number for number, _ in nearest(path, 0)} == {
        number for number in range(1500) if number % 10 != 3
    }


async def test_rows_that_changed_meanwhile_are_a_conflict(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset, results = await two_results(path)
    await Compaction.commit(dataset, results[:1])
    await (await dataset.checkout_latest()).delete("id = 1490")
    files = index_files(path)
    with pytest.raises(RetryableConflictError):
        await Compaction.commit(dataset, results[1:])
    assert index_files(path) == files, "those that failed left nothing"


async def test_many_at_once_all_get_through(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset, results = await two_results(path)
    await asyncio.gather(*(Compaction.commit(dataset, [result]) for result in results))
    assert unindexed(path) == {"v_idx": 0, "id_idx": 0}
    assert len(lance.dataset(path).get_fragments()) == 2
