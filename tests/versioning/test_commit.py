"""The commit loop on every kind of store."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from alance.errors import AlreadyExistsError, CommitConflictError, InvalidInputError
from alance.versioning.manifest_store import transaction_uuid_of
from tests.simulation.append_rules import append, paths_of

if TYPE_CHECKING:
    from tests.versioning.conftest import Committer


async def test_a_commit_makes_the_next_version(committer: Committer) -> None:
    first = await committer.create()
    assert (first.version, paths_of(first)) == (1, [])
    second = await committer.commit(first, "a")
    assert (second.version, paths_of(second)) == (2, ["a"])
    assert paths_of(await committer.latest()) == ["a"]


async def test_a_commit_on_an_old_version_is_rebased(committer: Committer) -> None:
    first = await committer.create()
    await committer.commit(first, "a")
    await committer.commit(first, "b")
    last = await committer.commit(first, "c")
    assert (last.version, paths_of(last)) == (4, ["a", "b", "c"])


async def test_concurrent_commits_all_land(committer: Committer) -> None:
    first = await committer.create()
    names = [f"n{number}" for number in range(8)]
    results = await asyncio.gather(*(committer.commit(first, name) for name in names))
    assert sorted(manifest.version for manifest in results) == list(range(2, 10))
    for manifest, name in zip(results, names, strict=True):
        assert paths_of(manifest)[-1] == name
    assert sorted(await committer.paths()) == names


async def test_a_conflict_leaves_nothing(committer: Committer) -> None:
    first = await committer.create()
    await committer.commit(first, "a")
    with pytest.raises(CommitConflictError):
        await committer.commit(first, "!b")
    assert await committer.paths() == ["a"]
    folder = committer.table.folder("_transactions")
    files = [meta async for meta in committer.engine.scheduler.list(folder)]
    assert len(files) == 2


async def test_the_same_transaction_is_committed_once(committer: Committer) -> None:
    first = await committer.create()
    transaction = append(1, ["a"])
    output = await committer.run(first, transaction)
    await committer.commit(first, "b")
    again = await committer.run(first, transaction)
    assert again.version == output.version == 2
    assert transaction_uuid_of(again) == transaction.uuid
    assert await committer.paths() == ["a", "b"]


async def test_only_one_creates_a_table(committer: Committer) -> None:
    results = await asyncio.gather(*(committer.create() for _ in range(4)), return_exceptions=True)
    assert sum(isinstance(item, AlreadyExistsError) for item in results) == 3
    with pytest.raises(AlreadyExistsError, match="version is 1"):
        await committer.create()
    transaction = append(0, [])
    with pytest.raises(AlreadyExistsError):
        await committer.run(None, transaction)


async def test_a_creation_that_is_repeated_gives_the_version(committer: Committer) -> None:
    transaction = append(0, [])
    first = await committer.run(None, transaction)
    await committer.commit(first, "a")
    assert (await committer.run(None, transaction)).version == 1


async def test_detached_versions_are_outside_of_the_history(committer: Committer) -> None:
    first = await committer.create()
    aside = await committer.commit(first, "a", detached=True)
    assert aside.version >> 63
    assert paths_of(aside) == ["a"]
    assert (await committer.latest()).version == 1
    further = await committer.commit(aside, "b", detached=True)
    assert paths_of(further) == ["a", "b"]
    with pytest.raises(InvalidInputError, match="detached"):
        await committer.commit(aside, "c")


async def test_data_is_there_before_the_version(committer: Committer) -> None:
    first = await committer.create()
    seen: list[int] = []

    async def upload() -> None:
        await asyncio.sleep(0.02)
        seen.append((await committer.latest()).version)

    await committer.commit(first, "a", data=upload())
    assert seen == [1]


async def test_a_version_without_its_data_is_not_made(committer: Committer) -> None:
    first = await committer.create()

    async def upload() -> None:
        await asyncio.sleep(0)
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk is full"):
        await committer.commit(first, "a", data=upload())
    assert (await committer.latest()).version == 1


async def test_a_transaction_belongs_to_its_base(committer: Committer) -> None:
    first = await committer.create()
    with pytest.raises(InvalidInputError, match="expected the same version"):
        await committer.run(first, append(5, ["a"]), data=asyncio.sleep(0))
