"""Indices of vectors in structs and tensors, and of too few vectors, compared with pylance."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.errors import InvalidInputError
from tests.reference.thinned import paired

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DIM, COUNT = 16, 400
VECTORS = np.random.default_rng(7).random((COUNT + 100, DIM), np.float32)
KINDS = ("IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_RQ", "IVF_HNSW_SQ")
TENSOR = pa.fixed_shape_tensor(pa.float32(), [DIM])


def lists(vectors: np.ndarray[Any, Any]) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), DIM)


def in_struct(start: int, stop: int) -> pa.Table:
    members = [lists(VECTORS[start:stop]), pa.array(range(start, stop))]
    data = pa.StructArray.from_arrays(members, ["embedding", "number"])
    return pa.table({"id": range(start, stop), "data": data})


def in_tensors(start: int, stop: int, tensor: pa.DataType = TENSOR) -> pa.Table:
    tensors = pa.ExtensionArray.from_storage(tensor, lists(VECTORS[start:stop]))
    return pa.table({"id": range(start, stop), "tensor": tensors})


def arguments(kind: str) -> dict[str, Any]:
    return {"num_partitions": 2} | ({"num_sub_vectors": 4} if "PQ" in kind else {})


async def nearest(path: str, column: str, row: int, **options: Any) -> list[list[int]]:
    """Ids that alance and pylance return, each in a new session."""
    search = {"column": column, "q": VECTORS[row], "k": 3, "nprobes": 2, **options}
    dataset = await alance.dataset(path, session=alance.Session())
    own = await dataset.to_table(["id", "_distance"], nearest=search)
    theirs = lance.dataset(path).to_table(columns=["id", "_distance"], nearest=search)
    return [own["id"].to_pylist(), theirs["id"].to_pylist()]


@pytest.mark.parametrize(
    ("kind", "by_pylance", "column", "rows"),
    paired([*KINDS], [False, True], [("data.embedding", in_struct), ("tensor", in_tensors)]),
)
async def test_both_writers_build_search_and_extend_an_index_of_such_a_column(
    tmp_path: Path,
    column: str,
    rows: Callable[[int, int], pa.Table],
    by_pylance: bool,
    kind: str,
) -> None:
    path = str(tmp_path / "t.lance")
    dataset = await alance.write_dataset(rows(0, COUNT), path)
    if by_pylance:
        lance.dataset(path).create_index(column, kind, **arguments(kind))
    else:
        await dataset.create_index(column, kind, **arguments(kind))

    async def check(row: int) -> None:
        assert [ids[0] for ids in await nearest(path, column, row, refine_factor=10)] == [row, row]

    await check(5)
    await (await alance.dataset(path)).insert(rows(COUNT, COUNT + 50))
    await check(COUNT + 7)
    await (await alance.dataset(path)).optimize.optimize_indices()
    lance.dataset(path).insert(rows(COUNT + 50, COUNT + 100))
    lance.dataset(path).optimize.optimize_indices()
    await check(COUNT + 7)
    await check(COUNT + 77)
    await (await alance.dataset(path)).optimize.compact_files()
    for row in (5, COUNT + 7, COUNT + 77):
        await check(row)
    dataset = await alance.dataset(path)
    assert (await dataset.index_statistics(dataset.list_indices()[0]["name"]))[
        "num_unindexed_rows"
    ] == 0
    await dataset.validate()


async def test_a_struct_that_is_null_has_no_vector(tmp_path: Path) -> None:
    whole = in_struct(0, COUNT)["data"].combine_chunks()
    mask = pa.array([row % 4 == 0 for row in range(COUNT)])
    data = pa.StructArray.from_arrays(whole.flatten(), fields=[*whole.type], mask=mask)
    path = str(tmp_path / "t.lance")
    dataset = await alance.write_dataset(pa.table({"id": range(COUNT), "data": data}), path)
    dataset = await dataset.create_index("data.embedding", "IVF_FLAT", num_partitions=2)
    (ids, theirs) = await nearest(path, "data.embedding", 8)
    assert ids == theirs
    assert not [row for row in ids if row % 4 == 0]


@pytest.mark.parametrize(
    "tensor",
    [
        TENSOR,
        pa.fixed_shape_tensor(pa.float32(), [4, 4]),
        pa.fixed_shape_tensor(pa.float32(), [4, 4], permutation=[1, 0]),
    ],
    ids=str,
)
async def test_tensors_are_searched_as_the_lists_that_they_are_stored_as(
    tmp_path: Path, tensor: pa.DataType
) -> None:
    path = str(tmp_path / "t.lance")
    dataset = await alance.write_dataset(in_tensors(0, COUNT, tensor), path)
    ids, theirs = await nearest(path, "tensor", 5)
    assert ids == theirs
    await dataset.create_index("tensor", "IVF_FLAT", num_partitions=2)
    assert await nearest(path, "tensor", 5) == [ids, theirs]


async def test_tensors_of_other_numbers_are_refused_by_their_own_type(tmp_path: Path) -> None:
    tensor = pa.fixed_shape_tensor(pa.int32(), [4])
    values = pa.FixedSizeListArray.from_arrays(pa.array([1, 2, 3, 4], pa.int32()), 4)
    rows = pa.table({"t": pa.ExtensionArray.from_storage(tensor, values)})
    dataset = await alance.write_dataset(rows, tmp_path / "t.lance")
    with pytest.raises(InvalidInputError, match=r"of type extension<.*value_type=int32.*>: expec"):
        await dataset.nearest("t", [1, 2, 3, 4])


@pytest.mark.parametrize("by_pylance", [False, True], ids=["alance", "pylance"])
@pytest.mark.parametrize("kind", ["IVF_PQ", "IVF_HNSW_PQ"])
async def test_an_index_of_too_few_vectors_covers_none_until_there_are_enough(
    tmp_path: Path, kind: str, by_pylance: bool, caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = str(tmp_path / "ours.lance"), str(tmp_path / "theirs.lance")
    for path in (ours, theirs):
        await alance.write_dataset(in_tensors(0, 200), path)
    lance.dataset(theirs).create_index("tensor", kind, **arguments(kind))
    with caplog.at_level(logging.WARNING, "alance"):
        await (await alance.dataset(ours)).create_index("tensor", kind, **arguments(kind))
        assert "'tensor_idx' covers no rows until optimize_indices: num_bits=8" in caplog.text
        caplog.clear()
        assert await nearest(ours, "tensor", 5) == await nearest(theirs, "tensor", 5)
        assert caplog.text == ""
    (index,) = await (await alance.dataset(ours)).describe_indices()
    (other,) = await (await alance.dataset(theirs)).describe_indices()
    assert (index.index_type, index.details) == (other.index_type, other.details)
    assert (index.num_rows_indexed, other.num_rows_indexed) == (0, 0)
    dataset = await (await alance.dataset(ours)).insert(in_tensors(200, COUNT))
    if by_pylance:
        lance.dataset(ours).optimize.optimize_indices()
    else:
        await dataset.optimize.optimize_indices()
    (index,) = await (await alance.dataset(ours)).describe_indices()
    assert (index.index_type, index.num_rows_indexed) == (kind, COUNT)
    result = await nearest(ours, "tensor", 305, refine_factor=10)
    assert [ids[0] for ids in result] == [305, 305]


@pytest.mark.parametrize("options", [{"limit": 12}, {"limit": 5}, {"offset": 4}])
async def test_a_limit_is_the_number_of_rows_without_k(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    path = str(tmp_path / "t.lance")
    dataset = await alance.write_dataset(in_tensors(0, COUNT), path)
    search = {"column": "tensor", "q": VECTORS[0]}
    ids = (await dataset.to_table(["id"], nearest=search, **options))["id"].to_pylist()
    theirs = lance.dataset(path).to_table(columns=["id", "_distance"], nearest=search, **options)
    assert ids == theirs["id"].to_pylist()
    every = (await dataset.nearest("tensor", VECTORS[0], 20))["id"].to_pylist()
    part = (await dataset.to_table(["id"], nearest=search, limit=3, offset=4))["id"].to_pylist()
    assert part == every[4:7]


async def test_a_filter_after_a_search_may_name_the_distance_or_the_score(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    rows = in_tensors(0, COUNT).append_column(
        "text", [[f"word {'blue ' * (row % 5)}" for row in range(COUNT)]]
    )
    dataset = await alance.write_dataset(rows, path)
    search: dict[str, Any] = {"column": "tensor", "q": VECTORS[0], "k": 10}
    for condition in ("_distance < 1.5", "_distance < 1.5 AND id > 20", "id > 20"):
        result = await dataset.to_table(["id"], nearest=search, filter=condition)
        theirs = lance.dataset(path).to_table(
            columns=["id", "_distance"], nearest=search, filter=condition
        )
        assert result["id"].to_pylist() == theirs["id"].to_pylist()
        assert 0 < result.num_rows <= 10
    near = await dataset.nearest(
        "tensor", VECTORS[0], 10, prefilter=False, filter="_distance < ?", params=[1.5]
    )
    assert max(near["_distance"].to_pylist()) < 1.5
    with pytest.raises(InvalidInputError, match="unknown column '_distance'"):
        await dataset.nearest("tensor", VECTORS[0], 10, filter="_distance < 1.5")
    await dataset.create_scalar_index("text", "INVERTED")
    dataset = await alance.dataset(path)
    best = await dataset.search_text("blue", 50)
    least = sorted(best["_score"].to_pylist())[25]
    hits = await dataset.search_text("blue", 50, prefilter=False, filter=f"_score > {least}")
    assert hits["_score"].to_pylist() == [s for s in best["_score"].to_pylist() if s > least]
