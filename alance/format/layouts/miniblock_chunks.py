"""Positions of the chunks of a mini-block page, and a search for the chunks that contain rows.

    chunk word, u16 or u32    (bytes / 8 - 1) << 4 | log2(values); the last chunk has all remaining
                              values, and 0 or their true logarithm in the low bits
    repetition index, u64     two numbers per chunk: rows whose last entry lies in the chunk, and
                              last entries of the chunk, of a row that continues in the next one

Without lists, each value is a row. With lists, a chunk may begin inside a row.

Source: encodings_v2_1.proto, MiniBlockLayout; docs/format/file.md, "Mini-block layout".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from alance.format.numbers import positions_of

if TYPE_CHECKING:
    from alance import _kernels
    from alance.base.arrays import Int64s, Mask
    from alance.format.layouts.place import Spans

CHUNKS_BUFFER: Final = 1  # number of the buffer with the chunks


class Chunks(NamedTuple):
    """All n chunks of a page."""

    first_bytes: Int64s  # shape (n + 1,): offset of each chunk in the buffer, then its end
    first_values: Int64s  # shape (n + 1,): number of values before each chunk, then the total
    # Shape (n + 1,): number of rows that start before each chunk, then the total.
    first_rows: Int64s
    carries: Mask | None  # shape (n,): True if the chunk begins inside a row; None without lists
    # Ascending numbers of the chunks in which a row starts, or whose last entry ends a row. A row
    # that continues after a chunk ends in the next of these chunks. None if no chunk ends inside a
    # row.
    closing: Int64s | None

    @classmethod
    def of(cls, table: _kernels.ChunkTable) -> Chunks:
        first_rows, carried = table.first_rows, table.carries
        carries = closing = None
        if carried is not None:
            carries = carried.view(np.bool_)
            is_open = np.append(carries[1:], False)  # True if a row continues after the chunk
            if is_open.any():
                closing = np.flatnonzero(~is_open | (np.diff(first_rows) != 0))
        return cls(table.first_bytes, table.first_values, first_rows, carries, closing)

    @property
    def num_chunks(self) -> int:
        return len(self.first_bytes) - 1

    def locate(self, rows: Int64s) -> ChunkRuns:
        """Return the chunks that contain rows, as runs of adjacent chunks.

        Args:
            rows: sorted and unique, shape (m,), all in the page.
        """
        if len(rows) == 0:
            return ChunkRuns(self, *np.empty((2, 0), np.int64))
        first, last = self._first_and_last(rows, rows)
        begins = np.flatnonzero(np.concatenate([[True], first[1:] > last[:-1] + 1]))
        return ChunkRuns(self, first[begins], last[np.append(begins[1:], len(rows)) - 1])

    def locate_range(self, start: int, stop: int) -> ChunkRuns:
        """Return the chunks that contain the rows from `start` to `stop`: one run, or none."""
        if start >= stop:
            return ChunkRuns(self, *np.empty((2, 0), np.int64))
        ends = np.array([start, stop - 1])
        first, last = self._first_and_last(ends[:1], ends[1:])
        return ChunkRuns(self, first, last)

    def all(self) -> ChunkRuns:
        """Return all chunks as one run."""
        if self.num_chunks == 0:
            return ChunkRuns(self, *np.empty((2, 0), np.int64))
        return ChunkRuns(self, np.array([0]), np.array([self.num_chunks - 1]))

    def _first_and_last(self, starts: Int64s, lasts: Int64s) -> tuple[Int64s, Int64s]:
        """Return the chunks in which the rows `starts` begin and in which the rows `lasts` end."""
        first = np.searchsorted(self.first_rows[1:], starts, "right")
        last = first if lasts is starts else np.searchsorted(self.first_rows[1:], lasts, "right")
        if self.closing is not None and self.carries is not None:
            # The last row that starts in a chunk may end in a later chunk.
            is_open = lasts + 1 == self.first_rows[last + 1]
            is_open &= np.append(self.carries, False)[last + 1]
            if is_open.any():
                ends = self.closing[np.searchsorted(self.closing, last + 1) % len(self.closing)]
                last = np.where(is_open, ends, last)
        return first, last


class ChunkRuns(NamedTuple):
    """Selected chunks of a page, as r runs of adjacent chunks in ascending order."""

    chunks: Chunks
    first: Int64s  # shape (r,): first chunk of each run
    last: Int64s  # shape (r,): last chunk of each run

    @property
    def bounds(self) -> tuple[Int64s, Int64s]:
        """Start and stop of each run in the buffer of chunks; both have shape (r,)."""
        return self.chunks.first_bytes[self.first], self.chunks.first_bytes[self.last + 1]

    @property
    def spans(self) -> Spans:
        """Byte range of each run."""
        starts, stops = self.bounds
        return list(zip(starts.tolist(), stops.tolist(), strict=True))

    @property
    def numbers(self) -> Int64s:
        """Numbers of all chunks in the runs."""
        if len(self.first) == 1:
            return np.arange(int(self.first[0]), int(self.last[0]) + 1)
        return positions_of(self.first, self.last - self.first + 1)

    def places(self) -> tuple[Int64s, Int64s, Int64s]:
        """Return for each chunk: number of values, offset in the bytes of all runs, and size."""
        values, places = self.chunks.first_values, self.chunks.first_bytes
        if len(self.first) == 1:
            part = slice(int(self.first[0]), int(self.last[0]) + 2)
            values, places = values[part], places[part]
            return values[1:] - values[:-1], places[:-1] - places[0], places[1:] - places[:-1]
        numbers = self.numbers
        sizes = places[numbers + 1] - places[numbers]
        return values[numbers + 1] - values[numbers], np.cumsum(sizes) - sizes, sizes

    @property
    def ends(self) -> Int64s:
        """Number of chunks up to the end of each run; shape (r,)."""
        ends: Int64s = np.cumsum(self.last - self.first + 1)
        return ends

    @property
    def num_rows(self) -> int:
        """Number of rows that start in these chunks."""
        first_rows = self.chunks.first_rows
        return int((first_rows[self.last + 1] - first_rows[self.first]).sum())

    def ordinals(self, rows: Int64s) -> Int64s:
        """Convert row offsets in the page to numbers among the rows that start in these chunks."""
        first_rows = self.chunks.first_rows
        counts = first_rows[self.last + 1] - first_rows[self.first]
        before = np.cumsum(counts) - counts
        runs = np.searchsorted(first_rows[self.first], rows, "right") - 1
        ordinals: Int64s = rows - first_rows[self.first][runs] + before[runs]
        return ordinals
