"""Positions, row ids and addresses, as callers give them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from alance.errors import InvalidInputError
from alance.format.numbers import as_numbers

if TYPE_CHECKING:
    from alance.arrays import Int64s


def as_positions(values: object, what: str) -> Int64s:
    """Non-negative integers from a list, numpy or Arrow array; shape (n,).

    Raises:
        InvalidInputError: anything else.
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
        raise InvalidInputError(
            f"{what}: expected integers in one dimension, got {array.dtype} of shape {array.shape}"
        )
    if array.dtype.kind == "i" and array.min() < 0:
        raise InvalidInputError(f"{what}: {array.min()} is negative")
    if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
        raise InvalidInputError(f"{what}: {array.max()} is out of range")
    return array.astype(np.int64, copy=False)
