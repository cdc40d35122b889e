"""Type conversion as in DataFusion: common types, lossless conversion to them, and CAST."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.base import compute as pc
from alance.expr.exact import date_literal, in_zone_of, time_literal, timestamp_literal
from alance.expr.tree import FAILURES, Literal, Node, Problem, call
from alance.format.numbers import as_scalar, to_arrow

if TYPE_CHECKING:
    from collections.abc import Callable

NARROW_DIGITS: Final = 38  # digits of a decimal128
WIDE_DIGITS: Final = 76  # digits of a decimal256
_TRUTHS: Final = {
    **dict.fromkeys(("t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"), True),
    **dict.fromkeys(("f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0"), False),
}
_ORDERED_UNITS: Final = ("s", "ms", "us", "ns")
_SIGNED: Final = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
_UNSIGNED: Final = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}
_INTEGER_DIGITS: Final = {8: 3, 16: 5, 32: 10, 64: 20}
_EXACT_WHOLE: Final = 1 << 53  # float64 holds all integers up to this one
_EXACT_POWER: Final = 22  # float64 holds all powers of ten up to this exponent
# Matches the offset from UTC at the end of a timestamp's text.
_OFFSET: Final = r"\d[T ]\d.*([Zz]|[+-]\d\d(:?\d\d)?)\s*$"


def is_text(type_: pa.DataType) -> bool:
    """True for types of text: string, large_string and string_view."""
    return bool(
        pa.types.is_string(type_) or pa.types.is_large_string(type_) or _is_view(type_, "string")
    )


def is_bytes(type_: pa.DataType) -> bool:
    """True for types of byte strings, of fixed size as well."""
    return bool(
        pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_fixed_size_binary(type_)
        or _is_view(type_, "binary")
    )


def is_number(type_: pa.DataType) -> bool:
    """True for integers, floats and decimals."""
    return bool(
        pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
    )


def is_moment(type_: pa.DataType) -> bool:
    """True for dates and timestamps."""
    return bool(pa.types.is_date(type_) or pa.types.is_timestamp(type_))


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the common type to which values of two types are converted; None if there is none."""
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
            unit = max(left.unit, right.unit, key=_ORDERED_UNITS.index)
            return pa.duration(unit) if pa.types.is_duration(left) else pa.time64("ns")
    return None


def common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Return the common type of two numbers: a float if any, else a decimal, else an integer."""
    if pa.types.is_floating(left) or pa.types.is_floating(right):
        floats = [t for t in (left, right) if pa.types.is_floating(t)]
        if pa.types.is_decimal(left) or pa.types.is_decimal(right):
            return pa.float64()
        return max(*floats, pa.float32(), key=lambda t: t.bit_width)
    if pa.types.is_decimal(left) or pa.types.is_decimal(right):
        left, right = as_decimal(left), as_decimal(right)
        scale = max(left.scale, right.scale)
        precision = max(left.precision - left.scale, right.precision - right.scale) + scale
        if precision <= NARROW_DIGITS:
            return pa.decimal128(precision, scale)
        return pa.decimal256(min(precision, WIDE_DIGITS), scale)
    signed = {pa.types.is_signed_integer(t) for t in (left, right)}
    width = max(left.bit_width, right.bit_width)
    if len(signed) == 1:
        return (_SIGNED if signed.pop() else _UNSIGNED)[width]
    unsigned = left if pa.types.is_unsigned_integer(left) else right
    width = max(width, 2 * unsigned.bit_width)
    return _SIGNED.get(width, pa.decimal128(20, 0))


def as_decimal(type_: pa.DataType) -> pa.DataType:
    """Return the decimal type that holds all values of an integer or decimal type."""
    if pa.types.is_decimal(type_):
        return type_
    return pa.decimal128(_INTEGER_DIGITS[type_.bit_width], 0)


def convert(node: Node, type_: pa.DataType) -> Node:
    """Convert a node to a type that `common_type` returned.

    Raises:
        Problem: a literal does not fit the type.
    """
    if node.type.equals(type_):
        return node
    if isinstance(node, Literal) and pa.types.is_null(node.type):
        return Literal(as_scalar(None, type_))
    return call(f"conversion to {type_}", lambda values: widen(values, type_), node)


def widen(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Cast to a wider type; only floats may lose digits.

    Times without a zone are taken as local times in the zone of `type_`.
    """
    if pa.types.is_decimal(type_) and pa.types.is_integer(values.type):
        values = pc.cast(values, as_decimal(values.type))
    if pa.types.is_timestamp(type_) and type_.tz is not None and _is_clock(values.type):
        return in_zone_of(pc.cast(values, pa.timestamp(type_.unit)), type_)
    if pa.types.is_floating(type_):
        return to_floats(values, type_)
    return pc.cast(values, type_)


def to_floats(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Cast numbers to the nearest floats.

    pyarrow's own cast multiplies a decimal by an inexact power of ten: 1.5 may become
    1.5000000000000002. The quotient of two numbers that float64 holds exactly is the nearest float;
    other decimals are converted to text and parsed.
    """
    source = values.type
    if not pa.types.is_decimal(source):
        options = pc.CastOptions(type_, allow_int_overflow=True, allow_float_truncate=True)
        return pc.cast(values, options=options)
    exact = pa.types.is_float64(type_) and 0 <= source.scale <= _EXACT_POWER
    if exact and len(values):
        digits = pa.decimal128 if pa.types.is_decimal128(source) else pa.decimal256
        buffers = values.buffers()
        whole = pa.Array.from_buffers(
            digits(source.precision, 0), len(values), buffers, -1, values.offset
        )
        ends = pc.min_max(whole).as_py()
        if all(abs(end or 0) <= _EXACT_WHOLE for end in ends.values()):
            floats = pc.cast(pc.cast(whole, pa.int64()), type_)
            return pc.divide(floats, as_scalar(10.0**source.scale))
    return pc.cast(pc.cast(values, pa.string()), type_)


def unify(*nodes: Node) -> tuple[Node, ...]:
    """Convert nodes to their common type.

    Raises:
        Problem: the nodes have no common type.
    """
    type_ = nodes[0].type
    for node in nodes[1:]:
        common = common_type(type_, node.type)
        if common is None:
            raise Problem(f"type mismatch: {type_} and {node.type} have no common type")
        type_ = common
    return tuple(convert(node, type_) for node in nodes)


def _common_moment(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    units = [t.unit for t in (left, right) if pa.types.is_timestamp(t)]
    if not units:
        return pa.date64()
    zones = [t.tz for t in (left, right) if pa.types.is_timestamp(t) and t.tz is not None]
    if any(pa.types.is_date64(t) for t in (left, right)):
        units.append("ms")
    zone = zones[0] if zones else None
    return pa.timestamp(max(units, key=_ORDERED_UNITS.index), zone)


def _is_clock(type_: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type_) and type_.tz is None)


def _is_view(type_: pa.DataType, kind: str) -> bool:
    check = getattr(pa.types, f"is_{kind}_view", None)
    return bool(check is not None and check(type_))


def cast(node: Node, type_: pa.DataType, *, strict: bool = True) -> Node:
    """Build CAST, or with `strict=False` TRY_CAST, whose result is null on failure.

    Raises:
        Problem: there is no such cast, or a literal cannot be cast.
    """
    if isinstance(node, Literal) and pa.types.is_null(node.type):
        return Literal(as_scalar(None, type_))
    if pa.types.is_time(type_) and pa.types.is_integer(node.type):
        raise Problem(f"cast of {node.type} to a time of day", unsupported=True)
    try:
        if isinstance(node, Literal) and is_text(node.type) and (read := _READERS.get(type_.id)):
            literal = read(node.value.as_py())
            if _is_clock(type_):  # a text with an offset is an instant: keep its zone
                type_ = pa.timestamp(type_.unit, literal.type.tz)
            return Literal(widened(pa.repeat(literal.value, 1), type_)[0])
        if isinstance(node, Literal) and node.digits and pa.types.is_decimal(type_):
            node = Literal(as_scalar(node.digits))
        return call(f"cast to {type_}", lambda values: widened(values, type_, strict), node)
    except Problem:
        if strict or not isinstance(node, Literal):
            raise
        return Literal(as_scalar(None, type_))


def widened(values: pa.Array, type_: pa.DataType, strict: bool = True) -> pa.Array:
    """Cast values; with `strict=False`, values that cannot be cast become null."""
    if strict:
        return _cast(values, type_)
    try:
        return _cast(values, type_)
    except pa.ArrowNotImplementedError:
        raise
    except FAILURES:
        return pa.concat_arrays(
            [_cast_or_null(values.slice(row, 1), type_) for row in range(len(values))]
        )


def text_of(values: pa.Array) -> pa.Array:
    """Format values as text as DataFusion does: `1.0`, `2021-01-01T10:00:00.500`, `true`."""
    type_ = values.type
    if is_text(type_):
        return values
    if pa.types.is_floating(type_):
        if pa.types.is_float16(type_):
            values = pc.cast(values, pa.float32())
        text = pc.cast(values, pa.string())
        text = pc.replace_substring_regex(text, r"^(-?\d+)$", r"\1.0")
        text = pc.replace_substring(text, "e+", "e")
        return pc.replace_substring(text, "nan", "NaN")
    if pa.types.is_timestamp(type_):
        text = pc.replace_substring(pc.cast(values, pa.string()), " ", "T", max_replacements=1)
        text = pc.replace_substring_regex(text, r"(\.\d*?)(?:000)+($|[Z+-])", r"\1\2")
        text = pc.replace_substring_regex(text, r"\.($|[Z+-])", r"\1")
        return pc.replace_substring_regex(text, r"([+-]\d\d)(\d\d)$", r"\1:\2")
    return pc.cast(values, pa.string())


def _cast(values: pa.Array, type_: pa.DataType) -> pa.Array:
    source = values.type
    if source.equals(type_):
        return values
    if pa.types.is_null(source):
        return pc.cast(values, type_)
    if is_text(type_):
        return text_of(values)
    if is_text(source):
        return _from_text(values, type_)
    if pa.types.is_integer(type_) and (pa.types.is_floating(source) or pa.types.is_decimal(source)):
        values = pc.trunc(values)
    elif pa.types.is_integer(type_) and not pa.types.is_integer(source):
        return _whole_numbers(values, type_)
    elif pa.types.is_decimal(type_):
        values = _rounded(values, type_)
    elif pa.types.is_temporal(type_):
        if pa.types.is_integer(source) and type_.bit_width != source.bit_width:
            values = pc.cast(values, pa.int32() if type_.bit_width == 32 else pa.int64())
        if _is_clock(source) and pa.types.is_timestamp(type_) and type_.tz is not None:
            values = in_zone_of(values, type_)
        options = pc.CastOptions(type_, allow_time_truncate=True)
        return pc.cast(values, options=options)
    elif pa.types.is_floating(type_):
        return to_floats(values, type_)
    elif is_bytes(source) and is_bytes(type_):
        return pc.cast(values, type_)
    return pc.cast(values, type_)


def _rounded(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Round numbers half away from zero to the scale of a decimal type, and cast them."""
    source = values.type
    if pa.types.is_integer(source):
        values = pc.cast(values, pa.decimal128(20, 0))
        wide = pa.decimal256(WIDE_DIGITS, type_.scale) if type_.scale >= 0 else type_
        return pc.cast(pc.cast(values, wide), type_)
    if pa.types.is_floating(source):
        scaled = pc.multiply(pc.cast(values, pa.float64()), as_scalar(10.0**type_.scale))
        digits = pc.round(scaled, round_mode="half_towards_infinity")
        wide = pa.decimal128 if pa.types.is_decimal128(type_) else pa.decimal256
        whole = pc.cast(digits, wide(type_.precision, 0))
        return pa.Array.from_buffers(type_, len(whole), whole.buffers(), -1, whole.offset)
    if pa.types.is_decimal(source) and source.scale > type_.scale:
        values = pc.round(values, ndigits=type_.scale, round_mode="half_towards_infinity")
    return pc.cast(values, type_)


def _whole_numbers(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Cast booleans to 0 and 1, and dates, times and durations to the integers that they store."""
    if pa.types.is_boolean(values.type):
        return pc.cast(values, type_)
    width = values.type.bit_width
    return pc.cast(pc.cast(values, pa.int32() if width == 32 else pa.int64()), type_)


def _from_text(values: pa.Array, type_: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(type_):
        words = pa.concat_arrays([pa.repeat(as_scalar(word), 1) for word in _TRUTHS])
        places = pc.index_in(pc.utf8_lower(values), value_set=words)
        lost = pc.and_(pc.is_valid(values), pc.is_null(places))
        if pc.any(lost).as_py():
            first = values.filter(lost)[0]
            raise pa.ArrowInvalid(f"Failed to parse value: {first} as bool")
        return to_arrow(np.array(list(_TRUTHS.values()))).take(places)
    if pa.types.is_decimal(type_):
        whole = pc.cast(values, pa.decimal256(WIDE_DIGITS, 30))
        return _rounded(whole, type_)
    if pa.types.is_time(type_):
        moments = pc.binary_join_element_wise("1970-01-01T", pc.cast(values, pa.string()), "")
        return pc.cast(pc.cast(moments, pa.timestamp(type_.unit)), type_)
    if pa.types.is_timestamp(type_):
        has_zone, nothing = pc.match_substring_regex(values, _OFFSET), as_scalar(None, values.type)
        instants = pc.cast(pc.if_else(has_zone, values, nothing), pa.timestamp(type_.unit, "UTC"))
        clocks = pc.cast(pc.if_else(has_zone, nothing, values), pa.timestamp(type_.unit))
        return pc.coalesce(pc.cast(instants, type_), in_zone_of(clocks, type_))
    return pc.cast(values, type_)


def _cast_or_null(value: pa.Array, type_: pa.DataType) -> pa.Array:
    try:
        return _cast(value, type_)
    except FAILURES:
        return pa.nulls(1, type_)


_READERS: Final[dict[int, Callable[[str], Literal]]] = {
    pa.date32().id: date_literal,
    pa.time64("ns").id: time_literal,
    pa.timestamp("us").id: timestamp_literal,
}
