"""Compaction beside appends and deletes, cancelled, failing: no row is lost, no file is left."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import lance
import pytest

import alance
from alance.errors import CommitConflictError, RetryableConflictError
from alance.optimize import Compaction
from tests.changing.both_ways import META, TWO_KINDS, Twins, files_of, latest, read, rows

if TYPE_CHECKING:
    from pathlib import Path

    from alance.testing.lab import Lab


@pytest.fixture(params=TWO_KINDS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Twins.make(tmp_path, **request.param).ours


def ids(path: Path) -> list[int]:
    numbers: list[int] = sorted(read(path)["id"].to_pylist())
    return numbers


async def planned(path: Path) -> tuple[alance.Dataset, list[Any]]:
    dataset = await alance.dataset(path)
    plan = await Compaction.plan(dataset, target_rows_per_fragment=10)
    return dataset, [await task.execute(dataset) for task in plan.tasks]


async def test_appends_go_on(path: Path) -> None:
    dataset, results = await planned(path)
    lance.write_dataset(rows(20, 25), path, mode="append")
    await dataset.insert(rows(25, 27))
    committed = await Compaction.commit(dataset, results)
    assert ids(path) == list(range(27))
    assert len(committed.fragments) == 4
    assert await committed.count_rows() == 27
    lance.dataset(path).delete("id = 26")
    assert ids(path) == list(range(26))


@pytest.mark.parametrize("by", ["alance", "pylance"])
async def test_a_delete_in_what_is_rewritten(path: Path, by: str) -> None:
    dataset, results = await planned(path)
    if by == "alance":
        await dataset.delete("id = 3")
    else:
        lance.dataset(path).delete("id = 3")
    with pytest.raises(RetryableConflictError, match="fragment"):
        await Compaction.commit(dataset, results)
    assert ids(path) == [0, 1, 2, *range(4, 20)]
    committed = await Compaction.commit(dataset, results[1:])  # of the other fragments
    assert ids(path) == [0, 1, 2, *range(4, 20)]
    again = await committed.optimize.compact_files(target_rows_per_fragment=10)
    assert again.version > committed.version
    assert ids(path) == [0, 1, 2, *range(4, 20)]


async def test_a_delete_elsewhere(path: Path) -> None:
    dataset, results = await planned(path)
    await dataset.delete("id = 13")
    committed = await Compaction.commit(dataset, results[:1])
    assert await committed.count_rows() == 19
    assert ids(path) == [*range(13), *range(14, 20)]


async def test_one_of_several_compactions_at_once_wins(path: Path) -> None:
    dataset = await alance.dataset(path)
    results = await asyncio.gather(
        *(dataset.optimize.compact_files() for _ in range(3)), return_exceptions=True
    )
    assert sum(isinstance(item, alance.Dataset) for item in results) == 1
    assert all(isinstance(item, alance.Dataset | CommitConflictError) for item in results)
    assert ids(path) == list(range(20))
    assert len(files_in(path, "data")) == 5, "those that failed left nothing"


async def test_an_overwrite_rules_it_out(path: Path) -> None:
    dataset, results = await planned(path)
    lance.write_dataset(rows(0, 3), path, mode="overwrite")
    with pytest.raises(CommitConflictError):
        await Compaction.commit(dataset, results)
    assert ids(path) == [0, 1, 2]


async def test_writers_at_work(path: Path) -> None:
    """Appends, deletes and compactions at once, by several handles: a model of the rows."""
    base = await alance.dataset(path)
    expected = set(range(20))

    async def appends() -> None:
        handle = base
        for start in range(20, 60, 4):
            handle = await handle.insert(rows(start, start + 4))
            expected.update(range(start, start + 4))

    async def deletes() -> None:
        handle = base
        for number in range(0, 20, 3):
            handle = await handle.delete(f"id = {number}", max_retries=50)
            expected.discard(number)
            await asyncio.sleep(0)

    async def compacts() -> int:
        done = 0
        for _ in range(6):
            handle = await base.checkout_latest()
            try:
                await handle.optimize.compact_files(target_rows_per_fragment=16)
                done += 1
            except RetryableConflictError:
                await asyncio.sleep(0.01)
        return done

    await asyncio.gather(appends(), deletes(), compacts())
    assert ids(path) == sorted(expected)
    await (await base.checkout_latest()).optimize.compact_files()
    assert ids(path) == sorted(expected)
    content = read(path)
    assert len(set(content["_rowid"].to_pylist())) == content.num_rows


def files_in(path: Path, folder: str) -> set[str]:
    return {file for file in files_of(path) if file.startswith(f"{folder}/")}


async def test_cancelled_at_any_turn(tmp_path: Path) -> None:
    before: list[Any] | None = None
    finished, turns = False, 0
    while not finished:
        folder = tmp_path / str(turns)
        folder.mkdir()
        path = Twins.make(folder, enable_stable_row_ids=True).ours
        columns = ["id", "s", *META[:1], *META[2:]]
        before = before or read(path).select(columns).to_pylist()
        async with alance.Session() as session:
            dataset = await alance.dataset(path, session=session)
            task = asyncio.ensure_future(
                dataset.optimize.compact_files(target_rows_per_fragment=10)
            )
            for _ in range(turns):
                if task.done():
                    break
                await asyncio.sleep(0 if turns < 30 else 0.001)
            finished = task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert read(path).select(columns).to_pylist() == before
        named = {
            f"data/{file.path}" for fragment in latest(path).fragments for file in fragment.files
        }
        assert named <= files_in(path, "data")
        version = lance.dataset(path).version
        if version < 3 and "_versions" in {item.name for item in path.iterdir()}:
            compacted = await (await alance.dataset(path)).optimize.compact_files()
            assert read(path).select(columns).to_pylist() == before
            assert compacted.version > version
        turns += 1 if turns < 30 else 12
    assert turns > 10


@pytest.mark.parametrize("op", ["GET", "PUT", "LIST", "DELETE"])
async def test_a_store_in_trouble(lab: Lab, tmp_path: Path, op: str) -> None:
    uri, options = f"s3://lab/compact-{op}.lance", lab.lance_options()
    async with alance.Session() as session:
        dataset = await alance.write_dataset(
            rows(0, 40), uri, max_rows_per_file=4, storage_options=options, session=session
        )
        dataset = await dataset.delete("id % 7 = 0")
        expected = await dataset.to_table(with_row_id=False)
        lab.config(faults=[{"op": op, "p": 0.3, "action": "status", "status": 503}], seed=3)
        compacted = None
        for _ in range(10):
            try:
                handle = await dataset.checkout_latest()
                compacted = await handle.optimize.compact_files(target_rows_per_fragment=20)
                break
            except alance.AlanceError:
                continue
        lab.calm()
        assert compacted is not None
        handle = await dataset.checkout_latest()
        assert (await handle.to_table()).equals(expected)
        await handle.validate()
        table = lance.dataset(uri, storage_options=options)
        table.validate()
        assert table.to_table().equals(expected)
