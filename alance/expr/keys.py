"""Keys of rows: arrays in the types of the key columns, filters on keys, and look-up of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from alance.base import compute as pc
from alance.base.checks import INT64_MAX
from alance.errors import InvalidInputError
from alance.expr.builders.nested import member
from alance.expr.casts import is_bytes, is_text
from alance.expr.exact import Digits, exact_value, scalar_of, scale_of
from alance.expr.logic import is_among, is_in, junction
from alance.expr.predicate import Predicate
from alance.expr.sql.parameters import array_of, items_of, literal_of
from alance.expr.tree import Column, Literal, Problem, plain_type
from alance.format.numbers import as_mask, as_numbers, as_scalar, numpy_type, to_arrow
from alance.format.paths import join_path

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from alance.base.arrays import Int64s, Mask
    from alance.expr.tree import Node

    Number: TypeAlias = Fraction | float


def is_key_type(type_: pa.DataType) -> bool:
    """True if values of a type may be keys, which means that equal values have equal bits."""
    return is_text(type_) or is_bytes(type_) or scale_of(type_) is not None


def key_array(keys: object, type_: pa.DataType, name: str) -> pa.Array:
    """Convert keys to the type of their column. A key that does not fit the type becomes null.

    Args:
        keys: an Arrow or numpy array, or any iterable of Python values.
        type_: type of the column.
        name: name of the column, for messages.

    Raises:
        InvalidInputError: a key has another kind than the column, such as text for a number.
    """
    try:
        values = array_of(keys, least=0)
        if isinstance(values, pa.Array):
            if values.type.equals(type_):
                return values
            if is_text(type_) and is_text(values.type):
                return pc.cast(values, type_)
            if is_bytes(type_) and is_bytes(values.type):
                return _bytes(values, type_)
            if pa.types.is_integer(type_) and pa.types.is_int64(values.type):
                return _whole(values, type_)
        return _keys_of([literal_of(value, "key") for value in values], type_)
    except (Problem, UnicodeError) as problem:
        hint = _key_hint(keys, type_)
        raise InvalidInputError(f"key of column {name!r} ({type_}): {problem}{hint}") from None


def _key_hint(keys: object, type_: pa.DataType) -> str:
    """Return a hint for a key that does not fit the column; empty if there is none."""
    key = keys[0] if isinstance(keys, list | tuple) and len(keys) == 1 else None
    if isinstance(key, list | tuple | set | frozenset | np.ndarray):
        return "; `get_many(keys, column)` reads the rows of several keys"
    if isinstance(key, str) and key.isdecimal() and len(key) < 20 and pa.types.is_integer(type_):
        return f"; write {key} instead of {key!r}"
    if isinstance(key, int) and is_text(type_):
        return f"; write {str(key)!r} instead of {key}"
    return ""


def _bytes(values: pa.Array, type_: pa.DataType) -> pa.Array:
    if pa.types.is_fixed_size_binary(type_):
        lengths = pc.cast(pc.binary_length(values), pa.int64())
        is_whole = pc.equal(lengths, as_scalar(type_.byte_width))
        values = pc.if_else(is_whole, values, pa.nulls(1, values.type)[0])
    return pc.cast(values, type_)


def _whole(values: pa.Array, type_: pa.DataType) -> pa.Array:
    scale = scale_of(type_)
    assert scale is not None
    numbers = as_numbers(values.fill_null(0))
    fits = (numbers >= max(scale.low, -(1 << 63))) & (numbers <= min(scale.high, (1 << 63) - 1))
    valid = as_mask(values.is_valid()) & fits
    return to_arrow(np.where(valid, numbers, 0).astype(numpy_type(type_)), valid)


def _keys_of(literals: Sequence[Literal], type_: pa.DataType) -> pa.Array:
    nothing = pa.nulls(1, type_)
    parts = [nothing[:0]]
    for literal in literals:
        whole = None if not literal.value.is_valid else _stored(literal, type_)
        parts.append(nothing if whole is None else pa.repeat(scalar_of(type_, whole), 1))
    return pa.concat_arrays(parts)


def _stored(literal: Literal, type_: pa.DataType) -> int | None:
    """Return the integer that a column stores for a value. Returns None if it does not fit."""
    scale = scale_of(type_)
    number: Number | None = exact_value(literal, type_) if scale is not None else None
    if scale is None or number is None or is_text(literal.type):
        raise Problem(f"found {literal.type}")
    if isinstance(number, float):
        return None
    whole = number / scale.unit
    if whole.denominator != 1 or not scale.low <= whole <= scale.high:
        return None
    return int(whole)


def predicate_among(
    schema: pa.Schema, names: Sequence[Sequence[str]], values: Sequence[pa.Array], text: str
) -> Predicate:
    """Return the filter of the rows whose values are among the keys, column by column.

    Args:
        schema: schema of the rows.
        names: path of each key column: its name, then the names of nested fields.
        values: keys of each column, without nulls.
        text: the filter as SQL, for messages.
    """
    parts, paths = [], []
    for path, items in zip(names, values, strict=True):
        column: Node = Column((path[0],), plain_type(schema.field(path[0]).type))
        for name in path[1:]:
            column = member(column, name)
        keys, _ = items_of(items, "keys")
        if isinstance(keys, pa.Array | Digits):
            parts.append(is_among(column, keys))
        else:
            parts.append(is_in(column, keys))
        paths.append(join_path(path))
    condition = parts[0] if len(parts) == 1 else junction(True, parts)
    return Predicate(text, tuple(paths), condition, has_params=True)


def places_of(keys: Sequence[pa.Array], rows: Sequence[pa.Array]) -> tuple[Int64s, Mask]:
    """Look up the rows of keys.

    Returns the first row of each key, or -1, and the mask of the keys that several rows have.

    Args:
        keys: keys by column, in the types of the rows; a null key matches no row.
        rows: key columns of the rows, without nulls.
    """
    of_keys, of_rows = (keys[0], rows[0]) if len(keys) == 1 else _codes(keys, rows)
    # A null key is not found, because the rows have no nulls.
    hits = pc.index_in(of_keys, value_set=of_rows)
    places = as_numbers(hits.fill_null(-1) if hits.null_count else hits).astype(np.int64)
    if len(of_rows) < 2:
        return places, np.zeros(len(places), np.bool_)
    firsts = as_numbers(pc.index_in(of_rows, value_set=of_rows))
    again = firsts[firsts != np.arange(len(firsts))]
    return places, np.isin(places, again) if len(again) else np.zeros(len(places), np.bool_)


def _codes(keys: Sequence[pa.Array], rows: Sequence[pa.Array]) -> tuple[pa.Array, pa.Array]:
    """Encode keys and rows of several columns; codes are equal if all columns are equal."""
    of_keys, of_rows = np.zeros(len(keys[0]), np.int64), np.zeros(len(rows[0]), np.int64)
    valid = np.ones(len(of_keys), np.bool_)
    num_codes = 1  # upper bound of the codes, excluded
    for sought, values in zip(keys, rows, strict=True):
        kinds = pc.unique(values)
        if num_codes * len(kinds) > INT64_MAX:  # renumber: at most one code per row
            codes = pc.unique(to_arrow(of_rows))
            hits = pc.index_in(to_arrow(of_keys), value_set=codes)
            valid &= as_mask(hits.is_valid())
            of_keys = as_numbers(hits.fill_null(0)).astype(np.int64)
            of_rows = as_numbers(pc.index_in(to_arrow(of_rows), value_set=codes)).astype(np.int64)
            num_codes = len(codes)
        num_codes *= len(kinds)
        places = pc.index_in(sought, value_set=kinds)
        valid &= as_mask(places.is_valid()) & as_mask(sought.is_valid())
        of_keys = of_keys * len(kinds) + as_numbers(places.fill_null(0))
        of_rows = of_rows * len(kinds) + as_numbers(pc.index_in(values, value_set=kinds))
    return to_arrow(of_keys, valid), to_arrow(of_rows)
