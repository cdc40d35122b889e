"""Three-valued comparisons: exact for literals, and in a total order for floats.

All NaNs, whatever their sign and payload, are equal and greater than infinity; -0.0 equals 0.0.
DataFusion orders floats by their bits instead: see docs/sql.md, "Floats".
"""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING, Final, cast

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base import compute as pc
from alance.base.records import dataclass
from alance.expr.casts import convert, is_bytes, is_text, unify
from alance.expr.exact import exact_value, number_value, scalar_of, scale_of
from alance.expr.tree import (
    Call,
    Column,
    Comparison,
    Literal,
    Node,
    Problem,
    Value,
    call,
    meaning,
    truly,
)
from alance.format.numbers import as_scalar, bytes_of, numpy_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from fractions import Fraction

    import numpy.typing as npt

FLIPPED: Final = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
COMPARISON_KERNELS: Final = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
NULL_BOOLEAN: Final = Literal(as_scalar(None, pa.bool_()))

# A literal between two integers is replaced by the lower one, and its operator by the one here.
_BETWEEN: Final = {"<": "<=", "<=": "<=", ">": ">", ">=": ">"}
# Result of each operator if the literal is above, or below, all values of the type.
_ABOVE_ALL: Final = {"<": True, "<=": True, "!=": True, "=": False, ">": False, ">=": False}
_BELOW_ALL: Final = {"<": False, "<=": False, "!=": True, "=": False, ">": True, ">=": True}


def compare(op: str, left: Node, right: Node) -> Node:
    """Build = != < <= > or >=; null if a side is null.

    Raises:
        Problem: the two types do not compare.
    """
    return meaning(_compared(op, left, right), Comparison(op, left, right))


def _compared(op: str, left: Node, right: Node) -> Node:
    if isinstance(left, Literal) and not isinstance(right, Literal):
        op, left, right = FLIPPED[op], right, left
    if is_nothing(left) or is_nothing(right):
        return NULL_BOOLEAN
    if isinstance(right, Literal) and not isinstance(left, Literal):
        return _against_literal(op, left, right)
    if pa.types.is_nested(left.type) or pa.types.is_nested(right.type):
        raise Problem(f"comparison of {left.type} and {right.type}", unsupported=True)
    try:
        left, right = unify(left, right)
    except Problem:
        raise mismatch(op, left, right) from None
    if pa.types.is_floating(left.type):
        if isinstance(right, Literal):
            return _against_float(op, left, float(right.value.as_py()))
        return call(op, lambda a, b: compared_floats(op, a, b), left, right)
    return call(op, COMPARISON_KERNELS[op], left, right)


def distinct(left: Node, right: Node) -> Node:
    """Build IS DISTINCT FROM: two nulls are equal; the result is never null."""
    if is_nothing(left):
        left, right = right, left
    if is_nothing(right):
        return call("is distinct from", pc.is_valid, left)
    unequal = compare("!=", left, right)

    def merge(differs: Value, a: Value, b: Value) -> pa.Array:
        is_half_null = pc.xor(pc.is_null(a), pc.is_null(b))
        return pc.or_(truly(differs), is_half_null)

    return call("is distinct from", merge, unequal, left, right)


def is_nothing(node: Node) -> bool:
    """True if a node is the literal NULL."""
    return isinstance(node, Literal) and not node.value.is_valid


def constant(name: str, answer: bool, node: Node) -> Node:
    """Return a node that is null where `node` is null, and `answer` for all other rows."""
    scalar, nothing = as_scalar(answer), as_scalar(None, pa.bool_())

    def spread(values: pa.Array) -> pa.Array:
        if values.null_count == 0:
            return pa.repeat(scalar, len(values))
        return pc.if_else(pc.is_valid(values), scalar, nothing)

    return call(name, spread, node)


def total_order(values: pa.Array) -> pa.Array:
    """Map floats to integers of the same width, sorted by sign, then magnitude, as in index files.

    All bits count: -NaN is first, NaN is last, and -0.0 is before 0.0. For `canonical` floats the
    integers sort as comparisons do.
    """
    bits = values.type.bit_width
    integers = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[bits]
    pattern = values.view(integers)
    negative = pc.negate(pc.cast(pc.less(pattern, as_scalar(0, integers)), integers))
    flip = pc.bit_wise_and(negative, as_scalar((1 << (bits - 1)) - 1, integers))
    return pc.bit_wise_xor(pattern, flip)


def compared_floats(op: str, left: Value, right: Value) -> Value:
    """Compare floats of one type; null where either side is null."""
    if op in (">", ">="):
        op, left, right = FLIPPED[op], right, left
    if op in ("!=", "<="):  # in Arrow's kernels, a NaN is neither equal to nor less than anything
        if op == "!=":
            return pc.invert(compared_floats("=", left, right))
        return pc.invert(compared_floats("<", right, left))
    left, right = _kernel_floats(left), _kernel_floats(right)
    left_nan, right_nan = pc.is_nan(left), pc.is_nan(right)
    if op == "=":
        return pc.or_(pc.equal(left, right), pc.and_(left_nan, right_nan))
    return pc.or_(pc.less(left, right), pc.and_not(right_nan, left_nan))


def _kernel_floats(values: Value) -> Value:
    """Cast float16 to float32, because Arrow's kernels do not compare float16."""
    return pc.cast(values, pa.float32()) if pa.types.is_float16(values.type) else values


def float_literal(literal: Literal, type_: pa.DataType) -> float | None:
    """Round a numeric literal to a float type. Returns None if the literal is not a number."""
    if number_value(literal) is None:
        return None
    number = float(literal.digits) if literal.digits else float(literal.value.as_py())
    if pa.types.is_float32(type_):
        with np.errstate(over="ignore"):
            return float(np.float32(number))
    if pa.types.is_float16(type_):
        with np.errstate(over="ignore"):
            return float(np.float16(number))
    return number


def _against_literal(op: str, node: Node, literal: Literal) -> Node:
    if pa.types.is_null(node.type):
        return constant(op, True, node)
    if (scale := scale_of(node.type)) is not None:
        number = exact_value(literal, node.type)
        if number is None:
            raise mismatch(op, node, literal)
        return _against_number(op, node, number / scale.unit)
    if pa.types.is_floating(node.type):
        if not isinstance(node, Column) and pa.types.is_floating(literal.type):
            # A column rounds the literal to its own type; a computed float is compared in 64 bits.
            node = convert(node, pa.float64())
        value = float_literal(literal, node.type)
        if value is None:
            raise mismatch(op, node, literal)
        return _against_float(op, node, value)
    fits = (
        (is_text(node.type) and is_text(literal.type))
        or (is_bytes(node.type) and (is_bytes(literal.type) or is_text(literal.type)))
        or (pa.types.is_boolean(node.type) and pa.types.is_boolean(literal.type))
    )
    if not fits:
        raise mismatch(op, node, literal)
    value = literal.value
    if pa.types.is_boolean(node.type) and op in ("=", "!="):
        is_identity = value.as_py() == (op == "=")
        return call(op, _as_it_is if is_identity else pc.invert, node)
    if is_bytes(node.type) and is_text(value.type):
        value = value.cast(pa.binary())
    return call(op, lambda values: COMPARISON_KERNELS[op](values, value), node)


def _as_it_is(values: pa.Array) -> pa.Array:
    return values


def _against_number(op: str, node: Node, number: Fraction | float) -> Node:
    scale = scale_of(node.type)
    assert scale is not None
    if number >= scale.high + 1:
        return constant(op, _ABOVE_ALL[op], node)
    if number < scale.low:
        return constant(op, _BELOW_ALL[op], node)
    whole = math.floor(number)
    if whole != number:
        if op not in _BETWEEN:
            return constant(op, op == "!=", node)
        op = _BETWEEN[op]
    if not pa.types.is_decimal(node.type):
        low, high = whole + (op == ">"), whole - (op == "<")
        if op.startswith("<"):
            low = scale.low
        elif op.startswith(">"):
            high = scale.high
        return call(op, RangeTest(low, high, is_outside=op == "!="), node)
    scalar, kernel = scalar_of(node.type, whole), COMPARISON_KERNELS[op]
    return call(op, lambda values: kernel(values, scalar), node)


@dataclass(frozen=True, slots=True)
class RangeTest:
    """Test that stored integers are between `low` and `high`, both included; null for a null.

    Attributes:
        is_outside: True to test that integers are not within the bounds.
    """

    low: int
    high: int
    is_outside: bool = False

    def __call__(self, values: pa.Array) -> pa.BooleanArray:
        count, lead = len(values), values.offset % 8
        validity, content = values.buffers()
        if content is None or not count:
            return pa.nulls(count, pa.bool_())
        bits = values.type.bit_width
        low, span = self.low, self.high - self.low
        if self.is_outside:
            low, span = self.high + 1, (1 << bits) - 2 - span
        if span < 0:
            marks = np.zeros((lead + count + 7) // 8, np.uint8)
        else:
            numbers = np.frombuffer(content, np.uint8)
            first = values.offset - lead  # aligns the mask with the bits of the validity bitmap
            low %= 1 << bits
            marks = _kernels.within(numbers, first, lead + count, bits, low, span)
        valid = validity.slice(values.offset // 8) if values.null_count else None
        buffers = [valid, pa.py_buffer(marks)]
        return pa.Array.from_buffers(pa.bool_(), count, buffers, values.null_count, lead)


def merge_ranges(conditions: Sequence[Node]) -> Sequence[Node]:
    """Merge the ranges of each column among the terms of an AND into their intersection."""
    ranges: dict[tuple[tuple[str, ...], pa.DataType], list[int]] = {}
    for place, node in enumerate(conditions):
        if isinstance(node, Call) and isinstance(node.function, RangeTest):
            (column,) = node.args
            if isinstance(column, Column) and not node.function.is_outside:
                ranges.setdefault((column.path, column.type), []).append(place)
    joined: dict[int, Node | None] = {}
    for places in ranges.values():
        if len(places) < 2:
            continue
        calls = [cast("Call", conditions[place]) for place in places]
        within = [cast("RangeTest", call.function) for call in calls]
        low, high = max(own.low for own in within), min(own.high for own in within)
        joined |= dict.fromkeys(places)
        joined[places[0]] = Call("within", RangeTest(low, high), calls[0].args, calls[0].type)
    merged = (joined.get(place, node) for place, node in enumerate(conditions))
    return [node for node in merged if node is not None]


def _against_float(op: str, node: Node, number: float) -> Node:
    if math.isnan(number):
        return _against_nan(op, node)
    # In Arrow's kernels, a NaN is neither less nor greater than a number.
    inverse = {">": "<=", ">=": "<"}.get(op)
    kernel = COMPARISON_KERNELS[inverse or op]
    scalar = as_scalar(number, pa.float32() if pa.types.is_float16(node.type) else node.type)

    def run(values: pa.Array) -> pa.Array:
        result = kernel(_kernel_floats(values), scalar)
        return pc.invert(result) if inverse else result

    return call(op, run, node)


def _against_nan(op: str, node: Node) -> Node:
    if op in ("<=", ">"):
        return constant(op, op == "<=", node)
    is_equal = op in ("=", ">=")

    def run(values: pa.Array) -> pa.Array:
        result = pc.is_nan(values)
        return result if is_equal else pc.invert(result)

    return call(op, run, node)


def float_values(values: pa.Array) -> npt.NDArray[np.floating]:
    """Return a view of a float array's values; the values of nulls are arbitrary."""
    return bytes_of(values).view(numpy_type(values.type))


def extreme(kernel: Callable[..., pa.Array], op: str) -> Callable[[str, list[Node]], Node]:
    """Return the builder of `greatest` or `least`, which ignore nulls.

    Args:
        kernel: the element-wise maximum or minimum, for all types but floats.
        op: for floats: the second of two values is chosen if `first op second`; `<` for `greatest`.
    """

    def of_floats(left: Value, right: Value) -> Value:
        is_right = pc.coalesce(compared_floats(op, left, right), pc.is_null(left))
        return pc.if_else(is_right, right, left)

    def build(name: str, args: list[Node]) -> Node:
        nodes = unify(*args)
        if not pa.types.is_floating(nodes[0].type):
            return call(name, kernel, *nodes)
        return call(name, lambda *values: reduce(of_floats, values), *nodes)

    return build


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_))


def mismatch(op: str, left: Node, right: Node) -> Problem:
    """Return the error for two types that cannot be compared."""
    for side in (left, right):
        if isinstance(side, Literal) and side.name is not None:
            return Problem(f'"{side.name}" is text; a column takes backticks: `{side.name}`')
    hint = ""
    for side, other in ((left, right), (right, left)):
        if isinstance(side, Literal) and is_text(side.type) and _is_number(other.type):
            hint = ", or write the number without quotes"
        elif isinstance(side, Literal) and _is_number(side.type) and is_text(other.type):
            hint = ", or write the text in single quotes"
        elif _is_number(side.type) and pa.types.is_temporal(other.type):
            hint = ", or write the time as text: '2024-12-31'"
    return Problem(f"type mismatch: {left.type} {op} {right.type}; cast one of them{hint}")
