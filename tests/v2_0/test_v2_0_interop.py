"""Tables of 2.0 in both directions with pylance: random types, page sizes, rows, filters."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader, LanceFileWriter
from lance.fragment import DataFile, FragmentMetadata
from lance.schema import LanceSchema

import alance
from alance.errors import InvalidInputError, UnsupportedError
from tests.reference.nested import (
    check_reads,
    is_list,
    random_lists,
    random_type,
    value,
    whole,
)


def random_array(rng: random.Random, arrow: pa.DataType, count: int, nulls: float) -> pa.Array:
    """Values of a type, some of them null; never a null struct."""
    if pa.types.is_struct(arrow):
        children = [random_array(rng, item.type, count, nulls) for item in arrow]
        return pa.StructArray.from_arrays(children, fields=list(arrow))
    mask = [rng.random() < nulls for _ in range(count)]
    if is_list(arrow):

        def items(count: int) -> pa.Array:
            return random_array(rng, arrow.value_type, count, nulls)

        return random_lists(rng, arrow, mask, items)
    if pa.types.is_fixed_size_list(arrow):
        rows = [random_array(rng, arrow.value_type, arrow.list_size, nulls) for _ in range(count)]
        return pa.array(
            [None if gone else item.to_pylist() for item, gone in zip(rows, mask, strict=True)],
            arrow,
        )
    numbers = [rng.randrange(100) for _ in mask]
    values = [
        None if gone else value(arrow, number) for gone, number in zip(mask, numbers, strict=True)
    ]
    return pa.array(values, arrow)


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
    pa.list_(pa.float32(), 3),
    pa.list_(pa.list_(pa.bool_(), 2), 2),
    pa.null(),
]


def random_table(seed: int, count: int) -> pa.Table:
    rng = random.Random(seed)
    arrays = [
        random_array(rng, random_type(rng, 3, LEAVES), count, rng.choice([0, 0.3]))
        for _ in range(4)
    ]
    return pa.table([*arrays, pa.array(range(count))], names=["c0", "c1", "c2", "c3", "number"])


@pytest.mark.parametrize("seed", range(8))
async def test_tables_of_pylance(seed: int, tmp_path: Path) -> None:
    want = random_table(seed, 130)
    for start in range(0, 130, 50):
        part = want.slice(start, 50)
        lance.write_dataset(
            whole(part),
            tmp_path / "t",
            mode="append" if start else "create",
            data_storage_version="2.0",
        )
    await check_reads(await alance.dataset(tmp_path / "t"), want, seed)


@pytest.mark.parametrize("seed", range(8, 16))
async def test_tables_of_ours(seed: int, tmp_path: Path) -> None:
    want, uri = random_table(seed, 130), str(tmp_path / "t")
    for start in range(0, 130, 50):
        part = want.slice(start, 50)
        mode = "append" if start else "create"
        await alance.write_dataset(part, uri, mode=mode, data_storage_version="2.0")
    await check_reads(await alance.dataset(uri), want, seed)
    theirs = lance.dataset(uri)
    assert theirs.data_storage_version == "2.0"
    theirs.validate()
    assert theirs.to_table().to_pylist() == want.to_pylist()
    rows = [77, 3, 129]
    assert theirs.take(rows).to_pylist() == want.take(rows).to_pylist()


@pytest.mark.parametrize("seed", range(16, 20))
async def test_files_of_many_pages_are_read_by_both(seed: int, tmp_path: Path) -> None:
    """Pages of a few rows, by both writers, read by both readers."""
    want, path = random_table(seed, 400), str(tmp_path / "theirs.lance")
    with LanceFileWriter(path, want.schema, version="2.0", data_cache_bytes=512) as theirs:
        for batch in want.to_batches(max_chunksize=7):
            theirs.write_batch(whole(batch))
    reader = await alance.FileReader.open(path)
    assert (await reader.to_table()).to_pylist() == want.to_pylist()
    own = str(tmp_path / "own.lance")
    async with alance.FileWriter.open(own, want.schema, version="2.0", page_bytes=256) as writer:
        for batch in want.to_batches(max_chunksize=7):
            await writer.write(batch)
    reader = await alance.FileReader.open(own)
    rows = [399, 5, 6, 7, 200]
    assert (await reader.take(rows)).to_pylist() == want.take(rows).to_pylist()
    assert (await reader.to_table(start=3, stop=390)).to_pylist() == want.slice(3, 387).to_pylist()
    table = LanceFileReader(own).read_all(batch_size=33).to_table()
    assert table.to_pylist() == want.to_pylist()


async def test_what_metadata_ask_for(tmp_path: Path) -> None:
    """Compressions, packed structs and dictionaries, as both write them."""
    texts = [None if row % 7 == 3 else f"some text {row}" * 3 for row in range(3000)]
    packed = pa.StructArray.from_arrays(
        [
            pa.array(range(3000), pa.int16()),
            pa.array([[row / 2, 1.0] for row in range(3000)], pa.list_(pa.float32(), 2)),
        ],
        ["n", "v"],
    )
    few = pa.array([None if row % 7 == 3 else f"w{row % 90}" for row in range(3000)])
    columns = {
        "zstd": (pa.array(texts), {"lance-encoding:compression": "zstd"}),
        "lz4": (pa.array(texts), {"lance-encoding:compression": "lz4"}),
        "fsst": (pa.array(texts), {"lance-encoding:compression": "fsst"}),
        "packed": (packed, {"packed": "true"}),
        "few": (few, {}),
        "dictionary": (few.dictionary_encode(), {}),
    }
    fields = [pa.field(name, item.type, metadata=keys) for name, (item, keys) in columns.items()]
    want = pa.table([item for item, _ in columns.values()], schema=pa.schema(fields))
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    await alance.write_dataset(want, ours, data_storage_version="2.0")
    lance.write_dataset(want, theirs, data_storage_version="2.0")
    sizes = []
    for uri in (ours, theirs):
        assert (await (await alance.dataset(uri)).to_table()).to_pylist() == want.to_pylist()
        assert lance.dataset(uri).to_table().to_pylist() == want.to_pylist()
        (file,) = (Path(uri) / "data").iterdir()
        sizes.append(file.stat().st_size)
    assert sizes[0] < 1.05 * sizes[1]


async def test_blobs_of_both_writers_are_read_by_both(tmp_path: Path) -> None:
    """Payloads, empty ones and nulls; by both writers, for both readers."""
    keys = {"lance-encoding:blob": "true"}
    schema = pa.schema([pa.field("b", pa.large_binary(), metadata=keys)])
    payloads = [b"hello", None, b"", b"x" * 70, b"y" * 100_000]
    want = pa.table({"b": pa.array(payloads, pa.large_binary())}, schema=schema)
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    await alance.write_dataset(want, ours, data_storage_version="2.0")
    lance.write_dataset(want, theirs, data_storage_version="2.0")
    for uri in (ours, theirs):
        result = lance.dataset(uri).take_blobs("b", indices=[0, 2, 3, 4])
        assert [item.read() for item in result if item] == [
            b"hello",
            b"",
            b"x" * 70,
            b"y" * 100_000,
        ]
        dataset = await alance.dataset(uri)
        blobs = await dataset.take_blobs("b", indices=range(5))
        assert [blob and await blob.read() for blob in blobs] == payloads
        places = (await dataset.to_table())["b"].to_pylist()
        assert places[1] is None
        theirs_read = lance.dataset(uri).to_table()["b"].to_pylist()
        assert theirs_read[1] == {"position": 1, "size": 0}  # pylance gives a null's stored place
        assert places[:1] + places[2:] == theirs_read[:1] + theirs_read[2:]


async def test_deleted_rows_and_late_columns(tmp_path: Path) -> None:
    """Deletions, added columns in files of their own, and explain."""
    uri = str(tmp_path / "t")
    theirs = lance.write_dataset(random_table(3, 500), uri, data_storage_version="2.0")
    theirs.delete("number % 3 = 0")
    theirs.add_columns({"twice": "number * 2"})
    theirs = lance.dataset(uri)
    dataset = await alance.dataset(uri)
    assert (await dataset.to_table()).to_pylist() == theirs.to_table().to_pylist()
    table = await dataset.to_table(filter="twice > 900", columns=["c1", "number"])
    want = theirs.to_table(filter="twice > 900", columns=["c1", "number"])
    assert table.to_pylist() == want.to_pylist()
    text = str(await dataset.scanner(filter="twice > 900").explain())
    assert "read first: twice" in text


@pytest.mark.parametrize(
    ("array", "error"),
    [
        (pa.array([{"x": 1}, None]), InvalidInputError),
        (pa.array([[{"x": 1}, None]]), InvalidInputError),
        (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8())), UnsupportedError),
        (pa.array([[{"x": 1}] * 2], pa.list_(pa.struct([("x", pa.int8())]), 2)), UnsupportedError),
        (pa.array([["a", "b"]], pa.list_(pa.string(), 2)), UnsupportedError),
    ],
)
async def test_values_that_the_version_cannot_hold_are_refused(
    array: pa.Array, error: type[Exception], tmp_path: Path
) -> None:
    """Values that 2.0 cannot hold raise an error, and no file remains."""
    uri = str(tmp_path / "t")
    with pytest.raises(error):
        await alance.write_dataset(pa.table({"a": array}), uri, data_storage_version="2.0")
    assert not list(tmp_path.rglob("*.lance"))  # noqa: ASYNC240


async def test_nulls_where_none_are_allowed(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("a", pa.int32(), nullable=False)])
    table = pa.table([pa.array([1, None], pa.int32())], schema=schema)
    with pytest.raises(InvalidInputError):
        await alance.write_dataset(table, str(tmp_path / "t"), data_storage_version="2.0")


@pytest.mark.parametrize("version", ["2.0", "2.2"])
async def test_a_compaction_keeps_or_changes_the_file_version(version: str, tmp_path: Path) -> None:
    """Fragments of 2.0 rewritten as they are, or as a later version."""
    uri = str(tmp_path / "t")
    want = pa.concat_tables(
        [pa.table({"a": range(n, n + 10), "b": [f"t{n}"] * 10}) for n in (0, 10, 20)]
    )
    for start in range(0, 30, 10):
        mode = "append" if start else "create"
        await alance.write_dataset(
            want.slice(start, 10), uri, mode=mode, data_storage_version="2.0"
        )
    dataset = await alance.dataset(uri)
    await dataset.optimize.compact_files(data_storage_version=version)
    theirs = lance.dataset(uri)
    assert len(theirs.get_fragments()) == 1
    assert theirs.to_table().equals(want)
    assert (await (await alance.dataset(uri)).to_table()).equals(want)


async def test_fixed_size_lists_of_nothing_but_nulls(tmp_path: Path) -> None:
    """Such items have no bytes, whatever their type is; both writers, both readers."""
    vectors, row = pa.list_(pa.int32(), 2), [None, None]
    rows = [row, None, row] * 20
    columns = {
        "nulls": pa.array(rows, pa.list_(pa.null(), 2)),
        "numbers": pa.array(rows, vectors),
        "nested": pa.array([rows[:3], None, [None] * 3] * 20, pa.list_(vectors, 3)),
        "lists": pa.array([rows[:3], None, []] * 20, pa.list_(pa.list_(pa.null(), 2))),
    }
    want = pa.table(columns)
    await alance.write_dataset(want, tmp_path / "ours", data_storage_version="2.0")
    lance.write_dataset(want, tmp_path / "theirs", data_storage_version="2.0")
    for name in ("ours", "theirs"):
        dataset, theirs = await alance.dataset(tmp_path / name), lance.dataset(tmp_path / name)
        table = await dataset.to_table()
        table.validate(full=True)
        assert table.to_pylist() == theirs.to_table().to_pylist() == want.to_pylist()
        assert (await dataset.take([59, 1, 3])).to_pylist() == want.take([59, 1, 3]).to_pylist()


async def test_fixed_size_lists_of_structs(tmp_path: Path) -> None:
    """Pylance writes them as packed structs, and cannot read them."""
    pair = pa.list_(pa.struct([("x", pa.int32()), ("y", pa.float64())]), 2)
    values = [[{"x": n, "y": n / 2}, {"x": -n, "y": 1.0}] for n in range(20)]
    want = pa.table({"pairs": pa.array(values, pair), "number": range(20)})
    lance.write_dataset(want, tmp_path / "t", data_storage_version="2.0")
    dataset = await alance.dataset(tmp_path / "t")
    assert (await dataset.to_table()).to_pylist() == want.to_pylist()
    table = await dataset.take([19, 4], columns=["pairs"])
    assert table.to_pylist() == want.select(["pairs"]).take([19, 4]).to_pylist()


@pytest.mark.parametrize(("count", "distinct"), [(99, 5), (100, 99), (5000, 100), (200_000, 7)])
async def test_few_distinct_strings(count: int, distinct: int, tmp_path: Path) -> None:
    """A dictionary where pylance has one, in pages of any length."""
    values = [None if row % 11 == 5 else f"word {row % distinct}" for row in range(count)]
    want = pa.table({"a": values})
    await alance.write_dataset(want, tmp_path / "ours", data_storage_version="2.0")
    lance.write_dataset(want, tmp_path / "theirs", data_storage_version="2.0")
    sizes = [path.stat().st_size for path in sorted(tmp_path.glob("*/data/*"))]  # noqa: ASYNC240
    assert abs(sizes[0] - sizes[1]) < 200
    assert lance.dataset(tmp_path / "ours").to_table().equals(want)


async def test_a_fragment_may_have_files_of_2_0_and_of_2_1(tmp_path: Path) -> None:
    """No verb writes such a fragment, but a commit of pylance may name any files."""
    want = pa.table({"a": range(100), "b": [[n, n + 1] for n in range(100)]})
    old, new = (
        lance.write_dataset(want.select([name]), tmp_path / name, data_storage_version=version)
        for name, version in (("a", "2.0"), ("b", "2.1"))
    )
    (before,), (after,) = (dataset.get_fragments() for dataset in (old, new))
    (file,) = after.data_files()
    shutil.copy(tmp_path / "b" / "data" / file.path, tmp_path / "a" / "data")
    moved = DataFile(file.path, [1, 2], [-1, 0], 2, 1, file.file_size_bytes)
    files = [*before.data_files(), moved]
    fragment = FragmentMetadata(before.fragment_id, files, before.physical_rows)
    merge = lance.LanceOperation.Merge([fragment], LanceSchema.from_pyarrow(want.schema))
    theirs = lance.LanceDataset.commit(old.uri, merge, read_version=1)
    ours = await alance.dataset(tmp_path / "a")
    assert (await ours.to_table()).equals(want)
    assert (await ours.take([5, 99, 7])).equals(theirs.take([5, 99, 7]))


async def test_indices_of_nulls_are_inside_of_the_dictionary(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    column = pa.array(["a", None, "b", None, "a"] * 300).dictionary_encode()
    lance.write_dataset(pa.table({"d": column}), path, data_storage_version="2.0")
    table = await (await alance.dataset(path)).to_table()
    for chunk in table["d"].chunks:
        width = chunk.indices.type.bit_width // 8
        raw = np.frombuffer(chunk.indices.buffers()[1], f"i{width}")
        assert raw[chunk.offset :][: len(chunk)].max() < len(chunk.dictionary)
    assert table.unify_dictionaries()["d"].to_pylist() == column.to_pylist()
