"""Objects with blobs that the caller writes by itself, beside pylance's writers of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import lance
import pyarrow as pa
import pytest
from lance.file import LanceFileSession
from lance.fragment import DataFile

import alance
from alance import (
    BlobDescriptor,
    BlobDescriptorArrayBuilder,
    DatasetFragment,
    FileSession,
    InvalidInputError,
)
from alance import operations as ops
from alance.distributed import create_data_file
from tests.blobs.blob_tables import files_of

if TYPE_CHECKING:
    from pathlib import Path

    from alance.testing.lab import Lab

BLOBS = [b"first", None, b"", b"x" * 70_000, b"last"]
ROWS = pa.table(
    [pa.array([0, 1], pa.int64()), lance.blob_array([b"old", b"older"])],
    pa.schema([pa.field("id", pa.int64()), lance.blob_field("b")]),
)


async def packed_by_each(tmp_path: Path, blobs: pa.Array) -> tuple[Any, Any]:
    """Return the arrays of both libraries' writers, after comparing the writers themselves."""
    ours, theirs = FileSession.open(tmp_path), LanceFileSession(str(tmp_path))
    async with await ours.open_packed_blob_writer("data/ours.lance", 5) as writer:
        await writer.write_blob(b"single")
        await writer.write_blobs(blobs)
        array = await writer.finish_array("b")
    other = theirs.open_packed_blob_writer("data/theirs.lance", 5)
    path = other.path
    other.write_blob(b"single")
    other.write_blobs(blobs)
    expected = other.finish_array("b")
    assert writer.path == path.replace("theirs", "ours")
    assert writer.blob_id == 5
    assert writer.field.equals(other.field, check_metadata=True)
    content = {name: (tmp_path / "data" / name).glob("*") for name in ("ours", "theirs")}
    (our_file,), (their_file,) = content["ours"], content["theirs"]
    assert our_file.name == their_file.name
    assert our_file.read_bytes() == their_file.read_bytes()
    return array, expected


@pytest.mark.parametrize(
    "blobs",
    [
        pa.array(BLOBS, pa.binary()),
        pa.array(BLOBS, pa.large_binary()),
        pa.array(BLOBS, pa.binary_view()),
        pa.array([b"abc", None], pa.binary(3)),
        pa.chunked_array([BLOBS[:2], BLOBS[1:]], pa.binary()),
        pa.array([b"zero", *BLOBS, b"end"], pa.binary()).slice(1, 4),
        pa.array([], pa.binary()),
    ],
    ids=lambda array: str(array.type),
)
async def test_packed_blobs_are_described_as_by_pylance(tmp_path: Path, blobs: pa.Array) -> None:
    ours, theirs = await packed_by_each(tmp_path, blobs)
    assert ours.type == theirs.type
    assert ours.to_pylist() == theirs.to_pylist()


async def test_an_array_of_blobs_of_all_kinds_is_that_of_pylance(tmp_path: Path) -> None:
    files, theirs = FileSession.open(tmp_path), LanceFileSession(str(tmp_path))
    builder, other = BlobDescriptorArrayBuilder("b"), lance.BlobDescriptorArrayBuilder("b")
    async with await files.open_packed_blob_writer("a.lance", 1) as packed:
        for blob in (b"one", b"", b"three"):
            await packed.write_blob(blob)
        descriptors = await packed.finish()
    async with await files.open_dedicated_blob_writer("a.lance", 2) as alone:
        await alone.write(b"in two ")
        await alone.write(b"pieces")
        descriptor = await alone.finish()
    assert descriptors[2] == BlobDescriptor(1, 1, 3, 5)
    assert descriptor == BlobDescriptor(2, 2, 0, 13)
    their_pack = theirs.open_packed_blob_writer("b.lance", 1)
    for blob in (b"one", b"", b"three"):
        their_pack.write_blob(blob)
    their_alone = theirs.open_dedicated_blob_writer("b.lance", 2)
    their_alone.write(b"in two pieces")
    for builds, many, single in (
        (builder, descriptors, descriptor),
        (other, their_pack.finish(), their_alone.finish()),
    ):
        builds.extend(many)
        builds.append_null()
        builds.append(single)
        builds.append_inline(b"inline")
        builds.extend_packed(7, [0, 30], [30, 0])
        builds.append_inline(b"")
        builds.append_dedicated(8, 0)
    assert builder.field.equals(other.field, check_metadata=True)
    ours, expected = builder.finish(), other.finish()
    assert ours.type == expected.type
    assert ours.to_pylist() == expected.to_pylist()
    assert ours.is_null().to_pylist() == expected.is_null().to_pylist()
    assert BlobDescriptorArrayBuilder("x").finish().type == ours.type


async def replaced_by_us(uri: str, options: dict[str, str]) -> pa.Field:
    """Give a table's fragment another file, with blobs beside it, by alance."""
    dataset = await alance.dataset(uri, storage_options=options)
    files = FileSession.open(f"{uri}/data", storage_options=options)
    async with await files.open_packed_blob_writer("new.lance", 1) as packed:
        await packed.write_blobs(pa.array([b"replaced"]))
        builder = BlobDescriptorArrayBuilder("b")
        builder.extend(await packed.finish())
    builder.append_inline(b"inline")
    schema = pa.schema([pa.field("id", pa.int64()), builder.field])
    async with files.open_writer("new.lance", schema) as writer:
        arrays = [pa.array([10, 11], pa.int64()), builder.finish()]
        await writer.write(pa.record_batch(arrays, schema=schema))
    file = await create_data_file(dataset, "new.lance")
    group = ops.DataReplacementGroup(0, file)
    await alance.commit(dataset, ops.DataReplacement((group,)))
    return builder.field


def replaced_by_pylance(uri: str, options: dict[str, str]) -> pa.Field:
    """The same by pylance."""
    dataset = lance.dataset(uri, storage_options=options)
    files = LanceFileSession(f"{uri}/data", storage_options=options)
    packed = files.open_packed_blob_writer("new.lance", 1)
    packed.write_blobs(pa.array([b"replaced"]))
    builder = lance.BlobDescriptorArrayBuilder("b")
    builder.extend(packed.finish())
    builder.append_inline(b"inline")
    schema = pa.schema([pa.field("id", pa.int64()), builder.field])
    with files.open_writer("new.lance", schema=schema, version="2.2") as writer:
        arrays = [pa.array([10, 11], pa.int64()), builder.finish()]
        writer.write_batch(pa.record_batch(arrays, schema=schema))
    group = lance.LanceOperation.DataReplacementGroup(0, DataFile.create(dataset, "new.lance"))
    change = lance.LanceOperation.DataReplacement([group])
    lance.LanceDataset.commit(dataset, change, read_version=1)
    return builder.field


@pytest.mark.parametrize("where", ["local", "s3"])
@pytest.mark.parametrize("writer", ["alance", "pylance"])
async def test_a_file_with_prepared_blobs_is_read_by_both(
    request: pytest.FixtureRequest, tmp_path: Path, where: str, writer: str
) -> None:
    uri, options = str(tmp_path / "table"), {}
    if where == "s3":
        lab: Lab = request.getfixturevalue("lab")
        uri, options = f"s3://lab/prepared-{uuid4().hex}", lab.lance_options()
    lance.write_dataset(ROWS, uri, data_storage_version="2.2", storage_options=options)
    if writer == "alance":
        await replaced_by_us(uri, options)
    else:
        replaced_by_pylance(uri, options)
    theirs = lance.dataset(uri, storage_options=options)
    assert theirs.to_table(["id"])["id"].to_pylist() == [10, 11]
    blobs = [file.readall() for file in theirs.take_blobs("b", indices=[0, 1])]
    assert blobs == [b"replaced", b"inline"]
    ours = await alance.dataset(uri, storage_options=options)
    table = await ours.to_table(blob_handling="all_binary")
    assert table.to_pydict() == {"id": [10, 11], "b": [b"replaced", b"inline"]}
    files = await ours.take_blobs("b", indices=[1, 0])
    assert [await file.readall() for file in files if file] == [b"inline", b"replaced"]


async def test_a_file_becomes_a_fragment(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(ROWS, tmp_path / "t")
    files = FileSession.open(tmp_path / "t" / "data")
    async with await files.open_packed_blob_writer("more.lance", 1) as packed:
        await packed.write_blobs(pa.array(BLOBS))
        array = await packed.finish_array("b")
    schema = pa.schema([packed.field, pa.field("id", pa.int64())])
    async with files.open_writer("more.lance", schema) as writer:
        ids = pa.array(range(len(BLOBS)), pa.int64())
        await writer.write(pa.record_batch([array, ids], schema=schema))
    fragment = await DatasetFragment.create_from_file("more.lance", dataset, 7)
    assert (fragment.id, fragment.physical_rows) == (7, len(BLOBS))
    dataset = await alance.commit(dataset, ops.Append((fragment,)))
    table = await dataset.to_table(blob_handling="all_binary")
    assert table["b"].to_pylist() == [b"old", b"older", *BLOBS]
    theirs = lance.dataset(tmp_path / "t")
    assert theirs.to_table(["id"])["id"].to_pylist() == [0, 1, *range(len(BLOBS))]
    blobs = theirs.read_blobs("b", indices=range(7))
    assert [content for _, content in blobs if content is not None][2:] == [
        blob for blob in BLOBS if blob is not None
    ]
    await dataset.validate()


async def test_an_object_that_is_not_finished_is_not_there(tmp_path: Path) -> None:
    files = FileSession.open(tmp_path)
    packed = await files.open_packed_blob_writer("a.lance", 1)
    with pytest.raises(InvalidInputError, match="after `finish_array`"):
        packed.field  # noqa: B018
    async with packed:
        await packed.write_blob(b"x" * (20 << 20))
    assert await files.list() == []
    assert not files_of(tmp_path)
    with pytest.raises(InvalidInputError, match="has ended"):
        await packed.write_blob(b"x")
    async with await files.open_dedicated_blob_writer("a.lance", 1) as alone:
        assert (await alone.finish()).size == 0
        with pytest.raises(InvalidInputError, match="has ended"):
            await alone.finish()
    assert len(await files.list("a")) == 1


async def test_what_is_asked_wrongly(tmp_path: Path) -> None:
    files = FileSession.open(tmp_path)
    for blob_id in (0, -1, 1 << 32, True):
        with pytest.raises(InvalidInputError, match="blob_id"):
            await files.open_packed_blob_writer("a.lance", blob_id)
    with pytest.raises(InvalidInputError, match=r"ending in '\.lance'"):
        await files.open_dedicated_blob_writer("a", 1)
    async with await files.open_packed_blob_writer("a.lance", 1) as packed:
        with pytest.raises(InvalidInputError, match="expected bytes, found str"):
            await packed.write_blob("text")  # type: ignore[arg-type]
        for payloads in (pa.array([1]), pa.array(["a"]), pa.nulls(2), [b"a"]):
            with pytest.raises(InvalidInputError, match="expected binary values"):
                await packed.write_blobs(payloads)
    builder = BlobDescriptorArrayBuilder("b")
    for offsets, sizes in (([0], []), ([-1], [1]), ([0], [-1])):
        with pytest.raises(InvalidInputError):
            builder.extend_packed(1, offsets, sizes)
    with pytest.raises(InvalidInputError, match="blob_id"):
        builder.append_dedicated(0, 1)
    with pytest.raises(InvalidInputError, match="expected a BlobDescriptor"):
        builder.append(3)  # type: ignore[arg-type]
    builder.finish()
    with pytest.raises(InvalidInputError, match="finished"):
        builder.append_null()


def described(**columns: Any) -> pa.RecordBatch:
    """One row of a blob that has its place, or none."""
    builder = BlobDescriptorArrayBuilder("b")
    (field,) = pa.schema([builder.field])
    row = dict.fromkeys((child.name for child in field.type), None) | columns
    return pa.record_batch([pa.array([row], field.type)], schema=pa.schema([field]))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"kind": 0}, "must have `data`"),
        ({"kind": 1, "data": b"x", "blob_id": 1, "blob_size": 1}, "must have `data`"),
        ({"data": b"x"}, "no `kind`"),
        ({"kind": 3, "uri": "s3://a/b", "blob_size": 1}, "must be of kind"),
        ({"kind": 1, "blob_size": 1, "position": 0}, "no `blob_id`"),
        ({"kind": 2, "blob_id": 1}, "no `blob_size`"),
    ],
)
async def test_descriptions_that_describe_no_blob(
    tmp_path: Path, row: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        async with FileSession.open(tmp_path).open_writer("a.lance") as writer:
            await writer.write(described(**row))
    assert not files_of(tmp_path)


async def test_tables_take_no_blobs_that_have_their_place(tmp_path: Path) -> None:
    row = described(kind=1, blob_id=1, blob_size=1, position=0)
    dataset = await alance.write_dataset(ROWS.select(["b"]), tmp_path / "t")
    with pytest.raises(InvalidInputError):
        await dataset.insert(row)
    with pytest.raises(InvalidInputError, match="single files"):
        await alance.write_dataset(row, tmp_path / "new")


async def test_files_that_the_table_cannot_hold(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(pa.table({"a": [1], "s": [{"x": 1}]}), tmp_path / "t")
    files = FileSession.open(tmp_path / "t" / "data")
    for name, table, message in (
        ("none", pa.table({"b": [1]}), "'b': the table has none"),
        ("type", pa.table({"a": ["1"]}), "'a': string in the file, int64"),
        ("inside", pa.table({"s": [{"y": 1}]}), r"'s\.y'"),
    ):
        async with files.open_writer(f"{name}.lance") as writer:
            await writer.write(table)
        with pytest.raises(InvalidInputError, match=message):
            await create_data_file(dataset, f"{name}.lance")
    with pytest.raises(alance.NotFoundError):
        await DatasetFragment.create_from_file("nothing.lance", dataset)
    for version in ("0.1", "2.0", "2.1", "2.2"):
        async with files.open_writer(f"{version}.lance", version=version) as writer:
            await writer.write(pa.table({"a": [1, 2], "s": [{"x": 1}, {"x": 2}]}))
        if version == "0.1":
            continue
        file = await create_data_file(dataset, f"{version}.lance")
        theirs = DataFile.create(lance.dataset(tmp_path / "t"), f"{version}.lance")
        assert list(file.fields) == theirs.fields
        assert list(file.column_indices) == theirs.column_indices
        assert file.file_size_bytes == theirs.file_size_bytes
        numbers = (theirs.file_major_version, theirs.file_minor_version)
        assert (file.file_major_version, file.file_minor_version) == numbers
