"""+ - * / % of decimals, with DataFusion's precision and scale of the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from alance.expr.coercion import as_decimal, convert
from alance.expr.problem import Problem
from alance.expr.tree import Node, call

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.expr.tree import Value

MAX_NARROW: Final = 38  # digits of a decimal128
MAX_WIDE: Final = 76  # digits of a decimal256, in which all is computed that may not fit
EXTRA_DIGITS: Final = 4  # behind the point, that a division adds


def decimal_arithmetic(op: str, left: Node, right: Node) -> Node:
    """One of + - * / % of two decimals or integers, at least one of them a decimal.

    Division cuts off what the result's scale does not hold.

    Raises:
        Problem: more digits than a decimal256 has.
    """
    sides = [_exact(node) for node in (left, right)]
    types = [side.type for side in sides]
    result = _result_type(op, *types)
    wide = _widened(types[0], result.scale if op == "/" else 0), _widened(types[1])
    kernel = _KERNELS[op]

    def run(a: Value, b: Value) -> pa.Array:
        found = kernel(pc.cast(a, wide[0]), pc.cast(b, wide[1]))
        if found.type.scale > result.scale:
            found = pc.round(found, ndigits=result.scale, round_mode="towards_zero")
        return pc.cast(found, result)

    try:
        return call(op, run, *sides)
    except Problem as problem:
        if "precision out of range" not in str(problem):
            raise
        message = f"{types[0]} {op} {types[1]}: more digits than a decimal has"
        raise Problem(message, unsupported=True) from None


def _exact(node: Node) -> Node:
    if pa.types.is_decimal(node.type):
        return node
    return convert(node, as_decimal(node.type))


def _result_type(op: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    wholes = left.precision - left.scale, right.precision - right.scale
    scale = max(left.scale, right.scale)
    if op in "+-":
        precision = max(wholes) + scale + 1
    elif op == "*":
        scale = left.scale + right.scale
        precision = left.precision + right.precision + 1
    elif op == "/":
        scale = left.scale + EXTRA_DIGITS
        precision = wholes[0] + right.scale + scale
    else:
        precision = min(wholes) + scale
    is_wide = any(pa.types.is_decimal256(type_) for type_ in (left, right))
    most = MAX_WIDE if is_wide else MAX_NARROW
    make = pa.decimal256 if is_wide else pa.decimal128
    return make(max(1, min(precision, most)), min(scale, most))


def _widened(type_: pa.DataType, scale: int = 0) -> pa.DataType:
    """A decimal256 for the values of a type, with room for at least `scale` digits."""
    more = max(0, scale - type_.scale)
    return pa.decimal256(min(MAX_WIDE, type_.precision + more), type_.scale + more)


def _remainder(left: Value, right: Value) -> pa.Array:
    """The remainder of division towards zero; it has the sign of `left`."""
    exact = pc.divide(left, right)
    digits = max(1, exact.type.precision - exact.type.scale)
    whole = pc.cast(pc.trunc(exact), pa.decimal256(digits, 0))
    return pc.subtract(left, pc.multiply(whole, right))


_KERNELS: Final[dict[str, Callable[..., pa.Array]]] = {
    "+": pc.add,
    "-": pc.subtract,
    "*": pc.multiply,
    "/": pc.divide,
    "%": _remainder,
}
