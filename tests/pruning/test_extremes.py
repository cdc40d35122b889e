"""Least and greatest values by statistics: few rows are read, and none is missed."""

from __future__ import annotations

import datetime
import decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import alance
from alance import ScanOptions, UnsupportedError
from alance.distributed import (
    Piece,
    field_ids,
    fragments_of,
    plan_splits,
    read_extremes,
    version_record,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ROWS = 40_000  # five zones
PREFIX = "the same beginning, longer than a bound is "
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "number": st.integers(-(2**63), 2**63 - 1),
    "day": st.dates(datetime.date(1, 1, 1)),
    "price": st.decimals(-(10**8), 10**8, places=2),
    "text": st.one_of(st.text(max_size=4), st.text(max_size=3).map(PREFIX.__add__)),
}
TYPES = {
    "number": pa.int64(),
    "day": pa.date32(),
    "price": pa.decimal128(12, 2),
    "text": pa.string(),
}


async def extremes(
    dataset: alance.Dataset, columns: Sequence[str], parts: int = 1
) -> tuple[dict[str, tuple[Any, Any]], int]:
    """The least and greatest values of columns, by splits, and the rows that were read for it."""
    splits = plan_splits(
        fragments_of(dataset), field_ids(dataset, columns), split_bytes=1 << 30, min_splits=parts
    )
    batches = [
        batch
        for split in splits
        async for batch in read_extremes(
            version_record(dataset), dataset.uri, split, columns, ScanOptions()
        )
    ]
    ends = {}
    for name in columns:
        column = pa.chunked_array([batch.column(name) for batch in batches], TYPES[name])
        least = pc.min_max(column)
        ends[name] = (least["min"].as_py(), least["max"].as_py())
    return ends, sum(batch.num_rows for batch in batches)


@st.composite
def columns_of_runs(draw: st.DrawFn) -> dict[str, pa.Array]:
    """Columns of a few runs of equal values, nulls among them, so that zones differ."""
    columns = {}
    for name, values in VALUES.items():
        runs = draw(st.lists(st.one_of(st.none(), values), min_size=1, max_size=9))
        edges = sorted(draw(st.integers(0, ROWS)) for _ in runs[1:])
        lengths = [stop - start for start, stop in zip([0, *edges], [*edges, ROWS], strict=True)]
        array = pa.array(runs, TYPES[name])
        places = [place for place, length in enumerate(lengths) for _ in range(length)]
        columns[name] = array.take(pa.array(places, pa.int64()))
    return columns


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(columns=columns_of_runs(), gone=st.lists(st.integers(0, ROWS), max_size=4), parts=st.just(3))
async def test_they_are_those_of_all_rows_that_are_not_deleted(
    tmp_path: Path, columns: dict[str, pa.Array], gone: list[int], parts: int
) -> None:
    table = pa.table({"id": pa.array(range(ROWS)), **columns})
    dataset = await alance.write_dataset(table, str(tmp_path / "t"), mode="overwrite")
    for start in gone:
        dataset = await dataset.delete(f"id >= {start} AND id < {start + 9000}")
    rows = await dataset.to_table(list(columns))
    ends, _ = await extremes(dataset, list(columns), parts)
    for name in columns:
        expected = pc.min_max(rows[name])
        assert ends[name] == (expected["min"].as_py(), expected["max"].as_py())


async def test_few_zones_are_read(tmp_path: Path) -> None:
    numbers = [place * 7919 % 1_000_003 for place in range(400_000)]
    table = pa.table({"number": pa.array(numbers, pa.int64())})
    dataset = await alance.write_dataset(table, str(tmp_path / "t"), max_rows_per_file=100_000)
    ends, num_rows = await extremes(dataset, ["number"])
    assert ends == {"number": (min(numbers), max(numbers))}
    assert num_rows <= 2 * 8192


async def test_a_zone_whose_least_value_is_deleted_is_not_believed(tmp_path: Path) -> None:
    table = pa.table({"number": pa.array(range(50_000), pa.int64())})
    dataset = await alance.write_dataset(table, str(tmp_path / "t"))
    dataset = await dataset.delete("number < 20000 OR number = 49999")
    ends, num_rows = await extremes(dataset, ["number"])
    assert ends == {"number": (20_000, 49_998)}
    assert num_rows <= 40_000


async def test_rows_without_statistics_are_read(tmp_path: Path) -> None:
    prices = [decimal.Decimal(number) for number in range(30_000)]
    table = pa.table({"price": pa.array(prices, TYPES["price"])})
    dataset = await alance.write_dataset(table, str(tmp_path / "t"), statistics=False)
    assert await extremes(dataset, ["price"]) == ({"price": (prices[0], prices[-1])}, 30_000)
    no_rows: tuple[Piece, ...] = ()
    record = version_record(dataset)
    batches = read_extremes(record, dataset.uri, no_rows, ["price"], ScanOptions())
    assert [batch async for batch in batches] == []


async def test_floats_are_refused_for_their_nan(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(pa.table({"x": [1.0]}), str(tmp_path / "t"))
    record, fragments = version_record(dataset), fragments_of(dataset)
    (split,) = plan_splits(fragments, split_bytes=1)
    batches = read_extremes(record, dataset.uri, split, ["x"], ScanOptions())
    with pytest.raises(UnsupportedError, match=r"'x'.*NaN"):
        await anext(batches)
