"""Opening datasets that pylance wrote, and going through their versions; what it costs."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import obstore
import pytest

from alance.errors import CorruptFileError, InvalidInputError, NotFoundError, UnsupportedError
from alance.format.table.naming import NamingScheme, manifest_name
from alance.io.events.trace import trace
from alance.io.opening.registry import StoreRegistry
from alance.io.stores.memory import MemoryStore
from alance.ops.version import opening
from alance.ops.version.opening import open_snapshot
from tests.reference.shapes import numbers
from tests.table.conftest import History, edit_manifest, make_history, request_kinds

if TYPE_CHECKING:
    from alance.format.proto import table_pb2
    from alance.io.stores.store import Store
    from alance.session import Session


async def test_the_latest_version_costs_a_list_and_a_get(
    history: History, session: Session
) -> None:
    with trace() as recorder:
        snapshot = await open_snapshot(history.path, session=session)
    assert request_kinds(recorder) == ["get", "list"]
    assert (snapshot.version, snapshot.uri) == (4, history.path)
    assert snapshot.schema.to_arrow() == history.lance.schema
    assert (await snapshot.live_counts()).tolist() == [9, 5]
    assert not snapshot.is_remote


@pytest.mark.parametrize("version", [1, 2, 3, 4])
async def test_a_version_by_number_costs_a_get(
    history: History, session: Session, version: int
) -> None:
    with trace() as recorder:
        snapshot = await open_snapshot(history.path, version=version, session=session)
        rows = await snapshot.live_counts()
    assert request_kinds(recorder) == ["get"]
    assert snapshot.version == version
    assert rows.sum() == history.at(version).count_rows()
    assert snapshot.schema.to_arrow() == history.at(version).schema


async def test_versions_are_listed_as_by_pylance(history: History, session: Session) -> None:
    snapshot = await open_snapshot(history.path, version=2, session=session)
    with trace() as recorder:
        result = await opening.versions(snapshot)
    assert request_kinds(recorder) == ["get"] * 4 + ["list"]
    expected: list[Any] = history.lance.versions()
    assert [item.version for item in result] == [item["version"] for item in expected]
    assert [dict(item.metadata) for item in result] == [item["metadata"] for item in expected]
    for ours, theirs in zip(result, expected, strict=True):
        assert ours.timestamp is not None
        assert ours.timestamp.timestamp() == pytest.approx(theirs["timestamp"].timestamp())
    with trace() as recorder:
        assert await opening.latest_version(snapshot) == 4
    assert request_kinds(recorder) == ["list"]


async def test_a_version_is_opened_by_time(history: History, session: Session) -> None:
    times = [
        version.timestamp
        for version in await opening.versions(await open_snapshot(history.path, session=session))
    ]
    for number, time in enumerate(times):
        assert time is not None
        later = time + timedelta(microseconds=1)
        result = await open_snapshot(history.path, asof=later, session=session)
        assert result.version == number + 1
        if number:
            before = await open_snapshot(history.path, asof=time.isoformat(), session=session)
            assert before.version == number
    naive = datetime.now(UTC).replace(tzinfo=None) + timedelta(days=1)
    assert (await open_snapshot(history.path, asof=naive, session=session)).version == 4
    with pytest.raises(NotFoundError, match="no version from before"):
        await open_snapshot(history.path, asof="2001-01-01", session=session)


@pytest.mark.parametrize("asof", ["yesterday", 5, ""])
async def test_a_bad_time_is_refused(history: History, session: Session, asof: object) -> None:
    with pytest.raises(InvalidInputError, match="asof"):
        await open_snapshot(history.path, asof=asof, session=session)  # type: ignore[arg-type]


async def test_version_or_asof(history: History, session: Session) -> None:
    with pytest.raises(InvalidInputError, match="one of them"):
        await open_snapshot(history.path, version=1, asof="2030-01-01", session=session)


async def test_a_checkout_costs_a_get_at_most(history: History, session: Session) -> None:
    latest = await open_snapshot(history.path, session=session)
    with trace() as recorder:
        assert await opening.checkout(latest, None) is latest
        assert await opening.checkout(latest, 4) is latest
    assert request_kinds(recorder) == ["list"]  # the manifest is cached
    with trace() as recorder:
        second = await opening.checkout(latest, 2)
    assert request_kinds(recorder) == ["get"]
    assert second.version == 2
    assert (await opening.checkout(second, None)).version == 4


async def test_checkout_sees_what_others_commit(tmp_path: Path, session: Session) -> None:
    history = make_history(tmp_path)
    snapshot = await open_snapshot(history.path, version=4, session=session)
    assert await opening.checkout(snapshot, None) is snapshot
    lance.write_dataset(numbers(0, 3).select(["a"]), history.path, mode="append")
    newer = await opening.checkout(snapshot, None)
    assert (newer.version, snapshot.version) == (5, 4)
    shutil.rmtree(history.path)
    for _ in range(5):
        lance.write_dataset(numbers(0, 1), history.path, mode="overwrite")
    again = await opening.checkout(newer, None)
    assert again is not newer
    assert (await again.live_counts()).tolist() == [1]


@pytest.mark.parametrize("version", [0, 5, 99, (1 << 63) + 1, (1 << 64) - 1])
async def test_no_such_version(history: History, session: Session, version: int) -> None:
    with pytest.raises(NotFoundError, match=rf"t\.lance'.*no version {version}"):
        await open_snapshot(history.path, version=version, session=session)


@pytest.mark.parametrize("version", [-1, 1 << 64, 2.0, True])
async def test_no_version_at_all(history: History, session: Session, version: object) -> None:
    with pytest.raises(InvalidInputError, match="version"):
        await open_snapshot(history.path, version=version, session=session)  # type: ignore[arg-type]


async def test_a_path_without_a_table_is_not_found(tmp_path: Path, session: Session) -> None:
    for path in (tmp_path, tmp_path / "none", "memory://nothing/here"):
        with pytest.raises(NotFoundError, match=str(path)):
            await open_snapshot(str(path), session=session)
        with pytest.raises(NotFoundError, match=str(path)):
            await open_snapshot(str(path), version=1, session=session)
    (tmp_path / "t" / "_versions").mkdir(parents=True)
    (tmp_path / "t" / "_versions" / "latest_version_hint.json").write_text('{"version":3}')
    with pytest.raises(NotFoundError, match="there are no versions"):
        await open_snapshot(str(tmp_path / "t"), session=session)


async def test_names_of_the_old_scheme_are_sorted_as_numbers(
    tmp_path: Path, session: Session
) -> None:
    history = make_history(tmp_path, enable_v2_manifest_paths=False)
    for number in range(8):  # two digits: `10` sorts before `9`
        lance.write_dataset(numbers(number, number + 1).select(["a"]), history.path, mode="append")
    assert (Path(history.path) / "_versions" / "12.manifest").exists()
    with trace() as recorder:
        snapshot = await open_snapshot(history.path, session=session)
    assert request_kinds(recorder) == ["get", "list"]
    assert snapshot.version == 12
    assert (await open_snapshot(history.path, version=9, session=session)).version == 9
    assert len(await opening.versions(snapshot)) == 12
    newest = Path(history.path) / "_versions"
    shutil.copy(newest / "12.manifest", newest / manifest_name(12, NamingScheme.V2))
    with pytest.raises(CorruptFileError, match="both naming schemes"):
        await open_snapshot(history.path, session=session)
    assert (await open_snapshot(history.path, version=3, session=session)).version == 3


async def test_detached_and_other_names_are_skipped(tmp_path: Path, session: Session) -> None:
    history = make_history(tmp_path)
    folder = Path(history.path) / "_versions"
    newest = folder / manifest_name(4, NamingScheme.V2)
    detached = (1 << 63) + 77
    shutil.copy(newest, folder / manifest_name(detached, NamingScheme.V2))
    for name in (".tmp3.manifest", "0.manifest-abc", f"{newest.name}-4f2a"):
        (folder / name).write_bytes(b"")
    snapshot = await open_snapshot(history.path, session=session)
    assert snapshot.version == 4
    assert len(await opening.versions(snapshot)) == 4
    result = await open_snapshot(history.path, version=detached, session=session)
    assert (await result.live_counts()).tolist() == [9, 5]


async def test_transactions_are_read_as_by_pylance(history: History, session: Session) -> None:
    snapshot = await open_snapshot(history.path, session=session)
    operations = ["Overwrite", "Append", "Delete", "Project"]
    for version, operation in enumerate(operations, 1):
        transaction = await opening.read_transaction(snapshot, version)
        assert transaction is not None
        assert transaction.operation == operation
        theirs = history.lance.read_transaction(version)
        assert theirs is not None
        assert (transaction.uuid, transaction.read_version) == (theirs.uuid, theirs.read_version)
    with trace() as recorder:
        last = await opening.read_transaction(snapshot)
    assert request_kinds(recorder) == []
    assert last is not None
    assert last.operation == "Project"
    first = await opening.read_transaction(snapshot, 1)
    assert first is not None
    assert first.commit_message == "first"


async def test_transaction_from_its_file(tmp_path: Path, session: Session) -> None:
    history = make_history(tmp_path)
    snapshot = await open_snapshot(history.path, version=2, session=session)
    inline = snapshot.manifest.transaction
    object.__setattr__(snapshot.manifest, "transaction", None)
    transaction = await opening.read_transaction(snapshot)
    assert transaction is not None
    assert transaction.message == inline
    for file in (Path(history.path) / "_transactions").iterdir():
        file.unlink()
    assert await opening.read_transaction(snapshot) is None


async def test_unknown_features_are_named(tmp_path: Path, session: Session) -> None:
    history = make_history(tmp_path)

    def set_flag(message: table_pb2.Manifest) -> None:
        message.reader_feature_flags |= 1 << 20

    edit_manifest(history.path, set_flag)
    with pytest.raises(UnsupportedError, match="1048576") as caught:
        await open_snapshot(history.path, session=session)
    assert "manifest" in caught.value.__notes__[0]


async def test_old_file_versions_open(tmp_path: Path, session: Session) -> None:
    path = str(tmp_path / "old")
    lance.write_dataset(numbers(0, 10), path, data_storage_version="legacy")
    snapshot = await open_snapshot(path, session=session)
    assert (await snapshot.live_counts()).tolist() == [10]
    assert snapshot.schema.to_arrow() == numbers(0, 1).schema
    assert len(snapshot.handles[0].sources) == 1


async def copy_into(store: Store, folder: str, top: str) -> None:
    files = [path for path in Path(top).rglob("*") if path.is_file()]  # noqa: ASYNC240  # a test
    for file in files:
        content = file.read_bytes()
        await store.put(f"{folder}/{file.relative_to(top)}", content)


async def test_a_table_in_memory_is_opened(history: History, session: Session) -> None:
    store, folder = StoreRegistry.shared().open("memory://opening/some where")
    await copy_into(store, folder, history.path)
    opened = await open_snapshot("memory://opening/some where", session=session)
    assert (await opened.live_counts()).tolist() == [9, 5]


@pytest.mark.parametrize("kind", ["alance", "obstore"])
async def test_in_given_stores(history: History, session: Session, kind: str) -> None:
    arguments = MemoryStore("memory://given/") if kind == "alance" else obstore.store.MemoryStore()
    store, folder = StoreRegistry.shared().open("t", store=arguments)
    await copy_into(store, folder, history.path)
    opened = await open_snapshot("t", store=arguments, session=session)
    await opened.prepare(opened.handles)
    assert opened.handles[0].deleted is not None
    assert opened.handles[0].deleted.rows.tolist() == [3]
    assert opened.handles[0].sources[0].location.startswith(f"{store.root}t/data/")


async def test_the_loops_own_session(history: History) -> None:
    snapshot = await open_snapshot(history.path)
    assert snapshot.session is (await open_snapshot(history.path)).session
    await snapshot.session.aclose()


async def test_spoiled_manifests_say_where(tmp_path: Path, session: Session) -> None:
    history = make_history(tmp_path)
    file = Path(history.path) / "_versions" / manifest_name(4, NamingScheme.V2)
    file.write_bytes(json.dumps({"version": 4}).encode())
    with pytest.raises(CorruptFileError) as caught:
        await open_snapshot(history.path, session=session)
    assert file.name in caught.value.__notes__[0]
