"""Arithmetic (+ - * / %), signs and mathematical functions; decimal types as in DataFusion."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from alance.base import compute as pc
from alance.expr.casts import (
    NARROW_DIGITS,
    WIDE_DIGITS,
    as_decimal,
    common_type,
    convert,
    is_number,
)
from alance.expr.compare import is_nothing
from alance.expr.exact import number_value, scalar_of, scale_of
from alance.expr.tree import Literal, Node, Problem, Value, broadcast, call
from alance.format.numbers import as_mask, as_numbers, as_scalar, to_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

EXTRA_DIGITS: Final = 4  # decimal places that a division adds
MAX_DIGITS: Final = 400  # a longer integer literal is read as a float, which is infinite
FACTORIALS: Final = np.array([math.factorial(n) for n in range(21)], np.int64)  # all that fit int64


def number_literal(digits: str) -> Literal:
    """Return the literal of a written number, in the first of int64, uint64 and float64 that fits.

    Raises:
        Problem: the text is not a number.
    """
    plain = digits.lstrip("-")
    if plain.isdigit() and len(plain) <= MAX_DIGITS:
        whole = int(digits)
        if -(1 << 63) <= whole < 1 << 63:
            return Literal(as_scalar(whole, pa.int64()), digits)
        if 0 <= whole < 1 << 64:
            return Literal(as_scalar(whole, pa.uint64()), digits)
    try:
        number = float(digits)
    except ValueError:
        raise Problem(f"{digits!r} is no number") from None
    return Literal(as_scalar(number, pa.float64()), digits)


def arithmetic(op: str, left: Node, right: Node) -> Node:
    """Build + - * / or %. Integers wrap on overflow; division of integers truncates towards zero.

    Raises:
        Problem: the operator does not take the two types.
    """
    types = left.type, right.type
    if all(pa.types.is_date(t) for t in types) and op == "-":
        return call("-", _days_between, left, right)
    if all(pa.types.is_timestamp(t) for t in types) and op == "-":
        common = common_type(*types)
        return call("-", pc.subtract, convert(left, common), convert(right, common))
    if any(pa.types.is_duration(t) for t in types) and op in "+-":
        return call(op, _NUMBER_KERNELS[op], left, right)
    if not all(is_number(t) or pa.types.is_null(t) for t in types):
        raise Problem(f"type mismatch: {left.type} {op} {right.type}; cast one of them")
    common = common_type(*types)
    if common is None or pa.types.is_null(common):
        return Literal(as_scalar(None, pa.int64()))
    if pa.types.is_decimal(common):
        left, right = (convert(n, common) if pa.types.is_null(n.type) else n for n in (left, right))
        if all(pa.types.is_integer(t) for t in types):
            left, right = convert(left, common), convert(right, common)
        return decimal_arithmetic(op, left, right)
    if pa.types.is_floating(common):
        floats = [t for t in types if pa.types.is_floating(t)]
        common = max(pa.float32(), *floats, key=lambda t: t.bit_width)
    return call(op, _NUMBER_KERNELS[op], convert(left, common), convert(right, common))


def fitted(literal: Literal, type_: pa.DataType) -> Literal:
    """Convert a numeric literal to a column's type, if the type can hold the value.

    A float type can hold all numbers, rounded. Other types hold exact values only; a literal that
    does not fit, and a float, are returned as they are.

    Used only if a computed column consists of a column, an operator and a literal. Everywhere else
    a literal has a type of its own, so that `i8 * 2` is an int64.
    """
    number = number_value(literal) if literal.value.is_valid else None
    scale = scale_of(type_)
    if number is None or isinstance(number, float):
        return literal
    if pa.types.is_floating(type_):
        return Literal(as_scalar(float(literal.digits or literal.value.as_py()), type_))
    if scale is None or scale.quantity != "number":
        return literal
    whole = number / scale.unit
    if whole.denominator != 1 or not scale.low <= whole <= scale.high:
        return literal
    return Literal(scalar_of(type_, int(whole)))


def negative(node: Node) -> Node:
    """Build the unary minus.

    Raises:
        Problem: the node is not a signed number.
    """
    if isinstance(node, Literal) and node.digits is not None:
        digits = node.digits
        return number_literal(digits[1:] if digits.startswith("-") else "-" + digits)
    if pa.types.is_unsigned_integer(node.type):
        raise Problem(f"minus does not take {node.type}; cast it to a signed type")
    return call("minus", pc.negate_checked, single_width(node))


def single_width(node: Node) -> Node:
    """Widen float16 to float32, because Arrow's kernels do not take float16."""
    return convert(node, pa.float32()) if pa.types.is_float16(node.type) else node


def real(node: Node) -> Node:
    """Convert a number to a float: float16 becomes float32, float32 stays, others become float64.

    Raises:
        Problem: the node is not a number.
    """
    if not is_number(node.type) and not pa.types.is_null(node.type):
        raise Problem(f"expected a number, found {node.type}")
    if pa.types.is_float16(node.type):
        return convert(node, pa.float32())
    return node if pa.types.is_float32(node.type) else convert(node, pa.float64())


def real_function(kernel: Callable[..., pa.Array]) -> Callable[[str, list[Node]], Node]:
    """Return the builder of a function whose arguments are floats."""
    return lambda name, args: call(name, kernel, *map(real, args))


def divisor(name: str, args: list[Node]) -> Node:
    """gcd(a, b): the greatest common divisor of integers."""
    return _of_wholes(name, args, lambda left, right: to_arrow(np.gcd(left, right)))


def multiple(name: str, args: list[Node]) -> Node:
    """lcm(a, b): the least common multiple of integers."""

    def least(left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]) -> pa.Array:
        common = np.maximum(np.gcd(left, right), 1)
        return pc.multiply_checked(to_arrow(np.abs(left) // common), to_arrow(np.abs(right)))

    return _of_wholes(name, args, least)


def _of_wholes(
    name: str,
    args: list[Node],
    function: Callable[[npt.NDArray[np.int64], npt.NDArray[np.int64]], pa.Array],
) -> Node:
    if not all(pa.types.is_integer(a.type) or pa.types.is_null(a.type) for a in args):
        raise Problem(f"{name}: expected integers, found {', '.join(str(a.type) for a in args)}")

    def apply(*values: Value) -> pa.Array:
        rows = next((len(value) for value in values if isinstance(value, pa.Array)), 1)
        arrays = [broadcast(value, rows) for value in values]
        valid = pc.and_(*[pc.is_valid(array) for array in arrays])
        wholes = [as_numbers(pc.fill_null(array, as_scalar(1))) for array in arrays]
        if any((whole == np.iinfo(np.int64).min).any() for whole in wholes):
            raise pa.ArrowInvalid("integer overflow")
        return pc.if_else(valid, function(*wholes), as_scalar(None, pa.int64()))

    return call(name, apply, *[convert(arg, pa.int64()) for arg in args])


def factorial(name: str, args: list[Node]) -> Node:
    """factorial(n): n must be from 0 to 20."""

    def look_up(numbers: pa.Array) -> pa.Array:
        integers = as_numbers(pc.fill_null(numbers, 0))
        if len(integers) and (integers.min() < 0 or integers.max() >= len(FACTORIALS)):
            raise pa.ArrowInvalid("the factorial of a number below 0, or beyond 20")
        return to_arrow(FACTORIALS[integers], as_mask(pc.is_valid(numbers)))

    return call(name, look_up, whole(name, args[0]))


def cube_root(values: Value) -> pa.Array:
    """cbrt(x)."""
    array = broadcast(values, 1) if isinstance(values, pa.Scalar) else values
    roots = np.cbrt(as_numbers(pc.fill_null(array, as_scalar(0, array.type))))
    return pc.if_else(pc.is_valid(array), to_arrow(roots), as_scalar(None, array.type))


def cotangent(values: pa.Array) -> pa.Array:
    """cot(x): the reciprocal of the tangent."""
    return pc.divide(as_scalar(1.0), pc.tan(values))


def absolute(name: str, args: list[Node]) -> Node:
    """abs(x). Evaluation fails for the smallest integer, whose absolute value does not fit."""
    if pa.types.is_unsigned_integer(args[0].type):
        return args[0]
    return call(name, pc.abs_checked, single_width(args[0]))


def rounding(kernel: Callable[..., pa.Array]) -> Callable[[str, list[Node]], Node]:
    """Return the builder of round, trunc, floor or ceil.

    Decimals stay decimals, integers become floats. `kernel` gets the number of digits only if the
    call has that argument.
    """

    def build(name: str, args: list[Node]) -> Node:
        node = args[0] if pa.types.is_decimal(args[0].type) else real(args[0])
        if len(args) == 1:
            return call(name, kernel, node)
        digits = whole_argument(name, args[1], -400, 400)
        return call(name, lambda values: kernel(values, digits), node)

    return build


def round_half_up(values: pa.Array, digits: int = 0) -> pa.Array:
    """Round half away from zero."""
    return pc.round(values, ndigits=digits, round_mode="half_towards_infinity")


def round_to_zero(values: pa.Array, digits: int | None = None) -> pa.Array:
    """Truncate. As in DataFusion, without `digits` -0.0 becomes 0.0 while -0.5 becomes -0.0."""
    if digits is None and pa.types.is_floating(values.type):
        values = pc.add(values, as_scalar(0.0, values.type))
    return pc.round(values, ndigits=digits or 0, round_mode="towards_zero")


def whole(name: str, node: Node) -> Node:
    """Convert an integer argument to int64.

    Raises:
        Problem: the argument is not an integer.
    """
    if is_nothing(node):
        return Literal(as_scalar(None, pa.int64()))
    if not pa.types.is_integer(node.type):
        raise Problem(f"{name}: expected an integer, found {node.type}")
    return convert(node, pa.int64())


def whole_argument(name: str, node: Node, low: int, high: int) -> int:
    """Return the value of an argument that must be an integer literal within bounds.

    Raises:
        Problem: the argument is not such a literal.
    """
    if not isinstance(node, Literal):
        raise Problem(f"{name}: expected a literal number, found a column", unsupported=True)
    if not pa.types.is_integer(node.type) or not node.value.is_valid:
        raise Problem(f"{name}: expected a whole number, found {node.value}")
    number = int(node.value.as_py())
    if not low <= number <= high:
        raise Problem(f"{name}: {number} is not within {low} and {high}")
    return number


def is_nan(name: str, args: list[Node]) -> Node:
    """isnan(x)."""
    return call(name, pc.is_nan, real(args[0]))


def is_zero(name: str, args: list[Node]) -> Node:
    """iszero(x)."""
    return call(name, lambda values: pc.equal(values, as_scalar(0, values.type)), real(args[0]))


def nan_value(name: str, args: list[Node]) -> Node:
    """nanvl(a, b): b if a is NaN, else a."""
    operands = [real(arg) for arg in args]
    if isinstance(operands[1], Literal):
        operands[1] = convert(operands[1], operands[0].type)
    type_ = max((node.type for node in operands), key=lambda t: t.bit_width)
    left, right = (convert(node, type_) for node in operands)
    return call(name, lambda a, b: pc.if_else(pc.is_nan(a), b, a), left, right)


def logarithm(name: str, args: list[Node]) -> Node:
    """log(x) with base 10, or log(base, x)."""
    if len(args) == 1:
        return call(name, pc.log10, real(args[0]))
    base, value = (convert(real(arg), pa.float64()) for arg in args)
    return call(name, lambda b, x: pc.logb(x, b), base, value)


def degrees(name: str, args: list[Node]) -> Node:
    """Convert radians to degrees."""
    return _times(name, args[0], 180 / math.pi)


def radians(name: str, args: list[Node]) -> Node:
    """Convert degrees to radians."""
    return _times(name, args[0], math.pi / 180)


def _times(name: str, node: Node, factor: float) -> Node:
    number = real(node)
    scalar = as_scalar(factor, number.type)
    return call(name, lambda values: pc.multiply(values, scalar), number)


def square_root(values: pa.Array) -> pa.Array:
    """sqrt(x) by the processor, so that the NaN of a negative number has the processor's sign."""
    with np.errstate(all="ignore"):
        return _null_as([values], np.sqrt(_slots(values)))


def modulo(name: str, args: list[Node]) -> Node:
    """mod(a, b): the operator `%` as a function."""
    return arithmetic("%", *args)


def remainder(left: Value, right: Value) -> pa.Array:
    """Return the remainder of truncating division; it has the sign of `left`."""
    array = left if isinstance(left, pa.Array) else right
    if pa.types.is_floating(array.type):
        numbers = [broadcast(v, len(array)) for v in (left, right)]
        with np.errstate(all="ignore"):
            return _null_as(numbers, np.fmod(*map(_slots, numbers)))
    if isinstance(left, pa.Array) and isinstance(right, pa.Scalar) and right.is_valid:
        divisor = abs(right.as_py())
        if 0 < divisor < 1 << (array.type.bit_width - 1):
            return _null_as([left], _whole_remainder(_slots(left), divisor))
    if pa.types.is_signed_integer(array.type):
        # Divisor -1: the smallest integer would overflow. Divisor 1 has the same remainder, 0.
        unit = as_scalar(1, array.type)
        right = pc.if_else(pc.equal(right, as_scalar(-1, array.type)), unit, right)
    return pc.subtract(left, pc.multiply(pc.divide(left, right), right))


def _whole_remainder(numbers: npt.NDArray[np.integer], divisor: int) -> npt.NDArray[np.integer]:
    """Return the remainders of division by a positive number; four times as fast as Arrow."""
    remainders = numbers // divisor
    remainders *= divisor
    np.subtract(numbers, remainders, out=remainders)
    below = numbers < 0
    if below.any():
        remainders[below & (remainders != 0)] -= divisor
    return remainders


def _null_as(values: Sequence[pa.Array], numbers: npt.NDArray[np.number]) -> pa.Array:
    """Return the numbers as an array that is null where any of the one or two `values` is null."""
    if not any(array.null_count for array in values):
        return to_arrow(numbers)
    valid = pc.and_(*[pc.is_valid(values[number]) for number in (0, -1)])
    return pc.if_else(valid, to_arrow(numbers), as_scalar(None))


def _slots(values: pa.Array) -> npt.NDArray[Any]:
    if not values.null_count:
        return as_numbers(values)
    return as_numbers(pc.fill_null(values, as_scalar(0, values.type)))


def quotient(left: Value, right: Value) -> pa.Array:
    """Divide. Integer quotients are truncated towards zero.

    Raises:
        pyarrow.ArrowInvalid: an integer is divided by zero, or the quotient does not fit the type.
    """
    is_whole = pa.types.is_integer(left.type)
    return pc.divide_checked(left, right) if is_whole else pc.divide(left, right)


def _days_between(left: Value, right: Value) -> pa.Array:
    numbers = [
        pc.cast(pc.cast(pc.cast(v, pa.date32()), pa.int32()), pa.int64()) for v in (left, right)
    ]
    return pc.subtract(*numbers)


_NUMBER_KERNELS: Final[dict[str, Callable[..., pa.Array]]] = {
    "+": pc.add,
    "-": pc.subtract,
    "*": pc.multiply,
    "/": quotient,
    "%": remainder,
}


def decimal_arithmetic(op: str, left: Node, right: Node) -> Node:
    """Build + - * / or % of two decimals or integers, at least one of which is a decimal.

    Division truncates the quotient to the scale of the result.

    Raises:
        Problem: the result has more digits than a decimal256.
    """
    sides = [_exact(node) for node in (left, right)]
    types = [side.type for side in sides]
    result = _result_type(op, *types)
    wide = _widened(types[0], result.scale if op == "/" else 0), _widened(types[1])
    kernel = _DECIMAL_KERNELS[op]

    def run(a: Value, b: Value) -> pa.Array:
        exact = kernel(pc.cast(a, wide[0]), pc.cast(b, wide[1]))
        if exact.type.scale > result.scale:
            exact = pc.round(exact, ndigits=result.scale, round_mode="towards_zero")
        return pc.cast(exact, result)

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
    most = WIDE_DIGITS if is_wide else NARROW_DIGITS
    make = pa.decimal256 if is_wide else pa.decimal128
    return make(max(1, min(precision, most)), min(scale, most))


def _widened(type_: pa.DataType, scale: int = 0) -> pa.DataType:
    """Return a decimal256 type for the values of a type, with a scale of at least `scale`."""
    more = max(0, scale - type_.scale)
    return pa.decimal256(min(WIDE_DIGITS, type_.precision + more), type_.scale + more)


def _remainder(left: Value, right: Value) -> pa.Array:
    """Return the remainder of truncating division; it has the sign of `left`."""
    exact = pc.divide(left, right)
    digits = max(1, exact.type.precision - exact.type.scale)
    whole = pc.cast(pc.trunc(exact), pa.decimal256(digits, 0))
    return pc.subtract(left, pc.multiply(whole, right))


_DECIMAL_KERNELS: Final[dict[str, Callable[..., pa.Array]]] = {
    "+": pc.add,
    "-": pc.subtract,
    "*": pc.multiply,
    "/": pc.divide,
    "%": _remainder,
}
