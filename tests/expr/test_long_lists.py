"""Lists after IN that are so long that they are read apart: as short ones, and as pylance."""

from __future__ import annotations

import decimal
import math

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import InvalidInputError
from alance.expr import parse_filter
from alance.expr.pruning import check_of
from alance.expr.pruning_checks import Within
from alance.expr.pruning_sets import Ranges, listed
from alance.expr.sql.lexical import LONG_LIST, SqlText
from alance.expr.tree import Literal
from alance.format.numbers import as_scalar

NUMBERS = [0, 1, 5, None, 100, 127]
TABLE = pa.table(
    {
        "i8": pa.array(NUMBERS, pa.int8()),
        "u8": pa.array(NUMBERS, pa.uint8()),
        "i64": pa.array([0, -3, 1 << 62, None, 40, 7], pa.int64()),
        "u64": pa.array([0, 3, (1 << 64) - 1, None, 40, 7], pa.uint64()),
        "f": pa.array([0.0, 1.5, 2.0, None, 40.0, -3.0]),
        "q": pa.array([decimal.Decimal(n) / 2 for n in range(6)], pa.decimal128(9, 1)),
        "t": ["t0", "it's", "t7", None, "", "in ('a', 'b')"],
        "l": pa.array(["t0", "it's", "t7", None, "", "x"], pa.large_string()),
        "b": pa.array([b"t0", b"t1", b"t7", None, b"", b"x"]),
    }
)
WHOLES = ", ".join(str(number) for number in range(-10, 90))
TEXTS = ",".join(f"'t{number}'" for number in range(5, 80)) + ", 'it''s' ,'', 'in (''a'', ''b'')'"
REALS = (
    ", ".join(f"{number / 2}" for number in range(-10, 90)) + ", 4e1, 0.45E+1, 1e-9, 1e999, -1e400"
)
FOREIGN = ["\u0661"] * LONG_LIST  # a digit, but not of SQL
BYTES = ", ".join(f"X'{number:02x}30'" for number in range(90)) + ", x'', x'7431'"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> lance.LanceDataset:
    return lance.write_dataset(TABLE, tmp_path_factory.mktemp("lists") / "t.lance")


@pytest.mark.parametrize(
    "text",
    [
        *[f"{name} in ({WHOLES})" for name in ("i8", "i64", "f", "q")],
        *[f"{name} in ({', '.join(map(str, range(90)))})" for name in ("u8", "u64")],
        *[f"{name} NOT IN ( {WHOLES} )" for name in ("i8", "i64", "f")],
        *[f"{name} in ({TEXTS})" for name in ("t", "l")],
        f"t not in\n( {TEXTS}\n)",
        f"i8 in ({WHOLES}) or t in ({TEXTS})",
        f"i64 in ({WHOLES}) and not (t in ({TEXTS})) or t in ('t0', 'x')",
        f"i8 in ({WHOLES}, null)",
        f"i8 + 1 in ({WHOLES})",
        f"lower(t) in ({TEXTS})",
        *[f"{name} in ({REALS})" for name in ("f", "f + 1")],
        f"b not in ({BYTES})",
        f"t = 'in (1, 2)' or i8 in ({WHOLES})",
        f"i8 in ({WHOLES}) or i8 in ({', '.join(map(str, range(50, 128)))}) or i8 = 3",
    ],
)
def test_rows_are_those_of_pylance(dataset: lance.LanceDataset, text: str) -> None:
    expected = dataset.to_table(filter=text)
    assert TABLE.filter(parse_filter(text, TABLE.schema).mask(batch())) == expected


def batch() -> pa.RecordBatch:
    return TABLE.combine_chunks().to_batches()[0]


@pytest.mark.parametrize("name", ["i8", "u8", "i64", "u64", "t", "l", "q", "f"])
@pytest.mark.parametrize("inverted", [False, True])
def test_a_long_list_is_as_many_comparisons(name: str, inverted: bool) -> None:
    items = TEXTS if name in ("t", "l") else WHOLES
    within = f"{'not ' if inverted else ''}{name} in ({items})"
    chain = " or ".join(f"{name} = {item}" for item in split(items))
    items_apart = " or ".join(f"({name} = {item})" for item in split(items))
    assert lists_of(chain) == 1
    assert lists_of(items_apart) == 0
    short = parse_filter(f"not ({items_apart})" if inverted else items_apart, TABLE.schema)
    expected = check_of(short.condition)
    assert isinstance(expected, Within)
    for text in (within, f"not ({chain})" if inverted else chain):
        long = parse_filter(text, TABLE.schema)
        assert long.mask(batch()) == short.mask(batch())
        check = check_of(long.condition)
        assert isinstance(check, Within)
        if name[0] != "u":  # whose values are cut at zero, which is the same for all that there are
            assert parts_of(check.ranges) == parts_of(expected.ranges)


CHAIN = " or ".join(f"i64 = {number}" for number in range(90))
TEXT_CHAIN = "OR\n".join(f"t= 't{number}'" for number in range(90))


@pytest.mark.parametrize(
    ("text", "lists"),
    [
        (f"{CHAIN} or i8 = 5", 1),
        (f"i8 = 5 or {CHAIN}", 1),
        (f"i8 = 5 and {CHAIN} and i8 = 1", 1),
        (f"not {CHAIN}", 1),
        (f"not ({CHAIN})", 1),
        (f"({CHAIN}) is null", 1),
        (f"{CHAIN} is null", 1),
        (f"{CHAIN} or i64 = 7 + 1", 1),
        (f"{CHAIN} or i64 = 7.5 or {CHAIN}", 2),
        (f"i64 = 0.5 or {CHAIN}", 1),
        (f"{TEXT_CHAIN} or {CHAIN}", 2),
        (f"{TEXT_CHAIN} or t = 'it''s' or t = 'in (''a'', ''b'')' and {CHAIN}", 2),
        (f"case when {CHAIN} then i8 = 1 else {TEXT_CHAIN} end", 2),
        (f"coalesce({CHAIN}, true)", 1),
        (f"`i64` = 7 or {CHAIN.replace('i64', '`i64`')}", 1),
        (f"t = '{TEXT_CHAIN.replace(chr(39), chr(39) * 2)}' or i8 = 1", 0),
        (f"i8 = 1 -- or {CHAIN}", 0),
        (f"i8 = 1 /* or {CHAIN} */ or i8 = 5", 0),
        (CHAIN.replace("i64 =", "i64 !="), 0),
        (CHAIN.replace("i64", "i64 + 0"), 0),
        (CHAIN.replace(" or ", " and i8 = 1 or "), 0),
    ],
)
def test_a_long_chain_of_one_column_is_read_apart(
    text: str, lists: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lists_of(text) == lists
    mask = parse_filter(text, TABLE.schema).mask(batch())
    monkeypatch.setattr(SqlText, "_without_lists", lambda source: source.text)
    assert mask == parse_filter(text, TABLE.schema).mask(batch())


def lists_of(text: str) -> int:
    """Return the number of lists in a text that are parsed separately."""
    source = SqlText(text, "filter")
    source.parse()
    return len(source._lists)


def parts_of(ranges: Ranges) -> tuple[bool, list[object]]:
    return ranges.begins, ranges.edges.tolist()


def split(items: str) -> list[str]:
    """The items; a comma followed by a quote or a number parts them."""
    if items is WHOLES:
        return items.split(", ")
    return [*[f"'t{number}'" for number in range(5, 80)], "'it''s'", "''", "'in (''a'', ''b'')'"]


@given(st.lists(st.integers(-128, 127), min_size=1), st.sampled_from(["int8", "int64"]))
def test_ranges_of_whole_numbers_are_those_of_single_ones(numbers: list[int], name: str) -> None:
    type_ = getattr(pa, name)()
    single = listed(type_, [Literal(as_scalar(number, pa.int64())) for number in numbers])
    together = listed(type_, pa.array(numbers, type_))
    assert single is not None
    assert together is not None
    assert parts_of(together) == parts_of(single)


@pytest.mark.parametrize(
    "quoted",
    [f"'in ({WHOLES})'", f"`in ({WHOLES})`", f"1 -- in ({WHOLES})", f"1 /* in ({WHOLES}) */"],
)
def test_what_is_quoted_or_a_comment_is_no_list(quoted: str) -> None:
    source = SqlText(f"a = {quoted}", "filter")
    source.parse()
    assert not source._lists


def test_places_in_the_text_are_as_written() -> None:
    text = f"i8 in ({WHOLES}) and\n t in ({TEXTS}) and nothing = 1"
    column = text.splitlines()[1].index("nothing") + 1
    with pytest.raises(InvalidInputError, match=f"line 2, column {column}"):
        parse_filter(text, TABLE.schema)
    with pytest.raises(InvalidInputError, match=f"column {len(WHOLES) + 10}"):
        parse_filter(f"i8 in ({WHOLES}) ) or", TABLE.schema)


SPECIAL = pa.table(
    {
        "d": pa.array([0.0, -0.0, math.nan, math.inf, -math.inf, 0.5, 0.1, None]),
        "s": pa.array([0.0, -0.0, math.nan, math.inf, -math.inf, 0.5, 0.1, None], pa.float32()),
        "h": pa.array(np.array([0, -0.0, 40, 5, 7, 0.5, 0.1, 3], np.float16)),
        "q": pa.array([decimal.Decimal(n) / 2 for n in range(8)], pa.decimal256(50, 3)),
        "u": pa.array([0, 1, 2, 3, 4, (1 << 64) - 1, 1 << 63, None], pa.uint64()),
        "b": pa.array([b"00", b"t1", b"", None, b"x", b"y", b"\x0030", b"\x010"]),
    }
)
NUMBERS_OF = {
    "real": [*map(float, range(50, 200)), 0.0, 0.1, math.inf, -math.inf],
    "decimal": [decimal.Decimal(n) / 8 for n in range(99)] + [decimal.Decimal("1E+99999")],
}


@pytest.mark.parametrize("name", ["d", "s", "h", "q", "u", "d * 2", "s * 2"])
@pytest.mark.parametrize("items", [REALS, f"{REALS}, {(1 << 64) - 1}, {1 << 63}"])
def test_long_lists_of_numbers_are_as_many_comparisons(name: str, items: str) -> None:
    text = f"{name} in ({items})"
    assert lists_of(text) == 1
    compare_with_terms(text, " or ".join(f"({name} = {item})" for item in items.split(", ")))


def compare_with_terms(text: str, terms: str) -> None:
    """The same rows, and the same zones by bounds, as of single comparisons."""
    (rows,) = SPECIAL.to_batches()
    result, expected = (parse_filter(sql, SPECIAL.schema) for sql in (text, terms))
    assert result.mask(rows) == expected.mask(rows)
    checks = check_of(result.condition), check_of(expected.condition)
    if text[0] not in "qu" and isinstance(checks[1], Within):  # edges that no value has are kept
        assert isinstance(checks[0], Within)
        edges = [parts_of(check.ranges) for check in checks if isinstance(check, Within)]
        assert edges[0] == edges[1]


def test_long_lists_of_bytes_are_as_many_comparisons() -> None:
    assert lists_of(f"b in ({BYTES})") == 1
    items = BYTES.split(", ")
    compare_with_terms(f"b in ({BYTES})", " or ".join(f"(b = {item})" for item in items))


@pytest.mark.parametrize("name", ["d", "s", "h", "q", "u", "d * 2"])
@pytest.mark.parametrize("kind", NUMBERS_OF)
def test_parameters_of_many_numbers_are_as_many_comparisons(name: str, kind: str) -> None:
    (rows,) = SPECIAL.to_batches()
    values = NUMBERS_OF[kind]
    long = parse_filter(f"{name} in ?", SPECIAL.schema, [values])
    terms = " or ".join([f"({name} = ?)"] * len(values))
    assert long.mask(rows) == parse_filter(terms, SPECIAL.schema, values).mask(rows)


def test_a_list_of_the_wrong_kind_is_refused() -> None:
    for text in (
        f"i8 in ({TEXTS})",
        f"t in ({REALS})",
        f"i8 in ({BYTES})",
        f"i8 in ({', '.join(FOREIGN)})",
        f"i8 in ({'x, ' * LONG_LIST}1)",
    ):
        with pytest.raises(InvalidInputError):
            parse_filter(text, TABLE.schema)


@pytest.mark.parametrize("name", ["i64", "f", "q"])
def test_numbers_of_very_many_digits_are_compared_exactly(name: str) -> None:
    """A fraction of such a number would take minutes, and block all other code."""
    digits = "0" * 300_000
    (rows,) = TABLE.combine_chunks().to_batches()
    for text, as_text in (
        (f"{name} = 0.{digits}", f"{name} = 0"),
        (f"{name} > 39.{digits.replace('0', '9')}", f"{name} {'>' if name == 'f' else '>='} 40"),
        (f"{name} <= 1.5{digits}1", f"{name} <= 1.5"),
        (f"{name} >= 1.5{digits}1", f"{name} > 1.5" if name != "f" else "f >= 1.5"),
    ):
        mask = parse_filter(text, TABLE.schema).mask(rows)
        assert mask == parse_filter(as_text, TABLE.schema).mask(rows), text[:20]
