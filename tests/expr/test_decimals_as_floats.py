"""A decimal becomes the float that is nearest to it, as Python's `float` has it."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import alance
from alance.expr.casts import to_floats

if TYPE_CHECKING:
    from pathlib import Path

TYPES = st.one_of(
    st.builds(pa.decimal128, st.just(38), st.integers(-3, 38)),
    st.builds(pa.decimal256, st.just(76), st.integers(-3, 76)),
)
SMALL = st.integers(-(10**16), 10**16)


@given(st.data(), TYPES)
def test_as_python_has_them(data: st.DataObject, type_: pa.DataType) -> None:
    digits = 10**type_.precision - 1
    numbers = st.none() | (SMALL if data.draw(st.booleans()) else st.integers(-digits, digits))
    wholes = data.draw(st.lists(numbers, max_size=20))
    decimals = [None if n is None else Decimal(f"{n}e{-type_.scale}") for n in wholes]
    values = pa.array([None, *decimals], type_)[1:]  # of a slice, too
    floats = [None if number is None else float(number) for number in decimals]
    assert to_floats(values, pa.float64()).to_pylist() == floats


@pytest.mark.parametrize("type_", [pa.decimal128(20, 5), pa.decimal256(60, 5)], ids=str)
async def test_a_decimal_beside_a_literal(tmp_path: Path, type_: pa.DataType) -> None:
    numbers = [Decimal("1.5"), Decimal(12), None, Decimal("0.1")]
    dataset = await alance.write_dataset({"d": pa.array(numbers, type_)}, tmp_path / "t")
    for condition, expected in {
        "coalesce(d, 0.25) = 1.5": 1,
        "coalesce(d, 0.0014) = 12": 1,
        "cast(d as double) = cast('0.1' as double)": 1,
        "case when d is null then 1.5 else d end = 1.5": 2,
    }.items():
        assert await dataset.count_rows(condition) == expected, condition
