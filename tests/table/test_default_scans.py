"""Defaults of scans from the opening of a dataset, and facts for a callback, as in pylance."""

from __future__ import annotations

import asyncio
import pickle
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from alance import sync

if TYPE_CHECKING:
    from pathlib import Path

    from alance.testing.lab import Lab
    from alance.types import ScanStatistics

ROWS = pa.table({"id": range(1000), "text": [f"text {n}" for n in range(1000)]})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    lance.write_dataset(ROWS, tmp_path / "t", max_rows_per_file=300)
    return str(tmp_path / "t")


DEFAULTS: list[dict[str, Any]] = [
    {"with_row_id": True},
    {"with_row_address": True, "columns": ["id"]},
    {"columns": ["text", "id"], "limit": 7},
    {"filter": "id > 990", "batch_size": 3},
    {"use_scalar_index": False, "limit": 5, "offset": 2},
]


@pytest.mark.parametrize("defaults", DEFAULTS)
async def test_scans_take_what_they_are_not_given(uri: str, defaults: dict[str, Any]) -> None:
    ours = await alance.dataset(uri, default_scan_options=defaults)
    theirs = lance.dataset(uri, default_scan_options=defaults)
    assert ours.schema == theirs.schema
    assert (await ours.to_table()).to_pylist() == theirs.to_table().to_pylist()
    for more in ({"limit": 3}, {"columns": ["text"]}, {"with_row_id": False}, {"filter": "id < 9"}):
        expected = theirs.to_table(**more)
        assert (await ours.to_table(**more)).to_pylist() == expected.to_pylist()
    rows = [batch.num_rows async for batch in ours.to_batches()]
    assert max(rows) <= defaults.get("batch_size", 1000)
    assert sum(rows) == sum(batch.num_rows for batch in theirs.to_batches())
    assert await ours.count_rows() == theirs.count_rows() == 1000
    assert (await ours.take([3])).equals(theirs.take([3]))


async def test_columns_may_be_expressions_and_an_order_names(uri: str) -> None:
    """pylance fails at the scan for both."""
    defaults = {"columns": {"twice": "id * 2"}, "order_by": ["-id"], "limit": 2}
    dataset = await alance.dataset(uri, default_scan_options=defaults)
    assert dataset.schema == pa.schema({"twice": pa.int64()})
    assert (await dataset.to_table()).to_pydict() == {"twice": [1998, 1996]}


async def test_other_versions_of_the_dataset_keep_them(uri: str) -> None:
    defaults = {"with_row_id": True, "columns": ["id"]}
    ours = await alance.dataset(uri, default_scan_options=defaults)
    later = await ours.delete("id < 10")
    names = ["id", "_rowid"]
    later = await later.insert(ROWS.slice(0, 5))
    for other in (
        later,
        await later.checkout_version(1),
        await later.checkout_latest(),
        await later.optimize.compact_files(),
        await later.merge_insert("id").when_matched_update_all().execute(ROWS.slice(0, 2)),
        pickle.loads(pickle.dumps(later)),
    ):
        assert other.schema.names == names
        assert (await other.to_table(limit=2)).column_names == names
    assert (await alance.dataset(uri)).schema == ROWS.schema


async def test_options_that_no_scan_has_are_refused_before_a_request(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    for wrong, message in (
        ({"colums": ["id"]}, "unknown option 'colums', expected some of batch_readahead"),
        ({"batch_size": 0}, "batch_size=0: expected"),
        (["id"], "expected a mapping, found list"),
        ({"scan_stats_callback": 3}, "expected a function"),
    ):
        with pytest.raises(alance.InvalidInputError, match=message):
            await alance.dataset(nowhere, default_scan_options=wrong)  # type: ignore[arg-type]


def test_the_blocking_face_takes_them_too(uri: str) -> None:
    scan_statistics: list[ScanStatistics] = []
    dataset = sync.dataset(
        uri, default_scan_options={"scan_stats_callback": scan_statistics.append}
    )
    assert dataset.to_table(limit=3).num_rows == 3
    assert scan_statistics[0].all_counts["rows"] == 3


async def test_a_callback_is_told_when_all_batches_were_given(uri: str) -> None:
    anies: list[Any] = []
    theirs: list[Any] = []
    options: dict[str, Any] = {"batch_size": 100, "scan_stats_callback": anies.append}
    dataset = await alance.dataset(uri)
    async for _ in dataset.to_batches(**options):
        assert not anies
    for _ in (
        lance.dataset(uri).scanner(batch_size=100, scan_stats_callback=theirs.append).to_batches()
    ):
        pass
    assert len(anies) == len(theirs) == 1
    assert anies[0].all_counts["rows"] == theirs[0].all_counts["rows_scanned"]
    assert anies[0].all_counts["batches"] == 10
    for name in ("iops", "requests", "bytes_read"):
        assert getattr(anies[0], name) > 0
        assert getattr(theirs[0], name) > 0
    assert (await dataset.to_table(**options)).num_rows == 1000
    await dataset.to_table(order_by=["-id"], limit=4, **options)
    await dataset.to_table(blob_handling="all_binary", **options)
    assert [stats.all_counts["rows"] for stats in anies] == [1000, 1000, 4, 1000]
    assert await dataset.scanner(filter="id > 5", **options).count_rows() == 994
    assert len(anies) == 4, "a count gives no batches, here as there"


async def test_only_requests_of_the_scan_are_counted(lab: Lab) -> None:
    uri, options = "s3://lab/default-scans", lab.lance_options()
    await alance.write_dataset(ROWS, uri, max_rows_per_file=100, storage_options=options)
    scan_statistics: list[ScanStatistics] = []
    async with alance.Session() as session, alance.Session() as other:
        dataset = await alance.dataset(uri, storage_options=options, session=session)
        beside = await alance.dataset(uri, storage_options=options, session=other)
        with alance.trace() as whole:
            async for _ in dataset.to_batches(scan_stats_callback=scan_statistics.append):
                with alance.trace() as own:
                    await beside.take([1])
                assert own.num_requests <= 3
        num_own = sum("_versions" not in event.location for event in whole.events)
        requests = {event.location for event in whole.events}
        assert len(requests) == 10
        with alance.trace() as again:
            await dataset.to_table()
    assert scan_statistics[0].iops < num_own
    assert scan_statistics[0].bytes_read >= again.num_bytes


async def test_who_leaves_early_or_fails_tells_nothing(
    uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    anies: list[Any] = []
    dataset = await alance.dataset(uri)
    batches = dataset.to_batches(batch_size=10, scan_stats_callback=anies.append)
    await anext(batches)
    await batches.aclose()  # type: ignore[attr-defined]
    assert not anies

    def failing(stats: ScanStatistics) -> None:
        raise ValueError("of the callback")

    assert (await dataset.to_table(scan_stats_callback=failing)).num_rows == 1000
    assert "scan_stats_callback failed" in caplog.text
    assert "of the callback" in caplog.text


async def test_scans_beside_each_other_count_for_themselves(uri: str) -> None:
    dataset = await alance.dataset(uri)
    entries: dict[int, Any] = {}

    async def scan(number: int) -> None:
        await dataset.to_table(
            limit=number, scan_stats_callback=lambda s: entries.update({number: s})
        )

    await asyncio.gather(*map(scan, (1, 10, 100, 1000)))
    assert {number: stats.all_counts["rows"] for number, stats in entries.items()} == {
        number: number for number in (1, 10, 100, 1000)
    }
