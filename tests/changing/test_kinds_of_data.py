"""Kinds of data that users write: Python rows and columns, models, datasets, scans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pydantic
import pytest

import alance
import alance.sync as blocking
from alance.errors import InvalidInputError

if TYPE_CHECKING:
    from pathlib import Path


class Item(pydantic.BaseModel):
    number: int
    name: str | None = None


@pytest.mark.parametrize(
    "data",
    [
        [{"number": 1}, {"number": 2, "name": "b"}],
        ({"number": 1}, {"name": "b", "number": 2}),
        {"number": [1, 2], "name": [None, "b"]},
        [Item(number=1), Item(number=2, name="b")],
    ],
)
async def test_python_values_make_a_table(data: Any, tmp_path: Path) -> None:
    dataset = await alance.write_dataset(data, str(tmp_path / "t"))
    assert (await dataset.to_table(["number", "name"])).to_pydict() == {
        "number": [1, 2],
        "name": [None, "b"],
    }


async def test_arrays_of_more_dimensions_are_columns_of_vectors(tmp_path: Path) -> None:
    numbers = np.arange(24, dtype=np.float32)
    data = {"vector": numbers.reshape(4, 6), "patches": numbers.reshape(2, 3, 4).swapaxes(0, 2)}
    dataset = await alance.write_dataset(data, str(tmp_path / "t"))
    assert dataset.schema.field("vector").type == pa.list_(pa.float32(), 6)
    assert dataset.schema.field("patches").type == pa.list_(pa.list_(pa.float32(), 2), 3)
    rows = await dataset.to_table()
    assert {name: rows[name].to_pylist() for name in data} == {
        name: values.tolist() for name, values in data.items()
    }
    # The table's type of numbers is taken.
    dataset = await dataset.insert({name: values.astype(float) for name, values in data.items()})
    assert await dataset.count_rows() == 8
    near = await dataset.nearest("vector", data["vector"][2], 2)
    assert near["_distance"].to_pylist() == [0, 0]


@pytest.mark.parametrize(
    "data",
    [
        [{"vector": [1.0, 2.5]}, {"vector": None}, {"vector": [3.0, 4.0]}],
        {"vector": [[1.0, 2.5], None, [3.0, 4.0]]},
        pd.DataFrame({"vector": [[1.0, 2.5], None, [3.0, 4.0]]}),
    ],
)
async def test_lists_of_floats_of_one_length_are_vectors(
    data: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "alance"):
        dataset = await alance.write_dataset(data, tmp_path / "t")
    assert "column 'vector': lists of one length are written as" in caplog.text
    assert dataset.schema.field("vector").type == pa.list_(pa.float32(), 2)
    dataset = await dataset.insert([{"vector": [7.0, 8.0]}])
    near = await dataset.nearest("vector", [7, 8], 1)
    assert near["vector"].to_pylist() == [[7, 8]]
    with pytest.raises(InvalidInputError, match=r"column 'vector', row 1: .*size 3"):
        await dataset.insert([{"vector": [7.0, 8.0]}, {"vector": [1.0, 2.0, 3.0]}])


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("other", [[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float64())),
        ("vector", [[1.0, 2.0], [3.0]], pa.list_(pa.float64())),
        ("vector", [[1.0, 2.0, 3.0], [3.0]], pa.list_(pa.float64())),
        ("vector", [[1.0, None], [3.0, 4.0]], pa.list_(pa.float64())),
        ("embedding", [[1, 2], [3, 4]], pa.list_(pa.int64())),
        ("embedding", [[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2)),
    ],
)
async def test_other_lists_stay_lists(
    name: str, values: list[Any], expected: pa.DataType, tmp_path: Path
) -> None:
    dataset = await alance.write_dataset({name: values}, tmp_path / "t")
    assert dataset.schema.field(name).type == expected
    typed = pa.table({name: pa.array(values)})
    dataset = await alance.write_dataset(typed, tmp_path / "u")  # Arrow's types are kept
    assert dataset.schema.field(name).type == typed.schema.field(name).type


async def test_python_values_take_the_types_of_the_table(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("number", pa.int16()),
            ("vector", pa.list_(pa.float32(), 2)),
            ("tags", pa.list_(pa.string())),
        ]
    )
    uri = str(tmp_path / "t")
    dataset = await alance.write_dataset(schema.empty_table(), uri)
    dataset = await dataset.insert([{"number": 1, "vector": [1, 2]}, {"tags": ["x"]}])
    dataset = await alance.write_dataset({"vector": [[3, 4]]}, uri, mode="append")
    dataset = (
        await dataset.merge_insert("number")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute([{"number": 1, "vector": [9, 9], "tags": []}])
    )
    assert dataset.schema == schema
    rows = sorted((await dataset.to_table()).to_pylist(), key=str)
    assert rows == sorted(
        [
            {"number": 1, "vector": [9.0, 9.0], "tags": []},
            {"number": None, "vector": None, "tags": ["x"]},
            {"number": None, "vector": [3.0, 4.0], "tags": None},
        ],
        key=str,
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([{"number": "x"}], "column 'number'"),
        ([{"number": 1, "other": 2}], "'other'"),
        ({"number": [1, 2], "name": ["x"]}, "length"),
        ([{"number": 1}, 3], "list of rows with int"),
        ({1: [2]}, "column 1: expected a name"),
        ("number", "data of type str: expected a Table"),
        (pl.Series("number", [1]), "data of type Series: expected a Table"),
        (pa.chunked_array([[1]]), "data of type ChunkedArray: expected a Table"),
        (pa.Table, "data of Table, a class: expected a Table"),
        (
            np.arange(2),
            "an iterable of int64: expected dicts, Tables or RecordBatches; an array is a column",
        ),
        (({"x": n} for n in range(2)), "an iterable of dict: .*; a list of dicts is accepted$"),
    ],
)
async def test_values_that_make_no_rows_of_the_table_are_refused(
    data: Any, message: str, tmp_path: Path
) -> None:
    dataset = await alance.write_dataset({"number": [1], "name": ["x"]}, str(tmp_path / "t"))
    with pytest.raises(InvalidInputError, match=message):
        await dataset.insert(data)
    assert (await dataset.checkout_latest()).version == dataset.version


async def test_datasets_and_scans_are_written(tmp_path: Path) -> None:
    table = pa.table({"number": range(10)}).replace_schema_metadata({"k": "v"})
    first = await alance.write_dataset(table, str(tmp_path / "1"), max_rows_per_file=4)
    second = await alance.write_dataset(first, str(tmp_path / "2"))
    assert (await second.to_table()).equals(table)
    assert second.schema.metadata == {b"k": b"v"}
    doubled = first.scanner({"twice": "number * 2"}, filter="number > 7")
    third = await alance.write_dataset(doubled, str(tmp_path / "3"))
    assert (await third.to_table()).to_pydict() == {"twice": [16, 18]}
    nothing = first.scanner({"twice": "number * 2"}, filter="number > 70")
    fourth = await alance.write_dataset(nothing, str(tmp_path / "4"))
    assert fourth.schema == pa.schema([("twice", pa.int64())])
    assert (await second.insert(first.scanner(limit=1))).version == 2


@pytest.mark.parametrize("version", ["2.1", "2.2"])
async def test_a_copied_dataset_keeps_its_blobs(version: str, tmp_path: Path) -> None:
    field = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    table = pa.table([[b"x" * 100, None, b""]], schema=pa.schema([field]))
    first = await alance.write_dataset(table, str(tmp_path / "1"), data_storage_version=version)
    second = await alance.write_dataset(first, str(tmp_path / "2"), data_storage_version=version)
    assert second.schema.field("blob").type == first.schema.field("blob").type
    rows = await second.scanner(blob_handling="all_binary").to_table()
    assert rows["blob"].to_pylist() == table["blob"].to_pylist()


def test_blocking_datasets_and_scans_are_written(tmp_path: Path) -> None:
    first = blocking.write_dataset({"number": [1, 2, 3]}, str(tmp_path / "1"))
    second = blocking.write_dataset(first, str(tmp_path / "2"))
    third = blocking.write_dataset(second.scanner(filter="number > 1"), str(tmp_path / "3"))
    assert third.to_table()["number"].to_pylist() == [2, 3]
