"""Ranges of rows of an open fragment: all columns of plain values by one call of the kernel.

A scan reads a fragment in parts, and a lookup some pages of an index. The columns' page tables say
which bytes a part needs, and one more kernel call makes a record batch of them. So a part costs the
same in Python for any number of columns. What the kernel does not handle (nested fields, constant
pages, older files) is planned and decoded beside it, column by column.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from alance import _kernels
from alance.errors import AlanceError, BatchTooLargeError
from alance.file.batches import completed
from alance.file.columns import OpenColumn
from alance.file.page_tables import Hole, fill_known, learn
from alance.file.ranged_columns import NO_COLUMNS, imported
from alance.format.layouts.miniblock import MiniBlockPage
from alance.format.layouts.miniblock_chunks import CHUNKS
from alance.format.layouts.paged_rows import RowPage
from alance.format.layouts.place import fetch
from alance.format.plans import ByteRange, Pieces, joined_spans, together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from alance.file.columns import States
    from alance.file.fragment import OpenFragment
    from alance.file.ranged_columns import RangedColumns
    from alance.format.field import Field
    from alance.format.plans import Plan
    from alance.format.schema import Schema

LEARNED_AT_ONCE: Final = 64  # pages: a millisecond or two
FEW_PIECES: Final = 16  # as many as a read answers on the loop
LARGE_BYTES: Final = 32 << 10  # of a piece: to copy it costs more than to ask for it by itself
MOST_BYTES: Final = 4 << 20  # of a range: what lies in two requests is copied on the loop
PADDING: Final = 64  # bytes: no file has more between neighbouring pages


class RangedRows(NamedTuple):
    """Ranges of rows of columns, and how they become arrays.

    Attributes:
        plan: None: there are no columns.
        source: brings bytes of the files of the columns, by their numbers.
    """

    columns: RangedColumns
    plan: _kernels.RangePlan | None
    source: _kernels.Source | None

    @property
    def numbers(self) -> Sequence[int]:
        """Of the leaves that are here."""
        return self.columns.numbers

    @property
    def num_bytes(self) -> int:
        """Encoded bytes."""
        return 0 if self.plan is None else self.plan.num_bytes

    def ranges(self) -> Sequence[ByteRange]:
        """Where the bytes of each page of the plan are."""
        return () if self.plan is None else self.columns.ranges(self.plan)

    def batch(
        self, schema: Schema, column: Callable[[Field], pa.Array | None]
    ) -> pa.RecordBatch | None:
        """The batch of a schema; None where a source of files fails or a column is None.

        Args:
            column: gives each column that is not here.

        Raises:
            CorruptFileError: bytes that contradict the format.
            UnsupportedError: more bytes of strings than 32-bit offsets can say.
        """
        if self.plan is None:
            return completed(schema, (), column)
        ranged = self._decode(self.plan)
        if ranged is None:
            return None
        fields = [leaf.leaf.field for leaf in self.columns.leaves]
        return completed(schema, [(fields, ranged)], column)

    def _decode(self, plan: _kernels.RangePlan) -> pa.RecordBatch | None:
        batch = _kernels.RangeBatch()
        assert self.source is not None
        try:
            if not batch.read(plan, self.columns.files, self.source):
                if not isinstance(self.source, _kernels.HeldSource):
                    return None
                raise ValueError("bytes that the file has not")
        except OverflowError as error:
            raise BatchTooLargeError(f"{error}: read fewer rows at once") from error
        except ValueError as error:
            page = plan.page(batch.page)
            assert isinstance(page, RowPage)
            failure = page.place.corrupt(str(error))
            leaf = self.columns.leaves[int(plan.ranges[0][batch.page])]
            failure.add_note(f"in field {leaf.leaf.field.name!r}")
            raise failure from error
        return imported(batch.address, self.columns.schema, self.columns.stored)


class PageBytes:
    """What was read of the pages of some files; each part is asked for once."""

    def __init__(self) -> None:
        self._files: dict[str, _kernels.HeldFile] = {}

    def source(self, columns: RangedColumns) -> _kernels.HeldSource:
        """What brings the bytes of the files of columns, by their numbers."""
        return _kernels.HeldSource(self._of(columns))

    def _of(self, columns: RangedColumns) -> list[_kernels.HeldFile]:
        files = []
        for path in columns.paths:
            file = self._files.get(path)
            if file is None:
                container = columns.containers[path]
                begins, contents = [], []
                if container.is_whole:
                    begins, contents = [0], [container.content]
                file = self._files[path] = _kernels.HeldFile(begins, contents)
            files.append(file)
        return files

    def add(self, path: str, start: int, content: memoryview) -> None:
        """Keep bytes of a file that is not kept whole."""
        file = self._files.setdefault(path, _kernels.HeldFile([], []))
        file.add(start, content)

    def read(self, columns: RangedColumns, plan: _kernels.RangePlan) -> Plan[None]:
        """Plan the bytes of pages that are not here yet: one round. Few or large pieces are used
        where they were read; of many small ones, which would each cost what a request costs, one
        buffer a file is asked for.
        """
        ends, starts, stops = plan.missing(self._of(columns), columns.files, PADDING)
        by_path = [
            (path, starts[first:end], stops[first:end])
            for path, (first, end) in zip(columns.paths, pairwise([0, *ends]), strict=True)
            if first < end and not columns.containers[path].is_whole
        ]
        if not by_path:
            return
        if len(starts) <= FEW_PIECES or (stops - starts).sum() >= LARGE_BYTES * len(starts):
            parts = [
                ByteRange(path, begin, min(begin + MOST_BYTES, stop))
                for path, first, last in by_path
                for start, stop in zip(first.tolist(), last.tolist(), strict=True)
                for begin in range(start, stop, MOST_BYTES)
            ]
            for part, content in zip(parts, (yield parts), strict=True):
                self._files[part.path].add(part.start, content)
        else:
            contents = yield [Pieces.of(*of_file) for of_file in by_path]
            for content, (path, first, last) in zip(contents, by_path, strict=True):
                self._files[path].add_pieces(first, last, content)


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
        holes = _holes(fragment, columns.plan(joined_spans(parts)), states)
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


def read_ranges(
    fragment: OpenFragment, parts: Sequence[Sequence[tuple[int, int]]], states: States
) -> Plan[list[RangedRows]]:
    """Plan ranges of rows with their bytes, in parts that are decoded one by one. A small page
    inside of them all is read once, as a whole.

    Cost: one round where `loads_of_range` told of the pages, else two.

    Args:
        parts: the ranges of each; all of them ascending, none of them empty.
    """
    content, spans = PageBytes(), joined_spans(chain.from_iterable(parts))
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
            return [RangedRows(columns, of_part, content.source(columns)) for of_part in plans]
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
