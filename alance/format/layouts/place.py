"""Places of pages in their file, requests for their buffers, and guesses where rows lie.

With a guess a cold take costs one round instead of two. The rows of a page are almost evenly spread
over its bytes: chunks of raw values are equally long, bit-packed and text chunks nearly so. A guess
reads a margin on both sides. If it misses, a second round reads the missing bytes.

The offset of a row is the sum of the lengths of the rows before it. If lengths vary at random, with
a standard deviation of c times their mean m, the offset of the row at the fraction p of a page of B
bytes deviates by c * sqrt(B * m * p * (1 - p)) from p * B.
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

# Bytes; a page up to this size is read whole: at 100 MB/s that takes 2.5 ms, a round 30 ms.
MAX_WHOLE_BYTES: Final = 256 << 10
# Bytes of two chunks of the usual 8 KiB on each side: the one that holds the row, and one more.
MARGIN_BYTES: Final = 16 << 10
# More guessed bytes than this cost about as much as the round that they save.
MAX_GUESS_BYTES: Final = 1 << 20

Spans: TypeAlias = "Sequence[tuple[int, int]]"  # half-open byte ranges of one buffer, ascending
PLANAR_LAYOUT: Final = "/lance.encodings23.PlanarLayout"  # file version 2.3, see `planar`


class Place(ABC):
    """Place of a page, for errors."""

    __slots__ = ()

    @abstractmethod
    def corrupt(self, what: str) -> CorruptFileError:
        """Return an error that names the page and its fault."""

    @contextmanager
    def checking(self) -> Iterator[None]:
        """Add the place to errors of kernels and codecs; a `ValueError` becomes `corrupt`."""
        try:
            yield
        except AlanceError as error:
            error.add_note(str(self.corrupt("while its values were decoded")))
            raise
        except ValueError as error:
            raise self.corrupt(str(error)) from error


@dataclass(frozen=True, slots=True)
class PagePlace(Place):
    """Buffers of a page in its file, and its number of rows."""

    path: str
    buffers: tuple[tuple[int, int], ...]  # (absolute offset, size) each
    num_rows: int

    @property
    def num_bytes(self) -> int:
        return sum(size for _, size in self.buffers)

    @property
    def start(self) -> int:
        """File offset of the page's first buffer; 0 if it has no buffers."""
        return self.buffers[0][0] if self.buffers else 0

    def size(self, buffer: int) -> int:
        return self.buffers[buffer][1]

    def whole(self, buffer: int) -> ByteRange:
        offset, size = self.buffers[buffer]
        return ByteRange(self.path, offset, offset + size)

    def part(self, buffer: int, start: int, stop: int) -> ByteRange:
        """Return the range of some bytes of a buffer.

        Raises:
            CorruptFileError: the bytes are not inside the buffer.
        """
        offset, size = self.buffers[buffer]
        if not 0 <= start <= stop <= size:
            raise self.corrupt(f"bytes {start} to {stop} of buffer {buffer}, which has {size}")
        return ByteRange(self.path, offset + start, offset + stop)

    def need_buffers(self, count: int, what: str) -> None:
        """Check that there are at least `count` buffers.

        Raises:
            CorruptFileError: there are fewer.
        """
        if len(self.buffers) < count:
            raise self.corrupt(f"{what} needs {count} buffers, the page has {len(self.buffers)}")

    def corrupt(self, what: str) -> CorruptFileError:
        """Return an error that names the page and its fault."""
        where = f"page at byte {self.buffers[0][0]}" if self.buffers else "page without buffers"
        return CorruptFileError(f"{where} of {self.path}: {what}")


def fetch(ranges: Sequence[ByteRange]) -> Plan[list[memoryview]]:
    """Plan some ranges: one round, or none if all are empty.

    Raises:
        CorruptFileError: the store returned fewer bytes.
    """
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
    """Plan pieces of a buffer: one round. The result is their concatenation.

    Args:
        starts: shape (n,), ascending; no two pieces overlap.
        stops: shape (n,), exclusive.

    Raises:
        CorruptFileError: a piece is not inside the buffer, or the store returned fewer bytes.
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
    """Concatenate pieces; a view if there is only one, else a copy."""
    content = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    return np.frombuffer(content, np.uint8)


def unpinned(piece: memoryview) -> Bytes:
    """Return the bytes of a piece: a view, or a copy if the view would keep far more bytes alive.

    A piece may be a small part of a request that served many pieces.
    """
    data = np.frombuffer(piece, np.uint8)
    return data.copy() if memoryview(piece.obj).nbytes > 4 * len(piece) else data


def levels_view(data: Bytes) -> UInt16s:
    """View bytes as u16 levels; a copy if they are not aligned."""
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
    """Return the byte ranges that probably hold some rows: ascending, apart from each other.

    Empty if the ranges would have too many bytes, or rows are so long that a guess seldom holds.

    Args:
        rows: sorted, shape (n,).
        num_rows: rows of the page.
        num_bytes: bytes over which the page's rows are spread.
        margin: bytes to read on each side of every row, beside the expected deviation.
        spread: deviation of row lengths relative to their mean, c in the module's docstring; 0.58
            for lengths that are evenly distributed from 0 on.
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
    place: PagePlace, buffer: int, needed: Spans, spans: Spans, read: Sequence[memoryview]
) -> Plan[list[memoryview]]:
    """Plan byte ranges of a buffer, some of which were read before: one round, or none if all.

    Args:
        needed: byte ranges to return, in order.
        spans: byte ranges that were read: ascending, apart from each other.
        read: bytes of `spans`.
    """
    starts = [start for start, _ in spans]
    owners = np.searchsorted(starts, [start for start, _ in needed], "right") - 1
    here = [
        owner >= 0 and stop <= spans[owner][1]
        for owner, (_, stop) in zip(owners.tolist(), needed, strict=True)
    ]
    missing = [
        place.part(buffer, *span) for span, is_here in zip(needed, here, strict=True) if not is_here
    ]
    fetched = iter((yield from fetch(missing)))
    return [
        read[owner][start - starts[owner] : stop - starts[owner]] if is_here else next(fetched)
        for owner, (start, stop), is_here in zip(owners.tolist(), needed, here, strict=True)
    ]
