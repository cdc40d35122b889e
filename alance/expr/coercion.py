"""The common type of two values and the lossless casts to it, as DataFusion has them."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from alance.expr.problem import Problem
from alance.expr.tree import Literal, Node, call
from alance.format.numbers import as_scalar

_UNITS: Final = ("s", "ms", "us", "ns")
_SIGNED: Final = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
_UNSIGNED: Final = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}
_INTEGER_DIGITS: Final = {8: 3, 16: 5, 32: 10, 64: 20}


def is_text(type_: pa.DataType) -> bool:
    """Whether values are character strings."""
    return bool(
        pa.types.is_string(type_) or pa.types.is_large_string(type_) or _is_view(type_, "string")
    )


def is_bytes(type_: pa.DataType) -> bool:
    """Whether values are byte strings."""
    return bool(
        pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_fixed_size_binary(type_)
        or _is_view(type_, "binary")
    )


def is_number(type_: pa.DataType) -> bool:
    """Whether values are integers, floats or decimals."""
    return bool(
        pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
    )


def is_moment(type_: pa.DataType) -> bool:
    """Whether values are dates or timestamps."""
    return bool(pa.types.is_date(type_) or pa.types.is_timestamp(type_))


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type in which values of two types meet; None where there is none."""
    if left.equals(right) or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    if is_number(left) and is_number(right):
        return common_number(left, right)
    if is_text(left) and is_text(right):
        return pa.large_string()
    if (is_text(left) or is_bytes(left)) and (is_text(right) or is_bytes(right)):
        return pa.large_binary()
    if is_moment(left) and is_moment(right):
        return _common_moment(left, right)
    for check in (pa.types.is_duration, pa.types.is_time):
        if check(left) and check(right):
            unit = max(left.unit, right.unit, key=_UNITS.index)
            return pa.duration(unit) if pa.types.is_duration(left) else pa.time64("ns")
    return None


def common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type in which two numbers meet: floats win, then decimals, then the wider integer."""
    if pa.types.is_floating(left) or pa.types.is_floating(right):
        floats = [t for t in (left, right) if pa.types.is_floating(t)]
        if pa.types.is_decimal(left) or pa.types.is_decimal(right):
            return pa.float64()
        return max(*floats, pa.float32(), key=lambda t: t.bit_width)
    if pa.types.is_decimal(left) or pa.types.is_decimal(right):
        left, right = as_decimal(left), as_decimal(right)
        scale = max(left.scale, right.scale)
        precision = max(left.precision - left.scale, right.precision - right.scale) + scale
        if precision <= 38:
            return pa.decimal128(precision, scale)
        return pa.decimal256(min(precision, 76), scale)
    signed = {pa.types.is_signed_integer(t) for t in (left, right)}
    width = max(left.bit_width, right.bit_width)
    if len(signed) == 1:
        return (_SIGNED if signed.pop() else _UNSIGNED)[width]
    unsigned = left if pa.types.is_unsigned_integer(left) else right
    width = max(width, 2 * unsigned.bit_width)
    return _SIGNED.get(width, pa.decimal128(20, 0))


def as_decimal(type_: pa.DataType) -> pa.DataType:
    """The decimal type that holds all values of an integer or decimal type."""
    if pa.types.is_decimal(type_):
        return type_
    return pa.decimal128(_INTEGER_DIGITS[type_.bit_width], 0)


def convert(node: Node, type_: pa.DataType) -> Node:
    """The node's values in a type that `common_type` gave.

    Raises:
        Problem: the values of a literal do not fit.
    """
    if node.type.equals(type_):
        return node
    if isinstance(node, Literal) and pa.types.is_null(node.type):
        return Literal(as_scalar(None, type_))
    return call(f"conversion to {type_}", lambda values: widen(values, type_), node)


def widen(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Cast without loss, save to floats; a clock's reading becomes what it shows in the zone."""
    if pa.types.is_decimal(type_) and pa.types.is_integer(values.type):
        values = pc.cast(values, as_decimal(values.type))
    if pa.types.is_timestamp(type_) and type_.tz is not None and _is_clock(values.type):
        naive = pc.cast(values, pa.timestamp(type_.unit))
        return pc.assume_timezone(
            naive, timezone=type_.tz, ambiguous="earliest", nonexistent="earliest"
        )
    if pa.types.is_floating(type_):
        options = pc.CastOptions(type_, allow_int_overflow=True, allow_float_truncate=True)
        return pc.cast(values, options=options)
    return pc.cast(values, type_)


def unify(*nodes: Node) -> tuple[Node, ...]:
    """The nodes converted to their common type.

    Raises:
        Problem: they have none.
    """
    found = nodes[0].type
    for node in nodes[1:]:
        common = common_type(found, node.type)
        if common is None:
            raise Problem(f"type mismatch: {found} and {node.type} have no common type")
        found = common
    return tuple(convert(node, found) for node in nodes)


def _common_moment(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    units = [t.unit for t in (left, right) if pa.types.is_timestamp(t)]
    if not units:
        return pa.date64()
    zones = [t.tz for t in (left, right) if pa.types.is_timestamp(t) and t.tz is not None]
    if any(pa.types.is_date64(t) for t in (left, right)):
        units.append("ms")
    zone = zones[0] if zones else None
    return pa.timestamp(max(units, key=_UNITS.index), zone)


def _is_clock(type_: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type_) and type_.tz is None)


def _is_view(type_: pa.DataType, kind: str) -> bool:
    check = getattr(pa.types, f"is_{kind}_view", None)
    return bool(check is not None and check(type_))
