"""Bloom filters, one per zone of rows: a search skips the zones that cannot contain its value.

`bloomfilter.lance` has the columns of zones (see `zones`), `has_null` (bool) and
`bloom_filter_data` (binary): a split-block filter as in Parquet. It holds the XXH64 hash of each
value: of the little-endian bytes of a number, or of the bytes of a text. The metadata has the
number of values that a filter is sized for, and its probability of false positives.

Source: what pylance 14.0.2 writes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.errors import CorruptFileError
from alance.expr.tree import plain
from alance.format.numbers import as_numbers, bytes_of, contents_of, is_variable, offsets_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Mask, UInt64s

BLOOM_FILE: Final = "bloomfilter.lance"
FILTERS: Final = "bloom_filter_data"
HAS_NULL: Final = "has_null"
ITEMS_KEY: Final = "bloomfilter_item"
PROBABILITY_KEY: Final = "bloomfilter_probability"
WRONG: Final = 0.00057  # probability of false positives, as in pylance
LEAST_BYTES: Final = 32  # one block of a filter


def filter_bytes(items: int, wrong: float) -> int:
    """Return the bytes of a filter for `items` values; `wrong` is its false positive rate."""
    bits = -8 * items / math.log(1 - wrong ** (1 / 8))
    return 1 << math.ceil(math.log2(max(bits / 8, LEAST_BYTES)))


def is_hashed(type_: pa.DataType) -> bool:
    """True if a filter can hold values of the type, as in pylance."""
    kinds = pa.types
    if kinds.is_float16(type_) or kinds.is_boolean(type_) or kinds.is_duration(type_):
        return False
    numbers = kinds.is_integer(type_) or kinds.is_floating(type_) or kinds.is_temporal(type_)
    return is_variable(type_) or (numbers and not kinds.is_interval(type_))


def hashes_of(values: pa.Array) -> UInt64s:
    """Return the hash of each non-null value. CPU work."""
    values = plain(values).drop_null()
    type_ = values.type
    if is_variable(type_):
        return _kernels.bloom_hashes(*contents_of(values))
    starts = np.arange(len(values) + 1, dtype=np.int64) * (type_.bit_width // 8)
    return _kernels.bloom_hashes(starts, bytes_of(values))


def hashes_of_points(points: Sequence[Any], type_: pa.DataType) -> UInt64s:
    """Hash Python values as a filter hashes values of an Arrow type.

    A float zero gets two hashes: of 0.0 and of -0.0.

    Args:
        points: bytes for types of variable size, floats for float types, else integers: the stored
            value, such as the number of days for a date.
    """
    if is_variable(type_):
        content = b"".join(points)
        offsets = offsets_of(list(map(len, points)))
        return _kernels.bloom_hashes(offsets, np.frombuffer(content, np.uint8))
    width = type_.bit_width // 8
    if pa.types.is_floating(type_):
        floats = np.array([*points, *[-point for point in points if point == 0]], f"<f{width}")
        content = floats.tobytes()
    else:
        content = b"".join(point.to_bytes(width, "little", signed=point < 0) for point in points)
    starts = np.arange(len(content) // width + 1, dtype=np.int64) * width
    return _kernels.bloom_hashes(starts, np.frombuffer(content, np.uint8))


def hits(filters: pa.Array, hashes: UInt64s) -> Mask:
    """Return a mask of the filters that may contain at least one of the values. CPU work."""
    if not pa.types.is_binary(filters.type) or filters.null_count:
        raise CorruptFileError(f"bloom filters of type {filters.type}, or null")
    try:
        return _kernels.bloom_hits(*contents_of(filters), hashes).view(np.bool_)
    except ValueError as error:
        raise CorruptFileError(str(error)) from error


def null_flags(column: pa.Array) -> Mask:
    """Return the column `has_null` as a mask."""
    if not pa.types.is_boolean(column.type) or column.null_count:
        raise CorruptFileError(f"bloom filters: {HAS_NULL} of type {column.type}, or null")
    return as_numbers(column.cast(pa.uint8())).astype(np.bool_)
