"""Whole fragments read together, by calls whose number does not grow with the fragments.

A file is asked for in one range or few; `file_pages` and `joined_rows` decode its pages.
"""

from __future__ import annotations

from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from alance import _kernels
from alance.errors import CorruptFileError
from alance.file.open.columns import OpenColumn
from alance.file.rows.file_pages import Content, FilePages
from alance.file.rows.fragment import FragmentTask
from alance.file.rows.joined_rows import JoinedNested, JoinedRows, joined
from alance.format.coalesce import coalesce
from alance.format.plans import ByteRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.arrays import Int64s
    from alance.file.rows.file_pages import PageTables
    from alance.file.rows.fragment import OpenFragment
    from alance.format.container import Container
    from alance.format.plans import Plan


GAP_BYTES: Final = 256  # between pages of a file: the filler; wider gaps are the store's affair


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
    fields = [leaf.leaf.field for leaf in fragments[0].leaves]
    columns = [
        [_open_column(fragment, number) for fragment in fragments] for number in range(len(fields))
    ]
    kernel = _kernels.FilePages.of_columns(
        [column.column.kernel for of_leaf in columns for column in of_leaf], len(fragments)
    )
    pages = yield from _with_contents([*chain.from_iterable(columns)], kernel)
    num_rows = sum(fragment.num_rows for fragment in fragments)
    in_files = [[column.column.index for column in of_leaf] for of_leaf in columns]
    nested = fragments[0].nested if len(fragments) == 1 and num_rows else None
    beside = () if nested is None else nested.leaf_ids
    part, leaves = joined(fragments[0].schema, fields, in_files, pages, num_rows, beside)
    of_nested = None if nested is None else JoinedNested(nested, pages)
    ranged = JoinedRows([part] if part else [], num_rows, of_nested)
    return FragmentTask(fragments[0].schema, num_rows, leaves, joined=ranged)


def _open_column(fragment: OpenFragment, number: int) -> OpenColumn:
    column = fragment.leaves[number].column
    assert isinstance(column, OpenColumn)
    return column


def _with_contents(columns: Sequence[OpenColumn], kernel: _kernels.FilePages) -> Plan[FilePages]:
    """Plan the bytes of all pages: at most one round."""
    containers = {column.container.path: column.container for column in columns}
    if len(containers) == 1 and (container := columns[0].container).is_whole:
        content = Content(container.path, container.version, container.content)
        return FilePages(kernel, [content], np.zeros(kernel.num_pages, np.int64))
    pages = FilePages(kernel, (), np.empty(0, np.int64))
    pages.contents, pages.numbers = yield from _contents(columns, pages.tables)
    return pages


def _contents(
    columns: Sequence[OpenColumn], tables: PageTables
) -> Plan[tuple[list[Content], Int64s]]:
    """The bytes of all pages, and in which of them each page lies: at most one round."""
    bounds = np.array(tables.places()).T
    pages: dict[str, list[Int64s]] = {}
    containers: dict[str, Container] = {}
    for column, (start, stop) in zip(columns, pairwise(tables.bounds.tolist()), strict=True):
        container = containers.setdefault(column.container.path, column.container)
        pages.setdefault(container.path, []).append(np.arange(start, stop))
    contents: list[Content] = []
    missing: list[tuple[int, ByteRange]] = []  # of which content
    numbers = np.zeros(len(bounds), np.int64)
    for path, container in containers.items():
        version, base, own = container.version, len(contents), np.concatenate(pages[path])
        if container.is_whole:
            contents.append(Content(path, version, container.content))
            numbers[own] = base
            continue
        ranges = bounds[own]
        spans = coalesce(ranges[ranges[:, 0] < ranges[:, 1]], GAP_BYTES).spans
        for first, last in spans:
            missing.append((len(contents), ByteRange(path, first, last)))
            contents.append(Content(path, version, memoryview(b""), first))
        places = np.searchsorted([start for start, _ in spans], ranges[:, 0], "right") - 1
        numbers[own] = base + places.clip(0)
        if not spans:
            contents.append(Content(path, version, memoryview(b"")))
    fetched = (yield [span for _, span in missing]) if missing else ()
    for (number, span), content in zip(missing, fetched, strict=True):
        if len(content) != span.num_bytes:
            raise CorruptFileError(
                f"{len(content)} bytes of {span.path} from {span.start}, expected {span.num_bytes}"
            )
        contents[number] = Content(span.path, contents[number].version, content, span.start)
    return contents, numbers
