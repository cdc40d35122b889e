"""Expressions over special floats follow one order, checked against a simple model."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from alance.expr.predicate import (
    computed_from_arrow,
    parse_filter,
    parse_projection,
    predicate_from_arrow,
)
from tests.reference.floats import OPERATORS, TYPES, array_of, rank, ranks, specials, where

KINDS = [*TYPES]


def pairs(kind: str) -> pa.RecordBatch:
    """All pairs of special values and null, as columns x and y, as a list, and as a struct."""
    values = array_of(kind)
    count = len(values)
    x = values.take(pa.array(np.repeat(np.arange(count), count)))
    y = values.take(pa.array(np.tile(np.arange(count), count)))
    lists = pa.ListArray.from_arrays(
        pa.array(np.arange(0, 2 * len(x) + 1, 2), pa.int32()),
        pa.concat_arrays([x, y]).take(pa.array(np.arange(2 * len(x)).reshape(2, -1).T.ravel())),
    )
    struct = pa.StructArray.from_arrays([x], ["m"])
    return pa.record_batch([x, y, lists, struct], names=["x", "y", "l", "s"])


def matching(condition: str, batch: pa.RecordBatch, params: Any = None) -> list[int]:
    mask = parse_filter(condition, batch.schema, params).mask(batch)
    return pc.indices_nonzero(mask.fill_null(False)).to_pylist()


def by_model(batch: pa.RecordBatch, test: Any) -> list[int]:
    """Return the rows without nulls whose ranks pass a test."""
    x, y = ranks(batch["x"]), ranks(batch["y"])
    rows = enumerate(zip(x, y, strict=True))
    return [row for row, (a, b) in rows if a is not None and b is not None and test(a, b)]


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("kind", KINDS)
def test_columns_compare_in_one_order(kind: str, op: str) -> None:
    batch = pairs(kind)
    expected = by_model(batch, OPERATORS[op])
    for name in ("x", "s.m", "s['m']", "l[1]", "coalesce(x, x)"):
        assert matching(f"{name} {op} y", batch) == expected, name
    false = parse_filter(f"not (x {op} y)", batch.schema).mask(batch)
    assert false.null_count == parse_filter(f"x {op} y", batch.schema).mask(batch).null_count
    everything = by_model(batch, lambda _, __: True)
    assert matching(f"not (x {op} y)", batch) == sorted({*everything} - {*expected})


@pytest.mark.parametrize("kind", KINDS)
def test_literals_compare_in_one_order(kind: str) -> None:
    values = array_of(kind)
    batch = pa.record_batch([values], names=["x"])
    own = ranks(values)
    for number, (op, test) in product(map(float, specials(kind)), OPERATORS.items()):
        expected = where(lambda r: test(r, rank(number)), own)  # noqa: B023
        for form in (f"x {op} ?", f"NOT (NOT x {op} ?)", f"CASE WHEN x {op} ? THEN true END"):
            assert matching(form, batch, [number]) == expected, (form, number)
        flipped = where(lambda r: test(rank(number), r), own)  # noqa: B023
        assert matching(f"? {op} x", batch, [number]) == flipped, number


@pytest.mark.parametrize("text", ["cast('nan' as double)", "-cast('nan' as double)", "sqrt(-1.0)"])
def test_every_way_to_write_nan_gives_the_same_nan(text: str) -> None:
    batch = pa.record_batch([array_of("f8"), pa.array(range(23))], names=["x", "i"])
    nans = where(lambda r: r == rank(math.nan), ranks(batch["x"]))
    assert matching(f"x = {text}", batch) == matching(f"x >= {text}", batch) == nans
    assert matching(f"x IN (NULL, {text})", batch) == nans
    assert matching(f"i < {text}", batch) == list(range(23))
    assert matching(f"i > {text}", batch) == []


@pytest.mark.parametrize("kind", KINDS)
def test_lists_of_literals_have_one_zero_and_one_nan(kind: str) -> None:
    values = array_of(kind)
    batch = pa.record_batch([values], names=["x"])
    own, others = ranks(values), [2.0 + number for number in range(90)]
    for number, length in product(map(float, specials(kind)), (0, 3, 20, 90)):
        expected = where(lambda r: r == rank(number), own)  # noqa: B023
        items = [number, *others[:length]]
        assert matching("x IN ?", batch, [items]) == expected, (number, length)
        assert matching("x IN ?", batch, [[*items, None]]) == expected, (number, length)
        rest = where(lambda r: r != rank(number), own)  # noqa: B023
        assert matching("x NOT IN ?", batch, [items]) == rest, (number, length)
        assert matching("x NOT IN ?", batch, [[*items, None]]) == []


@pytest.mark.parametrize("kind", KINDS)
def test_functions_that_compare_keep_the_order(kind: str) -> None:
    batch = pairs(kind)
    equal = by_model(batch, lambda a, b: a == b)
    x, y = ranks(batch["x"]), ranks(batch["y"])
    alike = [row for row in range(len(x)) if x[row] == y[row]]  # two nulls are
    assert matching("x IS NOT DISTINCT FROM y", batch) == alike
    assert matching("x IS DISTINCT FROM y", batch) == sorted({*range(len(x))} - {*alike})
    cleared = parse_projection("nullif(x, y)", batch.schema).evaluate(batch)
    nulls = pc.indices_nonzero(cleared.is_null()).to_pylist()
    assert nulls == sorted({*equal, *(row for row, value in enumerate(x) if value is None)})
    assert matching("CASE x WHEN y THEN true END", batch) == equal
    assert matching("x BETWEEN y AND y", batch) == equal
    for name, pick in (("greatest", max), ("least", min)):
        values = parse_projection(f"{name}(x, y)", batch.schema).evaluate(batch)
        expected = [
            pick((value for value in pair if value is not None), default=None)
            for pair in zip(x, y, strict=True)
        ]
        assert ranks(values) == expected, name
        assert values.type == TYPES[kind]


def test_functions_of_lists_keep_the_order() -> None:
    batch = pairs("f8")
    x, y = ranks(batch["x"]), ranks(batch["y"])

    def of(text: str) -> list[Any]:
        values: list[Any] = parse_projection(text, batch.schema).evaluate(batch).to_pylist()
        return values

    def as_ranks(lists: list[Any]) -> list[Any]:
        return [[None if item is None else rank(item) for item in items] for items in lists]

    least = (-1, 0.0)  # nulls are first
    rows = list(zip(x, y, strict=True))
    ascending = [sorted(row, key=lambda r: least if r is None else r) for row in rows]
    assert as_ranks(of("array_sort(l)")) == ascending
    assert as_ranks(of("array_distinct(l)")) == [list(dict.fromkeys(row)) for row in rows]
    assert as_ranks(of("array_union(l, l)")) == [list(dict.fromkeys(row)) for row in rows]
    assert as_ranks(of("array_except(l, [x])")) == [[] if a == b else [b] for a, b in rows]
    assert [len(items) for items in of("array_intersect(l, [y])")] == [1] * len(rows)
    has = [row for row, (a, b) in enumerate(rows) if b is not None and b in (a, b)]
    assert matching("array_has(l, y)", batch) == has
    assert matching("array_has_any(l, [y])", batch) == list(range(len(rows)))
    assert of("array_positions(l, x)") == [[1, 2] if a == b else [1] for a, b in rows]
    assert of("array_position(l, y)")[:1] == [1]
    for name, pick in (("array_max", max), ("array_min", min)):
        expected = [pick((r for r in row if r is not None), default=None) for row in rows]
        values = of(f"{name}(l)")
        assert [None if v is None else rank(v) for v in values] == expected, name
    lists = {"a": pa.array([[[0.0, math.nan]], [[-0.0, -math.nan], [0.0, math.nan]]])}
    nested = pa.record_batch(lists)
    sizes = parse_projection("cardinality(array_distinct(a))", nested.schema).evaluate(nested)
    assert sizes.to_pylist() == [1, 1]


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_pyarrow_expressions_compare_in_one_order(kind: str, op: str) -> None:
    batch, test = pairs(kind), OPERATORS[op]
    x, y = pc.field("x"), pc.field("y")

    def rows_of_filter(expression: pc.Expression) -> list[int]:
        mask = predicate_from_arrow(expression, batch.schema).mask(batch)
        return pc.indices_nonzero(mask.fill_null(False)).to_pylist()

    expected = by_model(batch, test)
    assert rows_of_filter(test(x, y)) == expected
    assert rows_of_filter(test(pc.field("s", "m"), y)) == expected
    assert rows_of_filter(test(pc.coalesce(x, x), y) & (pc.scalar(True) | x.is_valid())) == expected
    everything = by_model(batch, lambda _, __: True)
    assert rows_of_filter(~test(x, y)) == sorted({*everything} - {*expected})
    own = ranks(batch["x"])
    for number in map(float, specials(kind)):
        assert rows_of_filter(test(x, number)) == where(lambda r: test(r, rank(number)), own)  # noqa: B023
        flipped = where(lambda r: test(rank(number), r), own)  # noqa: B023
        assert rows_of_filter(test(pc.scalar(number), x)) == flipped
        if op == "=":
            listed = x.isin([number, 2.0])
            assert rows_of_filter(listed) == where(lambda r: r == rank(number), own)  # noqa: B023
            others = {*range(len(own))} - {*rows_of_filter(listed)}
            assert rows_of_filter(~listed) == sorted(others)  # Arrow's lists are never null


def test_pyarrow_expressions_of_whole_numbers_and_floats_compare_in_one_order() -> None:
    batch = pa.record_batch({"i": [1, 2, None], "x": [-math.nan, 1.5, math.nan], "t": ["a"] * 3})
    for expression, expected in [
        (pc.field("i") < pc.field("x"), [True, False, None]),
        (pc.field("x") > pc.field("i"), [True, False, None]),
        (pc.field("i") != pc.field("x"), [True, True, None]),
        (pc.field("i") >= pc.field("x"), [False, True, None]),
        (pc.field("t") < "b", [True, True, True]),
    ]:
        assert predicate_from_arrow(expression, batch.schema).mask(batch).to_pylist() == expected
    value = pc.if_else(pc.field("x") > 1, 1, 0)
    assert computed_from_arrow(value, batch.schema).evaluate(batch).to_pylist() == [1, 1, 1]
    deep = pc.field("x") > 1
    for _ in range(2000):
        deep = deep | (pc.field("x") > 1)
    assert predicate_from_arrow(deep, batch.schema).mask(batch).to_pylist() == [True] * 3
