"""Columns of 2.0 files as the plans over fields see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from alance.errors import CorruptFileError
from alance.format.v2_0.spans import Spans

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from alance.format.v2_0.arrays import ArrayPage

    Int64s = npt.NDArray[np.int64]


class PagedColumn(Protocol):
    """A column of an open file."""

    @property
    def first_rows(self) -> Int64s:
        """The first row of each page, and the number of rows; shape (pages + 1,)."""
        ...

    def array_page(self, number: int) -> ArrayPage:
        """A page by its number."""
        ...


def overlaps(column: PagedColumn, spans: Spans) -> Iterator[tuple[int, Spans]]:
    """The pages that hold rows, and the rows counted from the first of each page.

    Raises:
        CorruptFileError: rows behind the last.
    """
    first_rows = column.first_rows
    if not len(spans.starts):
        return
    if spans.stops[-1] > first_rows[-1]:
        raise CorruptFileError(
            f"row {spans.stops[-1] - 1} of a column that has {first_rows[-1]} rows"
        )
    if len(first_rows) == 2:
        yield 0, spans
        return
    if len(spans.starts) == 1:  # the usual case, without the vectors of the general one
        start, stop = int(spans.starts[0]), int(spans.stops[0])
        number = int(first_rows.searchsorted(start, "right")) - 1
        first = int(first_rows[number])
        if stop <= first_rows[number + 1]:
            yield number, Spans.of_range(start - first, stop - first)
            return
    begin = int(np.searchsorted(first_rows, spans.starts[0], "right")) - 1
    end = int(np.searchsorted(first_rows, spans.stops[-1], "left"))
    for number in range(begin, end):
        start, stop = int(first_rows[number]), int(first_rows[number + 1])
        mine = spans.within(start, stop) if stop > start else None
        if mine is not None and len(mine.starts):
            yield number, mine
