"""Shallow clones are noted at their source: neither cleanup nor drop removes their files."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import lance
import pytest

import alance
from alance.errors import AccessError, InvalidInputError, NotFoundError
from alance.ops.cleanup import cleanup as ops
from tests.versions.conftest import numbers, rows_by_pylance

if TYPE_CHECKING:
    from pathlib import Path

    from alance.testing.lab import Lab

NOW = timedelta(0)
ROWS = list(range(10))


async def rows_of(uri: str) -> list[int]:
    dataset = await alance.dataset(uri, session=alance.Session())
    values: list[int] = (await dataset.to_table(["a"]))["a"].to_pylist()
    return values


async def cloned(tmp_path: Path) -> tuple[alance.Dataset, str, str]:
    """A source whose first version is cloned and whose second has other rows, and both URIs."""
    source, clone = str(tmp_path / "source"), str(tmp_path / "clone")
    dataset = await alance.write_dataset(numbers(0, 10), source)
    await dataset.shallow_clone(clone)
    return await dataset.insert(numbers(50, 60), mode="overwrite"), source, clone


async def test_a_clone_reads_its_rows_after_every_cleanup_of_its_source(tmp_path: Path) -> None:
    dataset, source, clone = await cloned(tmp_path)
    stats = await dataset.cleanup_old_versions(NOW, delete_unverified=True)
    assert stats.old_versions == 0
    assert await rows_of(clone) == rows_by_pylance(clone) == ROWS
    theirs = lance.dataset(source)
    with pytest.raises(OSError, match="tag"):
        theirs.cleanup_old_versions(NOW)
    theirs.cleanup_old_versions(NOW, error_if_tagged_old_versions=False, delete_unverified=True)
    assert await rows_of(clone) == rows_by_pylance(clone) == ROWS
    await dataset.update_config(
        {"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"}
    )
    await (await dataset.insert(numbers(60, 61))).insert(numbers(61, 62))
    assert await rows_of(clone) == rows_by_pylance(clone) == ROWS


async def test_a_note_stays_at_its_version(tmp_path: Path) -> None:
    dataset, _, clone = await cloned(tmp_path)
    ((name, _),) = (await dataset.tags.list()).items()
    with pytest.raises(InvalidInputError, match="cannot be moved"):
        await dataset.tags.update(name, 2)
    await dataset.cleanup_old_versions(NOW, delete_unverified=True)
    assert await rows_of(clone) == ROWS


async def test_the_version_goes_when_the_note_is_deleted(tmp_path: Path) -> None:
    dataset, _, clone = await cloned(tmp_path)
    ((name, tag),) = (await dataset.tags.list()).items()
    assert (tag.version, tag.clone_uri) == (1, clone)
    planned = await dataset.explain_cleanup_old_versions(NOW)
    assert planned.versions == ()
    assert planned.warnings == (
        f"version 1 stays: shallow clone '{clone}' (tag '{name}'; "
        "delete it when the clone is gone)",
    )
    await dataset.tags.delete(name)
    assert (await dataset.cleanup_old_versions(NOW)).old_versions == 1


async def test_what_clones_read_is_not_dropped(tmp_path: Path) -> None:
    dataset, source, clone = await cloned(tmp_path)
    second = str(tmp_path / "second")
    await (await alance.dataset(clone)).shallow_clone(second)
    for uri in (source, clone):
        with pytest.raises(
            InvalidInputError, match=r"drop: shallow clones read files of .*'clone-"
        ):
            await alance.drop(uri)
    assert await rows_of(second) == await rows_of(clone) == ROWS
    await dataset.cleanup_old_versions(NOW)
    first = await (await alance.dataset(clone)).insert(numbers(70, 71), mode="overwrite")
    await first.cleanup_old_versions(NOW)
    assert await rows_of(second) == rows_by_pylance(second) == ROWS
    await alance.drop(second)
    for uri in (clone, source):
        dataset = await alance.dataset(uri)
        for name in await dataset.tags.list():
            await dataset.tags.delete(name)
        await alance.drop(uri)


async def test_a_clone_of_a_branch_is_noted_on_the_branch(tmp_path: Path) -> None:
    path, clone = str(tmp_path / "t"), str(tmp_path / "clone")
    main = await alance.write_dataset(numbers(0, 10), path)
    branch = await (await main.create_branch("dev")).insert(numbers(10, 12))
    await (await alance.dataset(branch.uri)).shallow_clone(clone)
    branch = await branch.insert(numbers(50, 51), mode="overwrite")
    main = await main.insert(numbers(60, 61), mode="overwrite")
    await branch.cleanup_old_versions(NOW, delete_unverified=True)
    await main.cleanup_old_versions(NOW, delete_unverified=True)
    assert await rows_of(clone) == rows_by_pylance(clone) == list(range(12))
    with pytest.raises(InvalidInputError, match=r"tags .* name it"):
        await main.branches.delete("dev")


async def test_the_note_comes_before_the_clone(lab: Lab) -> None:
    options = lab.lance_options()
    dataset = await alance.write_dataset(numbers(0, 5), "s3://lab/noted", storage_options=options)
    with lab.recording() as recording:
        await dataset.shallow_clone("s3://lab/noted-clone")
    requests = [
        (record["op"], str(record["key"]).partition("/")[2].partition("/")[0])
        for record in recording.records
        if record.get("op") in ("GET", "PUT")
    ]
    assert requests == [
        ("GET", "_versions"),
        ("PUT", "_refs"),
        ("GET", "_versions"),
        ("PUT", "_transactions"),
        ("PUT", "_versions"),
    ]


async def test_a_clone_that_cannot_be_made_leaves_no_note(lab: Lab) -> None:
    options = {**lab.lance_options(), "client_max_retries": "0"}
    uri = "s3://lab/unnoted"
    dataset = await alance.write_dataset(numbers(0, 5), uri, storage_options=options)
    lab.config(faults=[{"op": "PUT", "key": "unnoted-clone", "action": "status", "status": 403}])
    with pytest.raises(AccessError):
        await dataset.shallow_clone(f"{uri}-clone")
    lab.calm()
    assert await dataset.tags.list() == {}
    await dataset.shallow_clone(f"{uri}-clone")
    with pytest.raises(alance.AlreadyExistsError):
        await dataset.shallow_clone(f"{uri}-clone")
    assert len(await dataset.tags.list()) == 1


async def test_a_source_that_refuses_the_note_is_cloned_without_it_if_asked(lab: Lab) -> None:
    options = {**lab.lance_options(), "client_max_retries": "0"}
    uri = "s3://lab/closed"
    dataset = await alance.write_dataset(numbers(0, 5), uri, storage_options=options)
    lab.config(faults=[{"op": "PUT", "key": "closed/_refs", "action": "status", "status": 403}])
    with pytest.raises(AccessError, match="note_at_source=False"):
        await dataset.shallow_clone(f"{uri}-clone")
    clone = await dataset.shallow_clone(f"{uri}-clone", note_at_source=False)
    assert await clone.count_rows() == 5
    lab.calm()
    assert await dataset.tags.list() == {}


async def test_a_clone_at_any_moment_of_a_cleanup_keeps_its_rows_or_is_refused() -> None:
    outcomes = set()
    turns, is_over = 0, False
    while not is_over:
        source, clone = f"memory://beside-{turns}/source", f"memory://beside-{turns}/clone"
        dataset = await alance.write_dataset(numbers(0, 10), source)
        latest = await dataset.insert(numbers(50, 60), mode="overwrite")
        task = asyncio.ensure_future(latest.cleanup_old_versions(NOW, delete_unverified=True))
        for _ in range(turns):
            await asyncio.sleep(0 if turns < 40 else 0.001)
        is_over = task.done()
        try:
            await dataset.shallow_clone(clone)
        except NotFoundError:
            outcomes.add("refused")
            await task
            assert await latest.tags.list() == {}
        else:
            await task
            outcomes.add("kept" if len(await latest.versions()) == 2 else "files kept")
            await latest.cleanup_old_versions(NOW, delete_unverified=True)
            assert await rows_of(clone) == ROWS
        turns += 1 if turns < 40 else 5
    assert "refused" in outcomes


async def test_files_stay_whole_while_a_clone_has_a_version_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, clone = str(tmp_path / "source"), str(tmp_path / "clone")
    dataset = await alance.write_dataset(numbers(0, 10), source)
    appended = await dataset.insert(numbers(10, 11))
    latest = await appended.insert(numbers(50, 60), mode="overwrite")
    look = ops._look

    async def look_and_clone(*args: Any) -> Any:
        contents = await look(*args)
        await dataset.shallow_clone(clone)
        return contents

    monkeypatch.setattr(ops, "_look", look_and_clone)
    await latest.cleanup_old_versions(versions=[1])
    monkeypatch.undo()
    assert [version.version for version in await latest.versions()] == [2, 3]
    for unverified in (False, True):
        await latest.cleanup_old_versions(NOW, delete_unverified=unverified)
        assert await rows_of(clone) == ROWS
    assert [version.version for version in await latest.versions()] == [3]
    planned = await latest.explain_cleanup_old_versions(NOW, delete_unverified=True)
    assert planned.stats.data_files_removed == 0
    (warning,) = planned.warnings
    assert warning.startswith(f"version 1 is gone, no files are removed: shallow clone '{clone}'")
    for name in await latest.tags.list():
        await latest.tags.delete(name)
    stats = await latest.cleanup_old_versions(NOW, delete_unverified=True)
    assert stats.data_files_removed == 2
