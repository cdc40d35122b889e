"""Row sets: results of indices and filters, deleted rows, rows that a search may return.

A row is a 64-bit number: an address (fragment id << 32 | row offset) or a stable row id. A set is a
roaring bitmap, so operations on many rows take microseconds. All rows of a fragment take a few
bytes, because the bitmap stores runs.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, cast

import numpy as np
from pyroaring import BitMap64

from alance import _kernels
from alance.errors import CorruptFileError
from alance.format.numbers import positions_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alance.base.arrays import Int64s, Mask


OFFSET_BITS: Final = 32  # bits of a row offset
PART: Final = struct.Struct("<I")
SET_COUNT: Final = struct.Struct("<Q")
GAP_ROWS: Final = 4096  # smallest gap that a scan skips
SPAN_STEPS: Final = 64  # maximum number of gaps to examine in a fragment
LONG_RUN: Final = 64  # rows; longer runs are cheaper to add as a range than row by row


class RowSet:
    """Set of rows, as addresses or stable row ids. Immutable and thread-safe.

    `&`, `|` and `-` take about 0.1 us per block of 65 536 numbers in which both sets have rows.
    """

    __slots__ = ("_bitmap", "_lookup")

    def __init__(self, rows: Int64s | None = None) -> None:
        """Build a set of non-negative numbers. CPU: some nanoseconds per row if they ascend."""
        self._bitmap = BitMap64()
        self._lookup: _kernels.RowLookup | None = None
        if rows is not None and len(rows):
            content = _kernels.row_set(np.ascontiguousarray(rows, np.int64))
            self._bitmap = BitMap64.deserialize(content)

    @classmethod
    def _of(cls, bitmap: BitMap64) -> RowSet:
        rows = cls.__new__(cls)
        rows._bitmap = bitmap
        rows._lookup = None
        return rows

    @classmethod
    def of_fragments(cls, num_rows: Iterable[tuple[int, int]]) -> RowSet:
        """Return all rows of fragments, from ids and numbers of rows. CPU: a microsecond each."""
        bitmap = BitMap64()
        for fragment, count in num_rows:
            bitmap.add_range(fragment << OFFSET_BITS, (fragment << OFFSET_BITS) + count)
        return cls._of(bitmap)

    @classmethod
    def of_runs(cls, starts: Int64s, lengths: Int64s) -> RowSet:
        """Return the rows of runs of consecutive numbers; both arrays have shape (n,)."""
        is_long = lengths >= LONG_RUN
        rows = cls(positions_of(starts[~is_long], lengths[~is_long]))
        for start, length in zip(starts[is_long].tolist(), lengths[is_long].tolist(), strict=True):
            rows._bitmap.add_range(start, start + length)
        return rows

    @classmethod
    def of_bitmaps(cls, bitmaps: Iterable[tuple[int, bytes | memoryview]]) -> RowSet:
        """Build a set from ascending pairs: an upper half, and a checked bitmap of lower halves."""
        parts = [*bitmaps]
        num_bytes = SET_COUNT.size + sum([PART.size + len(part) for _, part in parts])
        content = _kernels.blank(num_bytes).data  # reuses pooled memory for many rows
        SET_COUNT.pack_into(content, 0, len(parts))
        at = SET_COUNT.size
        for high, part in parts:
            PART.pack_into(content, at, high)
            at += PART.size + len(part)
            content[at - len(part) : at] = memoryview(part).cast("B")
        try:
            # The function accepts any buffer.
            return cls._of(BitMap64.deserialize(cast("bytes", content)))
        except ValueError as error:
            raise CorruptFileError(f"row set of {len(parts)} bitmaps: {error}") from error

    @classmethod
    def union(cls, sets: Iterable[RowSet]) -> RowSet:
        bitmap = BitMap64()
        for rows in sets:
            bitmap |= rows._bitmap  # `BitMap64.union` is 8 times slower for dense sets
        return cls._of(bitmap)

    def __len__(self) -> int:
        return len(self._bitmap)

    def __and__(self, other: RowSet) -> RowSet:
        return self._of(self._bitmap & other._bitmap)

    def __or__(self, other: RowSet) -> RowSet:
        return self._of(self._bitmap | other._bitmap)

    def __sub__(self, other: RowSet) -> RowSet:
        return self._of(self._bitmap - other._bitmap)

    def __eq__(self, other: object) -> bool:
        return bool(self._bitmap == other._bitmap) if isinstance(other, RowSet) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __contains__(self, row: int) -> bool:
        return row in self._bitmap

    def __repr__(self) -> str:
        return f"RowSet of {len(self):,} rows"

    def within(self, domain: RowSet, fragments: frozenset[int]) -> RowSet:
        """Return the set's rows in certain fragments; check that no row is beyond its fragment.

        Args:
            domain: all rows of these fragments.
        """
        if self.count_common(domain) == len(self):
            return self
        outside = self - domain
        for fragment in sorted(fragments.intersection(outside.fragments())):
            last = outside.span_of(fragment)[1] - 1
            count = domain.count_of(fragment)
            raise CorruptFileError(f"row {last} of fragment {fragment}: it has {count} rows")
        return self - outside

    def count_common(self, other: RowSet) -> int:
        """Return the size of the intersection without building it."""
        return int(self._bitmap.intersection_cardinality(other._bitmap))

    def moved(self, start: int, stop: int, by: int) -> RowSet:
        """Return the rows from `start` to `stop`, with `by` added to each number."""
        rows = BitMap64()
        rows.add_range(start, stop)
        rows &= self._bitmap
        return self._of(rows.shift(by))

    def to_numpy(self) -> Int64s:
        """Return the rows, ascending; shape (n,)."""
        return np.frombuffer(self._bitmap.to_array(), np.int64)

    def mask_of(self, rows: Int64s) -> Mask:
        """Return the mask of rows that are in the set; shape (n,), like `rows`.

        CPU: see `lookup`.
        """
        return _kernels.rows_mask(rows.view(np.uint64), self.lookup).view(np.bool_)

    @property
    def lookup(self) -> _kernels.RowLookup:
        """Lookup table for `_kernels.rows_mask`, which takes some nanoseconds per ascending row.

        It is built on first access from a copy of the set's bytes, and cached.
        """
        if self._lookup is None:
            self._lookup = _kernels.RowLookup(self._bitmap.serialize())
        return self._lookup

    def fragments(self) -> list[int]:
        """Return the fragments that have rows in the set, ascending.

        CPU: about a microsecond each.
        """
        fragments = []
        if self._bitmap:
            row, last = self._bitmap.min(), self._bitmap.max() >> OFFSET_BITS
            fragments.append(row >> OFFSET_BITS)
            while fragments[-1] < last:
                row = self._bitmap.next_set_bit((fragments[-1] + 1) << OFFSET_BITS)
                fragments.append(row >> OFFSET_BITS)
        return fragments

    def count_of(self, fragment: int) -> int:
        """Return the number of the set's rows in a fragment."""
        return int(
            self._bitmap.range_cardinality(fragment << OFFSET_BITS, (fragment + 1) << OFFSET_BITS)
        )

    def span_of(self, fragment: int) -> tuple[int, int]:
        """Return the offset of the set's first row in a fragment, and the end of its last row.

        Raises:
            ValueError: the set has no rows in the fragment.
        """
        base = fragment << OFFSET_BITS
        num_before = self._bitmap.rank(base - 1) if base else 0
        num_to_end = self._bitmap.rank(base + (1 << OFFSET_BITS) - 1)
        if num_before == num_to_end:
            raise ValueError(f"{self}: none in fragment {fragment}")
        return self._bitmap[num_before] - base, self._bitmap[num_to_end - 1] - base + 1

    def spans_of(self, fragment: int) -> list[tuple[int, int]]:
        """Return spans of offsets that cover the set's rows in a fragment, with few other rows.

        Spans omit gaps of at least `GAP_ROWS` rows, but only the first `SPAN_STEPS` gaps are
        examined. CPU: up to 100 us.

        Raises:
            ValueError: the set has no rows in the fragment.
        """
        start, stop = self.span_of(fragment)
        base = fragment << OFFSET_BITS
        gaps = BitMap64()
        gaps.add_range(base + start, base + stop)
        gaps -= self._bitmap
        spans: list[tuple[int, int]] = []
        at = start
        for _ in range(SPAN_STEPS):
            if not gaps or base + at > gaps.max():
                break
            gap = gaps.next_set_bit(base + at) - base
            at = self._bitmap.next_set_bit(base + gap) - base
            if at - gap >= GAP_ROWS:
                spans.append((start, gap))
                start = at
        return [*spans, (start, stop)]

    def offsets_of(self, fragment: int) -> Int64s:
        """Return the offsets of the set's rows in a fragment, ascending; shape (n,)."""
        if not self.count_of(fragment):
            return np.empty(0, np.int64)
        base = fragment << OFFSET_BITS
        bitmap = self._bitmap
        if bitmap.min() < base or bitmap.max() >> OFFSET_BITS > fragment:
            start, stop = self.span_of(fragment)
            bitmap = BitMap64(range(base + start, base + stop)) & bitmap
        return self._of(bitmap).to_numpy() - base


NO_ROWS: Final = RowSet()
