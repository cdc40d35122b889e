"""Blobs of version 2 that alance writes: the same as of pylance, and read by both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from lance import Blob, blob_array, blob_field

import alance
from alance import BlobOptions, InvalidInputError
from tests.blobs.blob_tables import (
    OBJECT,
    SMALL,
    check_equal,
    contents,
    elsewhere,
    files_of,
    table_of,
)

if TYPE_CHECKING:
    from pathlib import Path

BLOBS = [b"hello", None, b"", b"x" * 70_000, b"y" * (5 << 20), b"z" * 65_536, b"w" * 65_537, b"e"]
LIMITS = {
    "inline_size_threshold": 10,
    "dedicated_size_threshold": 100,
    "pack_file_size_threshold": 150,
}


@pytest.mark.parametrize("limits", [{}, LIMITS, {"inline_size_threshold": 0}])
async def test_blobs_are_placed_as_pylance_does(tmp_path: Path, limits: dict[str, int]) -> None:
    sizes = [10, 11, 100, 101, 60, 50, 60, 90, 0, 1]
    data = table_of([*BLOBS, *(bytes([n]) * n for n in sizes)], blob_field("b", **limits))
    theirs = lance.write_dataset(data, tmp_path / "theirs", data_storage_version="2.2")
    dataset = await alance.write_dataset(data, tmp_path / "ours")
    await check_equal(tmp_path / "ours", tmp_path / "theirs", "b")
    table = await dataset.to_table(blob_handling="all_binary")
    assert table.column("b").to_pylist() == contents(tmp_path / "theirs")
    # And both go on where the other has been.
    lance.write_dataset(data, tmp_path / "ours", mode="append")
    await (await alance.dataset(str(theirs.uri))).insert(data)
    await check_equal(tmp_path / "ours", tmp_path / "theirs", "b")


async def test_two_columns_share_objects(tmp_path: Path) -> None:
    other = SMALL.with_name("c")
    arrays = [
        blob_array([content * 5, content * 50, content * 200, content * 60])
        for content in (b"b", b"c")
    ]
    data = pa.table(arrays, schema=pa.schema([SMALL, other]))
    lance.write_dataset(data, tmp_path / "theirs", data_storage_version="2.2")
    await alance.write_dataset(data, tmp_path / "ours")
    await check_equal(tmp_path / "ours", tmp_path / "theirs", "b", "c")


async def test_an_object_goes_on_from_batch_to_batch(tmp_path: Path) -> None:
    data = table_of([b"p" * 60] * 7 + [b"d" * 101] * 3)
    parts = data.to_batches(max_chunksize=2)
    reader = pa.RecordBatchReader.from_batches(data.schema, parts)
    lance.write_dataset(reader, tmp_path / "theirs", data_storage_version="2.2")
    await alance.write_dataset(iter(parts), tmp_path / "ours")
    await check_equal(tmp_path / "ours", tmp_path / "theirs", "b")


@pytest.mark.parametrize("shape", ["struct", "list", "list of structs"])
async def test_blobs_inside_of_columns(tmp_path: Path, shape: str) -> None:
    blobs = blob_array([b"a" * 5, b"b" * 70_000, None, b"d" * 60])
    member = pa.array([1, 2, 3, 4])
    struct = pa.StructArray.from_arrays([blobs, member], fields=[SMALL, pa.field("n", pa.int64())])
    items = blobs if shape == "list" else struct
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 3, 4], pa.int32()), items)
    data = pa.table({"x": struct if shape == "struct" else lists})
    lance.write_dataset(data, tmp_path / "theirs", data_storage_version="2.2")
    dataset = await alance.write_dataset(data, tmp_path / "ours")
    columns = ["x.b"] if shape == "struct" else []
    await check_equal(tmp_path / "ours", tmp_path / "theirs", *columns)
    if columns:
        result = await dataset.read_blobs("x.b", indices=[1, 2, 0])
        assert [item for _, item in result] == [b"b" * 70_000, None, b"a" * 5]


async def test_uris_in_base_paths(tmp_path: Path) -> None:
    uri, base = elsewhere(tmp_path)
    first = table_of([b"first"])
    for name in ("ours", "theirs"):
        where = tmp_path / name
        lance.write_dataset(first, where, data_storage_version="2.2", initial_bases=[base])
    data = table_of([uri, Blob.from_uri(uri, 10, 20), b"here", None])
    lance.write_dataset(data, tmp_path / "theirs", mode="append")
    dataset = await alance.write_dataset(data, tmp_path / "ours", mode="append")
    await check_equal(tmp_path / "ours", tmp_path / "theirs", "b")
    blobs = await dataset.read_blobs("b", indices=range(5))
    assert [item for _, item in blobs] == [b"first", OBJECT, OBJECT[10:30], b"here", None]


async def test_uris_outside_of_base_paths(tmp_path: Path) -> None:
    uri, _ = elsewhere(tmp_path)
    data = table_of([uri, Blob.from_uri(uri, 10, 200)])
    with pytest.raises(InvalidInputError, match="in no base path"):
        await alance.write_dataset(data, tmp_path / "ours")
    assert not files_of(tmp_path / "ours")
    for number, options in enumerate(
        ({"allow_external_blob_outside_bases": True}, {"external_blob_mode": "ingest"})
    ):
        ours, theirs = tmp_path / f"ours{number}", tmp_path / f"theirs{number}"
        lance.write_dataset(data, theirs, data_storage_version="2.2", **options)
        await alance.write_dataset(data, ours, blobs=BlobOptions(**options))
        await check_equal(ours, theirs, "b")


async def test_the_size_of_shared_objects_is_an_option(tmp_path: Path) -> None:
    data = table_of([b"a" * 60] * 5, blob_field("b", **LIMITS | {"pack_file_size_threshold": 1000}))
    options = {"blob_pack_file_size_threshold": 150}
    lance.write_dataset(data, tmp_path / "theirs", data_storage_version="2.2", **options)
    await alance.write_dataset(data, tmp_path / "ours", blobs=BlobOptions(**options))
    await check_equal(tmp_path / "ours", tmp_path / "theirs", "b")


async def test_blobs_of_version_1_become_version_2(tmp_path: Path) -> None:
    keys = {"lance-encoding:blob": "true", "lance-encoding:blob-inline-size-threshold": "7"}
    for arrow in (pa.binary(), pa.large_binary()):
        schema = pa.schema([pa.field("b", arrow, metadata=keys)])
        data = pa.table([pa.array([b"x" * 8, b"y", None], arrow)], schema)
        ours, theirs = tmp_path / f"ours{arrow}", tmp_path / f"theirs{arrow}"
        for _ in range(2):
            lance.write_dataset(data, theirs, mode="append", data_storage_version="2.2")
            await alance.write_dataset(data, ours, mode="append")
        await check_equal(ours, theirs, "b")


@pytest.mark.parametrize(
    "array",
    [
        pa.array([b"plain", None], pa.large_binary()),
        pa.array([b"plain", None], pa.binary()),
        pa.array([b"plain", None], pa.binary_view()),
        pa.array(
            [{"data": b"plain", "uri": None}, None],
            pa.struct([("data", pa.large_binary()), ("uri", pa.string())]),
        ),
        blob_array([b"plain", None]),
    ],
)
async def test_what_is_appended(tmp_path: Path, array: pa.Array) -> None:
    lance.write_dataset(table_of([b"x"]), tmp_path / "t", data_storage_version="2.2")
    dataset = await alance.dataset(tmp_path / "t")
    more = pa.table({"id": pa.array([1, 2], pa.int64()), "b": array})
    dataset = await dataset.insert(more)
    await dataset.insert(pa.table({"id": pa.array([3], pa.int64())}))
    assert contents(tmp_path / "t") == [b"x", b"plain", None, None]


async def test_fields_without_pylance(tmp_path: Path) -> None:
    schema = pa.schema([alance.blob_field("b", inline_size_threshold=2)])
    data = pa.table({"b": pa.array([b"x", b"long", None], pa.large_binary())})
    batches = [pa.record_batch(to_batch.columns, names=["b"]) for to_batch in data.to_batches()]
    await alance.write_dataset(batches, tmp_path / "t", schema=schema)
    assert contents(tmp_path / "t") == [b"x", b"long", None]
    kinds = [
        value and value["kind"]
        for value in lance.dataset(tmp_path / "t").to_table()["b"].to_pylist()
    ]
    assert kinds == [0, 1, None]


async def test_streams_and_fragments(tmp_path: Path) -> None:
    values = [b"a" * 5, b"b" * 50, b"c" * 500, None]
    data = table_of(values)
    async with alance.ingest(str(tmp_path / "t"), data.schema) as sink:
        await sink.write(data)
    dataset = await alance.dataset(tmp_path / "t")
    fragments = await alance.write_fragments(data, dataset)
    append = alance.operations.Append(tuple(fragments))
    await alance.commit(dataset, append)
    assert contents(tmp_path / "t") == values * 2


BLOB = pa.struct(
    [
        ("data", pa.large_binary()),
        ("uri", pa.string()),
        ("position", pa.uint64()),
        ("size", pa.uint64()),
    ]
)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "row 0 must have one of"),
        ({"data": b"a", "uri": "file:///x"}, "row 0 must have one of"),
        ({"data": b"a", "position": 1}, "both `position` and `size`"),
        ({"data": b"a", "position": 1, "size": 1}, "has a range and no `uri`"),
        ({"uri": "file:///x", "position": 1, "size": 0}, "a range of no bytes"),
        ({"uri": ""}, "row 0 has an empty `uri`"),
        ({"uri": "/x"}, "expected an absolute URI"),
        ({"uri": "what://x"}, "what://x"),
    ],
)
async def test_rows_with_bad_blobs_are_refused(
    tmp_path: Path, value: dict[str, Any], message: str
) -> None:
    lance.write_dataset(table_of([b"x"]), tmp_path / "t", data_storage_version="2.2")
    dataset = await alance.dataset(tmp_path / "t")
    before = files_of(tmp_path)
    rows = pa.table({"id": pa.array([1], pa.int64()), "b": pa.array([value], BLOB)})
    with pytest.raises(InvalidInputError, match=message):
        await dataset.insert(rows)
    with pytest.raises(InvalidInputError, match="descriptions where blobs are expected"):
        await dataset.insert(await dataset.to_table())
    with pytest.raises(InvalidInputError, match="where blobs are expected"):
        await dataset.insert(pa.table({"id": pa.array([1], pa.int64()), "b": [7]}))
    assert files_of(tmp_path) == before


async def test_bad_versions_and_thresholds_of_blobs_are_refused(tmp_path: Path) -> None:
    for version in ("0.1", "2.0", "2.1"):
        with pytest.raises(alance.AlanceError, match="field 'b'"):
            await alance.write_dataset(
                table_of([b"x"]), tmp_path / "t", data_storage_version=version
            )
    bad = SMALL.with_metadata({"lance-encoding:blob-inline-size-threshold": "many"})
    with pytest.raises(InvalidInputError, match="expected a number of bytes"):
        await alance.write_dataset(table_of([b"x"], bad), tmp_path / "t")
    for wrong in (
        {"external_blob_mode": "copy"},
        {"external_blob_mode": "ingest", "allow_external_blob_outside_bases": True},
        {"blob_pack_file_size_threshold": 0},
    ):
        with pytest.raises(InvalidInputError):
            BlobOptions(**wrong)  # type: ignore[arg-type]
    with pytest.raises(alance.UnsupportedError, match="to single files go those of"):
        async with alance.FileWriter.open(tmp_path / "f.lance", version="2.2") as writer:
            await writer.write(table_of([b"x"]))


async def test_values_of_all_forms_are_those_of_pylance(tmp_path: Path) -> None:
    where, base = elsewhere(tmp_path)
    values = [b"a", bytearray(b"bb"), memoryview(b"ccc"), None, b"", where]

    def of(kind: Any) -> list[Any]:
        parts = [kind.from_bytes(b"d"), kind.empty(), kind.from_uri(where)]
        return [*values, *parts, kind.from_uri(where, 10, 20)]

    ours, theirs = alance.blob_array(of(alance.Blob)), lance.blob_array(of(lance.Blob))
    assert ours.to_pylist() == theirs.storage.cast(ours.type).to_pylist()
    schema = pa.schema([alance.blob_field("b")])
    dataset = await alance.write_dataset(
        pa.table([ours], schema),
        tmp_path / "t",
        blobs=alance.BlobOptions(allow_external_blob_outside_bases=True),
    )
    expected = [b"a", b"bb", b"ccc", None, b"", OBJECT, b"d", b"", OBJECT, OBJECT[10:30]]
    assert [blob for _, blob in await dataset.read_blobs("b", indices=range(10))] == expected
    read = lance.dataset(tmp_path / "t").read_blobs("b", indices=range(10))
    assert [blob for _, blob in read] == expected
    assert base.name == "elsewhere"


@pytest.mark.parametrize(
    "make",
    [
        lambda: alance.Blob(),
        lambda: alance.Blob(b"a", "uri"),
        lambda: alance.Blob(uri=""),
        lambda: alance.Blob(uri="u", position=1),
        lambda: alance.Blob(b"a", position=1, size=2),
        lambda: alance.Blob(uri="u", position=0, size=0),
        lambda: alance.Blob(uri="u", position=-1, size=3),
        lambda: alance.blob_array([1]),
    ],
)
def test_values_that_are_no_blobs(make: Any) -> None:
    with pytest.raises(alance.InvalidInputError):
        make()


PYTHON_VALUES: list[Any] = [
    b"bytes", bytearray(b"array"), memoryview(b"view"), alance.Blob(b"blob"), {"data": b"dict"},
    b"", None,
]  # fmt: skip
CONTENTS = [b"bytes", b"array", b"view", b"blob", b"dict", b"", None]


async def read_values(dataset: alance.Dataset, name: str = "b") -> list[Any]:
    table = await dataset.to_table([name], blob_handling="all_binary")
    values: list[Any] = table[name].to_pylist()
    return values


@pytest.mark.parametrize("of_columns", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("way", ["create", "insert", "append", "ingest", "ingest a schema"])
async def test_python_values_are_taken_wherever_rows_are_written(
    tmp_path: Path, way: str, of_columns: bool
) -> None:
    path = str(tmp_path / "t")
    schema = pa.schema([pa.field("id", pa.int64()), alance.blob_field("b")])
    data: Any = [{"id": number, "b": value} for number, value in enumerate(PYTHON_VALUES)]
    if of_columns:
        data = {"id": list(range(len(PYTHON_VALUES))), "b": PYTHON_VALUES}
    if way == "create":
        await alance.write_dataset(data, path, schema=schema)
    else:
        dataset = await alance.write_dataset(schema.empty_table(), path)
        if way == "insert":
            await dataset.insert(data)
        elif way == "append":
            await alance.write_dataset(data, path, mode="append")
        else:
            arguments = (schema,) if way == "ingest a schema" else ()
            async with alance.ingest(path, *arguments) as sink:
                await sink.write(data)
    dataset = await alance.dataset(path)
    assert await read_values(dataset) == CONTENTS
    theirs = lance.dataset(path).to_table(columns=["b"], blob_handling="all_binary")
    assert theirs["b"].to_pylist() == CONTENTS


async def test_python_values_are_taken_inside_structs_and_lists(tmp_path: Path) -> None:
    blob = alance.blob_field("b")
    fields = [pa.field("s", pa.struct([("n", pa.int8()), blob])), pa.field("l", pa.list_(blob))]
    rows = [{"s": {"n": 1, "b": b"x"}, "l": [b"y", None]}, {"s": {"n": 2}, "l": None}]
    dataset = await alance.write_dataset(rows, tmp_path / "t", schema=pa.schema(fields))
    dataset = await dataset.insert(rows[:1])
    assert await read_values(dataset, "s") == [
        {"n": 1, "b": b"x"}, {"n": 2, "b": None}, {"n": 1, "b": b"x"}
    ]  # fmt: skip
    assert await read_values(dataset, "l") == [[b"y", None], None, [b"y", None]]
    with pytest.raises(InvalidInputError, match="column 'l': blob 7: expected bytes, a URI"):
        await dataset.insert([{"l": [7]}])
