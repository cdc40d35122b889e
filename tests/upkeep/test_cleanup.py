"""Cleanup: what goes and what stays, the same as by pylance."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import lance
import pytest
from lance.fragment import write_fragments

import alance
from alance.errors import InvalidInputError, NotFoundError
from alance.ops.cleanup.files import NameIndex
from alance.ops.cleanup.policy import CleanupPolicy, parse_duration
from tests.changing.both_ways import Twins, latest, read, rows
from tests.upkeep.cleanups import NOW, STRAY, age, counts, litter, make, names_in, versions_of

if TYPE_CHECKING:
    from pathlib import Path


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
    explanation = await dataset.explain_cleanup_old_versions(**policy, include_files=True)
    dry = await dataset.cleanup_old_versions(**policy, dry_run=True)
    assert names_in(twins.ours) == before
    done = await dataset.cleanup_old_versions(**policy)
    theirs = lance.dataset(twins.theirs).cleanup_old_versions(**policy)
    assert counts(done) == counts(theirs)
    assert explanation.stats == dry == done
    assert names_in(twins.ours) == names_in(twins.theirs)
    assert {
        candidate_file.path for candidate_file in explanation.candidate_files
    } == before - names_in(twins.ours)
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
    explanation = await dataset.explain_cleanup_old_versions(NOW, include_files=True, max_files=3)
    assert len(explanation.candidate_files) == 3
    assert explanation.candidate_files_truncated
    assert all(candidate_file.unverified for candidate_file in explanation.candidate_files)
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
    explanation = await dataset.explain_cleanup_old_versions(
        NOW, error_if_tagged_old_versions=False
    )
    assert explanation.warnings == ("version 2 stays: tag 'first'",)
    assert explanation.versions == (1, 3, 4, 5, 6, 7)
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
    explanation = await dataset.explain_cleanup_old_versions(NOW)
    assert [
        (referenced_branch.name, referenced_branch.referenced_version)
        for referenced_branch in explanation.referenced_branches
    ] == [("work", 3)]
    await dataset.cleanup_old_versions(NOW)
    assert versions_of(path) == [3, 8]
    result = lance.dataset(path).checkout_version(("work", None))
    result.validate()
    assert result.to_table().num_rows == 40
    # A version of main that is gone, but whose files the branch reads by now.
    main = names_in(path / "data")
    await branch.cleanup_old_versions(NOW)
    assert names_in(path / "data") == main
    again = await (await alance.dataset(path)).checkout_branch("work")
    assert [version.version for version in await again.versions()] == [5]
    assert await again.count_rows() == 40
    assert await dataset.count_rows() == 37


async def test_detached_versions_stay(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    make(path)
    fragments = write_fragments(rows(50, 60), path)
    committed = lance.LanceDataset.commit(
        path, lance.LanceOperation.Append(fragments), read_version=8, detached=True
    )
    age(path, 8)
    dataset = await alance.dataset(path)
    await dataset.cleanup_old_versions(NOW, delete_unverified=True)
    assert lance.dataset(path, version=committed.version).to_table().num_rows == 47
    await dataset.cleanup_old_versions(versions=[committed.version])
    with pytest.raises(NotFoundError):
        await dataset.checkout_version(committed.version)
    assert len(names_in(path / "data")) == 1
    assert versions_of(path) == [8]


async def test_older_than_a_version(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    make(path)
    dataset = await alance.dataset(path, version=2)
    stats = await dataset.cleanup_old_versions(older_than_version=6)
    assert stats.old_versions == 5
    assert versions_of(path) == [6, 7, 8]


async def test_folders_of_segments_go_with_their_files(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    dataset = await alance.write_dataset(rows(0, 20), path)
    for _ in range(3):
        dataset = await dataset.create_scalar_index("id", "BTREE", replace=True)
    folders = path / "_indices"
    assert len(list(folders.iterdir())) == 3
    await dataset.cleanup_old_versions(NOW)
    assert [folder.name for folder in folders.iterdir()] == [
        str(index["uuid"]) for index in dataset.list_indices()
    ]


def test_durations_are_parsed_or_refused() -> None:
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


async def test_names_are_numbers_that_versions_share(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    make(path)
    index = NameIndex()
    result = {}
    for version in range(1, 9):
        dataset = await alance.dataset(path, version=version)
        own = dataset._snapshot.manifest
        result[version] = index.numbers_of(own.head, own.fragments.records, own.indices)
    assert len(result[4]) == 5, "four data files and the transaction's"
    shared = set(result[3].tolist()) & set(result[4].tolist())
    assert len(index.names([result[3][:0]])) == 0
    assert len(shared) == 3
    assert len(index.names(result.values())) == 5 + 8 + 1 + 2, (
        "data, transactions, deletions, indices"
    )
    named = {name for name in index.names([result[8]]) if name.startswith("data/")}
    assert named == {
        f"data/{file.path}" for fragment in latest(path).fragments for file in fragment.files
    }
