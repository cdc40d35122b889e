"""`progress=` with an object that has `begin` and `complete`, beside pylance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import lance.fragment
import lance.progress
import pyarrow as pa
import pytest

import alance
import alance.sync
from alance import InvalidInputError
from alance.operations import Append
from alance.types import FragmentWriteProgress

if TYPE_CHECKING:
    from pathlib import Path

    from alance.testing.lab import Lab

ROWS = pa.table({"x": range(10)})


class RecordedEvents(lance.progress.FragmentWriteProgress):
    """Recorder of the fragments that either library reports, as a class of pylance."""

    def __init__(self) -> None:
        self.begun: list[Any] = []
        self.completed: list[Any] = []

    def begin(self, fragment: Any, **_: Any) -> None:
        self.begun.append(fragment)

    def complete(self, fragment: Any, **_: Any) -> None:
        self.completed.append(fragment)

    @property
    def rows(self) -> list[tuple[int, int]]:
        return [(fragment.id, fragment.physical_rows) for fragment in self.completed]


async def test_each_fragment_is_told_as_by_pylance(tmp_path: Path) -> None:
    ours, theirs = RecordedEvents(), RecordedEvents()
    assert isinstance(ours, FragmentWriteProgress)
    arguments = {"max_rows_per_file": 5}
    await alance.write_dataset(ROWS, tmp_path / "own", progress=ours, **arguments)
    lance.write_dataset(ROWS, tmp_path / "their", progress=theirs, **arguments)
    assert ours.rows == theirs.rows == [(0, 5), (0, 5)]
    assert len(ours.begun) == 2
    assert all(not fragment.physical_rows for fragment in (*ours.begun, *theirs.begun))


async def test_records_are_those_that_are_committed(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(ROWS, tmp_path / "t")
    events = RecordedEvents()
    fragments = await alance.write_fragments(ROWS, dataset, max_rows_per_file=4, progress=events)
    assert events.completed == fragments
    assert [[file.path for file in begun.files] for begun in events.begun] == [
        [file.path for file in fragment.files] for fragment in fragments
    ]
    for fragment in events.completed:
        assert (tmp_path / "t" / "data" / fragment.files[0].path).exists()
    dataset = await alance.commit(dataset, Append(events.completed))
    assert (await dataset.to_table())["x"].to_pylist() == [*range(10)] * 2

    await dataset.insert(ROWS, progress=(more := RecordedEvents()))
    alone = await alance.DatasetFragment.create(tmp_path / "t", ROWS, progress=more)
    assert more.rows == [(0, 10), (0, 10)]
    assert more.completed[1] == alone


def test_the_blocking_face_tells_the_same(tmp_path: Path) -> None:
    events = RecordedEvents()
    alance.sync.write_dataset(ROWS, tmp_path / "t", max_rows_per_file=4, progress=events)
    assert events.rows == [(0, 4), (0, 4), (0, 2)]


@pytest.mark.parametrize("method", ["begin", "complete"])
async def test_an_error_of_it_ends_the_write(tmp_path: Path, method: str) -> None:
    events = RecordedEvents()
    dataset = await alance.write_dataset(ROWS, tmp_path / "t")
    before = sorted((tmp_path / "t" / "data").iterdir())

    def fail(_: object) -> None:
        raise KeyError("of the caller")

    setattr(events, method, fail)
    with pytest.raises(KeyError, match="of the caller"):
        await dataset.insert(ROWS, max_rows_per_file=4, progress=events)
    assert (await dataset.checkout_latest()).version == dataset.version
    assert sorted((tmp_path / "t" / "data").iterdir()) == before


async def test_what_failed_is_not_completed(lab: Lab) -> None:
    events = RecordedEvents()
    lab.config(faults=[{"op": "PUT", "key": "/data/", "action": "status", "status": 403}])
    with pytest.raises(alance.errors.AccessError):
        await alance.write_dataset(
            ROWS, "s3://lab/refused-progress", storage_options=lab.lance_options(), progress=events
        )
    assert (len(events.begun), events.completed) == (1, [])


async def test_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidInputError, match="progress=5: expected a function or True, or an object"
    ):
        await alance.write_dataset(ROWS, tmp_path / "t", progress=5)  # type: ignore[arg-type]
    assert not (tmp_path / "t").exists()
