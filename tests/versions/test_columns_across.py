"""Columns as one version names them, read in another, for readers that follow a table."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from alance.distributed import ColumnsAcross
from alance.errors import InvalidInputError

if TYPE_CHECKING:
    from pathlib import Path

FIRST = pa.table({"id": [1, 2], "x": ["a", "b"], "s": [{"a": 1, "b": 2}, None]})


async def rows(
    reference: alance.Dataset, dataset: alance.Dataset, *names: str
) -> list[dict[str, Any]]:
    columns = pickle.loads(pickle.dumps(ColumnsAcross.of(reference, dataset, names)))
    table = await dataset.to_table(list(columns.names))
    batches = [columns.rows(batch) for batch in table.to_batches()]
    return pa.Table.from_batches(batches).to_pylist()


async def test_renamed_columns_and_members_keep_their_values_and_new_ones_are_null(
    tmp_path: Path,
) -> None:
    lance.write_dataset(FIRST, tmp_path / "t")
    table = lance.dataset(tmp_path / "t")
    table.alter_columns({"path": "x", "name": "y"}, {"path": "s.a", "name": "c"})
    table.add_columns({"x": "id * 10"})
    old, new = await alance.dataset(tmp_path / "t", version=1), await alance.dataset(tmp_path / "t")
    assert await rows(new, old, "id", "y", "s", "x") == [
        {"id": 1, "y": "a", "s": {"c": 1, "b": 2}, "x": None},
        {"id": 2, "y": "b", "s": None, "x": None},
    ]
    assert await rows(old, new, "x", "s", "_rowid") == [
        {"x": "a", "s": {"a": 1, "b": 2}, "_rowid": 0},
        {"x": "b", "s": None, "_rowid": 1},
    ]
    assert await rows(new, old, "x") == [{"x": None}, {"x": None}]
    assert await rows(new, new, "x", "y") == [{"x": 10, "y": "a"}, {"x": 20, "y": "b"}]


async def test_a_column_of_another_type_or_of_a_table_made_anew_is_that_of_its_name(
    tmp_path: Path,
) -> None:
    dataset = await alance.write_dataset(FIRST.select(["x", "id"]), tmp_path / "t")
    after = await dataset.alter_columns({"path": "id", "data_type": pa.float64()})
    assert await rows(dataset, after, "id") == [{"id": 1.0}, {"id": 2.0}]
    assert await rows(after, dataset, "id") == [{"id": 1}, {"id": 2}]


async def test_a_column_that_was_dropped_is_named(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(FIRST, tmp_path / "t")
    after = await dataset.drop_columns(["x"])
    with pytest.raises(InvalidInputError, match="column 'x': version 2 has no such column"):
        ColumnsAcross.of(dataset, after, ["id", "x"])
