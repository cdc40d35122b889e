"""Where a page lies in its file, and how its buffers are asked for."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from alance.errors import AlanceError, CorruptFileError
from alance.format.plans import ByteRange

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from alance.format.blocks import Bytes
    from alance.format.plans import Plan

Spans: TypeAlias = "Sequence[tuple[int, int]]"  # half-open byte ranges of one buffer, ascending


@dataclass(frozen=True, slots=True)
class PagePlace:
    """The buffers of a page in its file, and how many rows they hold."""

    path: str
    buffers: tuple[tuple[int, int], ...]  # (absolute offset, size) each
    num_rows: int

    @property
    def num_bytes(self) -> int:
        return sum(size for _, size in self.buffers)

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


def fetch(ranges: Sequence[ByteRange]) -> Plan[list[memoryview]]:
    """Ask for ranges in one round; empty ones are answered without asking."""
    wanted = [one for one in ranges if one.num_bytes]
    fetched = iter((yield wanted) if wanted else ())
    buffers = [next(fetched) if one.num_bytes else memoryview(b"") for one in ranges]
    for one, buffer in zip(ranges, buffers, strict=True):
        if len(buffer) != one.num_bytes:
            raise CorruptFileError(
                f"{len(buffer)} bytes of {one.path} from {one.start}, expected {one.num_bytes}"
            )
    return buffers


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


def levels_view(data: Bytes) -> npt.NDArray[np.uint16]:
    """Bytes as u16 levels: a view where they are aligned, else a copy."""
    levels = data.view("<u2")
    return levels if levels.flags.aligned else levels.copy()
