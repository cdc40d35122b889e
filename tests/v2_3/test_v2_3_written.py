"""Files and tables of 2.3 by alance, read by pylance and by alance: equal to what was written."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import alance
from alance.errors import InvalidInputError
from tests.reference.both_readers import check_columns, check_written
from tests.reference.nested import around, in_pieces
from tests.reference.types import NOT_BESIDE_OTHERS, TYPES, column
from tests.reference.written import file_bytes
from tests.v2_3.planar import planes, planes_of

if TYPE_CHECKING:
    from pathlib import Path

WARNS = pytest.warns(UserWarning, match=r"2\.3 is unstable")


@pytest.mark.parametrize("name", TYPES)
async def test_files_of_every_type_are_read_by_both(tmp_path: Path, name: str) -> None:
    columns = {f"c{nulls * 10:g}": column(name, 300, nulls) for nulls in (0.0, 0.3, 0.9, 1.0)}
    await check_columns(tmp_path, name, columns, "2.3")


@pytest.mark.parametrize("seed", range(50))
async def test_any_table_is_read_by_both(tmp_path: Path, seed: int) -> None:
    """Types inside structs and lists, in pieces; a third of them with nothing but one value."""
    rng = random.Random(seed)
    name = rng.choice([item for item in TYPES if item not in NOT_BESIDE_OTHERS])
    if seed % 3 == 0:
        name = rng.choice(["constant", "constant text", "null"])
    array = column(name, rng.choice([2, 40, 400]), rng.choice([0, 0.2, 0.95, 1]), seed)
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        array = around(rng, array)
    parts = in_pieces(rng, array)
    table = pa.table({"c": pa.chunked_array(parts)})
    await check_written(
        tmp_path / "file.lance",
        table,
        "2.3",
        page_bytes=rng.choice([8 << 20, 200]),
        join_batches=rng.random() < 0.5,
    )


async def test_kinds_of_pages(tmp_path: Path) -> None:
    """Dense where it can be said, sparse for one value with nulls and for nested nulls."""
    kinds = {
        ("dense", "constant"): pa.array([7] * 500),
        ("dense", "none"): pa.array([None] * 500, pa.int8()),
        ("sparse", "constant"): pa.array([7 if row % 3 else None for row in range(500)]),
        ("sparse", "none"): pa.array([[None] if row % 3 else None for row in range(500)]),
        ("dense", "zipped"): pa.array([f"{row}" * 300 for row in range(100)]),
        ("dense", "chunked"): pa.array(["one text"] * 500),
    }
    for kind, array in kinds.items():
        if pa.types.is_list(array.type):
            array = array.cast(pa.list_(pa.int32()))
        content = file_bytes(pa.table({"c": array}), "2.3")
        assert planes(content) == {kind: 1}
        await check_written(tmp_path / "file.lance", pa.table({"c": array}), "2.3")


async def test_a_table_is_written_on_request_with_a_warning(tmp_path: Path) -> None:
    """Only where it is asked for, with a warning; files of other versions beside those of 2.3."""
    uri = str(tmp_path / "t")
    table = pa.table(
        {
            "n": pa.array(range(1000)),
            "s": [None if row % 3 else f"text {row}" for row in range(1000)],
            "l": [[row] * (row % 4) for row in range(1000)],
        }
    )
    with WARNS:
        ours = await alance.write_dataset(table, uri, data_storage_version="2.3")
    assert ours.data_storage_version.value == "2.3"
    assert sum(planes_of(tmp_path / "t").values()) == 3
    with WARNS:
        await alance.write_dataset(table, uri, mode="append")
    await alance.write_dataset(table, uri, mode="append", data_storage_version="2.2")
    theirs = lance.dataset(uri)
    assert theirs.data_storage_version == "2.3"
    values = pa.concat_tables([table] * 3).to_pylist()
    assert theirs.to_table().to_pylist() == values
    lance.write_dataset(table, uri, mode="append")
    ours = await alance.dataset(uri)
    assert (await ours.to_table()).to_pylist() == [*values, *table.to_pylist()]
    with WARNS:
        await ours.optimize.compact_files()
    assert lance.dataset(uri).to_table().to_pylist() == [*values, *table.to_pylist()]
    ours = await alance.dataset(uri)
    await ours.delete("n = 3")
    await ours.optimize.compact_files(
        data_storage_version="2.2", materialize_deletions_threshold=0.0
    )
    rows = [row for row in [*values, *table.to_pylist()] if row["n"] != 3]
    assert lance.dataset(uri).to_table().to_pylist() == rows


async def test_a_new_table_is_of_2_2(tmp_path: Path) -> None:
    ours = await alance.write_dataset(pa.table({"a": [1]}), tmp_path / "t")
    assert ours.data_storage_version.value == "2.2"


async def test_blobs_of_version_1_are_refused(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})])
    table = pa.table([pa.array([b"x"], pa.large_binary())], schema=schema)
    with pytest.raises(InvalidInputError, match="blobs of version 1"):
        async with alance.FileWriter.open(tmp_path / "file.lance", version="2.3") as writer:
            await writer.write(table)


async def test_blobs_of_version_2(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    schema = pa.schema([pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})])
    payloads = [b"abc", None, b"", b"x" * 100_000]
    table = pa.table([pa.array(payloads, pa.large_binary())], schema=schema)
    with WARNS:
        ours = await alance.write_dataset(table, uri, data_storage_version="2.3")
    rows = await ours.to_table(blob_handling="all_binary")
    assert rows.column("b").to_pylist() == payloads
    theirs = lance.dataset(uri).take_blobs("b", indices=[0, 2, 3])
    assert [their.readall() for their in theirs] == [b"abc", b"", b"x" * 100_000]
