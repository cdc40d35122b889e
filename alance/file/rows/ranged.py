"""Plans for ranges of rows of an open fragment; one kernel call decodes all fields that it can.

A scan reads a fragment in parts, and a lookup reads some pages of an index. One kernel call lists
the bytes that a part needs, and another call decodes them into a record batch. So the Python work
per part does not depend on the number of columns. Fields of 2.0 and
0.1 that the kernel cannot decode are planned and decoded separately.
"""

from __future__ import annotations

from itertools import chain, pairwise, product
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from alance import _kernels
from alance.errors import CorruptFileError
from alance.file.open.new_pages import MOST_BYTES, PAGE_GAP_BYTES, PAGES_A_TURN, new_pages
from alance.file.rows.placed_columns import PlacedColumns, PlacedRows
from alance.format.plans import TURN, ByteRange, Pieces, joined_spans, together

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from alance.file.open.columns import States
    from alance.file.open.new_pages import NewPages
    from alance.file.rows.field_forms import FieldForms
    from alance.file.rows.fragment import OpenFragment
    from alance.format.container import Container
    from alance.format.plans import Plan

FEW_PIECES: Final = 16  # maximum number of pieces to request as ranges even if small
LARGE_BYTES: Final = 32 << 10  # mean piece size above which a copy costs more than a request
_PATH = attrgetter("path")


class PageBytes:
    """Bytes read from the pages of files; each byte is requested once."""

    def __init__(self, containers: Iterable[Container]) -> None:
        self._containers = {container.path: container for container in containers}
        self._files = {
            path: _kernels.HeldFile([0], [container.content])
            if container.is_whole
            else _kernels.HeldFile([], [])
            for path, container in self._containers.items()
        }

    def of(self, paths: Sequence[str]) -> list[_kernels.HeldFile]:
        """Return the bytes read so far of the files at these paths."""
        return [*map(self._files.__getitem__, paths)]

    def read(self, ranges: Sequence[ByteRange]) -> Plan[None]:
        """Plan ranges: one round."""
        for part, content in zip(ranges, (yield ranges), strict=True):
            kept_bytes = memoryview(content.obj).nbytes  # of the response that it is a part of
            self._files[part.path].add(part.start, content, kept_bytes)

    def read_rows(
        self, plan: _kernels.RowPlan, paths: Sequence[str], *, places: bool = False
    ) -> Plan[None]:
        """Plan the bytes that a row plan needs and that were not read yet: at most one round.

        Few or large pieces are requested as ranges, and used without a copy. Many small pieces are
        requested as one buffer per file, because a range costs about as much as a request.

        Args:
            paths: file of each table of the row plan.
            places: True to read the index entries that the row plan lacks, instead of its rows.
        """
        numbers = dict(zip(self._files, range(len(self._files)), strict=True))
        files = [*map(numbers.__getitem__, paths)]
        ends, starts, stops = plan.missing([*self._files.values()], files, PAGE_GAP_BYTES, places)
        by_path = [
            (path, starts[first:end], stops[first:end])
            for path, (first, end) in zip(self._files, pairwise([0, *ends]), strict=True)
            if first < end and not self._containers[path].is_whole
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
            yield from self.read(parts)
        else:
            contents = yield [Pieces.of(*of_file) for of_file in by_path]
            for content, (path, first, last) in zip(contents, by_path, strict=True):
                self._files[path].add_pieces(first, last, content)


def _placed(
    fragment: OpenFragment, spans: Sequence[tuple[int, int]], content: PageBytes | None = None
) -> tuple[FieldForms, _kernels.RowPlan] | None:
    """Place ranges of rows by the page tables of a fragment.

    Returns None if there are no ranges, or no fields that the kernel builds.

    Args:
        spans: ascending, not empty.
        content: bytes read so far.

    Raises:
        CorruptFileError: the pages contradict each other or their fields.
    """
    if not (spans and (fields := fragment.forms).forms):
        return None
    plan = _plan(fragment, fields, spans, content)
    fields.check(plan, _paths(fragment, fields))
    return fields, plan


def _plan(
    fragment: OpenFragment,
    fields: FieldForms,
    spans: Sequence[tuple[int, int]],
    content: PageBytes | None,
) -> _kernels.RowPlan:
    held = [] if content is None else content.of(_paths(fragment, fields))
    try:
        return _kernels.plan_spans([fragment.tables], fields.leaves, spans, [len(spans)], held)
    except ValueError as error:
        paths = ", ".join(dict.fromkeys(_paths(fragment, fields)))
        raise CorruptFileError(f"{paths}: {error}") from error


def _containers(fragment: OpenFragment, fields: FieldForms) -> Iterator[Container]:
    """Return the file of each leaf of some fields."""
    return map(fragment.containers.__getitem__, fields.leaves)


def _paths(fragment: OpenFragment, fields: FieldForms) -> list[str]:
    """Return the path of the file of each leaf of some fields."""
    return [*map(_PATH, map(fragment.containers.__getitem__, fields.leaves))]


def _columns(
    fragment: OpenFragment,
    fields: FieldForms,
    plan: _kernels.RowPlan,
    files: Sequence[_kernels.HeldFile] | None = None,
) -> PlacedColumns:
    rows = PlacedRows(plan, _paths(fragment, fields), files)
    return PlacedColumns(rows, fields, range(len(fields.leaves)))


def place_range(
    fragment: OpenFragment, start: int, stop: int, states: States
) -> Plan[PlacedColumns | None]:
    """Plan the positions of a range of rows, without reading their bytes.

    Returns None if the range is empty, or if the kernel can build no field.

    Cost: no round if page states are known, else one; one more if a page's index is too large to
    hold in memory.
    """
    content: PageBytes | None = None
    while placed := _placed(fragment, [(start, stop)] if start < stop else (), content):
        fields, plan = placed
        if unknown := plan.unknown:
            pages = yield from _new_pages(fragment, fields, unknown, states)
            if (yield from pages.fill_known()):
                yield from pages.learn()
        elif plan.lacks_places:
            content = content or PageBytes(_containers(fragment, fields))
            yield from content.read_rows(plan, _paths(fragment, fields), places=True)
        else:
            return _columns(fragment, fields, plan)
    return None


def loads_of_range(
    fragment: OpenFragment, parts: Sequence[tuple[int, int]], states: States
) -> Iterator[Plan[None]]:
    """Yield plans for the unknown page states of parts of the rows; together, at most one round.

    Each plan is short, so that other tasks can run in between. Skips small pages inside a part,
    because `read_ranges` reads them completely.

    Args:
        parts: ranges of rows, ascending, not empty.
    """
    placed = _placed(fragment, joined_spans(parts))
    if placed is not None:
        yield _load(fragment, *placed, states, besides=parts)


def loads_of_all(
    fragment: OpenFragment, states: States, most_bytes: int | None = None
) -> list[Plan[None]]:
    """Return plans for the unknown states of all pages, including small ones; at most one round.

    Args:
        most_bytes: maximum bytes of a state to load; None for no limit.
    """
    placed = _placed(fragment, [(0, fragment.num_rows)] if fragment.num_rows else ())
    return [] if placed is None else [_load(fragment, *placed, states, most_bytes=most_bytes)]


def read_ranges(
    fragment: OpenFragment, parts: Sequence[Sequence[tuple[int, int]]], states: States
) -> Plan[list[PlacedColumns] | None]:
    """Plan ranges of rows with their bytes, in parts that are decoded separately.

    A small page inside the ranges is read once, completely. Returns None if there are no ranges, or
    if the kernel can build no field.

    Cost: one round if the plans of `loads_of_range` have run, else two; one more if a page's index
    is too large to hold in memory.

    Args:
        parts: ranges of each part; ascending over all parts, not empty.
    """
    content: PageBytes | None = None
    is_much = False
    spans = joined_spans(chain.from_iterable(parts))
    while placed := _placed(fragment, spans, content):
        fields, plan = placed
        paths = _paths(fragment, fields)
        content = content or PageBytes(_containers(fragment, fields))
        if unknown := plan.unknown:
            pages = yield from _new_pages(fragment, fields, unknown, states)
            small = yield from pages.small(spans)
            if missing := (yield from pages.fill_known()):
                loads = [content.read_rows(plan, paths), pages.learn()]
                if rest := (yield from pages.rest([*{*missing}.intersection(small)])):
                    loads.append(content.read(rest))
                yield from together(loads)
            if is_much := len(unknown) > PAGES_A_TURN:
                yield TURN
            continue
        if plan.lacks_places:  # also of the rows between two parts
            every = [*chain.from_iterable(parts)]
            plan = _plan(fragment, fields, every, content)
            yield from content.read_rows(plan, paths, places=True)
            continue
        if is_much:
            yield TURN
        yield from content.read_rows(plan, paths)
        plans = [plan]
        if len(parts) > 1:
            plans = [_plan(fragment, fields, part, content) for part in parts]
        return [_columns(fragment, fields, own, content.of(paths)) for own in plans]
    return None


def _new_pages(
    fragment: OpenFragment,
    fields: FieldForms,
    unknown: Sequence[tuple[int, int]],
    states: States,
) -> Plan[NewPages]:
    """Wrap pages of unknown state, which belong to leaves of `fields`; no round."""
    owners = [*product(fields.leaves, [fragment])]
    return (yield from new_pages(owners, unknown, states))


def _load(
    fragment: OpenFragment,
    fields: FieldForms,
    plan: _kernels.RowPlan,
    states: States,
    besides: Sequence[tuple[int, int]] = (),
    most_bytes: int | None = None,
) -> Plan[None]:
    """Plan the states of the unknown pages of a row plan; at most one round.

    Args:
        besides: ranges of rows; small pages inside one of them are skipped.
        most_bytes: maximum bytes of a state to load; None for no limit.
    """
    pages = yield from _new_pages(fragment, fields, plan.unknown, states)
    skipped = {*(yield from pages.small(besides))}
    missing = [
        pages.unknown[at]
        for at in (yield from pages.fill_known())
        if at not in skipped and (most_bytes is None or pages.num_bytes(at) <= most_bytes)
    ]
    pages = yield from _new_pages(fragment, fields, missing, states)
    yield from pages.learn()
