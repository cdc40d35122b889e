"""Location of a page in its file, plans for its buffers, and guesses of the positions of rows.

With a guess, a cold take needs one round instead of two. The rows of a page are spread over its
bytes almost evenly: chunks of raw values have equal sizes, bit-packed chunks and text chunks nearly
so. A guess includes a margin on both sides. If it misses, a second round reads the missing bytes.

The offset of a row is the sum of the lengths of the rows before it. If lengths vary at random, with
a standard deviation of c times their mean m, the offset of the row at the fraction p of a page of B
bytes deviates by c * sqrt(B * m * p * (1 - p)) from p * B.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from alance.base.records import dataclass
from alance.errors import AlanceError, CorruptFileError
from alance.format.coalesce import coalesce
from alance.format.plans import ByteRange, Pieces

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alance.base.arrays import Bytes, Int64s, UInt16s
    from alance.format.plans import Plan

# Bytes; a page up to this size is read completely: at 100 MB/s that takes 2.5 ms, a round takes 30
# ms.
MAX_WHOLE_PAGE_BYTES: Final = 256 << 10
# Bytes on each side of a row: two chunks of the usual 8 KiB, the chunk of the row and one more.
MARGIN_BYTES: Final = 16 << 10
# Bytes; reading more than this takes about as long as the round that the guess saves.
MAX_GUESS_BYTES: Final = 1 << 20

Spans: TypeAlias = "Sequence[tuple[int, int]]"  # half-open byte ranges of one buffer, ascending
# Type URL in files of version 2.3, see `planar`.
PLANAR_LAYOUT: Final = "/lance.encodings23.PlanarLayout"


class ReportedPlace(ABC):
    """Location of a page, for error messages."""

    __slots__ = ()

    @abstractmethod
    def corrupt(self, what: str) -> CorruptFileError:
        """Build an error that names the page and says what is wrong."""

    @contextmanager
    def checking(self) -> Iterator[None]:
        """Add the page's location to errors of kernels and codecs.

        `ValueError` becomes `corrupt`.
        """
        try:
            yield
        except AlanceError as error:
            error.add_note(str(self.corrupt("while its values were decoded")))
            raise
        except ValueError as error:
            raise self.corrupt(str(error)) from error


@dataclass(frozen=True, slots=True)
class PagePlace(ReportedPlace):
    """Buffers of a page in its file, and its number of rows."""

    path: str
    buffers: tuple[tuple[int, int], ...]  # (absolute offset, size) of each buffer
    num_rows: int

    @property
    def num_bytes(self) -> int:
        return sum(size for _, size in self.buffers)

    @property
    def start(self) -> int:
        """File offset of the page's first buffer; 0 if the page has no buffers."""
        return self.buffers[0][0] if self.buffers else 0

    def size(self, buffer: int) -> int:
        return self.buffers[buffer][1]

    def whole(self, buffer: int) -> ByteRange:
        offset, size = self.buffers[buffer]
        return ByteRange(self.path, offset, offset + size)

    def part(self, buffer: int, start: int, stop: int) -> ByteRange:
        """Return the file range of some bytes of a buffer.

        Raises:
            CorruptFileError: the bytes are not inside the buffer.
        """
        offset, size = self.buffers[buffer]
        if not 0 <= start <= stop <= size:
            raise self.corrupt(f"bytes {start} to {stop} of buffer {buffer}, which has {size}")
        return ByteRange(self.path, offset + start, offset + stop)

    def need_buffers(self, count: int, what: str) -> None:
        """Check that the page has at least `count` buffers.

        Raises:
            CorruptFileError: the page has fewer buffers.
        """
        if len(self.buffers) < count:
            raise self.corrupt(f"{what} needs {count} buffers, the page has {len(self.buffers)}")

    def corrupt(self, what: str) -> CorruptFileError:
        """Build an error that names the page and says what is wrong."""
        where = f"page at byte {self.buffers[0][0]}" if self.buffers else "page without buffers"
        return CorruptFileError(f"{where} of {self.path}: {what}")


def fetch(ranges: Sequence[ByteRange]) -> Plan[list[memoryview]]:
    """Plan ranges in one round; no round if all are empty.

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
    """Plan pieces of a buffer in one round. The result is their concatenation.

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
    """Return the bytes of a piece: a view, or a copy if a view would keep far more bytes in memory.

    A piece can be a small part of the response to a large request.
    """
    data = np.frombuffer(piece, np.uint8)
    return data.copy() if memoryview(piece.obj).nbytes > 4 * len(piece) else data


def levels_view(data: Bytes) -> UInt16s:
    """View bytes as u16 levels; a copy if the bytes are not aligned."""
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
    """Return the byte ranges that probably contain rows: ascending and disjoint.

    Returns no ranges if these would have too many bytes, or if rows are too long for a good guess.

    Args:
        rows: sorted, shape (n,).
        num_rows: rows of the page.
        num_bytes: bytes over which the page's rows are spread.
        margin: bytes to read on each side of a row, in addition to the expected deviation.
        spread: standard deviation of row lengths, relative to their mean: c in the module's
            docstring. It is 0.58 for lengths that are uniformly distributed from 0.
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
    """Plan byte ranges of a buffer, some of which have been read: no round if all have, else one.

    Args:
        needed: byte ranges to return, in order.
        spans: byte ranges that have been read, ascending and disjoint.
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
