"""The first rows of a table: few rows of a limit are taken, and more are scanned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.ops.read import scan

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 3000


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> lance.LanceDataset:
    path = tmp_path_factory.mktemp("first") / "t.lance"
    numbers = np.arange(ROWS)
    rows = pa.table({"id": numbers, "text": [f"row {n}" for n in numbers.tolist()]})
    dataset = lance.write_dataset(rows, path, max_rows_per_file=1000)
    dataset.delete("id % 5 = 1 and id < 2100")
    return dataset


@pytest.mark.parametrize("limit", [1, 7, 128, 129, 1000])
@pytest.mark.parametrize("offset", [0, 1, 740, 799, 800, 2300])
async def test_rows_of_a_limit_are_those_of_pylance(
    written: lance.LanceDataset, limit: int, offset: int
) -> None:
    dataset = await alance.dataset(written.uri)
    for columns in (None, ["text"]):
        table = await dataset.to_table(
            columns, limit=limit, offset=offset, with_row_id=True, with_row_address=True
        )
        right = written.to_table(
            columns, limit=limit, offset=offset, with_row_id=True, with_row_address=True
        )
        assert table.to_pylist() == right.to_pylist()


async def test_deleted_rows_of_a_limit_are_read_on_request(written: lance.LanceDataset) -> None:
    dataset = await alance.dataset(written.uri)
    table = await dataset.to_table(limit=4, include_deleted_rows=True, with_row_id=True)
    assert table["id"].to_pylist() == [0, 1, 2, 3]
    assert table["_rowid"].to_pylist() == [0, None, 2, 3]


async def test_a_batch_of_a_limit_has_the_requested_size(
    written: lance.LanceDataset,
) -> None:
    dataset = await alance.dataset(written.uri)
    batches = [batch async for batch in dataset.to_batches(limit=100, batch_size=30)]
    assert [len(batch) for batch in batches] == [30, 30, 30, 10]


async def test_large_rows_of_a_limit_are_taken_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "PICKED_BYTES", 40_000)
    rng = np.random.default_rng(1)
    rows = pa.table({"value": [rng.bytes(2000) for _ in range(100)]})
    dataset = await alance.write_dataset(rows, tmp_path / "t")
    batches = [batch async for batch in dataset.to_batches(limit=90)]
    assert pa.Table.from_batches(batches).equals(rows.slice(0, 90))
    assert max(map(len, batches)) <= 20


async def test_first_rows_in_order_may_be_null_structs_of_members_that_are_not(
    tmp_path: Path,
) -> None:
    member = pa.field("f", pa.int64(), nullable=False)
    structs = pa.array([{"f": 1}, None, {"f": 3}], pa.struct([member]))
    dataset = await alance.write_dataset(pa.table({"id": [1, 2, 3], "c": structs}), tmp_path / "t")
    rows = await dataset.to_table(order_by=["-id"], limit=2)
    assert rows.schema == dataset.schema
    assert rows["c"].to_pylist() == [{"f": 3}, None]
