"""Columns of 2.3 that have pages of unusual kinds, and tables of several file versions."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from tests.reference.compare import assert_equal_rows
from tests.v2_3.planar import SPARSE, planes_of

if TYPE_CHECKING:
    from pathlib import Path


async def check(path: Path, expected: pa.ChunkedArray | pa.Array) -> None:
    """Everything, any rows, and ranges of a table of one column."""
    ours = await alance.dataset(str(path))
    rows = expected.to_pylist()
    assert (await ours.to_table()).column(0).to_pylist() == rows
    sample = random.Random(1).sample(range(len(rows)), min(20, len(rows)))
    for numbers in (sample, sorted(sample), [len(rows) - 1], [0, 1, 2]):
        table = await ours.take(numbers)
        assert table.column(0).to_pylist() == [rows[number] for number in numbers]
    first = len(rows) // 3
    table = await ours.to_table(offset=first, limit=5)
    assert table.column(0).to_pylist() == rows[first : first + 5]


def written(path: Path, field: pa.Field, array: pa.Array) -> Path:
    lance.write_dataset(
        pa.table([array], schema=pa.schema([field])), path, data_storage_version="2.3"
    )
    return path


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
@pytest.mark.parametrize("size", [2_000, 40_000])
async def test_single_long_values_are_taken_by_their_index(
    tmp_path: Path, kind: pa.DataType, size: int
) -> None:
    """Few long values among many nulls; of 40 000 letters each, items stay on the store."""
    rng = random.Random(size)
    words = [rng.randbytes(size).hex() for _ in range(40)]
    values = [None if rng.random() < 0.7 else rng.choice(words) for _ in range(600)]
    encoded = [value and (value.encode() if "binary" in str(kind) else value) for value in values]
    array = pa.array(encoded, kind)
    path = written(tmp_path / "t", pa.field("x", kind), array)
    kinds = planes_of(path)
    assert ("sparse", "indexed") in kinds or ("sparse", "chunked") in kinds
    if size > 30_000:
        assert ("sparse", "indexed") in kinds
    await check(path, array)


async def test_zipped_values_of_few_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    numbers = rng.random((500, 128)).astype(np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(
        pa.array(numbers.ravel()), 128, mask=pa.array(rng.random(500) < 0.8)
    )
    path = written(tmp_path / "v", pa.field("x", vectors.type), vectors)
    assert planes_of(path) == {("sparse", "zipped"): 1}
    await check(path, vectors)
    blobs = [rng.bytes(rng.integers(300, 900)) if rng.random() < 0.2 else None for _ in range(500)]
    array = pa.array(blobs, pa.binary())
    path = written(tmp_path / "b", pa.field("x", pa.binary()), array)
    assert planes_of(path) == {("sparse", "zipped"): 1}
    await check(path, array)


async def test_lists_of_few_long_values(tmp_path: Path) -> None:
    values = [[bytes([row % 256]) * 300] if row % 50 == 0 else [] for row in range(20_000)]
    array = pa.array(values, pa.list_(pa.binary()))
    path = written(tmp_path / "t", pa.field("x", array.type), array)
    await check(path, array)


def structs_in_vectors(rows: int, inner: pa.Array, mask: pa.Array | None) -> pa.Array:
    structs = pa.StructArray.from_arrays([inner], fields=[pa.field("l", inner.type)])
    return pa.FixedSizeListArray.from_arrays(
        structs, type=pa.list_(pa.field("item", structs.type), len(structs) // rows), mask=mask
    )


@pytest.mark.parametrize("metadata", [None, SPARSE])
async def test_lists_in_fixed_size_lists(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    rng = random.Random(3)
    items = pa.list_(pa.field("item", pa.string(), metadata=metadata))
    inner = pa.array(
        [
            None if rng.random() < 0.2 else [rng.choice("abc") for _ in range(rng.randrange(4))]
            for _ in range(180)
        ],
        pa.list_(pa.string()),
    ).cast(items)
    vectors = structs_in_vectors(60, inner, pa.array([row % 4 == 1 for row in range(60)]))
    path = written(tmp_path / "t", pa.field("x", vectors.type), vectors)
    assert {structure for structure, _ in planes_of(path)} == {"sparse"}
    await check(path, vectors)
    around = pa.StructArray.from_arrays(
        [vectors], fields=[pa.field("v", vectors.type)],
        mask=pa.array([row % 5 == 2 for row in range(60)]),
    )  # fmt: skip
    path = written(tmp_path / "s", pa.field("x", around.type), around)
    await check(path, around)


async def test_fixed_size_lists_in_lists(tmp_path: Path) -> None:
    rng = random.Random(4)
    items = pa.array([None if rng.random() < 0.3 else rng.random() for _ in range(200)])
    vectors = structs_in_vectors(100, items, pa.array([row % 3 == 0 for row in range(100)]))
    ends = sorted(rng.randrange(101) for _ in range(49))
    lists = pa.ListArray.from_arrays(pa.array([0, *ends, 100], pa.int32()), vectors)
    path = written(tmp_path / "t", pa.field("x", lists.type), lists)
    assert {structure for structure, _ in planes_of(path)} == {"sparse"}
    await check(path, lists)
    twice = pa.ListArray.from_arrays(pa.array([0, 7, 7, 20, 50], pa.int32()), lists)
    path = written(tmp_path / "l", pa.field("x", twice.type), twice)
    await check(path, twice)


async def test_pages_of_both_structures(tmp_path: Path) -> None:
    """A column whose pages are dense and sparse by turns, read across them."""

    def part(nulls: float) -> pa.Array:
        rng = np.random.default_rng(int(nulls * 10))
        values = rng.random(300 * 2 * 40)
        floats = pa.FixedSizeListArray.from_arrays(
            pa.array(values), 40, mask=pa.array(rng.random(600) < nulls)
        )
        return structs_in_vectors(300, floats, None)

    parts = [part(nulls) for nulls in (0.0, 0.9, 0.3, 1.0)]
    schema = pa.schema([pa.field("x", parts[0].type)])
    for item in parts:
        lance.write_dataset(
            pa.table([item], schema=schema), tmp_path / "t", mode="append",
            data_storage_version="2.3",
        )  # fmt: skip
    assert len({structure for structure, _ in planes_of(tmp_path / "t")}) == 2
    await check(tmp_path / "t", pa.chunked_array(parts))


async def test_budget_of_levels(tmp_path: Path) -> None:
    """Very many empty lists between few values."""
    lists = [[1, 2] if row % 70_000 == 5 else [] for row in range(200_000)]
    array = pa.array(lists, pa.list_(pa.int32()))
    path = written(tmp_path / "t", pa.field("x", array.type), array)
    await check(path, array)


async def test_files_of_several_versions(tmp_path: Path) -> None:
    """A table of 2.1 files, and then of 2.2 and 2.3."""
    uri = str(tmp_path / "t")
    rng = random.Random(8)
    for version in ("2.1", "2.2", "2.3"):
        table = pa.table(
            {
                "n": [rng.randrange(1000) for _ in range(400)],
                "s": [None if rng.random() < 0.6 else f"text {rng.random()}" for _ in range(400)],
                "l": [[rng.random()] * rng.randrange(3) for _ in range(400)],
            }
        )
        lance.write_dataset(
            table, uri, mode="append", data_storage_version=version, enable_stable_row_ids=False
        )
    theirs = lance.dataset(uri)
    ours = await alance.dataset(uri)
    assert_equal_rows(await ours.to_table(), theirs.to_table())
    rows = rng.sample(range(1200), 90)
    assert_equal_rows(await ours.take(rows), theirs.take(rows))
    assert_equal_rows(await ours.to_table(filter="n < 100"), theirs.to_table(filter="n < 100"))


async def test_compaction_of_many_small_files(tmp_path: Path) -> None:
    """Pages of many files that are decoded as one: dense, sparse, offsets as sequences."""
    uri = str(tmp_path / "t")
    rng = random.Random(9)
    for number in range(12):
        nulls = rng.choice([0.0, 0.5, 0.9])
        values = [None if rng.random() < nulls else rng.randrange(9) for _ in range(70)]
        table = pa.table(
            {
                "n": pa.array(range(70)),
                "s": [None if value is None else f"{'x' * value}{number}" for value in values],
                "seven": pa.array([None if value is None else 7 for value in values], pa.int64()),
                "l": pa.array(
                    [None if value is None else [value] * (value % 3) for value in values]
                ),
                "wide": pa.array(
                    [rng.randbytes(300) if value else None for value in values], pa.binary()
                ),
            },
            schema=pa.schema(
                [
                    pa.field("n", pa.int64()),
                    pa.field("s", pa.string()),
                    pa.field("seven", pa.int64()),
                    pa.field("l", pa.list_(pa.int64())),
                    pa.field("wide", pa.binary()),
                ]
            ),
        )
        lance.write_dataset(table, uri, mode="append", data_storage_version="2.3")
    rows = lance.dataset(uri).to_table().to_pylist()
    ours = await alance.dataset(uri)
    with pytest.warns(UserWarning, match=r"2\.3 is unstable"):
        await ours.optimize.compact_files()
    theirs = lance.dataset(uri)
    assert len(theirs.get_fragments()) == 1
    assert theirs.to_table().to_pylist() == rows
    assert (await (await alance.dataset(uri)).to_table()).to_pylist() == rows
