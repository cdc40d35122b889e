"""Parts of a condition that indices can answer: a tree of questions on single columns.

A question is a part of the condition that reads a single indexed column and that an index of the
column supports. An index that stores values evaluates the question on these values, by the same
nodes that evaluate rows. The answer contains at least all rows for which the condition is true. If
it may contain more, the condition is then evaluated on these rows.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from alance.base.records import dataclass
from alance.expr.builders.text_parts import NO_PARTS
from alance.expr.logic import Junction, junction, negation
from alance.expr.pruning import check_of
from alance.expr.pruning_checks import All, IsNull, Within
from alance.expr.tree import (
    AnyItem,
    Call,
    Column,
    Comparison,
    JsonValue,
    Literal,
    Membership,
    Node,
    Pattern,
    broadcast,
    item_of,
)
from alance.format.numbers import as_mask

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alance.base.arrays import Int64s, Mask
    from alance.expr.pruning import Check

    Path: TypeAlias = tuple[str, ...]
    Ways: TypeAlias = tuple[tuple[str, ...], ...]
    Steps: TypeAlias = tuple[tuple[str | None, int | None], ...]

MAX_POINTS: Final = 1024  # values that are looked up one by one
MAX_WAYS: Final = 64  # alternative patterns that are looked up


@dataclass(frozen=True, eq=False)
class Ask:
    """A condition on one column.

    Attributes:
        column: the column, with the type that the condition expects.
    """

    column: Column
    condition: Node

    @cached_property
    def check(self) -> Check | None:
        """Pruning check of zones of values; None if no zone can ever be ruled out."""
        return check_of(self.condition)

    def sort(self) -> None:
        """Compute `check` and `points` now. Both sort the compared values, which is CPU work."""
        ask = self.of_json[1] if self.of_json else self
        _ = ask.check, ask.points

    def matches(self, values: pa.Array) -> Mask:
        """Return the mask of the values for which the condition is true; shape (n,).

        Raises:
            pyarrow.ArrowException, ValueError, Problem: the condition fails for a value.
        """
        batch = pa.RecordBatch.from_arrays(
            [_nested(values, self.column.path)], [self.column.path[0]]
        )
        return as_mask(broadcast(self.condition.evaluate(batch), len(values)))

    def rows_in(self, values: pa.Array) -> Int64s:
        """Return the positions of the values for which the condition is true.

        Integers, dates and times are found by binary search; for other types the condition is
        evaluated for every value.

        Args:
            values: values of the column, sorted, nulls first.

        Raises:
            pyarrow.ArrowException, ValueError, Problem: the condition fails for a value.
        """
        check = self.check
        rows = check.ranges.rows_in(values) if isinstance(check, Within) else None
        return np.flatnonzero(self.matches(values)) if rows is None else rows

    @property
    def is_of_nulls(self) -> bool:
        """True if the condition is IS NULL of the column."""
        return isinstance(self.check, IsNull)

    @cached_property
    def points(self) -> list[Any] | None:
        """List of values that contains all for which the condition is true.

        Values are integers in the type's unit, floats or bytes; 0.0 stands for -0.0 as well. None
        if the values cannot be listed, or are more than `MAX_POINTS`.
        """
        check = self.check
        for part in check.parts if isinstance(check, All) else [check]:
            if isinstance(part, Within) and not part.has_nan:
                points = part.ranges.points(self.column.type, MAX_POINTS)
                if points is not None:
                    return points
        return None

    @cached_property
    def of_json(self) -> tuple[Steps, Ask] | None:
        """Path of the single JSON value that the condition reads, and the condition on that value.

        None if the condition reads several JSON values, or anything besides a JSON value.
        """
        values: dict[Steps, Column] = {}
        condition = _of_json(self.condition, values)
        if condition is None or len(values) != 1:
            return None
        ((steps, column),) = values.items()
        return steps, Ask(column, condition)

    @cached_property
    def of_item(self) -> Ask | None:
        """Condition on an item: the list matches if at least one of its items meets it.

        None if the condition on the list has no such form.
        """
        condition = _of_item(self.condition)
        return None if condition is None else Ask(item_of(self.column), condition)

    @cached_property
    def texts(self) -> Ways:
        """Alternatives, each a set of parts: a matching text contains all parts of at least one.

        Parts are compared without case. An alternative without parts admits every text.
        """
        return _texts(self.condition)

    @cached_property
    def cased_texts(self) -> Ways:
        """Alternatives as in `texts`, but only those whose parts must occur in the same case."""
        return _texts(self.condition, is_cased=True)

    @cached_property
    def is_contains(self) -> bool:
        """True if every text with all parts of an alternative of `cased_texts` is a match."""
        return _is_contains(self.condition)


@dataclass(frozen=True, slots=True, eq=False)
class AllOf:
    """Intersection of the answers to several questions.

    Attributes:
        is_whole: True if every part of the condition has a question.
    """

    parts: tuple[Question, ...]
    is_whole: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class AnyOf:
    """Union of the answers to several questions."""

    parts: tuple[Question, ...]


Question: TypeAlias = Ask | AllOf | AnyOf


def question_of(node: Node, takes: Callable[[Ask], bool]) -> Question | None:
    """Return the tree of questions of a condition. Returns None if no index narrows it down.

    Args:
        node: condition of a predicate from SQL text.
        takes: returns True if an index supports a question.
    """
    if isinstance(node, Literal):
        return None
    ask = _ask_of(node)
    if ask is not None and takes(ask):
        return ask
    if isinstance(node, Junction):
        return _of_junction(node, takes)
    if isinstance(node, Call) and node.name == "is true":
        return question_of(node.args[0], takes)
    if isinstance(node, Call) and node.name == "not":
        inner = node.args[0]
        if isinstance(inner, Junction):
            turned = junction(not inner.is_and, [negation(arg) for arg in inner.args])
            return question_of(turned, takes)
        if isinstance(inner, Call) and inner.name == "not":
            return question_of(inner.args[0], takes)
    return None


def _of_junction(node: Junction, takes: Callable[[Ask], bool]) -> Question | None:
    """Combine all parts on one column into one question, so that two bounds become a range.

    Returns None if no part can be answered by an index; for OR, also if one part cannot.
    """
    by_path: dict[Path, list[Node]] = {}
    parts: list[Question | None] = []
    for arg in node.args:
        ask = _ask_of(arg)
        if ask is not None and takes(ask):
            by_path.setdefault(ask.column.path, []).append(arg)
        else:
            parts.append(question_of(arg, takes))
    for args in by_path.values():
        ask = _ask_of(args[0] if len(args) == 1 else Junction(node.is_and, tuple(args)))
        assert ask is not None
        parts += [ask] if takes(ask) else [_ask_of(arg) for arg in args]
    if not node.is_and and None in parts:
        return None
    questions = tuple(part for part in parts if part is not None)
    if not questions:
        return None
    is_whole = len(questions) == len(parts)
    if len(questions) == 1 and is_whole:
        return questions[0]
    return AllOf(questions, is_whole) if node.is_and else AnyOf(questions)


def _ask_of(node: Node) -> Ask | None:
    """Return a node as a question. Returns None if it does not read exactly one column."""
    columns = _columns(node)
    if not columns or any(column.path != columns[0].path for column in columns):
        return None
    return Ask(columns[0], node)


def _columns(node: Node) -> Sequence[Column]:
    if isinstance(node, Column):
        return [node]
    return [column for arg in node.args for column in _columns(arg)]


def _of_json(node: Node, values: dict[Steps, Column]) -> Node | None:
    """Replace JSON values in a node by columns.

    Returns None if the node reads anything but JSON values, or one path as two types.

    Args:
        values: columns by path; the replaced values are added.
    """
    if isinstance(node, Literal):
        return node
    meant = node.meaning if isinstance(node, Call) else None
    if isinstance(meant, JsonValue):
        if not meant.is_scalar or not isinstance(meant.node, Column):
            return None
        column = values.setdefault(meant.steps, Column(("value",), node.type))
        return column if column.type == node.type else None
    if not isinstance(node, Call | Junction):
        return None
    args = [_of_json(arg, values) for arg in node.args]
    whole = tuple(arg for arg in args if arg is not None)
    if len(whole) < len(args):
        return None
    if isinstance(node, Junction):
        return Junction(node.is_and, whole)
    if isinstance(meant, Comparison):
        left, right = _of_json(meant.left, values), _of_json(meant.right, values)
        meant = Comparison(meant.op, left, right) if left and right else None
    elif isinstance(meant, Membership):
        value = _of_json(meant.node, values)
        meant = Membership(value, meant.items) if value else None
    elif isinstance(meant, Pattern):
        value = _of_json(meant.node, values)
        meant = replace(meant, node=value) if value else None
    else:
        meant = None
    return Call(node.name, node.function, whole, node.type, meant)


def _of_item(node: Node) -> Node | None:
    if isinstance(node, Junction) and not node.is_and:
        parts = [part for arg in node.args if (part := _of_item(arg)) is not None]
        return Junction(False, tuple(parts)) if len(parts) == len(node.args) else None
    meant = node.meaning if isinstance(node, Call) else None
    return (
        meant.condition if isinstance(meant, AnyItem) and isinstance(meant.node, Column) else None
    )


def _texts(node: Node, *, is_cased: bool = False) -> Ways:
    if isinstance(node, Junction):
        ways = [_texts(arg, is_cased=is_cased) for arg in node.args]
        if not node.is_and:
            return tuple(way for alternatives in ways for way in alternatives)[: MAX_WAYS + 1]
        single = tuple(
            part for alternatives in ways if len(alternatives) == 1 for part in alternatives[0]
        )
        others = [alternatives for alternatives in ways if len(alternatives) <= MAX_WAYS]
        return (single,) if single or not others else min(others, key=len)
    meant = node.meaning if isinstance(node, Call) else None
    if isinstance(meant, Pattern) and isinstance(meant.node, Column):
        return meant.parts if meant.is_cased or not is_cased else NO_PARTS
    if isinstance(meant, Comparison) and meant.op == "=":
        literal, column = meant.right, meant.left
        if isinstance(literal, Column):
            literal, column = column, literal
        if isinstance(column, Column) and isinstance(literal, Literal):
            return _equals(literal)
    elif isinstance(meant, Membership) and isinstance(meant.node, Column):
        items = meant.items
        if isinstance(items, pa.Array):
            if len(items) > MAX_WAYS:
                return NO_PARTS
            items = tuple(map(Literal, items))
        return tuple(way for item in items for way in _equals(item))
    return NO_PARTS


def _is_contains(node: Node) -> bool:
    if isinstance(node, Junction):
        is_single = all(len(_texts(arg)) == 1 for arg in node.args) or not node.is_and
        return is_single and all(map(_is_contains, node.args))
    meant = node.meaning if isinstance(node, Call) else None
    return isinstance(meant, Pattern) and isinstance(meant.node, Column) and meant.is_contains


def _equals(literal: Literal) -> Ways:
    value = literal.value.as_py()
    return ((value,),) if isinstance(value, str) else NO_PARTS


def _nested(values: pa.Array, path: Path) -> pa.Array:
    for name in reversed(path[1:]):
        values = pa.StructArray.from_arrays([values], [name])
    return values
