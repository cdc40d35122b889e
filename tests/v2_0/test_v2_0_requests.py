"""Requests and rounds of reads of 2.0 tables on an object store, compared with pylance's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pytest

import alance
from tests.reference.served import check_scan, check_take, drawn_rows, served
from tests.reference.shapes import table_of_all_shapes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from alance.testing.lab import Lab

ROWS = 120_000
URI = "s3://lab/v2_0.lance"


@pytest.fixture(scope="module")
def _big_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("v2_0") / "v2_0.lance"
    lance.write_dataset(table_of_all_shapes(ROWS), path, data_storage_version="2.0")
    return path


@pytest.fixture
async def opened(lab: Lab, _big_table: Path) -> AsyncIterator[alance.Dataset]:
    async with served(lab, _big_table) as dataset:
        yield dataset


@pytest.mark.parametrize(
    ("column", "rounds"),
    [
        ("number", 1),
        ("gaps", 1),
        ("few", 1),
        ("text", 2),
        ("struct", 2),
        ("list", 2),
        ("texts", 3),
    ],
)
async def test_a_take_needs_few_rounds(
    opened: alance.Dataset, lab: Lab, column: str, rounds: int
) -> None:
    """One round, one more for strings and for a level of lists; no more requests than pylance's."""
    rows = drawn_rows(column, ROWS)
    assert await check_take(lab, opened, URI, rows, column, warm=[1]) <= rounds


async def test_a_cold_take_costs_one_round_more(opened: alance.Dataset, lab: Lab) -> None:
    """The footer with all metadata, and the rows."""
    with lab.recording() as seen:
        await opened.take([ROWS // 2], ["number", "gaps"])
    assert seen.rounds == 2


async def test_a_scan_reads_each_byte_once(opened: alance.Dataset, lab: Lab) -> None:
    """About the bytes of the file, in few requests."""
    await check_scan(lab, opened, "v2_0.lance", ROWS)


async def test_late_columns_of_few_rows(opened: alance.Dataset) -> None:
    """A filter reads its column whole, and others only at the rows that it keeps."""
    with alance.trace() as recorder:
        table = await opened.to_table(columns=["text", "texts"], filter="number < 10000000000000")
    assert table.num_rows < 100
    assert recorder.num_bytes < ROWS * 8 * 3
