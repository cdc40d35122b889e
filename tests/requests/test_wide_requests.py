"""Scans of many columns of an object store: each byte once, within what may be read ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

from tests.reference.served import data_bytes, opened_on, serve

if TYPE_CHECKING:
    from pathlib import Path

    from alance.testing.lab import Lab

COLUMNS = 200
AHEAD = 32 << 20


def numbers(num_rows: int) -> pa.Table:
    rng = np.random.default_rng(num_rows)
    return pa.table({f"c{n}": rng.integers(0, 1 << 30, num_rows, np.int32) for n in range(COLUMNS)})


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages of 375 KB, which together are more than twice what is read ahead."""
    path = tmp_path_factory.mktemp("wide") / "wide_long.lance"
    lance.write_dataset(numbers(100_000), path)
    return path


async def test_a_page_that_does_not_fit_is_read_in_pieces(lab: Lab, long: Path) -> None:
    uri = serve(lab, long)
    async with opened_on(lab, uri, io_buffer_bytes=AHEAD) as dataset:
        with lab.recording() as seen:
            rows = await dataset.to_table()
    assert rows == lance.dataset(long).to_table()
    message = seen.summary()
    assert message["get_bytes"] <= 1.02 * data_bytes(lab, "wide_long.lance")
    assert message["requests"] <= 3 + COLUMNS * 6  # of each page its table, and five pieces


@pytest.mark.parametrize("options", [{"limit": 10}, {"offset": 70_000, "limit": 10}])
async def test_a_few_rows_are_few_bytes(lab: Lab, long: Path, options: dict[str, int]) -> None:
    uri = serve(lab, long)
    async with opened_on(lab, uri) as dataset:
        with lab.recording() as seen:
            rows = await dataset.to_table(**options)
    assert rows == lance.dataset(long).to_table(**options)
    assert seen.summary()["get_bytes"] <= data_bytes(lab, "wide_long.lance") / 4


async def test_few_rows_of_many_late_columns_cost_little_more_than_all(
    lab: Lab, long: Path
) -> None:
    uri = serve(lab, long)
    async with opened_on(lab, uri, io_buffer_bytes=AHEAD) as dataset:
        with lab.recording() as seen:
            rows = await dataset.to_table(filter="c7 < 1000000")
    assert rows == lance.dataset(long).to_table(filter="c7 < 1000000")
    assert seen.summary()["get_bytes"] <= 1.4 * data_bytes(lab, "wide_long.lance")


async def test_small_pages_are_read_whole_and_decoded_in_parts(lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / "wide_short.lance"
    table = numbers(20_000)
    lance.write_dataset(table, path)
    async with opened_on(lab, serve(lab, path)) as dataset:
        with lab.recording() as seen:
            batches = [batch async for batch in dataset.to_batches(io_buffer_bytes=AHEAD // 2)]
    assert len(batches) > 1
    assert pa.Table.from_batches(batches) == table
    message = seen.summary()
    assert message["get_bytes"] <= 1.02 * data_bytes(lab, "wide_short.lance")
    assert message["requests"] <= 5
    assert seen.rounds <= 4  # the listing, the manifest, the footer, all pages


async def test_many_late_columns_are_read_in_parts(lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / "wide_late.lance"
    lance.write_dataset(numbers(100_000), path, max_rows_per_file=50_000)
    async with opened_on(lab, serve(lab, path), io_buffer_bytes=AHEAD) as dataset:
        with lab.recording() as seen:
            batches = [batch async for batch in dataset.to_batches(filter=f"c7 < {1 << 29}")]
    table = lance.dataset(path).to_table(filter=f"c7 < {1 << 29}")
    assert pa.Table.from_batches(batches) == table
    assert max(batch.num_rows for batch in batches) <= 20_000  # of 25 000 of a file
    assert seen.summary()["get_bytes"] <= 1.3 * data_bytes(lab, "wide_late.lance")
