"""Small ranges of many local files: few jobs of threads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import alance
from alance.errors import CorruptFileError, NotFoundError
from alance.format.plans import ByteRange
from alance.io.disk.local import LocalStore
from alance.io.opening.registry import StoreRegistry
from alance.io.reading import inline
from alance.io.reading.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CONTENT = bytes(n * 37 % 253 for n in range(100_000))


class Asking:
    """A scheduler of local files, and the jobs that it makes."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        registry = StoreRegistry()
        store, path = registry.open(str(folder))
        self.root = store.root + path.strip("/")
        self.scheduler = Scheduler(registry)
        self.jobs: list[int] = []
        get_many = LocalStore.get_many

        def counted(store: LocalStore, anies: Sequence[Any]) -> Any:
            self.jobs.append(len(anies))
            return get_many(store, anies)

        monkeypatch.setattr(LocalStore, "get_many", counted)

    def read(self, *spans: tuple[int, int, int], bulk: bool = True) -> asyncio.Future[Any]:
        ranges = [ByteRange(f"{self.root}/{number}", *span) for number, *span in spans]
        return self.scheduler.read(ranges, bulk=bulk)


@pytest.fixture
def asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asking:
    for number in range(150):
        (tmp_path / str(number)).write_bytes(CONTENT[number:])
    return Asking(tmp_path, monkeypatch)


async def test_a_job_reads_ranges_of_many_files(asking: Asking) -> None:
    spans = [(number, start, start + 50) for number in range(150) for start in (90_000, 10, 40)]
    buffers = await asking.read(*spans)
    for (number, start, stop), buffer in zip(spans, buffers, strict=True):
        assert bytes(buffer) == CONTENT[number + start : number + stop]
    assert asking.jobs == [
        inline.MANY_JOB_OBJECTS,
        inline.MANY_JOB_OBJECTS,
        150 - 2 * inline.MANY_JOB_OBJECTS,
    ]


async def test_what_is_asked_of_one_file_or_is_large_goes_by_itself(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len((await asking.read((1, 0, 5), (1, 7, 9)))[1]) == 2
    assert asking.jobs == []
    monkeypatch.setattr("alance.io.reading.scheduler.SMALL_OBJECT_BYTES", 1000)
    buffers = await asking.read((1, 0, 2000), (2, 0, 10), (3, 0, 10))
    assert [len(buffer) for buffer in buffers] == [2000, 10, 10]
    assert asking.jobs == [2]


async def test_a_job_holds_no_more_bytes_than_it_should(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inline, "MANY_JOB_BYTES", 1000)
    await asking.read(*[(number, 0, 400) for number in range(7)])
    assert asking.jobs == [3, 3, 1]


async def test_failures_name_the_file(asking: Asking) -> None:
    with pytest.raises(NotFoundError, match="/999"):
        await asking.read((0, 0, 5), (999, 0, 5))
    with pytest.raises(CorruptFileError, match="/3"):
        await asking.read((0, 0, 5), (3, 0, len(CONTENT)))


async def test_a_trace_sees_each_file_and_a_cancelled_read_leaves_nothing(asking: Asking) -> None:
    with alance.trace() as recorder:
        await asking.read((0, 0, 5), (0, 10, 15), (1, 7, 9))
    assert [(event.start, event.stop, event.ranges) for event in recorder.events] == [
        (0, 15, ((0, 5), (10, 15))),
        (7, 9, ((7, 9),)),
    ]
    read = asking.read(*[(number, 0, 400) for number in range(150)])
    read.cancel()
    with pytest.raises(asyncio.CancelledError):
        await read
    await asking.scheduler.aclose()
