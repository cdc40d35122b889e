"""What must be known of pages before their rows can be taken: of all columns of a file at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    from alance.file.leaves import OpenLeaf
    from alance.format.plans import ByteRange, Plan


def learn_pages(
    leaves: Sequence[OpenLeaf], rows: npt.NDArray[np.int64], states: States
) -> Plan[None]:
    """Plan the states of the pages that hold rows: one round, none if all are known.

    Only where that is all that is missed for the taking of rows in few calls.

    Args:
        rows: of the fragment, sorted and unique.

    Raises:
        CorruptFileError, UnsupportedError: the description of a page, or what is read of it.
    """
    columns: list[tuple[OpenColumn, npt.NDArray[np.int64]]] = []
    for one in leaves:
        column = one.column
        if not takes_rows(one.leaf.field) or column.container.is_whole:
            return
        if isinstance(column, OpenColumn):
            columns.append((column, one.rows(rows)))
    if kept_by(states) is not None:
        return
    # Most pages are of mini-blocks: theirs need no plans of their own.
    found: list[tuple[OpenColumn, int, MiniBlockPage, list[ByteRange]]] = []
    others: list[Plan[None]] = []
    for column, mine in columns:
        for number, _ in column.hit(mine):
            if column.known(number, states) is not None:
                continue
            layout = column.layout(number)
            ranges = layout.state_ranges() if isinstance(layout, MiniBlockPage) else []
            if isinstance(layout, MiniBlockPage) and all(start < stop for _, start, stop in ranges):
                found.append((column, number, layout, ranges))
            else:
                others.append(column.learn(number, states))
    if found:
        others.append(_learn_chunks(found, states))
    if others:
        yield from together(others)


def _learn_chunks(
    pages: Sequence[tuple[OpenColumn, int, MiniBlockPage, list[ByteRange]]], states: States
) -> Plan[None]:
    """Plan the states of pages, from the ranges that hold them."""
    buffers = yield [one for *_, ranges in pages for one in ranges]
    first = 0
    for column, number, layout, ranges in pages:
        mine = buffers[first : first + len(ranges)]
        first += len(ranges)
        try:
            state = layout.state_of(mine)
        except AlanceError as error:
            column.add_place(error, number)
            raise
        column.learned(number, state, states)
