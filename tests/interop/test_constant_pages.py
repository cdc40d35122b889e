"""Pages of one value, or none: the kernel builds their rows beside those of other pages."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.testing.lab import Lab
from tests.reference.served import opened_on

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 20_000
STRUCT = pa.struct([("a", pa.int32()), ("s", pa.string())])
COLUMNS: dict[str, tuple[pa.DataType, Any]] = {  # by name: a type, and the value of a row
    "number": (pa.int32(), lambda n: 7),
    "no numbers": (pa.int64(), lambda n: None),
    "numbers and nulls": (pa.int16(), lambda n: 5 if n % 3 else None),
    "then others": (pa.int32(), lambda n: 7 if n < 15_000 else n),
    "text": (pa.string(), lambda n: "the same text"),
    "large text": (pa.large_string(), lambda n: "x" * 50),
    "no text": (pa.string(), lambda n: None),
    "bool": (pa.bool_(), lambda n: True),
    "no bools": (pa.bool_(), lambda n: None),
    "decimal": (pa.decimal128(10, 2), lambda n: None),
    "vector": (pa.list_(pa.float32(), 3), lambda n: [1.0, 2.0, 3.0]),
    "no vectors": (pa.list_(pa.float32(), 3), lambda n: None),
    "no lists": (pa.list_(pa.int32()), lambda n: None),
    "empty lists": (pa.list_(pa.int32()), lambda n: []),
    "empty or no lists": (pa.list_(pa.string()), lambda n: [] if n % 2 else None),
    "lists of a number": (pa.list_(pa.int32()), lambda n: [4] * (n % 4)),
    "lists of nulls": (pa.list_(pa.string()), lambda n: [None] * (n % 4)),
    "struct": (STRUCT, lambda n: {"a": 1, "s": None}),
    "no structs": (STRUCT, lambda n: None),
    "structs and nulls": (STRUCT, lambda n: {"a": 3, "s": "q"} if n % 5 else None),
    "lists of structs": (pa.list_(STRUCT), lambda n: [{"a": 3, "s": "q"}] * (n % 3)),
    "maps": (pa.map_(pa.string(), pa.int32()), lambda n: [("k", 1)] * (n % 3)),
}


@pytest.mark.parametrize("writer", ["pylance", "alance"])
@pytest.mark.parametrize("version", ["2.1", "2.2"])
async def test_the_kernel_builds_rows_of_constant_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, writer: str
) -> None:
    table = pa.table(
        {
            name: pa.array([value(n) for n in range(ROWS)], arrow)
            for name, (arrow, value) in COLUMNS.items()
            if version != "2.1" or name != "maps"  # of which 2.1 has none
        }
    )
    uri = str(tmp_path / "table")
    if writer == "pylance":
        lance.write_dataset(table, uri, data_storage_version=version, max_rows_per_file=7000)
    else:
        await alance.write_dataset(table, uri, data_storage_version=version, max_rows_per_file=7000)
    rng = random.Random(5)
    async with alance.Session() as session:
        ds = await alance.dataset(uri, session=session)
        assert (await ds.to_table(offset=6000, limit=2500)).equals(table.slice(6000, 2500))
        for rows in ([1, 5, 6999, 7000, ROWS - 1], [3, 3, 2], rng.sample(range(ROWS), 3000)):
            assert (
                (await ds.take(rows)).combine_chunks().equals(table.take(rows).combine_chunks())
            ), len(rows)
    ds = await alance.dataset(uri)
    assert (await ds.to_table()).equals(table)


async def test_a_column_of_nulls_beside_columns_of_other_fragments(tmp_path: Path) -> None:
    """Appends leave out a column, which gets values later."""
    uri = str(tmp_path / "table")
    first = pa.table({"n": range(3000), "late": pa.nulls(3000, pa.string())})
    lance.write_dataset(first, uri, data_storage_version="2.1")
    second = pa.table({"n": range(3000, 6000), "late": [str(n) for n in range(3000, 6000)]})
    lance.write_dataset(second, uri, mode="append")
    lance.write_dataset(pa.table({"n": range(6000, 6100)}), uri, mode="append")
    ds = await alance.dataset(uri)
    rows = np.random.default_rng(7).choice(6100, 500, replace=False)
    taken = await ds.take(rows.tolist())
    assert taken["n"].to_pylist() == rows.tolist()
    assert taken["late"].to_pylist() == [
        str(row) if 3000 <= row < 6000 else None for row in rows.tolist()
    ]
    assert (await ds.to_table(filter="late IS NULL")).num_rows == 3100


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("value", [None, 5])
async def test_a_row_has_more_items_than_levels_can_count(
    tmp_path: Path, version: str, value: int | None
) -> None:
    lists = [[value] * 70_000, [], None, [value] * 3, [value] * (1 << 16)]
    table = pa.table({"lists": pa.array(lists, pa.list_(pa.int32()))})
    uri = str(tmp_path / "table")
    lance.write_dataset(table, uri, data_storage_version=version)
    ds = await alance.dataset(uri)
    assert (await ds.to_table()).equals(table)
    assert (await ds.take([4, 0, 3])).equals(table.take([4, 0, 3]))


@pytest.mark.parametrize("count", [33, 49, 65])
@pytest.mark.parametrize("num_rows", [100, 30_000])
async def test_the_only_bytes_are_those_behind_columns_of_nulls(
    tmp_path: Path, count: int, num_rows: int
) -> None:
    nulls = {f"c{number}": pa.nulls(num_rows, pa.int32()) for number in range(count)}
    numbers = np.random.default_rng(1).integers(0, 1 << 62, num_rows)
    table = pa.table({**nulls, "last": numbers})
    uri = str(tmp_path / "table")
    lance.write_dataset(table, uri, data_storage_version="2.1")
    async with alance.Session() as session:
        ds = await alance.dataset(uri, session=session)
        for row in range(50):
            assert (await ds.take([row])).equals(table.take([row]))


@pytest.mark.parametrize("order", [["r", "c"], ["c", "r"], ["r", "c", "d"], ["c", "r", "s", "d"]])
async def test_columns_of_nulls_are_parts_of_large_takes(tmp_path: Path, order: list[str]) -> None:
    numbers = np.random.default_rng(2)
    table = pa.table(
        {
            name: pa.nulls(200_000, pa.int32())
            if name in "cd"
            else numbers.integers(0, 1 << 62, 200_000)
            for name in order
        }
    )
    name = "".join(order) + ".lance"
    rows = np.sort(numbers.choice(200_000, 20_000, replace=False))
    with Lab(tmp_path) as lab:
        lance.write_dataset(table, lab.root / "lab" / name, data_storage_version="2.2")
        lab.rescan()
        async with opened_on(lab, "s3://lab/" + name) as ds:
            taken = await ds.take(rows)
    assert taken.combine_chunks().equals(table.take(rows).combine_chunks())


async def test_fragments_of_several_versions_are_taken_together(tmp_path: Path) -> None:
    def rows_of(fragment: int) -> pa.Table:
        texts = [f"{fragment}-{n} " * (2000 if fragment else 1) for n in range(200)]
        return pa.table({"s": texts, "id": range(200 * fragment, 200 * fragment + 200)})

    uri = str(tmp_path / "table")
    written = lance.write_dataset(rows_of(0), uri, data_storage_version="2.0")
    for fragment, version in ((1, "2.1"), (2, "2.0")):
        fragments = lance.fragment.write_fragments(
            rows_of(fragment), uri, data_storage_version=version, mode="append"
        )
        written = lance.LanceDataset.commit(
            uri, lance.LanceOperation.Append(fragments), read_version=written.version
        )
    table = pa.concat_tables([rows_of(fragment) for fragment in range(3)])
    ds = await alance.dataset(uri)
    for rows in ([205, 405], [405, 5, 205], list(range(0, 600, 7))):
        taken = await ds.take(rows)
        assert taken.combine_chunks().equals(table.take(rows).combine_chunks())
