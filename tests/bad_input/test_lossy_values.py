"""Python values of which a column's type would hold only a part are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
        ({"id": 1.5}, "column 'id': 1.5 is not a whole number, expected int64"),
        ({"s": {"x": 0.25}}, "column 's': 0.25 is not a whole number, expected int32"),
        ({"s": {"deep": [1, 2.5]}}, "column 's': 2.5 is not a whole number, expected int8"),
        ({"s": {"deeep": [1]}}, "column 's': no member 'deeep', did you mean 'deep'?, expected"),
        ({"tags": "abc"}, "column 'tags': 'abc': expected a list, for list<"),
        ({"m": {"k": 1.5}}, "column 'm': 1.5 is not a whole number, expected int16"),
        ({"m": [("k", 1.5)]}, "column 'm': 1.5 is not a whole number, expected int16"),
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
    with pytest.raises(InvalidInputError, match=r"column 'n': 0\.5 is not a whole number"):
        sync.write_dataset([{"n": 0.5}], tmp_path / "t", schema=pa.schema([("n", pa.int8())]))
