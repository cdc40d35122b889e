"""Damaged and missing index files: the rows of a scan, or a clear error; never others."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.format.index.bitmap import parse_rows, rows_bytes
from alance.format.index.btree import parse_page_table
from tests.indices.index_cases import ids, plan_of
from tests.spoiling import spoiled_copies

if TYPE_CHECKING:
    from pathlib import Path

FILTERS = {"i": "i = 5 or i = 1700", "s": "s = 'v3'"}


def table(path: Path) -> lance.LanceDataset:
    k = range(9_000)
    columns = {"id": k, "i": [n * 37 % 2_000 for n in k], "s": [f"v{n % 50}" for n in k]}
    dataset = lance.write_dataset(pa.table(columns), path, max_rows_per_file=4_000)
    dataset.create_scalar_index("i", "BTREE")
    dataset.create_scalar_index("s", "BITMAP")
    return dataset


async def test_every_spoiled_file_gives_the_rows_of_a_scan_or_an_error(tmp_path: Path) -> None:
    table(tmp_path / "t")
    dataset = await alance.dataset(tmp_path / "t")
    expected = {
        column: await ids(dataset, item, use_scalar_index=False) for column, item in FILTERS.items()
    }
    wrong, unused = [], 0
    for place, name in spoiled_copies(tmp_path / "t", 60, seed=7):
        async with alance.Session() as session:
            copied = await alance.dataset(place, session=session)
            for column, condition in FILTERS.items():
                try:
                    row_ids = await ids(copied, condition)
                except alance.CorruptFileError:
                    continue
                assert set(row_ids) <= set(expected[column])  # never a row that is not asked for
                if row_ids != expected[column]:
                    wrong.append((name, place.name))
                lines = (await plan_of(copied, condition)).index_lines
                unused += any("not used" in line for line in lines)
    assert unused > 12
    assert not wrong


async def test_an_index_of_other_rows_is_found_out(tmp_path: Path) -> None:
    for name, factor in (("one", 37), ("other", 41)):
        values = pa.table({"id": range(9_000), "i": [n * factor % 2_000 for n in range(9_000)]})
        lance.write_dataset(values, tmp_path / name, max_rows_per_file=4_000)
        dataset = await alance.dataset(tmp_path / name)
        await dataset.create_scalar_index("i", "BTREE")
    ours, other = (next((tmp_path / name / "_indices").iterdir()) for name in ("one", "other"))
    for file in other.iterdir():
        assert file.stat().st_size == (ours / file.name).stat().st_size
        shutil.copy(file, ours / file.name)
    async with alance.Session() as session:
        dataset = await alance.dataset(tmp_path / "one", session=session)
        for condition in ("i = 5", "i = 5 and id > 10"):
            with pytest.raises(alance.CorruptFileError, match=r"is not what an index says.*i_idx"):
                await ids(dataset, condition)
        assert len(await ids(dataset, "i = 5", use_scalar_index=False)) == 5
        dataset = await dataset.create_scalar_index("i", "BTREE")
        assert len(await ids(dataset, "i = 5")) == 5


async def test_codes_without_the_number_of_their_codebook_are_refused(tmp_path: Path) -> None:
    vectors = np.random.default_rng(4).random((300, 8), np.float32)
    rows = {"v": pa.FixedSizeListArray.from_arrays(vectors.ravel(), 8)}
    dataset = await alance.write_dataset(pa.table(rows), tmp_path / "t")
    await dataset.create_index("v", "IVF_PQ", num_partitions=1, num_sub_vectors=2)
    (file,) = (tmp_path / "t" / "_indices").glob("*/auxiliary.idx")
    content = file.read_bytes()
    assert content.count(b"codebook_position") == 1
    file.write_bytes(content.replace(b"codebook_position", b"codebook_positiom"))
    async with alance.Session() as session:
        dataset = await alance.dataset(tmp_path / "t", session=session)
        with pytest.raises(alance.CorruptFileError, match="without the number of its codebook"):
            await dataset.nearest("v", vectors[7], 5)
        assert (await dataset.nearest("v", vectors[7], 5, use_index=False)).num_rows == 5


@pytest.mark.parametrize("column", FILTERS)
async def test_missing_index_files_cost_no_rows(tmp_path: Path, column: str) -> None:
    table(tmp_path / "t")
    dataset = await alance.dataset(tmp_path / "t")
    expected = await ids(dataset, FILTERS[column], use_scalar_index=False)
    (uuid,) = (index["uuid"] for index in dataset.list_indices() if index["fields"] == [column])
    shutil.rmtree(tmp_path / "t" / "_indices" / uuid)
    async with alance.Session() as session:
        dataset = await alance.dataset(tmp_path / "t", session=session)
        assert await ids(dataset, FILTERS[column]) == expected
        (line,) = (await plan_of(dataset, FILTERS[column])).index_lines
        assert f"index {column}_idx" in line
        assert "not used: " in line
        with pytest.raises(alance.NotFoundError):
            await dataset.index_statistics(f"{column}_idx")
        indexed = await dataset.create_scalar_index(column, "BTREE")
        assert (await plan_of(indexed, FILTERS[column])).picked or column == "s"


def test_damaged_row_sets_are_refused() -> None:
    chance = np.random.default_rng(1)
    for high in (1, 5, 1 << 20):
        rows = np.unique(chance.integers(0, high << 32, 3_000))
        assert np.array_equal(parse_rows(memoryview(rows_bytes(rows))).to_numpy(), rows)
    assert parse_rows(memoryview(rows_bytes(np.empty(0, np.int64)))).to_numpy().tolist() == []
    content = rows_bytes(np.arange(3_000) * 70_000)
    for stop in (0, 3, 4, 11, 12, 30, len(content) - 1):
        with pytest.raises(alance.CorruptFileError):
            parse_rows(memoryview(content[:stop]))
    with pytest.raises(alance.CorruptFileError, match="ends at"):
        parse_rows(memoryview(content + b"x"))
    with pytest.raises(alance.UnsupportedError, match="all rows"):
        parse_rows(memoryview(b"\x01\0\0\0\0\0\0\0\0\0\0\0"))


def test_contradictions_in_page_tables_are_refused() -> None:
    def parse(num_rows: int = 9, batch_size: str = "4", **changed: pa.Array) -> object:
        columns = {
            "min": pa.array([1, 4, 9]),
            "max": pa.array([4, 8, 9]),
            "null_count": pa.array([0, 0, 0], pa.uint32()),
            "page_idx": pa.array([0, 1, 2], pa.uint32()),
        }
        batch = pa.RecordBatch.from_pydict({**columns, **changed})
        return parse_page_table(batch, {"batch_size": batch_size}, {"page_data.lance": num_rows})

    turned = parse(page_idx=pa.array([2, 0, 1], pa.uint32()))
    assert turned.low.to_pylist() == [4, 9, 1]  # type: ignore[attr-defined]
    assert turned.place_of(2) == ("page_data.lance", 8, 9)  # type: ignore[attr-defined]
    for wrong in (
        {"num_rows": 13},
        {"num_rows": 8},
        {"batch_size": "0"},
        {"batch_size": "x"},
        {"page_idx": pa.array([0, 1, 1], pa.uint32())},
        {"page_idx": pa.array([0, 1, None], pa.uint32())},
        {"null_count": pa.array([0, 0, 2], pa.uint32())},
        {"null_count": pa.array([0.0, 0.0, 0.0])},
    ):
        with pytest.raises(alance.CorruptFileError, match="B-tree index"):
            parse(**wrong)  # type: ignore[arg-type]
