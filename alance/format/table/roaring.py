"""Roaring bitmaps: parsing of untrusted bytes, and writing.

pyroaring trusts the cardinalities in a bitmap, so malformed bytes could make it write outside of
its arrays. Therefore a kernel first checks every container.

  u32 cookie: 12346, then u32 number of containers; or 12347 | (number - 1) << 16, then a bit for
    each container: set if it holds runs
  containers x (u16 key, u16 cardinality - 1)
  containers x u32 position, unless there are runs and fewer than 4 containers
  container: cardinality x u16 sorted; over 4096 values 8192 bytes of bits; runs: u16 number,
    then (u16 first, u16 length - 1) each

Source: the Roaring bitmap serialization format, 32 bit, portable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alance import _kernels
from alance.errors import CorruptFileError

if TYPE_CHECKING:
    from alance.base.arrays import Bytes, Int64s


def parse_roaring(content: memoryview, limit: int = 1 << 32) -> Int64s:
    """Return the values of a bitmap, ascending and below `limit`. Memory: 8 bytes per value."""
    try:
        return _kernels.bitmap_values(_bytes(content), limit)
    except ValueError as error:
        raise CorruptFileError(f"roaring bitmap of {len(content)} bytes: {error}") from error


def check_roaring(content: memoryview) -> None:
    """Check that the bytes are exactly one valid bitmap, so that pyroaring can safely read it."""
    if (end := end_of_roaring(content)) != len(content):
        raise CorruptFileError(f"roaring bitmap of {len(content)} bytes: it ends at {end}")


def end_of_roaring(content: memoryview) -> int:
    """Check the bitmap at the start of the bytes, and return its length in bytes."""
    try:
        return _kernels.bitmap_end(_bytes(content))
    except ValueError as error:
        raise CorruptFileError(f"roaring bitmap of {len(content)} bytes: {error}") from error


def _bytes(content: memoryview) -> Bytes:
    return np.frombuffer(content, np.uint8)  # Arrow's buffers are signed


def roaring_bytes(values: Int64s) -> bytes:
    """Serialize a bitmap without runs.

    Raises:
        ValueError: a value is out of that range.
    """
    return _kernels.roaring_bitmap(np.ascontiguousarray(values, np.int64))
