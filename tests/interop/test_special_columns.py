"""JSON, blobs, extension types, metadata: columns that are more than their storage."""

from __future__ import annotations

import json
import random
import uuid
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import alance
from tests.reference.compare import assert_equal_rows

if TYPE_CHECKING:
    from pathlib import Path


async def check(uri: str, columns: list[str] | None = None) -> alance.Dataset:
    theirs, ours = lance.dataset(uri), await alance.dataset(uri)
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    assert_equal_rows(await ours.to_table(columns), theirs.to_table(columns))
    rows = random.Random(3).choices(range(theirs.count_rows()), k=10)
    assert_equal_rows(await ours.take(rows, columns), theirs.take(rows, columns))
    return ours


@pytest.mark.parametrize("version", ["2.1", "2.2"])
async def test_json_columns_are_read_as_by_pylance(tmp_path: Path, version: str) -> None:
    documents = [
        '{"a": 1, "b": [1.5, null, true, "x\\ny"]}',
        None,
        "[]",
        '"text"',
        "-12345678901",
        "1e300",
        '{"nested": {"deep": [[], {}]}, "\\u00e9": "\\u2028"}',
    ] * 30
    uri = str(tmp_path / "table")
    table = pa.table(
        {
            "j": pa.array(documents, pa.json_()),
            "n": pa.array(range(len(documents))),
        }
    )
    lance.write_dataset(table, uri, data_storage_version=version)
    await check(uri)


NUMBERS = st.integers(-(1 << 63), (1 << 64) - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=8,
)


@settings(max_examples=15)
@given(values=st.lists(VALUES, min_size=1, max_size=60))
async def test_any_json_is_read_as_by_pylance(
    tmp_path_factory: pytest.TempPathFactory, values: list[object]
) -> None:
    uri = str(tmp_path_factory.mktemp("json") / "table")
    texts = [json.dumps(value) for value in values]
    lance.write_dataset(pa.table({"j": pa.array(texts, pa.json_())}), uri)
    ours = await alance.dataset(uri)
    assert_equal_rows(await ours.to_table(), lance.dataset(uri).to_table())


@pytest.mark.parametrize("version", ["2.1", "2.2"])
async def test_extension_types_and_metadata(tmp_path: Path, version: str) -> None:
    ids = [None if n % 5 == 0 else uuid.UUID(int=n).bytes for n in range(50)]
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array(ids, pa.binary(16)))
    half = pa.array([b"\x80\x3f", None] * 25, pa.binary(2))
    brain = pa.field("h", half.type, metadata={"ARROW:extension:name": "lance.bfloat16"})
    named = pa.field("n", pa.int32(), nullable=False, metadata={"unit": "metre"})
    nested = pa.StructArray.from_arrays([uuids], ["u"])
    schema = pa.schema(
        [pa.field("u", pa.uuid()), brain, named, pa.field("s", nested.type)],
        metadata={"origin": "a test"},
    )
    table = pa.table([uuids, half, pa.array(range(50), pa.int32()), nested], schema=schema)
    uri = str(tmp_path / "table")
    lance.write_dataset(table, uri, data_storage_version=version)
    await check(uri)


BLOBS = [b"hello", None, b"", b"x" * 100, b"y" * 70_000, b"z" * 300_000]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
async def test_blob_columns_are_read_as_by_pylance(tmp_path: Path, version: str) -> None:
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    table = pa.table(
        [pa.array(BLOBS, pa.large_binary()), pa.array(range(len(BLOBS)))],
        schema=pa.schema([field, pa.field("n", pa.int64())]),
    )
    uri = str(tmp_path / "table")
    lance.write_dataset(table, uri, data_storage_version=version)
    ours = await check(uri)
    theirs = lance.dataset(uri)
    for rows in ([0], [4, 2, 0], [5, 3, 5]):
        blobs = await ours.take_blobs("b", indices=rows)
        expected = theirs.take_blobs("b", indices=rows)
        assert [await item.readall() for item in blobs] == [item.readall() for item in expected]
        assert [item.size for item in blobs] == [item.size() for item in expected]
    everything = await ours.to_table(blob_handling="all_binary")
    assert everything.column("b").to_pylist() == BLOBS


async def test_a_blob_is_a_file(tmp_path: Path) -> None:
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    content = bytes(range(256)) * 500
    table = pa.table([pa.array([content], pa.large_binary())], schema=pa.schema([field]))
    uri = str(tmp_path / "table")
    lance.write_dataset(table, uri, data_storage_version="2.1")
    dataset = await alance.dataset(uri)
    (blob,) = await dataset.take_blobs("b", indices=[0])
    async with blob:
        assert blob.size == len(content)
        assert await blob.read(10) == content[:10]
        assert blob.seek(-5, 2) == len(content) - 5
        assert await blob.read(100) == content[-5:]
        assert await blob.read(1) == b""
        assert blob.seek(1000) == 1000
        assert await blob.read(3) == content[1000:1003]
        assert blob.tell() == 1003
        with pytest.raises(alance.InvalidInputError):
            blob.seek(-1)
    with pytest.raises(alance.InvalidInputError, match="closed"):
        await blob.read()
    with pytest.raises(alance.InvalidInputError, match="one of"):
        await dataset.take_blobs("b")


async def test_blobs_of_every_kind_of_place(tmp_path: Path) -> None:
    """Inline, packed, in files of their own."""
    sizes = [0, 10, 65_536, 65_537, 1 << 20, (4 << 20) + 1]
    values = [random.Random(size).randbytes(size) for size in sizes] + [None]
    table = pa.table({"b": lance.blob_array(values)})
    uri = str(tmp_path / "table")
    lance.write_dataset(table, uri, data_storage_version="2.2")
    ours = await check(uri)
    blobs = await ours.take_blobs("b", indices=list(range(len(sizes))))
    assert [await item.readall() for item in blobs] == values[:-1]
