"""pyarrow expressions as nodes that can be asked of bounds, where their text tells what they are.

pyarrow shows nothing of an expression but a text. What is read from it is built again by pyarrow
and has to equal the expression; else nothing is known of it. Only literals are taken for which
Arrow's comparison and the one of nodes are the same.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from alance.expr import logic
from alance.expr.compare import compare
from alance.expr.exact import EPOCH, PER_SECOND, moment_seconds
from alance.expr.tree import FAILURES, Column, Literal, Node, Problem, plain_type
from alance.format.numbers import as_scalar

if TYPE_CHECKING:
    from collections.abc import Callable

_TOKEN: Final = re.compile(
    r'\s*("(?:[^"\\]|\\.)*"|[()]|==|!=|<=|>=|<|>|'
    r"\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d(?:\.\d+)?Z?)?|"
    r"[-+]?\d+(?:\.\d+)?e[-+]\d+|[-+]?[\w.]+|, \{nan_is_null=false\})"
)
_OPERATORS: Final[dict[str, Callable[[Any, Any], pc.Expression]]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
MAX_DEPTH: Final = 100
Pair = tuple[Node, "pc.Expression"]


class _Unclear(Exception):
    """The text is not understood."""


def node_of(expression: pc.Expression, schema: pa.Schema) -> Node | None:
    """The condition as a node; None where it is not understood for sure."""
    text = str(expression)
    for is_typed in (False, True):
        try:
            node, same = _Reader(text, schema, is_typed).read()
            if same.equals(expression):
                return logic.boolean(node)
        except (_Unclear, Problem, *FAILURES):
            continue
    return None


@dataclass(frozen=True, slots=True)
class _Word:
    """A literal or a column, by what it is compared with."""

    text: str


class _Reader:
    """Reads a text.

    Args:
        is_typed: literals have the type of their column; else that of a Python value.
    """

    def __init__(self, text: str, schema: pa.Schema, is_typed: bool) -> None:
        self._schema = schema
        self._is_typed = is_typed
        self._tokens: list[str] = []
        at = 0
        while at < len(text):
            token = _TOKEN.match(text, at)
            if token is None:
                raise _Unclear
            self._tokens.append(token[1])
            at = token.end()
        self._at = 0
        self._depth = 0

    def read(self) -> Pair:
        condition = self._condition()
        if self._at != len(self._tokens):
            raise _Unclear
        return condition

    def _next(self) -> str:
        if self._at >= len(self._tokens):
            raise _Unclear
        self._at += 1
        return self._tokens[self._at - 1]

    def _expect(self, token: str) -> None:
        if self._next() != token:
            raise _Unclear

    def _condition(self) -> Pair:
        operand = self._operand()
        if isinstance(operand, _Word):
            column, field = self._column(operand)
            if not pa.types.is_boolean(column.type):
                raise _Unclear
            return column, field
        return operand

    def _operand(self) -> Pair | _Word:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _Unclear
        token = self._next()
        if token == "(":
            operand: Pair | _Word = self._both()
        elif token in ("invert", "is_null", "is_valid"):
            self._expect("(")
            operand = self._function(token)
        else:
            operand = _Word(token)
        self._depth -= 1
        return operand

    def _function(self, name: str) -> Pair:
        if name == "invert":
            node, same = self._condition()
            self._expect(")")
            return logic.negation(node), ~same
        inner = self._operand()
        if not isinstance(inner, _Word):
            raise _Unclear
        column, field = self._column(inner)
        if name == "is_null":
            self._expect(", {nan_is_null=false}")
        self._expect(")")
        null = logic.is_null(column)
        return (
            (null, field.is_null())
            if name == "is_null"
            else (logic.negation(null), field.is_valid())
        )

    def _both(self) -> Pair:
        left = self._operand()
        op = self._next()
        right = self._operand()
        self._expect(")")
        if op in ("and", "or"):
            (node, first), (other, second) = (self._as_condition(side) for side in (left, right))
            joined = first & second if op == "and" else first | second
            return logic.junction(op == "and", [node, other]), joined
        if op not in _OPERATORS or not isinstance(left, _Word) or not isinstance(right, _Word):
            raise _Unclear
        symbol = "=" if op == "==" else op
        if left.text in self._schema.names:
            column, field = self._column(left)
            value = self._literal(right.text, column.type)
            return compare(symbol, column, Literal(value)), _OPERATORS[op](field, pc.scalar(value))
        column, field = self._column(right)
        value = self._literal(left.text, column.type)
        return compare(symbol, Literal(value), column), _OPERATORS[op](pc.scalar(value), field)

    def _as_condition(self, side: Pair | _Word) -> Pair:
        if not isinstance(side, _Word):
            return side
        column, field = self._column(side)
        return column, field

    def _column(self, word: _Word) -> tuple[Column, pc.Expression]:
        if self._schema.get_field_index(word.text) < 0:
            raise _Unclear
        arrow = self._schema.field(word.text).type
        if plain_type(arrow) != arrow:
            raise _Unclear
        return Column((word.text,), arrow), pc.field(word.text)

    def _literal(self, text: str, column: pa.DataType) -> pa.Scalar:
        typed = self._is_typed
        if pa.types.is_integer(column):
            if pa.types.is_uint64(column) and not typed:
                raise _Unclear  # Arrow compares it as a signed number
            return as_scalar(int(text), column if typed else pa.int64())
        if pa.types.is_floating(column):
            number = float(text)
            dtype = np.dtype(f"f{column.bit_width // 8}")
            with np.errstate(over="ignore"):
                rounded = np.array([number]).astype(dtype)
            if float(rounded[0]) != number:
                raise _Unclear
            return as_scalar(number, column if typed else pa.float64())
        if pa.types.is_boolean(column) and text in ("true", "false"):
            return as_scalar(text == "true")
        if pa.types.is_string(column) or pa.types.is_large_string(column):
            return as_scalar(str(json.loads(text)), column if typed else pa.string())
        if pa.types.is_date32(column):
            return as_scalar(date.fromisoformat(text).toordinal() - EPOCH, column)
        if pa.types.is_timestamp(column) and bool(column.tz) == text.endswith("Z"):
            whole = moment_seconds(text)[0] * PER_SECOND[column.unit if typed else "us"]
            if whole.denominator == 1:
                return as_scalar(int(whole), column if typed else pa.timestamp("us", column.tz))
        raise _Unclear
