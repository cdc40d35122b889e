"""Location of a page in its file, and plans for its buffers."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from alance.base.records import dataclass
from alance.errors import AlanceError, CorruptFileError
from alance.format.plans import ByteRange

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alance.format.plans import Plan

# Type URL in files of version 2.3, see `planar`.
PLANAR_LAYOUT: Final = "/lance.encodings23.PlanarLayout"


@dataclass(frozen=True, slots=True)
class PagePlace:
    """Buffers of a page in its file, and its number of rows."""

    path: str
    buffers: tuple[tuple[int, int], ...]  # (absolute offset, size) of each buffer
    num_rows: int

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
