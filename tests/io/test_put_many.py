"""Files of one change written together: all or none, with few syncs, and none too few."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from alance.errors import StoreError
from alance.io.disk import local, publish
from alance.io.disk.local import LocalStore

if TYPE_CHECKING:
    from pathlib import Path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Record syncs and renames, in order."""
    tuples: list[tuple[str, str]] = []
    sync, replace = os.fsync, os.replace

    def fsync(fd: int) -> None:
        tuples.append(("sync", os.readlink(f"/proc/self/fd/{fd}")))
        sync(fd)

    def renamed(source: str, target: str) -> None:
        tuples.append((source, target))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", renamed)
    return tuples


@pytest.mark.parametrize("count", [1, 3, 80])
async def test_each_file_is_synced_before_its_name(
    tmp_path: Path, count: int, calls: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "FILES_PER_SYNC", 32)
    folder = tmp_path / "new" / "folder"
    bodies = {f"file{n}": os.urandom(n * 100) for n in range(count)}
    files = [(f"{folder}/{name}".removeprefix("/"), body) for name, body in bodies.items()]
    await LocalStore().put_many(files)
    assert contents(folder) == bodies
    renames = [(place, call) for place, call in enumerate(calls) if call[0] != "sync"]
    assert {target for _, (_, target) in renames} == {f"{folder}/{name}" for name in bodies}
    for place, (source, _) in renames:
        assert ("sync", source) in calls[:place]
        assert ("sync", str(folder)) in calls[place:]
    assert 1 <= calls.count(("sync", str(folder))) <= -(-count // 32)
    assert ("sync", str(tmp_path / "new")) in calls  # a new folder lasts, too


@pytest.mark.parametrize("broken", ["fsync", "replace"])
async def test_all_or_none(tmp_path: Path, broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    work, count = getattr(os, broken), 0

    def fail(*args: Any) -> Any:
        nonlocal count
        count += 1
        if count == 3:
            raise OSError(errno.ENOSPC, "no space")
        return work(*args)

    monkeypatch.setattr(os, broken, fail)
    with pytest.raises(StoreError):
        await LocalStore().put_many([(f"{tmp_path}/{n}"[1:], b"content") for n in range(5)])
    assert names(tmp_path) == []


async def test_deletion_files_are_synced_before_the_manifest(
    tmp_path: Path, calls: list[tuple[str, str]]
) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"x": range(100)}), path, max_rows_per_file=10)
    dataset = await (await alance.dataset(path)).delete("x % 4 = 1")
    folder = path / "_deletions"
    assert len(names(folder)) == 10
    assert calls.count(("sync", str(folder))) == 1
    synced = [target for kind, target in calls if kind == "sync"]
    manifest = next(place for place, item in enumerate(synced) if "_versions" in item)
    assert synced.index(str(folder)) < manifest
    assert await dataset.count_rows() == lance.dataset(path).count_rows() == 75
    lance.dataset(path).validate()


async def test_none_stay_where_one_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"x": range(100)}), path, max_rows_per_file=10)
    dataset = await alance.dataset(path)
    replace = os.replace

    def fail(source: str, target: str) -> None:
        if f"{os.sep}7-" in target:
            raise OSError(errno.EIO, "broken")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(StoreError):
        await dataset.delete("x % 4 = 1")
    assert names(path / "_deletions") == []
    assert (await alance.dataset(path)).version == 1


@pytest.mark.parametrize("step", ["write_apart", "sync_all", "name_together"])
async def test_nothing_stays_of_a_cancelled_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    begun, goes_on = asyncio.Event(), threading.Event()
    loop, work = asyncio.get_running_loop(), getattr(publish, step)

    def slow(*args: Any) -> None:
        loop.call_soon_threadsafe(begun.set)
        goes_on.wait()
        work(*args)

    monkeypatch.setattr(publish, step, slow)
    files = [(f"{tmp_path}/{n}"[1:], b"content") for n in range(5)]
    call = asyncio.ensure_future(LocalStore().put_many(files))
    await begun.wait()
    call.cancel()
    loop.call_later(0.02, call.cancel)
    loop.call_later(0.05, goes_on.set)
    await asyncio.gather(call, return_exceptions=True)
    goes_on.set()
    assert call.cancelled()
    assert names(tmp_path) == []


async def test_what_a_manifest_names_is_on_the_disk_before_its_name(
    tmp_path: Path, calls: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    link, jobs = os.link, 0
    change = LocalStore._change

    def linked(source: str, target: str) -> None:
        calls.append((source, target))
        link(source, target)

    async def counted(store: LocalStore, *args: Any) -> Any:
        nonlocal jobs
        jobs += 1
        return await change(store, *args)

    monkeypatch.setattr(os, "link", linked)
    monkeypatch.setattr(LocalStore, "_change", counted)
    path = tmp_path / "t.lance"
    rows = pa.table({"x": range(100)})
    dataset = await alance.write_dataset(rows, path)
    for change_of, folders in (
        (lambda table: table.insert(rows.slice(0, 3)), ["data", "_transactions"]),
        (lambda table: table.delete("x = 7"), ["_deletions", "_transactions"]),
        (lambda table: table.update({"x": "1"}, where="x = 8"), ["_deletions", "data"]),
        (lambda table: table.update_config({"a": "b"}), ["_transactions"]),
    ):
        calls.clear()
        jobs = 0
        dataset = await change_of(dataset)
        assert jobs == 1, "one thread writes all of a small change"
        named = next(
            place
            for place, call in enumerate(calls)
            if "_versions" in call[1] and call[0] != "sync"
        )
        for folder in folders:
            assert ("sync", str(path / folder)) in calls[:named]
        for source, _ in [call for call in calls[: named + 1] if call[0] != "sync"]:
            assert calls.index(("sync", source)) < named
        assert ("sync", str(path / "_versions")) in calls[named:]
    assert await dataset.count_rows() == lance.dataset(path).count_rows() == 102


async def test_a_small_change_that_fails_leaves_the_version_and_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.lance"
    rows = pa.table({"x": range(100)})
    dataset = await alance.write_dataset(rows, path)
    before = {folder: names(path / folder) for folder in ("data", "_versions")}
    write = publish.write

    def fail(target: str, *args: Any, **more: Any) -> None:
        if "_versions" in target or "_transactions" in target:
            raise OSError(errno.ENOSPC, "no space")
        write(target, *args, **more)

    monkeypatch.setattr(publish, "write", fail)
    for change in (
        dataset.insert(rows.slice(0, 3)),
        dataset.delete("x = 7"),
        dataset.update({"x": "1"}, where="x = 8"),
    ):
        with pytest.raises(StoreError, match="no space"):
            await change
        assert {folder: names(path / folder) for folder in before} == before
        deletions = path / "_deletions"
        assert not deletions.exists() or names(deletions) == []
    monkeypatch.undo()
    assert (await dataset.insert(rows.slice(0, 3))).version == 2
