"""Keys of rows: joined columns are taken apart again."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels
from alance.format.keys import KeyColumns, key_values

ROWS = st.lists(st.tuples(st.integers(-3, 3), st.text("ab\0", max_size=9), st.booleans()))
TYPES = {"number": pa.int32(), "text": pa.string(), "flag": pa.bool_()}


@pytest.mark.parametrize(
    "names",
    [
        ["number"],
        ["text"],
        ["number", "flag"],
        ["number", "number", "flag"],
        ["number", "text", "flag"],
        ["text", "text"],
    ],
)
@given(rows=ROWS, others=ROWS)
def test_joined_columns_are_taken_apart(
    names: list[str], rows: list[tuple[int, str, bool]], others: list[tuple[int, str, bool]]
) -> None:
    def columns(rows: list[tuple[int, str, bool]]) -> list[pa.Array]:
        values = dict(zip(TYPES, zip(*rows, strict=True), strict=True)) if rows else {}
        return [pa.array(values.get(name, ()), TYPES[name]) for name in names]

    keys = [*zip(*(column.to_pylist() for column in columns(rows)), strict=True)]
    joined = key_values(columns(rows))
    apart = KeyColumns.apart(joined, KeyColumns.of(columns([])).widths)
    table = _kernels.KeyTable(apart.plain(), 1)
    assert len(table) == len(set(keys))
    target = columns([*rows, *others])
    places, numbers = table.find(KeyColumns.of(target).plain())
    rows_of_target = [*zip(*(column.to_pylist() for column in target), strict=True)]
    assert places.tolist() == [place for place, key in enumerate(rows_of_target) if key in keys]
    distinct = list(dict.fromkeys(keys))
    assert [distinct[number] for number in numbers] == [rows_of_target[place] for place in places]


def test_slices_of_joined_columns_are_taken_apart() -> None:
    columns = [pa.array(["a", "bc", ""]), pa.array([1, 2, 3], pa.int64())]
    joined = key_values(columns).slice(1)
    apart = KeyColumns.apart(joined, KeyColumns.of(columns).widths)
    table = _kernels.KeyTable(apart.plain(), 1)
    places, numbers = table.find(KeyColumns.of(columns).plain())
    assert (places.tolist(), numbers.tolist()) == ([1, 2], [0, 1])
    assert np.array_equal(apart.widths, [0, 8])
