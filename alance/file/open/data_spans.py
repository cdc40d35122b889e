"""Byte spans of data files that contain values of pages, and spans with metadata.

A dry run of a scan (`explain`) only reads metadata, and counts the pages that the scan would read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from google.protobuf.any_pb2 import Any as AnyMessage

from alance.file.open.columns import OpenColumn
from alance.file_version import FileVersion
from alance.format.container import Container
from alance.format.layouts.place import PLANAR_LAYOUT
from alance.format.plans import joined_spans
from alance.format.proto import encodings_v2_1_pb2, encodings_v2_3_pb2
from alance.format.v2_0.arrays import value_buffers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Span = tuple[int, int]
# Number of the buffer with a page's values, by the layout, or in planar pages (2.3) by the kind of
# values.
VALUE_BUFFERS: Final[Mapping[str | None, int]] = {
    "mini_block_layout": 1,
    "full_zip_layout": 0,
    "chunked": 1,
    "zipped": 0,
    "indexed": 1,
}


class _Buffer(NamedTuple):
    """Buffer of a page: its span in the file, its column, its page and its number."""

    start: int
    stop: int
    column: OpenColumn
    page: int
    number: int

    @property
    def has_values(self) -> bool:
        """True for a buffer with values; other buffers are needed to locate rows."""
        if self.column.container.version is FileVersion.V2_0:
            return self.number in value_buffers(self.column.page(self.page).encoding)
        return self.number == _values_of(self.column.page(self.page).encoding)


class DataSpans:
    """Page buffers of the opened columns, by file."""

    def __init__(self) -> None:
        self._files: dict[str, Container] = {}
        self._sorted: dict[str, tuple[int, list[int], list[_Buffer]]] = {}

    @property
    def paths(self) -> Iterable[str]:
        """Paths of the files with open columns."""
        return [path for path, file in self._files.items() if file.columns.open]

    def learn(self, value: object) -> None:
        """Add a value of the search cache if it is an open file."""
        if isinstance(value, Container):
            self._files[value.path] = value

    def needed(self, path: str, start: int, stop: int) -> list[Span]:
        """Return the parts of a range that contain no values of pages, ascending.

        Gaps between pages are omitted. Returns the whole range if no column of the file was opened.
        """
        if path not in self._files or not self._files[path].columns.open:
            return [(start, stop)]
        spans = [
            (max(start, buffer.start), min(stop, buffer.stop))
            for buffer in self._overlapping(path, start, stop)
            if not buffer.has_values
        ]
        container = self._files[path]
        spans += [
            (max(start, begin), min(stop, end))
            for begin, end in container.buffers.tolist()
            if begin < stop and end > start
        ]
        buffers = self._index(path)[1]
        end = max((buffer.stop for buffer in buffers), default=0)
        if stop > end:
            spans.append((max(start, end), stop))
        return joined_spans(spans)

    def pages(self, ranges: Iterable[tuple[str, Span]]) -> int:
        """Count the pages that have values in these ranges."""
        pages = {
            (path, buffer.column.index, buffer.page)
            for path, span in ranges
            if path in self._files
            for buffer in self._overlapping(path, *span)
            if buffer.has_values
        }
        return len(pages)

    @property
    def num_pages(self) -> int:
        """Number of pages with a buffer of values, over all opened columns."""
        pages = {
            (path, buffer.column.index, buffer.page)
            for path in self._files
            for buffer in self._index(path)[1]
            if buffer.has_values
        }
        return len(pages)

    def _overlapping(self, path: str, start: int, stop: int) -> list[_Buffer]:
        starts, buffers = self._index(path)
        first = max(0, bisect_right(starts, start) - 1)
        overlapping = []
        for buffer in buffers[first:]:
            if buffer.start >= stop:
                break
            if buffer.stop > start:
                overlapping.append(buffer)
        return overlapping

    def _index(self, path: str) -> tuple[list[int], list[_Buffer]]:
        file = self._files[path]
        opened = file.columns.open
        num_columns, starts, buffers = self._sorted.get(path, (-1, [], []))
        if num_columns != len(opened):
            columns = [OpenColumn(file, index, file.columns.column(index)) for index in opened]
            buffers = sorted(
                (
                    _Buffer(start, start + size, column, page_number, number)
                    for column in columns
                    for page_number, page in enumerate(column.pages)
                    for number, (start, size) in enumerate(page.buffers)
                    if size
                ),
                key=lambda buffer: buffer.start,
            )
            starts = [buffer.start for buffer in buffers]
            self._sorted[path] = (len(columns), starts, buffers)
        return starts, buffers


class Needed:
    """Ranges of files that a dry run has to read, by path."""

    def __init__(self) -> None:
        self._spans: dict[str, list[Span]] = {}
        self._longest = 0

    def add(self, path: str, span: Span) -> None:
        spans = self._spans.setdefault(path, [])
        at = bisect_left(spans, span)
        if spans[at : at + 1] != [span]:
            spans.insert(at, span)
            self._longest = max(self._longest, span[1] - span[0])

    def within(self, path: str, start: int, stop: int) -> list[Span]:
        """Return the parts of a range that were added, ascending and disjoint."""
        spans = self._spans.get(path, [])
        first = bisect_left(spans, (start - self._longest, 0))
        return joined_spans(
            (max(start, begin), min(stop, end))
            for begin, end in spans[first : bisect_left(spans, (stop, 0))]
            if end > start
        )


@lru_cache(maxsize=4096)
def _values_of(encoding: bytes) -> int | None:
    """Return the number of the buffer with a page's values; None if the page has no such buffer.

    Args:
        encoding: serialized description of the page.
    """
    message = AnyMessage.FromString(encoding)
    if message.type_url.endswith(PLANAR_LAYOUT):
        values = encodings_v2_3_pb2.PlanarLayout.FromString(message.value).values
        return VALUE_BUFFERS.get(values.WhichOneof("codec"))
    layout = encodings_v2_1_pb2.PageLayout.FromString(message.value)
    if layout.HasField("blob_layout"):
        layout = layout.blob_layout.inner_layout
    return VALUE_BUFFERS.get(layout.WhichOneof("layout"))
