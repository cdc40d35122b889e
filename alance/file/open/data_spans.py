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
    from collections.abc import Iterable, Mapping, Sequence

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


class _Index(NamedTuple):
    """Page buffers of a file, by position.

    Attributes:
        num_columns: number of open columns.
        starts: start of each buffer.
        end: end of the last buffer.
    """

    num_columns: int
    starts: Sequence[int]
    buffers: Sequence[_Buffer]
    end: int

    def overlapping(self, start: int, stop: int) -> list[_Buffer]:
        first = max(0, bisect_right(self.starts, start) - 1)
        last = bisect_left(self.starts, stop, first)
        return [buffer for buffer in self.buffers[first:last] if buffer.stop > start]


class DataSpans:
    """Page buffers of the opened columns, by file."""

    def __init__(self) -> None:
        self._files: dict[str, Container] = {}
        self._indices: dict[str, _Index] = {}

    @property
    def paths(self) -> Iterable[str]:
        """Paths of the files with open columns."""
        return [path for path, file in self._files.items() if file.columns.open]

    def learn(self, value: object) -> None:
        """Add a value of the search cache if it is an open file."""
        if isinstance(value, Container):
            self._files[value.path] = value

    def is_open(self, path: str) -> bool:
        """True for the path of a file with open columns."""
        file = self._files.get(path)
        return file is not None and bool(file.columns.open)

    def needed(self, path: str, start: int, stop: int) -> list[Span]:
        """Return the parts of a range of an open file that contain no values of pages. CPU work."""
        index = self._index(path)
        spans = [
            (buffer.start, buffer.stop)
            for buffer in index.overlapping(start, stop)
            if not buffer.has_values
        ]
        spans += [*self._files[path].buffers.tolist(), (index.end, stop)]
        return joined_spans(
            (max(start, begin), min(stop, end))
            for begin, end in spans
            if max(start, begin) < min(stop, end)
        )

    def pages(self, ranges: Iterable[tuple[str, Span]]) -> int:
        """Count the pages that have values in these ranges."""
        return self._num_pages(
            (path, self._index(path).overlapping(*span))
            for path, span in ranges
            if path in self._files
        )

    @property
    def num_pages(self) -> int:
        """Number of pages with a buffer of values, over all opened columns."""
        return self._num_pages((path, self._index(path).buffers) for path in self._files)

    def _num_pages(self, buffers: Iterable[tuple[str, Sequence[_Buffer]]]) -> int:
        """Count the pages with values in buffers of files."""
        pages = {
            (path, buffer.column.index, buffer.page)
            for path, own in buffers
            for buffer in own
            if buffer.has_values
        }
        return len(pages)

    def _index(self, path: str) -> _Index:
        file = self._files[path]
        opened = file.columns.open
        index = self._indices.get(path)
        if index is None or index.num_columns != len(opened):
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
            end = max((buffer.stop for buffer in buffers), default=0)
            index = self._indices[path] = _Index(len(columns), starts, buffers, end)
        return index


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
