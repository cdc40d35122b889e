"""What of a condition can be asked of indices: a tree of questions on single columns.

A question is a part of the condition itself, over one indexed column alone: it is evaluated on the
values that the index holds, by the very nodes that rows are asked with. What comes out is never
less than the rows for which the condition is true; the condition decides on them again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from alance.expr.logic import Junction, junction, negation
from alance.expr.pruning import check_of
from alance.expr.tree import Call, Column, Literal, Node, broadcast
from alance.format.numbers import as_mask

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alance.arrays import Mask
    from alance.expr.pruning import Check

    Path: TypeAlias = tuple[str, ...]


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

    def matches(self, values: pa.Array) -> Mask:
        """For which values of the column the condition is true; shape (n,).

        Raises:
            pyarrow.ArrowException, ValueError, Problem: values that it cannot take.
        """
        batch = pa.RecordBatch.from_arrays(
            [_nested(values, self.column.path)], [self.column.path[0]]
        )
        return as_mask(broadcast(self.condition.evaluate(batch), len(values)))


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


def question_of(node: Node, is_indexed: Callable[[Column], bool]) -> Question | None:
    """The questions of a condition; None where no index narrows it.

    Args:
        node: the condition of a predicate from SQL text.
        is_indexed: whether there is an index on a column.
    """
    if isinstance(node, Literal):
        return None
    column = _only_column(node)
    if column is not None and is_indexed(column):
        return Ask(column, node)
    if isinstance(node, Junction):
        return _of_junction(node, is_indexed)
    if isinstance(node, Call) and node.name == "is true":
        return question_of(node.args[0], is_indexed)
    if isinstance(node, Call) and node.name == "not":
        inner = node.args[0]
        if isinstance(inner, Junction):
            turned = junction(not inner.is_and, [negation(arg) for arg in inner.args])
            return question_of(turned, is_indexed)
        if isinstance(inner, Call) and inner.name == "not":
            return question_of(inner.args[0], is_indexed)
    return None


def _of_junction(node: Junction, is_indexed: Callable[[Column], bool]) -> Question | None:
    """The parts on the same column are one question: bounds on both sides are one range."""
    by_path: dict[Path, list[Node]] = {}
    others: list[Question | None] = []
    for arg in node.args:
        column = _only_column(arg)
        if column is not None and is_indexed(column):
            by_path.setdefault(column.path, []).append(arg)
        else:
            others.append(question_of(arg, is_indexed))
    parts: list[Question | None] = []
    for args in by_path.values():
        column = _only_column(args[0])
        assert column is not None
        parts.append(Ask(column, args[0] if len(args) == 1 else Junction(node.is_and, tuple(args))))
    parts += others
    if not node.is_and and None in parts:
        return None
    questions = tuple(part for part in parts if part is not None)
    if not questions:
        return None
    is_whole = len(questions) == len(parts)
    if len(questions) == 1 and is_whole:
        return questions[0]
    return AllOf(questions, is_whole) if node.is_and else AnyOf(questions)


def _only_column(node: Node) -> Column | None:
    """The column that a node is about, if it is one alone."""
    columns = _columns(node)
    first = columns[0] if columns else None
    return first if all(column.path == columns[0].path for column in columns) else None


def _columns(node: Node) -> Sequence[Column]:
    if isinstance(node, Column):
        return [node]
    return [column for arg in node.args for column in _columns(arg)]


def _nested(values: pa.Array, path: Path) -> pa.Array:
    for name in reversed(path[1:]):
        values = pa.StructArray.from_arrays([values], [name])
    return values
