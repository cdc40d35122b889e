"""Conditions implied by a pyarrow expression, as nodes of alance, for indices and statistics.

A term of an AND that is not understood is dropped, because the expression implies the other terms.
Any other part that is not understood, such as a term of an OR, leaves no implied condition.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from alance.base.records import dataclass
from alance.expr.arrow_tokens import serialized
from alance.expr.builders.text import with_pattern
from alance.expr.builders.text_parts import ANY_TEXT
from alance.expr.casts import is_text
from alance.expr.compare import compare
from alance.expr.logic import is_in, is_null, junction, negation
from alance.expr.tree import FAILURES, Column, Literal, Node, Problem, plain_type
from alance.format.numbers import as_scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow.compute as pc

    from alance.expr.arrow_tokens import ExpressionToken

_JUNCTIONS: Final = {"and_kleene": True, "and": True, "or_kleene": False, "or": False}
_OPERATORS: Final = {
    "equal": "=",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_EXACT_INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16())


class _UnknownPart(Exception):
    """Raised for a part that is not understood."""


@dataclass(frozen=True, slots=True)
class Implied:
    """A condition that is true for all rows for which a part of an expression is true.

    Attributes:
        is_equivalent: True if condition and part have the same value (true, false or null) in every
            row.
        is_true: True if condition and part are true for the same rows.
    """

    node: Node
    is_equivalent: bool
    is_true: bool


def implied_by(expression: pc.Expression, schema: pa.Schema) -> Implied | None:
    """Return a condition that is true for all rows for which the expression is true.

    Returns None if no such condition is known.

    Args:
        schema: schema of the rows, as filters see it.
    """
    try:
        read = serialized(expression)
        if read is None or any("\n" in name for name in schema.names):
            return None
        return _Reader(*read, schema).part()
    except (_UnknownPart, Problem, AttributeError, RecursionError, *FAILURES):
        return None


class _Reader:
    """Reader of the serialized parts in order."""

    def __init__(
        self, items: Sequence[ExpressionToken], batch: pa.RecordBatch, schema: pa.Schema
    ) -> None:
        self._items = items
        self._batch = batch
        self._schema = schema
        self._place = 0

    def part(self) -> Implied:
        """Read the part that begins at the current token.

        Raises:
            _UnknownPart: the part is not understood.
        """
        kind, value = self._items[self._place]
        if kind != "call":
            column = self._value()
            if not isinstance(column, Column) or not pa.types.is_boolean(column.type):
                raise _UnknownPart
            return Implied(column, is_equivalent=True, is_true=True)
        if value in _JUNCTIONS:
            return self._junction(value)
        start = self._place
        try:
            return self._call(value)
        except (_UnknownPart, Problem):
            self._place = start
            self._skip()
            raise _UnknownPart from None

    def _junction(self, name: str) -> Implied:
        self._place += 1
        is_and, is_kleene = _JUNCTIONS[name], name.endswith("_kleene")
        parts: list[Implied | None] = []
        while self._items[self._place][0] != "end":
            start = self._place
            try:
                parts.append(self.part())
            except _UnknownPart:
                self._place = start
                self._skip()
                parts.append(None)
        self._place += 1
        implied = [part for part in parts if part is not None]
        is_all = len(implied) == len(parts)
        if not implied or not (is_and or is_all):
            raise _UnknownPart
        return Implied(
            junction(is_and, [part.node for part in implied]),
            is_equivalent=is_all and all(part.is_equivalent for part in implied),
            # Without Kleene's logic, `null or true` is null in Arrow; in SQL it is true.
            is_true=is_all and is_kleene and all(part.is_true for part in implied),
        )

    def _call(self, name: str) -> Implied:
        self._place += 1
        if name == "invert":
            inner = self.part()
            self._end()
            if not inner.is_equivalent:
                raise _UnknownPart
            return Implied(negation(inner.node), is_equivalent=True, is_true=inner.is_true)
        args, options = [], None
        while self._items[self._place][0] != "end":
            if self._items[self._place][0] == "options":
                options = self._batch.column(int(self._items[self._place][1]))[0]
                self._place += 1
            else:
                args.append(self._value())
        self._end()
        return _leaf(name, args, options)

    def _value(self) -> Column | Literal:
        kind, value = self._items[self._place]
        self._place += 1
        if kind == "literal":
            return Literal(self._batch.column(int(value))[0])
        if kind == "field_ref":
            return self._column([value])
        if kind == "nested_field_ref":
            names = [name for _, name in self._items[self._place : self._place + int(value)]]
            self._place += int(value)
            return self._column(names)
        raise _UnknownPart

    def _column(self, names: list[str]) -> Column:
        if self._schema.get_field_index(names[0]) < 0:
            raise _UnknownPart
        type_ = self._schema.field(names[0]).type
        for name in names[1:]:
            type_ = plain_type(type_)
            if not pa.types.is_struct(type_) or type_.get_field_index(name) < 0:
                raise _UnknownPart
            type_ = type_.field(type_.get_field_index(name)).type
        return Column(tuple(names), plain_type(type_))

    def _end(self) -> None:
        if self._items[self._place][0] != "end":
            raise _UnknownPart
        self._place += 1

    def _skip(self) -> None:
        """Skip the part that begins at the current token."""
        depth = 0
        while True:
            kind, value = self._items[self._place]
            self._place += 1 + (int(value) if kind == "nested_field_ref" else 0)
            depth += {"call": 1, "end": -1}.get(kind, 0)
            if depth <= 0:
                return


def _leaf(name: str, args: Sequence[Column | Literal], options: pa.StructScalar | None) -> Implied:
    def option(key: str) -> pa.Scalar:
        if options is None:
            raise _UnknownPart
        return options[key]

    if name in _OPERATORS and len(args) == 2:
        return _comparison(_OPERATORS[name], *args)
    if len(args) != 1 or not isinstance(args[0], Column):
        raise _UnknownPart
    (column,) = args
    is_float = pa.types.is_floating(column.type)
    if name == "is_valid" or (
        name == "is_null" and not (is_float and option("nan_is_null").as_py())
    ):
        node = is_null(column)
        return Implied(
            negation(node) if name == "is_valid" else node, is_equivalent=True, is_true=True
        )
    if name == "is_nan" and is_float:
        nan = Literal(as_scalar(math.nan, column.type))
        return Implied(compare("=", column, nan), is_equivalent=True, is_true=True)
    if name == "starts_with" and not option("ignore_case").as_py():
        pattern = Literal(as_scalar(option("pattern").as_py()))
        starts = with_pattern("", ANY_TEXT)("starts_with", [column, pattern])
        return Implied(starts, is_equivalent=True, is_true=True)
    if name == "is_in":
        values = option("value_set").values
        if values.null_count or not _meet(column.type, values.type):
            raise _UnknownPart
        # For a null value, Arrow's `is_in` is false and ours is null.
        return Implied(
            is_in(column, [Literal(value) for value in values]), is_equivalent=False, is_true=True
        )
    raise _UnknownPart


def _comparison(op: str, left: Column | Literal, right: Column | Literal) -> Implied:
    column, literal = (left, right) if isinstance(left, Column) else (right, left)
    if not isinstance(column, Column) or not isinstance(literal, Literal):
        raise _UnknownPart
    is_float = pa.types.is_floating(column.type)
    if is_float and pa.types.is_floating(literal.type):
        exact = Literal(literal.value.cast(column.type))
        if literal.value.equals(exact.value.cast(literal.type)):  # Arrow compares in the wider type
            left, right = (left, exact) if column is left else (exact, right)
            literal = exact
    if not literal.value.is_valid or not _meet(column.type, literal.type):
        raise _UnknownPart
    return Implied(compare(op, left, right), is_equivalent=True, is_true=True)


def _meet(left: pa.DataType, right: pa.DataType) -> bool:
    """True if Arrow compares values of the two types exactly, as alance does."""
    if is_text(left) and is_text(right):
        return True
    if pa.types.is_timestamp(left) and pa.types.is_timestamp(right):
        return bool(left.tz) == bool(right.tz)
    return bool(left == right or (left in _EXACT_INTEGERS and right in _EXACT_INTEGERS))
