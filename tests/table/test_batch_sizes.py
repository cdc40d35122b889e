"""Sizes of batches: at most so many rows or bytes, or exactly so many rows, as by pylance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from tests.reference.thinned import thinned

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.table({"id": range(1000), "text": ["x" * (n % 50) for n in range(1000)]})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    lance.write_dataset(ROWS, tmp_path / "t", max_rows_per_file=130)
    return str(tmp_path / "t")


async def sizes(uri: str, **options: Any) -> tuple[list[int], pa.Table]:
    dataset = await alance.dataset(uri)
    batches = [batch async for batch in dataset.to_batches(**options)]
    return [batch.num_rows for batch in batches], pa.Table.from_batches(batches, ROWS.schema)


@pytest.mark.parametrize(
    ("size", "options"),
    thinned(
        [1, 7, 128, 130, 131, 400, 1000, 5000],
        [{}, {"filter": "id % 3 = 0"}, {"offset": 5, "limit": 300}, {"order_by": ["id"]}],
    ),
)
async def test_strict_batches_have_all_the_same_rows_but_the_last(
    uri: str, size: int, options: dict[str, Any]
) -> None:
    rows, table = await sizes(uri, batch_size=size, strict_batch_size=True, **options)
    expected = lance.dataset(uri).to_batches(batch_size=size, strict_batch_size=True, **options)
    assert set(rows[:-1]) <= {size}
    assert rows == [batch.num_rows for batch in expected]
    order = [pa.Table.to_pylist(table) for table in (table, lance.dataset(uri).to_table(**options))]
    assert order[0] == order[1]


@pytest.mark.parametrize("most", [1, 100, 1000, 10**9])
async def test_batches_have_so_many_bytes_at_most_about(uri: str, most: int) -> None:
    rows, table = await sizes(uri, batch_size_bytes=most)
    assert table.equals(ROWS)
    assert max(rows) <= max(1, 2 * most // 12)
    pair, _ = await sizes(uri, batch_size_bytes=most, batch_size=20)
    assert max(pair) <= min(20, max(rows))
    ordered, _ = await sizes(uri, batch_size_bytes=most, order_by=["id"])
    assert max(ordered) <= max(1, 2 * most // 12)


async def test_sizes_that_do_not_go_together_are_refused(uri: str) -> None:
    dataset = await alance.dataset(uri)
    for options in ({}, {"batch_size": 5, "batch_size_bytes": 5}):
        with pytest.raises(alance.InvalidInputError, match="strict_batch_size=True needs"):
            dataset.scanner(strict_batch_size=True, **options)
    with pytest.raises(alance.InvalidInputError, match="batch_size_bytes=0"):
        dataset.scanner(batch_size_bytes=0)
