"""A caller that is cancelled while the store does not answer is free, whatever it was writing."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.io.disk import publish
from tests.reference.waiting import stuck

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from pathlib import Path

    from alance.testing.lab import Lab

# A caller is free within a second; before, it was after minutes. A busy machine has its time.
FREE_S = 30.0
ROWS = pa.table({"id": range(40), "v": [0.5] * 40})
_numbers = itertools.count(1)


async def write_file(dataset: alance.Dataset, uri: str, more: dict[str, Any]) -> None:
    async with alance.FileWriter.open(f"{uri}/file.lance", **more) as writer:
        await writer.write(ROWS)


async def write_large_file(dataset: alance.Dataset, uri: str, more: dict[str, Any]) -> None:
    rows = np.random.default_rng(1).random(3 << 20)
    async with alance.FileWriter.open(f"{uri}/file.lance", **more) as writer:
        await writer.write(pa.table({"x": rows}))


async def stream(dataset: alance.Dataset, uri: str, more: dict[str, Any]) -> None:
    async with alance.ingest(uri, **more) as sink:
        await sink.write(ROWS)


async def merge(dataset: alance.Dataset, uri: str, more: dict[str, Any]) -> None:
    await dataset.merge_insert("id").when_matched_update_all().execute(ROWS.slice(0, 3))


VERBS: dict[str, Any] = {
    "create": lambda dataset, uri, more: alance.write_dataset(ROWS, f"{uri}-new", **more),
    "overwrite": lambda dataset, uri, more: dataset.insert(ROWS, mode="overwrite"),
    "append": lambda dataset, uri, more: dataset.insert(ROWS),
    "append by uri": lambda dataset, uri, more: alance.write_dataset(
        ROWS, uri, mode="append", **more
    ),
    "delete": lambda dataset, uri, more: dataset.delete("id < 7"),
    "update": lambda dataset, uri, more: dataset.update({"v": "1.5"}, "id < 7"),
    "merge": merge,
    "compact": lambda dataset, uri, more: dataset.optimize.compact_files(),
    "add columns": lambda dataset, uri, more: dataset.add_columns({"w": "v + 1"}),
    "index": lambda dataset, uri, more: dataset.create_scalar_index("id", "BTREE"),
    "tag": lambda dataset, uri, more: dataset.tags.create("first", 1),
    "branch": lambda dataset, uri, more: dataset.create_branch("trial"),
    "shallow clone": lambda dataset, uri, more: dataset.shallow_clone(f"{uri}-clone"),
    "deep clone": lambda dataset, uri, more: dataset.deep_clone(f"{uri}-clone"),
    "restore": lambda dataset, uri, more: dataset.restore(1),
    "check of the store": lambda dataset, uri, more: alance.check_store(uri, **more),
    "config": lambda dataset, uri, more: dataset.update_config({"a": "b"}),
    "file": write_file,
    "large file": write_large_file,
    "ingest": stream,
}


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


async def cancelled(lab: Lab, call: Awaitable[object]) -> BaseException | None:
    """Cancel a call once the store stops answering; return the exception with which it ends."""
    since = lab.stats()["requests"]
    task = asyncio.ensure_future(call)
    async with asyncio.timeout(FREE_S):
        waiting = asyncio.ensure_future(stuck(lab, since))
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        task.cancel()
        await asyncio.wait([task])
    return asyncio.CancelledError() if task.cancelled() else task.exception()


@pytest.mark.parametrize("name", [name for name in VERBS if name != "create"])
async def test_while_nothing_is_answered_to_a_new_session(lab: Lab, name: str) -> None:
    """A session asks each store once whether it heeds conditions: no write has done that yet."""
    uri = f"s3://lab/cancelled-{next(_numbers)}"
    options = lab.lance_options()
    await alance.write_dataset(ROWS, uri, max_rows_per_file=20, storage_options=options)
    async with alance.Session() as session:
        more = {"storage_options": options, "session": session}
        dataset = await alance.dataset(uri, **more)
        lab.config(faults=[{"action": "stall"}])
        error = await cancelled(lab, VERBS[name](dataset, uri, more))
        assert isinstance(error, asyncio.CancelledError)
    lab.calm()
    assert (await alance.dataset(uri, storage_options=options)).version == 1


@pytest.mark.parametrize("name", list(VERBS))
@pytest.mark.parametrize("ops", ["PUT", "writes"])
async def test_while_no_write_is_answered(lab: Lab, name: str, ops: str) -> None:
    """Neither a PUT nor, in the other case, what would clean up."""
    uri = f"s3://lab/cancelled-{next(_numbers)}"
    options = lab.lance_options()
    async with alance.Session() as session:
        more = {"storage_options": options, "session": session}
        dataset = await alance.write_dataset(ROWS, uri, max_rows_per_file=20, **more)
        faults = [{"op": op, "action": "stall"} for op in ("PUT", "MPCREATE", "PART")]
        if ops == "writes":
            faults += [{"op": op, "action": "stall"} for op in ("DELETE", "BULKDELETE", "MPABORT")]
        lab.config(faults=faults)
        error = await cancelled(lab, VERBS[name](dataset, uri, more))
        assert isinstance(error, asyncio.CancelledError)
        begun = time.monotonic()
    assert time.monotonic() - begun < FREE_S, "closing the session is bounded, too"
    lab.calm()
    reopened = await alance.dataset(uri, storage_options=options)
    assert reopened.version == 1
    assert await reopened.tags.list() == {}
    assert await reopened.count_rows() == 40
    assert (await reopened.insert(ROWS)).version == 2
    if name == "create":
        with pytest.raises(alance.NotFoundError):
            await alance.dataset(f"{uri}-new", storage_options=options)
    if name == "branch":
        assert (await reopened.create_branch("trial")).version == 1


DELETES: dict[str, Any] = {
    "cleanup": lambda dataset: dataset.cleanup_old_versions(timedelta(0)),
    "tag": lambda dataset: dataset.tags.delete("first"),
    "branch": lambda dataset: dataset.branches.delete("trial"),
}


@pytest.mark.parametrize("name", list(DELETES))
async def test_while_no_delete_is_answered(lab: Lab, name: str) -> None:
    uri = f"s3://lab/cancelled-{next(_numbers)}"
    options = lab.lance_options()
    async with alance.Session() as session:
        more = {"storage_options": options, "session": session}
        dataset = await alance.write_dataset(ROWS, uri, **more)
        await dataset.tags.create("first", 1)
        await dataset.create_branch("trial")
        if name == "cleanup":
            await dataset.tags.delete("first")
            await dataset.branches.delete("trial")
            dataset = await dataset.insert(ROWS, mode="overwrite")
        lab.config(faults=[{"op": op, "action": "stall"} for op in ("DELETE", "BULKDELETE")])
        error = await cancelled(lab, DELETES[name](dataset))
        assert isinstance(error, asyncio.CancelledError)
    lab.calm()
    reopened = await alance.dataset(uri, storage_options=options)
    assert await reopened.count_rows() == 40


@pytest.mark.parametrize("name", ["append", "overwrite", "delete", "create", "tag", "file"])
async def test_a_local_publication_that_has_begun_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    begun, goes_on = asyncio.Event(), threading.Event()
    loop, write, publish_file = asyncio.get_running_loop(), publish.write, publish.NewFile.publish

    def held(path: str) -> None:
        if "_versions" in path or "_refs" in path or path.endswith("file.lance"):
            loop.call_soon_threadsafe(begun.set)
            goes_on.wait()

    def slow_write(path: str, *args: Any, **more: Any) -> None:
        held(path)
        write(path, *args, **more)

    def slow_publish(file: publish.NewFile, **more: Any) -> None:
        held(file.path)
        publish_file(file, **more)

    uri = str(tmp_path / "table")
    async with alance.Session() as session:
        more = {"session": session}
        dataset = await alance.write_dataset(ROWS, uri, **more)
        monkeypatch.setattr(publish, "write", slow_write)
        monkeypatch.setattr(publish.NewFile, "publish", slow_publish)
        try:
            task = asyncio.ensure_future(VERBS[name](dataset, uri, more))
            async with asyncio.timeout(FREE_S):
                await begun.wait()
            task.cancel()
            for _ in range(100):
                await asyncio.sleep(0)
            assert not task.done(), "it has begun, and has not ended"
        finally:
            goes_on.set()
        async with asyncio.timeout(FREE_S):
            await asyncio.wait([task])
        assert task.cancelled()
        before = files(tmp_path)
        assert await session.settled(FREE_S) == 0
    assert files(tmp_path) == before
    row = {"append": 2, "overwrite": 2, "delete": 2}.get(name, 1)
    assert (await alance.dataset(uri)).version == row
    assert not (tmp_path / "table" / "file.lance").exists()


@pytest.mark.parametrize("name", ["create", "overwrite", "append", "update", "compact", "index"])
async def test_what_it_leaves_is_removed_when_the_store_answers_again(lab: Lab, name: str) -> None:
    uri = f"s3://lab/cancelled-{next(_numbers)}"
    folder = lab.root / "lab" / uri.rpartition("/")[2]
    async with alance.Session() as session:
        more = {"storage_options": lab.lance_options(), "session": session}
        dataset = await alance.write_dataset(ROWS, uri, max_rows_per_file=20, **more)
        before = files(folder.parent)
        lab.config(
            faults=[
                {"op": "PUT", "action": "stall", "key": "_transactions"},
                {"op": "BULKDELETE", "action": "slow", "delay_ms": 1500},
                {"op": "DELETE", "action": "slow", "delay_ms": 1500},
            ]
        )
        error = await cancelled(lab, VERBS[name](dataset, uri, more))
        assert isinstance(error, asyncio.CancelledError)
        lab.calm()
        assert await session.settled(FREE_S) == 0
        after = files(folder.parent)
        assert not {item.name for item in after - before}


@pytest.mark.parametrize("action", ["stall", "apply_stall"])
async def test_a_compaction_whose_ids_may_be_reserved_leaves_no_file(lab: Lab, action: str) -> None:
    """The version that reserves ids names none of the new files, whether it was made or not."""
    uri = f"s3://lab/cancelled-{next(_numbers)}"
    folder = lab.root / "lab" / uri.rpartition("/")[2]
    async with alance.Session() as session:
        more = {"storage_options": lab.lance_options(), "session": session}
        dataset = await alance.write_dataset(ROWS, uri, max_rows_per_file=20, **more)
        before = files(folder / "data")
        lab.config(faults=[{"op": "PUT", "action": action, "key": "_versions"}])
        error = await cancelled(lab, dataset.optimize.compact_files())
        assert isinstance(error, asyncio.CancelledError)
        lab.calm()
        assert await session.settled(FREE_S) == 0
        assert files(folder / "data") == before
        dataset = await dataset.checkout_latest()
        assert len(await dataset.to_table()) == len(ROWS)
        await dataset.validate()
