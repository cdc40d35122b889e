"""Any rows of pages of many chunks, near each other and far apart, and of lists of any length."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import alance

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 30_000


def lists(rng: np.random.Generator, most: int) -> pa.Array:
    """Lists of up to so many numbers; some null, some with nulls."""
    sizes = rng.integers(0, most + 1, ROWS)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    numbers = rng.integers(0, 1 << 40, offsets[-1])
    items = pa.array(numbers, mask=numbers % 11 == 0)
    return pa.ListArray.from_arrays(pa.array(offsets), items, mask=pa.array(sizes % 7 == 3))


@pytest.fixture(scope="module")
def values() -> pa.Table:
    rng = np.random.default_rng(12)
    numbers = rng.random(ROWS)
    return pa.table(
        {
            "number": numbers,
            "text": [str(number) for number in numbers],
            "short": lists(rng, 2),
            "middle": lists(rng, 9),
            "long": lists(rng, 70),
        }
    )


@pytest.fixture(scope="module")
def table(values: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("any") / "t.lance"
    lance.write_dataset(values, path)
    return path


@pytest.mark.parametrize("name", ["number", "text", "short", "middle", "long"])
async def test_any_rows_are_those_of_the_table(table: Path, values: pa.Table, name: str) -> None:
    rng = np.random.default_rng(5)
    column = values.select([name])
    async with alance.Session() as session:
        dataset = await alance.dataset(table, session=session)
        ends = [np.array([0]), np.array([ROWS - 1]), np.array([0, ROWS - 1])]
        for count in (1, 2, 5, 30, 400, 5000):
            ends += [rng.choice(ROWS, count, replace=False) for _ in range(6)]
        for step in (3, 64, 1000):
            ends.append(np.arange(int(rng.integers(step)), ROWS, step))
        for first in rng.integers(0, ROWS - 300, 5).tolist():
            ends.append(np.arange(first, first + 300))  # neighbours, and one far behind them
            ends.append(np.append(ends[-1][:40], ROWS - 1))
        for rows in ends:
            taken = await dataset.take(rows.tolist(), [name])
            assert taken.equals(column.take(rows))


@pytest.mark.parametrize("share", [2, 20, 300])
async def test_late_columns_are_those_of_the_table(
    table: Path, values: pa.Table, share: int
) -> None:
    """The filter passes one row in `share`."""
    bound = float(np.quantile(values["number"].to_numpy(), 1 / share))
    expected = values.filter(pc.less(values["number"], bound))
    async with alance.Session() as session:
        dataset = await alance.dataset(table, session=session)
        for names in (["number", "text"], ["long"], ["short", "middle"]):
            rows = await dataset.to_table(filter=f"number < {bound!r}", columns=names)
            assert rows.equals(expected.select(names))
