"""What must be known of pages before their rows can be taken: of all columns of a file at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.errors import AlanceError
from alance.file.columns import OpenColumn
from alance.file.recall import kept_by
from alance.format.layouts.paged_rows import takes_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from alance.file.columns import States
    from alance.file.leaves import OpenLeaf
    from alance.format.layouts.base import PageState
    from alance.format.plans import Plan, Wanted


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
    missing = [
        (column, number)
        for column, rows in columns
        for number, _ in column.hit(rows)
        if column.known(number, states) is None
    ]
    waiting: list[tuple[OpenColumn, int, Plan[PageState], Sequence[Wanted]]] = []
    for column, number in missing:
        plan = column.layout(number).load()
        try:
            waiting.append((column, number, plan, next(plan)))
        except StopIteration as done:
            column.learned(number, done.value, states)
    while waiting:
        buffers = yield [one for *_, wanted in waiting for one in wanted]
        at, left = 0, []
        for column, number, plan, wanted in waiting:
            mine = buffers[at : at + len(wanted)]
            at += len(wanted)
            try:
                left.append((column, number, plan, plan.send(mine)))
            except StopIteration as done:
                column.learned(number, done.value, states)
            except AlanceError as error:
                column.add_place(error, number)
                raise
        waiting = left
