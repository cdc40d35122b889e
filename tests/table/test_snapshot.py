"""Snapshots: what the manifest leaves open is learned once; rows are found by id and address."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.errors import CorruptFileError, NotFoundError
from alance.file.rows.fragment import open_fragments
from alance.io.events.trace import trace
from alance.ops.lookup.segments import segments_of
from alance.ops.read import physical_rows
from alance.ops.version.opening import open_snapshot
from alance.ops.version.projection import (
    CREATED_AT,
    META,
    ROW_ADDRESS,
    ROW_ID,
    ROW_OFFSET,
    UPDATED_AT,
)
from tests.reference.shapes import numbers
from tests.table.conftest import History, edit_manifest, make_history, request_kinds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from alance.file.rows.fragment import OpenFragment, ToOpen
    from alance.format.plans import Plan
    from alance.format.proto import table_pb2
    from alance.format.schema import Schema
    from alance.format.table.fragment import DataFile
    from alance.ops.version.snapshot import Snapshot
    from alance.session import Session


async def test_deletions_are_read_once(history: History, session: Session) -> None:
    snapshot = await open_snapshot(history.path, session=session)
    with trace() as recorder:
        await snapshot.prepare(snapshot.handles)
        await snapshot.prepare(snapshot.handles)
    assert request_kinds(recorder) == ["get"]
    first, second = snapshot.handles
    assert first.deleted is not None
    assert first.deleted.rows.tolist() == [3]
    assert second.deleted is None
    assert first.physical(np.arange(9)).tolist() == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert first.physical_span(2, 4) == (2, 5)
    assert first.live_of(np.array([2, 3])).tolist() == [2]
    # Another version with the same deletion file finds it in the cache.
    other = await open_snapshot(history.path, version=3, session=session)
    with trace() as recorder:
        await other.prepare(other.handles)
    assert request_kinds(recorder) == []


async def test_counts_cost_nothing_where_the_manifest_has_them(
    history: History, session: Session
) -> None:
    snapshot = await open_snapshot(history.path, session=session)
    with trace() as recorder:
        assert [await snapshot.live_count(handle) for handle in snapshot.handles] == [9, 5]
        assert (await snapshot.live_counts()).tolist() == [9, 5]
        assert [await snapshot.live_count(handle) for handle in snapshot.handles] == [9, 5]
    assert request_kinds(recorder) == []


async def test_what_the_manifest_does_not_tell(tmp_path: Path, session: Session) -> None:
    history = make_history(tmp_path)
    sizes = [file.num_bytes for file in await _files(history.path, session)]

    def forget(message: table_pb2.Manifest) -> None:
        for fragment in message.fragments:
            fragment.physical_rows = 0
            fragment.deletion_file.num_deleted_rows = 0
            fragment.files[0].file_size_bytes = 0
        message.fragments[1].ClearField("deletion_file")

    edit_manifest(history.path, forget)
    snapshot = await open_snapshot(history.path, session=session)
    assert [handle.num_physical_rows for handle in snapshot.handles] == [0, 0]
    with trace() as recorder:
        assert (await snapshot.live_counts()).tolist() == [9, 5]
    assert request_kinds(recorder) == ["get", "get", "get", "head", "head"]
    assert [handle.sources[0].file_bytes for handle in snapshot.handles] == sizes
    assert [handle.num_physical_rows for handle in snapshot.handles] == [10, 5]
    with trace() as recorder:
        await snapshot.prepare(snapshot.handles)
    assert request_kinds(recorder) == []


async def _files(path: str, session: Session) -> list[DataFile]:
    snapshot = await open_snapshot(path, session=session)
    return [file for handle in snapshot.handles for file in handle.fragment.files]


async def test_more_deleted_than_there_are(tmp_path: Path, session: Session) -> None:
    history = make_history(tmp_path)

    def boast(message: table_pb2.Manifest) -> None:
        message.fragments[0].deletion_file.num_deleted_rows = 11

    edit_manifest(history.path, boast)
    snapshot = await open_snapshot(history.path, session=session)
    with pytest.raises(CorruptFileError, match="11 rows deleted of 10"):
        await snapshot.live_counts()

    def understate(message: table_pb2.Manifest) -> None:
        message.fragments[0].deletion_file.ClearField("num_deleted_rows")
        message.fragments[0].physical_rows = 3

    edit_manifest(history.path, understate)
    snapshot = await open_snapshot(history.path, session=session)
    with pytest.raises(CorruptFileError, match="row 3, the fragment has 3") as caught:
        await snapshot.live_counts()
    assert "_deletions/" in caught.value.__notes__[0]


async def test_fragments_are_looked_up_by_id(history: History, session: Session) -> None:
    snapshot = await open_snapshot(history.path, session=session)
    assert snapshot.handle(1) is snapshot.handles[1]
    assert snapshot.position(snapshot.handles[1]) == 1
    with pytest.raises(NotFoundError, match="fragment 7: not in version 4"):
        snapshot.handle(7)
    with pytest.raises(CorruptFileError, match="no data file has field 44"):
        snapshot.handles[0].source_of(44)


async def test_rows_are_located_by_address(history: History, session: Session) -> None:
    snapshot = await open_snapshot(history.path, session=session)
    addresses = np.array([1 << 32 | 4, 7, 1 << 32])
    assert (await snapshot.addresses_of(addresses)).tolist() == addresses.tolist()
    positions, rows = await snapshot.locate_addresses(addresses)
    assert (positions.tolist(), rows.tolist()) == ([1, 0, 1], [4, 7, 0])
    positions, rows = await snapshot.locate_addresses(np.array([], np.int64))
    assert (len(positions), len(rows)) == (0, 0)
    with pytest.raises(NotFoundError, match="fragment 2"):
        await snapshot.locate_addresses(np.array([2 << 32]))


def stable(tmp_path: Path) -> lance.LanceDataset:
    """Stable row ids, moved by updates, deletions and a compaction; 37 rows."""
    path = str(tmp_path / "stable")
    options = {"enable_stable_row_ids": True, "max_rows_per_file": 10}
    lance.write_dataset(numbers(0, 30), path, **options)  # type: ignore[arg-type]
    lance.dataset(path).update({"b": "'x'"}, where="a % 7 = 2")
    lance.dataset(path).delete("a in (0, 11, 29)")
    lance.write_dataset(numbers(50, 60), path, mode="append", **options)  # type: ignore[arg-type]
    lance.dataset(path).optimize.compact_files(target_rows_per_fragment=25)
    lance.dataset(path).update({"b": "'y'"}, where="a % 9 = 1")
    return lance.dataset(path)


async def meta_of(snapshot: Snapshot, name: str) -> list[object]:
    """A meta column of all live rows, in dataset order."""
    values: list[object] = []
    for handle in snapshot.handles:
        rows = np.arange(handle.num_physical_rows)
        values += handle.meta(name, handle.live_of(rows)).to_pylist()
    return values


async def test_stable_row_ids(tmp_path: Path, session: Session) -> None:
    built = stable(tmp_path)
    snapshot = await open_snapshot(built.uri, session=session)
    await snapshot.prepare(snapshot.handles)
    await snapshot.load_meta(snapshot.handles, META)
    columns = ["a", CREATED_AT, UPDATED_AT, ROW_OFFSET]
    expected = built.to_table(columns=columns, with_row_id=True, with_row_address=True)
    assert expected.num_rows == 37
    for name in META:
        assert await meta_of(snapshot, name) == expected.column(name).to_pylist(), name
    ids, addresses = (expected.column(name).to_numpy() for name in (ROW_ID, ROW_ADDRESS))
    order = np.random.default_rng(1).permutation(len(ids))
    result = await snapshot.addresses_of(ids[order].astype(np.int64))
    assert result.tolist() == addresses[order].tolist()
    gone = sorted(set(range(40)) - set(ids.tolist()))
    assert len(gone) == 3
    for row_id in [*gone, 4000]:
        with pytest.raises(NotFoundError, match=f"row id {row_id}: no row has it"):
            await snapshot.addresses_of(np.array([row_id]))


async def test_the_row_index_costs_deletions_once(tmp_path: Path, session: Session) -> None:
    result = stable(tmp_path)
    snapshot = await open_snapshot(result.uri, session=session)
    with_deletions = sum(handle.fragment.deletion_file is not None for handle in snapshot.handles)
    assert with_deletions
    with trace() as recorder:
        await snapshot.addresses_of(np.array([1]))
        await snapshot.addresses_of(np.array([2]))
    assert request_kinds(recorder) == ["get"] * with_deletions


async def test_versions_of_rows_without_lineage(history: History, session: Session) -> None:
    snapshot = await open_snapshot(history.path, session=session)
    await snapshot.prepare(snapshot.handles)
    for name in (CREATED_AT, UPDATED_AT):
        assert await meta_of(snapshot, name) == [1] * 14
    deleted = snapshot.handles[0]
    assert deleted.meta(ROW_ID, np.arange(5)).to_pylist() == [0, 1, 2, None, 4]
    assert deleted.meta(ROW_ADDRESS, np.arange(5)).to_pylist() == [0, 1, 2, 3, 4]


async def test_spoiled_sequences_of_row_ids_are_refused(tmp_path: Path, session: Session) -> None:
    result = stable(tmp_path)

    def spoil(message: table_pb2.Manifest) -> None:
        message.fragments[0].inline_row_ids = b"\xff\xff"
        message.fragments[1].ClearField("inline_row_ids")

    edit_manifest(result.uri, spoil)
    snapshot = await open_snapshot(result.uri, session=session)
    with pytest.raises(CorruptFileError, match="row ids"):
        snapshot.handles[0].meta(ROW_ID, np.arange(2))
    with pytest.raises(CorruptFileError, match="it has no row ids"):
        snapshot.handles[1].meta(ROW_ID, np.arange(2))
    with pytest.raises(CorruptFileError, match="row ids"):
        await snapshot.addresses_of(np.array([1]))


async def test_row_ids_in_a_column(tmp_path: Path, session: Session) -> None:
    """Long sequences may be spilled into the data file: fields -3 to -5, and a mark."""
    path = str(tmp_path / "spilled")
    hidden = {"_r": -3, "_c": -4, "_u": -5}
    ids = [5, 3, 9, 1]
    table = pa.table({"a": [0, 1, 2, 3]})
    for name in hidden:
        table = table.append_column(
            pa.field(name, pa.uint64(), nullable=False), pa.array(ids, pa.uint64())
        )
    lance.write_dataset(table, path, enable_stable_row_ids=True)

    def spill(message: table_pb2.Manifest) -> None:
        del message.fields[1:]
        message.reader_feature_flags |= 2048
        message.writer_feature_flags |= 2048
        (fragment,) = message.fragments
        fragment.files[0].fields[1:] = list(hidden.values())
        fragment.column_row_ids.SetInParent()
        fragment.column_created_at_versions.SetInParent()
        fragment.column_last_updated_at_versions.SetInParent()

    edit_manifest(path, spill)
    snapshot = await open_snapshot(path, session=session)
    await snapshot.load_meta(snapshot.handles, META)
    for name in (ROW_ID, CREATED_AT, UPDATED_AT):
        assert await meta_of(snapshot, name) == ids
    assert (await snapshot.addresses_of(np.array([1, 5]))).tolist() == [3, 0]


async def test_row_ids_in_another_file(tmp_path: Path, session: Session) -> None:
    path = str(tmp_path / "external")
    lance.write_dataset(numbers(0, 4), path, enable_stable_row_ids=True)

    def move(message: table_pb2.Manifest) -> None:
        (fragment,) = message.fragments
        content = bytes.fromhex("0a0e2a0c0a0a08011206020000000100")  # 3, 1, 2
        fragment.physical_rows = 3
        (tmp_path / "external" / "ids").write_bytes(b"....." + content)
        record = fragment.external_row_ids
        record.path, record.offset, record.size = "ids", 5, len(content)

    edit_manifest(path, move)
    snapshot = await open_snapshot(path, session=session)
    await snapshot.load_meta(snapshot.handles, [ROW_ID])
    assert snapshot.handles[0].meta(ROW_ID, np.arange(3)).to_pylist() == [3, 1, 2]


async def test_objects_of_other_places_need_options_of_their_own(
    history: History, tmp_path: Path, session: Session
) -> None:
    clone = str(tmp_path / "clone")
    history.at(3).shallow_clone(clone, 3)

    def number(message: table_pb2.Manifest) -> None:
        message.base_paths[0].id = 4

    edit_manifest(clone, number)
    allowed = {"base:s3://bucket/": {}}
    snapshot = await open_snapshot(clone, session=session, storage_options=allowed)
    assert snapshot.external_location("s3://bucket/a b", 0) == "s3://bucket/a b"
    assert snapshot.external_location("x/y", 4) == f"file://{history.path}/x/y"
    with pytest.raises(CorruptFileError, match="leaves"):
        snapshot.external_location("../y", 4)
    with pytest.raises(CorruptFileError, match="base path 5"):
        snapshot.external_location("y", 5)


async def test_handles_of_a_session_share_what_is_open(
    tmp_path: Path, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t")
    lance.write_dataset(numbers(0, 20), path, max_rows_per_file=10)
    lance.dataset(path).create_scalar_index("a", "BTREE")
    opened: list[int] = []

    def counting(schema: Schema, to_opens: Sequence[ToOpen]) -> Plan[list[OpenFragment]]:
        opened.append(len(to_opens))
        return (yield from open_fragments(schema, to_opens))

    monkeypatch.setattr(physical_rows, "open_fragments", counting)
    first = await alance.dataset(path, session=session)
    assert (await first.take([3, 13]))["a"].to_pylist() == [3, 13]
    assert (await first.to_table(filter="a = 7"))["a"].to_pylist() == [7]
    second = await alance.dataset(path, session=session)
    assert opened == [2]
    assert (await second.take([4, 14]))["a"].to_pylist() == [4, 14]
    assert (await second.to_table(filter="a = 8"))["a"].to_pylist() == [8]
    assert opened == [2]
    assert await segments_of(second._snapshot) is await segments_of(first._snapshot)
    # Of another version what is new is opened; another name of a column is another schema.
    lance.write_dataset(numbers(0, 10), path, mode="append")
    third = await alance.dataset(path, session=session)
    assert (await third.take([5, 25]))["a"].to_pylist() == [5, 5]
    assert opened == [2, 1]
    lance.dataset(path).alter_columns({"path": "a", "name": "number"})
    renamed = await alance.dataset(path, session=session)
    assert (await renamed.take([5, 25]))["number"].to_pylist() == [5, 5]
    assert opened == [2, 1, 2]
