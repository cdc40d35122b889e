"""Commits by external manifest stores: SQLite, and DynamoDB beside pylance."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from alance.errors import AlreadyExistsError, InvalidInputError, NotFoundError, StoreError
from alance.format.table.naming import NamingScheme, manifest_name
from alance.versioning.external_store import Entry, ExternalManifests
from alance.versioning.sqlite_store import SqliteStore
from tests.simulation.append_rules import append, paths_of
from tests.versioning.conftest import QUICK, Committer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

_numbers = itertools.count(1)


@pytest.fixture
async def committer(tmp_path: Path) -> AsyncIterator[Committer]:
    """A committer by SQLite, of a table in memory."""
    built = Committer.of(f"memory://external{next(_numbers)}/table")
    external = SqliteStore(tmp_path / "versions.db")
    yield replace(built, manifests=ExternalManifests(built.engine, built.table, external))
    await built.aclose()


def names(committer: Committer) -> list[str]:
    store = committer.table.store
    return sorted(path.rpartition("/")[2] for path in store._objects if "_versions" in path)  # type: ignore[attr-defined]


async def test_commits_leave_final_manifests(committer: Committer) -> None:
    first = await committer.create()
    second = await committer.commit(first, "a")
    assert (second.version, paths_of(second)) == (2, ["a"])
    assert names(committer) == [manifest_name(version, NamingScheme.V2) for version in (2, 1)]


async def test_concurrent_commits_all_land(committer: Committer) -> None:
    first = await committer.create()
    paths = [f"n{number}" for number in range(8)]
    await asyncio.gather(*(committer.commit(first, path) for path in paths))
    assert sorted(await committer.paths()) == paths
    assert len(names(committer)) == 9


async def test_a_staged_version_is_finished_by_the_next(
    committer: Committer, tmp_path: Path
) -> None:
    first = await committer.create()
    committed = await committer.commit(first, "a")
    store, external = committer.table.store, SqliteStore(tmp_path / "versions.db")
    final = f"table/_versions/{manifest_name(2, NamingScheme.V2)}"
    staged = f"{final}-00000000-0000-4000-8000-000000000000"
    await store.copy(final, staged)
    await store.delete([final])
    await external.put_if_exists("table", Entry(2, staged, 100))
    latest = await committer.store().latest()
    assert latest is not None
    assert (latest.version, latest.location) == (2, store.root + final)
    assert await external.get("table", 2) == Entry(2, final, 100)
    assert len(names(committer)) == 2
    # The same where another one has copied and not told.
    await external.put_if_exists("table", Entry(2, staged, 100))
    assert (await committer.commit(first, "b")).version == 3
    assert await external.get("table", 2) == Entry(2, final, 100)
    assert paths_of(committed) == ["a"]


async def test_a_table_of_before_goes_on(tmp_path: Path) -> None:
    plain = Committer.of(f"memory://external{next(_numbers)}/table")
    committed = await plain.commit(await plain.create(), "a")
    external = SqliteStore(tmp_path / "versions.db")
    later = replace(plain, manifests=ExternalManifests(plain.engine, plain.table, external))
    assert (await later.commit(committed, "b")).version == 3
    assert (await later.commit(committed, "c")).version == 4
    assert await plain.paths() == ["a", "b", "c"]
    assert await external.get("table", 2) is None
    result = await later.store().version(2)
    assert result is not None
    assert paths_of(result) == ["a"]
    await plain.aclose()


async def test_the_same_transaction_is_committed_once(committer: Committer) -> None:
    first = await committer.create()
    transaction = append(1, ["a"])
    await committer.run(first, transaction)
    await committer.commit(first, "b")
    assert (await committer.run(first, transaction)).version == 2
    created = await committer.store().create(2, b"", transaction.uuid)
    assert created.is_ours


async def test_a_lost_answer_is_found_out(committer: Committer, tmp_path: Path) -> None:
    class Forgetful(SqliteStore):
        lost = 0

        async def put_if_not_exists(self, table: str, entry: Entry) -> None:
            if self.lost % 3 == 0:
                self.lost += 1
                raise StoreError("refused", retryable=True)
            await super().put_if_not_exists(table, entry)
            self.lost += 1
            if self.lost % 3 == 1:
                raise StoreError("lost", retryable=True)

    external = Forgetful(tmp_path / "versions.db")
    manifests = ExternalManifests(committer.engine, committer.table, external, patience=QUICK)
    forgetful = replace(committer, manifests=manifests)
    base = await forgetful.create()
    for number in range(5):
        base = await forgetful.commit(base, f"n{number}")
    assert await committer.paths() == [f"n{number}" for number in range(5)]
    assert len(names(committer)) == 6


async def test_what_cannot_be_finished_is_left_for_readers(committer: Committer) -> None:
    store = committer.table.store
    first = await committer.create()
    whole = type(store).copy

    async def copy(source: str, target: str) -> None:
        raise StoreError("no copies today")

    store.copy = copy  # type: ignore[method-assign]
    committed = await committer.commit(first, "a")
    assert committed.version == 2
    assert (await committer.latest()).version == 1
    store.copy = lambda *paths: whole(store, *paths)  # type: ignore[method-assign]
    assert (await committer.commit(committed, "b")).version == 3
    assert await committer.paths() == ["a", "b"]


async def test_detached_versions_need_no_external_store(committer: Committer) -> None:
    first = await committer.create()
    committed = await committer.commit(first, "a", detached=True)
    result = await committer.store().version(committed.version)
    assert result is not None
    assert paths_of(result) == ["a"]
    latest = await committer.store().latest()
    assert latest is not None
    assert latest.version == 1


async def test_entries_of_sqlite(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "versions.db")
    assert await store.get("t", 1) is None
    assert await store.get_latest("t") is None
    await store.put_if_not_exists("t", Entry(9, "nine", None))
    await store.put_if_not_exists("t", Entry(10, "ten", 5))
    await store.put_if_not_exists("other", Entry(11, "eleven", 5))
    with pytest.raises(AlreadyExistsError, match="version 10"):
        await store.put_if_not_exists("t", Entry(10, "again", 5))
    assert await store.get_latest("t") == Entry(10, "ten", 5)
    await store.put_if_exists("t", Entry(9, "final", 3))
    assert await store.get("t", 9) == Entry(9, "final", 3)
    with pytest.raises(NotFoundError, match="no version 8"):
        await store.put_if_exists("t", Entry(8, "x", 1))
    with pytest.raises(InvalidInputError, match="path of a file"):
        SqliteStore(":memory:")
    (tmp_path / "text").write_bytes(b"no database, but long enough to be taken for one" * 99)
    with pytest.raises(StoreError, match="not a database"):
        await SqliteStore(tmp_path / "text").get("t", 1)
    with pytest.raises(StoreError, match="unable to open"):
        await SqliteStore(tmp_path).get("t", 1)


def _race(path: str, number: int, wins: Any) -> None:
    async def run() -> None:
        store = SqliteStore(path)
        for version in range(1, 26):
            try:
                await store.put_if_not_exists("t", Entry(version, str(number), 1))
            except AlreadyExistsError:
                continue
            wins.put(version)

    asyncio.run(run())


def test_processes_that_race_in_sqlite(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    wins = context.Queue()
    args = [(str(tmp_path / "versions.db"), number, wins) for number in range(2)]
    processes = [context.Process(target=_race, args=arg) for arg in args]
    for process in processes:
        process.start()
    won = sorted(wins.get(timeout=600) for _ in range(25))
    for process in processes:
        process.join()
    assert won == [*range(1, 26)]
    assert wins.empty()
