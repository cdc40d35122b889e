"""Casts: the names of types, and values from one type to another as DataFusion casts them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from alance.expr.coercion import is_bytes, is_text
from alance.expr.exact import date_literal, time_literal, timestamp_literal
from alance.expr.problem import Problem
from alance.expr.tree import FAILURES, Literal, Node, call
from alance.format.numbers import as_scalar, to_arrow

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_PRECISION: Final = 76

_TRUTHS: Final = {
    **dict.fromkeys(("t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"), True),
    **dict.fromkeys(("f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0"), False),
}


def cast(node: Node, type_: pa.DataType, *, strict: bool = True) -> Node:
    """CAST, or with `strict=False` TRY_CAST: null where a value cannot be cast.

    Raises:
        Problem: there is no such cast, or a literal that cannot be cast.
    """
    if isinstance(node, Literal) and pa.types.is_null(node.type):
        return Literal(as_scalar(None, type_))
    if pa.types.is_time(type_) and pa.types.is_integer(node.type):
        raise Problem(f"cast of {node.type} to a time of day", unsupported=True)
    try:
        if isinstance(node, Literal) and is_text(node.type) and (read := _READERS.get(type_.id)):
            literal = read(node.value.as_py())
            return Literal(widened(pa.repeat(literal.value, 1), type_)[0])
        if isinstance(node, Literal) and node.digits and pa.types.is_decimal(type_):
            node = Literal(as_scalar(node.digits))
        return call(f"cast to {type_}", lambda values: widened(values, type_, strict), node)
    except Problem:
        if strict or not isinstance(node, Literal):
            raise
        return Literal(as_scalar(None, type_))


def widened(values: pa.Array, type_: pa.DataType, strict: bool = True) -> pa.Array:
    """Values cast to a type; where not strict, null for those that cannot be."""
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
    """Values as text, in DataFusion's forms: `1.0`, `2021-01-01T10:00:00.500`, `true`."""
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
        options = pc.CastOptions(type_, allow_time_truncate=True)
        return pc.cast(values, options=options)
    elif pa.types.is_floating(type_):
        options = pc.CastOptions(type_, allow_float_truncate=True, allow_int_overflow=True)
        return pc.cast(values, options=options)
    elif is_bytes(source) and is_bytes(type_):
        return pc.cast(values, type_)
    return pc.cast(values, type_)


def _rounded(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Numbers rounded half away from zero to the scale of a decimal type, and cast."""
    source = values.type
    if pa.types.is_integer(source):
        values = pc.cast(values, pa.decimal128(20, 0))
        wide = pa.decimal256(MAX_PRECISION, type_.scale) if type_.scale >= 0 else type_
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
    """Booleans as 0 and 1; dates, times and durations as the number that is stored."""
    if pa.types.is_boolean(values.type):
        return pc.cast(values, type_)
    width = values.type.bit_width
    return pc.cast(pc.cast(values, pa.int32() if width == 32 else pa.int64()), type_)


def _from_text(values: pa.Array, type_: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(type_):
        known = pa.concat_arrays([pa.repeat(as_scalar(word), 1) for word in _TRUTHS])
        found = pc.index_in(pc.utf8_lower(values), value_set=known)
        lost = pc.and_(pc.is_valid(values), pc.is_null(found))
        if pc.any(lost).as_py():
            first = values.filter(lost)[0]
            raise pa.ArrowInvalid(f"Failed to parse value: {first} as bool")
        return to_arrow(np.array(list(_TRUTHS.values()))).take(found)
    if pa.types.is_decimal(type_):
        whole = pc.cast(values, pa.decimal256(MAX_PRECISION, 30))
        return _rounded(whole, type_)
    if pa.types.is_time(type_):
        moments = pc.binary_join_element_wise("1970-01-01T", pc.cast(values, pa.string()), "")
        return pc.cast(pc.cast(moments, pa.timestamp(type_.unit)), type_)
    if pa.types.is_timestamp(type_) and type_.tz is None:
        try:
            return pc.cast(values, type_)
        except pa.ArrowInvalid:
            instants = pc.cast(values, pa.timestamp(type_.unit, "UTC"))
            return pc.cast(instants, type_)
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
