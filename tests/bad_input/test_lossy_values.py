"""Python values of which a column's type would hold only a part are refused."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from alance import InvalidInputError, sync

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("s", pa.struct([("x", pa.int32()), ("deep", pa.list_(pa.int8()))])),
        ("tags", pa.list_(pa.string())),
        ("m", pa.map_(pa.string(), pa.int16())),
        ("v", pa.list_(pa.float32(), 2)),
    ]
)
ROW = {
    "id": 1,
    "s": {"x": 2, "deep": [3]},
    "tags": ["a"],
    "m": [("k", 4)],
    "v": [1.0, 2.0],
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lossy") / "t"
    sync.write_dataset([ROW], path, schema=SCHEMA)
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": 1.5}, "column 'id': 1.5 has a part that int64 does not hold"),
        ({"s": {"x": 0.25}}, "column 's': 0.25 has a part that int32 does not hold"),
        ({"s": {"deep": [1, 2.5]}}, "column 's': 2.5 has a part that int8 does not hold"),
        ({"s": {"deeep": [1]}}, "column 's': no member 'deeep', did you mean 'deep'?, expected"),
        ({"tags": "abc"}, "column 'tags': 'abc': expected a list, for list<"),
        ({"m": {"k": 1.5}}, "column 'm': 1.5 has a part that int16 does not hold"),
        ({"m": [("k", 1.5)]}, "column 'm': 1.5 has a part that int16 does not hold"),
    ],
    ids=str,
)
def test_no_part_of_a_value_is_dropped(table: Path, change: dict[str, Any], message: str) -> None:
    dataset = sync.dataset(table)
    row = ROW | change
    for data in ([ROW, row], {name: [value] for name, value in row.items()}):
        with pytest.raises(InvalidInputError) as caught:
            dataset.insert(data)
        assert str(caught.value).startswith(message)
    assert sync.dataset(table).version == dataset.version


@pytest.mark.parametrize(
    "change",
    [
        {"id": 2.0},
        {"s": None, "tags": None, "m": None, "v": None},
        {"s": {}, "tags": [], "m": {}},
        {"s": {"deep": [None, 1.0]}, "m": {"k": None}, "v": [0.5, 2]},
    ],
    ids=str,
)
def test_values_that_fit_are_kept_whole(table: Path, change: dict[str, Any]) -> None:
    row = ROW | change
    inserted = sync.dataset(table).insert([row]).to_table().slice(1)
    assert inserted.equals(pa.Table.from_pylist([row], SCHEMA))
    sync.dataset(table).restore(1)


def test_rows_of_a_new_schema_are_checked_as_well(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"column 'n': 0\.5 has a part that int8 does not"):
        sync.write_dataset([{"n": 0.5}], tmp_path / "t", schema=pa.schema([("n", pa.int8())]))


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (np.float32(1.5), pa.int64()),
        (Decimal("1.5"), pa.uint8()),
        (datetime(2026, 1, 2, 3), pa.date32()),
        (datetime(2026, 1, 2, 3, 4, 5, 6), pa.timestamp("s")),
        (datetime(2026, 1, 2, 3, 4, 5, 6), pa.timestamp("ms", "UTC")),
        (time(3, 4, 5, 6), pa.time32("ms")),
        (timedelta(microseconds=7), pa.duration("s")),
    ],
    ids=str,
)
def test_values_finer_than_the_type_are_refused(value: Any, type_: pa.DataType) -> None:
    schema = pa.schema([("c", type_), ("l", pa.list_(type_))])
    assert pa.array([value], type_)[0].as_py() is not None  # pyarrow cuts it
    for row in ({"c": value}, {"l": [None, value]}):
        with pytest.raises(InvalidInputError, match="has a part that"):
            sync.write_dataset([row], "memory://lossy", schema=schema)


def test_values_that_are_as_coarse_as_the_type_are_taken() -> None:
    row = {
        "n": np.float64(2.0),
        "d": datetime(2026, 1, 2),
        "t": datetime(2026, 1, 2, 3, 4, 5, 6000),
        "s": timedelta(seconds=7),
        "u": datetime(2026, 1, 2, 3, 4, 5, 6),
    }
    types = [pa.int8(), pa.date64(), pa.timestamp("ms"), pa.duration("s"), pa.timestamp("us")]
    schema = pa.schema(list(zip(row, types, strict=True)))
    table = sync.write_dataset(
        [row, dict.fromkeys(row)], "memory://coarse", schema=schema
    ).to_table()
    assert table.equals(pa.Table.from_pylist([row, dict.fromkeys(row)], schema))
