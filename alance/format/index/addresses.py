"""Row sets of an index: a 32-bit roaring bitmap for each high half of the row number.

    u32 number of parts
    parts x (u32 high half, u32 size of the bitmap, the bitmap of low halves)

A size of 0 stands for all rows with that high half. A row number is an address (fragment id << 32 |
row offset) or a stable row id.

Source: what pylance 14.0.2 writes; docs/format/table.md, "Index section".
"""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING

import numpy as np

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.row_set import RowSet
from alance.format.table.roaring import check_roaring, roaring_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.arrays import Int64s


def parse_rows(content: memoryview) -> RowSet:
    """Parse a row set.

    Raises:
        CorruptFileError: the bytes are not a row set.
        UnsupportedError: the set contains a whole fragment without listing its rows.
    """
    return RowSet.of_bitmaps(_checked(content))


def _checked(content: memoryview) -> list[tuple[int, memoryview]]:
    """Return `_bitmaps`, with each bitmap checked."""
    bitmaps = _bitmaps(content)
    for _, bitmap in bitmaps:
        check_roaring(bitmap)
    return bitmaps


def _bitmaps(content: memoryview) -> list[tuple[int, memoryview]]:
    """Return the high halves of a set, ascending, each with the bytes of its bitmap."""
    try:
        (number,) = struct.unpack_from("<I", content)
        position, last = 4, -1
        parts: list[tuple[int, memoryview]] = []
        for _ in range(number):
            high, size = struct.unpack_from("<II", content, position)
            position += 8
            if high <= last or size > len(content) - position:
                raise CorruptFileError(
                    f"row set of {len(content)} bytes: part {high} of {size} bytes at {position}"
                )
            if size == 0:
                raise UnsupportedError(f"row set: all rows of part {high}, without their number")
            parts.append((high, content[position : position + size]))
            position, last = position + size, high
    except struct.error as error:
        raise CorruptFileError(f"row set of {len(content)} bytes: {error}") from error
    if position != len(content):
        raise CorruptFileError(f"row set of {len(content)} bytes: ends at {position}")
    return parts


def rows_bytes(rows: Int64s) -> bytes:
    """Encode rows as a row set.

    Args:
        rows: non-negative row numbers, in any order; shape (n,).
    """
    is_ascending = len(rows) < 2 or bool((rows[1:] > rows[:-1]).all())
    unique = rows if is_ascending else np.unique(rows)
    starts = np.flatnonzero(np.diff(unique >> 32, prepend=-1)).tolist()
    parts = [struct.pack("<I", len(starts))]
    for start, stop in itertools.pairwise([*starts, len(unique)]):
        bitmap = roaring_bytes(unique[start:stop] & 0xFFFF_FFFF)
        parts += [struct.pack("<II", unique[start] >> 32, len(bitmap)), bitmap]
    return b"".join(parts)


def joined_rows(sets: Sequence[memoryview]) -> bytes:
    """Return the encoded union of encoded row sets; bitmaps in only one set are copied.

    Raises:
        CorruptFileError: the bytes are not a row set.
        UnsupportedError: a set contains a whole fragment without listing its rows.
    """
    if len(sets) == 1:
        return bytes(sets[0])
    bitmaps: dict[int, list[memoryview]] = {}
    for rows in sets:
        for high, content in _checked(rows):
            bitmaps.setdefault(high, []).append(content)
    parts: list[bytes | memoryview] = [struct.pack("<I", len(bitmaps))]
    for high in sorted(bitmaps):
        joined: bytes | memoryview = bitmaps[high][0]
        if len(bitmaps[high]) > 1:
            rows_of_all = RowSet.union(RowSet.of_bitmaps([(0, part)]) for part in bitmaps[high])
            joined = roaring_bytes(rows_of_all.to_numpy())
        parts += [struct.pack("<II", high, len(joined)), joined]
    return b"".join(parts)
