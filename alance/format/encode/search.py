"""Buffers of pages that are kept back until the file's end, for its search-cache buffer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from alance.format.search_buffer import table_of

if TYPE_CHECKING:
    from alance.format.blocks import Bytes
    from alance.format.encode.base import EncodedPage
    from alance.format.proto import file2_pb2

SEARCH_BYTES: Final = 1 << 20  # kept back at most, of one file
PAGE_BYTES: Final = 32 << 10  # of one page; a larger repetition index stays with its page


@dataclass(frozen=True, slots=True)
class _Kept:
    """Buffers of a page: their numbers in it and their bytes."""

    page: file2_pb2.ColumnMetadata.Page
    buffers: tuple[tuple[int, Bytes], ...]
    num_bytes: int


@dataclass(slots=True)
class SearchEntries:
    """What a file's search-cache buffer will hold.

    Args:
        limit: bytes kept back at most; 0: the file gets no such buffer.
    """

    limit: int = SEARCH_BYTES
    num_bytes: int = 0
    _kept: list[_Kept] = field(default_factory=list)

    def wants(self, page: EncodedPage) -> tuple[int, ...]:
        """The numbers of the page's buffers to keep back: all that readers need first, or none."""
        num_bytes = sum(len(page.buffers[number]) for number in page.search)
        if num_bytes > PAGE_BYTES or self.num_bytes + num_bytes > self.limit:
            return ()
        return tuple(number for number in page.search if len(page.buffers[number]))

    def keep(
        self,
        message: file2_pb2.ColumnMetadata.Page,
        page: EncodedPage,
        numbers: tuple[int, ...],
    ) -> None:
        """Keep buffers back; the page's message learns their places by `place`."""
        buffers = tuple((number, page.buffers[number]) for number in numbers)
        num_bytes = sum(len(content) for _, content in buffers)
        if buffers:
            self.num_bytes += num_bytes
            self._kept.append(_Kept(message, buffers, num_bytes))

    def place(self, start: int, alignment: int) -> list[tuple[int, Bytes]]:
        """Give each buffer a place from `start` on; gives (offset, content) and the table, last.

        Small pages come last: as many pages as can be lie within a read of the file's end.
        """
        placed: list[tuple[int, Bytes]] = []
        for kept in sorted(self._kept, key=lambda one: -one.num_bytes):
            for number, content in kept.buffers:
                kept.page.buffer_offsets[number] = start
                placed.append((start, content))
                start += len(content) + -len(content) % alignment
        if not placed:
            return []
        return [*placed, (start, table_of(placed))]
