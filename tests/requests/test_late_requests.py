"""Late columns of filtered scans of an object store: how many rounds, and which bytes."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.ops.read.late import LEAST_GUESS
from tests.reference.served import opened_on
from tests.reference.waiting import landed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from alance.testing.lab import Lab

FILES, ROWS = 3, 200_000  # rows a file
NARROW = ["number", "amount"]


def late_table(number: int) -> pa.Table:
    rng = np.random.default_rng(number)
    blocks = rng.integers(0, 256, (1000, 400), np.uint8)
    return pa.table(
        {
            "key": rng.integers(0, 1000, ROWS).astype("int16"),
            "place": np.arange(ROWS, dtype=np.int32) + number * ROWS,
            "number": rng.integers(0, 1 << 50, ROWS),
            "amount": rng.random(ROWS),
            "block": pa.array([blocks[n % 1000].tobytes() for n in range(ROWS)], pa.binary()),
        }
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("late") / "late.lance"
    for number in range(FILES):
        lance.write_dataset(late_table(number), path, mode="append" if number else "create")
    return path


@pytest.fixture
async def late(lab: Lab, written: Path) -> AsyncIterator[alance.Dataset]:
    """The table on a store of 40 ms, opened; its footers are known."""
    target = Path(lab.root) / "lab" / "late.lance"
    if not target.exists():
        shutil.copytree(written, target)
        lab.rescan()
    lab.config(latency_ms=40, waits_for=os.getpid())
    async with opened_on(lab, "s3://lab/late.lance") as dataset:
        await dataset.take([0, ROWS, 2 * ROWS])
        yield dataset
    lab.calm()


def expected(written: Path, columns: list[str], condition: str) -> pa.Table:
    return lance.dataset(written).to_table(columns=columns, filter=condition)


@pytest.mark.parametrize("condition", ["key < 10", "key >= 10", "key < 0", "place < 300000"])
async def test_narrow_columns_do_not_wait_for_the_filter(
    late: alance.Dataset, lab: Lab, written: Path, condition: str
) -> None:
    """Page tables, then everything: what the filter needs and, unasked, what its rows need."""
    with lab.recording() as seen:
        table = await late.to_table(NARROW, filter=condition)
    assert table == expected(written, NARROW, condition)
    assert seen.rounds <= 3
    with lab.recording() as seen:  # the page tables are known now
        assert await late.to_table(NARROW, filter=condition) == table
    assert seen.rounds <= 2


async def test_wide_columns_are_read_of_rows_that_were_kept(
    late: alance.Dataset, lab: Lab, written: Path
) -> None:
    columns = ["place", "block"]
    with lab.recording() as seen, alance.trace() as recorder:
        table = await late.to_table(columns, filter="place = 250000")
    assert table == expected(written, columns, "place = 250000")
    assert seen.rounds <= 3
    assert recorder.num_bytes < FILES * ROWS * 4 + (4 << 20)


async def test_a_filter_that_keeps_few_rows_ends_the_guessing(
    late: alance.Dataset, written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As of a store that answers at once: how fast this one seems is a matter of time.
    monkeypatch.setattr("alance.ops.read.late.MOST_GUESS", LEAST_GUESS)
    with alance.trace() as recorder:
        table = await late.to_table([*NARROW, "place"], filter="place = 500000")
    assert table == expected(written, [*NARROW, "place"], "place = 500000")
    late_bytes = sum(
        event.num_bytes
        for event in recorder.events
        if set(recorder.columns_of(event)) & set(NARROW)
    )
    assert late_bytes < 2 * LEAST_GUESS  # of 8 MiB: what was guessed, and chunks of the row


@pytest.mark.parametrize("option", [True, False, None])
async def test_all_ways_give_the_same(
    late: alance.Dataset, written: Path, option: bool | None
) -> None:
    for condition in ("key < 10", "place % 1000 = 7"):
        table = await late.to_table(
            ["amount", "block"], filter=condition, late_materialization=option
        )
        assert table == expected(written, ["amount", "block"], condition)


async def test_a_small_buffer_gives_the_same(late: alance.Dataset, written: Path) -> None:
    table = await late.to_table(
        ["block", "number"], filter="key < 500", io_buffer_bytes=1 << 20, batch_readahead=1
    )
    assert table == expected(written, ["block", "number"], "key < 500")


async def test_batches_as_they_are_ready(late: alance.Dataset, written: Path) -> None:
    table = await late.to_table(NARROW, filter="key < 100", scan_in_order=False)
    order = [("number", "ascending")]
    assert table.sort_by(order) == expected(written, NARROW, "key < 100").sort_by(order)


async def test_closing_leaves_nothing_behind(late: alance.Dataset, lab: Lab) -> None:
    """Neither tasks nor requests."""
    before = len(asyncio.all_tasks())
    batches = late.to_batches([*NARROW, "block"], filter="key < 500", batch_size=100)
    async for _ in batches:
        break
    await batches.aclose()  # type: ignore[attr-defined]
    assert len(asyncio.all_tasks()) == before
    async with asyncio.timeout(60):  # a busy machine has its time to see that they are withdrawn
        await landed(lab)


async def test_a_limit_reads_no_more_than_it_needs(late: alance.Dataset, lab: Lab) -> None:
    with lab.recording() as seen:
        table = await late.to_table(["block"], filter="key < 1000", limit=10)
    assert table.num_rows == 10
    assert seen.rounds <= 4
