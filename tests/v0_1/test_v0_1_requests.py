"""Requests and rounds of reads of 0.1 tables on an object store, compared with pylance's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pytest

from tests.reference.served import (
    by_pylance,
    check_scan,
    check_take,
    drawn_rows,
    num_requests,
    served,
)
from tests.reference.shapes import table_of_all_shapes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import alance
    from alance.testing.lab import Lab

ROWS = 120_000
URI = "s3://lab/v0_1.lance"


@pytest.fixture(scope="module")
def _big_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("v0_1") / "v0_1.lance"
    lance.write_dataset(table_of_all_shapes(ROWS), path, data_storage_version="0.1")
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
        ("few", 2),
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
    await check_scan(lab, opened, "v0_1.lance", ROWS)


async def test_late_columns_of_few_rows(opened: alance.Dataset, lab: Lab) -> None:
    """A filter in fewer requests than pylance's: its batches are small and lie near each other."""
    condition = {"columns": ["text", "texts"], "filter": "number < 10000000000000"}
    with lab.recording() as seen:
        table = await opened.to_table(**condition)
    theirs = by_pylance(lab, URI)
    with lab.recording() as their_seen:
        assert table.equals(theirs.to_table(**condition))
    assert table.num_rows < 100
    assert num_requests(seen) < num_requests(their_seen)
