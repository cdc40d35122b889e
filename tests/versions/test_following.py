"""Handles that follow a table: `alance.dataset(uri, follow=seconds)`."""

from __future__ import annotations

import asyncio
import gc
import math
import pickle
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import alance
import alance.sync
from alance import observe
from alance.ops.version import opening
from alance.ops.version.following import RESTS_AFTER
from tests.reference.waiting import turns, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from alance.testing.lab import Lab

INTERVAL = 60.0


class Clock:
    """The clock of the running loop, which jumps when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        self._skipped, real = 0.0, loop.time
        monkeypatch.setattr(loop, "time", lambda: real() + self._skipped)

    def skip(self, seconds: float) -> None:
        """Let timers of this time be due."""
        self._skipped += seconds


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Place:
    """A table on the lab, and writers of it that the handles do not know."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.uri = f"s3://lab/{uuid.uuid4().hex}"
        self.sessions: list[alance.Session] = []

    @property
    def options(self) -> dict[str, Any]:
        return {"storage_options": self.lab.lance_options()}

    async def write(self, rows: int, mode: Any = "append") -> None:
        async with alance.Session() as session:
            table = pa.table({"id": pa.array(range(rows), pa.int64())})
            await alance.write_dataset(table, self.uri, mode=mode, session=session, **self.options)

    async def open(self, session: alance.Session, interval: float = INTERVAL) -> alance.Dataset:
        return await alance.dataset(self.uri, follow=interval, session=session, **self.options)

    def session(self) -> alance.Session:
        self.sessions.append(alance.Session())
        return self.sessions[-1]


@pytest.fixture
async def place(lab: Lab) -> AsyncIterator[Place]:
    place = Place(lab)
    await place.write(10, "create")
    yield place
    for session in place.sessions:
        await session.aclose()


def lists(records: list[dict[str, Any]]) -> int:
    return [record["op"] for record in records].count("LIST")


def is_at(dataset: alance.Dataset, version: int) -> bool:
    return dataset.version == version


def looks() -> set[asyncio.Task[Any]]:
    """The tasks that look for versions."""
    return {task for task in asyncio.all_tasks() if "_keep_looking" in repr(task)}


async def test_a_read_is_of_a_version_at_most_so_old(clock: Clock, place: Place) -> None:
    dataset = await place.open(place.session())
    for version in (2, 3, 4):
        await place.write(10)
        assert dataset.version == version - 1
        clock.skip(INTERVAL)
        await until(partial(is_at, dataset, version))
        assert await dataset.count_rows() == 10 * version
        assert dataset.staleness is not None
        assert dataset.staleness < INTERVAL


async def test_all_callers_of_an_interval_share_a_list(clock: Clock, place: Place) -> None:
    session = place.session()
    handles = [await place.open(session) for _ in range(8)]
    await place.write(10)

    async def caller(number: int) -> int:
        return await handles[number % 8].count_rows()

    with place.lab.recording() as first:
        assert set(await asyncio.gather(*map(caller, range(64)))) == {10}
    assert lists(first.records) == 0
    with place.lab.recording() as second:
        clock.skip(INTERVAL)
        await until(lambda: handles[0].version == 2)
        assert set(await asyncio.gather(*map(caller, range(64)))) == {20}
    assert lists(second.records) == 1
    assert len(looks()) == 1


async def test_handles_that_are_opened_together_share_their_looks(
    clock: Clock, place: Place
) -> None:
    session = place.session()
    handles = await asyncio.gather(*[place.open(session) for _ in range(8)])
    await place.write(10)
    clock.skip(INTERVAL)
    await until(lambda: handles[0].version == 2)
    assert {handle.version for handle in handles} == {2}
    assert len(looks()) == 1


async def test_no_read_waits_for_a_look(clock: Clock, place: Place) -> None:
    dataset = await place.open(place.session())
    assert (await dataset.take([3])).num_rows == 1  # what it reads is in memory now
    await place.write(10)
    place.lab.config(faults=[{"op": "LIST", "action": "stall"}])
    since = place.lab.stats()["requests"]
    clock.skip(INTERVAL)
    await until(lambda: place.lab.log(since))
    assert (await dataset.take([3])).num_rows == 1
    assert dataset.version == 1


async def test_64_that_ask_for_the_latest_version_share_a_list(place: Place) -> None:
    dataset = await place.open(place.session())
    await place.write(10)
    with place.lab.recording() as seen:
        latest = await asyncio.gather(*(dataset.checkout_latest() for _ in range(64)))
    assert {version.version for version in latest} == {2}
    assert lists(seen.records) == 1
    assert dataset.version == 2
    await place.write(10)
    assert {version.version for version in latest} == {2}  # these stay at their version


async def test_who_asks_after_a_commit_sees_it_although_a_look_is_under_way(
    place: Place, lab: Lab
) -> None:
    lab.config(latency_ms=200)
    dataset = await place.open(place.session())
    early = asyncio.create_task(dataset.checkout_latest())
    await turns()
    await place.write(10)  # takes longer than the look
    late = await dataset.checkout_latest()
    assert late.version == 2
    await early


async def test_own_changes_are_seen_at_once(place: Place) -> None:
    dataset = await place.open(place.session())
    written = await dataset.insert(pa.table({"id": [100, 101]}))
    assert (written.version, dataset.version) == (2, 2)
    assert await dataset.count_rows() == 12
    assert written.summary["num_inserted_rows"] == 2
    assert not dataset.summary
    after = await dataset.delete("id = 100")
    assert await dataset.count_rows() == 11
    assert await written.count_rows() == 12  # a dataset of one version
    assert after.version == dataset.version == 3
    await dataset.upsert(pa.table({"id": [7, 500]}), "id")
    assert await dataset.count_rows() == 12
    await dataset.optimize.compact_files()
    assert len(dataset.fragments) == 1
    assert (await dataset.checkout_version(1)).version == 1
    assert dataset.version > 4


async def test_a_look_that_a_commit_overtook_does_not_bring_the_older_version_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = await place.open(place.session())
    real = opening.checkout
    reached, goes_on = asyncio.Event(), asyncio.Event()

    async def slow(*args: Any) -> Any:
        before = await real(*args)
        reached.set()
        await goes_on.wait()
        return before

    monkeypatch.setattr("alance.ops.version.following.checkout", slow)
    look = asyncio.create_task(dataset.checkout_latest())
    await reached.wait()
    await dataset.insert(pa.table({"id": [1]}))
    goes_on.set()
    await look
    assert dataset.version == 2


async def test_one_read_sees_one_version(place: Place) -> None:
    dataset = await place.open(place.session())
    scanner = dataset.scanner()
    batches = dataset.to_batches(batch_size=1)
    engine = await dataset.to_arrow_dataset()
    fragments = dataset.fragments
    rows = [await anext(batches)]
    await place.write(10)
    await dataset.checkout_latest()
    assert dataset.version == 2
    rows += [batch async for batch in batches]
    assert sum(batch.num_rows for batch in rows) == 10
    assert (await scanner.to_table()).num_rows == 10
    assert await asyncio.to_thread(engine.count_rows) == 10
    assert len(fragments) == 1
    assert (await dataset.sql("select count(*) n from dataset"))["n"].to_pylist() == [20]


async def test_reads_go_on_while_the_store_fails_and_their_age_is_told(
    clock: Clock, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    dataset = await place.open(place.session())
    assert await dataset.count_rows() == 10
    await place.write(10)
    place.lab.config(faults=[{"op": "LIST", "action": "status", "status": 403}])
    for _ in range(3):
        clock.skip(INTERVAL)
        await until(partial(place.lab.log, place.lab.stats()["requests"]))
        assert await dataset.count_rows() == 10
    await until(lambda: "version 1 is read on" in caplog.text)
    assert dataset.staleness is not None
    assert dataset.staleness > 2 * INTERVAL
    readings = [
        reading for reading in observe.readings() if reading.name == "dataset_staleness_seconds"
    ]
    assert [reading.where for reading in readings] == [place.uri]
    assert readings[0].value > 2 * INTERVAL
    with pytest.raises(alance.AlanceError):
        await dataset.checkout_latest()
    place.lab.calm()
    clock.skip(INTERVAL)
    await until(lambda: dataset.version == 2)
    assert dataset.staleness < INTERVAL


async def test_a_table_that_is_made_anew_is_followed(clock: Clock, place: Place) -> None:
    await place.write(10)
    dataset = await place.open(place.session())
    assert dataset.version == 2
    async with alance.Session() as session:
        await alance.drop(place.uri, session=session, **place.options)
    await place.write(3, "create")
    clock.skip(INTERVAL)
    await until(lambda: dataset.version == 1)
    assert await dataset.count_rows() == 3


async def test_a_handle_that_nobody_uses_costs_nothing(clock: Clock, place: Place) -> None:
    dataset = await place.open(place.session())
    with place.lab.recording() as seen:
        for _ in range(3 * RESTS_AFTER):
            clock.skip(INTERVAL)
            await until(lambda: not looks() or dataset._follower.due_in() > 1)  # type: ignore[attr-defined]
            await turns(20)
    assert not looks()
    assert lists(seen.records) <= RESTS_AFTER + 1
    await place.write(10)
    clock.skip(10 * INTERVAL)
    assert dataset.version == 1  # the version in hand; and it looks again
    await until(lambda: dataset.version == 2)
    assert len(looks()) == 1


async def test_a_handle_that_may_not_rest_looks_for_ever(clock: Clock, place: Place) -> None:
    session = place.session()
    dataset = await alance.dataset(
        place.uri, follow=INTERVAL, rests=False, session=session, **place.options
    )
    for _ in range(2 * RESTS_AFTER):
        clock.skip(INTERVAL)
        await until(lambda: dataset._follower.due_in() > 1)  # type: ignore[attr-defined]
        await turns(20)
    assert len(looks()) == 1
    resting = await place.open(session)
    assert len(looks()) == 2
    assert resting.version == dataset.pinned().version == 1
    with pytest.raises(alance.InvalidInputError, match="expected follow=SECONDS beside it"):
        await alance.dataset(place.uri, rests=False, **place.options)


async def test_the_last_handle_takes_the_task_with_it(place: Place) -> None:
    session = place.session()
    first, second = await place.open(session), await place.open(session)
    assert len(looks()) == 1
    del first
    gc.collect()
    await turns()
    assert len(looks()) == 1
    assert second.version == 1
    del second
    gc.collect()
    await turns()
    assert not looks()


async def test_the_end_of_the_session_ends_the_looks(clock: Clock, place: Place) -> None:
    session = alance.Session()
    dataset = await place.open(session)
    place.lab.config(faults=[{"op": "LIST", "action": "stall"}])
    since = place.lab.stats()["requests"]
    clock.skip(INTERVAL)
    await until(lambda: place.lab.log(since))  # a look is under way
    await session.aclose()
    assert not looks()
    assert dataset.version == 1  # no request, and no task
    assert not looks()
    with pytest.raises(alance.InvalidInputError, match="closed"):
        await dataset.count_rows("id > 3")


async def test_a_caller_that_is_cancelled_is_free_and_the_others_get_their_look(
    place: Place, lab: Lab
) -> None:
    dataset = await place.open(place.session())
    await place.write(10)
    lab.config(latency_ms=100)
    callers = [asyncio.create_task(dataset.checkout_latest()) for _ in range(4)]
    await turns(10)
    callers[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await callers[0]
    assert [(await caller).version for caller in callers[1:]] == [2, 2, 2]


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, "5", True])
async def test_bad_intervals_are_refused(bad: Any, place: Place) -> None:
    with pytest.raises(alance.InvalidInputError, match="follow="):
        await alance.dataset(place.uri, follow=bad, **place.options)


@pytest.mark.parametrize("other", [{"version": 1}, {"version": "tag"}, {"asof": "2020-01-01"}])
async def test_a_version_that_stays_is_not_followed(other: Any, place: Place) -> None:
    with pytest.raises(alance.InvalidInputError, match="follow: expected neither"):
        await alance.dataset(place.uri, follow=5.0, **other, **place.options)


async def test_different_intervals_have_looks_of_their_own(clock: Clock, place: Place) -> None:
    session = place.session()
    quick, slow = await place.open(session, INTERVAL), await place.open(session, 100 * INTERVAL)
    await place.write(10)
    clock.skip(INTERVAL)
    await until(lambda: quick.version == 2)
    assert slow.version == 1


async def test_a_pickled_handle_is_a_dataset_of_its_version(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    await alance.write_dataset(pa.table({"id": [1]}), uri)
    dataset = await alance.dataset(uri, follow=5, default_scan_options={"columns": ["id"]})
    copy = pickle.loads(pickle.dumps(dataset))
    await dataset.insert(pa.table({"id": [2]}))
    assert (copy.version, dataset.version, copy.staleness) == (1, 2, None)
    assert isinstance(copy, alance.Dataset)
    assert copy.schema == dataset.schema


def test_a_handle_works_in_one_loop_after_the_other_and_without_one(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")

    async def begin() -> alance.Dataset:
        await alance.write_dataset(pa.table({"id": [1]}), uri)
        return await alance.dataset(uri, follow=0.05)

    dataset = asyncio.run(begin())
    assert dataset.version == 1

    async def go_on() -> int:
        await alance.write_dataset(pa.table({"id": [2]}), uri, mode="append")
        await until(lambda: dataset.version == 2)
        return await dataset.count_rows()

    assert asyncio.run(go_on()) == 2


def test_the_blocking_face_follows(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    alance.sync.write_dataset(pa.table({"id": [1]}), uri)
    dataset = alance.sync.dataset(uri, follow=3600)
    assert dataset.staleness is not None
    alance.sync.write_dataset(pa.table({"id": [2]}), uri, mode="append")
    assert dataset.count_rows() == 1
    assert dataset.checkout_latest().count_rows() == 2
    assert dataset.count_rows() == len(dataset) == 2
    dataset.insert(pa.table({"id": [3]}))
    assert dataset.to_table()["id"].to_pylist() == [1, 2, 3]
