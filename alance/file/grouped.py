"""Whole fragments read together: the pages of one field are decoded in as few calls as possible.

If fragments are small, the work per page costs more than its bytes. So no page has a plan, a state
or an object of its own: pages are rows of arrays, a file is read in one range or a few, and
neighbouring pages of one kind are decoded as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.errors import AlanceError, CorruptFileError
from alance.file.columns import OpenColumn
from alance.file.fragment import FragmentTask
from alance.format.layouts import MAX_SHARED_BYTES, mini_block, page_layout
from alance.format.layouts.miniblock_task import TOO_MANY, AlikePages, Joined, decode_together
from alance.format.plans import ByteRange, answered, cut

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from alance.arrays import Int64s
    from alance.file.fragment import Found, OpenFragment
    from alance.file_version import FileVersion
    from alance.format.container import Container
    from alance.format.field import Field
    from alance.format.layouts.base import PageValues
    from alance.format.layouts.miniblock import MiniBlockPage
    from alance.format.plans import Plan


GAP_BYTES: Final = 256  # between pages of a file: the filler; wider gaps are the store's affair


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


class FilePages(NamedTuple):
    """Pages of files, and the bytes that they lie in."""

    tables: PageTables
    contents: Sequence[Content]

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

    is_array = False

    @property
    def num_bytes(self) -> int:
        """Encoded bytes to decode."""
        tables = self.pages.tables
        last = self.first + len(self.contents)
        return int(tables.sizes[tables.ends[self.first] : tables.ends[last]].sum())

    def decode_pages(self) -> list[PageValues]:
        """The rows of all pages; some stand together in one.

        Raises:
            CorruptFileError: bytes that contradict the format.
        """
        tables = self.pages.tables
        kinds = tables.kinds[self.first : self.first + len(self.contents)]
        layouts = {
            number: _described(tables.encodings[number]) for number in np.unique(kinds).tolist()
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


def group_key(fragment: OpenFragment) -> tuple[int, ...] | None:
    """Equal for fragments that can be read together: the fields they have; None: not at all."""
    if all(
        isinstance(leaf.column, OpenColumn) and leaf.column.column.kernel is not None
        for leaf in fragment.leaves
    ):
        return tuple(leaf.leaf.field.id for leaf in fragment.leaves)
    return None


def read_together(fragments: Sequence[OpenFragment]) -> Plan[FragmentTask]:
    """Plan all rows of fragments, one behind the other: at most one round.

    Args:
        fragments: of the same schema, with one `group_key`.
    """
    fields = [leaf.leaf.field for leaf in fragments[0].leaves]
    columns = [
        _open_column(fragment, number) for number in range(len(fields)) for fragment in fragments
    ]
    tables = PageTables(*_kernels.pages_together([_pages_of(column) for column in columns]))
    contents, numbers = yield from _contents(columns, tables)
    pages = FilePages(tables, contents)
    of_page = np.repeat(
        np.array([column.column.index for column in columns], np.int64), tables.counts
    )
    bounds = tables.bounds[:: len(fragments)].tolist()
    leaves: dict[int, Found] = {
        field.id: LeafPages(field, of_page[start:stop], pages, start, numbers[start:stop])
        for field, (start, stop) in zip(fields, pairwise(bounds), strict=True)
    }
    num_rows = sum(fragment.num_rows for fragment in fragments)
    return FragmentTask(fragments[0].schema, num_rows, leaves)


def _open_column(fragment: OpenFragment, number: int) -> OpenColumn:
    column = fragment.leaves[number].column
    assert isinstance(column, OpenColumn)
    return column


def _pages_of(column: OpenColumn) -> _kernels.ColumnPages:
    kernel = column.column.kernel
    assert kernel is not None
    return kernel


def _contents(
    columns: Sequence[OpenColumn], tables: PageTables
) -> Plan[tuple[list[Content], Int64s]]:
    """The bytes of all pages, and in which of them each page lies: at most one round."""
    lows, highs = tables.places()
    runs: dict[str, list[slice]] = {}
    containers: dict[str, Container] = {}
    for column, (start, stop) in zip(columns, pairwise(tables.bounds.tolist()), strict=True):
        container = containers.setdefault(column.container.path, column.container)
        runs.setdefault(container.path, []).append(slice(start, stop))
    contents: list[Content] = []
    missing: list[tuple[int, ByteRange]] = []  # of which content
    numbers = np.zeros(len(lows), np.int64)
    for path, container in containers.items():
        version, base = container.version, len(contents)
        if container.is_whole:
            contents.append(Content(path, version, container.content))
            for run in runs[path]:
                numbers[run] = base
            continue
        firsts, lasts = _merged(
            np.concatenate([lows[run] for run in runs[path]]),
            np.concatenate([highs[run] for run in runs[path]]),
        )
        for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
            missing.append((len(contents), ByteRange(path, first, last)))
            contents.append(Content(path, version, memoryview(b""), first))
        for run in runs[path]:
            places = np.searchsorted(firsts, lows[run], "right") - 1
            numbers[run] = base + places.clip(0)
        if not len(firsts):
            contents.append(Content(path, version, memoryview(b"")))
    fetched = (yield [span for _, span in missing]) if missing else ()
    for (number, span), content in zip(missing, fetched, strict=True):
        if len(content) != span.num_bytes:
            raise CorruptFileError(
                f"{len(content)} bytes of {span.path} from {span.start}, expected {span.num_bytes}"
            )
        contents[number] = Content(span.path, contents[number].version, content, span.start)
    return contents, numbers


def _merged(lows: Int64s, highs: Int64s) -> tuple[Int64s, Int64s]:
    """Starts and stops of spans that cover places of a file, few and far apart, in order."""
    lows, highs = lows[highs > lows], highs[highs > lows]
    order = np.argsort(lows, kind="stable")
    lows, reach = lows[order], np.maximum.accumulate(highs[order])
    begins = np.append(np.True_, lows[1:] > reach[:-1] + GAP_BYTES)[: len(lows)]
    return lows[begins], reach[np.append(begins[1:], np.True_)[: len(lows)]]
