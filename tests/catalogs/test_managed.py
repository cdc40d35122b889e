"""Tables whose versions a catalog manages: by alance and pylance in turns, with faults."""

from __future__ import annotations

import asyncio
import pickle
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import lance
import lance_namespace
import pyarrow as pa
import pytest
from lance.namespace import DirectoryNamespace, RestAdapter, RestNamespace

import alance
import alance.sync
from alance import (
    AccessError,
    CommitConflictError,
    NotFoundError,
    RetryableConflictError,
    StoreError,
    TableNotFoundError,
    UnsupportedError,
)
from alance.catalogs.versions import TableVersions
from tests.catalogs.managed import Ledger, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TRACKED = {"table_version_tracking_enabled": "true"}


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "managed")


@pytest.fixture
def uri(ledger: Ledger) -> Iterator[str]:
    with serving(ledger) as uri:
        yield uri


def theirs(uri: str, table: str = "t") -> Any:
    return lance.dataset(namespace_client=RestNamespace(uri=uri), table_id=[table])


def write(uri: str, data: pa.Table, mode: str) -> Any:
    client = RestNamespace(uri=uri)
    return lance.write_dataset(data, namespace_client=client, table_id=["t"], mode=mode)


async def ids(dataset: Any) -> list[int]:
    result: list[int] = sorted((await dataset.to_table(["id"]))["id"].to_pylist())
    return result


async def test_rows_are_seen_at_once_on_both_sides(uri: str, ledger: Ledger) -> None:
    catalog = await alance.connect(uri)
    ours = await catalog.create_table("t", rows(1))
    assert list(ledger.versions["t", None]) == [1]
    ours = await ours.insert(rows(2))
    assert (await asyncio.to_thread(lambda: theirs(uri).count_rows())) == 2
    await asyncio.to_thread(write, uri, rows(3), "append")
    assert await ids(await catalog.open_table("t")) == [1, 2, 3]
    assert await ids(await ours.checkout_latest()) == [1, 2, 3]
    merged = await (await ours.checkout_latest()).delete("id = 1")
    assert (await asyncio.to_thread(lambda: theirs(uri).to_table()["id"].to_pylist())) == [2, 3]
    assert merged.version == 4
    assert list(ledger.versions["t", None]) == [1, 2, 3, 4]
    assert [version.version for version in await merged.versions()] == [1, 2, 3, 4]
    assert await ids(await catalog.open_table("t", version=2)) == [1, 2]


@pytest.mark.parametrize("kind", ["client", "server"])
async def test_pylances_folder_with_tracked_versions(tmp_path: Path, kind: str) -> None:
    properties = {"root": str(tmp_path / "lake"), "ops_metrics_enabled": "true", **TRACKED}
    client = DirectoryNamespace(**properties)
    with RestAdapter("dir", properties, port=0) as server:
        place = client if kind == "client" else f"http://127.0.0.1:{server.port}"
        catalog = await alance.connect(place)
        await catalog.create_namespace("shop")
        for name in (("t",), ("shop", "t")):
            ours = await catalog.create_table(name, rows(1))
            ours = await ours.insert(rows(2))

            def append(name: tuple[str, ...] = name) -> int:
                table = lance.dataset(namespace_client=client, table_id=list(name))
                table.insert(rows(3), mode="append")
                return int(lance.dataset(namespace_client=client, table_id=list(name)).count_rows())

            assert await asyncio.to_thread(append) == 3
            latest = await catalog.open_table(name)
            assert (latest.version, await ids(latest)) == (3, [1, 2, 3])
            assert (await ours.insert(rows(4))).version == 4
        dev = await (await latest.create_branch("dev")).insert(rows(5))
        assert await ids(dev) == [1, 2, 3, 5]
        assert await ids(await catalog.open_table(("shop", "t"))) == [1, 2, 3, 4]
    if kind == "client":
        assert client.retrieve_ops_metrics()["create_table_version"] >= 8


def fails_once(method: str, error: Exception, *, after: bool) -> Callable[[str], Any]:
    """Return a fault: the first call of a method fails, before or after it is done."""
    errors = [error]

    def fault(called: str) -> Any:
        if called != method or not errors:
            return None

        def fail() -> None:
            raise errors.pop()

        return fail if after else fail()

    return fault


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    "error",
    [
        lance_namespace.ServiceUnavailableError("busy"),
        lance_namespace.InternalError("lost"),
        lance_namespace.ConcurrentModificationError("version 2 exists"),
    ],
)
async def test_a_lost_answer_makes_one_version(
    uri: str, ledger: Ledger, error: Exception, after: bool
) -> None:
    catalog = await alance.connect(uri)
    table = await catalog.create_table("t", rows(1))
    ledger.fault = fails_once("create_table_version", error, after=after)
    assert (await table.insert(rows(2))).version == 2
    assert await ids(await catalog.open_table("t")) == [1, 2]
    staged = [path.name for path in ledger.root.rglob("_versions/*") if "-" in path.name]
    assert staged == []


async def test_a_refusal_makes_no_version(uri: str, ledger: Ledger) -> None:
    table = await (await alance.connect(uri)).create_table("t", rows(1))
    error = lance_namespace.PermissionDeniedError("read only")
    ledger.fault = fails_once("create_table_version", error, after=False)
    with pytest.raises(AccessError, match="read only"):
        await table.insert(rows(2))
    assert (await table.insert(rows(3))).version == 2
    assert await ids(await table.checkout_latest()) == [1, 3]


async def test_reads_wait_for_a_busy_catalog(uri: str, ledger: Ledger) -> None:
    catalog = await alance.connect(uri)
    await catalog.create_table("t", rows(1))
    busy = lance_namespace.ServiceUnavailableError("busy")
    ledger.fault = fails_once("list_table_versions", busy, after=False)
    assert await ids(await catalog.open_table("t")) == [1]
    ledger.fault = fails_once(
        "list_table_versions", lance_namespace.InternalError("no"), after=True
    )
    with pytest.raises(StoreError, match="list table versions 't': no"):
        await catalog.open_table("t")


async def test_many_writers_of_both_kinds(uri: str, ledger: Ledger) -> None:
    tables = [await (await alance.connect(uri)).create_table("t", rows(0))]
    tables += [await (await alance.connect(uri)).open_table("t") for _ in range(2)]

    def append(number: int) -> None:
        write(uri, rows(number), "append")

    await asyncio.gather(
        *(
            table.insert(rows(10 * place + n))
            for place, table in enumerate(tables, 1)
            for n in range(4)
        ),
        *(asyncio.to_thread(append, n) for n in range(1, 5)),
    )
    latest = await tables[0].checkout_latest()
    expected = [*range(5), *(10 * place + n for place in (1, 2, 3) for n in range(4))]
    assert await ids(latest) == sorted(expected)
    assert sorted(ledger.versions["t", None]) == list(range(1, latest.version + 1))
    changed = await asyncio.gather(
        *(table.update({"id": "id + 100"}, "id < 5") for table in tables)
    )
    assert sum(dataset.summary.num_updated_rows for dataset in changed) == 5
    with pytest.raises(RetryableConflictError):
        await tables[1].update({"id": "0"}, max_retries=0)


async def test_a_commit_that_stops_before_the_call_is_nothing(uri: str, ledger: Ledger) -> None:
    table = await (await alance.connect(uri)).create_table("t", rows(1))
    called = asyncio.Event()
    loop = asyncio.get_running_loop()

    def fault(method: str) -> None:
        if method == "create_table_version":
            loop.call_soon_threadsafe(called.set)
            raise lance_namespace.InternalError("the committer is gone")

    ledger.fault = fault
    committing = asyncio.create_task(table.insert(rows(2)))
    await called.wait()
    committing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await committing
    ledger.fault = lambda method: None
    assert await ids(await table.checkout_latest()) == [1]
    assert (await table.insert(rows(3))).version == 2
    folder = ledger.root / "t.lance" / "_versions"
    assert len([path for path in folder.iterdir() if "-" in path.name]) == 1
    latest = await table.checkout_latest()
    await latest.cleanup_old_versions(delete_unverified=True)
    assert len(list(folder.iterdir())) == 2
    assert await ids(await table.checkout_latest()) == [1, 3]


async def test_a_manifest_that_the_catalog_does_not_list_is_no_version(
    uri: str, ledger: Ledger
) -> None:
    catalog = await alance.connect(uri)
    table = await catalog.create_table("t", rows(1))
    beside = await alance.dataset(ledger.root / "t.lance")  # does not ask the catalog
    await (await beside.insert(rows(2))).insert(rows(3))
    table = await catalog.open_table("t")
    assert (table.version, await ids(table)) == (1, [1])
    assert [version.version for version in await table.versions()] == [1]
    stats = await table.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert stats.old_versions == 0
    assert await ids(await catalog.open_table("t")) == [1]


async def test_versions_that_are_cleaned_up_are_listed_no_more(uri: str, ledger: Ledger) -> None:
    catalog = await alance.connect(uri)
    table = await (await (await catalog.create_table("t", rows(1))).insert(rows(2))).delete(
        "id = 1"
    )
    stats = await table.cleanup_old_versions(timedelta(0))
    assert stats.old_versions == 2
    assert list(ledger.versions["t", None]) == [3]
    assert await asyncio.to_thread(lambda: theirs(uri).to_table()["id"].to_pylist()) == [2]
    table = await table.insert(rows(3))
    ledger.fault = fails_once(
        "batch_delete_table_versions", lance_namespace.UnsupportedOperationError("no"), after=False
    )
    await table.cleanup_old_versions(timedelta(0))
    assert sorted(ledger.versions["t", None]) == [3, 4]
    assert [version.version for version in await table.versions()] == [4]


async def test_a_table_is_dropped_by_its_uri_with_its_versions(uri: str, ledger: Ledger) -> None:
    catalog = await alance.connect(uri)
    table = await catalog.create_table("t", rows(1))
    await alance.drop(table.uri, manifest_store=(await catalog.place("t")).manifest_store)
    assert ledger.versions["t", None] == {}
    assert (await catalog.create_table("t", rows(5), mode="append")).version == 1
    assert await ids(await catalog.open_table("t")) == [5]


async def test_branches_have_versions_of_their_own(uri: str, ledger: Ledger) -> None:
    table = await (await alance.connect(uri)).create_table("t", rows(1))
    dev = await (await table.create_branch("dev/one")).insert(rows(2))
    assert sorted(ledger.versions["t", "dev/one"]) == [1, 2]
    assert await ids(await table.checkout_latest()) == [1]
    assert [version.version for version in await dev.versions()] == [1, 2]
    await table.tags.create("here", ("dev/one", 2))
    assert await ids(await (await alance.connect(uri)).open_table("t", version="here")) == [1, 2]
    await table.tags.delete("here")
    await table.branches.delete("dev/one")
    assert ledger.versions["t", "dev/one"] == {}


async def test_a_table_that_was_dropped_takes_no_rows(uri: str) -> None:
    catalog = await alance.connect(uri)
    old = await (await catalog.create_table("t", rows(1))).insert(rows(2))
    await catalog.drop_table("t")
    with pytest.raises((CommitConflictError, NotFoundError)):
        await old.insert(rows(3))
    with pytest.raises(TableNotFoundError):
        await catalog.open_table("t")


async def test_a_pickled_dataset_reads_without_its_catalog(uri: str) -> None:
    catalog = await alance.connect(uri, headers={"authorization": "secret"})
    table = await catalog.create_table("t", rows(1))
    content = pickle.dumps(table)
    assert b"secret" not in content
    again = pickle.loads(content)
    assert await ids(again) == [1]
    with pytest.raises(
        UnsupportedError, match=r"open the table in this process by `alance.connect"
    ):
        await again.insert(rows(2))


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ({"version": 1, "manifest_path": "elsewhere/_versions/1.manifest"}, "expected one in"),
        ({"version": 2, "manifest_path": "t.lance/_versions/1.manifest"}, "version 2 is at"),
        ({"version": 1, "manifest_path": "t.lance/_versions/1.manifest-x"}, "expected one in"),
        ({"manifest_path": "t.lance/_versions/1.manifest"}, "expected a version"),
    ],
)
async def test_wrong_answers_are_errors(version: dict[str, Any], message: str) -> None:
    class Wrong:
        uri = "wrong"

        async def ask(self, method: str, *_: Any, **fields: Any) -> Any:
            return {"versions": [version], "version": version, "page_token": None}

    versions = TableVersions(Wrong(), ("t",), "lake/t.lance")  # type: ignore[arg-type]
    with pytest.raises(StoreError, match=message):
        await versions.get_latest("lake/t.lance")


async def test_a_handle_follows_the_catalogs_versions(uri: str) -> None:
    catalog = await alance.connect(uri)
    table = await catalog.create_table("t", rows(1))
    live = await catalog.open_table("t", follow=60.0)
    await asyncio.to_thread(write, uri, rows(2), "append")
    assert await ids(await live.checkout_latest()) == [1, 2]
    assert table.version == 1


def test_blocking_code_uses_the_catalog(uri: str, ledger: Ledger) -> None:
    catalog = alance.sync.connect(uri)
    table = catalog.create_table("t", rows(1)).insert(rows(2))
    assert table.version == 2
    assert sorted(ledger.versions["t", None]) == [1, 2]


async def test_opening_and_committing_take_two_calls_each(uri: str, ledger: Ledger) -> None:
    catalog = await alance.connect(uri)
    await catalog.create_table("t", rows(1))
    ledger.calls.clear()
    table = await catalog.open_table("t")
    assert ledger.calls == ["describe_table", "list_table_versions"]
    ledger.calls.clear()
    table = await table.insert(rows(2))
    assert ledger.calls == ["list_table_versions", "create_table_version"]
    ledger.calls.clear()
    await table.insert(rows(3))
    assert ledger.calls == ["list_table_versions", "create_table_version"]
