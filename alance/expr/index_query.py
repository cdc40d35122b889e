"""What of a condition can be asked of indices: a tree of questions on single columns.

A question is a part of the condition itself, over one indexed column alone, that an index of the
column takes. Where the index holds values it is evaluated on these, by the very nodes that rows are
asked with. What comes out is never less than the rows for which the condition is true; the
condition decides on them again.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

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
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alance.arrays import Int64s, Mask
    from alance.expr.pruning import Check

    Path: TypeAlias = tuple[str, ...]
    Ways: TypeAlias = tuple[tuple[str, ...], ...]
    Steps: TypeAlias = tuple[tuple[str | None, int | None], ...]

MAX_POINTS: Final = 1024  # values that are looked up one by one
MAX_WAYS: Final = 64  # of a text to match
ANY_TEXT: Final = ((),)


@dataclass(frozen=True, eq=False)
class Ask:
    """A condition on one column.

    Attributes:
        column: with the type that the condition expects.
    """

    column: Column
    condition: Node

    @cached_property
    def check(self) -> Check | None:
        """What tells of zones of values whether the condition may be true; None: of none."""
        return check_of(self.condition)

    def sort(self) -> None:
        """Put the values that it is compared with in order, which takes long for many. CPU."""
        ask = self.of_json[1] if self.of_json else self
        _ = ask.check, ask.points

    def matches(self, values: pa.Array) -> Mask:
        """For which values of the column the condition is true; shape (n,).

        Raises:
            pyarrow.ArrowException, ValueError, Problem: values that it cannot take.
        """
        batch = pa.RecordBatch.from_arrays(
            [_nested(values, self.column.path)], [self.column.path[0]]
        )
        return as_mask(broadcast(self.condition.evaluate(batch), len(values)))

    def rows_in(self, values: pa.Array) -> Int64s:
        """The places of the values for which the condition is true, among ones in order, nulls
        first: they are searched where they are whole numbers, dates or times.

        Raises:
            pyarrow.ArrowException, ValueError, Problem: values that it cannot take.
        """
        check = self.check
        rows = check.ranges.rows_in(values) if isinstance(check, Within) else None
        return np.flatnonzero(self.matches(values)) if rows is None else rows

    @property
    def is_of_nulls(self) -> bool:
        """Whether it is that the column is null."""
        return isinstance(self.check, IsNull)

    @cached_property
    def points(self) -> list[Any] | None:
        """All values that it is true of, or more; None: not so few, or null is one.

        They are whole numbers of the type's unit, floats, or bytes; zero stands for both zeros.
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
        """The path of the JSON value that it is about alone, and the question of such values."""
        values: dict[Steps, Column] = {}
        condition = _of_json(self.condition, values)
        if condition is None or len(values) != 1:
            return None
        ((steps, column),) = values.items()
        return steps, Ask(column, condition)

    @cached_property
    def of_item(self) -> Ask | None:
        """The question of items, where it is true of the lists with an item for which that is."""
        condition = _of_item(self.condition)
        return None if condition is None else Ask(item_of(self.column), condition)

    @cached_property
    def texts(self) -> Ways:
        """Parts of the texts that it may be true of: of each way to be so all of some parts.

        They are there in whatever case. A way without any may be every text.
        """
        return _texts(self.condition)


@dataclass(frozen=True, slots=True, eq=False)
class AllOf:
    """Rows that each of some questions gives.

    Attributes:
        is_whole: no part of the condition is left out.
    """

    parts: tuple[Question, ...]
    is_whole: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class AnyOf:
    """Rows that one of some questions gives."""

    parts: tuple[Question, ...]


Question: TypeAlias = Ask | AllOf | AnyOf


def question_of(node: Node, takes: Callable[[Ask], bool]) -> Question | None:
    """The questions of a condition; None where no index narrows it.

    Args:
        node: the condition of a predicate from SQL text.
        takes: whether an index takes a question.
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
    """The parts on the same column are one question: bounds on both sides are one range."""
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
    """The question that a node is, if it is about one column alone."""
    columns = _columns(node)
    if not columns or any(column.path != columns[0].path for column in columns):
        return None
    return Ask(columns[0], node)


def _columns(node: Node) -> Sequence[Column]:
    if isinstance(node, Column):
        return [node]
    return [column for arg in node.args for column in _columns(arg)]


def _of_json(node: Node, values: dict[Steps, Column]) -> Node | None:
    """The node with columns in place of values of JSON; None where it is about something else.

    Args:
        values: the columns by path, of one type each; filled.
    """
    if isinstance(node, Literal):
        return node
    said = node.meaning if isinstance(node, Call) else None
    if isinstance(said, JsonValue):
        if not said.is_scalar or not isinstance(said.node, Column):
            return None
        column = values.setdefault(said.steps, Column(("value",), node.type))
        return column if column.type == node.type else None
    if not isinstance(node, Call | Junction):
        return None
    args = [_of_json(arg, values) for arg in node.args]
    whole = tuple(arg for arg in args if arg is not None)
    if len(whole) < len(args):
        return None
    if isinstance(node, Junction):
        return Junction(node.is_and, whole)
    if isinstance(said, Comparison):
        left, right = _of_json(said.left, values), _of_json(said.right, values)
        said = Comparison(said.op, left, right) if left and right else None
    elif isinstance(said, Membership):
        value = _of_json(said.node, values)
        said = Membership(value, said.items) if value else None
    elif isinstance(said, Pattern):
        value = _of_json(said.node, values)
        said = Pattern(value, said.prefix, said.parts) if value else None
    else:
        said = None
    return Call(node.name, node.function, whole, node.type, said)


def _of_item(node: Node) -> Node | None:
    if isinstance(node, Junction) and not node.is_and:
        parts = [part for arg in node.args if (part := _of_item(arg)) is not None]
        return Junction(False, tuple(parts)) if len(parts) == len(node.args) else None
    said = node.meaning if isinstance(node, Call) else None
    return said.condition if isinstance(said, AnyItem) and isinstance(said.node, Column) else None


def _texts(node: Node) -> Ways:
    if isinstance(node, Junction):
        ways = [_texts(arg) for arg in node.args]
        if not node.is_and:
            return tuple(way for alternatives in ways for way in alternatives)[: MAX_WAYS + 1]
        single = tuple(
            part for alternatives in ways if len(alternatives) == 1 for part in alternatives[0]
        )
        others = [alternatives for alternatives in ways if len(alternatives) <= MAX_WAYS]
        return (single,) if single or not others else min(others, key=len)
    said = node.meaning if isinstance(node, Call) else None
    if isinstance(said, Pattern) and isinstance(said.node, Column):
        return said.parts
    if isinstance(said, Comparison) and said.op == "=":
        literal, column = said.right, said.left
        if isinstance(literal, Column):
            literal, column = column, literal
        if isinstance(column, Column) and isinstance(literal, Literal):
            return _equals(literal)
    elif isinstance(said, Membership) and isinstance(said.node, Column):
        items = said.items
        if isinstance(items, pa.Array):
            if len(items) > MAX_WAYS:
                return ANY_TEXT
            items = tuple(map(Literal, items))
        return tuple(way for item in items for way in _equals(item))
    return ANY_TEXT


def _equals(literal: Literal) -> Ways:
    value = literal.value.as_py()
    return ((value,),) if isinstance(value, str) else ANY_TEXT


def _nested(values: pa.Array, path: Path) -> pa.Array:
    for name in reversed(path[1:]):
        values = pa.StructArray.from_arrays([values], [name])
    return values
