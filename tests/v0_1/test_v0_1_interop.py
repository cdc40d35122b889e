"""Tables of 0.1 in both directions with pylance: random types, rows, filters, appends, changes."""

from __future__ import annotations

import random
import warnings
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pyarrow.compute
import pytest

import alance
from alance.errors import InvalidInputError, UnsupportedError
from alance.file_version import FileVersion
from alance.format.proto import file_pb2
from tests.reference.nested import (
    check_reads,
    is_list,
    random_lists,
    random_type,
    value,
    whole,
)

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 90


def random_array(rng: random.Random, arrow: pa.DataType, count: int, nulls: float) -> pa.Array:
    """Values of a type, some of them null, none of them an empty string."""
    mask = [rng.random() < nulls for _ in range(count)]
    if pa.types.is_struct(arrow):
        children = [random_array(rng, item.type, count, nulls) for item in arrow]
        return pa.StructArray.from_arrays(children, fields=list(arrow))
    if is_list(arrow):

        def items(count: int) -> pa.Array:
            return random_array(rng, arrow.value_type, count, nulls)

        return random_lists(rng, arrow, mask, items)
    if pa.types.is_fixed_size_list(arrow):
        rows = [random_array(rng, arrow.value_type, arrow.list_size, 0) for _ in range(count)]
        return pa.array([row.to_pylist() for row in rows], arrow)
    if pa.types.is_dictionary(arrow):
        items = pa.array([f"item {n}" for n in range(5)])
        keys = [None if gone else rng.randrange(5) for gone in mask]
        return pa.DictionaryArray.from_arrays(pa.array(keys, arrow.index_type), items)
    return pa.array([None if gone else value(arrow, rng.randrange(100)) for gone in mask], arrow)


LEAVES = [
    pa.int8(),
    pa.uint16(),
    pa.int64(),
    pa.float32(),
    pa.bool_(),
    pa.string(),
    pa.large_binary(),
    pa.binary(3),
    pa.timestamp("us"),
    pa.decimal128(10, 2),
    pa.list_(pa.float32(), 3),
    pa.list_(pa.list_(pa.int16(), 2), 2),
    pa.null(),
]


def random_table(seed: int, count: int, nulls: float) -> pa.Table:
    rng = random.Random(seed)
    types = [
        *(random_type(rng, 3, LEAVES) for _ in range(4)),
        pa.dictionary(pa.int8(), pa.string()),
    ]
    arrays = [random_array(rng, item, count, nulls) for item in types]
    names = ["c0", "c1", "c2", "c3", "few", "number"]
    return pa.table([*arrays, pa.array(range(count))], names=names)


async def check(uri: str, want: pa.Table, seed: int) -> None:
    dataset = await alance.dataset(uri)
    assert dataset.data_storage_version is FileVersion.V0_1
    await check_reads(dataset, want, seed)


@pytest.mark.parametrize("seed", range(12))
async def test_tables_of_pylance(seed: int, tmp_path: Path) -> None:
    """Every null that pylance loses reads as what pylance reads."""
    table = random_table(seed, ROWS, random.Random(seed).choice([0, 0.3]))
    group = random.Random(seed).choice([7, 8, 1024])
    for start in range(0, ROWS, 35):
        lance.write_dataset(
            whole(table.slice(start, 35)),
            tmp_path / "t",
            mode="append" if start else "create",
            data_storage_version="0.1",
            max_rows_per_group=group,
        )
    await check(str(tmp_path / "t"), lance.dataset(tmp_path / "t").to_table(), seed)


@pytest.mark.parametrize("seed", range(12))
async def test_tables_of_ours(seed: int, tmp_path: Path) -> None:
    """Pylance reads what we read; without nulls it is what was written."""
    nulls = random.Random(seed).choice([0, 0.3])
    table, uri = random_table(100 + seed, ROWS, nulls), str(tmp_path / "t")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        await alance.write_dataset(table.slice(0, 50), uri, data_storage_version="0.1")
        await alance.write_dataset(table.slice(50, 13), uri, mode="append")
        await alance.write_dataset(table.slice(63), uri, mode="append")
    rows = lance.dataset(uri).to_table()
    if not nulls:
        assert rows.to_pylist() == table.to_pylist()
    await check(uri, rows, seed)


@pytest.mark.parametrize("seed", range(6))
async def test_files_are_those_of_pylance(seed: int, tmp_path: Path) -> None:
    """The same bytes up to the schema, which names the writer: pages, tables, statistics."""
    table = random_table(200 + seed, 2500, 0)
    lance.write_dataset(whole(table), tmp_path / "theirs", data_storage_version="0.1")
    await alance.write_dataset(table, tmp_path / "ours", data_storage_version="legacy")
    ours, theirs = (
        next((tmp_path / name / "data").iterdir()).read_bytes() for name in ("ours", "theirs")
    )
    schema = schema_start(theirs)
    assert schema > 2500 * 8
    assert schema_start(ours) == schema
    assert ours[:schema] == theirs[:schema]


def schema_start(content: bytes) -> int:
    start = int.from_bytes(content[-16:-8], "little")
    return file_pb2.Metadata.FromString(content[start + 4 : -16]).manifest_position


async def test_changes_by_both(tmp_path: Path) -> None:
    """Deletes, updates, added and dropped columns keep a table readable for both."""
    uri = str(tmp_path / "t")
    rows = {"id": list(range(100)), "s": [f"s{n}" for n in range(100)]}
    table = pa.table({**rows, "few": pa.array(["a", "b"] * 50).dictionary_encode()})
    dataset = await alance.write_dataset(table, uri, data_storage_version="0.1")
    await dataset.delete("id % 10 = 3")
    dataset = await alance.dataset(uri)
    await dataset.update({"s": "'new'"}, where="id = 8")
    lance.dataset(uri).delete("id = 9")
    lance.write_dataset(table.slice(0, 4), uri, mode="append")
    result = await (await alance.dataset(uri)).to_table()
    assert result.to_pylist() == lance.dataset(uri).to_table().to_pylist()
    assert result.num_rows == 93
    assert result.filter(pa.compute.field("id") == 8).column("s").to_pylist() == ["new"]
    lance.dataset(uri).drop_columns(["s"])
    dataset = await alance.dataset(uri)
    await dataset.add_columns({"twice": "id * 2"})
    result = await (await alance.dataset(uri)).to_table()
    assert result.to_pylist() == lance.dataset(uri).to_table().to_pylist()
    assert result.column_names == ["id", "few", "twice"]


async def test_dictionaries_of_several_arrays(tmp_path: Path) -> None:
    """Rows of one write share a dictionary, whatever their own arrays have; appends use it."""
    uri = str(tmp_path / "t")
    parts = [["a", "b"], ["c", "a"], ["b", "d"]]
    batches = [pa.record_batch({"d": pa.array(part).dictionary_encode()}) for part in parts]
    dataset = await alance.write_dataset(
        batches, uri, data_storage_version="0.1", max_rows_per_file=2
    )
    want = [text for part in parts for text in part]
    assert len(dataset.fragments) == 3
    assert (await dataset.to_table()).column("d").to_pylist() == want
    assert lance.dataset(uri).to_table().column("d").to_pylist() == want
    more = pa.table({"d": pa.array(["d", "a"]).dictionary_encode()})
    dataset = await alance.write_dataset(more, uri, mode="append")
    assert lance.dataset(uri).to_table().column("d").to_pylist() == [*want, "d", "a"]
    other = pa.table({"d": pa.array(["x"]).dictionary_encode()})
    with pytest.raises(InvalidInputError, match="'x' is not in the dictionary"):
        await alance.write_dataset(other, uri, mode="append")
    with pytest.raises(OSError, match="Append with different schema"):
        lance.write_dataset(other, uri, mode="append")


async def test_a_dictionary_without_values(tmp_path: Path) -> None:
    """All rows are null; appends bring values."""
    nulls = pa.array([None, None], pa.string()).dictionary_encode()
    with pytest.warns(UserWarning, match="nulls"):
        dataset = await alance.write_dataset(
            pa.table({"d": nulls}), tmp_path / "t", data_storage_version="0.1"
        )
    assert (await dataset.to_table()).column("d").to_pylist() == [None, None]
    more = pa.table({"d": pa.array(["a", "b"]).dictionary_encode()})
    dataset = await alance.write_dataset(more, tmp_path / "t", mode="append")
    assert (await dataset.to_table()).column("d").to_pylist()[2:] == ["a", "b"]


async def test_lost_nulls_are_told(tmp_path: Path) -> None:
    table = pa.table({"n": [1, None], "s": ["", None], "l": [[1], None]})
    with pytest.warns(UserWarning, match=r"\['n', 'l'\]"):
        dataset = await alance.write_dataset(table, tmp_path / "t", data_storage_version="0.1")
    assert (await dataset.to_table()).to_pylist() == [
        {"n": 1, "s": None, "l": [1]},
        {"n": 0, "s": None, "l": []},
    ]


@pytest.mark.parametrize(
    "array",
    [
        pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int8())),
        pa.array([[["a"]]], pa.list_(pa.list_(pa.string(), 1))),
        pa.array([{}], pa.struct([])),
        pa.array([b""], pa.binary(0)),
        pa.array([1.5]).dictionary_encode(),
        pa.array([True]).dictionary_encode(),
    ],
    ids=lambda array: str(array.type),
)
async def test_types_that_files_do_not_hold(array: pa.Array, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError):
        await alance.write_dataset(
            pa.table({"c": array}), tmp_path / "t", data_storage_version="0.1"
        )
