"""Tables whose versions an external store or a lock keeps, by the public calls; beside pylance."""

from __future__ import annotations

import asyncio
import itertools
import pickle
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import lance
import pytest

import alance
from alance.errors import (
    AlreadyExistsError,
    CommitConflictError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from alance.io.stores.memory import MemoryStore
from alance.versioning.external_store import Entry
from tests.versioning.dynamodb import connect, serving
from tests.versions.conftest import numbers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from alance.testing.lab import Lab

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
_numbers = itertools.count(1)


class Overwriting(MemoryStore):
    """Ignores the condition of a put, or refuses it."""

    refuses = False

    def __init__(self) -> None:
        super().__init__(f"memory://keepers{next(_numbers)}/")

    async def put(self, path: str, body: Any, *, if_absent: bool = False) -> str | None:
        if if_absent and self.refuses:
            raise UnsupportedError("no conditions here")
        await asyncio.sleep(0)
        return await super().put(path, body)


class Refusing(Overwriting):
    refuses = True


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with serving(kept="N") as url:
        yield url


def items(endpoint: str, key: str) -> list[tuple[int, str]]:
    """The versions and paths that DynamoDB has of a table."""
    client = connect(endpoint)
    Items = client.query(
        TableName="kept",
        KeyConditionExpression="base_uri = :b",
        ExpressionAttributeValues={":b": {"S": key}},
    )["Items"]
    client.close()
    return [(int(item["version"]["N"]), item["path"]["S"]) for item in Items]


def place(lab: Lab, endpoint: str) -> tuple[str, str, dict[str, str]]:
    """A table in the lab that is not there yet: its URI, its key, and the options."""
    key = f"kept-{next(_numbers)}"
    options = {**lab.lance_options(), "dynamodb_endpoint": endpoint}
    return f"s3+ddb://lab/{key}?ddbTableName=kept", key, options


async def test_in_turns_with_pylance(lab: Lab, endpoint: str) -> None:
    uri, key, options = place(lab, endpoint)
    ours = await alance.write_dataset(numbers(0, 5), uri, storage_options=options)
    assert ours.uri == uri
    assert items(endpoint, key) == [(1, f"{key}/_versions/18446744073709551614.manifest")]

    def theirs() -> Any:
        return lance.dataset(uri, storage_options=options)

    def append() -> int:
        theirs().insert(numbers(5, 8))
        theirs().delete("a = 0")
        return int(theirs().count_rows())

    assert await asyncio.to_thread(append) == 7
    assert await ours.latest_version() == 3
    ours = await ours.checkout_latest()
    ours = await ours.insert(numbers(8, 9))
    ours = await ours.update_config({"k": "v"})
    await ours.tags.create("here")
    assert [item.version for item in await ours.versions()] == [1, 2, 3, 4, 5]
    assert len(items(endpoint, key)) == 5
    old = await ours.checkout_version(2)
    assert await old.count_rows() == 8
    back = await old.restore()
    assert back.version == 6

    def look() -> tuple[int, int, dict[str, Any]]:
        dataset = theirs()
        dataset.validate()
        return dataset.version, dataset.count_rows(), dataset.tags.list()

    version, count, tags = await asyncio.to_thread(look)
    assert (version, count, tags["here"]["version"]) == (6, 8, 5)
    fresh = await alance.dataset(uri, version="here", storage_options=options)
    assert (fresh.version, fresh.config) == (5, {"k": "v"})
    await asyncio.gather(*(back.insert(numbers(n, n + 1)) for n in range(20, 24)))
    assert await asyncio.to_thread(lambda: theirs().count_rows()) == 12
    with pytest.raises(AlreadyExistsError):
        await alance.write_dataset(numbers(0, 1), uri, storage_options=options)
    committed = await alance.commit(
        uri, alance.operations.UpdateConfig(), storage_options=options, message="by URI"
    )
    assert committed.version == len(items(endpoint, key))


async def test_branches_and_drop(lab: Lab, endpoint: str) -> None:
    uri, key, options = place(lab, endpoint)
    main = await alance.write_dataset(numbers(0, 5), uri, storage_options=options)
    dev = await (await main.create_branch("dev")).insert(numbers(5, 6))
    assert [version for version, _ in items(endpoint, f"{key}/tree/dev")] == [1, 2]

    def write() -> list[int]:
        branch = lance.dataset(uri, storage_options=options).checkout_version(("dev", None))
        branch.insert(numbers(6, 7))
        result: list[int] = branch.to_table()["a"].to_pylist()
        return result

    assert await asyncio.to_thread(write) == list(range(7))
    dev = await dev.checkout_latest()
    assert (dev.version, await dev.count_rows()) == (3, 7)
    await main.branches.delete("dev")
    assert items(endpoint, f"{key}/tree/dev") == []
    assert (await (await main.create_branch("dev")).insert(numbers(5, 6))).version == 2
    await alance.drop(uri, storage_options=options)
    assert items(endpoint, key) == items(endpoint, f"{key}/tree/dev") == []
    with pytest.raises(NotFoundError):
        await alance.dataset(uri, storage_options=options)
    await alance.drop(uri, storage_options=options, ignore_missing=True)
    dataset = await alance.write_dataset(numbers(0, 2), uri, storage_options=options)
    assert dataset.version == 1


async def test_clones_of_such_tables(lab: Lab, endpoint: str) -> None:
    uri, key, options = place(lab, endpoint)
    source = await alance.write_dataset(numbers(0, 5), uri, storage_options=options)
    target, clone_key, _ = place(lab, endpoint)
    clone = await (await source.shallow_clone(target)).insert(numbers(5, 6))
    assert len(items(endpoint, clone_key)) == 2
    plain = await clone.shallow_clone(f"s3://lab/{clone_key}-plain")
    assert (await plain.to_table(["a"])).num_rows == 6
    result = await asyncio.to_thread(
        lambda: lance.dataset(
            f"s3://lab/{clone_key}-plain", storage_options=lab.lance_options()
        ).to_table()
    )
    assert result["a"].to_pylist() == list(range(6))
    assert plain.uri.startswith("s3://")
    assert len(items(endpoint, key)) == 1


async def test_without_the_client(lab: Lab, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    uri, _, options = place(lab, endpoint)
    for name in ("botocore", "botocore.exceptions", "botocore.session"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UnsupportedError, match=r"install 'boto3.*extra `dynamodb`"):
        await alance.dataset(uri, storage_options=options)


@pytest.mark.parametrize("kind", [Overwriting, Refusing])
async def test_many_writers_with_sqlite(tmp_path: Path, kind: type[Overwriting]) -> None:
    store, retained = kind(), alance.SqliteStore(tmp_path / "versions.sqlite")
    first = await alance.write_dataset(numbers(0, 1), "t", store=store, manifest_store=retained)
    await asyncio.gather(*(first.insert(numbers(n, n + 1)) for n in range(1, 9)))
    dataset = await alance.dataset("t", store=store, manifest_store=retained)
    assert dataset.version == (await retained.get_latest("t")).version  # type: ignore[union-attr]
    assert sorted((await dataset.to_table(["a"]))["a"].to_pylist()) == list(range(9))
    await dataset.tags.create("nine")
    with pytest.raises(AlreadyExistsError, match="tag 'nine'"):
        await dataset.tags.create("nine", 1)
    dev = await (await dataset.create_branch("dev")).insert(numbers(20, 22))
    assert (dev.version, await dev.count_rows()) == (dataset.version + 1, 11)
    assert len(await dev.versions()) == 2
    with pytest.raises(AlreadyExistsError):
        await dataset.create_branch("dev", 1)
    await alance.drop("t", store=store, manifest_store=retained)
    assert await retained.get_latest("t") is await retained.get_latest("t/tree/dev") is None


async def test_a_staged_version_is_seen_and_finished(tmp_path: Path) -> None:
    store, retained = Overwriting(), alance.SqliteStore(tmp_path / "versions.sqlite")
    first = await alance.write_dataset(numbers(0, 1), "t", store=store, manifest_store=retained)
    await first.insert(numbers(1, 2))
    entry = await retained.get("t", 2)
    assert entry is not None
    staged = f"{entry.path}-6a34de6c-ea9c-4d3c-9fb1-6a4ea9b4a6b1"
    await store.copy(entry.path, staged)
    await store.delete([entry.path])
    await retained.put_if_exists("t", Entry(2, staged, entry.num_bytes))
    assert (await alance.dataset("t", store=store)).version == 1  # who does not ask sees no more
    await first.tags.create("two", 2)
    assert await retained.get("t", 2) == entry
    await store.copy(entry.path, staged)
    await store.delete([entry.path])
    await retained.put_if_exists("t", Entry(2, staged, entry.num_bytes))
    assert [version.version for version in await first.versions()] == [1, 2]
    assert (await first.checkout_latest()).version == 2


async def test_commits_under_a_lock() -> None:
    held: list[int] = []
    locks: dict[int, asyncio.Lock] = {}

    @asynccontextmanager
    async def lock(version: int) -> AsyncIterator[None]:
        async with locks.setdefault(version, asyncio.Lock()):
            held.append(version)
            yield

    store = Overwriting()
    first = await alance.write_dataset(numbers(0, 1), "t", store=store, commit_lock=lock)
    await asyncio.gather(*(first.insert(numbers(n, n + 1)) for n in range(1, 6)))
    dataset = await alance.dataset("t", store=store, commit_lock=lock)
    assert await dataset.count_rows() == 6
    assert set(held) == set(range(1, dataset.version + 1))
    appended = await alance.write_dataset(
        numbers(6, 7), "t", mode="append", store=store, commit_lock=lock
    )
    assert appended.version == dataset.version + 1 == held[-1]
    branch = await appended.create_branch("dev")
    assert (await branch.insert(numbers(7, 8))).version == held[-1] == appended.version + 1


async def test_a_lock_that_says_no(table: str) -> None:
    @asynccontextmanager
    async def lock(version: int) -> AsyncIterator[None]:
        raise CommitConflictError(f"version {version} is taken")
        yield

    dataset = await alance.dataset(table, commit_lock=lock)
    with pytest.raises(CommitConflictError):
        await dataset.update_config({"k": "v"}, max_retries=1)
    assert lance.dataset(table).version == 3


class Forgetless:
    """An external store that has what the protocol asks for, and no more."""

    def __init__(self, inner: alance.SqliteStore) -> None:
        self.get, self.get_latest = inner.get, inner.get_latest
        self.put_if_not_exists, self.put_if_exists = inner.put_if_not_exists, inner.put_if_exists


async def test_stores_of_versions_without_methods_are_refused(tmp_path: Path, table: str) -> None:
    retained = alance.SqliteStore(tmp_path / "versions.sqlite")
    with pytest.raises(InvalidInputError, match="expected one of them"):
        await alance.dataset(table, manifest_store=retained, commit_lock=lambda version: version)  # type: ignore[arg-type,return-value]
    with pytest.raises(InvalidInputError, match="has no get, get_latest"):
        await alance.dataset(table, manifest_store=object())  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="context manager"):
        await alance.dataset(table, commit_lock=7)  # type: ignore[arg-type]
    uri = "s3+ddb://bucket/path?ddbTableName=t"
    with pytest.raises(InvalidInputError, match="names its own store"):
        await alance.dataset(uri, manifest_store=retained)
    with pytest.raises(InvalidInputError, match="ddbTableName"):
        await alance.write_dataset(numbers(0, 1), "s3+ddb://bucket/path")
    dataset = await alance.write_dataset(
        numbers(0, 1), str(tmp_path / "t2"), manifest_store=Forgetless(retained)
    )
    with pytest.raises(InvalidInputError, match="a dataset has its own"):
        await alance.commit(dataset, alance.operations.UpdateConfig(), manifest_store=retained)
    for call in (
        dataset.branches.delete("dev", force=True),
        alance.drop(str(tmp_path / "t2"), manifest_store=Forgetless(retained)),
    ):
        with pytest.raises(UnsupportedError, match="delete_table"):
            await call
    assert (await dataset.insert(numbers(1, 2))).version == 2


async def test_stores_can_be_pickled(lab: Lab, endpoint: str, tmp_path: Path) -> None:
    uri, key, options = place(lab, endpoint)
    dataset = await alance.write_dataset(numbers(0, 1), uri, storage_options=options)
    keeper = pickle.loads(pickle.dumps(dataset._snapshot.table.keeper))
    assert (await keeper.store.get_latest(key)).version == 1
    document = pickle.loads(pickle.dumps(alance.SqliteStore(tmp_path / "v.sqlite")))
    assert await document.get_latest("t") is None
