"""Expressions made at random: types x functions x nesting, for comparisons with other engines."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

NAN, INF = float("nan"), float("inf")
INT, FLOAT, TEXT, TRUTH, INTS = "int", "float", "text", "truth", "ints"

TABLE: Final = pa.table(
    {
        "i": pa.array([1, 2, None, -4, 5, 0, 7, 127, 1 << 40, -1], pa.int64()),
        "j": pa.array([3, None, 0, -4, 6, 1, 2, -128, 100, 5], pa.int32()),
        "f": pa.array([1.5, NAN, None, -2.0, INF, 0.0, 2.5, 1e300, -INF, 0.1], pa.float64()),
        "s": ["x", "Yes", "abc", None, "", "a%c", "äß", "x y", "aXbXc", "日本 a"],
        "t": ["x", "abc", None, "b", "a", "", "ß", "y", "XX", "a,b,c"],
        "b": [True, False, None, True, False, True, None, False, True, False],
        "l": pa.array(
            [[1, 2], [], None, [3, None], [1], [7], [8, 8], [9], [0, 1, 2], [-1]],
            pa.list_(pa.int64()),
        ),
    }
)
COLUMNS: Final = {INT: ["i", "j"], FLOAT: ["f"], TEXT: ["s", "t"], TRUTH: ["b"], INTS: ["l"]}
LITERALS: Final = {
    INT: ["0", "1", "2", "-3", "7", "100"],
    FLOAT: ["0.5", "1.5", "-2.0", "1e10"],
    TEXT: ["'x'", "'abc'", "''", "'a'", "'X'", "'ß'", "'日'", "' '", "','"],
    TRUTH: ["true", "false"],
    INTS: ["[1, 2]", "[3]", "[7, 8, 9]"],
}


@dataclass(frozen=True)
class Form:
    """A way to make an expression of a type of others.

    Attributes:
        text: with a place for each part: `{}` for any expression of the type, `{=}` for a literal.
        plain: DuckDB means the same by it.
    """

    result: str
    text: str
    parts: Sequence[str] = ()
    plain: bool = False


def _forms(result: str, parts: Sequence[str], texts: Sequence[str], *, plain: bool) -> list[Form]:
    return [Form(result, text, parts, plain) for text in texts]


_COMPARED: Final = [f"({{}} {op} {{}})" for op in ("=", "!=", "<", "<=", ">", ">=")]
FORMS: Final = [
    *_forms(TRUTH, [INT, INT], _COMPARED, plain=True),
    *_forms(TRUTH, [TEXT, TEXT], _COMPARED, plain=True),
    *_forms(TRUTH, [FLOAT, FLOAT], _COMPARED, plain=False),
    *_forms(TRUTH, [INT], ["({} is null)", "({} is not null)", "({} in (1, 2, 7))"], plain=True),
    *_forms(TRUTH, [INT], ["({} not in (1, null))", "({} in (5, null))"], plain=True),
    *_forms(TRUTH, [TEXT], ["({} is null)", "({} in ('x', 'abc'))", "({} like '%a%')"], plain=True),
    *_forms(TRUTH, [TEXT], ["({} like 'a_c')", "({} like '%b%c')", "({} ilike '%A%')"], plain=True),
    *_forms(TRUTH, [TEXT], ["starts_with({}, 'a')", "ends_with({}, 'c')"], plain=True),
    *_forms(TRUTH, [TEXT], ["contains({}, 'b')", "regexp_like({}, '[a-c]+')"], plain=False),
    *_forms(TRUTH, [TRUTH, TRUTH], ["({} and {})", "({} or {})"], plain=True),
    *_forms(TRUTH, [TRUTH], ["(not {})", "({} is true)", "({} is not false)"], plain=True),
    *_forms(TRUTH, [INT, INT], ["({} is distinct from {})"], plain=True),
    *_forms(TRUTH, [INT, INT, INT], ["({} between {} and {})"], plain=True),
    *_forms(TRUTH, [INTS, INT], ["array_has({}, {})"], plain=False),
    *_forms(TRUTH, [INTS, INTS], ["array_has_any({}, {})", "array_has_all({}, {})"], plain=False),
    *_forms(INT, [INT, INT], ["({} + {})", "({} - {})"], plain=True),
    *_forms(INT, [INT, INT], ["nullif({}, {})", "coalesce({}, {})"], plain=True),
    *_forms(INT, [INT, INT], ["greatest({}, {})", "least({}, {})"], plain=True),
    *_forms(INT, [INT, INT], ["({} * {})", "({} / {})", "({} % {})", "gcd({}, {})"], plain=False),
    *_forms(INT, [INT], ["abs({})", "(- {})"], plain=False),
    *_forms(INT, [TEXT], ["length({})"], plain=True),
    *_forms(INT, [TEXT], ["octet_length({})", "ascii({})", "strpos({}, 'a')"], plain=False),
    *_forms(INT, [TEXT, TEXT], ["levenshtein({}, {})"], plain=False),
    *_forms(INT, [INTS], ["array_length({})", "array_max({})", "array_min({})"], plain=False),
    *_forms(INT, [INTS], ["{}[1]", "{}[-1]"], plain=False),
    *_forms(INT, [INTS, INT], ["array_position({}, {})"], plain=False),
    *_forms(INT, [TRUTH, INT, INT], ["(case when {} then {} else {} end)"], plain=True),
    *_forms(FLOAT, [FLOAT, FLOAT], ["({} + {})", "({} - {})", "({} * {})"], plain=False),
    *_forms(FLOAT, [FLOAT], ["abs({})", "floor({})", "ceil({})", "sqrt({})"], plain=False),
    *_forms(FLOAT, [INT], ["cast({} as double)"], plain=True),
    *_forms(FLOAT, [FLOAT, FLOAT], ["coalesce({}, {})", "nanvl({}, {})"], plain=False),
    *_forms(TEXT, [TEXT], ["lower({})", "reverse({})"], plain=True),
    *_forms(TEXT, [TEXT], ["upper({})", "trim({})", "initcap({})", "md5({})"], plain=False),
    *_forms(TEXT, [TEXT], ["replace({}, 'a', 'bb')", "replace({}, 'X', '')"], plain=True),
    *_forms(TEXT, [TEXT], ["substr({}, 2)", "substr({}, 1, 2)", "left({}, 2)"], plain=True),
    *_forms(TEXT, [TEXT], ["right({}, 2)", "repeat({}, 3)"], plain=True),
    *_forms(TEXT, [TEXT], ["lpad({}, 5, '*')", "rpad({}, 5, '*')"], plain=True),
    *_forms(TEXT, [TEXT], ["split_part({}, ',', 2)", "translate({}, 'ab', 'x')"], plain=True),
    *_forms(TEXT, [TEXT], ["regexp_replace({}, '[a-b]', 'z', 'g')"], plain=True),
    *_forms(TEXT, [TEXT], ["substr_index({}, ',', 1)", "overlay({}, 'Z', 1)"], plain=False),
    *_forms(
        TEXT, [TEXT, TEXT], ["({} || {})", "concat({}, {})", "concat_ws('-', {}, {})"], plain=True
    ),
    *_forms(TEXT, [TEXT, TEXT], ["coalesce({}, {})", "nullif({}, {})"], plain=True),
    *_forms(TEXT, [TRUTH, TEXT, TEXT], ["(case when {} then {} else {} end)"], plain=True),
    *_forms(TEXT, [INT], ["cast({} as string)"], plain=True),
    *_forms(TEXT, [INT], ["to_hex({})"], plain=False),
    *_forms(TEXT, [INTS], ["array_to_string({}, ',')"], plain=False),
    *_forms(INTS, [INTS, INT], ["array_append({}, {})", "array_remove({}, {})"], plain=False),
    *_forms(
        INTS, [INTS], ["array_sort({})", "array_distinct({})", "array_reverse({})"], plain=False
    ),
    *_forms(INTS, [INTS], ["array_pop_back({})", "array_slice({}, 1, 2)"], plain=False),
    *_forms(INTS, [INTS, INTS], ["array_concat({}, {})", "array_union({}, {})"], plain=False),
    *_forms(INTS, [INTS, INTS], ["array_intersect({}, {})", "array_except({}, {})"], plain=False),
    *_forms(INTS, [INT], ["array_repeat({}, 2)", "make_array({}, 1)"], plain=False),
]
_BY_RESULT: Final = {kind: [form for form in FORMS if form.result == kind] for kind in COLUMNS}


class Expressions:
    """A stream of expressions, the same for each seed.

    Args:
        plain: only what DuckDB means the same by.
    """

    def __init__(self, seed: int, *, plain: bool = False) -> None:
        self._random = random.Random(seed)
        self._plain = plain

    def next(self, depth: int | None = None) -> str:
        """An expression of any type."""
        kinds = [INT, TEXT, TRUTH] if self._plain else list(COLUMNS)
        return self.of(self._random.choice(kinds), self._random.randint(1, 4))

    def of(self, kind: str, depth: int) -> str:
        """An expression of a type, whose calls lie so deep in each other at most."""
        forms = [form for form in _BY_RESULT[kind] if form.plain or not self._plain]
        if depth == 0 or not forms or self._random.random() < 0.1:
            return self._leaf(kind)
        form = self._random.choice(forms)
        return form.text.format(*(self.of(part, depth - 1) for part in form.parts))

    def _leaf(self, kind: str) -> str:
        # Lists that are written down are not taken everywhere: see docs/sql.md.
        if kind == INTS or self._random.random() < 0.75:
            return self._random.choice(COLUMNS[kind])
        return self._random.choice(LITERALS[kind])
