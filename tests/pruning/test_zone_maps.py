"""Zone maps of pylance and statistics of 0.1 files: used to skip rows, with the same answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.errors import CorruptFileError
from alance.format.index.zones import ZONE_PLACE_COLUMNS, ZoneRows
from alance.format.row_set import RowSet

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 100_000


def table() -> pa.Table:
    numbers = np.arange(ROWS)
    floats = np.where(numbers % 20_000 == 0, np.nan, numbers / 3)
    return pa.table(
        {
            "k": numbers,
            "s": [f"n{number:06}" for number in range(ROWS)],
            "f": pa.array(floats, mask=numbers % 999 == 1),
            "d": pa.array(numbers).cast(pa.decimal128(24, 2)),
            "ts": pa.array(numbers, pa.timestamp("us")),
        }
    )


CONDITIONS = [
    "k = 50000",
    "k in (1, 99999)",
    "s = 'n070000'",
    "s like 'n0700%'",
    "f < 1",
    "f > 33300 and k > 99000",
    "d = 5",
    "ts < timestamp '1970-01-01 00:00:00.000007'",
    "k < 3000 and f is null",
]


async def check(dataset: alance.Dataset, condition: str) -> alance.ops.read.explain.Explanation:
    rows = await dataset.to_table(filter=condition)
    plain = await dataset.to_table(filter=condition, use_stats=False, use_scalar_index=False)
    assert str(rows.to_pylist()) == str(plain.to_pylist())
    return await dataset.scanner(filter=condition).explain()


@pytest.fixture(scope="module")
def mapped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("maps") / "t"
    theirs = lance.write_dataset(table(), str(path), max_rows_per_file=40_000)
    for name in theirs.schema.names:
        theirs.create_scalar_index(name, "ZONEMAP")
    return path


@pytest.mark.parametrize("condition", CONDITIONS)
async def test_zone_maps_skip_rows(mapped: Path, condition: str) -> None:
    message = await check(await alance.dataset(mapped), condition)
    assert "(ZoneMap)" in str(message)
    assert message.num_rows < ROWS // 2


async def test_fragments_that_zone_maps_rule_out_are_not_opened(mapped: Path) -> None:
    explanation = await (await alance.dataset(mapped)).scanner(filter="k = 50000").explain()
    assert "fragments: 1 of 3" in str(explanation)
    assert "1 of 13 zones" in str(explanation)


@pytest.mark.parametrize("stable", [False, True])
async def test_zone_maps_after_changes(tmp_path: Path, stable: bool) -> None:
    path = tmp_path / "t"
    theirs = lance.write_dataset(
        table(), str(path), max_rows_per_file=40_000, enable_stable_row_ids=stable
    )
    theirs.delete("k < 10 or (k >= 8000 and k < 17000) or k = 39999")
    theirs.create_scalar_index("k", "ZONEMAP")
    theirs.delete("k = 50001")
    theirs.update({"k": "-5"}, where="k = 60000")
    lance.write_dataset(table().slice(0, 20), str(path), mode="append")
    dataset = await alance.dataset(path)
    conditions = ["k = 17500", "k < 20", "k = 39998", "k = -5", "k in (50001, 50002)", "k = 60000"]
    for condition in conditions:
        message = await check(dataset, condition)
        assert message.num_rows < ROWS // 2, condition
    everything = await dataset.to_table(
        filter="k < 10", include_deleted_rows=True, with_row_id=True
    )
    assert everything.num_rows == 21
    lance.dataset(str(path)).optimize.compact_files()
    dataset = await alance.dataset(path)
    for condition in conditions:
        await check(dataset, condition)


def test_zones_that_overlap_are_refused() -> None:
    def zones(lengths: list[int]) -> ZoneRows:
        arrays = [np.array(part, np.uint64) for part in ([7, 7], [0, 5], lengths)]
        return ZoneRows.of(pa.record_batch(arrays, list(ZONE_PLACE_COLUMNS)))

    with pytest.raises(CorruptFileError, match="overlap"):
        zones([6, 5])
    with pytest.raises(CorruptFileError, match="row 10 of fragment 7, it has 10"):
        zones([5, 6]).check(np.array([3, 7]), np.array([99, 10]))
    apart = zones([4, 4])
    apart.check(np.array([3, 7]), np.array([99, 10]))
    assert apart.rows_of(np.array([True, False])).to_numpy().tolist() == [
        (7 << 32) + row for row in range(4)
    ]
    assert zones([5, 4]).rows_of(np.array([True, True])) == RowSet.of_fragments([(7, 9)])


async def test_nulls_of_old_files_are_zeros_that_bounds_do_not_tell_of(tmp_path: Path) -> None:
    numbers = pa.table(
        {
            "k": [None if k % 10 == 3 else k for k in range(20_000)],
            "b": [None if k % 10 == 3 else True for k in range(20_000)],
        }
    )
    lance.write_dataset(numbers, str(tmp_path / "t"), data_storage_version="legacy")
    dataset = await alance.dataset(tmp_path / "t")
    expected = lance.dataset(str(tmp_path / "t")).count_rows("k < 100")
    assert await dataset.count_rows("k < 100") == expected > 2_000
    assert await dataset.count_rows("not b") == 2_000


async def test_statistics_of_old_files_skip_batches(tmp_path: Path) -> None:
    path = tmp_path / "t"
    lance.write_dataset(
        table().select(["k", "s", "f", "ts"]),
        str(path),
        data_storage_version="legacy",
        max_rows_per_group=1024,
        max_rows_per_file=40_000,
    )
    dataset = await alance.dataset(path)
    for condition in CONDITIONS:
        if not condition.startswith("d "):
            await check(dataset, condition)
    # Of floats less can be told: whether a batch has NaN, which may be above or below all. Nulls
    # among them are zeros now.
    for condition in ("k = 50000", "s = 'n070000'", "s like 'n0700%'", "f = -5"):
        assert (await check(dataset, condition)).num_rows <= 5 * 1024, condition
