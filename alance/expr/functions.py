"""The functions of SQL text by name: how many arguments they take, and what builds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from alance.expr import arithmetic, lists, logic, moments, regex, text
from alance.expr.coercion import unify
from alance.expr.problem import Problem, unknown
from alance.expr.tree import Node, call

if TYPE_CHECKING:
    from collections.abc import Callable

MANY: Final = 1000


@dataclass(frozen=True, slots=True)
class Function:
    """A function: the bounds of its number of arguments, and its builder."""

    least: int
    most: int
    build: Callable[[str, list[Node]], Node]


def apply(name: str, args: list[Node]) -> Node:
    """A function by name, of any case.

    Raises:
        Problem: no such function, or arguments that it does not take.
    """
    found = FUNCTIONS.get(name.lower())
    if found is None:
        raise unknown("function", name, FUNCTIONS)
    if not found.least <= len(args) <= found.most:
        expected = str(found.least) if found.least == found.most else f"at least {found.least}"
        raise Problem(f"{name}: {len(args)} arguments, expected {expected}")
    return found.build(name.lower(), args)


def _extreme(kernel: Callable[..., pa.Array]) -> Callable[[str, list[Node]], Node]:
    return lambda name, args: call(name, kernel, *unify(*args))


def _named(*ends: str) -> list[str]:
    return [f"{kind}_{end}" for end in ends for kind in ("array", "list")]


_REAL: Final = {
    "sqrt": pc.sqrt,
    "exp": pc.exp,
    "ln": pc.ln,
    "log2": pc.log2,
    "log10": pc.log10,
    "log": pc.log10,
    "sin": pc.sin,
    "cos": pc.cos,
    "tan": pc.tan,
    "asin": pc.asin,
    "acos": pc.acos,
    "atan": pc.atan,
    "signum": pc.sign,
}
_REAL_2: Final = {"power": pc.power, "pow": pc.power, "atan2": pc.atan2}
_LENGTH: Final = text.plain_text(pc.utf8_length)

FUNCTIONS: Final[dict[str, Function]] = {
    **{name: Function(1, 1, arithmetic.real_function(kernel)) for name, kernel in _REAL.items()},
    **{name: Function(2, 2, arithmetic.real_function(kernel)) for name, kernel in _REAL_2.items()},
    "abs": Function(1, 1, arithmetic.absolute),
    "round": Function(1, 2, arithmetic.rounding(arithmetic.round_half_up)),
    "trunc": Function(1, 2, arithmetic.rounding(arithmetic.round_to_zero)),
    "floor": Function(1, 1, arithmetic.rounding(pc.floor)),
    "ceil": Function(1, 1, arithmetic.rounding(pc.ceil)),
    "ceiling": Function(1, 1, arithmetic.rounding(pc.ceil)),
    "mod": Function(2, 2, arithmetic.modulo),
    "isnan": Function(1, 1, arithmetic.is_nan),
    "greatest": Function(1, MANY, _extreme(pc.max_element_wise)),
    "least": Function(1, MANY, _extreme(pc.min_element_wise)),
    "coalesce": Function(1, MANY, lambda _, args: logic.coalesce(*args)),
    "ifnull": Function(2, 2, lambda _, args: logic.coalesce(*args)),
    "nvl": Function(2, 2, lambda _, args: logic.coalesce(*args)),
    "nullif": Function(2, 2, lambda _, args: logic.null_if(*args)),
    "if": Function(3, 3, lambda _, args: logic.choose(*args)),
    "lower": Function(1, 1, text.plain_text(pc.utf8_lower)),
    "upper": Function(1, 1, text.plain_text(pc.utf8_upper)),
    "initcap": Function(1, 1, text.plain_text(pc.utf8_title)),
    "reverse": Function(1, 1, text.plain_text(pc.utf8_reverse)),
    "length": Function(1, 1, _LENGTH),
    "char_length": Function(1, 1, _LENGTH),
    "character_length": Function(1, 1, _LENGTH),
    "octet_length": Function(1, 1, text.octet_length),
    "trim": Function(1, 2, text.trimming(pc.utf8_trim)),
    "btrim": Function(1, 2, text.trimming(pc.utf8_trim)),
    "ltrim": Function(1, 2, text.trimming(pc.utf8_ltrim)),
    "rtrim": Function(1, 2, text.trimming(pc.utf8_rtrim)),
    "substr": Function(2, 3, text.substring),
    "substring": Function(2, 3, text.substring),
    "left": Function(2, 2, text.left),
    "right": Function(2, 2, text.right),
    "replace": Function(3, 3, text.replace),
    "repeat": Function(2, 2, text.repeat),
    "strpos": Function(2, 2, text.position),
    "position": Function(2, 2, text.position),
    "concat": Function(1, MANY, text.concat),
    "starts_with": Function(2, 2, text.with_pattern(pc.starts_with)),
    "ends_with": Function(2, 2, text.with_pattern(pc.ends_with)),
    "contains": Function(2, 2, text.with_pattern(pc.match_substring)),
    "regexp_like": Function(2, 3, regex.regexp_like),
    "regexp_match": Function(2, 3, regex.regexp_match),
    "regexp_count": Function(2, 2, regex.regexp_count),
    "regexp_replace": Function(3, 4, regex.regexp_replace),
    "date_part": Function(2, 2, moments.date_part),
    "date_trunc": Function(2, 2, moments.date_trunc),
    "to_date": Function(1, 1, moments.to_date),
    "to_timestamp": Function(1, 1, moments.to_timestamp),
    "make_array": Function(0, MANY, lists.made_list),
    **dict.fromkeys(("array_length", "cardinality"), Function(1, 1, lists.length)),
    **dict.fromkeys(("empty", "array_empty"), Function(1, 1, lists.is_empty)),
    **{name: Function(2, 2, lists.has) for name in _named("has", "contains")},
    **{name: Function(2, 2, lists.has_any) for name in _named("has_any")},
    **{name: Function(2, 2, lists.has_all) for name in _named("has_all", "contains_all")},
    **{name: Function(2, 2, lists.position) for name in _named("position", "indexof")},
    **{name: Function(2, 2, lists.item) for name in _named("element", "extract")},
}
