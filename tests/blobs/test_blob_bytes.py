"""Scans that give blobs as bytes, and new values of blob columns, as pylance does both."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from lance import blob_array

import alance
from alance import operations
from alance.errors import InvalidInputError
from tests.blobs.blob_tables import OBJECT, SMALL, all_kinds, contents, elsewhere

if TYPE_CHECKING:
    from pathlib import Path

V1 = {"lance-encoding:blob": "true"}
OLD = pa.field("b", pa.large_binary(), metadata=V1)
LIST = pa.list_(pa.field("item", pa.large_binary(), metadata=V1))
STRUCT = pa.struct([pa.field("x", pa.int64()), OLD, pa.field("in", pa.struct([OLD]))])
STRUCTS = [
    {"x": 1, "b": b"abc", "in": {"b": b"d"}},
    {"x": 2, "b": None, "in": {"b": b"" * 3}},
    {"x": 3, "b": b"e" * 99, "in": {"b": None}},
]
LISTS = [[b"abc", None, b""], [], [b"d" * 99]]


def version_1(version: str) -> pa.Table:
    """Blobs in structs, and in lists of files of 2.0, with nulls where the version has them."""
    nulls = [] if version == "2.0" else [None]
    columns = {"id": pa.array(range(3 + len(nulls))), "s": pa.array(STRUCTS + nulls, STRUCT)}
    if version == "2.0":
        columns["l"] = pa.array(LISTS + nulls, LIST)
    return pa.table(columns)


async def check_bytes(path: Path, **options: Any) -> None:
    """Check that a scan returns what pylance's does, in the type of its projected schema."""
    theirs = lance.dataset(path).scanner(blob_handling="all_binary", **options).to_table()
    scanner = (await alance.dataset(path)).scanner(blob_handling="all_binary", **options)
    ours = await scanner.to_table()
    assert ours.to_pylist() == theirs.to_pylist()
    assert [item.type for item in ours.schema] == [item.type for item in theirs.schema]
    assert ours.schema.equals(scanner.projected_schema, check_metadata=True)
    ours.validate(full=True)


@pytest.mark.parametrize("writer", ["alance", "pylance"])
@pytest.mark.parametrize("version", ["2.0", "2.1"])
async def test_blobs_of_version_1_below_structs_and_lists(
    tmp_path: Path, version: str, writer: str
) -> None:
    path = tmp_path / "t"
    if writer == "pylance":
        lance.write_dataset(version_1(version), path, data_storage_version=version)
    else:
        await alance.write_dataset(version_1(version), path, data_storage_version=version)
    await check_bytes(path)
    await check_bytes(path, columns=["id", "s"], filter="id > 0")
    await check_bytes(path, columns=["s.b", "s.x", "s.in"])
    lance.dataset(path).delete("id = 1")
    await check_bytes(path, batch_size=1)


@pytest.mark.parametrize("writer", ["alance", "pylance"])
@pytest.mark.parametrize("version", ["2.0", "2.1"])
async def test_blobs_of_version_1_are_null_where_nothing_was_written(
    tmp_path: Path, version: Any, writer: str
) -> None:
    """Files of 2.0 have a place that stands for a null, which is no description for users."""
    values = pa.array([b"a", None, b"", None, b"xyz"], pa.large_binary())
    structs = pa.StructArray.from_arrays([values], fields=[OLD])
    schema = pa.schema([pa.field("id", pa.int64()), OLD, pa.field("s", structs.type)])
    table = pa.table([pa.array(range(5)), values, structs], schema)
    if writer == "pylance":
        lance.write_dataset(table, tmp_path / "t", data_storage_version=version)
    else:
        await alance.write_dataset(table, tmp_path / "t", data_storage_version=version)
    dataset = await alance.dataset(tmp_path / "t")
    for name in ("b", "s.b"):
        nulls = await dataset.to_table(["id"], filter=f"{name} IS NULL")
        assert nulls["id"].to_pylist() == [1, 3]
        assert await dataset.count_rows(f"{name} IS NOT NULL") == 3
    descriptions = (await dataset.to_table(["b"]))["b"].to_pylist()
    assert [place and place["size"] for place in descriptions] == [1, None, 0, None, 3]
    blobs = await dataset.take_blobs("b", indices=[0, 1, 2])
    assert [blob and await blob.readall() for blob in blobs] == [b"a", None, b""]
    changed = await dataset.delete("b IS NULL")
    assert (await changed.to_table(["id"]))["id"].to_pylist() == [0, 2, 4]
    await changed.optimize.compact_files(target_rows_per_fragment=10)
    rows = await (await changed.checkout_latest()).to_table(blob_handling="all_binary")
    assert rows["b"].to_pylist() == [b"a", b"", b"xyz"]


async def test_blobs_of_version_2_below_structs_and_lists(tmp_path: Path) -> None:
    path = tmp_path / "t"
    all_kinds(tmp_path, "t", lists=True)
    await check_bytes(path)
    await check_bytes(path, filter="id in (1, 3)")
    await check_bytes(path, columns=["x.b", "l", "id"])
    rows = lance.dataset(path).scanner(blob_handling="all_binary").to_table().to_pylist()
    lance.dataset(path).delete("id = 4")
    del rows[4]
    dataset = await alance.dataset(path)
    for options in ({}, {"batch_size": 1}, {"filter": "id != 4"}):
        table = await dataset.to_table(blob_handling="all_binary", **options)
        assert table.to_pylist() == rows


async def test_blobs_that_alance_has_written_below_structs_and_lists(tmp_path: Path) -> None:
    all_kinds(tmp_path, "source", lists=True)
    await check_bytes(tmp_path / "source")
    data = pa.table({"id": range(4), "s": pa.array([*STRUCTS, None], STRUCT)})
    await alance.write_dataset(data, tmp_path / "t", data_storage_version="2.2")
    await check_bytes(tmp_path / "t")


def twins(tmp_path: Path) -> tuple[Path, Path]:
    all_kinds(tmp_path, "ours")
    shutil.copytree(tmp_path / "ours", tmp_path / "theirs")
    return tmp_path / "ours", tmp_path / "theirs"


async def update_columns(path: Path, fragment_id: int, data: pa.Table) -> alance.Dataset:
    dataset = await alance.dataset(path)
    record, fields, offsets = await dataset.fragment(fragment_id).update_columns(data, "id")
    update = operations.Update(
        updated_fragments=(record,),
        fields_modified=fields,
        update_mode=1,
        updated_fragment_offset_bitmaps={fragment_id: offsets},
    )
    return await alance.commit(dataset, update)


async def test_new_values_of_blobs_beside_those_that_are_there(tmp_path: Path) -> None:
    ours, theirs = twins(tmp_path)
    field = SMALL.with_name("b")
    arrays = [pa.array([1, 3, 77]), blob_array([b"N" * 60, b"M" * 300, b"of no row"])]
    data = pa.table(arrays, schema=pa.schema([pa.field("id", pa.int64()), field]))
    for fragment_id in (0, 1):
        their_table = lance.dataset(theirs)
        record, fields = their_table.get_fragment(fragment_id).update_columns(data, "id", "id")
        change = lance.LanceOperation.Update(
            updated_fragments=[record], fields_modified=fields, update_mode="rewrite_columns"
        )
        lance.LanceDataset.commit(str(theirs), change, read_version=their_table.version)
        await update_columns(ours, fragment_id, data)
    expected = [b"a" * 5, b"N" * 60, b"c" * 200, b"M" * 300, OBJECT, OBJECT[10:30]]
    assert contents(ours) == expected
    assert contents(theirs) == expected
    assert contents(ours, "x.b") == contents(theirs, "x.b")
    await check_bytes(ours)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([b"new", None], pa.large_binary()),
        pa.array([b"new", None], pa.binary()),
        pa.array([{"data": b"new", "uri": None}, None]),
    ],
    ids=lambda values: str(values.type),
)
async def test_new_values_of_blobs_in_each_form(tmp_path: Path, values: pa.Array) -> None:
    ours, _ = twins(tmp_path)
    values = (
        values
        if values.type.num_fields == 0
        else values.cast(pa.struct([("data", pa.large_binary()), ("uri", pa.string())]))
    )
    await update_columns(ours, 2, pa.table({"id": [4, 5], "b": values}))
    assert contents(ours)[4:] == [b"new", None]


async def test_uris_as_new_values_of_blobs(tmp_path: Path) -> None:
    ours, _ = twins(tmp_path)
    where, _ = elsewhere(tmp_path)
    data = pa.table(
        [pa.array([4]), blob_array([where])],
        schema=pa.schema([pa.field("id", pa.int64()), SMALL.with_name("b")]),
    )
    await update_columns(ours, 2, data)
    assert contents(ours)[4:] == [OBJECT, OBJECT[10:30]]
    outside = tmp_path / "outside.bin"
    outside.write_bytes(b"x")
    data = data.set_column(1, data.schema.field(1), blob_array([f"file://{outside}"]))
    with pytest.raises(InvalidInputError, match="base path"):
        await update_columns(ours, 2, data)


async def test_new_values_of_structs_with_blobs(tmp_path: Path) -> None:
    ours, _ = twins(tmp_path)
    inside = pa.StructArray.from_arrays(
        [blob_array([b"deep", None]), pa.array([70, 80])],
        fields=[SMALL, pa.field("n", pa.int64())],
    )
    before = contents(ours, "x.b")
    await update_columns(ours, 1, pa.table({"id": [2, 9], "x": inside}))
    assert contents(ours, "x.b") == [*before[:2], b"deep", *before[3:]]
    with pytest.raises(InvalidInputError, match="column 'b': int64 where"):
        await update_columns(ours, 1, pa.table({"id": [2], "b": [5]}))


async def test_new_values_of_blobs_of_version_1(tmp_path: Path) -> None:
    path = tmp_path / "t"
    data = version_1("2.1")
    await alance.write_dataset(data, path, data_storage_version="2.1")
    changed = pa.table({"id": [1], "s": pa.array([STRUCTS[0]], STRUCT)})
    await update_columns(path, 0, changed)
    await check_bytes(path)
    table = lance.dataset(path).scanner(blob_handling="all_binary").to_table()
    assert table["s"].to_pylist() == [STRUCTS[0], STRUCTS[0], STRUCTS[2], None]
