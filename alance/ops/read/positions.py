"""Positions, row ids and addresses from callers, converted to distinct rows of fragments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base.checks import await_hint
from alance.errors import InvalidInputError
from alance.format.numbers import as_numbers, distinct

if TYPE_CHECKING:
    from alance.base.arrays import Int64s


def as_positions(values: object, what: str) -> Int64s:
    """Convert a list, numpy array or Arrow array to non-negative integers; shape (n,).

    Raises:
        InvalidInputError: the values are not such integers.
    """
    if isinstance(values, pa.Array | pa.ChunkedArray):
        if values.null_count:
            raise InvalidInputError(f"{what}: {values.null_count} of them are null")
        if len(values) and not pa.types.is_integer(values.type):
            raise InvalidInputError(f"{what}: expected integers, got {values.type}")
        values = as_numbers(values) if len(values) else []
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(f"{what}: {error}") from error
    if array.size == 0 and array.ndim == 1:
        return np.empty(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise _not_positions(values, array, what)
    if array.dtype.kind == "i" and array.min() < 0:
        raise InvalidInputError(
            f"{what}: {array.min()} is negative; the last row is `count_rows() - 1`"
        )
    if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
        raise InvalidInputError(f"{what}: {array.max()} is out of range")
    return array.astype(np.int64, copy=False)


FEW_POSITIONS: Final = 1 << 10  # rows; numpy is faster for more rows


class Placed(NamedTuple):
    """Requested rows, grouped by fragment."""

    fragments: list[int]  # positions of the fragments in the version, ascending
    rows: Int64s  # row offsets of all fragments, ascending and unique in each fragment
    cuts: list[int]  # start of each fragment's rows, then the end
    # Index into `rows` of each requested row; None if `rows` has the requested order.
    places: Int64s | None


def by_position(rows: Int64s, firsts: Int64s) -> Placed:
    """Group rows, given by position in the dataset, by fragment.

    Args:
        rows: positions, all below the last of `firsts`; shape (n,).
        firsts: first row of each fragment, then the number of rows.
    """
    if len(rows) <= FEW_POSITIONS:
        return Placed(*_kernels.place_rows(rows, firsts))
    fragments = np.searchsorted(firsts, rows, "right") - 1
    return by_key(fragments << 32 | (rows - firsts[fragments]))


def by_key(keys: Int64s) -> Placed:
    """Group rows, given as fragment position << 32 | offset, by fragment."""
    places = None
    if len(keys) > 1 and not bool((keys[1:] > keys[:-1]).all()):
        keys, places = distinct(keys)
    if len(keys) == 0:
        return Placed([], keys, [0], None)
    positions = keys >> 32
    begins = np.flatnonzero(np.concatenate([[True], positions[1:] != positions[:-1]]))
    cuts = [*begins.tolist(), len(keys)]
    return Placed(positions[begins].tolist(), keys & 0xFFFF_FFFF, cuts, places)


def _not_positions(values: object, array: np.ndarray[Any, Any], what: str) -> InvalidInputError:
    """Return the error for values that are no list of integers."""
    actual = f"got {array.dtype} of shape {array.shape}"
    hint = ""
    if array.ndim == 0:
        actual = f"got {type(values).__name__}, expected a list"
        if isinstance(values, int | np.integer):
            hint = f"; write [{values}]"
        elif isinstance(values, slice):
            hint = f"; write range({values.start or 0}, {values.stop})"
        elif isinstance(values, str):
            hint = "; rows of a key are `get(key, column)`, those of a condition to_table(filter=)"
        else:
            hint = await_hint(values)
    elif array.dtype.kind == "b":
        hint = "; positions of a mask are `numpy.flatnonzero(mask)`"
    elif array.dtype.kind in "US":
        hint = "; rows of keys are `get_many(keys, column)`"
    return InvalidInputError(f"{what}: expected integers in one dimension, {actual}{hint}")
