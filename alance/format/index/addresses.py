"""Row sets of an index: a 32-bit roaring bitmap for each high half of the row number.

    u32 number of parts
    parts x (u32 high half, u32 size of the bitmap, the bitmap of low halves)

A size of 0 stands for all rows with that high half. A row number is an address (fragment id << 32 |
row offset) or a stable row id.

Source: what pylance 14.0.2 writes; docs/format/table.md, "Index section".
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from alance import _kernels
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.row_set import RowSet
from alance.format.table.roaring import roaring_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Int64s


def parse_rows(content: memoryview) -> RowSet:
    """Parse a row set.

    Raises:
        CorruptFileError: the bytes are not a row set.
        UnsupportedError: the set contains a whole fragment without listing its rows.
    """
    return RowSet.of_bitmaps(_bitmaps(content))


def _bitmaps(content: memoryview) -> list[tuple[int, memoryview]]:
    """Split a row set into pairs of a high half and its checked bitmap, ascending by high half."""
    try:
        parts = _kernels.address_parts(np.frombuffer(content, np.uint8))
    except ValueError as error:
        raise CorruptFileError(f"row set of {len(content)} bytes: {error}") from error
    for high, _, size in parts:
        if size == 0:
            raise UnsupportedError(f"row set: all rows of part {high}, without their number")
    return [(high, content[start : start + size]) for high, start, size in parts]


def rows_bytes(rows: Int64s) -> bytes:
    """Encode rows as a row set.

    Args:
        rows: non-negative row numbers, in any order; shape (n,).
    """
    return _kernels.address_set(np.ascontiguousarray(rows, np.int64))


def joined_rows(sets: Sequence[memoryview]) -> bytes:
    """Encode the union of encoded row sets.

    The bitmap of a high half that only one set contains is copied without decoding.

    Raises:
        CorruptFileError: the bytes are not a row set.
        UnsupportedError: a set contains a whole fragment without listing its rows.
    """
    if len(sets) == 1:
        return bytes(sets[0])
    bitmaps: dict[int, list[memoryview]] = {}
    for rows in sets:
        for high, content in _bitmaps(rows):
            bitmaps.setdefault(high, []).append(content)
    parts: list[bytes | memoryview] = [struct.pack("<I", len(bitmaps))]
    for high in sorted(bitmaps):
        joined: bytes | memoryview = bitmaps[high][0]
        if len(bitmaps[high]) > 1:
            rows_of_all = RowSet.union(RowSet.of_bitmaps([(0, part)]) for part in bitmaps[high])
            joined = roaring_bytes(rows_of_all.to_numpy())
        parts += [struct.pack("<II", high, len(joined)), joined]
    return b"".join(parts)
