"""Page states that are needed before rows can be taken, of all columns of a file at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

from alance.errors import AlanceError
from alance.file.columns import OpenColumn
from alance.file.recall import kept_by
from alance.format.layouts.miniblock import MiniBlockPage
from alance.format.layouts.paged_rows import takes_rows
from alance.format.plans import together

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from alance.file.columns import States
    from alance.file.leaves import OpenLeaf, PagesAndRows
    from alance.format.layouts.base import PageState
    from alance.format.layouts.paged_rows import RowPage
    from alance.format.plans import ByteRange, Plan

    Int64s: TypeAlias = npt.NDArray[np.int64]
    Wanted: TypeAlias = tuple["Hit", MiniBlockPage, list[ByteRange]]


def learned_pages(
    leaves: Sequence[OpenLeaf], rows: Int64s, states: States
) -> Plan[list[PagesAndRows] | None]:
    """Plan the pages that hold rows, of each leaf: one round for their states, none if known.

    None where that is not all that is missed for the taking of rows in few calls.

    Args:
        rows: of the fragment, sorted and unique.

    Raises:
        CorruptFileError, UnsupportedError: the description of a page, or what is read of it.
    """
    if kept_by(states) is not None:
        return None
    for one in leaves:
        column = one.column
        is_paged = isinstance(column, OpenColumn) and not column.container.is_whole
        if not is_paged or not takes_rows(one.leaf.field):
            return None
    # Most pages are of mini-blocks: theirs need no plans of their own.
    chunked: list[Wanted] = []
    others: list[Plan[None]] = []
    hits: list[list[Hit]] = []
    for one in leaves:
        column, mine = one.column, []
        assert isinstance(column, OpenColumn)
        for number, here in column.hit(one.rows(rows)):
            hit = Hit(column, number, here, column.known(number, states))
            mine.append(hit)
            if hit.state is not None:
                continue
            layout = column.layout(number)
            ranges = layout.state_ranges() if isinstance(layout, MiniBlockPage) else []
            if isinstance(layout, MiniBlockPage) and all(start < stop for _, start, stop in ranges):
                chunked.append((hit, layout, ranges))
            else:
                others.append(hit.learn(states))
        hits.append(mine)
    if chunked:
        others.append(_learn_chunks(chunked, states))
    if others:
        yield from together(others)
    found: list[PagesAndRows] = []
    for mine in hits:
        pages = [(hit.row_page(), hit.rows) for hit in mine]
        if not pages or any(page is None for page, _ in pages):
            return None
        found.append(cast("PagesAndRows", pages))
    return found


@dataclass(slots=True)
class Hit:
    """A page that holds rows, and what is known of it."""

    column: OpenColumn
    number: int
    rows: Int64s  # counted from the first of the page
    state: PageState | None

    def learn(self, states: States) -> Plan[None]:
        """Plan the state of the page: one round at most."""
        self.state = yield from self.column.learn(self.number, states)

    def row_page(self) -> RowPage | None:
        """The page for the taking of rows; None for one of another kind."""
        assert self.state is not None
        try:
            return self.column.layout(self.number).row_page(self.state)
        except AlanceError as error:
            self.column.add_place(error, self.number)
            raise


def _learn_chunks(pages: Sequence[Wanted], states: States) -> Plan[None]:
    """Plan the states of pages, from the ranges that hold them."""
    buffers = yield [one for *_, ranges in pages for one in ranges]
    first = 0
    for hit, layout, ranges in pages:
        mine = buffers[first : first + len(ranges)]
        first += len(ranges)
        try:
            hit.state = layout.state_of(mine)
        except AlanceError as error:
            hit.column.add_place(error, hit.number)
            raise
        hit.column.learned(hit.number, hit.state, states)
