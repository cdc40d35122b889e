"""The event loop stays free under many scans and takes."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.file.open.new_pages import MOST_BYTES
from alance.io.reading.reads import Landed
from alance.testing.stalls import Stalls
from alance.versioning import load
from tests.reference.served import opened_on
from tests.reference.waiting import Turns

if TYPE_CHECKING:
    from alance.testing.lab import Lab

LIMIT = 0.010  # seconds
# The first ones warm up what is loaded once in a process; and work takes longer where others have
# a part of the processor in ways that no process sees.
TRIES = 12


async def check_no_stall(dataset: alance.Dataset) -> None:
    """64 concurrent scans and takes keep the loop by no callback."""
    seen = []
    for _ in range(TRIES):
        stalls = await stalls_of(dataset)
        seen.append((stalls.longest_callback, stalls.slowest))
        if stalls.longest_callback < LIMIT:
            return
    pytest.fail(f"callbacks that kept the loop: {seen}")


async def stalls_of(dataset: alance.Dataset) -> Stalls:
    """The stalls of 64 concurrent scans and takes."""
    count = await dataset.count_rows()
    rng = np.random.default_rng(1)
    await dataset.take([0, count - 1])  # what is loaded once in a process
    await dataset.head(10)

    async def take() -> None:
        for _ in range(5):
            await dataset.take(rng.integers(0, count, 20))

    async def read() -> None:
        async for _ in dataset.to_batches(["id", "vector"]):
            pass

    async with Stalls() as stalls:
        await asyncio.gather(*(take() if n % 4 else read() for n in range(64)))
    return stalls


async def test_takes_one_after_the_other_leave_turns_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them waits for anything, and yet they are no single callback."""
    monkeypatch.setattr("alance.io.reading.pool.LOOP_TURN_S", 0.0)
    async with alance.Session() as session:
        dataset = await alance.dataset(write(tmp_path / "turns.lance"), session=session)
        for _ in range(3):
            await dataset.take([1, 30_000])
        async with Turns() as turns:
            for _ in range(100):
                await dataset.take([2, 20_000])
    assert turns.count >= 40  # every second one, at least


async def test_a_crowd_that_begins_in_one_turn_has_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that they read is waited for, and yet they do not read it all in one turn."""
    monkeypatch.setattr("alance.io.reading.pool.LOOP_TURN_S", 0.0)
    num_versions, turns = 60, Turns()
    read: Counter[int] = Counter()
    parse = load.met_manifest

    def parsed(*arguments: Any) -> Any:
        read[turns.count] += 1
        return parse(*arguments)

    async with alance.Session() as session:
        dataset = await alance.dataset(write(tmp_path / "versions.lance"), session=session)
        for number in range(num_versions - dataset.version):
            dataset = await dataset.update_config({"number": str(number)})
    async with alance.Session() as session:
        dataset = await alance.dataset(dataset.uri, session=session)
        monkeypatch.setattr(load, "met_manifest", parsed)
        versions = range(1, num_versions)
        async with turns:
            await asyncio.gather(*(dataset.checkout_version(version) for version in versions))
    assert read.total() >= num_versions - 1
    assert max(read.values()) <= 2


async def test_no_stall_from_a_store(lineitem_lab: Lab) -> None:
    write(Path(lineitem_lab.root) / "lab" / "stalls.lance")
    lineitem_lab.rescan()
    lineitem_lab.config(latency_ms=2)
    async with opened_on(lineitem_lab, "s3://lab/stalls.lance") as dataset:
        await check_no_stall(dataset)


async def test_no_stall_from_a_disk(tmp_path: Path) -> None:
    uri = write(tmp_path / "stalls.lance")
    async with alance.Session() as session:
        dataset = await alance.dataset(uri, session=session)
        await check_no_stall(dataset)


async def test_what_lies_in_two_requests_is_copied_in_little_pieces(
    lineitem_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copies are made on the loop, however much a scan fetches at once."""
    values = np.random.default_rng(8).random(4_000_000)
    table = pa.table({"x": values, "y": values + 1})
    lance.write_dataset(table, Path(lineitem_lab.root) / "lab" / "long.lance")
    lineitem_lab.rescan()
    sizes = []
    cut = Landed.cut

    def counted(landed: Landed, start: int, stop: int) -> memoryview:
        sizes.append(stop - start)
        return cut(landed, start, stop)

    monkeypatch.setattr(Landed, "cut", counted)
    async with opened_on(lineitem_lab, "s3://lab/long.lance") as dataset:
        assert (await dataset.to_table()) == table
    assert sum(sizes) > values.nbytes
    assert max(sizes) <= MOST_BYTES


def write(path: Path) -> str:
    rows = 40_000
    rng = np.random.default_rng(7)
    vectors = pa.FixedSizeListArray.from_arrays(rng.random(rows * 32, np.float32), 32)
    table = pa.table(
        {
            "id": pa.array(range(rows)),
            "text": [f"text number {number}" for number in range(rows)],
            "vector": vectors,
        }
    )
    lance.write_dataset(table, str(path), max_rows_per_file=rows // 4)
    return str(path)
