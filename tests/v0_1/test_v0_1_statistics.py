"""Bounds of batches hold for all of their values."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from alance.format.schema import Schema
from alance.format.v0_1.encode import Gathered

LONG = st.builds(lambda head, tail, count: head + tail * count, st.text(), st.text(), st.just(40))


def gathered(array: pa.Array) -> tuple[int, Any, Any]:
    (field,) = Schema.from_arrow(pa.schema([("c", array.type)])).fields
    result = Gathered(field)
    result.add(array)
    return result.null_counts[0], result.least[0], result.most[0]


@given(st.lists(st.none() | st.text() | LONG, min_size=1))
def test_bounds_of_texts_hold_for_all_values(values: list[str | None]) -> None:
    nulls, least, most = gathered(pa.array(values, pa.string()))
    assert nulls == values.count(None)
    check_bytes([value.encode() for value in values if value is not None], least, most)
    least.decode()
    most.decode()


@given(st.lists(st.none() | st.binary(max_size=200) | st.just(b"\xff" * 80), min_size=1))
def test_bounds_of_bytes_hold_for_all_values(values: list[bytes | None]) -> None:
    nulls, least, most = gathered(pa.array(values, pa.large_binary()))
    assert nulls == values.count(None)
    check_bytes([value for value in values if value is not None], least, most)


def check_bytes(values: list[bytes], least: bytes, most: bytes) -> None:
    """An empty bound says nothing."""
    assert len(least) <= 64
    assert len(most) <= 68
    for value in values:
        assert least <= value
        assert value <= most or most == b""


@given(st.lists(st.none() | st.floats(width=32), min_size=1))
def test_bounds_of_floats_hold_for_all_values(values: list[float | None]) -> None:
    _, least, most = gathered(pa.array(values, pa.float32()))
    sample = [value for value in values if value is not None and not math.isnan(value)]
    if not sample:
        assert (least, most) == (-math.inf, math.inf)
        return
    assert (least, most) == (min(sample), max(sample))
    if least == 0:
        assert math.copysign(1, least) == -1
    if most == 0:
        assert math.copysign(1, most) == 1


@given(st.lists(st.none() | st.integers(-128, 127), min_size=1))
def test_bounds_of_integers_hold_for_all_values(values: list[int | None]) -> None:
    nulls, least, most = gathered(pa.array(values, pa.int8()))
    sample = [value for value in values if value is not None]
    assert nulls == len(values) - len(sample)
    assert (least, most) == ((min(sample), max(sample)) if sample else (-128, 127))
