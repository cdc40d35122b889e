"""Where the chunks of a mini-block page lie, and which of them hold which rows.

    chunk word, u16 or u32    (bytes / 8 - 1) << 4 | log2(values); the last chunk has 0 in the low
                              bits (or its true logarithm) and holds the values that are left
    repetition index, u64     a pair a chunk: rows whose last entry lies in it, and its entries
                              that belong to a row which goes on in the next chunk

Without lists rows are values. With lists a chunk may begin inside a row; the entries before its
first row are called its preamble.

Source: encodings_v2_1.proto, MiniBlockLayout; docs/format/file.md, "Mini-block layout".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from alance.format.numbers import positions_of

if TYPE_CHECKING:
    from alance import _kernels
    from alance.arrays import Int64s, Mask
    from alance.format.layouts.place import Spans

CHUNKS: Final = 1  # the buffer that holds the chunks
MAX_CHUNK_VALUES: Final = 32768


class Chunks(NamedTuple):
    """All chunks of a page; n of them."""

    first_bytes: Int64s  # shape (n + 1,): where each chunk begins in its buffer, and the end
    first_values: Int64s  # shape (n + 1,): values before each chunk, and all
    first_rows: Int64s  # shape (n + 1,): rows that begin before each chunk, and all
    carries: Mask | None  # shape (n,): begins inside a row; None: no lists
    closing: Int64s | None  # chunks in which the row that is open at their start ends; None: all

    @classmethod
    def of(cls, table: _kernels.ChunkTable) -> Chunks:
        """The chunks of a page's table."""
        first_rows, carried = table.first_rows, table.carries
        carries = closing = None
        if carried is not None:
            carries = carried.view(np.bool_)
            is_open = np.append(carries[1:], False)  # at the end of each
            if is_open.any():
                closing = np.flatnonzero(~is_open | (np.diff(first_rows) != 0))
        return cls(table.first_bytes, table.first_values, first_rows, carries, closing)

    @property
    def num_chunks(self) -> int:
        return len(self.first_bytes) - 1

    def locate(self, rows: Int64s) -> ChunkRuns:
        """The chunks that hold rows, in runs of neighbours.

        Args:
            rows: sorted and unique, shape (m,), all in the page.
        """
        if len(rows) == 0:
            return ChunkRuns(self, *np.empty((2, 0), np.int64))
        first, last = self._first_and_last(rows, rows)
        begins = np.flatnonzero(np.concatenate([[True], first[1:] > last[:-1] + 1]))
        return ChunkRuns(self, first[begins], last[np.append(begins[1:], len(rows)) - 1])

    def locate_range(self, start: int, stop: int) -> ChunkRuns:
        """The chunks that hold the rows from `start` to `stop`: one run, or none if no rows."""
        if start >= stop:
            return ChunkRuns(self, *np.empty((2, 0), np.int64))
        ends = np.array([start, stop - 1])
        first, last = self._first_and_last(ends[:1], ends[1:])
        return ChunkRuns(self, first, last)

    def all(self) -> ChunkRuns:
        """All chunks as one run."""
        if self.num_chunks == 0:
            return ChunkRuns(self, *np.empty((2, 0), np.int64))
        return ChunkRuns(self, np.array([0]), np.array([self.num_chunks - 1]))

    def _first_and_last(self, starts: Int64s, lasts: Int64s) -> tuple[Int64s, Int64s]:
        """Chunks where the rows `starts` begin, and where the rows `lasts` end."""
        first = np.searchsorted(self.first_rows[1:], starts, "right")
        last = first if lasts is starts else np.searchsorted(self.first_rows[1:], lasts, "right")
        if self.closing is not None and self.carries is not None:
            # The last row that begins in a chunk may go on in the next ones.
            is_open = lasts + 1 == self.first_rows[last + 1]
            is_open &= np.append(self.carries, False)[last + 1]
            if is_open.any():
                ends = self.closing[np.searchsorted(self.closing, last + 1) % len(self.closing)]
                last = np.where(is_open, ends, last)
        return first, last


class ChunkRuns(NamedTuple):
    """Some chunks of a page, as runs of neighbours in ascending order; r of them."""

    chunks: Chunks
    first: Int64s  # shape (r,): first chunk of each run
    last: Int64s  # shape (r,): its last chunk

    @property
    def bounds(self) -> tuple[Int64s, Int64s]:
        """First byte of each run and the one behind its last, shape (r,) each."""
        return self.chunks.first_bytes[self.first], self.chunks.first_bytes[self.last + 1]

    @property
    def spans(self) -> Spans:
        """The byte range of each run."""
        starts, stops = self.bounds
        return list(zip(starts.tolist(), stops.tolist(), strict=True))

    @property
    def numbers(self) -> Int64s:
        """The numbers of all chunks of all runs."""
        if len(self.first) == 1:
            return np.arange(int(self.first[0]), int(self.last[0]) + 1)
        return positions_of(self.first, self.last - self.first + 1)

    def places(self) -> tuple[Int64s, Int64s, Int64s]:
        """Values of each chunk, where it begins in the bytes of all runs, and its bytes."""
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
        """How many chunks there are up to the end of each run, shape (r,)."""
        ends: Int64s = np.cumsum(self.last - self.first + 1)
        return ends

    @property
    def num_rows(self) -> int:
        """How many rows begin in these chunks."""
        first_rows = self.chunks.first_rows
        return int((first_rows[self.last + 1] - first_rows[self.first]).sum())

    def ordinals(self, rows: Int64s) -> Int64s:
        """The numbers of rows, counted by the rows that begin in these chunks."""
        first_rows = self.chunks.first_rows
        counts = first_rows[self.last + 1] - first_rows[self.first]
        before = np.cumsum(counts) - counts
        runs = np.searchsorted(first_rows[self.first], rows, "right") - 1
        ordinals: Int64s = rows - first_rows[self.first][runs] + before[runs]
        return ordinals
