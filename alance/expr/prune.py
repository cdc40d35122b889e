"""Which zones of rows a condition may hold in, from the bounds of columns: never wrongly none.

A check answers in three values at once: for each zone whether the condition may be true of some
row, may be false of one, may be null of one. What is not understood may be all of them. A
comparison with a literal is asked of the bounds themselves, by the very nodes that rows are asked
with: literals that are cast, decimals, zones of time, float rounding and NaN come out the same.

All terms of AND and OR on one column become one check (`prune_sets`). What is left of a condition
of very many terms is asked up to a limit; the rest may be anything, and is left to the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.expr.compare import FLIPPED
from alance.expr.logic import TRUE, Junction
from alance.expr.meaning import Comparison, Membership, Prefix
from alance.expr.problem import Problem
from alance.expr.prune_sets import Within, compared_set, listed_set, union
from alance.expr.prune_values import IsNull, compared, prefixed
from alance.expr.prune_zones import Anything, Asked, Bounds, Check, May, Zones
from alance.expr.tree import FAILURES, Call, Column, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from alance.expr.prune_zones import Mask
    from alance.expr.tree import Node

# 10 us each and zone. A scan evaluates as many terms for rows, at 20 us each and batch: up to
# here the checks cost less than what they may save.
MAX_CHECKS: Final = 256

__all__ = ["Asked", "Bounds", "Check", "May", "Zones", "check_of", "may_match"]


def check_of(condition: object) -> Check | None:
    """The check of a condition; None where it would never rule out a zone."""
    found = _limited(_check(condition), [MAX_CHECKS])
    return found if any(True for _ in found.columns()) or isinstance(found, _Constant) else None


def may_match(check: Check, zones: Zones) -> Mask:
    """The zones in which the condition may be true of a row; shape (n,). CPU: 10 µs a check."""
    try:
        return check.may(Asked(zones)).true
    except FAILURES:
        return np.ones(zones.num_zones, np.bool_)


@dataclass(frozen=True, slots=True)
class _Constant:
    answer: bool | None

    def may(self, zones: Asked) -> May:
        def spread(flag: bool) -> Mask:
            return np.full(zones.num_zones, flag)

        return May(*(spread(self.answer is one) for one in (True, False, None)))

    def columns(self) -> Iterator[Column]:
        return iter(())


@dataclass(frozen=True, slots=True)
class _Not:
    of: Check

    def may(self, zones: Asked) -> May:
        found = self.of.may(zones)
        return May(found.false, found.true, found.null)

    def columns(self) -> Iterator[Column]:
        return self.of.columns()


@dataclass(frozen=True, slots=True)
class _All:
    """AND; as OR it is between two NOTs."""

    parts: tuple[Check, ...]

    def may(self, zones: Asked) -> May:
        found = [part.may(zones) for part in self.parts]
        true = np.logical_and.reduce([one.true for one in found])
        false = np.logical_or.reduce([one.false for one in found])
        # Null is what is null in a part and false in none.
        null = np.logical_or.reduce([one.null for one in found])
        null &= np.logical_and.reduce([one.true | one.null for one in found])
        return May(true, false, null)

    def columns(self) -> Iterator[Column]:
        for part in self.parts:
            yield from part.columns()


@dataclass(frozen=True, slots=True)
class _Is:
    """IS TRUE, IS FALSE, IS NULL of a condition: never null."""

    of: Check
    answer: bool | None

    def may(self, zones: Asked) -> May:
        one = self.of.may(zones)
        if self.answer is None:
            yes, no = one.null, one.true | one.false
        elif self.answer:
            yes, no = one.true, one.false | one.null
        else:
            yes, no = one.false, one.true | one.null
        return May(yes, no, np.zeros_like(yes))

    def columns(self) -> Iterator[Column]:
        return self.of.columns()


def _check(node: object) -> Check:
    if isinstance(node, Literal):
        return _Constant(node.value.as_py()) if pa.types.is_boolean(node.type) else Anything()
    if isinstance(node, Column):
        return _guarded(lambda: compared("=", node, TRUE))
    if isinstance(node, Junction):
        parts = [_check(arg) for arg in node.args]
        return _all(parts) if node.is_and else _negated(_all([_negated(part) for part in parts]))
    if not isinstance(node, Call):
        return Anything()
    said = node.meaning
    if isinstance(said, Comparison):
        if isinstance(said.left, Column) and isinstance(said.right, Literal):
            return _guarded(lambda: _compared(said.op, said.left, said.right))
        if isinstance(said.right, Column) and isinstance(said.left, Literal):
            return _guarded(lambda: _compared(FLIPPED[said.op], said.right, said.left))
    elif isinstance(said, Membership) and isinstance(said.node, Column):
        return _guarded(lambda: _listed(said))
    elif isinstance(said, Prefix) and isinstance(said.node, Column):
        return _guarded(lambda: prefixed(said))
    elif node.name in _NAMED:
        return _NAMED[node.name](node)
    return Anything()


def _compared(op: str, column: Node, literal: Node) -> Check:
    assert isinstance(column, Column)
    assert isinstance(literal, Literal)
    return compared_set(op, column, literal) or compared(op, column, literal)


def _listed(said: Membership) -> Check:
    assert isinstance(said.node, Column)
    return listed_set(said.node, said.items) or Anything()


def _all(parts: list[Check]) -> Check:
    """AND, with the sets of each column as one: what all have is what none lacks."""
    lacked: dict[tuple[tuple[str, ...], pa.DataType], list[Within]] = {}
    others: list[Check] = []
    for part in parts:
        if isinstance(part, Within):
            lacked.setdefault((part.column.path, part.column.type), []).append(~part)
        else:
            others.append(part)
    joined = [*(~union(sets) for sets in lacked.values()), *others]
    return joined[0] if len(joined) == 1 else _All(tuple(joined))


def _negated(check: Check) -> Check:
    if isinstance(check, Within):
        return ~check
    return check.of if isinstance(check, _Not) else _Not(check)


def _limited(check: Check, left: list[int]) -> Check:
    """The check, with `Anything` for what comes when the number of `left` is used up."""
    if isinstance(check, _All):
        return _All(tuple(_limited(part, left) for part in check.parts))
    if isinstance(check, _Not | _Is):
        return replace(check, of=_limited(check.of, left))
    left[0] -= 1
    return check if left[0] >= 0 else Anything()


def _guarded(build: Callable[[], Check]) -> Check:
    try:
        return build()
    except (Problem, *FAILURES):
        return Anything()


def _is_null_of(node: Call) -> Check:
    (of,) = node.args
    if isinstance(of, Column):
        return IsNull(of)
    return _Is(_check(of), None) if pa.types.is_boolean(of.type) else Anything()


def _distinct(node: Call) -> Check:
    """IS DISTINCT FROM a literal: true of nulls, where that is not one itself."""
    if len(node.args) == 1:
        return _negated(_is_null_of(node))
    unequal, left, right = node.args
    if not isinstance(left, Column) or not isinstance(right, Literal):
        left, right = right, left
    if not isinstance(left, Column) or not isinstance(right, Literal):
        return Anything()
    return _negated(_Is(_negated(_check(unequal)), True))


_NAMED: Final[dict[str, Callable[[Call], Check]]] = {
    "not": lambda node: _negated(_check(node.args[0])),
    "is null": _is_null_of,
    "is true": lambda node: _Is(_check(node.args[0]), True),
    "is false": lambda node: _Is(_check(node.args[0]), False),
    "is distinct from": _distinct,
}
