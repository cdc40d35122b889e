"""Parser of serialized pyarrow expressions, and the rewrite of their float comparisons.

pyarrow does not show the parts of an expression, but its serialized form does: calls, fields and
literals in Polish notation, as metadata of a record batch whose columns are the literals.

To Arrow's kernels a NaN is unordered and unequal to itself. Comparisons are rewritten so that every
NaN equals every other NaN and is greater than infinity, as in SQL text.
"""

from __future__ import annotations

import math
import re
from dataclasses import field
from itertools import islice
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from alance.base import compute as pc
from alance.base.records import dataclass
from alance.expr.tree import FAILURES, plain_type
from alance.format.numbers import as_scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LINE: Final = re.compile(r"(call|end|literal|field_ref|nested_field_ref|options): '(.*)'")
# Placeholder for the number of the column that holds the literal 0.0.
_ZERO_PLACEHOLDER: Final = "zero"

ExpressionToken = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ExpressionPart:
    """A part of an expression.

    Attributes:
        head: first token of the part.
        args: the arguments of a call.
        tail: tokens after the arguments: options and end of a call, or names of a nested field.
    """

    head: ExpressionToken
    args: tuple[ExpressionPart, ...] = ()
    tail: tuple[ExpressionToken, ...] = ()

    def tokens(self) -> list[ExpressionToken]:
        """Return all tokens of the part in order."""
        tokens: list[ExpressionToken] = []
        pending: list[ExpressionPart | ExpressionToken] = [self]
        while pending:  # a loop, not recursion: chains of terms are deep
            part = pending.pop()
            if isinstance(part, ExpressionPart):
                tokens.append(part.head)
                pending += (*reversed(part.tail), *reversed(part.args))
            else:
                tokens.append(part)
        return tokens


def serialized(expression: pc.Expression) -> tuple[list[ExpressionToken], pa.RecordBatch] | None:
    """Return the tokens of an expression and the batch of its literals.

    Returns None if a line of the serialized form is not a known token.
    """
    content = expression.__reduce__()[1][0]
    batch = pa.ipc.open_file(pa.BufferReader(content)).get_batch(0)
    text = batch.schema.to_string(truncate_metadata=False, show_field_metadata=False)
    _, _, listed = text.partition("-- schema metadata --\n")
    lines = [_LINE.fullmatch(line) for line in listed.split("\n")]
    tokens = [(line[1], line[2]) for line in lines if line is not None]
    return (tokens, batch) if len(tokens) == len(lines) else None


def with_float_order(
    expression: pc.Expression, schema: pa.Schema, type_of: Callable[[pc.Expression], pa.DataType]
) -> pc.Expression:
    """Rewrite comparisons to a total order: all NaNs are equal and greatest, and -0.0 equals 0.0.

    Returns the expression itself if no comparison needs it, or if it cannot be parsed.

    Args:
        schema: schema of the rows.
        type_of: returns the type of an expression's values.

    Raises:
        pyarrow.ArrowException, ValueError: from `type_of`.
    """
    try:
        read = serialized(expression)
    except FAILURES:
        return expression
    if read is None:
        return expression
    rewriter = _Rewriter(*read, schema, type_of)
    whole = rewriter.rewritten()
    return rewriter.expression(whole) if rewriter.is_changed else expression


@dataclass(slots=True)
class _Rewriter:
    tokens: Sequence[ExpressionToken]
    batch: pa.RecordBatch
    schema: pa.Schema
    type_of: Callable[[pc.Expression], pa.DataType]
    is_changed: bool = field(default=False, init=False)

    def rewritten(self) -> ExpressionPart:
        """Parse all tokens into one part, with its comparisons rewritten."""
        calls: list[tuple[ExpressionToken, list[ExpressionPart], list[ExpressionToken]]] = [
            (("call", ""), [], [])
        ]
        tokens = iter(self.tokens)
        for token in tokens:
            kind, value = token
            if kind == "call":
                calls.append((token, [], []))
            elif kind == "options":
                calls[-1][2].append(token)
            elif kind == "end":
                head, args, tail = calls.pop()
                calls[-1][1].append(self._call(ExpressionPart(head, tuple(args), (*tail, token))))
            else:
                names = islice(tokens, int(value) if kind == "nested_field_ref" else 0)
                calls[-1][1].append(ExpressionPart(token, (), tuple(names)))
        return calls[0][1][0]

    def expression(self, part: ExpressionPart) -> pc.Expression:
        """Deserialize a part as an expression."""
        columns = [*self.batch.columns, pa.array([0.0])]
        zero = str(len(columns) - 1)
        tokens = [
            (kind, zero if value == _ZERO_PLACEHOLDER else value) for kind, value in part.tokens()
        ]
        fields = [pa.field("", column.type) for column in columns]
        schema = pa.schema(fields, pa.KeyValueMetadata(tokens))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, schema) as writer:
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
        return pc.Expression._deserialize(sink.getvalue())

    def _call(self, part: ExpressionPart) -> ExpressionPart:
        _, name = part.head
        if name in _COMPLEMENTS and len(part.args) == 2:
            return self._compared(name, *part.args)
        if name == "is_in" and len(part.args) == 1:
            return self._listed(part)
        return part

    def _compared(self, name: str, left: ExpressionPart, right: ExpressionPart) -> ExpressionPart:
        floats = [side for side in (left, right) if self._is_floating(side)]
        if not floats:
            return _call(name, left, right)
        if name.startswith("greater"):
            name, left, right = name.replace("greater", "less"), right, left
        if self._is_number(right) or (self._is_number(left) and name in ("equal", "not_equal")):
            return _call(name, left, right)
        self.is_changed = True
        if self._is_number(left):  # negated, so that a NaN on the right is above the number
            return _call("invert", _call(_COMPLEMENTS[name], right, left))
        if name in ("not_equal", "less_equal"):
            sides = (left, right) if name == "not_equal" else (right, left)
            return _call("invert", self._compared(_COMPLEMENTS[name], *sides))
        nans = {side: _call("is_nan", side) for side in floats}
        plain = _call(name, left, right)
        if name == "equal":
            return _call("or", plain, _call("and", *nans.values())) if len(nans) == 2 else plain
        if right not in nans:
            return plain
        above = _call("and_not", nans[right], nans[left]) if left in nans else nans[right]
        return _call("or", plain, above)

    def _listed(self, part: ExpressionPart) -> ExpressionPart:
        """Add a test to `is_in`, which compares bits, if its values include a NaN or a zero."""
        (values,) = part.args
        if not self._is_floating(values):
            return part
        number = next(int(value) for kind, value in part.tail if kind == "options")
        items = self.batch.column(number)[0]["value_set"].values
        if not pa.types.is_floating(plain_type(items.type)):
            return part
        others = []
        if pc.any(pc.is_nan(items)).as_py():
            others.append(_call("is_nan", values))
        if pc.any(pc.equal(pc.cast(items, pa.float64()), as_scalar(0.0))).as_py():
            others.append(_call("equal", values, ExpressionPart(("literal", _ZERO_PLACEHOLDER))))
        for other in others:
            self.is_changed = True
            part = _call("or_kleene", part, _call("and_kleene", _call("is_valid", values), other))
        return part

    def _is_floating(self, part: ExpressionPart) -> bool:
        kind, value = part.head
        if kind == "literal":
            type_ = self.batch.column(int(value)).type
        elif kind == "field_ref" and len(self.schema.get_all_field_indices(value)) == 1:
            type_ = self.schema.field(value).type
        else:
            type_ = self.type_of(self.expression(part))
        return bool(pa.types.is_floating(plain_type(type_)))

    def _is_number(self, part: ExpressionPart) -> bool:
        """True if a part is a literal other than NaN."""
        kind, value = part.head
        if kind != "literal":
            return False
        item = self.batch.column(int(value))[0].as_py()
        return not (isinstance(item, float) and math.isnan(item))


# Negation of each comparison. The sides of = and != keep their places; those of the others are
# swapped: `not a < b` is `b <= a`.
_COMPLEMENTS: Final = {
    "equal": "not_equal",
    "not_equal": "equal",
    "less": "less_equal",
    "less_equal": "less",
    "greater": "greater_equal",
    "greater_equal": "greater",
}


def _call(name: str, *args: ExpressionPart) -> ExpressionPart:
    return ExpressionPart(("call", name), args, (("end", name),))
