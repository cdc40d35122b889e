"""Damaged and missing files of vector indices: a clear error, or the rows that are right."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING

import lance
import numpy as np
import pytest

import alance
from alance.format.index.ivf import Centroids, partition_offsets, storage_metadata, tensor
from alance.format.proto import vector_index_pb2
from tests.search.search_cases import ids, ours, queries, table, written
from tests.search.test_indexed import EACH, index
from tests.spoiling import spoiled

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("which", ["flat", "pq", "sq", "rq, 5 bits"])
async def test_spoiled_files_give_errors_and_no_crash(tmp_path: Path, which: str) -> None:
    name, options, *_ = EACH[which]
    written(tmp_path / "t", deletes=False)
    index(tmp_path / "t", name, "l2", **options)
    chance, errors = random.Random(3), 0
    files = sorted((tmp_path / "t" / "_indices").glob("*/*.idx"))
    live = {*range(3000)}
    for number in range(40):
        file = files[number % 2]
        content = spoiled(file.read_bytes(), number, chance)
        place = tmp_path / "c"
        shutil.copytree(tmp_path / "t", place)
        (place / file.relative_to(tmp_path / "t")).write_bytes(content)
        async with alance.Session() as session:
            dataset = await alance.dataset(place, session=session)
            try:
                actual = await ours(dataset, queries("float32", 1)[0], k=10, nprobes=6)
                assert set(ids(actual)) <= live
            except alance.CorruptFileError:
                errors += 1
        shutil.rmtree(place)
    assert errors > 5


@pytest.mark.parametrize("columns", [["id"], ["_rowid"]], ids=str)
async def test_an_index_of_rows_that_are_not_there_is_an_error(
    tmp_path: Path, columns: list[str]
) -> None:
    """The error is raised with and without a read of these rows."""
    for name, max_rows in (("t", 1100), ("other", 5000)):
        lance.write_dataset(table("float32"), tmp_path / name, max_rows_per_file=max_rows)
        lance.dataset(tmp_path / name).create_index("vec", "IVF_FLAT", num_partitions=1)
    own, other = (
        next((tmp_path / name / "_indices").glob("*/auxiliary.idx")) for name in ("t", "other")
    )
    size, content = own.stat().st_size, other.read_bytes()
    assert size >= len(content)
    footer = 40
    own.write_bytes(content[:-footer] + bytes(size - len(content)) + content[-footer:])
    dataset = await alance.dataset(tmp_path / "t")
    q = queries("float32", 1)[0]
    with pytest.raises(
        alance.CorruptFileError, match=r"row \d+ of fragment 0, which has 1100"
    ) as e:
        await dataset.nearest("vec", q, 3000, columns=columns)
    assert "use_index=False" in str(e.value.__notes__)


@pytest.mark.parametrize("file", ["index.idx", "auxiliary.idx"])
async def test_a_missing_file_is_named_and_the_search_goes_without_it(
    tmp_path: Path, file: str
) -> None:
    written(tmp_path / "t")
    index(tmp_path / "t", "IVF_SQ", "l2")
    (result,) = (tmp_path / "t" / "_indices").glob(f"*/{file}")
    result.unlink()
    dataset = await alance.dataset(tmp_path / "t")
    q = queries("float32", 1)[0]
    with pytest.raises(alance.NotFoundError, match=file) as caught:
        await ours(dataset, q)
    assert "use_index=False" in str(caught.value.__notes__)
    assert len(await ours(dataset, q, use_index=False)) == 10


def message(**values: object) -> memoryview:
    return memoryview(vector_index_pb2.IVF(**values).SerializeToString())


@pytest.mark.parametrize(
    ("type_", "metric"), [("IVF_XQ", "l2"), ("FLAT", "l2"), ("IVF_PQ", "jaccard"), ("", "")]
)
def test_an_index_of_another_type_is_not_supported(type_: str, metric: str) -> None:
    text = f'{{"type": "{type_}", "distance_type": "{metric}"}}'
    with pytest.raises(alance.UnsupportedError):
        Centroids.parse({"lance:index": text}, message())


@pytest.mark.parametrize(
    ("metadata", "content"),
    [
        ({}, b""),
        ({"lance:index": "{"}, b""),
        ({"lance:index": '{"type": "IVF_PQ", "distance_type": "l2"}'}, b""),
        ({"lance:index": '{"type": "IVF_PQ", "distance_type": "l2"}'}, b"\xff\xff"),
    ],
)
def test_centroids_that_are_none_are_refused(metadata: dict[str, str], content: bytes) -> None:
    with pytest.raises(alance.CorruptFileError):
        Centroids.parse(metadata, memoryview(content))


def test_a_tensor_has_as_many_bytes_as_its_shape_says() -> None:
    values = np.arange(6, dtype=np.float16).reshape(2, 3)
    right = vector_index_pb2.Tensor(data_type=1, shape=[2, 3], data=values.tobytes())
    assert tensor(right, 2).tolist() == values.tolist()
    for shape in ([3, 3], [2], [0, 3], [2, 1 << 31], [1 << 31, 1 << 31]):
        right.ClearField("shape")
        right.shape.extend(shape)
        with pytest.raises(alance.CorruptFileError):
            tensor(right, 2)
    with pytest.raises(alance.UnsupportedError, match="UINT64"):
        tensor(vector_index_pb2.Tensor(data_type=7, shape=[1, 1], data=bytes(8)), 2)


def test_partitions_are_the_rows_of_the_file_one_after_the_other() -> None:
    right = message(offsets=[0, 3, 3], lengths=[3, 0, 2])
    assert partition_offsets(right, 3, 5).tolist() == [0, 3, 3, 5]
    for bad, count, rows in (
        (message(offsets=[0, 3, 3], lengths=[3, 0, 2]), 2, 5),
        (message(offsets=[0, 3, 3], lengths=[3, 0, 2]), 3, 6),
        (message(offsets=[0, 3, 4], lengths=[3, 0, 2]), 3, 5),
        (message(offsets=[3, 0], lengths=[2, 3]), 2, 5),
    ):
        with pytest.raises(alance.CorruptFileError):
            partition_offsets(bad, count, rows)


@pytest.mark.parametrize("text", ["[]", '["{}", "{}"]', '[{"a": 1}]', '["["]', "7", '["7"]'])
def test_metadata_of_storage_are_json_in_json(text: str) -> None:
    with pytest.raises(alance.CorruptFileError):
        storage_metadata({"storage_metadata": text})
