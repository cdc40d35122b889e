"""Functions of characters, whole numbers and lists give what pylance gives, on any rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import alance
from alance.errors import InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

TEXTS: Final = st.one_of(
    st.none(), st.text(st.sampled_from("ab.,B1é日😀\u0301 "), max_size=8), st.text(max_size=5)
)
WHOLES: Final = st.one_of(
    st.none(), st.integers(-1000, 1000), st.integers(-(1 << 31), (1 << 31) - 1)
)
REALS: Final = st.one_of(st.none(), st.floats(width=64), st.sampled_from([0.0, -0.0, 8.0]))
# Those that pylance, which tells NaNs and zeros apart by their bits, orders as we do.
ORDERED: Final = st.one_of(
    st.none(),
    st.floats(allow_nan=False).map(lambda number: number + 0.0),
    st.sampled_from([8.0, math.nan]),
)
SMALL: Final = st.one_of(st.none(), st.integers(-3, 3))


def lists_of(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), st.lists(items, max_size=5))


TYPES: Final = {
    "s": pa.string(),
    "ls": pa.large_string(),
    "c": pa.string(),
    "b": pa.binary(),
    "i": pa.int64(),
    "j": pa.int32(),
    "u": pa.uint64(),
    "f": pa.float64(),
    "l": pa.list_(pa.int64()),
    "m": pa.list_(pa.int64()),
    "lf": pa.list_(pa.float64()),
    "lt": pa.list_(pa.string()),
}
ROWS: Final = st.lists(
    st.fixed_dictionaries(
        {
            "s": TEXTS,
            "ls": TEXTS,
            "c": TEXTS,
            "b": st.one_of(st.none(), st.binary(max_size=7)),
            "i": WHOLES,
            "j": WHOLES,
            "u": st.one_of(st.none(), st.integers(0, (1 << 64) - 1)),
            "f": REALS,
            "l": lists_of(SMALL),
            "m": lists_of(SMALL),
            "lf": lists_of(ORDERED),
            "lt": lists_of(TEXTS),
        }
    ),
    min_size=1,
    max_size=9,
)
TEXT_COLUMNS: Final = [
    *["translate(s, 'ab', 'b')", "translate(s, 'a1é', '日x')", "translate(ls, 'aab', '123')"],
    *["translate(s, '', 'x')", "ascii(s)", "ascii(ls)", "chr(abs(j) % 50000)", "chr(ascii(c))"],
    *["to_hex(i)", "to_hex(j)", "to_hex(u)", "find_in_set(s, 'a,b,,a')", "find_in_set(s, '')"],
    *["find_in_set('a', c)", "find_in_set('', c)", "find_in_set(s, c)", "find_in_set(ls, c)"],
    *[f"substr_index(s, '.', {number})" for number in (-2, -1, 0, 1, 2)],
    *["substring_index(s, 'aa', 1)", "substr_index(s, 'aa', -1)", "substr_index(s, '', 1)"],
    *["regexp_instr(s, 'b')", "regexp_instr(ls, '[0-9]|日')", "regexp_instr(s, 'a.b')"],
    *["string_to_array(s, '.')", "string_to_array(c, ',', 'a')", "string_to_array(s, '')"],
    *["encode(s, 'base64')", "encode(b, 'base64')", "encode(ls, 'base64')", "encode(b, 'hex')"],
    *["decode(encode(b, 'base64'), 'base64')", "decode(encode(ls, 'base64'), 'base64')"],
    *["string_to_array(s, NULL)", "string_to_array(ls, NULL, 'a')", "string_to_array(ls, '.')"],
    *["regexp_instr(s, '^[ab]', 2)", "regexp_instr(ls, 'A|日', 3, 1, 'i', 0)"],
    *["regexp_instr(s, '[ab]', 1, 2)", "regexp_instr(ls, '日|a|ab', 2, 3)"],
    *["regexp_instr(s, '(a)|(b)', 1, 1, '', 2)", "regexp_instr(s, '((a)(.))', 1, 4, 's', 3)"],
    *["regexp_instr(s, '[(]?(?P<x>B)\\)?', 1, 2, 'i', 1)", "regexp_instr(s, '(a)', 1, 1, '', 2)"],
    *["contains_tokens(s, 'a')", "contains_tokens(ls, 'b.a 日')", "contains_tokens(s, '')"],
    *["overlay(s, 'xy', 2)", "overlay(ls, '日', 1, 0)", "overlay(s, 'x', 3, -1)"],
    *["levenshtein(s, c)", "levenshtein(s, 'ab.日')", "levenshtein(ls, ls)", "levenshtein('', c)"],
    *[
        "decode(encode(b, 'hex'), 'hex')",
        "decode(encode(ls, 'hex'), 'hex')",
        "decode(upper(encode(s, 'hex')), 'hex')",
    ],
]
NUMBER_COLUMNS: Final = [
    *["gcd(i, j)", "gcd(j, 12)", "gcd(0, i)", "lcm(i, j)", "lcm(j, 12)", "lcm(i, 0)", "lcm(i, i)"],
    *[
        "factorial(gcd(i, 6))",
        "factorial(gcd(j, 20))",
        *[f"arrow_typeof({name})" for name in TYPES],
    ],
]
LIST_COLUMNS: Final = [
    *["array_append(l, 7)", "array_append(l, i)", "list_append(lt, 'x')", "array_append(lt, s)"],
    *["array_append(l, NULL)", "array_append(l, 2.5)", "array_append(lf, f)"],
    *["array_prepend(7, l)", "array_prepend(s, lt)", "list_prepend(i, l)"],
    *["array_concat(l, m)", "array_concat(l, m, l)", "list_concat(lt, lt)", "array_concat(l)"],
    *["array_reverse(l)", "array_reverse(lt)", "array_pop_back(l)", "array_pop_front(lt)"],
    *["array_sort(l)", "array_sort(lt)", "array_sort(lf)", "array_sort(l, 'desc')"],
    *["array_sort(l, 'ASC', 'NULLS LAST')", "array_sort(lt, 'DESC', 'nulls last')"],
    *["array_distinct(l)", "array_distinct(lt)", "array_distinct(lf)", "list_distinct(l)"],
    *["array_max(l)", "array_min(l)", "array_max(lt)", "array_min(lt)"],
    *["array_distance(lf, lf)", "array_distance(l, array_sort(l))"],
    *["array_to_string(l, '-')", "array_to_string(lt, ',', 'N')", "array_join(lt, '')"],
]
COLUMNS: Final = [*TEXT_COLUMNS, *NUMBER_COLUMNS, *LIST_COLUMNS]


def are_equal(ours: Any, theirs: Any) -> bool:
    """Equal, with NaN as itself and zeros of either sign told apart."""
    return repr(ours) == repr(theirs)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("functions")


@given(rows=ROWS)
@settings(max_examples=15, suppress_health_check=list(HealthCheck))
async def test_columns_are_those_of_pylance(folder: Path, rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(rows, pa.schema(list(TYPES.items())))
    uri = folder / "any"
    theirs = lance.write_dataset(table, uri, mode="overwrite", max_rows_per_file=5)
    mapping = {f"c{number}": text for number, text in enumerate(COLUMNS)}
    ours = await (await alance.dataset(uri)).to_table(mapping)
    expected = theirs.to_table(mapping)
    for name, text in mapping.items():
        assert ours.schema.field(name).type == expected.schema.field(name).type, text
        assert are_equal(ours[name].to_pylist(), expected[name].to_pylist()), text


@given(values=st.lists(REALS, min_size=1, max_size=20))
@settings(max_examples=50, suppress_health_check=list(HealthCheck))
async def test_cube_roots_are_those_of_pylance(folder: Path, values: list[float | None]) -> None:
    table = pa.table({"f": pa.array(values, pa.float64()), "g": pa.array(values, pa.float32())})
    theirs = lance.write_dataset(table, folder / "roots", mode="overwrite")
    ours = await (await alance.dataset(folder / "roots")).to_table({"f": "cbrt(f)", "g": "cbrt(g)"})
    expected = theirs.to_table({"f": "cbrt(f)", "g": "cbrt(g)"})
    assert ours.schema.types == expected.schema.types
    for name, digits in (("f", 1e-15), ("g", 1e-6)):  # cbrt of two libraries
        for root, other in zip(ours[name].to_pylist(), expected[name].to_pylist(), strict=True):
            assert (root is None) == (other is None)
            if root is not None:
                assert (math.isnan(root) and math.isnan(other)) or math.isclose(
                    root, other, rel_tol=digits
                )


BASE64: Final = [
    *["aGk=", "aGk", "aA==", "aA", "aA=", "a", "=", "==", "====", "aGk==", "aG==", "aGl", "aGl="],
    *[
        "aGk=x",
        "aGk=aGk=",
        "aGkA====",
        "YWJj",
        "YWJj=",
        "YWJjZA==",
        "aG k",
        "aG-_",
        "/+8",
        "",
        "YWJjZA=",
        "YWJjZA===",
        "aA= ",
        "a=",
        "=aGk",
    ],
]


async def test_base64_is_refused_where_pylance_refuses_it(folder: Path) -> None:
    table = pa.table({"s": BASE64, "row": range(len(BASE64))})
    theirs = lance.write_dataset(table, folder / "base64")
    ours = await alance.dataset(folder / "base64")
    request, refused = {"x": "decode(s, 'base64')"}, 0
    for row, text in enumerate(BASE64):
        try:
            expected = theirs.to_table(request, filter=f"row = {row}")
        except (OSError, ValueError):
            refused += 1
            with pytest.raises(InvalidInputError, match="base64"):
                await ours.to_table(request, filter=f"row = {row}")
        else:
            assert await ours.to_table(request, filter=f"row = {row}") == expected, text
    assert 0 < refused < len(BASE64)


async def test_distances_of_many_and_long_texts_are_those_of_pylance(folder: Path) -> None:
    texts = ["ab" * (number * 37 % 400) + "é" * (number % 3) for number in range(60)]
    table = pa.table({"s": texts, "t": texts[1:] + texts[:1]})
    theirs = lance.write_dataset(table, folder / "long", mode="overwrite")
    request = {"x": "levenshtein(s, t)", "y": "levenshtein(t, 'abba')"}
    assert await (await alance.dataset(folder / "long")).to_table(request) == theirs.to_table(
        request
    )


@pytest.fixture(scope="module")
def items(folder: Path) -> str:
    table = pa.table(
        {
            "s": ["a", "abc", None, "A-1"],
            "i": [3, -4, None, 1 << 62],
            "l": [[1, 2], [], None, [None]],
            "o": [[[1]], [], None, [[2]]],
            "f": [1.5, -1.0, None, 4.0],
        }
    )
    return str(lance.write_dataset(table, folder / "items").uri)


@pytest.mark.parametrize(
    "text",
    [
        "ascii(s) = 97",
        "translate(s, 'abc', 'xyz') = 'xyz'",
        "gcd(i, 6) = 3",
        "f < pi()",
        "array_max(l) = 2",
        "array_sort(l)[1] = 1",
        "array_length(array_append(l, 1)) > 1",
        "find_in_set(s, 'x,abc') > 0",
        "regexp_instr(s, '[0-9]') = 3",
        "to_hex(i) like 'f%'",
    ],
)
async def test_filters_keep_the_rows_of_pylance(items: str, text: str) -> None:
    expected = lance.dataset(items).to_table(["s"], filter=text)
    assert expected.num_rows > 0
    dataset = await alance.dataset(items)
    assert await dataset.to_table(["s"], filter=text) == expected


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("ascii(i)", InvalidInputError, "expected text"),
        ("to_hex(f)", InvalidInputError, "expected an integer"),
        ("gcd(f, 1)", InvalidInputError, "expected integers"),
        ("chr(i)", InvalidInputError, "is no character"),
        ("lcm(i, 4611686018427387903)", InvalidInputError, "overflow"),
        ("decode(s, 'hex')", InvalidInputError, "hexadecimal"),
        ("decode(s, 'base64')", InvalidInputError, "base64"),
        ("encode(s, 'rot13')", InvalidInputError, "base64"),
        ("array_append(s, 1)", InvalidInputError, "expected a column of lists"),
        ("array_append(l, 'x')", InvalidInputError, "among items"),
        ("array_concat(l, o)", UnsupportedError, "lists of"),
        ("array_sort(o)", UnsupportedError, "lists of"),
        ("array_sort(l, 'up')", InvalidInputError, "ASC or DESC"),
        ("array_to_string(o, ',')", UnsupportedError, "items of"),
        ("regexp_instr(s, '')", UnsupportedError, "empty pattern"),
        ("regexp_instr(s, 'a', 0)", InvalidInputError, "regexp_instr"),
        ("regexp_instr(s, 'a*', 1, 2)", UnsupportedError, "may match an empty text"),
        ("regexp_instr(s, '\\b', 1, 2)", UnsupportedError, "may match an empty text"),
        ("regexp_instr(s, 'a', 1, 0)", InvalidInputError, "not within 1"),
        ("regexp_instr(s, 'a', 1, 1, 'q')", InvalidInputError, "flags"),
        ("contains_tokens(s, s)", UnsupportedError, "expected a literal"),
        ("overlay(s, 'x', 0)", InvalidInputError, "not within"),
        ("factorial(i)", InvalidInputError, "factorial"),
        ("levenshtein(s, i)", InvalidInputError, "expected text"),
        ("array_distance(l, [1])", InvalidInputError, "different lengths"),
        ("to_char(i, 'a')", InvalidInputError, "to_char: expected a date or time, found int64"),
        ("random()", UnsupportedError, "random"),
    ],
)
async def test_what_they_do_not_take_is_said(
    items: str, text: str, kind: type[Exception], message: str
) -> None:
    dataset = await alance.dataset(items)
    with pytest.raises(kind, match=message):
        await dataset.to_table({"x": text})
