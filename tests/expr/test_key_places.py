"""Keys of several columns are looked up among rows by all of their columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from alance.expr.keys import places_of

ROWS = 1 << 16


@pytest.mark.parametrize("num_columns", [2, 4, 5, 9])
def test_a_key_that_differs_in_one_column_has_no_row(num_columns: int) -> None:
    # Beyond four columns, 2 ** 16 values of each have more combinations than 64 bits have numbers.
    rows = [pa.array(np.arange(ROWS))] * num_columns
    numbers = np.full((num_columns + 1, num_columns), 3)
    numbers[np.arange(num_columns), np.arange(num_columns)] = 7
    places, is_repeated = places_of([pa.array(column) for column in numbers.T], rows)
    assert places.tolist() == [-1] * num_columns + [3]
    assert not is_repeated.any()


def test_keys_of_several_rows_are_marked_and_nulls_have_no_row() -> None:
    rows = [pa.array([1, 1, 2, 1]), pa.array(["a", "b", "a", "a"])]
    keys = [pa.array([1, 1, 2, None]), pa.array(["a", "b", "b", "a"])]
    places, is_repeated = places_of(keys, rows)
    assert places.tolist() == [0, 1, -1, -1]
    assert is_repeated.tolist() == [True, False, False, False]
