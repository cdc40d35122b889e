"""Files of 0.1 by their bytes: test vectors of the format's description."""

from __future__ import annotations

import decimal
import struct
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.file.open.files import open_file
from alance.file.rows.fragment import FileSource, open_fragment
from alance.format.schema import Schema
from alance.format.v0_1.encode import BatchFileBuilder
from alance.format.v0_1.metadata import BatchContainer
from alance.format.v0_1.statistics import BatchStatistics, read_statistics
from tests.reference.driven import Nothing, run

if TYPE_CHECKING:
    from pathlib import Path


LISTS = bytes.fromhex(
    "0000000002000000020000000200000005000000010000000200000003000000040000000500000000000000"
    "00000000050000000000000014000000000000000500000000000000500000000a1812016120ffffffffffff"
    "ffffff012a046c697374300138010a1312046974656d18012a05696e7433323001380118016a0f0a056c616e"
    "6365120631342e302e327a0c0a056c616e63651203302e310800000008481202000418289c00000000000000"
    "000002004c414e43"
)
DICTIONARY = bytes.fromhex(
    "0001010000000000000000000400000000000000666f6f626172140000000000000017000000000000001a00"
    "000000000000530000000a3012016120ffffffffffffffffff012a16646963743a737472696e673a696e7438"
    "3a66616c7365300138034204081a100218016a0f0a056c616e6365120631342e302e327a0c0a056c616e6365"
    "1203302e310800000008321202000418048900000000000000000002004c414e43"
)
BATCHES = bytes.fromhex(
    "0102036103000000000000000400000000000000040000000000000004000000000000000405656667260000"
    "0000000000280000000000000029000000000000000000000000000000030000000000000024000000000000"
    "0002000000000000000400000000000000030000000000000029000000000000000200000000000000000000"
    "0000000000000000000000000001040305010000000000000000000000000000006566a500000000000000a5"
    "00000000000000a7000000000000006167bf00000000000000c000000000000000c100000000000000000000"
    "0000000000000000000000000081000000000000000200000000000000910000000000000002000000000000"
    "0093000000000000000200000000000000000000000000000000000000000000009500000000000000020000"
    "0000000000a7000000000000000200000000000000c1000000000000000200000000000000590000000a1812"
    "017820ffffffffffffffffff012a04696e7438300138010a1c120173180120ffffffffffffffffff012a0673"
    "7472696e673001380218016a0f0a056c616e6365120631342e302e327a0c0a056c616e63651203302e31ec00"
    "000008d902120300030518412adf010a1612013020ffffffffffffffffff012a067374727563740a17120a6e"
    "756c6c5f636f756e7418012a05696e74363438010a1712096d696e5f76616c756518022a04696e7438300138"
    "010a1712096d61785f76616c756518032a04696e7438300138010a18120131180420ffffffffffffffffff01"
    "2a067374727563740a19120a6e756c6c5f636f756e74180520042a05696e74363438010a1b12096d696e5f76"
    "616c7565180620042a06737472696e67300138020a1b12096d61785f76616c7565180720042a06737472696e"
    "67300138021208000102030405060718d901b601000000000000000002004c414e43"
)
OLD_STRINGS = bytes.fromhex(
    "6165660000000000000000010000000000000001000000000000000100000000000000030000000000000003"
    "0000000000000004000000000000001e0000000a1a12016120ffffffffffffffffff012a06737472696e6730"
    "013802180108000000083b12020004182b5d00000000000000000001004c414e43"
)


def opened(content: bytes) -> BatchContainer:
    output = run(open_file("file", len(content), Nothing()), content)
    assert isinstance(output, BatchContainer)
    return output


def rows(content: bytes) -> list[dict[str, Any]]:
    """Return the rows of a file, read with the file's own schema."""
    container = opened(content)
    assert container.schema is not None
    source = FileSource("file", len(content), {path.id: 0 for path in container.schema.walk()})
    fragment = run(
        open_fragment(container.schema, [source], container.num_rows, Nothing()), content
    )
    batch = run(fragment.read(0, container.num_rows, Nothing()), content).decode()
    single = np.arange(container.num_rows - 1, -1, -2)[::-1]
    decoded = run(fragment.take(single, Nothing()), content).decode()
    assert decoded.to_pylist() == batch.take(single).to_pylist()
    return batch.to_pylist()


def file_of(table: pa.Table, group: int) -> bytes:
    """The table as we write it, in batches of some rows."""
    builder = BatchFileBuilder(Schema.from_arrow(table.schema))
    parts = []
    for start in range(0, table.num_rows, group):
        part = table.slice(start, group).combine_chunks()
        parts += builder.add_batch([column.chunk(0) for column in part.columns])
    return b"".join(bytes(part) for part in [*parts, *builder.finish()])


def statistics(content: bytes, field: int) -> BatchStatistics | None:
    return run(read_statistics(opened(content), field), content)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (LISTS, [{"a": [1, 2]}, {"a": []}, {"a": []}, {"a": [3, 4, 5]}]),
        (DICTIONARY, [{"d": "foo"}, {"d": "bar"}, {"d": "bar"}, {"d": "foo"}]),
        (
            BATCHES,
            [
                {"x": 1, "s": "a"},
                {"x": 2, "s": None},
                {"x": 3, "s": None},
                {"x": 4, "s": "ef"},
                {"x": 5, "s": "g"},
            ],
        ),
        (OLD_STRINGS, [{"a": "a"}, {"a": None}, {"a": None}, {"a": "ef"}]),
    ],
    ids=["lists", "dictionary", "batches", "0.5.10"],
)
def test_files_of_the_page_are_read(content: bytes, expected: list[dict[str, Any]]) -> None:
    result = rows(content)
    assert [list(row.values()) for row in result] == [list(row.values()) for row in expected]


def test_the_same_rows_have_the_same_pages() -> None:
    """Up to the schema, which names the writer in files of pylance."""
    lists = pa.table({"a": pa.array([[1, 2], None, [], [3, 4, 5]], pa.list_(pa.int32()))})
    assert file_of(lists, 1024)[:72] == LISTS[:72]
    batches = pa.table({"x": pa.array(range(1, 6), pa.int8()), "s": ["a", None, "", "ef", "g"]})
    assert file_of(batches, 3)[:345] == BATCHES[:345]
    keys = pa.array([0, 1, 1, 0], pa.int8())
    dictionary = pa.table({"d": pa.DictionaryArray.from_arrays(keys, ["foo", "bar"])})
    assert file_of(dictionary, 1024)[:50] == DICTIONARY[:50]


def test_statistics_of_batches() -> None:
    numbers, texts = statistics(BATCHES, 0), statistics(BATCHES, 1)
    assert numbers is not None
    assert texts is not None
    assert numbers.first_rows.tolist() == [0, 3, 5]
    assert numbers.null_counts.tolist() == [0, 0]
    assert (numbers.least.to_pylist(), numbers.most.to_pylist()) == ([1, 4], [3, 5])
    assert texts.null_counts.tolist() == [1, 0]
    assert (texts.least.to_pylist(), texts.most.to_pylist()) == ([None, "ef"], ["a", "g"])
    assert statistics(LISTS, 0) is None
    assert statistics(OLD_STRINGS, 0) is None


HARD = pa.table(
    {
        "float": pa.array([0.0, float("nan"), 2.0, None, float("nan"), -0.0, 0.0], pa.float32()),
        "no_double": pa.array([None] * 7, pa.float64()),
        "no_int": pa.array([None] * 7, pa.int64()),
        "uint": pa.array([1, 2, None, None, None, None, 7], pa.uint8()),
        "bool": pa.array([True, None, True, None, None, None, False]),
        "no_decimal": pa.array([None] * 7, pa.decimal128(10, 2)),
        "decimal": pa.array([decimal.Decimal("-1.20"), None, *[decimal.Decimal(3)] * 5]).cast(
            pa.decimal128(10, 2)
        ),
        "no_date": pa.array([None] * 7, pa.date32()),
        "date": pa.array(range(7), pa.date64()),
        "text": ["b", "a" * 70, None, None, "", "x" * 63 + "é" * 3, "\U0010ffff" * 20],
        "last": ["\u20ac" * 30, "\U0010ffff" * 17, "a" * 61 + "é" * 2, "é" * 32, "", None, "z"],
        "bytes": pa.array(
            [b"\xff" * 70, b"a", b"", b"x\xff", b"y" * 80, None, None], pa.large_binary()
        ),
        "half": pa.array([np.float16(1)] * 7, pa.float16()),
        "struct": pa.array([{"a": row, "b": [row]} for row in range(7)]),
    }
)


@pytest.mark.parametrize("group", [1, 2, 3, 7])
def test_statistics_are_those_of_pylance(group: int, tmp_path: Path) -> None:
    """Floats with NaN and zeros of both signs, cut strings, batches of nulls: bit by bit."""
    lance.write_dataset(HARD, tmp_path / "t", data_storage_version="0.1", max_rows_per_group=group)
    theirs = next((tmp_path / "t" / "data").iterdir()).read_bytes()
    ours = file_of(HARD, group)
    result = 0
    for field in Schema.from_arrow(HARD.schema).walk():
        item, other = statistics(theirs, field.id), statistics(ours, field.id)
        assert (item is None) == (other is None)
        if item is None or other is None:
            continue
        result += 1
        assert item.null_counts.tolist() == other.null_counts.tolist()
        for their_bounds, our_bounds in ((item.least, other.least), (item.most, other.most)):
            assert their_bounds.type == our_bounds.type == field.arrow_type
            pairs = zip(their_bounds.buffers(), our_bounds.buffers(), strict=True)
            assert all(remaining == right for remaining, right in pairs)
    assert result == 13


def test_page_tables_of_old_releases_begin_with_field_0() -> None:
    """Files of added columns: the entries of the fields of other files are zeros."""
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    fields = Schema.from_arrow(schema)
    for number, item in enumerate(fields.walk()):
        item.message.id = number + 4
    moved = Schema.from_protobuf([path.message for path in fields.walk()], {})
    builder = BatchFileBuilder(moved, statistics=False)
    chunks = builder.add_batch([pa.array([1, 2]), pa.array([3, 4])])
    chunks += builder.add_batch([pa.array([5]), pa.array([6])])
    content = b"".join(bytes(part) for part in [*chunks, *builder.finish()])
    expected = [{"a": 1, "b": 3}, {"a": 2, "b": 4}, {"a": 5, "b": 6}]
    assert rows(content) == expected
    start, zeros = opened(content).page_table_start, bytes(4 * 2 * 16)
    (metadata,) = struct.unpack_from("<Q", content, len(content) - 16)
    block = opened(content).metadata
    block.manifest_position += len(zeros)
    serialized = block.SerializeToString()
    old = content[:start] + zeros + content[start:metadata]
    old += struct.pack("<I", len(serialized)) + serialized
    old += struct.pack("<QHH4s", metadata + len(zeros), 0, 1, b"LANC")
    assert rows(old) == expected


async def test_an_empty_table(tmp_path: Path) -> None:
    """It has no files; the next rows are of 0.1."""
    schema = pa.schema([("x", pa.int64()), ("s", pa.string())])
    uri = str(tmp_path / "t")
    dataset = await alance.write_dataset(schema.empty_table(), uri, data_storage_version="0.1")
    assert (await dataset.to_table()).num_rows == 0
    dataset = await alance.write_dataset(pa.table({"x": [1], "s": ["a"]}), uri, mode="append")
    assert dataset.data_storage_version.value == "0.1"
    assert lance.dataset(uri).to_table().to_pylist() == [{"x": 1, "s": "a"}]


async def test_blobs_are_strings(tmp_path: Path) -> None:
    """Pylance reads their bytes alone; here they are read as blobs, too."""
    payloads = [b"hello", None, b"", b"x" * 70] * 3
    field = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    table = pa.table([pa.array(payloads, pa.large_binary())], schema=pa.schema([field]))
    lance.write_dataset(table, tmp_path / "t", data_storage_version="0.1", max_rows_per_group=5)
    dataset = await alance.dataset(tmp_path / "t")
    want = [payload or None for payload in payloads]
    result = await dataset.to_table(blob_handling="all_binary")
    assert result.column("blob").to_pylist() == want
    blobs = await dataset.take_blobs("blob", indices=[11, 4, 1])
    assert [blob and await blob.read() for blob in blobs] == [b"x" * 70, b"hello", None]
    ours = await alance.write_dataset(table, tmp_path / "o", data_storage_version="0.1")
    assert (await ours.to_table(blob_handling="all_binary")).equals(result)


async def test_a_table_with_hard_texts_is_valid(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(
        HARD.select(["text"]), tmp_path / "t", data_storage_version="0.1"
    )
    await dataset.validate()
