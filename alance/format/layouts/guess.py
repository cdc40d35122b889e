"""Where the rows of a page probably lie, so that a cold take needs one round instead of two.

Rows of a page are nearly equally spread over its bytes: a chunk of raw values is as long as every
other, bit-packed and text chunks nearly so. A guess reads a margin on both sides; where it misses,
the missing bytes are asked for in a second round.

The place of a row is a sum of the lengths of the rows before it, less the share that falls to them
of the page. If lengths vary by chance, with a deviation of c times their mean m, the place of the
row at the fraction p of a page of B bytes deviates by c * sqrt(B * m * p * (1 - p)) from the guess.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from alance.format.layouts.place import fetch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.arrays import Int64s
    from alance.format.layouts.place import PagePlace, Spans
    from alance.format.plans import Plan

# A page up to this size is read whole: at 100 MB/s that takes 2.5 ms, a round 30 ms.
MAX_WHOLE_BYTES: Final = 256 << 10
# Two chunks of the usual size, 8 KiB, on both sides: the one that holds the row, and one more.
MARGIN_BYTES: Final = 16 << 10
# More guessed bytes than this cost about as much as the round that they save.
MAX_GUESS_BYTES: Final = 1 << 20


def guess_spans(
    rows: Int64s,
    num_rows: int,
    num_bytes: int,
    *,
    margin: float = MARGIN_BYTES,
    spread: float = 1.0,
) -> Spans:
    """Byte ranges that probably hold the rows: ascending, apart from each other.

    None if they would be too many bytes, or if rows are so long that a guess hardly ever holds.

    Args:
        rows: sorted, shape (n,).
        num_rows: rows of the page.
        num_bytes: bytes that they are spread over.
        margin: bytes read on both sides, whatever the row's number.
        spread: c, of which lengths that are spread evenly from 0 have 0.58.
    """
    if len(rows) == 0 or num_bytes == 0:
        return []
    bytes_per_row = num_bytes / num_rows
    if bytes_per_row > MARGIN_BYTES:
        return []
    fractions = rows / num_rows
    drift = spread * np.sqrt(num_bytes * bytes_per_row * fractions * (1 - fractions))
    margins = margin + drift
    starts = np.maximum(rows * bytes_per_row - margins, 0).astype(np.int64)
    stops = np.minimum((rows + 1) * bytes_per_row + margins, num_bytes).astype(np.int64)
    first = np.flatnonzero(np.concatenate([[True], starts[1:] > stops[:-1]]))
    last = np.concatenate([first[1:], [len(rows)]]) - 1
    spans = list(zip(starts[first].tolist(), stops[last].tolist(), strict=True))
    return spans if sum(stop - start for start, stop in spans) <= MAX_GUESS_BYTES else []


def fetch_missing(
    place: PagePlace, buffer: int, asked: Spans, spans: Spans, read: Sequence[memoryview]
) -> Plan[list[memoryview]]:
    """Bytes of a buffer, out of what was read of it already: no round if that holds them all.

    Args:
        asked: the byte ranges to return, in order.
        spans: what was read: ascending, apart from each other.
        read: the bytes of `spans`.
    """
    starts = [start for start, _ in spans]
    owners = np.searchsorted(starts, [start for start, _ in asked], "right") - 1
    here = [
        owner >= 0 and stop <= spans[owner][1]
        for owner, (_, stop) in zip(owners.tolist(), asked, strict=True)
    ]
    missing = [
        place.part(buffer, *span) for span, is_here in zip(asked, here, strict=True) if not is_here
    ]
    fetched = iter((yield from fetch(missing)))
    return [
        read[owner][start - starts[owner] : stop - starts[owner]] if is_here else next(fetched)
        for owner, (start, stop), is_here in zip(owners.tolist(), asked, here, strict=True)
    ]
