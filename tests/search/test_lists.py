"""Searches of lists of vectors beside pylance's."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.errors import InvalidInputError
from tests.search.search_cases import METRICS, agree, ids, ours, theirs

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

DIM = 8
INDICES: dict[str, dict[str, Any]] = {
    "IVF_FLAT": {},
    "IVF_PQ": {"num_sub_vectors": 4},
    "IVF_SQ": {},
}


def lists(num_rows: int, kind: str = "float32", first: int = 0, seed: int = 1) -> pa.Table:
    """Rows of up to five vectors; some lists are null."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 6, num_rows))]).astype(np.int32)
    values = rng.normal(size=(int(offsets[-1]), DIM))
    if kind == "uint8":
        values = np.clip(values * 40 + 128, 0, 255)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values.astype(kind).ravel()), DIM)
    mask = pa.array(rng.random(num_rows) < 0.05)
    column = pa.ListArray.from_arrays(pa.array(offsets), vectors, mask=mask)
    return pa.table({"id": np.arange(first, first + num_rows), "vec": column})


def query(width: int = 3, seed: int = 5) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(width, DIM)).astype(np.float32)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lists") / "table"
    lance.write_dataset(lists(1500), folder, max_rows_per_file=400)
    lance.dataset(folder).delete("id % 7 = 3")
    return folder


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("width", [None, 1, 3])
async def test_the_nearest_lists_are_those_that_pylance_finds(
    path: Path, metric: str, width: int | None
) -> None:
    dataset = await alance.dataset(path)
    q = query()[0] if width is None else query(width)
    for options in ({"k": 10}, {"k": 2000}, {"k": 7, "filter": "id > 900"}):
        own = await ours(dataset, q, metric=metric, **options)
        agree(own, theirs(path, q, metric=metric, prefilter=True, **options))


@pytest.mark.parametrize("kind", ["float16", "float64", "uint8"])
async def test_lists_of_other_numbers_are_searched(tmp_path: Path, kind: str) -> None:
    lance.write_dataset(lists(300, kind), tmp_path / "t")
    q = query() if kind != "uint8" else np.clip(query() * 40 + 128, 0, 255)
    q = q.astype(kind)
    own = await ours(await alance.dataset(tmp_path / "t"), q)
    agree(own, theirs(tmp_path / "t", q, k=10), tolerance=2e-3 if kind == "float16" else 1e-5)


@pytest.mark.parametrize("kind", INDICES)
async def test_an_index_finds_the_lists_that_pylance_finds_by_it(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t"
    lance.write_dataset(lists(1500), path, max_rows_per_file=400)
    lance.dataset(path).create_index(
        "vec", kind, metric="cosine", num_partitions=4, **INDICES[kind]
    )
    lance.dataset(path).delete("id % 7 = 3")
    scale = 1 if kind == "IVF_FLAT" else 0.5  # pylance gives twice 1 - cos for codes
    dataset = await alance.dataset(path)
    for nprobes in (1, 4):
        for q in (query(), query(1), query()[0]):
            own = await ours(dataset, q, nprobes=nprobes)
            agree(own, theirs(path, q, nprobes=nprobes, k=10), scale=scale)
            own = await ours(dataset, q, nprobes=nprobes, refine_factor=3)
            agree(own, theirs(path, q, nprobes=nprobes, k=10, refine_factor=3))
    own = await ours(dataset, query(), nprobes=4, filter="id < 900")
    right = theirs(path, query(), nprobes=4, k=10, filter="id < 900", prefilter=True)
    agree(own, right, scale=scale)
    lance.write_dataset(lists(50, first=1500, seed=2), path, mode="append")
    dataset = await alance.dataset(path)
    agree(await ours(dataset, query(), nprobes=4), theirs(path, query(), nprobes=4, k=10))


async def test_queries_of_several_vectors_go_together(path: Path) -> None:
    dataset = await alance.dataset(path)
    queries = [query(4, seed) for seed in range(5)]
    alone = [await ours(dataset, q) for q in queries]
    at_once = await asyncio.gather(*(ours(dataset, q) for q in queries))
    assert [ids(rows) for rows in at_once] == [ids(rows) for rows in alone]
    batch = await dataset.nearest_many("vec", np.stack(queries), columns=["id"])
    assert batch["query_index"].to_pylist() == [n for n in range(5) for _ in range(10)]
    assert ids(batch) == [row for rows in alone for row in ids(rows)]


async def test_distances_of_lists_are_kept_by_their_range(path: Path) -> None:
    dataset = await alance.dataset(path)
    every = await ours(dataset, query(), k=2000)
    distances = np.array(every["_distance"])
    low, high = float(distances[10]), float(distances[400])
    own = await ours(dataset, query(), k=2000, distance_range=(low, high))
    assert ids(own) == ids(every)[10:400]


async def test_lists_that_an_index_takes_for_too_near_are_compared_exactly(tmp_path: Path) -> None:
    lance.write_dataset(lists(800), tmp_path / "t")
    dataset = await alance.dataset(tmp_path / "t")
    options = {"metric": "cosine", "num_sub_vectors": 4, "num_bits": 4, "num_partitions": 1}
    dataset = await dataset.create_index("vec", "IVF_PQ", **options)
    request = {"k": 200, "refine_factor": 2}
    every = await ours(dataset, query(), **request)
    for place in (5, 50):
        bounds = (every["_distance"][place].as_py(), every["_distance"][150].as_py())
        own = await ours(dataset, query(), **request, distance_range=bounds)
        assert ids(own) == ids(every)[place:150]


async def test_vectors_with_nan_and_lists_without_vectors_are_passed_over(tmp_path: Path) -> None:
    nan = float("nan")
    rows = [[[1, 0], [0, 1]], [[nan, 0], [0, 1]], [[nan, nan]], None, [], [[1, 1]]]
    column = pa.array(rows, pa.list_(pa.list_(pa.float32(), 2)))
    lance.write_dataset(pa.table({"id": range(6), "vec": column}), tmp_path / "t")
    dataset = await alance.dataset(tmp_path / "t")
    own = await ours(dataset, np.eye(2))
    assert (ids(own), own["_distance"].to_pylist()) == ([0, 1, 5], [0.0, 2.0, 2.0])
    agree(own, theirs(tmp_path / "t", np.eye(2, dtype=np.float32), k=10))


async def test_queries_of_another_shape_are_refused(path: Path) -> None:
    dataset = await alance.dataset(path)
    bad: list[Any] = [np.ones(DIM + 1), np.ones((0, DIM)), np.ones((2, 0, DIM)), np.ones((1,) * 4)]
    for q in bad:
        with pytest.raises(InvalidInputError, match="shape"):
            await ours(dataset, q)
    with pytest.raises(InvalidInputError, match="one of matrices"):
        await dataset.nearest_many("vec", query())
