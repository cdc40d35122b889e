"""Sets of rows as an index stores them: 32-bit roaring bitmaps by the high half of the address.

    u32 number of parts
    parts x (u32 high half, u32 size of the bitmap, the bitmap of low halves)

A size of 0 stands for all rows with that high half. The number is an address (fragment id << 32 |
row offset) or a stable row id.

Source: what pylance 14.0.2 writes; docs/format/table.md, "Index section".
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.table.roaring import parse_roaring, roaring_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from alance.arrays import Int64s


def parse_rows(content: memoryview) -> Int64s:
    """The rows of a set, ascending; shape (n,).

    Raises:
        CorruptFileError: bytes that are no such set.
        UnsupportedError: whole fragments without their rows.
    """
    parts = [parse_roaring(bitmap) + (high << 32) for high, bitmap in _bitmaps(content)]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _bitmaps(content: memoryview) -> list[tuple[int, memoryview]]:
    """The high halves of a set, ascending, and the bitmap of each."""
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
    """A set of rows.

    Args:
        rows: not negative, in any order; shape (n,).
    """
    is_ascending = len(rows) < 2 or bool((rows[1:] > rows[:-1]).all())
    unique = rows if is_ascending else np.unique(rows)
    highs, starts = np.unique(unique >> 32, return_index=True)
    parts = [struct.pack("<I", len(highs))]
    ends = [*starts.tolist(), len(unique)][1:]
    for high, start, stop in zip(highs.tolist(), starts.tolist(), ends, strict=True):
        bitmap = roaring_bytes(unique[start:stop] & 0xFFFF_FFFF)
        parts += [struct.pack("<II", high, len(bitmap)), bitmap]
    return b"".join(parts)


def joined_rows(sets: Sequence[memoryview]) -> bytes:
    """The union of sets, as bytes. Only bitmaps of the same high half are taken apart.

    Raises:
        CorruptFileError: bytes that are no such set.
        UnsupportedError: whole fragments without their rows.
    """
    if len(sets) == 1:
        return bytes(sets[0])
    bitmaps: dict[int, list[memoryview]] = {}
    for one in sets:
        for high, content in _bitmaps(one):
            bitmaps.setdefault(high, []).append(content)
    parts = [struct.pack("<I", len(bitmaps))]
    for high in sorted(bitmaps):
        same = bitmaps[high]
        joined: bytes | memoryview = same[0]
        if len(same) > 1:
            joined = roaring_bytes(all_of(parse_roaring(one) for one in same))
        parts += [struct.pack("<II", high, len(joined)), joined]  # type: ignore[list-item]
    return b"".join(parts)


def all_of(parts: Iterable[Int64s]) -> Int64s:
    """The rows of several sets, ascending, each once."""
    found = list(parts)
    return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)
