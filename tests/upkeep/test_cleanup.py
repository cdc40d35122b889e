"""Cleanup: what goes, what stays, the same as by pylance; interrupted, failing, after commits."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import lance
import pytest
from lance.dataset import AutoCleanupConfig
from lance.fragment import write_fragments

import alance
from alance.errors import InvalidInputError, NotFoundError
from alance.ops import cleanup as ops
from alance.ops.cleanup_delete import Deleter
from alance.ops.cleanup_files import NameIndex
from alance.ops.cleanup_policy import CleanupCandidateFile, CleanupPolicy, parse_duration
from alance.testing import virtual_time
from tests.changing.both_ways import Twins, latest, read, rows

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from alance.testing.lab import Lab

NOW = timedelta(0)
STRAY = (
    *("data/orphan.lance", "data/orphan/1.blob", "data/other.bin", "_deletions/0-1-3.arrow"),
    *("_deletions/x.foo", "_transactions/0-abc.txn", "_transactions/notes"),
    *("_indices/11111111-1111-1111-1111-111111111111/page.lance", "_versions/.tmp_x"),
    "_versions/18446744073709551600.manifest-abc",
)
POLICIES: list[dict[str, Any]] = [
    {},
    {"older_than": NOW},
    {"older_than": timedelta(days=1)},
    {"retain_versions": 3},
    {"retain_versions": 3, "older_than": timedelta(days=1)},
    {"retain_versions": 100},
    {"versions": [2, 3]},
    {"versions": [99]},
    {"versions": [8]},
    {"versions": [2], "older_than": NOW},
    {"retain_versions": 2, "versions": [2]},
]


def make(path: Path) -> None:
    """Versions 1 to 8: appends, a delete, an index, a compaction."""
    for start in range(0, 40, 10):
        lance.write_dataset(rows(start, start + 10), path, mode="append" if start else "create")
    lance.dataset(path).delete("id < 3")
    lance.dataset(path).create_scalar_index("id", "BTREE")
    lance.dataset(path).optimize.compact_files()


def litter(path: Path) -> None:
    for name in STRAY:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text("x")


def age(path: Path, days: float, *names: str) -> None:
    """Make files so many days old; all that are there, unless some are named."""
    when = time.time() - 86400 * days
    for one in [path / name for name in names] or path.rglob("*"):
        if one.is_file():
            os.utime(one, (when, when))


def names_in(path: Path) -> set[str]:
    return {str(one.relative_to(path)) for one in path.rglob("*") if one.is_file()}


def versions_of(path: Path) -> list[int]:
    return [one["version"] for one in lance.dataset(path).versions()]


def counts(stats: object) -> dict[str, int]:
    names = (
        *("bytes_removed", "old_versions", "data_files_removed", "transaction_files_removed"),
        *("index_files_removed", "deletion_files_removed", "failed_deletes"),
    )
    return {name: getattr(stats, name) for name in names}


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_as_pylance_does(tmp_path: Path, policy: dict[str, Any]) -> None:
    twins = Twins(tmp_path / "theirs.lance", tmp_path / "ours.lance")
    make(twins.theirs)
    litter(twins.theirs)
    age(twins.theirs, 8, *STRAY)
    twins.again()
    age(twins.ours, 8, *STRAY)
    dataset = await alance.dataset(twins.ours)
    before = names_in(twins.ours)
    told = await dataset.explain_cleanup_old_versions(**policy, include_files=True)
    dry = await dataset.cleanup_old_versions(**policy, dry_run=True)
    assert names_in(twins.ours) == before
    done = await dataset.cleanup_old_versions(**policy)
    theirs = lance.dataset(twins.theirs).cleanup_old_versions(**policy)
    assert counts(done) == counts(theirs)
    assert told.stats == dry == done
    assert names_in(twins.ours) == names_in(twins.theirs)
    assert {one.path for one in told.candidate_files} == before - names_in(twins.ours)
    assert versions_of(twins.ours) == versions_of(twins.theirs)
    for version in versions_of(twins.ours):
        lance.dataset(twins.ours, version=version).validate()
        assert await (await dataset.checkout_version(version)).count_rows() > 0
    assert read(twins.ours).equals(read(twins.theirs))
    assert (await dataset.insert(rows(90, 91))).version == 9


async def test_what_nobody_vouches_for_has_a_week(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    make(path)
    litter(path)
    dataset = await alance.dataset(path)
    age(path, 6.9, *STRAY)
    assert (await dataset.cleanup_old_versions(NOW, dry_run=True)).data_files_removed == 4
    await dataset.cleanup_old_versions(NOW)
    assert set(STRAY) <= names_in(path)
    (path / "data/.tmp-0123").write_text("half")
    (path / "_versions/1.manifest#1").write_text("half")
    age(path, 7.1, *STRAY, "data/.tmp-0123", "_versions/1.manifest#1")
    told = await dataset.explain_cleanup_old_versions(NOW, include_files=True, max_files=3)
    assert len(told.candidate_files) == 3
    assert told.candidate_files_truncated
    assert all(one.unverified for one in told.candidate_files)
    await dataset.cleanup_old_versions()
    stay = {name for name in STRAY if name.endswith(("bin", "foo", "notes", "-abc"))}
    assert {name for name in names_in(path) if name in STRAY} == stay
    assert not {name for name in names_in(path) if ".tmp-" in name or "#" in name}
    litter(path)
    stats = await dataset.cleanup_old_versions(delete_unverified=True)
    assert stats.data_files_removed == 2
    assert {name for name in names_in(path) if name in STRAY} == stay
    assert read(path).num_rows == 37


async def test_tagged_versions_stay(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    make(path)
    lance.dataset(path).tags.create("first", 2)
    dataset = await alance.dataset(path)
    before = names_in(path)
    with pytest.raises(InvalidInputError, match=r"1 tags name .*'first' \(version 2\)"):
        await dataset.cleanup_old_versions(NOW)
    with pytest.raises(InvalidInputError, match="'first'"):
        await dataset.explain_cleanup_old_versions(NOW)
    assert names_in(path) == before
    told = await dataset.explain_cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    assert told.warnings == ("version 2 stays: tag 'first'",)
    assert told.versions == (1, 3, 4, 5, 6, 7)
    await dataset.cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    assert versions_of(path) == [2, 8]
    assert lance.dataset(path).checkout_version("first").to_table().num_rows == 20
    assert (await dataset.cleanup_old_versions(retain_versions=2)).old_versions == 0


async def test_branches_keep_what_they_need(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    make(path)
    lance.dataset(path).create_branch("work", 3)
    branch = await (await alance.dataset(path)).checkout_branch("work")
    for start in (100, 110):
        branch = await branch.insert(rows(start, start + 5))
    dataset = await alance.dataset(path)
    told = await dataset.explain_cleanup_old_versions(NOW)
    assert [(one.name, one.referenced_version) for one in told.referenced_branches] == [("work", 3)]
    await dataset.cleanup_old_versions(NOW)
    assert versions_of(path) == [3, 8]
    found = lance.dataset(path).checkout_version(("work", None))
    found.validate()
    assert found.to_table().num_rows == 40
    # A version of main that is gone, but whose files the branch reads by now.
    main = names_in(path / "data")
    await branch.cleanup_old_versions(NOW)
    assert names_in(path / "data") == main
    again = await (await alance.dataset(path)).checkout_branch("work")
    assert [one.version for one in await again.versions()] == [5]
    assert await again.count_rows() == 40
    assert await dataset.count_rows() == 37


async def test_detached_versions_stay(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    make(path)
    fragments = write_fragments(rows(50, 60), path)
    made = lance.LanceDataset.commit(
        path, lance.LanceOperation.Append(fragments), read_version=8, detached=True
    )
    age(path, 8)
    dataset = await alance.dataset(path)
    await dataset.cleanup_old_versions(NOW, delete_unverified=True)
    assert lance.dataset(path, version=made.version).to_table().num_rows == 47
    await dataset.cleanup_old_versions(versions=[made.version])
    with pytest.raises(NotFoundError):
        await dataset.checkout_version(made.version)
    assert len(names_in(path / "data")) == 1
    assert versions_of(path) == [8]


async def test_versions_made_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.lance"
    make(path)
    dataset = await alance.dataset(path)
    look, made = ops._look, []

    async def late(*args: Any) -> Any:
        found = await look(*args)
        made.append(lance.dataset(path, version=3))
        made[0].restore()
        return found

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
        ({"versions": ["a"]}, "versions: 'a'"),
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


async def test_older_than_a_version(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    make(path)
    dataset = await alance.dataset(path, version=2)
    stats = await dataset.cleanup_old_versions(older_than_version=6)
    assert stats.old_versions == 5
    assert versions_of(path) == [6, 7, 8]


@pytest.mark.parametrize("config", [{"older_than_seconds": 0}, {"older_than_seconds": 3600}])
async def test_after_commits(tmp_path: Path, config: dict[str, int]) -> None:
    auto = AutoCleanupConfig(interval=3, **config)
    path, theirs = tmp_path / "ours.lance", tmp_path / "theirs.lance"
    for one in (path, theirs):
        lance.write_dataset(rows(0, 3), one, auto_cleanup_options=auto)
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
    dataset = await dataset.update_config(
        {"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "soon"}
    )
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


def test_durations() -> None:
    assert parse_duration("14d") == timedelta(days=14)
    assert parse_duration("1h 30m") == timedelta(minutes=90)
    assert parse_duration(" 0s ") == NOW
    assert parse_duration("2weeks 1day 5ms") == timedelta(days=15, milliseconds=5)
    for text in ("", "5", "5 parsecs", "d", "1h,"):
        with pytest.raises(InvalidInputError, match="duration"):
            parse_duration(text)


def test_versions_without_a_time_are_old() -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    times = {1: None, 2: now - timedelta(days=20), 3: now, 4: now}
    assert CleanupPolicy().matching(times, now) == {1, 2}
    assert CleanupPolicy(older_than=timedelta(days=30)).matching(times, now) == {1}
    assert CleanupPolicy(older_than=NOW, seen_from=3).matching(times, now) == {1, 2}
    assert CleanupPolicy(retain_versions=1, seen_from=3).matching(times, now) == {1, 2}
    assert CleanupPolicy().matching({}, now) == set()


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


async def test_a_store_that_refuses(lineitem_lab: Lab) -> None:
    lab = lineitem_lab
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


async def test_names_are_numbers_that_versions_share(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    make(path)
    index = NameIndex()
    found = {}
    for version in range(1, 9):
        dataset = await alance.dataset(path, version=version)
        found[version] = index.numbers_of(dataset._snapshot.manifest)
    assert len(found[4]) == 5, "four data files and the transaction's"
    shared = set(found[3].tolist()) & set(found[4].tolist())
    assert len(index.names([found[3][:0]])) == 0
    assert len(shared) == 3
    assert len(index.names(found.values())) == 5 + 8 + 1 + 2, (
        "data, transactions, deletions, indices"
    )
    named = {name for name in index.names([found[8]]) if name.startswith("data/")}
    assert named == {f"data/{file.path}" for one in latest(path).fragments for file in one.files}
