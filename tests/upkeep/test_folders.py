"""Folders of tables: what is in one, and tables that move."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import alance
from alance import AlanceError, AlreadyExistsError, InvalidInputError, NotFoundError
from alance.distributed import (
    folders,
    get_object,
    is_table,
    list_folders,
    list_tables,
    move_table,
    put_object,
    put_once,
    remove_folder,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["local", "memory"])
def folder(request, tmp_path: Path) -> str:
    """An empty folder, on a disk, or in memory, where objects are copied as on a cloud."""
    if request.param == "local":
        return str(tmp_path / "lake")
    return f"memory://{uuid.uuid4().hex}/lake"


async def test_folders_are_listed_by_their_names(folder):
    assert await list_folders(folder) == []
    for name in ("b.lance", "a.lance"):
        await alance.write_dataset({"id": [1]}, f"{folder}/{name}")
    assert await put_once(f"{folder}/c/mark", b"first") == b"first"
    assert await put_once(f"{folder}/c/mark", b"late") == b"first"
    await put_object(f"{folder}/c/mark", b"new")
    assert await get_object(f"{folder}/c/mark") == b"new"
    assert await list_folders(folder) == ["a.lance", "b.lance", "c"]
    assert await is_table(f"{folder}/a.lance")
    assert not await is_table(f"{folder}/c")
    await remove_folder(f"{folder}/c", ("mark",))
    assert await list_folders(folder) == ["a.lance", "b.lance"]


async def test_tables_of_a_folder_are_looked_for_some_at_once(folder, monkeypatch):
    names = [f"t{number}" for number in range(9)]
    for name in names:
        await alance.write_dataset({"id": [1]}, f"{folder}/{name}.lance")
    await put_once(f"{folder}/none.lance/mark", b"")
    monkeypatch.setattr(folders, "CHECKED_AT_ONCE", 3)
    is_there, at_once, most = folders.is_table, 0, 0

    async def counted(*args, **options):
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        try:
            return await is_there(*args, **options)
        finally:
            at_once -= 1

    monkeypatch.setattr(folders, "is_table", counted)
    assert await list_tables(folder, ".lance") == names
    assert most <= 4
    assert await list_tables(f"{folder}/nothing", ".lance") == []


async def test_a_table_moves_with_its_versions_tags_and_branches(folder):
    uri, target = f"{folder}/old.lance", f"{folder}/new.lance"
    first = await alance.write_dataset({"id": [1, 2]}, uri)
    await first.tags.create("start")
    branch = await first.create_branch("dev")
    await branch.insert({"id": [9]})
    await first.delete("id = 1")
    await move_table(uri, target)
    assert await list_folders(folder) == ["new.lance"]
    dataset = await alance.dataset(target)
    assert (await dataset.to_table())["id"].to_pylist() == [2]
    tagged = await alance.dataset(target, version="start")
    assert (await tagged.to_table())["id"].to_pylist() == [1, 2]
    moved = await dataset.checkout_branch("dev")
    assert sorted((await moved.to_table())["id"].to_pylist()) == [1, 2, 9]
    await dataset.insert({"id": [3]})
    await alance.write_dataset({"id": [7]}, uri)  # the name is free, and nothing of before known
    assert (await (await alance.dataset(uri)).to_table())["id"].to_pylist() == [7]


async def test_pylance_reads_a_table_that_moved(tmp_path):
    lance.write_dataset(pa.table({"id": [1, 2]}), str(tmp_path / "a.lance"))
    await move_table(str(tmp_path / "a.lance"), str(tmp_path / "b.lance"))
    dataset = lance.dataset(str(tmp_path / "b.lance"))
    dataset.validate()
    assert dataset.to_table()["id"].to_pylist() == [1, 2]


async def test_a_move_takes_no_place_that_is_taken(folder):
    uri, target = f"{folder}/old.lance", f"{folder}/new.lance"
    with pytest.raises(NotFoundError):
        await move_table(uri, target)
    dataset = await alance.write_dataset({"id": [1]}, uri)
    await alance.write_dataset({"id": [2]}, target)
    with pytest.raises(AlreadyExistsError, match="has objects such as"):
        await move_table(uri, target)
    branch = await dataset.create_branch("dev")
    with pytest.raises(InvalidInputError, match="is a branch"):
        await move_table(branch.uri, f"{folder}/other.lance")
    with pytest.raises(InvalidInputError, match="not on the store"):
        await move_table(uri, "memory://elsewhere/table")


async def test_a_table_moves_into_folders_that_are_not_there_yet(folder):
    await alance.write_dataset({"id": [1]}, f"{folder}/old.lance")
    await move_table(f"{folder}/old.lance", f"{folder}/deep/below/new.lance")
    dataset = await alance.dataset(f"{folder}/deep/below/new.lance")
    assert (await dataset.to_table())["id"].to_pylist() == [1]


async def test_a_move_that_the_disk_refuses_tells_so(tmp_path):
    await alance.write_dataset({"id": [1]}, tmp_path / "old.lance")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(AlanceError, match=r"new\.lance"):
        await move_table(str(tmp_path / "old.lance"), str(tmp_path / "file" / "new.lance"))
    assert (await (await alance.dataset(tmp_path / "old.lance")).to_table()).num_rows == 1
