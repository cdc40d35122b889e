"""Comparisons of whole numbers with literals, and those of one column that meet in one range."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.expr.predicate import parse_filter

if TYPE_CHECKING:
    from collections.abc import Callable

COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
INTEGERS = [
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.uint8(),
    pa.uint16(),
    pa.uint32(),
    pa.uint64(),
]
TERMS = st.tuples(st.sampled_from([*COMPARISONS]), st.integers(-3, 6))


def answers(text: str, batch: pa.RecordBatch) -> list[bool | None]:
    mask: list[bool | None] = parse_filter(text, batch.schema).mask(batch).to_pylist()
    return mask


@given(
    kind=st.sampled_from(INTEGERS),
    rows=st.lists(st.integers(0, 4) | st.none(), min_size=1, max_size=100),
    first=st.integers(0, 40),
    terms=st.lists(TERMS, min_size=1, max_size=4),
)
def test_ranges_are_three_valued(
    kind: pa.DataType, rows: list[int | None], first: int, terms: list[tuple[str, int]]
) -> None:
    """Arrays begin anywhere in their buffers and have nulls; the range may be empty."""
    batch = pa.record_batch({"n": pa.array(rows, kind)}).slice(first)
    text = " AND ".join(f"n {op} {number}" for op, number in terms)
    expected = [
        None if row is None else all(COMPARISONS[op](row, number) for op, number in terms)
        for row in rows[first:]
    ]
    assert answers(text, batch) == expected
    text = " OR ".join(f"n {op} {number}" for op, number in terms)
    expected = [
        None if row is None else any(COMPARISONS[op](row, number) for op, number in terms)
        for row in rows[first:]
    ]
    assert answers(text, batch) == expected


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_the_ends_of_a_type_are_compared(kind: pa.DataType) -> None:
    about = np.iinfo(kind.to_pandas_dtype())
    low, high = int(about.min), int(about.max)
    rows = [low, low + 1, 1, high - 1, high, None]
    batch = pa.record_batch({"n": pa.array(rows, kind)})
    for op, compare in COMPARISONS.items():
        for number in (low - 1, low, low + 1, high - 1, high, high + 1):
            expected = [None if row is None else compare(row, number) for row in rows]
            assert answers(f"n {op} {number}", batch) == expected, (op, number)
    assert answers(f"n >= {low} AND n <= {high}", batch) == [True] * 5 + [None]
    assert answers(f"n > {high - 1} AND n < {low + 1}", batch) == [False] * 5 + [None]


def test_columns_keep_their_own_ranges() -> None:
    batch = pa.record_batch(
        {
            "a": [1, 2, 3, None, 5],
            "b": pa.array([5, 4, 3, 2, 1], pa.int16()),
            "s": pa.array([{"a": n} for n in range(5)]),
        }
    )
    text = "a > 1 AND b >= 2 AND a <= 3 AND s.a != 2 AND b < 5 AND s.a >= 0"
    assert answers(text, batch) == [False, True, False, None, False]
    assert answers("a > 1 AND a % 2 = 1 AND a < 5 AND NOT a = 2", batch) == [
        False,
        False,
        True,
        None,
        False,
    ]


@pytest.mark.parametrize(
    "kind",
    [
        pa.date32(),
        pa.date64(),
        *map(pa.timestamp, ("s", "ms", "us", "ns")),
        pa.timestamp("us", "Europe/Berlin"),
    ],
    ids=str,
)
def test_moments_are_compared_as_they_are_stored(kind: pa.DataType) -> None:
    days = [datetime.date(1969, 12, 30) + datetime.timedelta(n) for n in range(5)]
    zone = "UTC" if pa.types.is_timestamp(kind) and kind.tz else None
    moments = pa.array(days, pa.date32()).cast(pa.timestamp("us", zone) if zone else kind)
    batch = pa.record_batch({"d": moments.cast(kind)})
    suffix = "T00:00:00Z" if zone else ""
    text = f"d >= '1969-12-31{suffix}' AND d < '1970-01-02{suffix}'"
    assert answers(text, batch) == [False, True, True, False, False]


def test_truth_values_are_what_they_are() -> None:
    batch = pa.record_batch({"b": [True, False, None, True]}).slice(1)
    for text, expected in (
        ("b = true", [False, None, True]),
        ("b != true", [True, None, False]),
        ("b = false", [True, None, False]),
        ("false != b", [False, None, True]),
        ("b > false", [False, None, True]),
        ("b = true AND b != false", [False, None, True]),
    ):
        assert answers(text, batch) == expected, text
