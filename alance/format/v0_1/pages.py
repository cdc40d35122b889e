"""Positions of the rows of a 0.1 field, which has one page per batch.

Rows are numbered over all batches, and items of lists are numbered over the item pages of all
batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.format.layouts.place import PagePlace, fetch, fetch_pieces
from alance.format.numbers import offsets_of, positions_of
from alance.format.v2_0.base import BitPiece, Spans, fetch_bits

if TYPE_CHECKING:
    from alance.base.arrays import Int64s
    from alance.format.plans import Plan
    from alance.format.v0_1.metadata import PageRun


@dataclass(frozen=True, slots=True)
class PageParts:
    """Ascending ranges of rows, each within one batch."""

    batches: Int64s  # shape (n,)
    starts: Int64s  # shape (n,): first rows, relative to the batch
    counts: Int64s  # shape (n,): numbers of rows, all positive

    @property
    def num_rows(self) -> int:
        return int(self.counts.sum())


@dataclass(frozen=True, slots=True)
class Pages:
    """Pages of a field, with their numbers of rows.

    Attributes:
        place: location of the pages, which is the whole file.
        first_rows: first row of each page, then the number of rows; shape (batches + 1,).
        positions: start of each page; for strings, start of its offsets.
    """

    place: PagePlace
    first_rows: Int64s
    positions: Int64s

    @classmethod
    def of(
        cls, path: str, file_bytes: int, run: PageRun, num_rows: Int64s, bits: int, extra: int
    ) -> Pages:
        """Build the pages of a field from its entries in the page table."""
        # This does not overflow: there are less than 2^40 entries, and vectors have less than 2^31
        # items.
        ends = run.positions + np.minimum((num_rows + extra) * (bits / 8), 2.0**62)
        if (ends > file_bytes).any():
            batch = int(np.argmax(ends > file_bytes))
            raise CorruptFileError(
                f"{path}: {num_rows[batch]} rows at {run.positions[batch]} in batch {batch}, "
                f"{bits} bits each, in a file of {file_bytes} bytes"
            )
        place = PagePlace(path, ((0, file_bytes),), int(num_rows.sum()))
        return cls(place, offsets_of(num_rows), run.positions)

    def parts(self, spans: Spans) -> PageParts:
        """Split spans of rows at the ends of batches."""
        starts, stops, first_rows = spans.starts, spans.stops, self.first_rows
        if not len(starts):
            return PageParts(starts, starts, starts)
        if stops[-1] > first_rows[-1]:
            raise self.place.corrupt(f"row {stops[-1] - 1} of a field of {first_rows[-1]} rows")
        if len(starts) == 1:  # the usual case of takes, without the arrays of the general case
            batch = int(first_rows.searchsorted(starts[0], "right")) - 1
            if stops[0] <= first_rows[batch + 1]:
                return PageParts(np.array([batch]), starts - first_rows[batch], stops - starts)
        batches = np.searchsorted(first_rows, starts, "right") - 1
        last = np.searchsorted(first_rows, stops, "left") - 1
        counts = last - batches + 1
        if (counts > 1).any():
            batches = positions_of(batches, counts)
            starts = np.maximum(np.repeat(starts, counts), first_rows[batches])
            stops = np.minimum(np.repeat(stops, counts), first_rows[batches + 1])
            has_rows = stops > starts
            if not has_rows.all():
                batches, starts, stops = batches[has_rows], starts[has_rows], stops[has_rows]
        return PageParts(batches, starts - first_rows[batches], stops - starts)

    def fetch(self, parts: PageParts, width: int, extra: int = 0) -> Plan[memoryview]:
        """Plan entries of `width` bytes in one round, with `extra` more entries after each part."""
        starts = self.positions[parts.batches] + parts.starts * width
        return (yield from fetch_range(self.place, starts, starts + (parts.counts + extra) * width))

    def fetch_bits(self, parts: PageParts, per_row: int) -> Plan[BitPiece]:
        """Plan `per_row` bits per row, in one round."""
        starts = self.positions[parts.batches] * 8 + parts.starts * per_row
        stops = starts + parts.counts * per_row
        if len(starts) > 1 and not (starts % 8).any() and not (stops[:-1] % 8).any():
            # Each part has whole bytes, so their concatenated bits have no gaps.
            content = yield from fetch_range(self.place, starts // 8, (stops + 7) // 8)
            return BitPiece(content, 0, None, int((stops - starts).sum()))
        return (yield from fetch_bits(self.place, 0, Spans.of(starts, stops)))


def fetch_range(place: PagePlace, starts: Int64s, stops: Int64s) -> Plan[memoryview]:
    """Plan ranges of the file in one round; merge adjacent ranges, and skip empty ones."""
    if len(starts) == 1:
        (content,) = yield from fetch([place.part(0, int(starts[0]), int(stops[0]))])
        return content
    spans = Spans.of(starts, stops)
    return (yield from fetch_pieces(place, 0, spans.starts, spans.stops))
