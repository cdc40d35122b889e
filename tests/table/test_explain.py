"""Explained requests of a scan, compared with the requests that it sends."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.errors import InvalidInputError
from alance.io.events.trace import trace
from alance.ops.read.options import ScanOptions
from alance.ops.read.take import FEW_FRAGMENTS
from alance.ops.version.opening import open_snapshot
from alance.scanner import Scanner
from alance.session import Session
from tests.reference.held_files import is_read_without_waiting
from tests.reference.served import serve

if TYPE_CHECKING:
    from alance.testing.lab import Lab, Recording


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three fragments of 40,000 rows; a tenth of the rows is deleted."""
    numbers = np.arange(120_000)
    vectors = pa.FixedSizeListArray.from_arrays(
        pa.array(np.random.default_rng(3).random(4 * len(numbers), np.float32)), 4
    )
    table = pa.table({"a": numbers, "b": [f"text {n}" for n in numbers], "v": vectors})
    folder: Path = tmp_path_factory.mktemp("explain") / "explained.lance"
    lance.write_dataset(table, str(folder), max_rows_per_file=40_000)
    lance.dataset(str(folder)).delete("a % 10 = 3")
    return str(folder)


@pytest.mark.parametrize("columns", [["a"], ["v", "a"], None])
@pytest.mark.parametrize("limit", [None, 50_000])
async def test_it_tells_what_happens(
    path: str, session: Session, columns: list[str] | None, limit: int | None
) -> None:
    snapshot = await open_snapshot(path, session=session)
    scanner = Scanner(snapshot, columns, ScanOptions(limit=limit))
    with trace() as recorder:
        explanation = await scanner.explain()
    assert {event.reasons for event in recorder.events} <= {("explain",), ("deletions",)}
    with trace() as recorder:
        table = await scanner.to_table()
    # Files in the page cache are read column by column: what lies between neighbours is not read.
    wasted = sum(step.num_wasted for step in explanation.steps)
    wasted = wasted if is_read_without_waiting(Path(path).parent) else 0
    assert explanation.num_bytes - wasted == recorder.num_bytes
    assert explanation.num_requests <= recorder.num_requests
    assert table.num_rows == (limit or 108_000)
    assert explanation.num_rows >= table.num_rows
    assert explanation.num_rows + explanation.num_rows_skipped == 120_000
    text = str(explanation)
    assert text.startswith(f"scan of {path}, version 2\n  fragments: {2 if limit else 3} of 3, ")
    assert f"{explanation.num_requests} request" in text


@dataclass
class Seen:
    """Requests and bytes that the server counted."""

    num_requests: int
    num_bytes: int

    @classmethod
    def of(cls, recording: Recording) -> Seen:
        records = [record for record in recording.records if "op" in record]
        return cls(len(records), sum(int(item["out"]) for item in records))


@pytest.fixture
def uri(path: str, lab: Lab) -> str:
    return serve(lab, Path(path))


ROWS: Final = [3, 60_000, 11, 107_999, 60_001, 3]


@pytest.mark.parametrize("columns", [["a"], ["v", "b"], None])
@pytest.mark.parametrize("warm", [False, True])
async def test_takes_cost_what_was_told(
    uri: str, session: Session, lab: Lab, columns: list[str] | None, warm: bool
) -> None:
    dataset = await alance.dataset(uri, storage_options=lab.lance_options(), session=session)
    if warm:
        await dataset.take(ROWS, columns)
    result = await dataset.explain_take(ROWS, columns)
    with lab.recording() as recording, trace() as recorder:
        table = await dataset.take(ROWS, columns)
    assert (result.num_requests, result.num_bytes) == (recorder.num_requests, recorder.num_bytes)
    assert Seen(result.num_requests, result.num_bytes) == Seen.of(recording)
    assert result.rounds == recording.rounds
    assert table.num_rows == len(ROWS)
    assert result.num_rows == len(set(ROWS))
    assert (result.num_pages == 0) == warm  # the rows were read
    assert result.first == tuple(columns or ["a", "b", "v"])


@pytest.mark.parametrize("columns", [["a"], ["b", "v"], None])
async def test_scans_cost_what_was_told(
    uri: str, session: Session, lab: Lab, columns: list[str] | None
) -> None:
    dataset = await alance.dataset(uri, storage_options=lab.lance_options(), session=session)
    scanner = dataset.scanner(columns)
    for _ in range(2):  # cold, then with known footers
        explanation = await scanner.explain()
        with lab.recording() as recording:
            await scanner.to_table()
        assert Seen(explanation.num_requests, explanation.num_bytes) == Seen.of(recording)
        assert explanation.rounds == recording.rounds


async def test_explaining_keeps_nothing(uri: str, session: Session, lab: Lab) -> None:
    dataset = await alance.dataset(uri, storage_options=lab.lance_options(), session=session)
    before = session.cache_stats.num_entries
    first = await dataset.explain_take(ROWS)
    assert await dataset.explain_take(ROWS) == first
    assert session.cache_stats.num_entries == before


async def test_filters_read_their_columns_first(uri: str, lab: Lab) -> None:
    options = ScanOptions(filter="a < 100", order_by=["-a"])
    async with Session() as session:
        snapshot = await open_snapshot(uri, storage_options=lab.lance_options(), session=session)
        scanner = Scanner(snapshot, ["a", "b"], options)
        explanation = await scanner.explain()
        assert (explanation.first, explanation.late) == (("a",), ("b",))
        lines = str(explanation).splitlines()
        assert "  filter: a < 100" in lines
        assert "  sorted by: -a" in lines
        assert "  read first: a" in lines
        late = lines.index("  read late, of rows that the filter keeps: b")
        assert lines[late + 1].startswith("    at most ")
        with trace() as recorder:
            await scanner.to_table()
    first = [event for event in recorder.events if "late columns" not in event.reasons]
    assert len(first) == explanation.num_requests
    assert sum(event.num_bytes for event in first) == explanation.num_bytes
    late_bytes = recorder.num_bytes - explanation.num_bytes
    assert late_bytes <= sum(step.num_bytes for step in explanation.at_most)


async def test_pages_that_are_not_read_are_counted(tmp_path: Path, session: Session) -> None:
    path = str(tmp_path / "pages")
    rng = np.random.default_rng(1)
    values = pa.array(rng.random(9_000 * 512, np.float32))
    vectors = pa.FixedSizeListArray.from_arrays(values, 512)
    ids = rng.integers(0, 1 << 60, 9_000)
    table = pa.table({"v": vectors, "id": ids})
    parts = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(1000))
    lance.write_dataset(parts, path)
    dataset = await alance.dataset(path, session=session)
    result = await dataset.explain_take([0, 1])
    assert result.num_pages == 2
    assert result.num_pages_skipped >= 1
    assert (await dataset.scanner().explain()).num_pages_skipped == 0


async def test_a_take_of_many_fragments_is_explained(tmp_path: Path, session: Session) -> None:
    """Handles of more than `FEW_FRAGMENTS` are created in a thread, also in a dry run."""
    uri, rows = str(tmp_path / "many"), pa.table({"a": range(FEW_FRAGMENTS + 1)})
    dataset = await alance.write_dataset(rows, uri, max_rows_per_file=1, session=session)
    explanation = await dataset.explain_take(range(len(rows)))
    assert (explanation.num_rows, explanation.num_requests) == (len(rows), len(rows))


async def test_nothing_to_read(tmp_path: Path, session: Session) -> None:
    path = str(tmp_path / "empty")
    lance.write_dataset(pa.table({"a": pa.array([], pa.int64())}), path)
    snapshot = await open_snapshot(path, session=session)
    explanation = await Scanner(snapshot, [], ScanOptions(with_row_id=True)).explain()
    assert "fragments: 0 of 0" in str(explanation)
    assert (explanation.num_requests, explanation.num_bytes, explanation.num_rows) == (0, 0, 0)


async def test_an_explanation_of_unknown_columns_is_refused(path: str, session: Session) -> None:
    snapshot = await open_snapshot(path, session=session)
    with pytest.raises(InvalidInputError, match="nope"):
        await Scanner(snapshot, ["nope"], ScanOptions()).explain()
    dataset = await alance.dataset(path, session=session)
    with pytest.raises(InvalidInputError, match="108000"):
        await dataset.explain_take([108_000])
