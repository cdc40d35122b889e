"""`Dataset.centroids`, and what `index_statistics` tells of partitions, beside pylance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.dataset import VectorIndexReader

import alance
import alance.sync
from alance import InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from pathlib import Path

DIM = 8
KINDS: dict[str, dict[str, Any]] = {
    "IVF_FLAT": {},
    "IVF_PQ": {"num_sub_vectors": 2, "metric": "cosine"},
    "IVF_SQ": {"metric": "dot"},
    "IVF_HNSW_SQ": {},
}


def vectors(dtype: str = "float32", num_rows: int = 400) -> pa.Table:
    values = np.random.default_rng(1).normal(size=num_rows * DIM).astype(dtype)
    column = pa.FixedSizeListArray.from_arrays(pa.array(values), DIM)
    return pa.table({"v": column, "k": range(num_rows)})


async def assert_equal_listing(dataset: alance.Dataset, theirs: lance.LanceDataset) -> None:
    ours = await dataset.centroids(index_name="v_idx")
    expected = theirs.get_ivf_model("v_idx").centroids
    assert ours.type == expected.type
    assert ours.equals(expected)
    assert (await dataset.centroids(column="v")).equals(theirs.centroids(column="v"))
    statistics = await dataset.index_statistics("v_idx")
    details = theirs.stats.index_stats("v_idx")["indices"]
    keys = ("index_type", "uuid", "metric_type", "num_partitions", "partitions")
    assert statistics["indices"] == [{key: entry[key] for key in keys} for entry in details]
    reader = VectorIndexReader(theirs, "v_idx")
    first = statistics["indices"][0]
    assert first["num_partitions"] == reader.num_partitions() == len(ours)
    sizes = [reader.read_partition(part).num_rows for part in range(len(ours))]
    if len(statistics["indices"]) == 1:
        assert [part["size"] for part in first["partitions"]] == sizes


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by_pylance", [True, False])
async def test_partitions_are_those_of_pylance(tmp_path: Path, kind: str, by_pylance: bool) -> None:
    path, options = tmp_path / "t", {"num_partitions": 3, **KINDS[kind]}
    dataset = await alance.write_dataset(vectors(), path)
    if by_pylance:
        lance.dataset(path).create_index("v", kind, **options)
    else:
        await dataset.create_index("v", kind, **options)
    await assert_equal_listing(await dataset.checkout_latest(), lance.dataset(path))


@pytest.mark.parametrize("dtype", ["float16", "float64"])
async def test_centroids_have_the_type_that_they_are_stored_in(tmp_path: Path, dtype: str) -> None:
    dataset = await alance.write_dataset(vectors(dtype), tmp_path / "t")
    dataset = await dataset.create_index("v", "IVF_FLAT", num_partitions=3)
    await assert_equal_listing(dataset, lance.dataset(tmp_path / "t"))


async def test_of_several_segments_the_first_is_told(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(vectors(), tmp_path / "t")
    await dataset.create_index("v", "IVF_FLAT", num_partitions=3)
    theirs = lance.dataset(tmp_path / "t")
    theirs.insert(vectors(num_rows=100))
    theirs.optimize.optimize_indices(num_indices_to_merge=0)
    dataset = await dataset.checkout_latest()
    assert (await dataset.index_statistics("v_idx"))["num_segments"] == 2
    await assert_equal_listing(dataset, lance.dataset(tmp_path / "t"))


async def test_indices_without_centroids_are_refused(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(vectors(), tmp_path / "t")
    dataset = await dataset.create_scalar_index("k", "BTREE")
    with pytest.raises(InvalidInputError, match=r"expected index_name= or column="):
        await dataset.centroids()
    with pytest.raises(InvalidInputError, match="index 'k_idx': not of vectors"):
        await dataset.centroids(index_name="k_idx")
    for candidate in ({"column": "k"}, {"column": "v"}, {"index_name": "other"}):
        with pytest.raises(NotFoundError):
            await dataset.centroids(**candidate)


def test_the_blocking_face_has_them(tmp_path: Path) -> None:
    dataset = alance.sync.write_dataset(vectors(), tmp_path / "t")
    dataset = dataset.create_index("v", "IVF_FLAT", num_partitions=3)
    assert len(dataset.centroids(column="v")) == 3
