"""Prefilters of few rows: their vectors are compared exactly, and `explain` says so."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pytest

import alance
from tests.search.search_cases import METRICS, agree, ids, ours, queries, table, theirs, written
from tests.search.test_indexed import PQ, index

if TYPE_CHECKING:
    from pathlib import Path

FEW = "id % 100 = 7"  # 30 rows


def scalar_index(path: Path, column: str, kind: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lance.dataset(path).create_scalar_index(column, kind)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("stable", [False, True])
async def test_few_rows_of_a_filter_are_compared_exactly(
    tmp_path: Path, metric: str, stable: bool
) -> None:
    path = written(tmp_path / "t", deletes=False, enable_stable_row_ids=stable)
    index(path, "IVF_PQ", metric, **PQ)
    lance.dataset(path).delete("id % 13 = 5")
    dataset = await alance.dataset(path)
    for condition, k in ((FEW, 10), (FEW, 50), ("id in (3, 40, 2999, 5)", 3), ("id = 5", 2)):
        for q in queries("float32", 3):
            own = await ours(dataset, q, k=k, nprobes=6, filter=condition)
            options = {"filter": condition, "prefilter": True, "metric": metric}
            agree(own, theirs(path, q, k=k, use_index=False, **options))


async def test_rows_without_an_index_count_beside_few_rows_of_one(tmp_path: Path) -> None:
    path = written(tmp_path / "t", deletes=False)
    index(path, "IVF_SQ", "l2")
    lance.write_dataset(table("float32", 900, 3000, seed=8), path, mode="append")
    dataset = await (await alance.dataset(path)).update({"kind": "9"}, "id % 11 = 2")
    for q in queries("float32", 3):
        own = await ours(dataset, q, k=12, filter=FEW, distance_range=(1.0, 30.0))
        options: dict[str, Any] = {"filter": FEW, "prefilter": True, "use_index": False}
        agree(own, theirs(path, q, k=12, distance_range=(1.0, 30.0), **options))
        fast = await ours(dataset, q, k=12, filter=FEW, fast_search=True)
        assert max(ids(fast)) < 3000


async def test_explain_says_which_way_a_filter_goes_and_why(tmp_path: Path) -> None:
    path = written(tmp_path / "t", deletes=False)
    index(path, "IVF_PQ", "l2", **PQ)
    scalar_index(path, "id", "BTREE")
    scalar_index(path, "kind", "BITMAP")
    dataset = await alance.dataset(path)
    request = {"column": "vec", "q": queries("float32", 1)[0], "nprobes": 3}

    async def explained(condition: str) -> str:
        scanner = dataset.scanner(nearest=request, filter=condition, prefilter=True)
        return str(await scanner.explain())

    few = await explained("id in (3, 40, 2999, 5)")
    assert re.search(r"keeps at most 4 rows: .*so they are taken, and compared exactly", few)
    assert "partitions:" not in few
    many = await explained("kind = 3")
    assert re.search(r"keeps at most 429 rows: .*; so partitions are searched", many)
    assert "3 of 6 partitions:" in many
    assert "if the filter keeps at most 256 rows" in await explained("text = 'row 7'")


async def test_explain_counts_partitions_requests_and_bytes(tmp_path: Path) -> None:
    path = written(tmp_path / "t")
    index(path, "IVF_FLAT", "l2")
    async with alance.Session() as session:
        dataset = await alance.dataset(path, session=session)
        q = queries("float32", 1)[0]
        scanner = dataset.scanner(
            ["_rowid"], nearest={"column": "vec", "q": q, "k": 5, "nprobes": 2}
        )
        explanation = await scanner.explain()
        assert "2 of 6 partitions:" in str(explanation)
        assert "0 of 2 of their parts are in memory" in str(explanation)
        with alance.trace() as seen:
            await scanner.to_table()
        read = [event for event in seen.events if "partitions" in event.reasons]
        (step,) = explanation.steps
        assert (step.reason, step.num_requests) == ("partitions", len(read))
        assert step.num_bytes == sum(event.num_bytes for event in read)
        explanation = await scanner.explain()
        assert "2 of 2 of their parts are in memory" in str(explanation)
        assert explanation.steps == ()
        scanner = dataset.scanner(nearest={"column": "vec", "q": q, "k": 5})
        assert "up to 6 as long as there are fewer rows" in str(await scanner.explain())


async def test_a_filter_of_no_rows_gives_none(tmp_path: Path) -> None:
    path = written(tmp_path / "t")
    index(path, "IVF_PQ", "l2", **PQ)
    dataset = await alance.dataset(path)
    actual = await ours(dataset, queries("float32", 2), k=3, filter="id < 0")
    assert actual.num_rows == 0
    assert actual.column_names == ["query_index", "id", "_distance"]
    assert np.array(actual["query_index"]).dtype == np.int32
