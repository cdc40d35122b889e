"""Expressions made at random: types x functions x nesting, for comparisons with other engines.

Where docs/sql.md says by a rule that pylance differs, a form has a second text that spells the
rule out: pylance has to give for it what alance gives for the first.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

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
        spelled: the text by which pylance means the same; {0} and {1} are the parts. Empty: `text`.
    """

    result: str
    text: str
    parts: Sequence[str] = ()
    plain: bool = False
    spelled: str = ""


class Expression(NamedTuple):
    """An expression of alance, and how pylance means the same by it."""

    text: str
    spelled: str


def _forms(
    result: str,
    parts: Sequence[str],
    texts: Sequence[str],
    *,
    plain: bool,
    spelled: Sequence[str] = (),
) -> list[Form]:
    spelled = spelled or [""] * len(texts)
    return [
        Form(result, text, parts, plain, other) for text, other in zip(texts, spelled, strict=True)
    ]


OPERATORS: Final = ("=", "!=", "<", "<=", ">", ">=")
_COMPARED: Final = [f"({{}} {op} {{}})" for op in OPERATORS]
# One NaN and one zero for all: docs/sql.md, "Floats".
_NAN: Final = "cast('nan' as double)"
_ORDERED: Final = [
    f"(nanvl({{0}} + 0.0, {_NAN}) {op} nanvl({{1}} + 0.0, {_NAN}))" for op in OPERATORS
]
# Null where a list is null, and nothing beneath a null: docs/sql.md,
# "Characters, whole numbers and lists".
_OF_TWO: Final = "({}({{0}}, {{1}}) = nullif(true, ({{0}} is null) or ({{1}} is null)))"
_BARE: Final = "coalesce(case when {0} is null then null else {0} end)"
FORMS: Final = [
    *_forms(TRUTH, [INT, INT], _COMPARED, plain=True),
    *_forms(TRUTH, [TEXT, TEXT], _COMPARED, plain=True),
    *_forms(TRUTH, [FLOAT, FLOAT], _COMPARED, plain=False, spelled=_ORDERED),
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
    *_forms(
        TRUTH,
        [INTS, INTS],
        ["array_has_any({}, {})", "array_has_all({}, {})"],
        plain=False,
        spelled=[_OF_TWO.format("array_has_any"), _OF_TWO.format("array_has_all")],
    ),
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
    *_forms(
        INTS,
        [INTS],
        ["array_pop_back({})", "array_slice({}, 1, 2)"],
        plain=False,
        spelled=[_BARE.format("array_pop_back({0})"), _BARE.format("array_slice({0}, 1, 2)")],
    ),
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

    def next(self) -> Expression:
        """An expression of any type."""
        kinds = [INT, TEXT, TRUTH] if self._plain else list(COLUMNS)
        return self.of(self._random.choice(kinds), self._random.randint(1, 4))

    def of(self, kind: str, depth: int) -> Expression:
        """An expression of a type, whose calls lie so deep in each other at most."""
        forms = [form for form in _BY_RESULT[kind] if form.plain or not self._plain]
        if depth == 0 or not forms or self._random.random() < 0.1:
            leaf = self._leaf(kind)
            return Expression(leaf, leaf)
        form = self._random.choice(forms)
        parts = [self.of(part, depth - 1) for part in form.parts]
        return Expression(
            form.text.format(*(part.text for part in parts)),
            (form.spelled or form.text).format(*(part.spelled for part in parts)),
        )

    def _leaf(self, kind: str) -> str:
        # List literals are not allowed everywhere: see docs/sql.md.
        if kind == INTS or self._random.random() < 0.75:
            return self._random.choice(COLUMNS[kind])
        return self._random.choice(LITERALS[kind])
