"""Rows and filters that are hard on bounds, as hypothesis strategies."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
from hypothesis import strategies as st

LONG = "https://example.org/a/long/common/beginning/of/"
TEXTS = ["", "a", "ab", "abc", "b", "é", "\U0010ffff", "a\x00", LONG, LONG + "x", LONG + "y", "z%"]
FLOATS = [0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, -math.nan, 0.1, 1e300, 16777217.0]
DAYS = [date(1970, 1, 1), date(1969, 12, 31), date(2020, 2, 29), date(2020, 3, 1)]
TIMES = [datetime(2020, 1, 1) + timedelta(hours=h) for h in (-1, 0, 1, 12, 24, 9000)]
WHOLES = [-(1 << 31), -2, -1, 0, 1, 2, 3, 100, (1 << 31) - 1]
DECIMALS = [Decimal(candidate) / 100 for candidate in (-10000, -150, -1, 0, 1, 150, 99999)]

VALUES = {
    "i": (pa.int32(), st.sampled_from(WHOLES)),
    "u": (pa.uint8(), st.sampled_from([0, 1, 2, 127, 128, 255])),
    "big": (pa.uint64(), st.sampled_from([0, 1, (1 << 63), (1 << 64) - 1])),
    "f": (pa.float64(), st.sampled_from(FLOATS)),
    "g": (pa.float32(), st.sampled_from(FLOATS)),
    "h": (pa.float16(), st.sampled_from([0.0, -0.0, 1.5, -1.5, math.inf, math.nan])),
    "s": (pa.string(), st.sampled_from(TEXTS)),
    "t": (pa.large_string(), st.sampled_from(TEXTS)),
    "x": (
        pa.binary(),
        st.sampled_from([b"", b"\x00", b"a", b"\xff" * 40, b"\xff" * 41, b"b" * 40]),
    ),
    "d": (pa.date32(), st.sampled_from(DAYS)),
    "ts": (pa.timestamp("us"), st.sampled_from(TIMES)),
    "tz": (
        pa.timestamp("ms", "UTC"),
        st.sampled_from([time.replace(tzinfo=UTC) for time in TIMES]),
    ),
    "dec": (pa.decimal128(9, 2), st.sampled_from(DECIMALS)),
    "b": (pa.bool_(), st.booleans()),
    "y": (
        pa.struct([("z", pa.int64())]),
        st.fixed_dictionaries({"z": st.sampled_from([None, 1, 5])}),
    ),
}
SCHEMA = pa.schema([(name, arrow) for name, (arrow, _) in VALUES.items()])


@st.composite
def tables(draw: st.DrawFn, max_rows: int = 24) -> pa.Table:
    """Some rows; columns are often sorted or alike, so that zones differ."""
    count = draw(st.integers(1, max_rows))
    columns = []
    for arrow, values in VALUES.values():
        column = draw(st.lists(st.one_of(values, st.none()), min_size=count, max_size=count))
        if draw(st.booleans()):
            column.sort(key=lambda item: (item is not None, str(item)))
        columns.append(pa.array(column, arrow, from_pandas=False))
    return pa.table(columns, schema=SCHEMA)


def _number(value: float) -> str:
    return str(value) if math.isfinite(value) else f"cast('{value}' as double)"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


_OPS = st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "is distinct from"])
_WHOLE = st.sampled_from(
    ["-3000000000", "-2", "-1", "0", "1", "1.5", "2", "3", "255", "256", "1e30"]
)
_LITERALS = {
    **dict.fromkeys(["i", "u", "big"], _WHOLE),
    **dict.fromkeys(["f", "g", "h"], st.one_of(_WHOLE, st.sampled_from(FLOATS).map(_number))),
    **dict.fromkeys(["s", "t"], st.sampled_from(TEXTS).map(_text)),
    "x": st.sampled_from(["X'00'", "X'61'", "X'" + "ff" * 41 + "'", "X'" + "ff" * 40 + "'", "''"]),
    **dict.fromkeys(
        ["d", "ts", "tz"],
        st.sampled_from(
            [
                "date '2020-03-01'",
                "'2020-02-29'",
                "timestamp '2020-01-01 00:30:00'",
                "timestamp '2020-01-01T00:00:00Z'",
                "date '1970-01-01'",
            ]
        ),
    ),
    "dec": st.sampled_from(["1.5", "0", "-0.01", "1.499", "99999999999", "-100"]),
    "b": st.sampled_from(["true", "false"]),
    "y.z": st.sampled_from(["0", "1", "2.5", "5"]),
}


@st.composite
def chains(draw: st.DrawFn) -> tuple[str, list[str]]:
    """`and` or `or`, and many terms that it joins, most of them on one column."""
    name = draw(st.sampled_from(sorted(_LITERALS)))
    literals = _LITERALS[name]
    ops = draw(st.sampled_from([["="], ["!="], ["=", "<", ">="], ["=", "!=", "<=", ">"]]))

    def term(names: tuple[str, str, str, int]) -> str:
        op, item, other, kind = names
        if kind == 0:
            return f"{name} {'not in' if op == '!=' else 'in'} ({', '.join([item, other] * 7)})"
        if kind == 1 and name != "b":
            return f"{item} {op} {name}"
        if kind == 2:
            return f"(i {op} 1 and {name} {op} {item})"
        return f"not ({name} {op} {item})" if kind == 3 else f"{name} {op} {item}"

    terms = st.tuples(st.sampled_from(ops), literals, literals, st.integers(0, 40)).map(term)
    return draw(st.sampled_from(["and", "or"])), draw(st.lists(terms, min_size=13, max_size=20))


@st.composite
def _atoms(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(sorted(_LITERALS)))
    literals = _LITERALS[name]
    kind = draw(st.sampled_from(["op", "op", "flipped", "null", "in", "long", "between", "like"]))
    if kind == "op":
        return f"{name} {draw(_OPS)} {draw(literals)}"
    if kind == "flipped" and name != "b":
        return f"{draw(literals)} {draw(_OPS)} {name}"
    if kind == "in":
        items = draw(st.lists(st.one_of(literals, st.just("null")), min_size=1, max_size=4))
        return f"{name} {draw(st.sampled_from(['in', 'not in']))} ({', '.join(items)})"
    if kind == "long":
        items = draw(st.lists(literals, min_size=13, max_size=16))
        return f"{name} in ({', '.join(items)})"
    if kind == "between":
        return f"{name} between {draw(literals)} and {draw(literals)}"
    if kind == "like" and name in ("s", "t"):
        pattern = draw(
            st.sampled_from(["a%", "ab%c", LONG + "%", LONG + "y", "%b", "_", "z\\%", "\xe9%"])
        )
        return draw(
            st.sampled_from(
                [
                    f"{name} like '{pattern}'",
                    f"{name} not like '{pattern}'",
                    f"starts_with({name}, {_text(LONG)})",
                    f"{name} ilike 'A%'",
                ]
            )
        )
    if name == "b" and draw(st.booleans()):
        return draw(st.sampled_from(["b", "b is true", "b is not false"]))
    return f"{name} is {draw(st.sampled_from(['', 'not ']))}null"


def _joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(parts, st.sampled_from(["and", "or"]), parts).map(lambda t: f"({' '.join(t)})"),
        parts.map(lambda item: f"not ({item})"),
        parts.map(lambda item: f"({item}) is true"),
        parts.map(lambda item: f"({item}) is null"),
        st.tuples(parts, parts).map(lambda t: f"case when {t[0]} then {t[1]} else i > 1 end"),
    )


FILTERS = st.recursive(_atoms(), _joined, max_leaves=5)
