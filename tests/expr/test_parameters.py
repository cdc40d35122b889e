"""Values for the parameters of a filter mean what they would as literals of the text."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]  # it has no types
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import InvalidInputError
from alance.expr import parse_filter
from alance.expr.sql.lexical import LONG_LIST

MOMENT = dt.datetime(2020, 1, 1, 1, 2, 3, 5)
INSTANT = dt.datetime(2020, 1, 1, 3, tzinfo=dt.timezone(dt.timedelta(hours=2)))
MOST = (1 << 64) - 1
# By column: a value, as Python has it, and the column with it, another value and a null.
VALUES: dict[str, tuple[Any, pa.Array]] = {
    "i8": (1, pa.array([1, 2, None], pa.int8())),
    "i64": ((1 << 63) - 1, pa.array([(1 << 63) - 1, 0, None])),
    "u64": (MOST, pa.array([MOST, 0, None], pa.uint64())),
    "f64": (1.5, pa.array([1.5, 2.5, None])),
    "nan": (float("nan"), pa.array([float("nan"), 2.5, None])),
    "f32": (0.1, pa.array([0.1, 0.2, None], pa.float32())),
    "dec": (Decimal("1.1"), pa.array([Decimal("1.10"), Decimal(2), None], pa.decimal128(9, 2))),
    "text": ("it's", pa.array(["it's", "", None])),
    "large": ("it's", pa.array(["it's", "", None], pa.large_string())),
    "words": ("x", pa.array(["x", "y", None]).dictionary_encode()),
    "bytes": (b"\x00'", pa.array([b"\x00'", b"", None])),
    "uuid": (uuid.UUID(int=7), pa.array([uuid.UUID(int=n).bytes for n in (7, 8)] + [None])),
    "uuid16": (
        uuid.UUID(int=7),
        pa.array([uuid.UUID(int=n).bytes for n in (7, 8)] + [None], pa.binary(16)),
    ),
    "day": (dt.date(2020, 1, 1), pa.array([dt.date(2020, 1, 1), dt.date(2021, 1, 1), None])),
    "moment": (MOMENT, pa.array([MOMENT, dt.datetime(2021, 1, 1), None])),
    "instant": (
        INSTANT,
        pa.array([INSTANT, MOMENT.replace(tzinfo=dt.UTC), None]).cast(pa.timestamp("us", "UTC")),
    ),
    "nanos": (pd.Timestamp(17), pa.array([17, 18, None], pa.timestamp("ns"))),
    "numpy": (np.datetime64(17, "ns"), pa.array([17, 18, None], pa.timestamp("ns"))),
    "hour": (dt.time(4, 5), pa.array([dt.time(4, 5), dt.time(1), None])),
    "span": (dt.timedelta(days=1), pa.array([dt.timedelta(days=1), dt.timedelta(0), None])),
    "yes": (True, pa.array([True, False, None])),
}
BATCH = pa.RecordBatch.from_pydict({name: column for name, (_, column) in VALUES.items()})


def rows(text: str, params: Any) -> list[bool | None]:
    answers: list[bool | None] = parse_filter(text, BATCH.schema, params).mask(BATCH).to_pylist()
    return answers


@pytest.mark.parametrize("name", VALUES)
def test_each_kind_of_value_meets_its_column(name: str) -> None:
    value, column = VALUES[name]
    for params in ([value], [column[0]]):
        assert rows(f"{name} = ?", params) == [True, False, None]
        assert rows(f"? != {name}", params) == [False, True, None]
        assert rows(f"{name} IN (?)", params) == [True, False, None]
    assert rows(f"{name} between :v and :v", {"v": value}) == [True, False, None]
    assert rows(f"{name} = :v or not {name} = :v", {"v": value}) == [True, True, None]


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("count", [1, LONG_LIST + 1])
def test_lists_stand_after_in(name: str, count: int) -> None:
    value, column = VALUES[name]
    arrow = pa.concat_arrays([pa.concat_arrays([column[:1]] * count)])
    for values in ([value] * count, (value,) * count, arrow, pa.chunked_array([arrow])):
        assert rows(f"{name} IN ?", [values]) == [True, False, None]
        assert rows(f"{name} in (?)", [values]) == [True, False, None]
        assert rows(f"{name} NOT IN :all", {"all": values}) == [False, True, None]
    # A null among them: what is not among the others may be it.
    assert rows(f"{name} in ?", [[value] * count + [None]]) == [True, None, None]
    assert rows(f"{name} in ?", [column]) == [True, True, None]
    assert rows(f"{name} in ?", [[]]) == [False, False, None]


@pytest.mark.parametrize("name", VALUES)
def test_none_is_null(name: str) -> None:
    assert rows(f"{name} = ?", [None]) == [None] * 3
    assert rows(f"{name} != ?", [None]) == [None] * 3
    assert rows(f"{name} IS NOT DISTINCT FROM ?", [None]) == [False, False, True]


@given(st.lists(st.one_of(st.integers(-200, 200), st.floats(-200, 200), st.none()), max_size=80))
def test_a_list_is_as_many_values(values: list[float | None]) -> None:
    alone = " or ".join(["i8 = ?"] * len(values)) or "i8 != i8"
    assert rows("i8 in ?", [values]) == rows(alone, values)
    inside = f"i8 in ({', '.join('?' * len(values))})"
    assert not values or rows(inside, values) == rows(alone, values)


@given(st.floats(width=32) | st.integers() | st.decimals(allow_nan=False, allow_infinity=False))
def test_a_number_is_the_literal_of_its_digits(value: Any) -> None:
    text = format(value, "f") if isinstance(value, Decimal) else repr(value)
    if text in ("nan", "inf", "-inf"):
        return
    for name in ("i8", "u64", "f64", "f32", "dec"):
        for op in ("=", "<", ">="):
            assert rows(f"{name} {op} ?", [value]) == rows(f"{name} {op} {text}", None)


def test_values_go_by_place_in_the_text() -> None:
    text = "case when i8 = ? then text = ? else i8 between ? and ? end"
    assert rows(text, [1, "it's", 3, 4]) == [True, False, None]
    assert rows(text, [1, "", 2, 4]) == [False, True, None]


def test_values_are_no_sql() -> None:
    assert rows("text = ?", ["' OR 1=1 --"]) == [False, False, None]
    assert rows("'?' = ? and text = ? or text = ':a'", ["?", "it's"]) == [True, False, None]


def test_words_of_sql_may_be_names() -> None:
    assert rows("i8 > :from and i8 < :limit", {"from": 0, "limit": 2}) == [True, False, None]
    assert rows("i8 = :i8::int", {"i8": 1}) == [True, False, None]


def test_other_places_take_them_too() -> None:
    assert rows("text like ?", ["it%"]) == [True, False, None]
    assert rows("cast(? as date) = day", ["2020-01-01"]) == [True, False, None]
    assert rows("i8 + ? = -?", [1, -2]) == [True, False, None]
    assert rows("coalesce(i8, ?) = 2", [2]) == [False, True, True]


@pytest.mark.parametrize(
    ("text", "params", "message"),
    [
        ("i8 = ?", None, "params: 0 values, the filter has 1 ?"),
        ("i8 = ?", [1, 2], "params: 2 values, the filter has 1 ?"),
        ("i8 = 1", [1], "params: 1 value, the filter has 0 ?"),
        ("i8 = :a", {"b": 1}, "line 1, column 6: no value in params for :a"),
        ("i8 = :a", {"a": 1, "b": 1}, "params: 'b', the filter has no such name"),
        ("i8 = :a", [1], "params: expected values by name, such as 'a'"),
        ("i8 = ?", {"a": 1}, "params: expected a list of 1 value, by place"),
        ("i8 = ? or i8 = :a", [1], r"parameters both as \? and as :a"),
        ("i8 = ?", ["x"], "type mismatch: int8 = string"),
        ("i8 in ?", [["x"] * 99], "type mismatch: int8"),
        ("i8 = ?", [[1]], "line 1, column 6: parameter 1: a list of values; only IN takes a list"),
        ("i8 in :a", {"a": 1}, "parameter :a: expected a list of values, found int"),
        ("i8 = ?", [object()], "parameter 1: a value of type object"),
        ("i8 in ?", [[{}]], "parameter 1: a value of type dict"),
        ("i8 in ?", [np.ones((2, 2))], "parameter 1: a value of type ndarray"),
        ("i8 = ?", [Decimal("nan")], "parameter 1: a value of type Decimal"),
        ("text = ?", ["\ud800"], "parameter 1: .*surrogates not allowed"),
        ("text in ?", [["\ud800"] * 99], "parameter 1: .*surrogates not allowed"),
        ("i8 = ?1", [1], "syntax error"),
        ("i8 = : a", {"a": 1}, "syntax error"),
    ],
)
def test_mistakes_are_told(text: str, params: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message.replace("has 1 ?", r"has 1 \?")):
        rows(text, params)
