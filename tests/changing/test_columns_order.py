"""Columns and members of structs that change places: alance and pylance read the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [
    {"a": i, "s": {"x": i, "y": f"y{i}", "z": i / 2}, "b": f"b{i}", "l": [{"p": i, "q": "q"}]}
    for i in range(4)
]


def in_new_order(row: dict[str, Any]) -> dict[str, Any]:
    members = {name: row["s"][name] for name in "zxy"}
    items = [{"q": item["q"], "p": item["p"]} for item in row["l"]]
    return {"b": row["b"], "l": items, "a": row["a"], "s": members}


async def check(path: Path, rows: list[dict[str, Any]]) -> None:
    dataset = await alance.dataset(path)
    await dataset.validate()
    for table in (await dataset.to_table(), lance.dataset(str(path)).to_table()):
        assert table.schema.equals(dataset.schema)
        assert str(table.to_pylist()) == str(rows)  # members of dicts in their order, too
    filtered = await dataset.to_table(columns=["s", "a"], filter="s.x = 3")
    assert filtered.to_pylist() == [
        {"s": row["s"], "a": row["a"]} for row in rows if row["s"]["x"] == 3
    ]
    assert (await dataset.take([2])).to_pylist() == [rows[2]]


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
async def test_columns_change_places_in_the_schema_alone(tmp_path: Path, version: str) -> None:
    path = tmp_path / "t"
    dataset = await alance.write_dataset(
        pa.Table.from_pylist(ROWS), path, data_storage_version=version
    )
    files = {file.name for file in (path / "data").iterdir()}
    dataset = await dataset.alter_columns(
        {"path": "b", "after": ""},
        {"path": "l", "after": "b"},
        {"path": "s.z", "after": ""},
        {"path": "l.item.p", "after": "q"},
    )
    assert dataset.version == 2
    assert files == {file.name for file in (path / "data").iterdir()}
    rows = [in_new_order(row) for row in ROWS]
    await check(path, rows)
    # Rows come in either order, from both writers.
    await alance.write_dataset(pa.Table.from_pylist(ROWS[:1]), path, mode="append")
    schema = lance.dataset(str(path)).schema
    lance.write_dataset(pa.Table.from_pylist(rows[:1], schema), str(path), mode="append")
    rows += [rows[0], rows[0]]
    await check(path, rows)
    dataset = await alance.dataset(path)
    await dataset.optimize.compact_files()
    await check(path, rows)


async def test_a_column_is_renamed_cast_and_moved_at_once(tmp_path: Path) -> None:
    dataset = await alance.write_dataset({"a": [1], "b": [2], "c": [3]}, tmp_path / "t")
    dataset = await dataset.alter_columns(
        {"path": "c", "after": "a", "name": "d", "data_type": pa.int32()},
        {"path": "a", "name": "e"},
    )
    table = await dataset.to_table()
    assert (table.to_pylist(), table.schema.names) == ([{"e": 1, "d": 3, "b": 2}], ["e", "d", "b"])
    assert table.schema.field("d").type == pa.int32()
