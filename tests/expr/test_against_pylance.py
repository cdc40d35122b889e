"""Filters answer as pylance answers them, over one small table of every kind of column."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alance.expr import parse_filter, parse_projection, predicate_from_arrow

if TYPE_CHECKING:
    from pathlib import Path

NAN, INF = float("nan"), float("inf")
TABLE = pa.table(
    {
        "i": pa.array([1, 2, None, -4, 5, 0, 7, 127], pa.int32()),
        "t": pa.array([1, 2, None, -4, 5, 0, 7, 127], pa.int8()),
        "u": pa.array([1, 2, None, 4, 5, 0, 7, 1 << 63], pa.uint64()),
        "f": pa.array([1.5, NAN, None, -2.0, INF, 0.0, -0.0, 1e300], pa.float64()),
        "g": pa.array([1.5, NAN, None, -2.0, INF, 0.0, -0.0, 0.1], pa.float32()),
        "s": ["x", "Yes", "abc", None, "", "a%c", "äß", "x y"],
        "b": [True, False, None, True, False, True, None, False],
        "d": pa.array([dt.date(1993, 1, 1 + n) if n != 2 else None for n in range(8)]),
        "m": pa.array(
            [dt.datetime(2020, 1, 1, n, 30, 5, 123456) if n != 3 else None for n in range(8)],
            pa.timestamp("us"),
        ),
        "q": pa.array([decimal.Decimal(n * 5) / 4 for n in range(7)] + [None], pa.decimal128(9, 2)),
        "st": [{"x": 1, "y": "p"}, {"x": None, "y": "q"}, None, *[{"x": 5, "y": "r"}] * 5],
        "l": [[1, 2], [], None, [3, None], [1], [7], [8], [9]],
        "a b": range(8),
    }
)

FILTERS = [
    *["i = 1", "i != 1", "i <> 2", "i < 2", "i <= 2", "i >= -4", "1 < i", "i = i"],
    *["t = 127", "u > 9223372036854775807", "u = 4", "i = u", "t < f"],
    *["f > 1", "f < 2.5", "f = 0.0", "f = 0", "f != 1.5", "isnan(f)", "g = 0.1"],
    *["s = 'x'", "s < 'b'", "s like '%c'", "s like 'a\\%c'", "s not like '%x%'", "s ilike 'YES'"],
    *["s like '_'", "s in ('x', 'abc')", "s not in ('x')", "s is null", "s is not null"],
    *["b", "not b", "b = true", "b is true", "b is not true", "b is false", "b or i > 1"],
    *["b and i > 1", "b or null", "i in (1, 2, null)", "i not in (1, null)", "i in (1, 5, 9)"],
    *["i between 1 and 5", "i not between 1 and 5", "d between date '1993-01-02' and d"],
    *["d = date '1993-01-02'", "d > date '1993-01-04'"],
    *["m > timestamp '2020-01-01 03:00:00'", "m = timestamp '2020-01-01 00:30:05.123456'"],
    *["q > 2"],
    *["st.x = 5", "st.x is null", "st.y = 'q'", "st is null", "st.x > 1 and i > 1"],
    *["`a b` > 3", "`a b` = 7", "i + 1 = 2", "i * 2 > 4", "i - 1 < 0", "i % 2 = 1", "-i = 4"],
    *["i / 2 = 1", "f * 2 > 3", "i + f > 2", "abs(i) = 4", "round(f) = 2"],
    *["lower(s) = 'yes'", "upper(s) = 'ABC'", "length(s) = 2"],
    *["s || 'z' = 'xz'", "concat(s, 'z') = 'z'"],
    *["starts_with(s, 'a')", "ends_with(s, 'c')", "contains(s, 'b')", "strpos(s, 'c') = 3"],
    *["regexp_like(s, '^[a-z]+$')", "replace(s, 'x', 'q') = 'q'", "left(s, 1) = 'x'"],
    *["coalesce(i, 9) = 9", "nullif(i, 1) is null"],
    *["cast(i as string) = '1'"],
    *["i::bigint = 5", "cast(s as string) = 'x'", "cast(i as double) > 1.5"],
    *["date_part('month', m) = 1", "date_part('hour', m) = 4"],
    *["array_length(l) = 1", "array_has(l, 7)", "array_contains(l, 1)"],
    *["i is distinct from 1", "i is not distinct from null", "true", "false", "1 = 1"],
    *["(i = 1 or i = 2) and not (s = 'x')", "i = 1 or i = 2 or i = 5 or s = ''"],
]

# What pylance refuses, with the rows that are right.
BEYOND = {
    "i > 1.5": [1, 4, 6, 7],
    "t > 300": [],
    "t > -300": [0, 1, 3, 4, 5, 6, 7],
    "q = 1.25": [1],
    "q < 3.75": [0, 1, 2],
    "q in (1.25, 5)": [1, 4],
    "floor(f) = 1": [0],
    "substr(s, 2) = 'bc'": [2],
    "substring(s from 1 for 1) = 'a'": [2, 5],
    "trim(' ' || s) = 'x'": [0],
    "case when i > 1 then b else true end": [0, 2, 3, 5],
    "case i when 1 then true else false end": [0],
    "extract(year from d) = 1993": [0, 1, 3, 4, 5, 6, 7],
    "d = '1993-01-02'": [1],
    "null": [],
    "try_cast(s as int) is null": [0, 1, 2, 3, 4, 5, 6, 7],
}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> lance.LanceDataset:
    path: Path = tmp_path_factory.mktemp("filters") / "table"
    return lance.write_dataset(TABLE, str(path))


def ours(condition: str | pc.Expression) -> list[int]:
    batch = TABLE.combine_chunks().to_batches()[0]
    parse = parse_filter if isinstance(condition, str) else predicate_from_arrow
    mask = parse(condition, TABLE.schema).mask(batch)  # type: ignore[operator]
    assert len(mask) == len(batch)
    return [row for row, keep in enumerate(mask.to_pylist()) if keep]


def theirs(dataset: lance.LanceDataset, condition: str | pc.Expression) -> list[int]:
    return dataset.to_table(["a b"], filter=condition).column(0).to_pylist()


@pytest.mark.parametrize("condition", FILTERS)
def test_a_filter(dataset: lance.LanceDataset, condition: str) -> None:
    assert ours(condition) == theirs(dataset, condition)


@pytest.mark.parametrize("condition", list(BEYOND))
def test_a_filter_that_pylance_refuses(condition: str) -> None:
    assert ours(condition) == BEYOND[condition]


NUMBERS = st.sampled_from(["i", "f", "g", "u", "st.x", "`a b`"])
CONSTANTS = st.sampled_from(["0", "1", "2", "5", "127", "128", "7"])
TESTS = st.one_of(
    st.builds(
        "{} {} {}".format, NUMBERS, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), CONSTANTS
    ),
    st.builds("{} is null".format, st.sampled_from(["i", "f", "s", "b", "d", "st.x", "l"])),
    st.builds("{} between {} and {}".format, NUMBERS, CONSTANTS, CONSTANTS),
    st.builds(
        "s {} '{}'".format,
        st.sampled_from(["=", "<", ">=", "like", "not like", "ilike"]),
        st.sampled_from(["x", "a%", "%c", "_", "", "ABC", "%ß"]),
    ),
    st.sampled_from(["b", "b is not true", "i = t", "i < u", "f = g", "s = st.y"]),
)
# Not of AND only without lists: pylance takes `not (a = 0 and a in (1, 2))` as true of a null.
LISTS = st.one_of(
    TESTS,
    st.builds("{} in ({}, {})".format, NUMBERS, CONSTANTS, CONSTANTS),
    st.builds("{} not in ({}, {})".format, NUMBERS, CONSTANTS, CONSTANTS),
    st.builds("not ({})".format, TESTS),
)


def joined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} and {})".format, inner, inner),
        st.builds("({} or {})".format, inner, inner),
    )


CONDITIONS = st.one_of(
    st.recursive(LISTS, joined, max_leaves=5),
    st.recursive(
        TESTS,
        lambda inner: st.one_of(joined(inner), st.builds("not ({})".format, inner)),
        max_leaves=5,
    ),
)


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(condition=CONDITIONS)
def test_any_condition(dataset: lance.LanceDataset, condition: str) -> None:
    assert ours(condition) == theirs(dataset, condition)


@pytest.mark.parametrize(
    "condition",
    [
        pc.field("i") > 1,
        (pc.field("s") == "x") | pc.field("b"),
        pc.field("i").isin([1, 5]),
        pc.field("f").is_nan(),
        ~(pc.field("i") == 2),
        pc.field("s").is_null(),
    ],
    ids=str,
)
def test_pyarrow_expressions(dataset: lance.LanceDataset, condition: pc.Expression) -> None:
    assert ours(condition) == theirs(dataset, condition)


@pytest.mark.parametrize("text", ["i * 2", "lower(s)", "i", "i + f", "st.x", "length(s)"])
def test_computed_columns(dataset: lance.LanceDataset, text: str) -> None:
    batch = TABLE.combine_chunks().to_batches()[0]
    found = parse_projection(text, TABLE.schema).evaluate(batch)
    expected = dataset.to_table(columns={"c": text}).column(0)
    assert found.type == expected.type
    assert repr(found.to_pylist()) == repr(expected.to_pylist())
