"""Rows of fragments whose pages were all taken from before: where they are, in one call a column.

What earlier takes learned of a fragment's pages is kept in tables that the kernel looks rows up
in. That is for columns that are fields of the schema themselves, of one value a row; a take of
others, or from a page that no table has yet, goes the longer way.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from alance import _kernels
from alance.file.columns import OpenColumn
from alance.file.fragment import FragmentTask
from alance.format.layouts.paged_rows import PagedRows, takes_rows
from alance.format.plans import ByteRange

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    from alance.file.columns import States
    from alance.file.fragment import Found, OpenFragment
    from alance.file.leaves import OpenLeaf
    from alance.format.field import Field
    from alance.format.layouts.paged_rows import LocalFile, RowPage
    from alance.format.plans import Plan
    from alance.format.schema import Schema

    Int64s = npt.NDArray[np.int64]


class RowTables:
    """The pages of a fragment whose rows can be taken in one call, as far as they are known."""

    __slots__ = (
        "_known",
        "columns",
        "fields",
        "is_on",
        "kernels",
        "kinds",
        "num_bytes",
        "opened",
        "paths",
    )

    def __init__(self, opened: OpenFragment) -> None:
        self.opened = opened
        self.fields = [one.leaf.field.id for one in opened.leaves]
        columns = [one.column for one in opened.leaves if _is_simple(one)]
        self.columns = [one for one in columns if isinstance(one, OpenColumn)]
        self.is_on = len(self.columns) == len(opened.leaves)
        self.kernels = [_kernels.RowTable(one.column.first_rows) for one in self.columns]
        self.paths = [one.container.path for one in self.columns]
        self.kinds: list[tuple[int, bool] | None] = [None] * len(self.columns)
        self.num_bytes = 200 + sum(
            60 + 24 * len(one.column.first_rows) for one in self.columns
        )  # of the tables, and of what they keep alive
        self._known: set[tuple[int, int]] = set()

    def learn(self, rows: Int64s, states: States) -> None:
        """Note the pages of some rows, which are known to `states`."""
        for at, column in enumerate(self.columns):
            for number, _ in column.hit(rows):
                if self.is_on and (at, number) not in self._known:
                    self._note(at, column, number, states)

    def _note(self, at: int, column: OpenColumn, number: int, states: States) -> None:
        state = column.known(number, states)
        page = None if state is None else column.layout(number).row_page(state)
        if state is None or page is None:
            return
        kind = page.kernel.width, page.decoded is None
        if not page.is_plain or self.kinds[at] not in (None, kind):
            self.is_on = False
            return
        self.kinds[at] = kind
        self.kernels[at].set(number, page.kernel, page)
        self.num_bytes += state.num_bytes
        self._known.add((at, number))


@dataclass(frozen=True, slots=True)
class WarmLeaf:
    """Where rows of one column of several fragments are."""

    field: Field
    pages: tuple[RowPage, ...]
    paths: list[str]  # of each page
    rows: Int64s  # of all pages, each counted from its first
    ends: Int64s  # where those of each page end
    starts: list[int]  # of pieces of files
    stops: list[int]
    piece_ends: list[int]  # where those of each page end


def find_rows(
    tables: Sequence[RowTables], rows: Int64s, ends: Sequence[int], *, with_pieces: bool
) -> list[WarmLeaf] | None:
    """The bytes that hold rows of fragments; None where a page is not known.

    Args:
        rows: physical row offsets, fragment by fragment, each sorted and unique.
        ends: where those of each fragment end; none is empty.
        with_pieces: say which bytes of files these are.
    """
    first = tables[0]
    if any(table.fields != first.fields for table in tables):
        return None
    found = []
    for at, one in enumerate(first.opened.leaves):
        if len({table.kinds[at] for table in tables}) > 1:
            return None
        try:
            kernels = [table.kernels[at] for table in tables]
            planned = _kernels.plan_rows(kernels, rows, ends, with_pieces)
        except ValueError:  # the longer way tells what is wrong
            return None
        if planned is None:
            return None
        pages, owners, mine, page_ends, starts, stops, piece_ends = planned
        paths = [tables[owner].paths[at] for owner in owners]
        found.append(
            WarmLeaf(
                one.leaf.field, tuple(pages), paths, mine, page_ends, starts, stops, piece_ends
            )
        )
    return found


def fetch_rows(
    schema: Schema, num_rows: int, leaves: Sequence[WarmLeaf]
) -> Plan[list[FragmentTask]]:
    """Plan the rows of all fragments as those of one: one round."""
    wanted: list[ByteRange] = []
    for leaf in leaves:
        pages = zip(leaf.paths, [0, *leaf.piece_ends], leaf.piece_ends, strict=False)
        paths = [path for path, first, end in pages for _ in range(first, end)]
        wanted.extend(map(ByteRange, paths, leaf.starts, leaf.stops))
    contents = yield wanted
    found: dict[int, Found] = {}
    before = 0
    for leaf in leaves:
        sources = []
        for first, end in pairwise([0, *leaf.piece_ends]):
            mine = contents[before + first : before + end]
            sources.append(mine[0] if len(mine) == 1 else memoryview(b"".join(mine)))
        before += leaf.piece_ends[-1]
        found[leaf.field.id] = _paged(leaf, tuple(sources))
    return [FragmentTask(schema, num_rows, found)]


def rows_in_files(
    schema: Schema, num_rows: int, leaves: Sequence[WarmLeaf], files: Mapping[str, LocalFile]
) -> FragmentTask | None:
    """The rows of all fragments as those of one, read when they are decoded; None where a file
    is not open.
    """
    found: dict[int, Found] = {}
    for leaf in leaves:
        sources = [files.get(path) for path in leaf.paths]
        there = tuple([source for source in sources if source is not None])
        if len(there) < len(sources):
            return None
        found[leaf.field.id] = _paged(leaf, there)
    return FragmentTask(schema, num_rows, found)


def _paged(leaf: WarmLeaf, sources: tuple[LocalFile | memoryview, ...]) -> PagedRows:
    cuts = pairwise([0, *leaf.ends.tolist()])
    rows = tuple([leaf.rows[first:end] for first, end in cuts])
    return PagedRows(leaf.field, leaf.pages, rows, sources, True, (leaf.rows, leaf.ends))


def _is_simple(one: OpenLeaf) -> bool:
    """Whether a row of the leaf is a value of a field of the schema, which the kernel takes."""
    column, field = one.column, one.leaf.field
    return (
        isinstance(column, OpenColumn)
        and not column.container.is_whole
        and one.is_top
        and one.leaf.multiplier == 1
        and not field.is_json
        and takes_rows(field)
    )
