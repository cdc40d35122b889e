"""Ranges of rows of an open fragment: all columns of plain values by one call of the kernel.

A scan reads a fragment in parts, and a lookup some pages of an index. The columns' page tables say
which bytes a part needs, and one more kernel call makes a record batch of them. So a part costs the
same in Python for any number of columns. What the kernel does not handle (nested fields, constant
pages, older files) is planned and decoded beside it, column by column.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from alance import _kernels
from alance.errors import AlanceError, UnsupportedError
from alance.file.batches import completed
from alance.file.columns import OpenColumn
from alance.file.page_bytes import PageBytes
from alance.file.page_tables import Hole, fill_known, learn
from alance.file.ranged_columns import NO_COLUMNS, imported
from alance.format.layouts.miniblock import MiniBlockPage
from alance.format.layouts.miniblock_chunks import CHUNKS
from alance.format.layouts.paged_rows import RowPage
from alance.format.layouts.place import fetch
from alance.format.plans import together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from alance.file.columns import States
    from alance.file.fragment import OpenFragment
    from alance.file.ranged_columns import RangedColumns
    from alance.format.field import Field
    from alance.format.plans import ByteRange, Plan
    from alance.format.schema import Schema

LEARNED_AT_ONCE: Final = 64  # pages: a millisecond or two


class RangedRows(NamedTuple):
    """Ranges of rows of columns, and how they become arrays.

    Attributes:
        plan: None: there are no columns.
        held: the bytes of the files of the columns; None: a source brings them.
    """

    columns: RangedColumns
    plan: _kernels.RangePlan | None
    held: Sequence[_kernels.HeldFile] | None

    @property
    def numbers(self) -> Sequence[int]:
        """Of the leaves that are here."""
        return self.columns.numbers

    @property
    def num_bytes(self) -> int:
        """Encoded bytes at hand."""
        return 0 if self.held is None or self.plan is None else self.plan.num_bytes

    def ranges(self) -> Sequence[ByteRange]:
        """Where the bytes of each page of the plan are."""
        return () if self.plan is None else self.columns.ranges(self.plan)

    def batch(
        self,
        schema: Schema,
        column: Callable[[Field], pa.Array | None],
        source: _kernels.Source | None = None,
    ) -> pa.RecordBatch | None:
        """The batch of a schema; None where the source fails or a column is None.

        Args:
            column: gives each column that is not here.
            source: brings bytes of the files by their numbers, where they are not `held`.

        Raises:
            CorruptFileError: bytes that contradict the format.
            UnsupportedError: more bytes of strings than 32-bit offsets can say.
        """
        if self.plan is None:
            return completed(schema, (), column)
        ranged = self._decode(self.plan, source)
        if ranged is None:
            return None
        fields = [leaf.leaf.field for leaf in self.columns.leaves]
        return completed(schema, [(fields, ranged)], column)

    def _decode(
        self, plan: _kernels.RangePlan, source: _kernels.Source | None
    ) -> pa.RecordBatch | None:
        batch = _kernels.RangeBatch()
        try:
            if self.held is not None:
                source = _kernels.HeldSource(self.held)
            if source is None or not batch.read(plan, self.columns.files, source):
                if self.held is None:
                    return None
                raise ValueError("bytes that the file has not")
        except OverflowError as error:
            raise UnsupportedError(f"{error}: read fewer rows at once") from error
        except ValueError as error:
            page = plan.page(batch.page)
            assert isinstance(page, RowPage)
            failure = page.place.corrupt(str(error))
            leaf = self.columns.leaves[int(plan.ranges[0][batch.page])]
            failure.add_note(f"in field {leaf.leaf.field.name!r}")
            raise failure from error
        return imported(batch.address, self.columns.schema, self.columns.stored)


NO_ROWS: Final = RangedRows(NO_COLUMNS, None, None)


def place_range(fragment: OpenFragment, start: int, stop: int, states: States) -> Plan[RangedRows]:
    """Plan where neighbouring rows are, without their bytes.

    Cost: no round where the pages are known, else one.
    """
    while start < stop and (columns := fragment.tables.ranged).numbers:
        plan = columns.plan([(start, stop)])
        if plan.unknown:
            yield from learn(_holes(fragment, plan, states), states)
        elif plan.others:
            fragment.tables.leave_out(columns.numbers[at] for at in plan.others)
        else:
            return RangedRows(columns, plan, None)
    return NO_ROWS


def loads_of_range(
    fragment: OpenFragment, parts: Sequence[tuple[int, int]], states: States
) -> Iterator[Plan[None]]:
    """Plans of what must be known before parts of neighbouring rows can be placed: at most one
    round.

    Small pages inside a part are left out: `read_ranges` gets them whole.

    Args:
        parts: ascending, none of them empty.
    """
    columns = fragment.tables.ranged
    if parts and columns.numbers:
        holes = _holes(fragment, columns.plan(joined(parts)), states)
        large = [hole for hole in holes if not _is_small(hole, parts)]
        for first in range(0, len(large), LEARNED_AT_ONCE):
            yield learn(large[first : first + LEARNED_AT_ONCE], states)


def loads_of_all(fragment: OpenFragment, states: States) -> list[Plan[None]]:
    """Plans of what must be known of all pages, small ones too, before any rows can be placed: at
    most one round for all."""
    columns = fragment.tables.ranged
    spans = [(0, fragment.num_rows)]
    if not fragment.num_rows or not columns.numbers:
        return []
    holes = _holes(fragment, columns.plan(spans), states)
    return [
        learn(holes[first : first + LEARNED_AT_ONCE], states)
        for first in range(0, len(holes), LEARNED_AT_ONCE)
    ]


def joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ascending spans; those that begin where the one before them ends are one with it."""
    runs: list[tuple[int, int]] = []
    for start, stop in spans:
        if runs and runs[-1][1] == start:
            start = runs.pop()[0]
        runs.append((start, stop))
    return runs


def read_ranges(
    fragment: OpenFragment, parts: Sequence[Sequence[tuple[int, int]]], states: States
) -> Plan[list[RangedRows]]:
    """Plan ranges of rows with their bytes, in parts that are decoded one by one. A small page
    inside of them all is read once, as a whole.

    Cost: one round where `loads_of_range` told of the pages, else two.

    Args:
        parts: the ranges of each; all of them ascending, none of them empty.
    """
    content, spans = PageBytes(), joined(chain.from_iterable(parts))
    while spans and (columns := fragment.tables.ranged).numbers:
        plan = columns.plan(spans)
        holes = _holes(fragment, plan, states)
        if holes:
            loads, large = [content.read(columns, plan)], []
            for hole in holes:
                if _is_small(hole, spans):
                    loads.append(_read_whole(hole, content))
                else:
                    large.append(hole)
            if large:
                loads.append(learn(large, states))
            yield from together(loads)
        elif plan.unknown:
            continue  # the caches knew them
        elif plan.others:
            fragment.tables.leave_out(columns.numbers[at] for at in plan.others)
        else:
            yield from content.read(columns, plan)
            plans = [plan] if len(parts) == 1 else [*map(columns.plan, parts)]
            files = content.files(columns)
            return [RangedRows(columns, of_part, files) for of_part in plans]
    return [NO_ROWS] * len(parts)


def _holes(fragment: OpenFragment, plan: _kernels.RangePlan, states: States) -> list[Hole]:
    """The pages that neither the tables nor the caches know."""
    numbers = fragment.tables.ranged.numbers
    holes = [Hole(fragment.tables, numbers[column], page) for column, page in plan.unknown]
    return fill_known(holes, states)


def _is_small(hole: Hole, spans: Sequence[tuple[int, int]]) -> bool:
    """Whether a page lies inside of a range of rows, and is read whole."""
    column = hole.leaf.column
    assert isinstance(column, OpenColumn)
    first, last = column.column.first_rows[hole.number : hole.number + 2].tolist()
    at = bisect_right(spans, (first, sys.maxsize)) - 1  # of the span that it begins in
    return (
        at >= 0
        and last <= spans[at][1]
        and column.is_read_whole(hole.number, 0, last - first)
        and not column.container.is_whole
        and isinstance(column.layout(hole.number), MiniBlockPage)
    )


def _read_whole(hole: Hole, content: PageBytes) -> Plan[None]:
    """Plan all of a small page: one round. Its state is not worth keeping elsewhere."""
    column = hole.leaf.column
    assert isinstance(column, OpenColumn)
    layout = column.layout(hole.number)
    assert isinstance(layout, MiniBlockPage)
    chunks = layout.place.whole(CHUNKS)
    *buffers, of_chunks = yield from fetch([*layout.state_ranges(), chunks])
    try:
        hole.fill(layout.state_of(buffers))
    except AlanceError as error:
        column.add_place(error, hole.number)
        raise
    content.add(chunks.path, chunks.start, of_chunks)
