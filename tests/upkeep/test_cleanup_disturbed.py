"""Cleanup beside writers, cancelled, failing, after commits: what others need stays."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import lance
import pytest
from lance.dataset import AutoCleanupConfig

import alance
from alance.errors import InvalidInputError
from alance.ops.cleanup import cleanup as ops
from alance.ops.cleanup.cleanup import Deleter
from alance.ops.cleanup.policy import CleanupCandidateFile
from tests.changing.both_ways import Twins, read, rows
from tests.simulation import virtual_time
from tests.upkeep.cleanups import NOW, make, names_in, versions_of
from tests.upkeep.others import by_another_writer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from alance.testing.lab import Lab


async def test_versions_made_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.lance"
    make(path)
    dataset = await alance.dataset(path)
    look, built = ops._look, []

    async def late(*args: Any) -> Any:
        result = await look(*args)
        built.append(lance.dataset(path, version=3))
        built[0].restore()
        return result

    monkeypatch.setattr(ops, "_look", late)
    await dataset.cleanup_old_versions(NOW)
    assert versions_of(path) == [8, 9]
    lance.dataset(path).validate()
    assert lance.dataset(path).to_table().num_rows == 30


async def test_cancelled_at_any_turn(tmp_path: Path) -> None:
    first = tmp_path / "theirs.lance"
    make(first)
    finished, turns = False, 0
    while not finished:
        twins = Twins(first, tmp_path / "ours.lance")
        twins.again()
        async with alance.Session() as session:
            dataset = await alance.dataset(twins.ours, session=session)
            task = asyncio.ensure_future(dataset.cleanup_old_versions(NOW))
            for _ in range(turns):
                if task.done():
                    break
                await asyncio.sleep(0 if turns < 40 else 0.001)
            finished = task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        for version in versions_of(twins.ours):
            lance.dataset(twins.ours, version=version).validate()
        assert read(twins.ours).num_rows == 37
        turns += 1 if turns < 40 else 5
    assert turns > 20
    assert versions_of(twins.ours) == [8]


async def test_what_cannot_be(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    make(path)
    before = names_in(path)
    dataset = await alance.dataset(path)
    wrong: Mapping[str, Any]
    for wrong, message in (
        ({"retain_versions": 0}, "retain_versions=0"),
        ({"older_than": 5}, "older_than=5"),
        ({"older_than_version": -1}, "older_than_version=-1"),
        ({"versions": ["a"]}, "version='a'"),
        ({"delete_rate_limit": 0}, "delete_rate_limit=0"),
        ({"delete_concurrency": True}, "delete_concurrency=True"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            await dataset.cleanup_old_versions(**wrong)
    with pytest.raises(InvalidInputError, match="max_files=0"):
        await dataset.explain_cleanup_old_versions(max_files=0)
    broken = max((path / "_versions").glob("*.manifest"))
    content = broken.read_bytes()
    broken.write_bytes(content[:-5])
    with pytest.raises(alance.CorruptFileError):
        await dataset.cleanup_old_versions(NOW)
    broken.write_bytes(content)
    assert names_in(path) == before


@pytest.mark.parametrize("config", [{"older_than_seconds": 0}, {"older_than_seconds": 3600}])
async def test_cleanups_after_commits_remove_what_pylance_removes(
    tmp_path: Path, config: dict[str, int]
) -> None:
    auto = AutoCleanupConfig(interval=3, **config)
    path, theirs = tmp_path / "ours.lance", tmp_path / "theirs.lance"
    for candidate in (path, theirs):
        lance.write_dataset(rows(0, 3), candidate, auto_cleanup_options=auto)
    dataset = await alance.dataset(path)
    for number in range(8):
        if number % 4 == 3:
            dataset = await dataset.delete(f"id = {number}")
            lance.dataset(theirs).delete(f"id = {number}")
        else:
            dataset = await dataset.insert(rows(number, number + 2))
            lance.write_dataset(rows(number, number + 2), theirs, mode="append")
        assert versions_of(path) == versions_of(theirs)
    assert read(path)["id"].equals(read(theirs)["id"])


async def test_after_commits_errors_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "t.lance"
    dataset = await alance.write_dataset(rows(0, 3), path)
    bad = {"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "soon"}
    with pytest.raises(alance.InvalidInputError, match="older_than='soon': duration 'soon'"):
        await dataset.update_config(bad)
    dataset = await by_another_writer(dataset, bad)
    assert "duration 'soon'" in caplog.text
    caplog.clear()
    dataset = await dataset.update_config(
        {"lance.auto_cleanup.older_than": None, "lance.auto_cleanup.retain_versions": "2"}
    )
    assert not caplog.text
    lance.dataset(path).tags.create("kept", dataset.version)
    for number in range(4):
        dataset = await dataset.insert(rows(number, number + 1))
    assert versions_of(path) == [3, 5, 6, 7]
    assert not caplog.text


def test_not_faster_than_asked() -> None:
    """By a clock that only pauses move: 25 files at 10 a second take the pauses of two requests."""
    deleted: list[str] = []

    async def delete(paths: list[str]) -> None:
        deleted.extend(paths)

    store = SimpleNamespace(delete=delete)
    registry = SimpleNamespace(resolve=lambda location: (store, location))
    engine: Any = SimpleNamespace(registry=registry)
    table: Any = SimpleNamespace(folder=lambda path: f"t/{path}", uri="memory://t")
    files = [CleanupCandidateFile(f"data/{n}.lance", "data", False, 1) for n in range(25)]

    async def seconds(rate: int | None) -> float:
        assert await Deleter(engine, table, rate, None).delete(files) == set()
        return asyncio.get_running_loop().time()

    assert virtual_time.run(seconds(10)) == pytest.approx(2.0)
    assert virtual_time.run(seconds(None)) == 0.0
    assert deleted == [f"t/data/{n}.lance" for n in range(25)] * 2


async def test_a_store_that_refuses(lab: Lab) -> None:
    options = lab.lance_options() | {"client_max_retries": "0"}
    async with alance.Session() as session:
        dataset = await alance.write_dataset(
            rows(0, 5), "s3://lab/cleaned.lance", storage_options=options, session=session
        )
        for number in range(3):
            dataset = await dataset.insert(rows(number, number + 5), mode="overwrite")
        fault = {"method": "POST", "action": "status", "status": 403, "key": "", "skip": 1}
        lab.config(faults=[fault])
        stats = await dataset.cleanup_old_versions(NOW)
        lab.calm()
        assert stats.old_versions == 3
        assert stats.failed_deletes == 6
        assert stats.data_files_removed == 0
        await dataset.validate()
        stats = await dataset.cleanup_old_versions(NOW, delete_unverified=True)
        assert stats.data_files_removed == 3
        with lab.recording() as seen:
            assert (await dataset.cleanup_old_versions(NOW)).bytes_removed == 0
        assert seen.summary()["requests"] <= 12
        table = lance.dataset("s3://lab/cleaned.lance", storage_options=lab.lance_options())
        assert table.to_table()["id"].to_pylist() == [2, 3, 4, 5, 6]
