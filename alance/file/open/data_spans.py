"""Byte spans of data files that contain values of pages, and spans with metadata.

A dry run of a scan (`explain`) only reads metadata, and counts the pages that the scan would read.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from google.protobuf.any_pb2 import Any as AnyMessage

from alance.file_version import FileVersion
from alance.format.container import Container, FileColumn
from alance.format.layouts.place import PLANAR_LAYOUT
from alance.format.plans import MAX_STOP, coalesce
from alance.format.proto import encodings_v2_1_pb2, encodings_v2_3_pb2
from alance.format.v2_0.arrays import value_buffers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from alance.base.arrays import Int64s, Mask
    from alance.format.container import Page

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


class _Buffers(NamedTuple):
    """Page buffers of a file's open columns, by position.

    Attributes:
        num_columns: number of open columns.
        spans: start and stop of each buffer; shape (n, 2).
        pages: column and page of each buffer; shape (n, 2).
        has_values: mask of the buffers with values; other buffers are needed to locate rows.
        end: stop of the last buffer.
    """

    num_columns: int
    spans: Int64s
    pages: Int64s
    has_values: Mask
    end: int

    @classmethod
    def of(cls, file: Container) -> _Buffers:
        numbers = file.columns.open
        rows = sorted(
            (start, start + size, column, number, place in values)
            for column in numbers
            for number, page in enumerate(FileColumn(column, file.columns.column(column)).pages)
            for values in [_values_of(file, page)]
            for place, (start, size) in enumerate(page.buffers)
            if size
        )
        table = np.array(rows, np.int64).reshape(-1, 5)
        end = int(table[:, 1].max(initial=0))
        return cls(len(numbers), table[:, :2], table[:, 2:4], table[:, 4] != 0, end)

    def overlapping(self, start: int, stop: int) -> slice:
        """Return the numbers of the buffers that may overlap a range."""
        first, last = np.searchsorted(self.spans[:, 0], [start, stop]).tolist()
        return slice(max(0, first - 1), last)


class DataSpans:
    """Page buffers of the opened columns, by file."""

    def __init__(self) -> None:
        self._files: dict[str, Container] = {}
        self._buffers: dict[str, _Buffers] = {}

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
        buffers = self._of(path)
        here = buffers.overlapping(start, stop)
        without_values = buffers.spans[here][~buffers.has_values[here]]
        spans = np.concatenate([without_values, self._files[path].buffers, [(buffers.end, stop)]])
        spans = spans.clip(start, stop)
        return coalesce(spans[spans[:, 0] < spans[:, 1]], 0).spans

    def pages(self, ranges: Iterable[tuple[str, Span]]) -> int:
        """Count the pages that have values in these ranges."""
        pages: set[tuple[str, int, int]] = set()
        for path, (start, stop) in ranges:
            if path in self._files:
                buffers = self._of(path)
                here = buffers.overlapping(start, stop)
                has_values = buffers.has_values[here] & (buffers.spans[here, 1] > start)
                own = buffers.pages[here][has_values].tolist()
                pages.update((path, column, page) for column, page in own)
        return len(pages)

    @property
    def num_pages(self) -> int:
        """Number of pages with a buffer of values, over all opened columns."""
        return self.pages((path, (0, MAX_STOP)) for path in self._files)

    def _of(self, path: str) -> _Buffers:
        file = self._files[path]
        buffers = self._buffers.get(path)
        if buffers is None or buffers.num_columns != len(file.columns.open):
            buffers = self._buffers[path] = _Buffers.of(file)
        return buffers


def _values_of(file: Container, page: Page) -> Collection[int | None]:
    """Return the numbers of the buffers with a page's values."""
    if file.version is FileVersion.V2_0:
        return value_buffers(page.encoding)
    return (_value_buffer(page.encoding),)


@lru_cache(maxsize=4096)
def _value_buffer(encoding: bytes) -> int | None:
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
