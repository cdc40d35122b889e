"""Compaction in the background: many small commits, few fragments, and no row lost."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import alance
from alance import sync
from alance.errors import InvalidInputError
from alance.ops.upkeep.auto_compact import REWRITE_GROWTH, tail
from tests.lifecycle.test_cancelled_writes import FREE_S
from tests.reference.waiting import stuck, until
from tests.upkeep.others import by_another_writer

if TYPE_CHECKING:
    from pathlib import Path

    from alance.testing.lab import Lab

SCHEMA = pa.schema([("id", pa.int64())])
LEAST = 4


def rows(start: int, stop: int) -> pa.RecordBatch:
    return pa.record_batch([list(range(start, stop))], schema=SCHEMA)


def ids(path: Path) -> list[int]:
    """Let pylance check the table, and return the ids that it reads."""
    table = lance.dataset(str(path))
    table.validate()
    values: list[int] = table.to_table()["id"].to_pylist()
    return values


def needed_files(path: Path) -> tuple[set[str], set[str]]:
    """The data files that are there, and those that some version has."""
    versions = [row["version"] for row in lance.dataset(str(path)).versions()]
    named = {
        file.path
        for version in versions
        for fragment in lance.dataset(str(path), version=version).get_fragments()
        for file in fragment.metadata.files
    }
    return {file.name for file in (path / "data").iterdir()}, named


@given(st.lists(st.integers(1, 50), min_size=1, max_size=300), st.integers(2, 10))
def test_rows_are_written_a_few_times_and_fragments_stay_few(sizes: list[int], least: int) -> None:
    growth = min(REWRITE_GROWTH, least)
    fragments: list[int] = []
    written = 0
    for size in sizes:
        fragments.append(size)
        start = tail(np.array(fragments, np.int64), 1 << 15, least)
        joined = fragments[start:]
        assert all(growth * largest <= sum(joined) for largest in joined)
        if len(joined) >= least:
            fragments[start:] = [sum(joined)]
            written += sum(joined)
    total = sum(sizes)
    assert sum(fragments) == total
    # A fragment grows so many times each time that its rows are written.
    assert written <= total * np.log(growth * total) / np.log(growth)
    # From a fragment on that is no part of the tail, all together are smaller than four of it.
    assert len(fragments) <= (least + growth) * (np.log2(total) + 2)


@pytest.mark.parametrize(
    ("num_rows", "start"),
    [([], 0), ([5], 1), ([5, 5], 0), ([100, 5, 5], 1), ([10, 5, 5], 0), ([100, 5, 5, 90], 0)],
)
def test_the_tail_has_no_fragment_larger_than_the_others(num_rows: list[int], start: int) -> None:
    assert tail(np.array(num_rows, np.int64), 1000, 2) == start


@pytest.mark.parametrize(
    ("num_rows", "start"),
    [([5, 5, 5], 3), ([5, 5, 5, 5], 0), ([20, 5, 5, 5, 5], 1), ([15, 15, 15, 5, 5, 5], 0)],
)
def test_the_tail_is_four_times_as_large_as_a_fragment(num_rows: list[int], start: int) -> None:
    assert tail(np.array(num_rows, np.int64), 1000, 16) == start


def test_full_fragments_stay() -> None:
    assert tail(np.array([1000, 1000, 5, 5, 1000, 5, 5], np.int64), 1000, 2) == 5


@pytest.mark.parametrize("stable_row_ids", [False, True])
async def test_a_sink_joins_what_it_has_written(tmp_path: Path, stable_row_ids: bool) -> None:
    path = tmp_path / "t"
    async with alance.ingest(
        path, SCHEMA, auto_compact=LEAST, stable_row_ids=stable_row_ids
    ) as sink:
        for group in range(3):
            assert sink.compaction is not None
            before = sink.compaction.num_compactions
            for number in range(group * 8, group * 8 + 8):
                await sink.write(rows(number * 10, number * 10 + 10))
                await sink.flush()
            # The eight by themselves are enough to be joined.
            await until(lambda before=before: sink.compaction.num_compactions > before)  # type: ignore[misc]
    assert sorted(ids(path)) == list(range(240))
    metrics = sink.compaction
    assert metrics is not None
    assert (metrics.num_failures, metrics.last_error) == (0, None)
    assert metrics.num_compactions >= 3
    table = lance.dataset(str(path))
    removed = metrics.fragments_removed - metrics.fragments_added
    assert len(table.get_fragments()) == 24 - removed <= 15
    assert metrics.last_version is not None
    operation = table.checkout_version(metrics.last_version).read_transaction(metrics.last_version)
    assert type(operation.operation).__name__ == "Rewrite"


async def test_a_sink_without_it_has_no_such_metrics(tmp_path: Path) -> None:
    async with alance.ingest(tmp_path / "t", SCHEMA) as sink:
        await sink.write(rows(0, 3))
        assert sink.compaction is None


async def test_a_table_that_others_write_is_kept_compact(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset = await alance.write_dataset(rows(0, 100), path)
    upkeep = dataset.optimize.auto_compact(min_fragments=LEAST, interval=0.01)
    assert upkeep.metrics is None
    expected = set(range(100))
    async with upkeep:
        for number in range(1, 20):
            first = number * 100
            dataset = await (await dataset.checkout_latest()).insert(rows(first, first + 10))
            expected |= {*range(first, first + 10)}
            if number % 5 == 0:
                dataset = await dataset.delete(f"id < {number}")
                expected -= {*range(number)}
            if number % 7 == 0:  # another process
                lance.write_dataset(rows(first + 50, first + 55), path, mode="append")
                expected |= {*range(first + 50, first + 55)}
        metrics = upkeep.metrics
        assert metrics is not None
        await until(lambda: upkeep.metrics.num_compactions)  # type: ignore[union-attr]
        await until(lambda: len(lance.dataset(str(path)).get_fragments()) < 15)
    assert upkeep.metrics is not None
    assert upkeep.metrics.num_failures == 0
    assert upkeep.dataset.version <= lance.dataset(str(path)).version
    assert sorted(ids(path)) == sorted(expected)
    present, named = needed_files(path)
    assert present == named  # what was overtaken left no file


async def test_an_error_in_the_block_frees_the_caller_and_leaves_no_version(lab: Lab) -> None:
    uri = "s3://lab/auto-compact-dropped"
    dataset = await alance.write_dataset(rows(0, 10), uri, storage_options=lab.lance_options())
    for number in range(1, 6):
        dataset = await dataset.insert(rows(number * 10, number * 10 + 10))
    rule = {"op": "PUT", "action": "stall", "key": "auto-compact-dropped/data/"}
    since = lab.stats()["requests"]
    lab.config(faults=[rule])
    clock = asyncio.get_running_loop().time
    upkeep = dataset.optimize.auto_compact(min_fragments=2)
    await upkeep.__aenter__()
    await stuck(lab, since)
    begun = clock()
    await upkeep.__aexit__(ZeroDivisionError, ZeroDivisionError(), None)
    assert clock() - begun < FREE_S
    lab.calm()
    assert await dataset.latest_version() == dataset.version


async def test_what_fails_is_told_and_the_writer_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "t"
    config = {"lance.compaction.target_rows_per_fragment": "many"}
    dataset = await by_another_writer(await alance.write_dataset(rows(0, 1), path), config)
    with caplog.at_level(logging.WARNING):
        async with alance.ingest(path, auto_compact=2) as sink:
            for number in range(1, 6):
                await sink.write(rows(number, number + 1))
                await sink.flush()
            await until(lambda: sink.compaction.num_failures)  # type: ignore[union-attr]
    metrics = sink.compaction
    assert metrics is not None
    assert isinstance(metrics.last_error, InvalidInputError)
    assert "target_rows_per_fragment" in caplog.text
    assert ids(path) == [*range(6)]
    assert (await dataset.checkout_latest()).version == dataset.version + 5


@pytest.mark.parametrize("least", [0, 1, 1.5, "4", True])
async def test_a_number_of_fragments_is_two_or_more(tmp_path: Path, least: Any) -> None:
    dataset = await alance.write_dataset(rows(0, 1), tmp_path / "t")
    with pytest.raises(InvalidInputError, match="at least 2"):
        alance.ingest(tmp_path / "t", auto_compact=least)
    with pytest.raises(InvalidInputError, match="at least 2"):
        async with dataset.optimize.auto_compact(min_fragments=least):
            raise AssertionError


@pytest.mark.parametrize("options", [{"interval": 0}, {"interval": -1.0}, {"num_threads": 0}])
async def test_options_out_of_range_are_told_when_the_block_begins(
    tmp_path: Path, options: Any
) -> None:
    dataset = await alance.write_dataset(rows(0, 1), tmp_path / "t")
    with pytest.raises(InvalidInputError, match=next(iter(options))):
        async with dataset.optimize.auto_compact(**options):
            raise AssertionError


def test_the_blocking_face_has_it(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset = sync.write_dataset(rows(0, 10), path)
    for number in range(1, 9):
        dataset = dataset.insert(rows(number * 10, number * 10 + 10))
    with dataset.optimize.auto_compact(min_fragments=LEAST) as upkeep:
        pass  # what is due is done before it ends
    assert upkeep.metrics.num_compactions == 1
    assert len(upkeep.dataset.fragments) == 1
    assert ids(path) == [*range(90)]
