"""Processes killed at each request, and cancelled at each turn: no acknowledged change is lost."""

from __future__ import annotations

import asyncio
import pickle
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import lance
import pytest

import alance
from tests.faults.mortal import Process, World, cancelled_at
from tests.ingest.steps import SCHEMA, Model, after, take_step

if TYPE_CHECKING:
    from pathlib import Path

FIRST, LAST = 4, 6  # steps that are taken before the process begins, and by it
KEEPING = alance.MaintenancePolicy(
    min_small_fragments=2,
    max_deleted_share=0.0,
    max_unindexed_rows=1,
    max_index_segments=2,
    older_than=None,
)
CLEANING = replace(KEEPING, older_than=timedelta(0), retain_versions=2, min_old_versions=1)


class Producer:
    """The memory of a producer, which outlives its processes.

    Attributes:
        acknowledged: last step that a flush has confirmed.
    """

    def __init__(self, last: int = LAST) -> None:
        self.acknowledged = FIRST
        self.last = last

    async def produce(self, process: Process) -> None:
        """Take the steps that the table does not have, a commit for each."""
        options: Any = {"on": "id", "producer": "p", "commit_interval": None}
        async with alance.ingest("t", maintain=KEEPING, **options, **process.place) as sink:
            assert sink.last_sequence >= 3 * self.acknowledged + 2
            for number in range(1, self.last + 1):
                await take_step(sink, number)
                await sink.flush()
                self.acknowledged = max(number, self.acknowledged)


async def follow(process: Process) -> None:
    """Apply all changes to a mirror, an object that has the token as well; each change must fit."""
    token: Any = 0
    mirror: dict[int, dict[str, Any]] = {}
    with suppress(alance.NotFoundError):
        mirror, token = pickle.loads(await process.store.get("mirror"))
    dataset = await process.dataset()
    async for change in dataset.follow(token, wait=False, batch_size=3):
        for row in [] if change.rows is None else change.rows.to_pylist():
            assert (row["_rowid"] in mirror) is (change.kind != "insert"), change
            if change.kind == "delete":
                del mirror[row["_rowid"]]
            else:
                mirror[row["_rowid"]] = row
        await process.store.put("mirror", pickle.dumps((mirror, change.token)))


async def begun() -> World:
    """Return a bucket with a table of some steps and an index."""
    world = World()
    process = Process(world)

    async def work() -> None:
        empty = SCHEMA.empty_table()
        dataset = await alance.write_dataset(empty, "t", stable_row_ids=True, **process.place)
        async with alance.ingest("t", on="id", producer="p", **process.place) as sink:
            for number in range(1, FIRST + 1):
                await take_step(sink, number)
                await sink.flush()
                if number == 1:
                    dataset = await dataset.checkout_latest()
                    await dataset.create_scalar_index("id", "BTREE")

    assert await process.run(work())
    return world


async def model_of(world: World) -> Model:
    """Return the rows of the table, which another process reads and checks."""
    process, model = Process(world), Model()

    async def work() -> None:
        dataset = await process.dataset()
        await dataset.validate()
        for row in (await dataset.to_table()).to_pylist():
            assert row["id"] not in model
            model[row["id"]] = row["x"], row["y"]
        for key in (1, 12, 29):
            stored_row = await dataset.get(key, "id")
            assert (stored_row and (stored_row["x"], stored_row["y"])) == model.get(key)

    assert await process.run(work())
    return model


async def check_end(world: World, last: int = LAST) -> Model:
    """Check that another reader comes to the end, and has the rows of the table."""
    reader = Process(world)
    assert await reader.run(follow(reader))
    mirror, _ = pickle.loads(await world.get("mirror"))
    rows = {row["id"]: (row["x"], row["y"]) for row in mirror.values()}
    assert len(rows) == len(mirror)
    assert rows == await model_of(world) == after(last)
    return rows


async def check(world: World, producer: Producer, tmp_path: Path | None = None) -> None:
    """Check the table after a death; another process does what remains, and all is there once."""
    world.expire_leases()
    confirmed = producer.acknowledged
    assert await model_of(world) in (after(confirmed), after(min(LAST, confirmed + 1)))
    heir = Process(world)
    assert await heir.run(producer.produce(heir))
    rows = await check_end(world)
    if tmp_path is not None:
        world.write_to(tmp_path)
        table = lance.dataset(str(tmp_path / "t"))
        table.validate()  # type: ignore[no-untyped-call]
        theirs = {row["id"]: (row["x"], row["y"]) for row in table.to_table().to_pylist()}
        assert theirs == rows


Work = Callable[[Process], Coroutine[Any, Any, None]]


async def disturbed(process: Process, work: Work, place: int, end: str) -> bool:
    """Kill a process at a way of a request, or cancel it at a turn; return True if it has ended."""
    if end == "killed":
        return await process.run(work(process))
    is_cancelled = await cancelled_at(place, work(process))
    await process.session.aclose()
    return not is_cancelled


def process_of(world: World, place: int, end: str) -> Process:
    return Process(world, place if end == "killed" else None)


# Some ways and turns in seconds, all of them in minutes.
def strides(ways: int, turns: int) -> Any:
    return pytest.mark.parametrize(
        ("end", "stride"),
        [
            pytest.param("killed", ways, id="killed"),
            pytest.param("cancelled", turns, id="cancelled"),
            pytest.param("killed", 1, id="killed-everywhere", marks=pytest.mark.soak),
            pytest.param("cancelled", 1, id="cancelled-everywhere", marks=pytest.mark.soak),
        ],
    )


@strides(17, 53)
async def test_a_sink_loses_and_doubles_nothing(tmp_path: Path, end: str, stride: int) -> None:
    start, place, has_ended = await begun(), 1, False
    while not has_ended:
        world, producer = start.copy_of(), Producer()
        process = process_of(world, place, end)
        has_ended = await disturbed(process, producer.produce, place, end)
        await check(world, producer, tmp_path if has_ended else None)
        place += stride
    assert place > 5 * stride


async def maintain(process: Process) -> None:
    report = await (await process.dataset()).maintain(CLEANING)
    assert {step.outcome for step in report.steps} <= {"done"}


@strides(23, 101)
async def test_maintenance_changes_no_row(end: str, stride: int) -> None:
    start, place, has_ended = await begun(), 1, False
    while not has_ended:
        world = start.copy_of()
        has_ended = await disturbed(process_of(world, place, end), maintain, place, end)
        world.expire_leases()
        assert await model_of(world) == after(FIRST)
        heir = Process(world)
        assert await heir.run(maintain(heir))
        assert await model_of(world) == after(FIRST)
        place += stride
    assert place > 5 * stride


@strides(5, 19)
async def test_a_reader_goes_on_behind_its_token(end: str, stride: int) -> None:
    world = await begun()
    producer, process = Producer(), Process(world)
    assert await process.run(producer.produce(process))
    place, has_ended = 1, False
    while not has_ended:
        reader = process_of(world, place, end)
        has_ended = await disturbed(reader, follow, place, end)
        place += stride
    await check_end(world)
    assert place > 5 * stride


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(2), id="short"),
        pytest.param(range(2, 200), id="long", marks=[pytest.mark.soak, pytest.mark.timeout(0)]),
    ],
)
async def test_processes_that_are_killed_again_and_again(seeds: range) -> None:
    """A sink, maintenance and a reader at once in each, until one lives to the end."""
    for seed in seeds:
        await again_and_again(random.Random(seed), Producer(12))


async def again_and_again(chance: random.Random, producer: Producer) -> None:
    world, has_ended = await begun(), False

    async def upkeep(process: Process) -> None:
        await (await process.dataset()).maintain(KEEPING)

    async def work(process: Process) -> None:
        await asyncio.gather(producer.produce(process), upkeep(process), follow(process))

    while not has_ended:
        process = Process(world, chance.choice([chance.randint(1, 400), None]))
        has_ended = await process.run(work(process))
        world.expire_leases()
        confirmed = producer.acknowledged
        assert await model_of(world) in (after(confirmed), after(min(producer.last, confirmed + 1)))
    await check_end(world, producer.last)
