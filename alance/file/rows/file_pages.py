"""Pages of columns of many files, and the bytes that they lie in.

Of tables of many small files a page costs more than its bytes. Here no page has a plan, a state or
an object of its own: pages are rows of arrays, and neighbouring pages of one kind are decoded as
one. Whole leaves of plain values are decoded by one call, see `joined_rows`.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.errors import AlanceError
from alance.format.layouts import MAX_SHARED_BYTES, mini_block, page_layout
from alance.format.layouts.miniblock_task import TOO_MANY, AlikePages, Joined, decode_together
from alance.format.plans import ByteRange, NotAtHand, answered, cut
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from alance.arrays import Int64s
    from alance.file_version import FileVersion
    from alance.format.field import Field
    from alance.format.layouts.base import PageValues
    from alance.format.layouts.miniblock import MiniBlockPage
    from alance.format.plans import Extent


class PageTables(NamedTuple):
    """Pages of columns of some files, column by column, of each file by file."""

    counts: Int64s  # pages of each (column, file)
    rows: Int64s  # of each page
    kinds: Int64s  # of each page: which of the descriptions is its
    ends: Int64s  # shape (pages + 1,): buffers before each page, and all
    starts: Int64s  # of each buffer: byte offset in its file
    sizes: Int64s
    encodings: list[bytes]  # descriptions of pages

    @property
    def bounds(self) -> Int64s:
        """Pages before each (column, file), and all."""
        bounds = np.zeros(len(self.counts) + 1, np.int64)
        np.cumsum(self.counts, out=bounds[1:])
        return bounds

    def places(self) -> tuple[Int64s, Int64s]:
        """Of each page the first byte of its buffers, and the one behind the last; 0, 0: none."""
        lows, highs = np.zeros((2, len(self.rows)), np.int64)
        has_buffers = np.diff(self.ends) > 0
        if has_buffers.any():
            first = self.ends[:-1][has_buffers]
            lows[has_buffers] = np.minimum.reduceat(self.starts, first)
            highs[has_buffers] = np.maximum.reduceat(self.starts + self.sizes, first)
        return lows, highs


class Content(NamedTuple):
    """Bytes of a file."""

    path: str
    version: FileVersion
    content: memoryview
    first: int = 0  # where they begin


class FilePages:
    """Pages of leaves in some files, and the bytes that they lie in.

    Args:
        kernel: the pages, leaf by leaf, of each file by file.
        numbers: of each page: which content has it.
    """

    def __init__(
        self, kernel: _kernels.FilePages, contents: Sequence[Content], numbers: Int64s
    ) -> None:
        self.kernel = kernel
        self.contents = contents
        self.numbers = numbers

    @cached_property
    def tables(self) -> PageTables:
        """The pages as arrays, for what the kernel does not decode."""
        return PageTables(*self.kernel.tables, self.kernel.encodings)

    def leaf(self, number: int, field: Field, columns: Sequence[int]) -> LeafPages:
        """The pages of a leaf.

        Args:
            columns: its number in each file.
        """
        counts = self.tables.counts
        before, files = number * len(columns), len(columns)
        first = int(counts[:before].sum())
        of_page = np.repeat(np.array(columns, np.int64), counts[before : before + files])
        return LeafPages(field, of_page, self, first, self.numbers[first : first + len(of_page)])

    def decode(self, page: int, content: Content) -> PageValues:
        """The rows of a page by itself.

        Raises:
            CorruptFileError, UnsupportedError: its description or its bytes.
        """
        tables = self.tables
        buffers = slice(tables.ends[page], tables.ends[page + 1])
        places = zip(tables.starts[buffers].tolist(), tables.sizes[buffers].tolist(), strict=True)
        layout = page_layout(
            tables.encodings[tables.kinds[page]],
            path=content.path,
            buffers=list(places),
            num_rows=int(tables.rows[page]),
            version=content.version,
        )
        task = answered(
            layout.read_page(),
            lambda ranges: [cut(span, content.content, content.first) for span in ranges],
        )
        return task.decode()

    def cut(self, extents: Sequence[Extent]) -> list[memoryview]:
        """Return the bytes of extents that lie in the contents.

        Raises:
            NotAtHand: bytes that no content has.
        """
        return [
            self._cut(extent)
            if isinstance(extent, ByteRange)
            else memoryview(b"".join(map(self._cut, extent.ranges())))
            for extent in extents
        ]

    @cached_property
    def _begins(self) -> list[tuple[str, int, int]]:
        """Path, first byte and number of each content, in order."""
        return sorted((path, first, at) for at, (path, _, _, first) in enumerate(self.contents))

    def _cut(self, extent: ByteRange) -> memoryview:
        place = bisect_left(self._begins, (extent.path, extent.start + 1)) - 1
        if place >= 0:
            path, first, number = self._begins[place]
            content = self.contents[number].content
            if path == extent.path and extent.stop <= first + len(content):
                return cut(extent, content, first)
        raise NotAtHand

    def gather(self, buffers: Int64s, contents: Int64s) -> Joined:
        """Buffers end to end, each of the content of a number."""
        firsts = np.array([content.first for content in self.contents], np.int64)
        starts, sizes = self.tables.starts[buffers], self.tables.sizes[buffers]
        views = [content.content for content in self.contents]
        inside = starts - firsts[contents]
        return Joined(_kernels.gather_spans(views, contents, inside, sizes), sizes)


@dataclass(frozen=True, slots=True)
class LeafPages:
    """All pages of a field in some files, in row order."""

    field: Field
    columns: Int64s  # of each page: the number of its column in its file
    pages: FilePages
    first: int  # the first of its pages
    contents: Int64s  # of each page: which content has it

    @property
    def num_bytes(self) -> int:
        """Encoded bytes to decode."""
        tables = self.pages.tables
        last = self.first + len(self.contents)
        return int(tables.sizes[tables.ends[self.first] : tables.ends[last]].sum())

    def decode_pages(self) -> list[PageValues]:
        """Return the rows of all pages; neighbouring pages of the same kind may share an entry.

        Raises:
            CorruptFileError: the bytes contradict the format.
        """
        tables = self.pages.tables
        kinds = tables.kinds[self.first : self.first + len(self.contents)]
        # Not `np.unique`: its first call in a process loads numpy.ma, 30 ms.
        layouts = {
            number: _described(tables.encodings[number]) for number in sorted({*kinds.tolist()})
        }
        names = [None if layout is None else layout.said.kind for layout in layouts.values()]
        numbers = {name: number for number, name in enumerate(names)}
        alike = dict(zip(layouts, (numbers[name] for name in names), strict=True))
        kind_of_page = np.array([alike[kind] for kind in kinds.tolist()], np.int64)
        changes = np.flatnonzero(kind_of_page[1:] != kind_of_page[:-1]) + 1
        decoded: list[PageValues] = []
        for start, stop in pairwise([0, *changes.tolist(), len(kinds)]):
            joined = self._joined(start, stop, layouts)
            decoded += self._one_by_one(start, stop) if joined is None else [joined]
        return decoded

    def _joined(
        self, start: int, stop: int, layouts: Mapping[int, MiniBlockPage | None]
    ) -> PageValues | None:
        """Neighbouring pages of one kind decoded as one; None: they must be decoded one by one."""
        tables, pages = self.pages.tables, slice(self.first + start, self.first + stop)
        if stop - start < 2 or pa.types.is_dictionary(self.field.arrow_type):
            return None
        kinds = tables.kinds[pages]
        first = layouts[int(kinds[0])]
        if first is None:
            return None
        firsts = tables.ends[pages]
        counts = tables.ends[self.first + start + 1 : self.first + stop + 1] - firsts
        if counts.min() < first.said.num_buffers:
            return None
        contents = self.contents[start:stop]

        def numbers(name: str) -> Int64s:
            values = np.zeros(len(tables.encodings), np.int64)
            for kind, layout in layouts.items():
                if layout is not None:
                    values[kind] = min(getattr(layout.said, name), TOO_MANY)
            return values[kinds]

        items, dictionary_items = numbers("num_items"), numbers("num_dictionary_items")
        rows = tables.rows[pages]
        return decode_together(
            AlikePages(
                first,
                rows,
                items,
                dictionary_items,
                lambda number: self.pages.gather(firsts + number, contents),
            )
        )

    def _one_by_one(self, start: int, stop: int) -> Iterator[PageValues]:
        for number in range(start, stop):
            content = self.pages.contents[self.contents[number]]
            try:
                yield self.pages.decode(self.first + number, content)
            except AlanceError as error:
                before = self.contents[:number].tolist()
                place = sum(self.pages.contents[other].path == content.path for other in before)
                column = self.columns[number]
                error.add_note(f"in page {place} of column {column} of {content.path}")
                raise


def _described(encoding: bytes) -> MiniBlockPage | None:
    return mini_block(encoding) if len(encoding) <= MAX_SHARED_BYTES else None
