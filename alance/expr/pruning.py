"""Pruning of zones of rows by the bounds of columns: no zone with a matching row is ruled out.

A part of a condition that is not understood counts as possibly true, false or null. All terms of
AND and OR on the same column become one check (`pruning_sets`). Terms beyond `MAX_CHECKS` are not
checked, only evaluated for rows.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.expr.compare import FLIPPED
from alance.expr.logic import TRUE_LITERAL, Junction
from alance.expr.pruning_checks import (
    All,
    Anything,
    BeginsWith,
    Check,
    Compared,
    ConstantCheck,
    Is,
    IsNull,
    Not,
    Within,
    Zones,
)
from alance.expr.pruning_sets import compared, listed, union
from alance.expr.tree import (
    FAILURES,
    Call,
    Column,
    Comparison,
    Literal,
    Membership,
    Pattern,
    Problem,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.base.arrays import Mask
    from alance.expr.tree import Node

# Checks of columns; each takes 20 us for all zones together. A scan also evaluates each term for
# the rows, in 20 us a batch: up to this number, checks cost less than they may save.
MAX_CHECKS: Final = 256

__all__ = ["Check", "Zones", "check_of", "may_match", "num_checks", "num_listed"]


def check_of(condition: object) -> Check | None:
    """Return the check of a condition. Returns None if it reads no bounds and is not constant."""
    check = _limited(_check(condition))
    return check if num_checks(check) or isinstance(check, ConstantCheck) else None


def num_listed(condition: object) -> int:
    """Return the number of values in a condition's lists: the cost of sorting them."""
    if isinstance(condition, Call) and isinstance(condition.meaning, Membership):
        return len(condition.meaning.items)
    if isinstance(condition, Call | Junction):
        return sum(map(num_listed, condition.args))
    return 0


def num_checks(check: Check) -> int:
    """Return the cost of a check: how many times it reads the bounds of a column."""
    return len([*check.columns()])


def may_match(check: Check, zones: Zones) -> Mask:
    """Return the mask of the zones with a row for which the condition may be true; shape (n,).

    CPU work. Returns all zones if the evaluation fails.
    """
    try:
        return check.may(zones).true
    except FAILURES:
        return np.ones(zones.num_zones, np.bool_)


def _check(node: object) -> Check:
    if isinstance(node, Literal):
        return ConstantCheck(node.value.as_py()) if pa.types.is_boolean(node.type) else Anything()
    if isinstance(node, Column):
        return _guarded(lambda: Compared.of("=", node, TRUE_LITERAL))
    if isinstance(node, Junction):
        parts = [_check(arg) for arg in node.args]
        return _all(parts) if node.is_and else _negated(_all([_negated(part) for part in parts]))
    if not isinstance(node, Call):
        return Anything()
    meaning = node.meaning
    if isinstance(meaning, Comparison):
        if isinstance(meaning.left, Column) and isinstance(meaning.right, Literal):
            return _guarded(lambda: _compared(meaning.op, meaning.left, meaning.right))
        if isinstance(meaning.right, Column) and isinstance(meaning.left, Literal):
            return _guarded(lambda: _compared(FLIPPED[meaning.op], meaning.right, meaning.left))
    elif isinstance(meaning, Membership) and isinstance(meaning.node, Column):
        return _guarded(lambda: _listed(meaning))
    elif isinstance(meaning, Pattern) and isinstance(meaning.node, Column):
        return _guarded(lambda: _begun(meaning))
    elif node.name in _CHECKS_BY_NAME:
        return _CHECKS_BY_NAME[node.name](node)
    return Anything()


def _compared(op: str, column: Node, literal: Node) -> Check:
    assert isinstance(column, Column)
    assert isinstance(literal, Literal)
    ranges = compared(op, column.type, literal)
    if ranges is None:
        return Compared.of(op, column, literal)
    if not pa.types.is_floating(column.type):
        return Within(column, ranges)
    return Within(column, ranges, has_nan=op in ("!=", ">", ">="))


def _listed(membership: Membership) -> Check:
    assert isinstance(membership.node, Column)
    ranges = listed(membership.node.type, membership.items)
    return Anything() if ranges is None else Within(membership.node, ranges)


def _begun(pattern: Pattern) -> Check:
    return BeginsWith.of(pattern) if pattern.prefix else Anything()


def _all(parts: list[Check]) -> Check:
    """Build AND; the sets of each column are intersected."""
    complements: dict[tuple[tuple[str, ...], pa.DataType], list[Within]] = {}
    others: list[Check] = []
    for part in parts:
        if isinstance(part, Within):
            complements.setdefault((part.column.path, part.column.type), []).append(~part)
        else:
            others.append(part)
    joined = [*(~_any_of(sets) for sets in complements.values()), *others]
    return joined[0] if len(joined) == 1 else All(tuple(joined))


def _any_of(sets: list[Within]) -> Within:
    """Build OR of conditions on the same column."""
    has_nan = any(within.has_nan for within in sets)
    return Within(sets[0].column, union([within.ranges for within in sets]), has_nan)


def _negated(check: Check) -> Check:
    if isinstance(check, Within):
        return ~check
    return check.of if isinstance(check, Not) else Not(check)


def _limited(check: Check) -> Check:
    """Limit a check to `MAX_CHECKS`: keep the cheapest parts of an AND, drop all others.

    A check that is not an AND is kept or dropped as a whole.
    """
    parts = check.parts if isinstance(check, All) else (check,)
    total, limited = 0, []
    costs = zip(map(num_checks, parts), parts, strict=True)
    for cost, part in sorted(costs, key=itemgetter(0)):
        total += cost
        limited.append(part if total <= MAX_CHECKS else Anything())
    return limited[0] if len(limited) == 1 else All(tuple(limited))


def _guarded(build: Callable[[], Check]) -> Check:
    try:
        return build()
    except (Problem, *FAILURES):
        return Anything()


def _is_null_of(node: Call) -> Check:
    (of,) = node.args
    if isinstance(of, Column):
        return IsNull(of)
    return Is(_check(of), None) if pa.types.is_boolean(of.type) else Anything()


def _distinct(node: Call) -> Check:
    """Build IS DISTINCT FROM a literal, which is true for nulls unless the literal is null."""
    if len(node.args) == 1:
        return _negated(_is_null_of(node))
    unequal, left, right = node.args
    if not isinstance(left, Column) or not isinstance(right, Literal):
        left, right = right, left
    if not isinstance(left, Column) or not isinstance(right, Literal):
        return Anything()
    return _negated(Is(_negated(_check(unequal)), True))


_CHECKS_BY_NAME: Final[dict[str, Callable[[Call], Check]]] = {
    "not": lambda node: _negated(_check(node.args[0])),
    "is null": _is_null_of,
    "is true": lambda node: Is(_check(node.args[0]), True),
    "is false": lambda node: Is(_check(node.args[0]), False),
    "is distinct from": _distinct,
}
