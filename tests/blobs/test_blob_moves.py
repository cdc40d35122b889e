"""Rows with blobs that move to other files: as pylance moves them."""

from __future__ import annotations

import shutil
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from lance import blob_array

import alance
from tests.blobs.blob_tables import SMALL, all_kinds, check_equal, contents, files_of, table_of

if TYPE_CHECKING:
    from pathlib import Path


def twins(tmp_path: Path, *, lists: bool = False) -> Any:
    """Two equal tables; the second one as pylance's."""
    all_kinds(tmp_path, "ours", lists=lists)
    shutil.copytree(tmp_path / "ours", tmp_path / "theirs")
    return lance.dataset(tmp_path / "theirs")


@pytest.mark.parametrize("lists", [False, True])
async def test_a_compaction_moves_blobs_as_pylance_does(tmp_path: Path, lists: bool) -> None:
    theirs = twins(tmp_path, lists=lists)
    theirs.delete("id = 0")
    theirs.optimize.compact_files()
    dataset = await alance.dataset(tmp_path / "ours")
    dataset = await dataset.delete("id = 0")
    await dataset.optimize.compact_files()
    await check_equal(tmp_path / "ours", tmp_path / "theirs", "b", "x.b")


async def test_an_update_moves_blobs_as_pylance_does(tmp_path: Path) -> None:
    twins(tmp_path).update({"id": "id + 100"}, where="id in (1, 2, 4, 5)")
    dataset = await alance.dataset(tmp_path / "ours")
    await dataset.update({"id": "id + 100"}, "id in (1, 2, 4, 5)")
    await check_equal(tmp_path / "ours", tmp_path / "theirs", "b", "x.b")


async def test_merge_of_other_columns(tmp_path: Path) -> None:
    data = pa.table({"id": pa.array([1, 4], pa.int64()), "v": pa.array([7, 8], pa.int64())})
    theirs = twins(tmp_path)
    theirs.add_columns({"v": "id * 2"})
    theirs.merge_insert("id").when_matched_update_all().execute(data)
    dataset = await alance.dataset(tmp_path / "ours")
    dataset = await dataset.add_columns({"v": "id * 2"})
    await dataset.merge_insert("id").when_matched_update_all().execute(data)
    await check_equal(tmp_path / "ours", tmp_path / "theirs", "b", "x.b")


async def test_merge_of_blobs(tmp_path: Path) -> None:
    arrays = [pa.array([1, 4, 100], pa.int64()), blob_array([b"N" * 50, b"M", b"new"])]
    data = pa.table(arrays, schema=pa.schema([pa.field("id", pa.int64()), SMALL]))
    merge = twins(tmp_path).merge_insert("id").when_matched_update_all()
    merge.when_not_matched_insert_all().execute(data)
    dataset = await alance.dataset(tmp_path / "ours")
    ours = dataset.merge_insert("id").when_matched_update_all()
    await ours.when_not_matched_insert_all().execute(data)
    await check_equal(tmp_path / "ours", tmp_path / "theirs", "b", "x.b")


async def test_new_columns_of_blobs_hold_what_was_written(tmp_path: Path) -> None:
    twins(tmp_path)
    values = [b"A" * 5, b"B" * 51, b"C" * 201, b"D" * 61, None, b""]
    data = pa.table([blob_array(values)], schema=pa.schema([SMALL.with_name("c")]))
    dataset = await alance.dataset(tmp_path / "ours")
    dataset = await dataset.add_columns(data)
    assert contents(tmp_path / "ours", "c") == values
    dataset = await dataset.add_columns(SMALL.with_name("d"))
    assert contents(tmp_path / "ours", "d") == [None] * 6
    by_key = pa.table(
        [pa.array([5, 1], pa.int64()), blob_array([b"five", b"one" * 50])],
        schema=pa.schema([pa.field("id", pa.int64()), SMALL.with_name("e")]),
    )
    dataset = await dataset.merge(by_key, "id")
    assert contents(tmp_path / "ours", "e") == [None, b"one" * 50, None, None, None, b"five"]
    dataset = await dataset.alter_columns({"path": "e", "name": "f"})
    assert contents(tmp_path / "ours", "f") == contents(tmp_path / "ours", "f")
    dataset = await dataset.drop_columns(["c", "f"])
    assert dataset.schema.names == ["id", "b", "x", "d"]
    lance.dataset(tmp_path / "ours").validate()


async def test_clones_read_the_objects_of_their_source(tmp_path: Path) -> None:
    all_kinds(tmp_path, "first")
    want = contents(tmp_path / "first")
    dataset = await alance.dataset(tmp_path / "first")
    clone = await dataset.shallow_clone(str(tmp_path / "clone"))
    assert contents(tmp_path / "clone") == want
    assert [item for _, item in await clone.read_blobs("b", indices=range(6))] == want
    clone = await clone.delete("id = 1")
    clone = await clone.optimize.compact_files()
    assert contents(tmp_path / "clone") == [want[0], *want[2:]]
    assert contents(tmp_path / "first") == want


async def test_cleanup_removes_objects_with_their_data_file(tmp_path: Path) -> None:
    where = tmp_path / "t"
    dataset = await alance.write_dataset(table_of([b"a" * 50, b"b" * 200]), where)
    written = await alance.write_dataset(table_of([b"c" * 50, b"d" * 200]), where, mode="overwrite")
    assert len([path for path in files_of(where) if path.suffix == ".blob"]) == 4
    await written.cleanup_old_versions(timedelta(0))
    paths = [path for path in files_of(where) if path.suffix == ".blob"]
    assert len(paths) == 2
    assert contents(where) == [b"c" * 50, b"d" * 200]
    assert dataset.version == 1


async def test_restored_versions_have_their_blobs(tmp_path: Path) -> None:
    values = [b"a" * 50, b"b" * 200, None]
    first = await alance.write_dataset(table_of(values), tmp_path / "t")
    await first.delete("id < 2")
    await (await alance.dataset(tmp_path / "t", version=1)).restore()
    assert contents(tmp_path / "t") == values
