"""Blobs that are parts of objects which the table keeps, written by either and read by both."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from lance import BlobDescriptorArrayBuilder, DatasetBasePath

import alance
from alance import CorruptFileError, InvalidInputError

if TYPE_CHECKING:
    from pathlib import Path

CONTENT = bytes(range(200))


def managed(folder: Path, *more: tuple[str, int, int]) -> Any:
    """A table whose blobs lie in objects of its own and of a base path, and in its file."""
    base = folder / "base"
    for place in (folder / "t" / "_blobs", base / "sub"):
        place.mkdir(parents=True)
        (place / "x.blob").write_bytes(CONTENT)
    builder = BlobDescriptorArrayBuilder("b")
    for reference in (("_blobs/x.blob", 3, 10), ("_blobs/x.blob", 0, 0), *more):
        builder.append_managed(*reference)
    builder.append_managed("sub/x.blob", 100, 4, base_id=1)
    builder.append_null()
    builder.append_inline(b"inline")
    blobs = builder.finish()
    schema = pa.schema([pa.field("id", pa.int64()), builder.field], {"lance.blob.managed": "true"})
    return lance.write_dataset(
        pa.table([pa.array(range(len(blobs)), pa.int64()), blobs], schema),
        folder / "t",
        data_storage_version="2.2",
        initial_bases=[DatasetBasePath(f"file://{base}", name="base")],
    )


async def test_references_are_read_as_pylance_reads_them(tmp_path: Path) -> None:
    theirs = managed(tmp_path)
    theirs.shallow_clone(tmp_path / "clone", reference=1)
    rows = range(5)
    for name in ("t", "clone"):
        theirs = lance.dataset(tmp_path / name)
        ours = await alance.dataset(tmp_path / name)
        expected = theirs.read_blobs("b", indices=rows)
        assert [blob for _, blob in expected] == [
            CONTENT[3:13],
            b"",
            CONTENT[100:104],
            None,
            b"inline",
        ]
        assert await ours.read_blobs("b", indices=rows) == expected
        assert (await ours.to_table()).to_pylist() == theirs.to_table().to_pylist()
        table = await ours.to_table(blob_handling="all_binary")
        assert table["b"].to_pylist() == [blob for _, blob in expected]
        files = (await ours.to_pandas())["b"]
        assert [file and await file.readall() for file in files] == table["b"].to_pylist()


@pytest.mark.parametrize("writer", ["alance", "pylance"])
async def test_references_that_either_has_written(tmp_path: Path, writer: str) -> None:
    """The same rows by each; then rows beside them, changes, and a compaction, read by both."""
    managed(tmp_path)
    kind = alance.BlobDescriptorArrayBuilder if writer == "alance" else BlobDescriptorArrayBuilder
    builder = kind("b")
    builder.append_managed("_blobs/x.blob", 20, 5)
    builder.append_managed("sub/x.blob", 7, 3, base_id=1)
    builder.append_inline(b"new")
    schema = pa.schema([pa.field("id", pa.int64()), builder.field])
    data = pa.table([pa.array([10, 11, 12], pa.int64()), builder.finish()], schema)
    if writer == "alance":
        await (await alance.dataset(tmp_path / "t")).insert(data)
    else:
        lance.write_dataset(data, tmp_path / "t", mode="append")
    theirs, ours = lance.dataset(tmp_path / "t"), await alance.dataset(tmp_path / "t")
    places = [
        (place["kind"], place["size"]) for place in theirs.to_table()["b"].to_pylist() if place
    ]
    assert places == [(4, 10), (4, 0), (5, 4), (0, 6), (4, 5), (5, 3), (0, 3)]
    expected = [
        CONTENT[3:13],
        b"",
        CONTENT[100:104],
        None,
        b"inline",
        CONTENT[20:25],
        CONTENT[7:10],
        b"new",
    ]
    assert [blob for _, blob in await ours.read_blobs("b", indices=range(8))] == expected
    assert [blob for _, blob in theirs.read_blobs("b", indices=range(8))] == expected
    # Rows that are rewritten have blobs of their own.
    ours = await ours.update({"id": "id + 100"}, where="id in (0, 11)")
    ours = await ours.insert(pa.table({"id": [13], "b": pa.array([b"plain"], pa.large_binary())}))
    ours = await ours.delete("id = 12")
    kinds = {row["id"]: row["b"]["kind"] for row in (await ours.to_table()).to_pylist() if row["b"]}
    ours = await ours.optimize.compact_files()
    # Compaction keeps references, as pylance does.
    assert kinds == {
        row["id"]: row["b"]["kind"] for row in (await ours.to_table()).to_pylist() if row["b"]
    }
    assert {kinds[1], kinds[2], kinds[10]} == {4, 5}
    copy = await ours.deep_clone(tmp_path / "copy")
    assert await copy.to_table(blob_handling="all_binary") == (
        await ours.to_table(blob_handling="all_binary")
    )
    rows = {
        row["id"]: row["b"] for row in (await ours.to_table(blob_handling="all_binary")).to_pylist()
    }
    after = dict(zip((100, 1, 2, 3, 4, 10, 111), expected, strict=False)) | {13: b"plain"}
    assert rows == after
    theirs = lance.dataset(tmp_path / "t")
    theirs.validate()
    ids = theirs.to_table(["id"])["id"].to_pylist()
    assert (
        dict(zip(ids, (b for _, b in theirs.read_blobs("b", indices=range(8))), strict=True))
        == after
    )
    await ours.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert (tmp_path / "t" / "_blobs" / "x.blob").exists()


async def test_a_new_table_of_references(tmp_path: Path) -> None:
    (tmp_path / "t" / "_blobs").mkdir(parents=True)
    (tmp_path / "t" / "_blobs" / "x.blob").write_bytes(CONTENT)
    builder = alance.BlobDescriptorArrayBuilder("b")
    builder.append_managed("_blobs/x.blob", 3, 10)
    data = pa.table([builder.finish()], pa.schema([builder.field]))
    with pytest.raises(InvalidInputError, match=r"lance\.blob\.managed"):
        await alance.write_dataset(data, tmp_path / "t")
    data = data.replace_schema_metadata({"lance.blob.managed": "true"})
    dataset = await alance.write_dataset(data, tmp_path / "t")
    theirs = lance.dataset(tmp_path / "t")
    assert theirs.read_blobs("b", indices=[0]) == [(0, CONTENT[3:13])]
    assert await dataset.read_blobs("b", indices=[0]) == [(0, CONTENT[3:13])]
    clone = await dataset.shallow_clone(tmp_path / "clone")
    assert await clone.read_blobs("b", indices=[0]) == [(0, CONTENT[3:13])]
    assert lance.dataset(tmp_path / "clone").read_blobs("b", indices=[0]) == [(0, CONTENT[3:13])]
    dataset = await dataset.insert(data)
    dataset = await dataset.optimize.compact_files()  # references stay
    assert [row["b"]["kind"] for row in (await dataset.to_table()).to_pylist()] == [4, 4]
    copy = await dataset.deep_clone(tmp_path / "copy")
    (tmp_path / "clone" / "_blobs").mkdir()
    (tmp_path / "clone" / "_blobs" / "x.blob").write_bytes(CONTENT)
    again = await (await clone.insert(data)).optimize.compact_files()
    assert [row["b"]["kind"] for row in (await again.to_table()).to_pylist()] == [5, 4]
    for number, place in enumerate((copy, again)):
        assert [blob for _, blob in await place.read_blobs("b", indices=[0, 1])] == [
            CONTENT[3:13]
        ] * 2, number
    (tmp_path / "t").rename(tmp_path / "away")
    theirs = lance.dataset(tmp_path / "copy")
    assert [blob for _, blob in theirs.read_blobs("b", indices=[0, 1])] == [CONTENT[3:13]] * 2
    (tmp_path / "away").rename(tmp_path / "t")
    lance.write_dataset(data, tmp_path / "theirs", data_storage_version="2.2")
    heads = [
        (await alance.dataset(tmp_path / name))._snapshot.manifest.message
        for name in ("t", "theirs")
    ]
    assert heads[0].reader_feature_flags == heads[1].reader_feature_flags == 16384
    assert list(heads[0].fields) == list(heads[1].fields)
    assert heads[0].schema_metadata == heads[1].schema_metadata
    dataset = await dataset.update_schema_metadata({"lance.blob.managed": None})
    assert dataset._snapshot.manifest.message.reader_feature_flags == 16384  # for good


WRONG = ["/a", "s3://a/b", "", "a/../b", "./a", "a//b", "a/", "a\\b"]


def test_paths_that_pylance_refuses_and_takes() -> None:
    for kind in (alance.BlobDescriptorArrayBuilder, BlobDescriptorArrayBuilder):
        for path in WRONG:
            with pytest.raises(ValueError, match="path"):
                kind("b").append_managed(path, 0, 1)
        builder = kind("b")
        for path in ("a", "a/b c", "a:b", "a%20b", "grün"):
            builder.append_managed(path, 5, 1)
        builder.append_managed("a", 0, 0, base_id=3)
        assert len(builder.finish()) == 6
    ours, theirs = alance.BlobDescriptorArrayBuilder("b"), BlobDescriptorArrayBuilder("b")
    for builder in (ours, theirs):
        builder.append_managed("a/b", 5, 1)
        builder.append_managed("a/b", 5, 1, base_id=3)
        builder.append_null()
    assert ours.field == theirs.field
    assert ours.finish().equals(theirs.finish())


async def test_base_paths_that_are_not_there(tmp_path: Path) -> None:
    managed(tmp_path)
    builder = alance.BlobDescriptorArrayBuilder("b")
    builder.append_managed("x", 0, 1, base_id=9)
    dataset = await alance.dataset(tmp_path / "t")
    data = pa.table([builder.finish()], pa.schema([builder.field]))
    with pytest.raises(InvalidInputError, match="base path 9"):
        await dataset.insert(data)


async def test_objects_that_are_not_there(tmp_path: Path) -> None:
    managed(tmp_path, ("_blobs/none.blob", 0, 5), ("_blobs/x.blob", 190, 20))
    dataset = await alance.dataset(tmp_path / "t")
    for row in (2, 3):
        with pytest.raises((alance.NotFoundError, CorruptFileError), match="blob"):
            await dataset.read_blobs("b", indices=[row])


OBJECTS = {"a", "b", "sub/c", "gone", "tagged", "branch", "unused", "sub/unused"}


def references(*paths: str) -> pa.Table:
    """A table that names an object a row."""
    builder = BlobDescriptorArrayBuilder("b")
    for path in paths:
        builder.append_managed(path, 0, 5)
    blobs, ids = builder.finish(), pa.array([path.rpartition("/")[2] for path in paths])
    schema = pa.schema([pa.field("id", pa.string()), builder.field])
    return pa.table([ids, blobs], schema.with_metadata({"lance.blob.managed": "true"}))


def with_objects(place: Path, age_days: int) -> None:
    """A table of which old versions, a tag and a branch name objects that the newest does not."""
    names = [f"_blobs/{name}.blob" for name in OBJECTS]
    for name in [*names, "_blobs/other.txt", "_blobs/x#1.txt", "kept/d.blob", "kept/unused.blob"]:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(CONTENT)
        result = time.time() - 86400 * age_days
        os.utime(place / name, (result, result))
    files = [f"_blobs/{name}.blob" for name in ("a", "b", "sub/c", "gone", "tagged", "branch")]
    theirs = lance.write_dataset(references(*files[:4]), place, data_storage_version="2.2")
    theirs = lance.write_dataset(references("kept/d.blob", files[4]), place, mode="append")
    theirs.tags.create("first", theirs.version)
    theirs.delete("id = 'gone.blob'")
    theirs = lance.dataset(place)
    theirs.tags.update("first", theirs.version)
    theirs.delete("id = 'tagged.blob'")
    theirs = lance.write_dataset(references(files[5]), place, mode="append")
    theirs.create_branch("side")
    theirs.delete("id = 'branch.blob'")
    theirs = lance.write_dataset(references("_blobs/a.blob"), place, mode="append")


@pytest.mark.parametrize(("age_days", "delete_unverified"), [(1, False), (1, True), (8, False)])
async def test_cleanup_removes_what_pylance_removes(
    tmp_path: Path, age_days: int, delete_unverified: bool
) -> None:
    remaining, removed = [], []
    old = {"older_than": timedelta(0), "error_if_tagged_old_versions": False}
    for name in ("ours", "theirs"):
        place = tmp_path / name
        with_objects(place, age_days)
        stats: Any
        if name == "theirs":
            theirs = lance.dataset(place)
            stats = theirs.cleanup_old_versions(**old, delete_unverified=delete_unverified)
        else:
            ours = await alance.dataset(place)
            planned = await ours.cleanup_old_versions(
                **old, delete_unverified=delete_unverified, dry_run=True
            )
            stats = await ours.cleanup_old_versions(**old, delete_unverified=delete_unverified)
            assert planned == stats
        removed.append((stats.old_versions, stats.data_files_removed))
        folders = (place / "_blobs", place / "kept")
        files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
        remaining.append({str(path.relative_to(place)) for path in files})
    assert remaining[0] == remaining[1]
    assert removed[0] == removed[1]
    gone = {"gone"} | ({"unused", "sub/unused"} if delete_unverified or age_days > 7 else set())
    named = {f"_blobs/{name}.blob" for name in OBJECTS - gone}
    assert remaining[0] == named | {
        "_blobs/other.txt",
        "_blobs/x#1.txt",
        "kept/d.blob",
        "kept/unused.blob",
    }
    for table in (await alance.dataset(tmp_path / "ours"), await ours.checkout_branch("side")):
        contents = [b for _, b in await table.read_blobs("b", indices=range(4))]
        assert contents == [CONTENT[:5]] * 4


@pytest.mark.parametrize("writer", ["insert", "delete", "by_uri"])
async def test_cleanup_after_a_commit_removes_what_pylance_removes(
    tmp_path: Path, writer: str
) -> None:
    remaining = []
    for name in ("ours", "theirs"):
        place = tmp_path / name
        with_objects(place, 8)
        config = {"lance.auto_cleanup.interval": "9", "lance.auto_cleanup.older_than": "0s"}
        theirs = lance.dataset(place)
        theirs.tags.delete("first")  # or pylance logs that it cleans nothing up
        theirs.update_config(config)  # version 8
        assert lance.dataset(place).version == 8
        rows = references("_blobs/b.blob")
        if name == "ours":
            ours = await alance.dataset(place)
            if writer == "insert":
                ours = await ours.insert(rows)
            elif writer == "delete":
                ours = await ours.delete("id = 'none'")
            else:
                ours = await alance.write_dataset(rows, place, mode="append")
            assert ours.version == 9
        elif writer == "delete":
            lance.dataset(place).delete("id = 'none'")
        else:
            lance.write_dataset(rows, place, mode="append")
        files = [path for path in place.glob("_blobs/**/*") if path.is_file()]
        remaining.append({str(path.relative_to(place)) for path in files})
    assert remaining[0] == remaining[1]
    assert not {"_blobs/gone.blob", "_blobs/tagged.blob", "_blobs/unused.blob"} & remaining[0]
    contents = [b for _, b in await ours.read_blobs("b", indices=range(4))]
    assert contents == [CONTENT[:5]] * 4


async def test_cleanup_scans_each_fragment_once(tmp_path: Path) -> None:
    from alance.ops.read.managed import ObjectReader, objects_by_fragment

    with_objects(tmp_path / "t", 1)
    dataset = await alance.dataset(tmp_path / "t")
    reader = ObjectReader(dataset.session, dataset._snapshot.table)
    seen = []
    for version in range(1, dataset.version + 1):
        snapshot = (await dataset.checkout_version(version))._snapshot
        seen.append(await reader(snapshot.manifest))
        ids = [fragment.id for fragment in snapshot.manifest.fragments]
        result = (await objects_by_fragment(snapshot, ids)).values()
        assert seen[-1] == {location for named in result for location in named.values()}
    assert [len(objects) for objects in seen] == [4, 6, 5, 4, 5, 4, 4]
    assert len(reader._known) == 6  # four fragments, two of which have a deletion file later


async def test_a_commit_during_cleanup_keeps_its_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects stay if a version made after the versions were read names them."""
    from alance.ops.cleanup import cleanup

    with_objects(tmp_path / "t", 8)
    dataset = await alance.dataset(tmp_path / "t")
    plan = cleanup._plan

    def commit_first(*arguments: Any) -> Any:
        lance.write_dataset(references("_blobs/unused.blob"), tmp_path / "t", mode="append")
        return plan(*arguments)

    monkeypatch.setattr(cleanup, "_plan", commit_first)
    await dataset.cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
    assert (tmp_path / "t" / "_blobs" / "unused.blob").exists()
    assert not (tmp_path / "t" / "_blobs" / "sub" / "unused.blob").exists()
