"""Vector indices of lists of vectors, and of bfloat16."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.arrow import bfloat16_array

import alance
from alance.errors import InvalidInputError
from alance.format.proto import vector_index_pb2
from alance.indexing import IndexBuild
from tests.indices.test_indices_moved import unindexed
from tests.indices.test_vectors_built import KINDS, clustered
from tests.reference.thinned import thinned
from tests.search.search_cases import agree
from tests.search.test_lists import lists as rows_of_lists
from tests.search.test_lists import query

if TYPE_CHECKING:
    from pathlib import Path

LISTS: list[tuple[str, dict[str, Any]]] = [
    ("IVF_FLAT", {}),
    ("IVF_PQ", {"num_sub_vectors": 4}),
    ("IVF_SQ", {}),
    ("IVF_RQ", {"num_bits": 5}),
    ("IVF_HNSW_SQ", {}),
]


def theirs(path: Path, **options: Any) -> pa.Table:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        request = {"column": "vec", "q": query(), "k": 10, **options}
        return lance.dataset(path).to_table(["id", "_distance"], nearest=request)


async def check_equal_answers(path: Path, kind: str) -> None:
    """Both libraries find the same rows by the index, and it finds what there is."""
    dataset = await alance.dataset(path)
    by_index = {"nprobes": 4, "refine_factor": 5}
    own = await dataset.nearest("vec", query(), columns=["id"], **by_index)
    right = theirs(path, **by_index)
    if "HNSW" in kind:  # pylance follows graphs even where all rows are compared as fast
        assert len(set(own["id"].to_pylist()) & set(right["id"].to_pylist())) >= 7
    else:
        agree(own, right)
    every = await dataset.nearest("vec", query(), columns=["id"], use_index=False, metric="cosine")
    assert len(set(own["id"].to_pylist()) & set(every["id"].to_pylist())) >= 5


@pytest.mark.parametrize(("kind", "options", "stable"), thinned(LISTS, (False, True)))
async def test_lists_are_indexed_for_both_libraries(
    tmp_path: Path, kind: str, options: dict[str, Any], stable: bool
) -> None:
    path = tmp_path / "t"
    lance.write_dataset(
        rows_of_lists(1500), path, max_rows_per_file=400, enable_stable_row_ids=stable
    )
    dataset = await alance.dataset(path)
    more = {"metric": "cosine", "num_partitions": 4, **options}
    dataset = await dataset.create_index("vec", kind, **more)
    assert unindexed(path) == {"vec_idx": 0}
    await check_equal_answers(path, kind)
    dataset = await dataset.insert(rows_of_lists(300, first=1500, seed=2))
    dataset = await dataset.optimize.optimize_indices()
    assert unindexed(path) == {"vec_idx": 0}
    await check_equal_answers(path, kind)
    dataset = await dataset.delete("id % 5 = 1")
    await dataset.optimize.compact_files(target_rows_per_fragment=5000)
    assert unindexed(path) == {"vec_idx": 0}
    await check_equal_answers(path, kind)
    lance.write_dataset(rows_of_lists(100, first=1800, seed=3), path, mode="append")
    lance.dataset(path).optimize.optimize_indices()
    await check_equal_answers(path, kind)


async def test_an_index_of_lists_is_made_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "t"
    lance.write_dataset(rows_of_lists(1500), path, max_rows_per_file=400)
    dataset = await alance.dataset(path)
    plan = await IndexBuild.plan(
        dataset, "vec", "IVF_SQ", task_bytes=20_000, metric="cosine", vectors={"num_partitions": 4}
    )
    parts = [await task.execute(dataset) for task in plan.tasks]
    segment = await IndexBuild.merge(dataset, plan, parts)
    await IndexBuild.commit(dataset, plan, segment)
    assert unindexed(path) == {"vec_idx": 0}
    await check_equal_answers(path, "IVF_SQ")


async def test_the_default_number_of_partitions_counts_vectors(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(rows_of_lists(4000), tmp_path / "t")
    num_vectors = sum(map(len, filter(None, rows_of_lists(4000)["vec"].to_pylist())))
    dataset = await dataset.create_index(
        "vec", "IVF_SQ", metric="cosine", target_partition_size=500
    )
    explained = str(await dataset.scanner(nearest={"column": "vec", "q": query()}).explain())
    most = num_vectors // 500
    assert any(f" of {count} partitions" in explained for count in range(most - 2, most + 3))


async def test_lists_are_indexed_by_cosine_alone(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(rows_of_lists(300), tmp_path / "t")
    with pytest.raises(InvalidInputError, match="by cosine"):
        await dataset.create_index("vec", "IVF_FLAT", metric="l2")
    with pytest.raises(Exception, match="only cosine"):
        lance.dataset(tmp_path / "t").create_index("vec", "IVF_FLAT", metric="l2")


def short(values: np.ndarray[Any, Any]) -> pa.Table:
    """Rows of bfloat16."""
    items = bfloat16_array(values.reshape(-1).tolist())
    column = pa.FixedSizeListArray.from_arrays(items, values.shape[1])
    return pa.table({"id": range(len(values)), "vec": column})


@pytest.mark.parametrize(
    ("kind", "options", "metric"),
    thinned([*KINDS, ("IVF_HNSW_FLAT", {})], ["l2", "cosine", "dot"], part=3),
)
async def test_short_floats_are_indexed(
    tmp_path: Path, kind: str, options: dict[str, Any], metric: str
) -> None:
    path = tmp_path / "t"
    dataset = await alance.write_dataset(short(clustered(3000, 1)), path, max_rows_per_file=1000)
    dataset = await dataset.create_index("vec", kind, metric=metric, num_partitions=4, **options)
    queries = clustered(20, 99)
    request = {"columns": ["id"], "metric": metric}
    for repeat in range(2):
        exact = await dataset.nearest_many("vec", queries, use_index=False, **request)
        own = await dataset.nearest_many("vec", queries, nprobes=4, refine_factor=10, **request)
        share = np.mean(np.array(own["id"]) == np.array(exact["id"]))
        assert share > 0.9
        if not repeat:
            dataset = await dataset.insert(short(clustered(300, 5)))
            dataset = await dataset.optimize.optimize_indices()
            dataset = await dataset.optimize.compact_files(target_rows_per_fragment=9000)


@pytest.mark.parametrize(("kind", "options", "stable"), thinned(LISTS, (False, True)))
async def test_a_partition_of_lists_that_has_grown_is_parted(
    tmp_path: Path, kind: str, options: dict[str, Any], stable: bool
) -> None:
    path = tmp_path / "t"
    lance.write_dataset(rows_of_lists(800), path, enable_stable_row_ids=stable)
    dataset = await alance.dataset(path)
    await dataset.create_index("vec", kind, metric="cosine", num_partitions=8, **options)
    rng = np.random.default_rng(4)  # vectors near one, in lists with others
    near = rng.normal(size=(1, 8)) + 0.2 * rng.normal(size=(1500, 8))
    values = np.concatenate([near, rng.normal(size=(500, 8))]).astype(np.float32)
    values = values.reshape(4, 500, 8).transpose(1, 0, 2).reshape(-1)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values), 8)
    column = pa.ListArray.from_arrays(pa.array(np.arange(0, 2001, 4, np.int32)), vectors)
    dataset = await alance.dataset(path)
    await dataset.insert(pa.table({"id": np.arange(800, 1300), "vec": column}))
    dataset = await (await alance.dataset(path)).optimize.optimize_indices(num_indices_to_merge=0)
    dataset = await dataset.delete("id % 50 = 0")
    dataset = await dataset.insert(rows_of_lists(20, first=1300, seed=2))
    dataset = await dataset.optimize.optimize_indices(num_indices_to_merge=2)
    assert unindexed(path) == {"vec_idx": 0}
    (segment,) = dataset.list_indices()
    folder = path / "_indices" / segment["uuid"]
    stored = await (await alance.FileReader.open(folder / "auxiliary.idx")).to_table()
    rows = await dataset.to_table(["_rowid", "vec"])
    every = {
        row["_rowid"]: len(row["vec"])
        for row in rows.select(["_rowid", "vec"]).to_pylist()
        if row["vec"]
    }
    assert Counter(stored["_rowid"].to_pylist()) == every
    head = await alance.FileReader.open(folder / "index.idx")
    message = await head.global_buffer(1)
    assert 8 + 3 <= len(vector_index_pb2.IVF.FromString(message).lengths) <= 8 + 10
    await check_equal_answers(path, kind)
