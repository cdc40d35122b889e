"""Text that is no filter: a clear error with its place, and never another one."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alance.errors import AlanceError, InvalidInputError, UnsupportedError
from alance.expr import Predicate, parse_filter, parse_projection, predicate_from_arrow
from alance.expr.arithmetic import number_literal
from alance.expr.functions import FUNCTIONS
from alance.expr.tree import Problem

SCHEMA = pa.schema(
    [
        ("price", pa.float64()),
        ("name", pa.string()),
        ("count", pa.int32()),
        ("s", pa.struct([("x", pa.int32())])),
    ]
)
BATCH = pa.RecordBatch.from_pylist(
    [{"price": 1.0, "name": "a", "count": 0, "s": {"x": 1}}], schema=SCHEMA
)


SX = pc.field("s", "x") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prise > 1", r"filter, line 1, column 1: unknown column 'prise', did you mean 'price'\?"),
        ("price > 1 and\nnam = 'x'", "line 2, column 1: unknown column 'nam'"),
        ("q = 1", "unknown column 'q'; the columns are price, name, count, s$"),
        ("s.y = 1", "unknown field 's.y'"),
        ("price.x = 1", "'price' is double, it has no field 'x'"),
        ("lowr(name) = 'a'", "unknown function 'lowr', did you mean 'lower'"),
        ("lower(name, name) = 'a'", "lower: 2 arguments, expected 1"),
        ("price >", "line 1"),
        ("price > 'a'", "type mismatch"),
        ('"price" > 1', '"price" is text; a column takes backticks: `price`'),
        ("\"name\" = 'a'", '"name" is text; a column takes backticks: `name`'),
        ("regexp_like(name, '(')", "column 1: regexp_like: Invalid regular expression"),
        ("regexp_like(name, 'a', 'q')", "flags 'q'"),
        ("array_has(name, 1)", "expected a column of lists, found string"),
        ("price", "expected a condition, found double"),
        ("name = 'a", "not closed"),
        ("", "expected an expression, found nothing"),
        ("price = 1; price = 2", "found 2"),
        ("(" * 500 + "price" + ")" * 500, "nested too deeply"),
        ("cast(price as nonsense) = 1", "nonsense"),
    ],
)
def test_mistakes_are_told_with_their_place(text: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        parse_filter(text, SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        *["count(*) > 1", "price in (select 1)", "name similar to 'x'", "max(price) = 1"],
        *[
            "array_transform(name, 'a') = 'b'",
            "name like name",
            "price + interval '1 day' > 1",
            "[1, 2] = [1]",
        ],
        *["regexp_like(name, '[a&&b]')", "exists (select 1)"],
    ],
)
def test_sql_beyond_filters_is_unsupported(text: str) -> None:
    with pytest.raises(UnsupportedError):
        parse_filter(text, SCHEMA)


def test_values_that_an_expression_cannot_take() -> None:
    with pytest.raises(InvalidInputError, match="divide by zero"):
        parse_filter("1 / count = 1", SCHEMA).mask(BATCH)
    with pytest.raises(InvalidInputError, match=r"expression 'cast\(name as int\)'"):
        parse_projection("cast(name as int)", SCHEMA).evaluate(BATCH)


def test_digits_that_are_no_number() -> None:
    with pytest.raises(Problem, match=r"'0\.1\.5' is no number"):
        number_literal("0.1.5")


def test_other_things_than_text() -> None:
    for wrong in (7, None, b"price > 1"):
        with pytest.raises(InvalidInputError):
            parse_filter(wrong, SCHEMA)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError):
        predicate_from_arrow("price > 1", SCHEMA)
    with pytest.raises(InvalidInputError, match="nope"):
        predicate_from_arrow(pc.field("nope") > 1, SCHEMA)
    with pytest.raises(InvalidInputError, match="by position"):
        predicate_from_arrow(pc.field(0) > 1, SCHEMA)
    with pytest.raises(InvalidInputError, match="expected a condition"):
        predicate_from_arrow(pc.field("price"), SCHEMA)


def test_what_a_filter_needs() -> None:
    assert parse_filter("s.x = 1 and price > 1", SCHEMA).columns == ("s.x", "price")
    assert parse_filter("s is null or s.x = 1", SCHEMA).columns == ("s",)
    assert parse_filter("true", SCHEMA).columns == ()
    price, nested = pc.field("price") > 1, pc.field("s", "x") == 1
    assert predicate_from_arrow(price, SCHEMA).columns == ("price",)
    assert predicate_from_arrow(pc.field("name") == "price s", SCHEMA).columns == ("name",)
    assert predicate_from_arrow(nested & price, SCHEMA).columns == ("price", "s.x")
    assert predicate_from_arrow(nested | pc.field("s").is_null(), SCHEMA).columns == ("s",)
    assert predicate_from_arrow(pc.scalar(True), SCHEMA).columns == ()


def test_a_condition_on_a_nested_field_takes_a_struct_without_its_other_fields() -> None:
    schema = pa.schema([("s", pa.struct([("y", pa.string()), ("x", pa.int32())]))])
    pruned = pa.RecordBatch.from_pylist([{"s": {"x": 1}}, {"s": None}])
    for candidate in (parse_filter("s.x = 1", schema), predicate_from_arrow(SX, schema)):
        assert candidate.columns == ("s.x",)
        assert candidate.mask(pruned).to_pylist() == [True, None]


def test_long_chains_are_no_deep_nesting() -> None:
    text = " or ".join(f"count = {number}" for number in range(3000))
    assert parse_filter(text, SCHEMA).mask(BATCH).to_pylist() == [True]


WORDS = [
    *["price", "name", "s", "s.x", "=", "<", "and", "or", "not", "(", ")", "'a'", "1", "1.5", ","],
    *["in", "is", "null", "like", "case", "when", "then", "end", "cast", "as", "int", "-", "*"],
    *["lower", "substr", "date", "between", "::", "[", "]", ".", '"', "`", "||", "x'0'", ";", "->"],
]
PIECES = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)


ATOMS = [
    *["price", "name", "count", "s", "s.x", "1", "-1", "0", "1e400", "'x'", "''", "'['", "null"],
    *["true", "date '2020-01-01'", "timestamp '2020-01-01 00:00:00'", "x'00'", "[1]", '"q"', "*"],
]
OPERATORS = ["+", "-", "*", "/", "%", "||", "=", "<", "and", "or", "like", "is", "in", "&", "<=>"]
CALLS = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        st.builds(
            "{}({})".format,
            st.sampled_from(sorted(FUNCTIONS)),
            st.lists(inner, max_size=3).map(", ".join),
        ),
        st.builds("({} {} {})".format, inner, st.sampled_from(OPERATORS), inner),
        st.builds("cast({} as {})".format, inner, st.sampled_from(["int", "date", "json", "time"])),
        st.builds("{}[{}]".format, inner, inner),
    ),
    max_leaves=6,
)


@settings(max_examples=800)
@given(st.one_of(PIECES, st.text(max_size=30), CALLS))
def test_any_text_gives_a_filter_or_an_error_of_ours(text: str) -> None:
    for parse in (parse_filter, parse_projection):
        with suppress(AlanceError):
            result = parse(text, SCHEMA)
            values = result.mask(BATCH) if isinstance(result, Predicate) else result.evaluate(BATCH)
            assert len(values) == 1


@pytest.mark.parametrize(
    "text",
    [
        f"replace(name, 'v', '{'a' * 2000}')",
        f"regexp_replace(name, 'v', '{'a' * 2000}', 'g')",
        f"regexp_replace(name, 'v+', '{'${0}' * 2000}')",
    ],
)
def test_texts_that_replacements_make_too_long_are_refused_before_they_are_made(text: str) -> None:
    """Arrow's offsets would overflow, and the texts be other bytes of the process."""
    batch = pa.RecordBatch.from_pylist([{"name": "v" * 1_000_000}] * 2, schema=SCHEMA)
    with pytest.raises(
        InvalidInputError, match=r"the values of one row need [0-9]+ bytes, expected at most"
    ):
        parse_projection(text, SCHEMA).evaluate(batch)
