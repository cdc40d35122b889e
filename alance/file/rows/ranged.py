"""Plans for ranges of rows of an open fragment; one kernel call decodes all fields that it can.

A scan reads a fragment in parts, and a lookup reads some pages of an index. One kernel call lists
the bytes that a part needs, and another call decodes them into a record batch. So the Python work
per part does not depend on the number of columns. Leaves that the kernel cannot decode (large
values, some kinds of pages) are planned and decoded separately, column by column.
"""

from __future__ import annotations

from itertools import chain, pairwise, product
from typing import TYPE_CHECKING, Final

from alance import _kernels
from alance.errors import CorruptFileError
from alance.file.open.new_pages import MOST_BYTES, PADDING, NewPages
from alance.file.rows.placed_columns import PlacedColumns, PlacedRows
from alance.format.plans import ByteRange, Pieces, joined_spans, together

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alance.file.open.columns import States
    from alance.file.open.page_tables import PageTables, RangeTables
    from alance.file.rows.fragment import OpenFragment
    from alance.format.container import Container
    from alance.format.plans import Plan

LEARNED_AT_ONCE: Final = 64  # pages learned by one plan: a millisecond or two
FEW_PIECES: Final = 16  # as many as a read answers on the loop
LARGE_BYTES: Final = 32 << 10  # mean piece from which a copy costs more than a request of its own


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

    def hold(self, ranges: Sequence[ByteRange]) -> Plan[None]:
        """Plan ranges of the files: one round, or none if there are no ranges."""
        for part, content in zip(ranges, (yield ranges) if ranges else (), strict=True):
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
            yield from self.hold(
                [
                    ByteRange(path, begin, min(begin + MOST_BYTES, stop))
                    for path, first, last in by_path
                    for start, stop in zip(first.tolist(), last.tolist(), strict=True)
                    for begin in range(start, stop, MOST_BYTES)
                ]
            )
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
                small = content.hold(pages.small_ranges(missing, spans))
                yield from together([content.read(plan, tables), pages.learn(states), small])
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
    missing = [pages.unknown[at] for at in pages.large(pages.fill_known(states), besides)]
    for first in range(0, len(missing), LEARNED_AT_ONCE):
        yield NewPages(owners, missing[first : first + LEARNED_AT_ONCE]).learn(states)
