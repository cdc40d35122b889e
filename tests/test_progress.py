"""`progress=` of everything long: one event, few calls, errors that end the work, bars."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import alance
import alance.sync
from alance import InvalidInputError, Progress
from alance.base import bars
from alance.base import progress as reports
from alance.base.progress import Reporting, Stage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    Work = Callable[[alance.Dataset, list[Progress]], Awaitable[object]]

ROWS = {
    "id": list(range(40)),
    "text": ["a word"] * 40,
    "vector": [[0.0, float(n)] for n in range(40)],
}
WORKS: dict[str, tuple[Work, list[str]]] = {
    "insert": (lambda d, e: d.insert(ROWS, progress=e.append), ["write 40 rows"]),
    "vectors": (
        lambda d, e: d.create_index("vector", "IVF_FLAT", num_partitions=1, progress=e.append),
        ["centroids 50 rounds", "code 80 rows", "write 80 rows"],
    ),
    "texts": (lambda d, e: d.create_index("text", "FTS", progress=e.append), ["scan 80 rows"]),
    "values": (
        lambda d, e: d.create_scalar_index("id", "BTREE", progress=e.append),
        ["scan 80 rows", "write 80 keys"],
    ),
    "columns": (
        lambda d, e: d.add_columns({"x": "id + 1"}, progress=e.append),
        ["columns 80 rows"],
    ),
    "function": (
        lambda d, e: d.add_columns(
            lambda rows: pa.record_batch({"y": rows["id"]}), progress=e.append
        ),
        ["columns 80 rows"],
    ),
    "cast": (
        lambda d, e: d.alter_columns({"path": "id", "data_type": pa.int32()}, progress=e.append),
        ["columns 80 rows"],
    ),
    "compaction": (lambda d, e: d.optimize.compact_files(progress=e.append), ["compact 80 rows"]),
    "clone": (lambda d, e: d.deep_clone(f"{d.uri}-copy", progress=e.append), ["copy 2 files"]),
    "maintenance": (
        lambda d, e: d.maintain(alance.MaintenancePolicy(min_small_fragments=2), progress=e.append),
        ["compact 80 rows"],
    ),
    "cleanup": (
        lambda d, e: d.cleanup_old_versions(timedelta(0), progress=e.append),
        ["manifests 2 versions", "delete 1 files", "delete 1 files"],
    ),
}


@pytest.fixture
async def dataset(tmp_path: Path) -> alance.Dataset:
    dataset = await alance.write_dataset(ROWS, tmp_path / "t")
    return await dataset.insert(ROWS)


@pytest.mark.parametrize("name", WORKS)
async def test_each_long_verb_reports_its_stages_to_the_end(
    dataset: alance.Dataset, name: str
) -> None:
    work, expected = WORKS[name]
    events: list[Progress] = []
    await work(dataset, events)
    ends = [f"{e.stage} {e.done} {e.unit}" for e in events if e.done == e.total]
    assert ends == expected
    assert events[0].done == 0


@pytest.mark.parametrize("name", WORKS)
async def test_an_error_of_the_callback_ends_each_verb(dataset: alance.Dataset, name: str) -> None:
    class Stopper(list[Progress]):
        def append(self, event: Progress) -> None:
            raise alance.StoreError("enough")

    before = {path.name for path in (await _folder(dataset)).glob("data/*")}
    with pytest.raises(alance.StoreError, match="enough"):
        await WORKS[name][0](dataset, Stopper())
    assert await dataset.latest_version() == 2
    assert {path.name for path in (await _folder(dataset)).glob("data/*")} == before


async def _folder(dataset: alance.Dataset) -> Path:
    from pathlib import Path

    return Path(dataset.uri)


def test_events_of_a_stage_are_few_however_often_it_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter(range(10**9))
    monkeypatch.setattr(reports.time, "monotonic", lambda: next(clock) / 1e5)
    events: list[Progress] = []
    with Reporting(events.append), Stage("count", 50_000, "rows") as stage:
        for _ in range(50_000):
            stage.add(1)
    assert [events[0].done, events[-1].done] == [0, 50_000]
    assert len(events) <= 0.6 / reports.INTERVAL_S + 2


def test_the_end_of_a_stage_is_its_total_and_no_work_is_no_event() -> None:
    events: list[Progress] = []
    with Reporting(events.append):
        with Stage("rounds", 50, "rounds") as stage:
            stage.at(3)
        with Stage("none", 0, "files"):
            pass
    assert events[-1] == Progress("rounds", 3, 3, "rounds")
    assert str(Progress("write", 2000, 10_000, "rows")) == "write: 2,000 of 10,000 rows"
    assert str(Progress("write", 2000, None, "rows")) == "write: 2,000 rows"


async def test_what_outlives_the_block_reports_nothing() -> None:
    events: list[Progress] = []
    begun = asyncio.Event()

    async def late() -> None:
        await begun.wait()
        with Stage("late", 1, "rows") as stage:
            stage.add(1)

    with Reporting(events.append):
        task = asyncio.ensure_future(late())
    begun.set()
    await task
    assert events == []


def test_noted_errors_are_raised_at_the_end() -> None:
    def fail(_: Progress) -> None:
        raise KeyError("enough")

    def note_errors() -> None:
        with Reporting(fail):
            for _ in range(2):
                with pytest.raises(KeyError), Stage("again", 1, "rows"):
                    pass

    with pytest.raises(KeyError):
        note_errors()


async def test_no_other_value_is_a_callback(dataset: alance.Dataset) -> None:
    with pytest.raises(InvalidInputError, match="progress='yes': expected a function or True"):
        await dataset.add_columns({"x": "id"}, progress="yes")  # type: ignore[arg-type]


def test_blocking_calls_report_as_well(tmp_path: Path) -> None:
    events: list[Progress] = []
    dataset = alance.sync.write_dataset(ROWS, tmp_path / "t", progress=events.append)
    dataset.optimize.optimize_indices(progress=True)
    assert list(dataset.tracked_files(progress=events.append))
    assert [str(e) for e in events if e.done == e.total] == [
        "write: 40 of 40 rows",
        "manifests: 1 of 1 versions",
    ]


def test_a_log_gets_a_line_for_each_finished_stage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alance.sync.write_dataset(ROWS, tmp_path / "t", progress=True)
    assert capsys.readouterr().err == "write: 40 of 40 rows\n"
    alance.sync.write_dataset(ROWS, tmp_path / "u", progress=False)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("missing", "kind"),
    [((), bars.RichBar), (("rich",), bars.TqdmBar), (("rich", "tqdm"), bars.Line)],
)
def test_a_terminal_gets_the_best_bar_that_is_installed(
    missing: tuple[str, ...],
    kind: type,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(bars, "find_spec", lambda name: name not in missing)
    bar: Any = bars.new_bar()
    assert type(bar) is kind
    for event in (Progress("scan", 0, 9, "rows"), Progress("write", 1, 2, "files")):
        bar(event)
    bar(Progress("write", 2, 2, "files"))
    bar.close()
    shown = capsys.readouterr().err
    assert "scan" in shown
    assert "write" in shown
    assert "2" in shown.rpartition("write")[2]
