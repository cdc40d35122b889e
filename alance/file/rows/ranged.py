"""Plans for ranges of rows of an open fragment; one kernel call decodes all fields that it can.

A scan reads a fragment in parts, and a lookup reads some pages of an index. One kernel call lists
the bytes that a part needs, and another call decodes them into a record batch. So the Python work
per part does not depend on the number of columns. Leaves that the kernel cannot decode (large
values, some kinds of pages) are planned and decoded separately, column by column.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from itertools import chain, pairwise, product
from typing import TYPE_CHECKING, Final

from alance import _kernels
from alance.errors import CorruptFileError
from alance.file.open.columns import OpenColumn
from alance.file.open.new_pages import NewPages
from alance.file.rows.placed_columns import PlacedColumns, PlacedRows
from alance.format.coalesce import coalesce
from alance.format.plans import ByteRange, Pieces, joined_spans, together

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence, Set

    from alance.file.open.columns import States
    from alance.file.open.page_tables import Hole, PageTables, RangeTables
    from alance.file.rows.fragment import OpenFragment
    from alance.format.container import Container
    from alance.format.plans import Plan

LEARNED_AT_ONCE: Final = 64  # pages whose states one plan loads: one or two milliseconds
FEW_PIECES: Final = 16  # pieces; the event loop answers reads of at most as many
# Bytes; copying pieces of at least this mean size costs more than separate requests.
LARGE_BYTES: Final = 32 << 10
# Bytes of the longest range, because the event loop copies a range that spans two requests.
MOST_BYTES: Final = 4 << 20
PADDING: Final = 64  # bytes; adjacent pages of a file have no wider gaps


class PageBytes:
    """Bytes read from the pages of files; each byte is requested once."""

    def __init__(self, containers: Sequence[Container]) -> None:
        self._containers = containers
        self._files = {
            container.path: _kernels.HeldFile([0], [container.content])
            if container.is_whole
            else _kernels.HeldFile([], [])
            for container in containers
        }

    def of(self, tables: RangeTables) -> list[_kernels.HeldFile]:
        """Return the bytes in memory of each column's file.

        These files must be among those of this object.
        """
        return [*map(self._files.__getitem__, tables.paths)]

    def read_whole(self, holes: Sequence[Hole], learned: Set[tuple[str, int, int]]) -> Plan[None]:
        """Plan all buffers of small pages in one round, except those in `learned`.

        Args:
            holes: the pages.
            learned: ranges (path, start, stop) that are read to load page states.
        """
        spans: dict[str, list[tuple[int, int]]] = {}
        for hole in holes:
            place = hole.place
            spans.setdefault(place.path, []).extend(
                (start, start + size)
                for start, size in place.buffers
                if size and (place.path, start, start + size) not in learned
            )
        parts = [
            ByteRange(path, *span)
            for path, own in spans.items()
            for span in coalesce(own, PADDING, MOST_BYTES).spans
        ]
        for part, content in zip(parts, (yield parts) if parts else (), strict=True):
            self._files[part.path].add(part.start, content)

    def read(self, plan: _kernels.RowPlan, tables: RangeTables) -> Plan[None]:
        """Plan the bytes that a row plan needs and that are not in memory; at most one round.

        Few or large pieces are requested as ranges, and used without a copy. Many small pieces are
        requested as one buffer per file, because a range costs about as much as a request.

        Args:
            tables: tables of the row plan.
        """
        numbers = dict(zip(self._files, range(len(self._files)), strict=True))
        files = [*map(numbers.__getitem__, tables.paths)]
        ends, starts, stops = plan.missing([*self._files.values()], files, PADDING)
        by_path = [
            (container.path, starts[first:end], stops[first:end])
            for container, (first, end) in zip(self._containers, pairwise([0, *ends]), strict=True)
            if first < end and not container.is_whole
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


def _placed(
    fragment: OpenFragment, spans: Sequence[tuple[int, int]]
) -> tuple[RangeTables, _kernels.RowPlan] | None:
    """Place ranges of rows by the page tables of a fragment.

    Returns None if there are no ranges, or if the kernel can build no field. The tables omit fields
    whose pages do not have values of the field's type.

    Args:
        spans: ascending, not empty.

    Raises:
        CorruptFileError: the pages contradict each other.
    """
    while spans and (tables := fragment.tables.ranged).fields.forms:
        plan = _plan(tables, spans)
        unfit = tables.fields.unfit(plan, tables.columns)
        if not unfit:
            return tables, plan
        fragment.tables.leave_out(unfit)
    return None


def _plan(tables: RangeTables, spans: Sequence[tuple[int, int]]) -> _kernels.RowPlan:
    try:
        return _kernels.plan_spans(tables.tables, spans, [len(spans)])
    except ValueError as error:
        paths = ", ".join(container.path for container in tables.containers)
        raise CorruptFileError(f"{paths}: {error}") from error


def place_range(
    fragment: OpenFragment, start: int, stop: int, states: States
) -> Plan[PlacedColumns | None]:
    """Plan the positions of a range of rows, without reading their bytes.

    Returns None if the range is empty, or if the kernel can build no field.

    Cost: no round if page states are known, else one.
    """
    while placed := _placed(fragment, [(start, stop)] if start < stop else ()):
        tables, plan = placed
        if not plan.unknown:
            return PlacedColumns(PlacedRows(plan, tables.paths), tables.fields, tables.columns)
        pages = NewPages(_owners(fragment, tables), plan.unknown)
        if pages.fill_known(states):
            yield from pages.learn(states)
    return None


def loads_of_range(
    fragment: OpenFragment, parts: Sequence[tuple[int, int]], states: States
) -> Iterator[Plan[None]]:
    """Yield plans for the unknown page states of parts of the rows; together, at most one round.

    Skips small pages inside a part, because `read_ranges` reads them completely.

    Args:
        parts: ranges of rows, ascending, not empty.
    """
    placed = _placed(fragment, joined_spans(parts))
    if placed is not None:
        yield from _loads(fragment, *placed, states, besides=parts)


def loads_of_all(fragment: OpenFragment, states: States) -> list[Plan[None]]:
    """Return plans for the unknown states of all pages, including small ones; at most one round."""
    placed = _placed(fragment, [(0, fragment.num_rows)] if fragment.num_rows else ())
    return [] if placed is None else [*_loads(fragment, *placed, states)]


def read_ranges(
    fragment: OpenFragment, parts: Sequence[Sequence[tuple[int, int]]], states: States
) -> Plan[list[PlacedColumns] | None]:
    """Plan ranges of rows with their bytes, in parts that are decoded separately.

    A small page inside the ranges is read once, completely. Returns None if there are no ranges, or
    if the kernel can build no field.

    Cost: one round if the plans of `loads_of_range` have run, else two.

    Args:
        parts: ranges of each part; ascending over all parts, not empty.
    """
    content: PageBytes | None = None
    spans = joined_spans(chain.from_iterable(parts))
    while placed := _placed(fragment, spans):
        tables, plan = placed
        if content is None:
            content = PageBytes(tables.containers)
        if plan.unknown:
            pages = NewPages(_owners(fragment, tables), plan.unknown)
            if missing := pages.fill_known(states):
                holes = map(pages.hole, missing)
                small = [hole for hole in holes if _is_small(hole, spans)]
                loads = [content.read(plan, tables), pages.learn(states)]
                if small:
                    loads.append(content.read_whole(small, pages.state_ranges()))
                yield from together(loads)
            continue
        yield from content.read(plan, tables)
        files = content.of(tables)
        plans = [plan] if len(parts) == 1 else [_plan(tables, of_part) for of_part in parts]
        return [
            PlacedColumns(PlacedRows(own, tables.paths, files), tables.fields, tables.columns)
            for own in plans
        ]
    return None


def _owners(fragment: OpenFragment, tables: RangeTables) -> list[tuple[int, PageTables]]:
    """Return pairs of each table's leaf number and `PageTables`, for `NewPages`."""
    return [*product(tables.fields.leaves, [fragment.tables])]


def _loads(
    fragment: OpenFragment,
    tables: RangeTables,
    plan: _kernels.RowPlan,
    states: States,
    besides: Sequence[tuple[int, int]] = (),
) -> Iterator[Plan[None]]:
    """Yield plans for the unknown pages of a row plan, each for up to `LEARNED_AT_ONCE` pages.

    States in a cache are loaded immediately, without a plan.

    Args:
        besides: ranges of rows; small pages inside one of them are skipped.
    """
    owners = _owners(fragment, tables)
    pages = NewPages(owners, plan.unknown)
    missing = [
        pages.unknown[at]
        for at in pages.fill_known(states)
        if not (besides and _is_small(pages.hole(at), besides))
    ]
    for first in range(0, len(missing), LEARNED_AT_ONCE):
        yield NewPages(owners, missing[first : first + LEARNED_AT_ONCE]).learn(states)


def _is_small(hole: Hole, spans: Sequence[tuple[int, int]]) -> bool:
    """True for a small mini-block page inside one of the ranges, which is read completely."""
    column = hole.leaf.column
    assert isinstance(column, OpenColumn)
    first, last = column.column.first_rows[hole.number : hole.number + 2].tolist()
    at = bisect_right(spans, (first, sys.maxsize)) - 1  # index of the span in which the page starts
    return (
        at >= 0
        and last <= spans[at][1]
        and column.is_read_whole(hole.number, 0, last - first)
        and not column.container.is_whole
    )
