"""Files that alance writes, read by pylance and by alance: equal to what was written."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader, LanceFileWriter

import alance
from alance.errors import InvalidInputError, UnsupportedError
from tests.reference.both_readers import check_columns, check_written
from tests.reference.nested import around, in_pieces
from tests.reference.types import CASES, NOT_BESIDE_OTHERS, ONLY_2_2, TYPES, column
from tests.reference.written import file_bytes

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("name", "version"), CASES)
async def test_files_of_every_type_are_read_by_both(
    tmp_path: Path, name: str, version: str
) -> None:
    columns = {f"c{nulls * 10:g}": column(name, 300, nulls) for nulls in (0.0, 0.3, 1.0)}
    await check_columns(tmp_path, name, columns, version)


def shaped(num_rows: int, nulls: float) -> pa.Table:
    """Columns of usual types, quickly made."""
    rng = np.random.default_rng(num_rows)
    numbers = pa.array(rng.integers(0, 1000, num_rows * 4))
    mask = rng.random(num_rows) < nulls
    ends = np.sort(rng.integers(0, num_rows * 4, num_rows - 1)) if num_rows else np.empty(0)
    offsets = pa.array(np.concatenate([[0], ends, [num_rows * 4]])[: num_rows + 1], pa.int32())
    absent = pa.array(mask) if num_rows else None
    items = pa.ListArray.from_arrays(offsets, numbers.cast(pa.int32()), mask=absent)
    texts = pa.ListArray.from_arrays(offsets, numbers.cast(pa.string()), mask=absent)
    pairs = [numbers[:num_rows].cast(pa.int32()), items.cast(pa.list_(pa.int16()))]
    columns = {
        "numbers": pa.array(rng.integers(0, 1 << 50, num_rows), mask=mask),
        "small": pa.array(rng.integers(0, 9, num_rows), pa.int16(), mask=mask),
        "flags": pa.array(rng.random(num_rows) < 0.5, mask=mask),
        "text": pa.array(rng.integers(0, 1 << 40, num_rows).astype(str), mask=mask),
        "lists": items,
        "texts": texts.cast(pa.large_list(pa.string())),
        "vectors": pa.FixedSizeListArray.from_arrays(numbers[: 3 * num_rows], 3, mask=absent),
        "pairs": pa.StructArray.from_arrays(pairs, ["a", "l"], mask=absent),
    }
    return pa.table(columns)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("nulls", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("num_rows", [0, 1, 1025, 20_000])
async def test_files_of_any_number_of_rows_are_read_by_both(
    tmp_path: Path, num_rows: int, nulls: float, version: str
) -> None:
    await check_written(tmp_path / "file.lance", shaped(num_rows, nulls), version)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
async def test_rows_over_many_pages(tmp_path: Path, version: str) -> None:
    parts = [shaped(700, 0.0), shaped(800, 0.2), shaped(3, 1.0), shaped(900, 0.0)]
    table = pa.concat_tables(parts)
    await check_written(tmp_path / "file.lance", table, version, join_batches=False)
    await check_written(tmp_path / "file.lance", table, version, page_bytes=5000)


INT_LISTS = pa.list_(pa.int32())
SPARSE: dict[str, tuple[list[object], pa.DataType]] = {
    "few in many empty": ([[1], *[[]] * 99] * 900, INT_LISTS),
    "few in many null": ([[1], *[[], None] * 9] * 5000, INT_LISTS),
    "a row too long": ([[[]] * 70_000 + [[1]], [[2]], [[]] * 5], pa.list_(INT_LISTS)),
    "nothing but empty": ([[]] * 70_000, INT_LISTS),
    "one at the end": ([[]] * 70_000 + [[3]], INT_LISTS),
    "rows over chunks": ([list(range(9000))] * 3, INT_LISTS),
    "strings over chunks": ([["abc", "d" * 90, None] * 3000] * 3, pa.list_(pa.string())),
    "vectors over chunks": ([[[1.0, 2.5]] * 5000] * 3, pa.list_(pa.list_(pa.float32(), 2))),
}


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("name", list(SPARSE))
async def test_lists_that_do_not_fit_chunks(tmp_path: Path, name: str, version: str) -> None:
    rows, arrow = SPARSE[name]
    await check_written(tmp_path / "file.lance", pa.table({"c": pa.array(rows, arrow)}), version)


REQUESTS = {
    "full-zip": {"structural-encoding": "fullzip"},
    "mini-block": {"structural-encoding": "miniblock"},
    "zstd": {"compression": "zstd"},
    "lz4": {"compression": "lz4", "bss": "on"},
    "none": {"compression": "none"},
    "fsst": {"compression": "fsst"},
    "full-zip zstd": {"structural-encoding": "FullZip", "compression": "zstd"},
    "dictionary": {"dict-divisor": "1", "dict-size-ratio": "1.0"},
}


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("name", list(REQUESTS))
async def test_what_is_asked(tmp_path: Path, name: str, version: str) -> None:
    metadata = {f"lance-encoding:{key}": value for key, value in REQUESTS[name].items()}
    table = pa.concat_tables([shaped(900, 0.1), shaped(300, 0.0)])
    schema = pa.schema([field.with_metadata(metadata) for field in table.schema])
    await check_written(tmp_path / "file.lance", table.cast(schema), version)


PACKED = {
    "fixed": (pa.struct([("a", pa.int32()), ("b", pa.float64())]), {"a": 1, "b": 0.5}, "2.1"),
    "vector": (
        pa.struct([("a", pa.int8()), ("v", pa.list_(pa.float32(), 2))]),
        {"a": 1, "v": [1.0, 2.0]},
        "2.2",
    ),
    "strings": (
        pa.struct([("a", pa.int64()), ("s", pa.string()), ("b", pa.large_binary())]),
        {"a": 1, "s": "text", "b": b"bytes"},
        "2.2",
    ),
}


@pytest.mark.parametrize("name", list(PACKED))
async def test_files_of_packed_structs_are_read_by_both(tmp_path: Path, name: str) -> None:
    arrow, row, version = PACKED[name]
    rows = [row if number % 5 else None for number in range(300)]
    field = pa.field("p", arrow, metadata={"lance-encoding:packed": "true"})
    array = pa.array(rows, arrow)
    for candidate in (
        array,
        array.filter(array.is_valid()),
        pa.array([rows, None, []], pa.list_(arrow)),
    ):
        if pa.types.is_list(candidate.type):
            table = pa.table([candidate], schema=pa.schema([("l", pa.list_(field))]))
        else:
            table = pa.table([candidate], schema=pa.schema([field]))
        await check_written(tmp_path / "file.lance", table, version)


async def test_structs_of_strings_are_not_packed_in_2_1() -> None:
    field = pa.field("p", PACKED["strings"][0], metadata={"lance-encoding:packed": "true"})
    table = pa.table([pa.array([PACKED["strings"][1]] * 2)], schema=pa.schema([field]))
    with pytest.raises(UnsupportedError):
        file_bytes(table, "2.1")


@pytest.mark.parametrize("version", ["2.1", "2.2"])
async def test_json_and_other_extensions(tmp_path: Path, version: str) -> None:
    texts = [f'{{"b":[true,null,"x"],"a":{number - 100}}}' for number in range(300)]
    json = pa.ExtensionArray.from_storage(pa.json_(), pa.array([*texts, None, "1.5", "[]"]))
    ids = pa.array([bytes([row % 256]) * 16 for row in range(303)], pa.binary(16))
    table = pa.table({"json": json, "id": pa.ExtensionArray.from_storage(pa.uuid(), ids)})
    await check_written(tmp_path / "ids.lance", table.select(["id"]), version)
    path = tmp_path / "ours.lance"
    path.write_bytes(file_bytes(table, version))
    reader = await alance.FileReader.open(str(path))
    rows = (await reader.to_table()).column("json").to_pylist()
    assert rows[:2] == ['{"a":-100,"b":[true,null,"x"]}', '{"a":-99,"b":[true,null,"x"]}']
    assert rows[300:] == [None, "1.5", "[]"]
    other = str(tmp_path / "theirs.lance")
    with LanceFileWriter(other, table.schema, version=version) as writer:
        writer.write_batch(table.to_batches()[0])
    stored = [
        LanceFileReader(candidate).read_all().to_table()["json"] for candidate in (str(path), other)
    ]
    assert stored[0].to_pylist() == stored[1].to_pylist()


async def test_a_file_without_columns_has_no_rows(tmp_path: Path) -> None:
    content = file_bytes(pa.table({}), "2.2")
    path = tmp_path / "file.lance"
    path.write_bytes(content)
    reader = await alance.FileReader.open(str(path))
    assert reader.num_rows == 0
    assert reader.schema == pa.schema([])


@pytest.mark.parametrize("text", ["zip", "sparse"])
def test_structural_encodings_that_are_not_known(text: str) -> None:
    metadata = {"lance-encoding:structural-encoding": text}
    schema = pa.schema([pa.field("c", pa.int8(), metadata=metadata)])
    with pytest.raises(InvalidInputError, match="structural-encoding"):
        file_bytes(pa.table([pa.array([1], pa.int8())], schema=schema), "2.2")


@pytest.mark.parametrize("version", ["0.1"])
def test_versions_that_are_not_written(version: str) -> None:
    with pytest.raises(UnsupportedError, match="file version"):
        file_bytes(pa.table({"c": [1]}), version)


@pytest.mark.parametrize("seed", range(60))
async def test_any_table_is_read_by_both(tmp_path: Path, seed: int) -> None:
    """Types inside structs and lists whose nulls have values under them; cut, joined, in pieces."""
    rng = random.Random(seed)
    version = rng.choice(["2.1", "2.2"])
    names = [name for name in TYPES if version == "2.2" or name not in ONLY_2_2]
    name = rng.choice([item for item in names if item not in NOT_BESIDE_OTHERS])
    array = column(name, rng.choice([2, 40, 400]), rng.choice([0, 0.2, 0.95]), seed)
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        array = around(rng, array)
    array = array.slice(rng.randrange(2))
    if len(array) == 0:
        return
    parts = in_pieces(rng, array)
    request = rng.choice([{}, {}, *REQUESTS.values()])
    field = pa.field(
        "c", array.type, metadata={f"lance-encoding:{key}": item for key, item in request.items()}
    )
    table = pa.table([pa.chunked_array(parts)], schema=pa.schema([field]))
    await check_written(
        tmp_path / "file.lance",
        table,
        version,
        page_bytes=rng.choice([8 << 20, 3000]),
        join_batches=rng.random() < 0.5,
    )
