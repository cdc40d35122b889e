"""Deep clones by alance and by pylance: the same messages, all files, nothing of the source."""

from __future__ import annotations

import asyncio
import os
import shutil
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pytest
from obstore.store import MemoryStore, S3Store

import alance
from alance.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    StoreError,
    UnsupportedError,
)
from tests.blobs.blob_tables import all_kinds, table_of
from tests.blobs.test_managed_blobs import managed
from tests.lifecycle.test_cancelled_writes import FREE_S
from tests.reference.waiting import stuck
from tests.versions.conftest import (
    check_equal_messages,
    manifest_of,
    numbers,
    rows_by_pylance,
    tagged_source,
)

if TYPE_CHECKING:
    from alance.testing.lab import Lab

ROWS_WITHOUT_3 = [n for n in range(15) if n != 3]


def files_of(path: str | Path) -> set[str]:
    """Files of a table but for manifests and transactions."""
    folders = [Path(path, name) for name in ("data", "_deletions", "_indices")]
    return {
        str(file.relative_to(path))
        for folder in folders
        for file in folder.rglob("*")
        if file.is_file()
    }


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("reference", [1, 3, "two", ("dev", None), (None, None)])
async def test_the_same_messages(tmp_path: Path, reference: Any, stable: bool) -> None:
    source = tagged_source(tmp_path, stable=stable)
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    theirs = source.deep_clone(first, reference)
    ours = await (await alance.dataset(source.uri)).deep_clone(second, reference)
    check_equal_messages(second, first)
    assert (ours.version, ours.branch, ours.config) == (theirs.version, None, theirs.config())
    assert files_of(second) == files_of(first)
    expected = rows_by_pylance(first)
    shutil.rmtree(source.uri)
    assert rows_by_pylance(second) == expected
    async with alance.Session() as session:
        again = await alance.dataset(second, session=session)
        await again.validate()
        assert (await again.to_table(["a"]))["a"].to_pylist() == expected
        assert (await again.to_table(filter="a = 5")).num_rows == 1


async def test_a_shallow_clone_becomes_one_by_itself(table: str, tmp_path: Path) -> None:
    shallow, deep = str(tmp_path / "shallow"), str(tmp_path / "deep")
    clone = await (await alance.dataset(table)).shallow_clone(shallow)
    clone = await (await clone.insert(numbers(20, 22))).delete("a = 7")
    await clone.deep_clone(deep)
    shutil.rmtree(table)
    shutil.rmtree(shallow)
    expected = [n for n in [*ROWS_WITHOUT_3, 20, 21] if n != 7]
    assert rows_by_pylance(deep) == expected
    assert not manifest_of(deep).base_paths
    further = await (await alance.dataset(deep)).insert(numbers(30, 31))
    assert await further.count_rows() == len(expected) + 1


async def test_blobs_in_files_of_their_own_come_along(tmp_path: Path) -> None:
    values = [bytes([n]) * size for n, size in enumerate([5, 50, 9_000, 300_000])]
    uri, deep = str(tmp_path / "t"), str(tmp_path / "deep")
    dataset = await alance.write_dataset(table_of(values), uri)
    assert any(name.endswith(".blob") for name in files_of(uri))
    await dataset.deep_clone(deep)
    assert files_of(deep) == files_of(uri)
    shutil.rmtree(uri)
    clone = await alance.dataset(deep)
    assert [blob for _, blob in await clone.read_blobs("b", indices=range(4))] == values


async def test_objects_below_base_paths_come_along(tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    dataset = await alance.dataset(all_kinds(tmp_path / "from", "t", lists=True).uri)
    expected = await dataset.to_table(blob_handling="all_binary")
    await dataset.deep_clone(tmp_path / "deep")
    shutil.rmtree(tmp_path / "from")
    clone = await alance.dataset(tmp_path / "deep")
    (base,) = clone.base_paths.values()
    assert (base.id, base.name, base.is_dataset_root) == (1, "elsewhere", False)
    assert base.path == str(tmp_path / "deep" / "_bases" / "1")
    assert (await clone.to_table(blob_handling="all_binary")).equals(expected)
    await clone.validate()
    theirs = lance.dataset(tmp_path / "deep")
    assert [blob for _, blob in theirs.read_blobs("b", indices=range(6))] == [
        blob for _, blob in await clone.read_blobs("b", indices=range(6))
    ]
    # It is a table like others: it is cleaned up, and cloned again.
    clone = await clone.delete("id = 0")
    await clone.cleanup_old_versions(timedelta(0), delete_unverified=True)
    again = await clone.deep_clone(tmp_path / "again")
    shutil.rmtree(tmp_path / "deep")
    assert (await again.to_table(blob_handling="all_binary")).equals(expected.slice(1))


async def test_managed_objects_below_base_paths_come_along(tmp_path: Path) -> None:
    dataset = await alance.dataset(managed(tmp_path / "from").uri)
    expected = [blob for _, blob in await dataset.read_blobs("b", indices=range(5))]
    await dataset.deep_clone(tmp_path / "deep")
    theirs = lance.dataset(dataset.uri).deep_clone(str(tmp_path / "theirs"), dataset.version)
    shutil.rmtree(tmp_path / "from")
    clone = await alance.dataset(tmp_path / "deep")
    assert [blob for _, blob in await clone.read_blobs("b", indices=range(5))] == expected
    by_pylance = lance.dataset(tmp_path / "deep").read_blobs("b", indices=range(5))
    assert [blob for _, blob in by_pylance] == expected
    assert [blob for _, blob in theirs.read_blobs("b", indices=range(5))] == expected
    ours = await alance.dataset(tmp_path / "theirs")
    assert [blob for _, blob in await ours.read_blobs("b", indices=range(5))] == expected
    paths = {path for path in tmp_path.joinpath("deep").rglob("*.blob") if "data" not in path.parts}
    names = {str(path.relative_to(tmp_path / "deep")) for path in paths}
    assert names == {"_blobs/x.blob", "_bases/1/sub/x.blob"}
    await clone.cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert all(path.exists() for path in paths)


async def test_objects_below_base_paths_go_to_another_store(tmp_path: Path, lab: Lab) -> None:
    (tmp_path / "from").mkdir()
    dataset = await alance.dataset(all_kinds(tmp_path / "from", "t").uri)
    expected = await dataset.to_table(blob_handling="all_binary")
    uri, options = "s3://lab/deep-bases", lab.lance_options()
    await dataset.deep_clone(uri, storage_options=options)
    shutil.rmtree(tmp_path / "from")
    clone = await alance.dataset(uri, storage_options=options)
    assert clone.base_paths[1].path == "s3://lab/deep-bases/_bases/1"
    assert (await clone.to_table(blob_handling="all_binary")).equals(expected)
    theirs = lance.dataset(uri, storage_options=options)
    assert theirs.to_table(["b"], blob_handling="all_binary")["b"].to_pylist() == (
        expected["b"].to_pylist()
    )


async def test_no_uri_names_the_folder_of_a_clone_below_a_prefix(tmp_path: Path) -> None:
    dataset = await alance.dataset(all_kinds(tmp_path, "t").uri)
    store = S3Store("bucket", prefix="some/where", region="us-east-1", skip_signature=True)
    with pytest.raises(UnsupportedError, match="its store has a prefix"):
        await dataset.deep_clone("deep", store=store)


async def test_a_clone_goes_from_store_to_store(table: str, tmp_path: Path, lab: Lab) -> None:
    options = lab.lance_options()
    uri, again = "s3://lab/deep/there", "s3://lab/deep/again"
    present = await (await alance.dataset(table)).deep_clone(uri, storage_options=options)
    assert rows_by_pylance(uri, storage_options=options) == ROWS_WITHOUT_3
    with lab.recording() as recording:
        await present.deep_clone(again)
    assert rows_by_pylance(again, storage_options=options) == ROWS_WITHOUT_3
    copied = len(files_of(table))
    by_op = recording.summary()["by_op"]
    assert by_op["COPY"] == copied  # no bytes of files come by
    assert recording.summary()["get_bytes"] < 4096
    back = await present.deep_clone(str(tmp_path / "back"))
    assert rows_by_pylance(str(tmp_path / "back")) == ROWS_WITHOUT_3
    assert back.version == 3
    memory = await present.deep_clone("t", store=MemoryStore())
    assert (await memory.to_table(["a"]))["a"].to_pylist() == ROWS_WITHOUT_3


async def test_large_files_come_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alance.ops.version.objects.COPY_BYTES", 1000)
    rows = numbers(0, 5000)
    dataset = await alance.write_dataset(rows, tmp_path / "t", max_rows_per_file=700)
    store = MemoryStore()
    async with alance.Session(io_buffer_bytes=2000) as session:
        dataset = await alance.dataset(tmp_path / "t", session=session)
        clone = await dataset.deep_clone("t", store=store)
        assert (await clone.to_table()).equals(rows)


async def test_what_no_store_copies_at_once_comes_by(
    table: str, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alance.ops.refs.files.SERVER_BYTES", 0)
    options, uri = lab.lance_options(), "s3://lab/deep/by-hand"
    present = await (await alance.dataset(table)).deep_clone(uri, storage_options=options)
    with lab.recording() as recording:
        await present.deep_clone(f"{uri}-again")
    assert "COPY" not in recording.summary()["by_op"]
    assert rows_by_pylance(f"{uri}-again", storage_options=options) == ROWS_WITHOUT_3


async def test_a_copy_that_failed_goes_on_where_it_ended(table: str, lab: Lab) -> None:
    options, uri = lab.lance_options(), "s3://lab/deep/broken"
    dataset = await alance.dataset(table)
    missing = f"{table}/{sorted(files_of(table))[-1]}"
    os.rename(missing, missing + ".away")
    with pytest.raises(NotFoundError):
        await dataset.deep_clone(uri, storage_options=options)
    with pytest.raises(alance.TableNotFoundError):
        await alance.dataset(uri, storage_options=options)
    os.rename(missing + ".away", missing)
    with lab.recording() as recording:
        await dataset.deep_clone(uri, storage_options=options)
    assert recording.summary()["by_op"]["PUT"] <= len(files_of(table)) + 2
    assert rows_by_pylance(uri, storage_options=options) == ROWS_WITHOUT_3


async def test_a_cancelled_copy_makes_no_table_and_can_be_made_again(table: str, lab: Lab) -> None:
    options, uri = lab.lance_options(), "s3://lab/deep/cancelled"
    dataset = await alance.dataset(table)
    since = lab.stats()["requests"]
    lab.config(faults=[{"action": "stall"}])
    copying = asyncio.create_task(dataset.deep_clone(uri, storage_options=options))
    await stuck(lab, since)
    copying.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(FREE_S):
            await copying
    lab.calm()
    with pytest.raises(alance.TableNotFoundError):
        await alance.dataset(uri, storage_options=options)
    await dataset.deep_clone(uri, storage_options=options)
    assert rows_by_pylance(uri, storage_options=options) == ROWS_WITHOUT_3


async def test_a_store_that_fails_is_told(table: str, lab: Lab) -> None:
    lab.config(faults=[{"method": "PUT", "action": "status", "status": 403}])
    with pytest.raises(StoreError):
        await (await alance.dataset(table)).deep_clone(
            "s3://lab/deep/failing", storage_options=lab.lance_options()
        )


async def test_wrong_use_of_a_deep_clone_is_refused(table: str, tmp_path: Path) -> None:
    where = str(tmp_path / "clone")
    dataset = await alance.dataset(table)
    for missing in (99, "nope", ("nope", None)):
        with pytest.raises(NotFoundError):
            await dataset.deep_clone(where, missing)
    with pytest.raises(AlreadyExistsError, match="exists already"):
        await dataset.deep_clone(table)
    detached = await alance.commit(dataset, alance.operations.Append(()), detached=True)
    with pytest.raises(InvalidInputError, match="detached"):
        await detached.deep_clone(where)
    file = tmp_path / "other" / max(files_of(table))
    file.parent.mkdir(parents=True)
    file.write_bytes(b"something else")
    with pytest.raises(AlreadyExistsError, match="14 bytes"):
        await dataset.deep_clone(str(tmp_path / "other"))
