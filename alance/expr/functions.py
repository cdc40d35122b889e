"""The functions of SQL text by name: how many arguments they take, and what builds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from alance.expr import arithmetic, logic, moments, regex, text
from alance.expr.coercion import unify
from alance.expr.compare import compare
from alance.expr.problem import Problem, unknown
from alance.expr.tree import Literal, Node, call
from alance.format.numbers import as_scalar, to_arrow

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


def array_length(name: str, args: list[Node]) -> Node:
    """Items of a list; null of a null list."""
    _check_list(name, args[0])
    return call(name, pc.list_value_length, args[0])


def array_has(name: str, args: list[Node]) -> Node:
    """Whether a list has a literal among its items."""
    node, item = args
    _check_list(name, node)
    if not isinstance(item, Literal) or not item.value.is_valid:
        raise Problem(f"{name}: an item that is no literal", unsupported=True)
    hit = compare("=", _Items(node.type.value_type), item)

    def find(lists: pa.Array) -> pa.Array:
        items = lists.flatten()
        batch = pa.RecordBatch.from_arrays([items], ["item"])
        equal = pc.fill_null(hit.evaluate(batch), False)
        parents = pc.list_parent_indices(lists).filter(equal)
        found = np.zeros(len(lists), np.bool_)
        found[np.from_dlpack(parents)] = True
        if lists.null_count == 0:
            return to_arrow(found)
        return pc.if_else(pc.is_valid(lists), to_arrow(found), as_scalar(None, pa.bool_()))

    return call(name, find, node)


@dataclass(frozen=True, slots=True, eq=False)
class _Items:
    """The items of a list, as the only column of a batch."""

    type: pa.DataType

    @property
    def args(self) -> tuple[Node, ...]:
        return ()

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        return batch.column(0)


def _check_list(name: str, node: Node) -> None:
    kind = node.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not is_list and not pa.types.is_fixed_size_list(kind):
        raise Problem(f"{name}: expected a list, found {kind}")


def _extreme(kernel: Callable[..., pa.Array]) -> Callable[[str, list[Node]], Node]:
    return lambda name, args: call(name, kernel, *unify(*args))


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
    "array_length": Function(1, 1, array_length),
    "cardinality": Function(1, 1, array_length),
    "array_has": Function(2, 2, array_has),
    "array_contains": Function(2, 2, array_has),
    "list_has": Function(2, 2, array_has),
    "list_contains": Function(2, 2, array_has),
}
