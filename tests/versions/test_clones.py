"""Shallow clones by alance and by pylance, of tables and of each other's clones."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import lance
import pytest
from obstore.store import MemoryStore

import alance
from alance.errors import AlreadyExistsError, InvalidInputError, NotFoundError, UnsupportedError
from alance.ops.refs.clone import base_uri
from alance.versioning.table import open_table
from tests.versions.conftest import (
    check_equal_messages,
    make,
    manifest_of,
    numbers,
    rows_by_pylance,
    tagged_source,
)

if TYPE_CHECKING:
    from pathlib import Path

    from alance.testing.lab import Lab

ROWS_WITHOUT_3 = [n for n in range(15) if n != 3]


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("reference", [1, 3, "two", ("dev", None), (None, None)])
async def test_the_same_messages(tmp_path: Path, reference: Any, stable: bool) -> None:
    source = tagged_source(tmp_path, stable=stable)
    item, two = str(tmp_path / "one"), str(tmp_path / "two")
    theirs = source.shallow_clone(item, reference)
    ours = await (await alance.dataset(source.uri)).shallow_clone(two, reference)
    check_equal_messages(two, item)
    assert (ours.version, ours.branch, ours.config) == (theirs.version, None, theirs.config())
    expected = rows_by_pylance(item)
    assert rows_by_pylance(two) == expected
    assert (await ours.to_table(["a"]))["a"].to_pylist() == expected
    assert lance.dataset(two).to_table(filter="a = 5").num_rows == 1


async def test_writes_on_a_clone(table: str, tmp_path: Path) -> None:
    where = str(tmp_path / "clone")
    clone = await (await alance.dataset(table)).shallow_clone(where, message="cloned")
    assert (await clone.read_transaction()).commit_message == "cloned"
    clone = await clone.insert(numbers(20, 22))
    assert manifest_of(where).message.fragments[2].files[0].HasField("base_id") is False
    theirs = lance.dataset(where)
    theirs.delete("a in (5, 12)")
    theirs.insert(numbers(22, 23))
    clone = await (await clone.checkout_latest()).update_metadata({"k": "v"})
    expected = [n for n in [*ROWS_WITHOUT_3, 20, 21, 22] if n not in (5, 12)]
    assert (await clone.to_table(["a"]))["a"].to_pylist() == expected
    assert rows_by_pylance(where) == expected
    assert rows_by_pylance(table) == ROWS_WITHOUT_3
    back = await clone.restore(3)
    assert (await back.to_table(["a"]))["a"].to_pylist() == ROWS_WITHOUT_3
    assert rows_by_pylance(where) == ROWS_WITHOUT_3


async def test_clones_of_clones(table: str, tmp_path: Path) -> None:
    first, second, third = (str(tmp_path / name) for name in ("one", "two", "three"))
    lance.dataset(table).shallow_clone(first, 3).insert(numbers(20, 21))
    built = await (await alance.dataset(first)).shallow_clone(second)
    await built.insert(numbers(30, 31))
    lance.dataset(second).shallow_clone(third, 5)
    assert (await (await alance.dataset(third)).to_table(["a"]))["a"].to_pylist() == [
        *ROWS_WITHOUT_3,
        20,
        30,
    ]
    assert rows_by_pylance(second) == rows_by_pylance(third) == [*ROWS_WITHOUT_3, 20, 30]
    bases = {base_path.id: base_path.path for base_path in manifest_of(second).message.base_paths}
    assert bases == {0: table, 1: first}
    branch = await (await alance.dataset(second)).create_branch("dev")
    await branch.insert(numbers(40, 41))
    result = lance.dataset(second).checkout_version(("dev", None))
    assert result.to_table()["a"].to_pylist() == [*ROWS_WITHOUT_3, 20, 30, 40]


async def test_clones_of_tables_with_old_names_are_read(tmp_path: Path) -> None:
    path, where = make(tmp_path, enable_v2_manifest_paths=False), str(tmp_path / "clone")
    dataset = await alance.dataset(path)
    await dataset.shallow_clone(where, 2)
    assert rows_by_pylance(where) == list(range(15))
    await dataset.tags.create("t", 2)
    assert lance.dataset(path, version="t").version == 2
    assert (await dataset.create_branch("dev", "t")).version == 2
    lance.dataset(path).checkout_version(("dev", None)).insert(numbers(20, 21))


async def test_wrong_use_of_a_clone_is_refused(table: str, tmp_path: Path) -> None:
    where = str(tmp_path / "clone")
    dataset = await alance.dataset(table)
    for missing in (99, "nope", ("nope", None)):
        with pytest.raises(NotFoundError):
            await dataset.shallow_clone(where, missing)
    await dataset.shallow_clone(where)
    for number in (1, 3):
        with pytest.raises(AlreadyExistsError, match="exists already"):
            await dataset.shallow_clone(where, number)
    with pytest.raises(AlreadyExistsError):
        await dataset.shallow_clone(table)
    await (await alance.dataset(where)).insert(numbers(1, 2))
    detached = await alance.commit(dataset, alance.operations.Append(()), detached=True)
    with pytest.raises(InvalidInputError, match="detached"):
        await detached.shallow_clone(str(tmp_path / "other"))
    shutil.rmtree(where)


async def test_between_folders_of_a_bucket(lab: Lab) -> None:
    options = lab.lance_options()
    uri = "s3://lab/cloned"
    lance.write_dataset(numbers(0, 5), uri, storage_options=options)
    dataset = await alance.dataset(uri, storage_options=options)
    clone = await dataset.shallow_clone("s3://lab/clone")
    await clone.insert(numbers(5, 7))
    branch = await dataset.create_branch("dev")
    await branch.insert(numbers(7, 8))
    theirs = lance.dataset("s3://lab/clone", storage_options=options)
    assert theirs.to_table()["a"].to_pylist() == list(range(7))
    theirs = lance.dataset(uri, storage_options=options).checkout_version(("dev", None))
    assert theirs.to_table()["a"].to_pylist() == [0, 1, 2, 3, 4, 7]
    theirs.shallow_clone("s3://lab/clone-of-theirs", ("dev", 2), storage_options=options)
    again = await alance.dataset("s3://lab/clone-of-theirs", storage_options=options)
    assert await again.count_rows() == 6
    assert (await again.to_table(["a"])).num_rows == 6


async def test_stores_of_users(table: str, tmp_path: Path) -> None:
    store = MemoryStore()
    dataset = await alance.write_dataset(numbers(0, 3), "t", store=store)
    dev = await (await dataset.create_branch("dev")).insert(numbers(3, 4))
    assert (await dev.to_table(["a"]))["a"].to_pylist() == [0, 1, 2, 3]
    fresh = await (await alance.dataset("t", store=store)).checkout_branch("dev")
    assert (await fresh.to_table(["a"]))["a"].to_pylist() == [0, 1, 2, 3]
    other = MemoryStore()
    clone = await dataset.shallow_clone("c", store=other)
    assert (await clone.to_table(["a"])).num_rows == 3
    copied = await (await alance.dataset(table)).shallow_clone("c2", store=other)
    assert (await copied.to_table(["a"])).num_rows == 14


def test_a_store_with_a_prefix() -> None:
    from obstore.store import S3Store

    from alance.io.opening.registry import StoreRegistry

    store = S3Store("bucket", prefix="some/where", region="us-east-1", skip_signature=True)
    table = open_table(StoreRegistry(), "t", store=store)
    with pytest.raises(UnsupportedError, match="prefix"):
        base_uri(table)
