"""Whole fragments read together: their pages of one field, decoded in as few calls as they allow.

Of tables of many small fragments a page costs more than its bytes. Here no page has a plan or a
state of its own: a file is asked for in one range or few, and neighbouring pages of one kind are
decoded as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa

from alance.errors import AlanceError, CorruptFileError
from alance.file.columns import OpenColumn
from alance.file.fragment import FragmentTask
from alance.format.layouts.miniblock import MiniBlockPage
from alance.format.layouts.miniblock_join import AlikePages, decode_together
from alance.format.plans import ByteRange, answered, cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from alance.file.fragment import Found, OpenFragment
    from alance.format.field import Field
    from alance.format.layouts.base import PageLayout, PageValues
    from alance.format.plans import Plan

    Content: TypeAlias = tuple[memoryview, int]  # bytes of a file, and where they begin
    Span: TypeAlias = tuple[int, int]

GAP_BYTES: Final = 256  # between pages of a file: the filler; wider gaps are the store's affair


@dataclass(frozen=True, slots=True)
class PageBytes:
    """A page of an open column, with the bytes of its file around it."""

    column: OpenColumn
    number: int
    content: memoryview
    first: int  # byte offset of the content in the file

    def layout(self) -> PageLayout:
        """Its layout.

        Raises:
            CorruptFileError, UnsupportedError: its description.
        """
        return self.column.layout(self.number)

    def buffers(self) -> list[memoryview]:
        """Its buffers."""
        content, first = self.content, self.first
        return [
            content[start - first : start - first + size]
            for start, size in self.column.column.pages[self.number].buffers
        ]

    def decode(self) -> PageValues:
        """Its rows.

        Raises:
            CorruptFileError, UnsupportedError: its description or its bytes.
        """
        task = answered(
            self.layout().read_page(),
            lambda ranges: [cut(one, self.content, self.first) for one in ranges],
        )
        return task.decode()


@dataclass(frozen=True, slots=True)
class GroupedPages:
    """All pages of a field in some fragments."""

    field: Field
    pages: Sequence[PageBytes]

    is_array = False

    @property
    def num_bytes(self) -> int:
        """Encoded bytes to decode."""
        return sum(
            size for page in self.pages for _, size in page.column.column.pages[page.number].buffers
        )

    def decode_pages(self) -> list[PageValues]:
        """The rows of all pages; some stand together in one.

        Raises:
            CorruptFileError: bytes that contradict the format.
        """
        found: list[PageValues] = []
        merges = not pa.types.is_dictionary(self.field.arrow_type)
        for kind, run in groupby(self.pages, _kind):
            pages = list(run)
            joined = None
            if kind and len(pages) > 1 and merges:
                layouts: list[MiniBlockPage] = [page.layout() for page in pages]  # type: ignore[misc]
                joined = decode_together(AlikePages.of(layouts, [page.buffers() for page in pages]))
            found += [_decoded(page) for page in pages] if joined is None else [joined]
        return found


def _kind(page: PageBytes) -> bytes:
    layout = page.layout()
    return layout.said.kind if isinstance(layout, MiniBlockPage) else b""


def _decoded(page: PageBytes) -> PageValues:
    try:
        return page.decode()
    except AlanceError as error:
        column, path = page.column.column, page.column.container.path
        error.add_note(f"in page {page.number} of column {column.index} of {path}")
        raise


def group_key(fragment: OpenFragment) -> tuple[int, ...] | None:
    """Equal for fragments that can be read together: the fields they have; None: not at all."""
    if all(isinstance(leaf.column, OpenColumn) for leaf in fragment.leaves):
        return tuple(leaf.leaf.field.id for leaf in fragment.leaves)
    return None


def read_together(fragments: Sequence[OpenFragment]) -> Plan[FragmentTask]:
    """Plan all rows of fragments, one behind the other: at most one round.

    Args:
        fragments: of the same schema, with one `group_key`.
    """
    spans: dict[str, list[Span]] = {}
    for fragment in fragments:
        for leaf in fragment.leaves:
            column = leaf.column
            assert isinstance(column, OpenColumn)
            if not column.container.is_whole:
                spans.setdefault(column.container.path, []).extend(_places(column))
    wanted = [ByteRange(path, *span) for path, places in spans.items() for span in _merged(places)]
    fetched = (yield wanted) if wanted else ()
    contents: dict[str, list[Content]] = {}
    for one, content in zip(wanted, fetched, strict=True):
        if len(content) != one.num_bytes:
            raise CorruptFileError(
                f"{len(content)} bytes of {one.path} from {one.start}, expected {one.num_bytes}"
            )
        contents.setdefault(one.path, []).append((content, one.start))
    leaves: dict[int, Found] = {}
    for number, leaf in enumerate(fragments[0].leaves):
        pages: list[PageBytes] = []
        for fragment in fragments:
            column = fragment.leaves[number].column
            assert isinstance(column, OpenColumn)
            pages += _pages(column, contents)
        leaves[leaf.leaf.field.id] = GroupedPages(leaf.leaf.field, pages)
    num_rows = sum(fragment.num_rows for fragment in fragments)
    return FragmentTask(fragments[0].schema, num_rows, leaves)


def _places(column: OpenColumn) -> Iterable[Span]:
    for page in column.column.pages:
        if page.buffers:
            yield (
                min([start for start, _ in page.buffers]),
                max([start + size for start, size in page.buffers]),
            )


def _merged(places: list[Span]) -> list[Span]:
    """Spans that cover places of a file, few and far apart."""
    places.sort()
    found: list[Span] = []
    first, last = places[0] if places else (0, 0)
    for start, stop in places:
        if start > last + GAP_BYTES:
            found.append((first, last))
            first = start
        last = max(last, stop)
    return [*found, (first, last)] if last > first else found


def _pages(column: OpenColumn, contents: dict[str, list[Content]]) -> list[PageBytes]:
    container = column.container
    if container.is_whole:
        content, first = container.content, 0
        return [PageBytes(column, n, content, first) for n in range(len(column.column.pages))]
    held = contents.get(container.path) or [(memoryview(b""), 0)]
    found = []
    for number, page in enumerate(column.column.pages):
        content, first = held[0]
        if len(held) > 1 and page.buffers:
            start = min([start for start, _ in page.buffers])
            content, first = next((one for one in reversed(held) if one[1] <= start), held[0])
        found.append(PageBytes(column, number, content, first))
    return found
