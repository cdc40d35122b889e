"""Where a page lies in its file, how its buffers are asked for, and where its rows probably lie.

A guess makes one round of a cold take instead of two. Rows of a page are nearly equally spread over
its bytes: a chunk of raw values is as long as every other, bit-packed and text chunks nearly so. A
guess reads a margin on both sides; where it misses, the missing bytes are asked for in a second
round.

The place of a row is a sum of the lengths of the rows before it, less the share that falls to them
of the page. If lengths vary by chance, with a deviation of c times their mean m, the place of the
row at the fraction p of a page of B bytes deviates by c * sqrt(B * m * p * (1 - p)) from the guess.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from alance.errors import AlanceError, CorruptFileError
from alance.format.coalesce import coalesce
from alance.format.plans import ByteRange, Pieces
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alance.arrays import Bytes, Int64s, UInt16s
    from alance.format.plans import Plan

# A page up to this size is read whole: at 100 MB/s that takes 2.5 ms, a round 30 ms.
MAX_WHOLE_BYTES: Final = 256 << 10
# Two chunks of the usual size, 8 KiB, on both sides: the one that holds the row, and one more.
MARGIN_BYTES: Final = 16 << 10
# More guessed bytes than this cost about as much as the round that they save.
MAX_GUESS_BYTES: Final = 1 << 20

Spans: TypeAlias = "Sequence[tuple[int, int]]"  # half-open byte ranges of one buffer, ascending
PLANAR_LAYOUT: Final = "/lance.encodings23.PlanarLayout"  # of 2.3, see `planar`


class Place(ABC):
    """Where a page is, for errors."""

    __slots__ = ()

    @abstractmethod
    def corrupt(self, what: str) -> CorruptFileError:
        """The error that says what is wrong, and in which page."""

    @contextmanager
    def checking(self) -> Iterator[None]:
        """Add the place to what the kernels and codecs inside find wrong."""
        try:
            yield
        except AlanceError as error:
            error.add_note(str(self.corrupt("while its values were decoded")))
            raise
        except ValueError as error:
            raise self.corrupt(str(error)) from error


@dataclass(frozen=True, slots=True)
class PagePlace(Place):
    """The buffers of a page in its file, and how many rows they hold."""

    path: str
    buffers: tuple[tuple[int, int], ...]  # (absolute offset, size) each
    num_rows: int

    @property
    def num_bytes(self) -> int:
        return sum(size for _, size in self.buffers)

    @property
    def start(self) -> int:
        """Byte of the file at which the page begins."""
        return self.buffers[0][0] if self.buffers else 0

    def size(self, buffer: int) -> int:
        return self.buffers[buffer][1]

    def whole(self, buffer: int) -> ByteRange:
        offset, size = self.buffers[buffer]
        return ByteRange(self.path, offset, offset + size)

    def part(self, buffer: int, start: int, stop: int) -> ByteRange:
        """Bytes of a buffer.

        Raises:
            CorruptFileError: they are not all inside of it.
        """
        offset, size = self.buffers[buffer]
        if not 0 <= start <= stop <= size:
            raise self.corrupt(f"bytes {start} to {stop} of buffer {buffer}, which has {size}")
        return ByteRange(self.path, offset + start, offset + stop)

    def need_buffers(self, count: int, what: str) -> None:
        """Check that there are enough buffers; surplus ones are ignored.

        Raises:
            CorruptFileError: there are fewer.
        """
        if len(self.buffers) < count:
            raise self.corrupt(f"{what} needs {count} buffers, the page has {len(self.buffers)}")

    def corrupt(self, what: str) -> CorruptFileError:
        """The error that says what is wrong, and in which page."""
        where = f"page at byte {self.buffers[0][0]}" if self.buffers else "page without buffers"
        return CorruptFileError(f"{where} of {self.path}: {what}")


def fetch(ranges: Sequence[ByteRange]) -> Plan[list[memoryview]]:
    """Ask for ranges in one round; empty ones are answered without asking."""
    filled = [extent for extent in ranges if extent.num_bytes]
    fetched = iter((yield filled) if filled else ())
    buffers = [next(fetched) if extent.num_bytes else memoryview(b"") for extent in ranges]
    for extent, buffer in zip(ranges, buffers, strict=True):
        if len(buffer) != extent.num_bytes:
            raise CorruptFileError(
                f"{len(buffer)} bytes of {extent.path} from {extent.start}, "
                f"expected {extent.num_bytes}"
            )
    return buffers


def fetch_pieces(place: PagePlace, buffer: int, starts: Int64s, stops: Int64s) -> Plan[memoryview]:
    """Ask for pieces of a buffer in one round; the answer has them one behind the other.

    Args:
        starts: shape (n,), ascending; no two pieces overlap.
        stops: shape (n,), exclusive.

    Raises:
        CorruptFileError: a piece that is not inside of the buffer.
    """
    offset, size = place.buffers[buffer]
    if len(starts) == 0:
        return memoryview(b"")
    if len(starts) == 1:
        (content,) = yield from fetch([place.part(buffer, int(starts[0]), int(stops[0]))])
        return content
    bad = (starts < 0) | (stops < starts) | (stops > size)
    bad[1:] |= starts[1:] < stops[:-1]
    if bad.any():
        number = int(np.argmax(bad))
        raise place.corrupt(
            f"bytes {starts[number]} to {stops[number]} of buffer {buffer}, which has {size}"
        )
    pieces = Pieces.of(place.path, starts + offset, stops + offset)
    (content,) = yield [pieces]
    if len(content) != pieces.num_bytes:
        raise CorruptFileError(
            f"{len(content)} bytes in {len(starts)} pieces of {place.path}, "
            f"expected {pieces.num_bytes}"
        )
    return content


def joined(pieces: Sequence[memoryview]) -> Bytes:
    """The bytes of all pieces; a view if there is one, else a copy."""
    content = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    return np.frombuffer(content, np.uint8)


def unpinned(piece: memoryview) -> Bytes:
    """The bytes of a piece: a view, or a copy if the view would keep far more bytes alive.

    A piece may be a small part of one request that served many.
    """
    data = np.frombuffer(piece, np.uint8)
    return data.copy() if memoryview(piece.obj).nbytes > 4 * len(piece) else data


def levels_view(data: Bytes) -> UInt16s:
    """Bytes as u16 levels: a view where they are aligned, else a copy."""
    levels = data.view("<u2")
    return levels if levels.flags.aligned else levels.copy()


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
    spans = coalesce(np.array((starts, stops)).T, 0).spans
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
