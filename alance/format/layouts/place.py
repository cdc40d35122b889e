"""Location of a page in its file, and plans for its buffers."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import numpy as np

from alance.base.records import dataclass
from alance.errors import AlanceError, CorruptFileError
from alance.format.plans import ByteRange, Pieces

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alance.base.arrays import Bytes, Int64s
    from alance.format.plans import Plan

# Type URL in files of version 2.3, see `planar`.
PLANAR_LAYOUT: Final = "/lance.encodings23.PlanarLayout"


@dataclass(frozen=True, slots=True)
class PagePlace:
    """Buffers of a page in its file, and its number of rows."""

    path: str
    buffers: tuple[tuple[int, int], ...]  # (absolute offset, size) of each buffer
    num_rows: int

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
        """Return the file range of some bytes of a buffer."""
        offset, size = self.buffers[buffer]
        if not 0 <= start <= stop <= size:
            raise self.corrupt(f"bytes {start} to {stop} of buffer {buffer}, which has {size}")
        return ByteRange(self.path, offset + start, offset + stop)

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

    def corrupt(self, what: str) -> CorruptFileError:
        """Build an error that names the page and says what is wrong."""
        where = f"page at byte {self.buffers[0][0]}" if self.buffers else "page without buffers"
        return CorruptFileError(f"{where} of {self.path}: {what}")


def fetch(ranges: Sequence[ByteRange]) -> Plan[list[memoryview]]:
    """Plan ranges in one round; no round if all are empty."""
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


def unpinned(piece: memoryview) -> Bytes:
    """Return the bytes of a piece: a view, or a copy if a view would keep far more bytes in memory.

    A piece can be a small part of the response to a large request.
    """
    data = np.frombuffer(piece, np.uint8)
    return data.copy() if memoryview(piece.obj).nbytes > 4 * len(piece) else data
