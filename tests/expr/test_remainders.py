"""Remainders of integers: towards zero of every width, beside Python's and pylance's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance.sync
from alance.expr.arithmetic import remainder

if TYPE_CHECKING:
    from pathlib import Path

TYPES = [pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.int64(), pa.uint64()]
DIVISORS = [1, 2, 3, 7, 100, -1, -3, -100]


def bounds(type_: pa.DataType) -> tuple[int, int]:
    limits = np.iinfo(type_.to_pandas_dtype())
    return int(limits.min), int(limits.max)


def numbers(type_: pa.DataType) -> pa.Array:
    low, high = bounds(type_)
    values = [low, high, 0, 1, 5, None, low + 1, high - 1, 100, None, 7]
    return pa.array([*values, *([-1, -7, -100] if low else [])], type_)


@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("is_cut", [False, True])
def test_a_remainder_has_the_sign_of_what_is_divided(type_: pa.DataType, is_cut: bool) -> None:
    low, high = bounds(type_)
    values = numbers(type_).slice(3) if is_cut else numbers(type_)
    for divisor in [d for d in (*DIVISORS, low, high, high // 2 + 1) if d and low <= d <= high]:
        remainders = remainder(values, pa.scalar(divisor, type_)).to_pylist()
        expected = [
            None if v is None else abs(v) % abs(divisor) * (-1 if v < 0 else 1)
            for v in values.to_pylist()
        ]
        assert remainders == expected, divisor


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_a_remainder_by_zero_is_an_error_and_by_null_null(type_: pa.DataType) -> None:
    with pytest.raises(pa.ArrowInvalid, match="divide by zero"):
        remainder(numbers(type_), pa.scalar(0, type_))
    assert remainder(numbers(type_), pa.scalar(None, type_)).null_count == len(numbers(type_))


@pytest.mark.parametrize("divisor", ["3", "-3", "100", "1", "7"])
def test_remainders_select_the_rows_that_pylance_selects(tmp_path: Path, divisor: str) -> None:
    path = str(tmp_path / "t")
    rows = pa.table(
        {"x": numbers(pa.int64()), "y": numbers(pa.int64()).take(list(range(13, -1, -1)))}
    )
    theirs = lance.write_dataset(rows, path)
    ours = alance.sync.dataset(path)
    for where in [f"x % {divisor} = 1", f"x % {divisor} < 0", f"(x % {divisor}) = (y % 5)"]:
        assert ours.to_table(filter=where).equals(theirs.to_table(filter=where)), where
