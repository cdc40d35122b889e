"""`explain_plan` and `analyze_plan` of scans and merges: what is told beside what was done."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
import alance.sync

if TYPE_CHECKING:
    from pathlib import Path

    from alance.testing.lab import Lab

ROWS = pa.table({"id": range(5000), "text": [f"text {n}" * 9 for n in range(5000)]})
TOTAL = re.compile(r"^all +in (\d+) rounds +(\d+) +([\d,]+)", re.MULTILINE)


def totals(text: str) -> tuple[int, int]:
    """The requests and bytes that an analysis ends with."""
    (line,) = TOTAL.findall(text)
    return int(line[1]), int(line[2].replace(",", ""))


def rows_of_pylance(plan: str) -> int:
    """The rows that a plan of pylance gave at its top."""
    number, thousands = re.findall(r"output_rows=([\d.]+)( K)?", plan)[0]
    return int(float(number) * (1000 if thousands else 1))


@pytest.mark.parametrize("filter", [None, "id % 1000 = 7", "id < 0"])
async def test_a_scan_is_told_beside_what_it_did(lab: Lab, filter: str | None) -> None:
    uri, options = f"s3://lab/analyzed-{filter!r:.8}".replace("'", ""), lab.lance_options()
    await alance.write_dataset(ROWS, uri, storage_options=options, mode="overwrite")
    async with alance.Session() as session:
        dataset = await alance.dataset(uri, storage_options=options, session=session)
        scanner = dataset.scanner(["text"], filter=filter)
        message = await scanner.explain_plan()
        text = await scanner.analyze_plan()
        assert text.startswith(f"{message}\nrun: ")
    async with alance.Session() as session:
        dataset = await alance.dataset(uri, storage_options=options, session=session)
        with lab.recording() as recording:
            table = await dataset.to_table(["text"], filter=filter)
    sent = [record for record in recording.records if "/data/" in record["key"]]
    assert totals(text) == (len(sent), sum(record["out"] for record in sent))
    theirs = lance.dataset(uri, storage_options=options).scanner(columns=["text"], filter=filter)
    num_rows = rows_of_pylance(theirs.analyze_plan())
    assert f"run: {num_rows:,} rows in " in text
    assert table.num_rows == num_rows


async def test_a_count_is_told(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(ROWS, tmp_path / "t")
    text = await dataset.scanner(filter="id < 1234").analyze_plan(count_rows=True)
    assert "run: 1,234 rows counted" in text
    theirs = lance.dataset(tmp_path / "t").scanner(filter="id < 1234")
    assert "rows=1234" in theirs.analyze_plan(count_rows=True) or theirs.count_rows() == 1234


async def test_a_search_is_told(tmp_path: Path) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(range(800), pa.float32()), 8)
    dataset = await alance.write_dataset(pa.table({"v": vectors}), tmp_path / "t")
    scanner = dataset.scanner(nearest={"column": "v", "q": [1.0] * 8, "k": 3})
    message = await scanner.explain_plan(verbose=True)
    text = await scanner.analyze_plan()
    assert text.startswith(f"{message}\nrun: ")
    assert "run: 3 rows in 1 batches" in text


async def test_what_cannot_be_run_is_an_error(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(ROWS, tmp_path / "t")
    for call in ("explain_plan", "analyze_plan"):
        with pytest.raises(alance.InvalidInputError, match="nothing"):
            await getattr(dataset.scanner(filter="nothing = 1"), call)()


def merge(dataset: Any) -> Any:
    return dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()


async def test_a_merge_is_told_and_not_made(lab: Lab) -> None:
    data = pa.table({"id": [3, 70, 9000], "text": ["a", "b", "c"]})
    uri, options = "s3://lab/analyzed-merge", lab.lance_options()
    dataset = await alance.write_dataset(ROWS, uri, storage_options=options)
    before = [path async for path in files(dataset)]
    explained = await merge(dataset).explain(data.schema)
    assert await merge(dataset).explain_plan(data.schema) == str(explained)
    with lab.recording() as recording:
        text = await merge(dataset).analyze_plan(data)
    assert text.startswith(f"{explained}\nrun, ")
    assert totals(text) == (explained.num_requests, explained.num_bytes)
    assert "run, without a version: num_inserted_rows 1, num_updated_rows 2," in text
    written = [record["key"] for record in recording.records if record["op"] == "PUT"]
    assert sorted(key.split("/")[1] for key in written) == ["_deletions", "data"]
    assert [path async for path in files(dataset)] == before
    theirs = lance.dataset(uri, storage_options=options)
    assert "MergeInsert" in merge(theirs).analyze_plan(data)
    assert theirs.latest_version == await dataset.latest_version() == 1
    after = await merge(dataset).execute(data)
    assert after.summary["num_updated_rows"] == 2


async def files(dataset: alance.Dataset) -> Any:
    async for batch in dataset.all_files():
        for path in sorted(batch.column("path").to_pylist()):
            yield path


def test_plans_are_analyzed_without_await(tmp_path: Path) -> None:
    dataset = alance.sync.write_dataset(ROWS, tmp_path / "t")
    assert "run: 5,000 rows" in dataset.scanner().analyze_plan()
    assert dataset.scanner().explain_plan() == str(dataset.scanner().explain())
    assert "num_inserted_rows 1" in merge(dataset).analyze_plan({"id": [-1], "text": ["x"]})


async def test_a_session_tells_what_its_caches_hold(lab: Lab) -> None:
    uri, options = "s3://lab/session-bytes", lab.lance_options()
    await alance.write_dataset(ROWS, uri, storage_options=options)
    session = alance.Session()
    assert session.size_bytes() == 0
    dataset = await alance.dataset(uri, storage_options=options, session=session)
    opened = session.size_bytes()
    await dataset.take([1, 4000])
    assert 0 < opened < session.size_bytes()
    assert session.size_bytes() >= session.cache_stats.num_bytes
    theirs = lance.Session()
    lance.dataset(uri, storage_options=options, session=theirs).take([1, 4000])
    assert theirs.size_bytes() > 0
    await session.aclose()
