"""Ranges of rows of an open fragment: all columns of plain values by one call of the kernel.

A scan reads a fragment part by part, an index some of its pages. The page tables of the columns say
which bytes a part needs, and one more call makes a record batch of them. What the kernel does not
take (nested fields, constant pages, older files) is planned and decoded column by column, beside.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from alance import _kernels
from alance.errors import AlanceError, UnsupportedError
from alance.file.batches import completed
from alance.file.columns import OpenColumn
from alance.file.page_tables import Hole, fill_known, learn
from alance.file.ranged_columns import NO_COLUMNS
from alance.format.layouts.miniblock import MiniBlockPage
from alance.format.layouts.miniblock_chunks import CHUNKS
from alance.format.layouts.paged_rows import RowPage
from alance.format.layouts.place import fetch
from alance.format.numbers import offsets_of
from alance.format.plans import Pieces, cut, together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from alance.file.columns import States
    from alance.file.fragment import OpenFragment
    from alance.file.ranged_columns import RangedColumns
    from alance.format.field import Field
    from alance.format.plans import ByteRange, Plan
    from alance.format.schema import Schema

LEARNED_AT_ONCE: Final = 64  # pages: a millisecond or two
FEW_PARTS: Final = 16  # as many as a read answers on the loop


class RangedRows(NamedTuple):
    """Ranges of rows of columns, and how they become arrays.

    Attributes:
        plan: None: there are no columns.
        contents: the bytes of each page of the plan; None: a source brings them.
    """

    columns: RangedColumns
    plan: _kernels.RangePlan | None
    contents: Sequence[memoryview] | None

    @property
    def numbers(self) -> Sequence[int]:
        """Of the leaves that are here."""
        return self.columns.numbers

    @property
    def num_bytes(self) -> int:
        """Encoded bytes at hand."""
        return sum(map(len, self.contents or ()))

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
            source: brings bytes of the files by their numbers, where there are no `contents`.

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
            if self.contents is not None:
                batch.decode(plan, self.contents)
            elif source is None or not batch.read(plan, self.columns.files, source):
                return None
        except OverflowError as error:
            raise UnsupportedError(f"{error}: read fewer rows at once") from error
        except ValueError as error:
            page = plan.page(batch.page)
            assert isinstance(page, RowPage)
            failure = page.place.corrupt(str(error))
            leaf = self.columns.leaves[int(plan.ranges[0][batch.page])]
            failure.add_note(f"in field {leaf.leaf.field.name!r}")
            raise failure from error
        return self.columns.imported(batch.address)


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
    fragment: OpenFragment, start: int, stop: int, states: States
) -> Iterator[Plan[None]]:
    """Plans of what must be known before neighbouring rows can be placed: at most one round.

    Small pages inside the range are left out: `read_range` gets them whole.
    """
    columns = fragment.tables.ranged
    if start < stop and columns.numbers:
        spans = [(start, stop)]
        holes = _holes(fragment, columns.plan(spans), states)
        large = [hole for hole in holes if not _is_small(hole, spans)]
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


def read_ranges(
    fragment: OpenFragment, spans: Sequence[tuple[int, int]], states: States
) -> Plan[RangedRows]:
    """Plan ranges of rows with their bytes.

    Cost: one round where `loads_of_range` told of the pages, else two.

    Args:
        spans: ascending, none of them empty.
    """
    contents: dict[tuple[str, int], memoryview] = {}  # by path and first byte
    while spans and (columns := fragment.tables.ranged).numbers:
        plan = columns.plan(spans)
        holes = _holes(fragment, plan, states)
        ranges = columns.ranges(plan)
        if holes:
            plans, large = [], []
            for hole in holes:
                if _is_small(hole, spans):
                    plans.append(_read_whole(hole, contents))
                else:
                    large.append(hole)
            if large:
                plans.append(learn(large, states))
            if ranges:
                plans.append(_read_parts(columns, ranges, contents))
            yield from together(plans)
        elif plan.unknown:
            continue  # the caches knew them
        elif plan.others:
            fragment.tables.leave_out(columns.numbers[at] for at in plan.others)
        else:
            yield from _read_parts(columns, ranges, contents)
            parts = [contents[part.path, part.start][: part.num_bytes] for part in ranges]
            return RangedRows(columns, plan, parts)
    return NO_ROWS


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


def _read_whole(hole: Hole, contents: dict[tuple[str, int], memoryview]) -> Plan[None]:
    """Plan all of a small page: one round. Its state is not worth keeping elsewhere."""
    column = hole.leaf.column
    assert isinstance(column, OpenColumn)
    layout = column.layout(hole.number)
    assert isinstance(layout, MiniBlockPage)
    chunks = layout.place.whole(CHUNKS)
    *buffers, content = yield from fetch([*layout.state_ranges(), chunks])
    try:
        hole.fill(layout.state_of(buffers))
    except AlanceError as error:
        column.add_place(error, hole.number)
        raise
    contents[chunks.path, chunks.start] = content


def _read_parts(
    columns: RangedColumns, ranges: Sequence[ByteRange], contents: dict[tuple[str, int], memoryview]
) -> Plan[None]:
    """Plan parts of pages that are not there yet: one round, none of files that are kept whole."""
    ranges = [part for part in ranges if (part.path, part.start) not in contents]
    kept = {leaf.column.container.path: leaf.column.container for leaf in columns.leaves}
    far = [part for part in ranges if not kept[part.path].is_whole]
    buffers = iter((yield from _fetch_parts(far)) if far else ())
    for part in ranges:
        container = kept[part.path]
        contents[part.path, part.start] = (
            cut(part, container.content, container.content_start)
            if container.is_whole
            else next(buffers)
        )


def _fetch_parts(parts: Sequence[ByteRange]) -> Plan[Sequence[memoryview]]:
    """Plan parts of files: one round. A few may join what others ask for; of many, which would each
    cost what a request costs, one buffer a file is asked for.
    """
    if len(parts) <= FEW_PARTS:
        return (yield parts)
    by_path: dict[str, list[int]] = {}
    for number, part in enumerate(parts):
        by_path.setdefault(part.path, []).append(number)
    asked, places = [], []
    for path, numbers in by_path.items():
        starts = np.array([parts[number].start for number in numbers], np.int64)
        stops = np.array([parts[number].stop for number in numbers], np.int64)
        order = np.argsort(starts, kind="stable")
        starts, reach = starts[order], np.maximum.accumulate(stops[order])
        # Parts that share a chunk overlap: they are cut from one piece.
        is_first = np.append(True, starts[1:] >= reach[:-1])
        pieces = Pieces.of(path, starts[is_first], reach[np.append(is_first[1:], True)])
        asked.append(pieces)
        piece = np.cumsum(is_first) - 1
        begins = offsets_of(pieces.stops - pieces.starts)[piece] + starts - pieces.starts[piece]
        places.append(zip(np.array(numbers)[order].tolist(), begins.tolist(), strict=True))
    buffers = [memoryview(b"")] * len(parts)
    for content, cuts in zip((yield asked), places, strict=True):
        for number, begin in cuts:
            buffers[number] = content[begin : begin + parts[number].num_bytes]
    return buffers
