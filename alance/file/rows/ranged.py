"""Plans for ranges of rows of an open fragment; one kernel call decodes all fields that it can.

A scan reads a fragment in parts, and a lookup reads some pages of an index. One kernel call lists
the bytes that a part needs, and another call decodes them into a record batch. So the Python work
per part does not depend on the number of columns. Fields of 2.0 and
0.1 that the kernel cannot decode are planned and decoded separately.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from alance.file.open.new_pages import PAGES_A_TURN
from alance.file.rows.placing import PageBytes, Placing, unknown_pages
from alance.format.plans import TURN, joined_spans, together

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alance import _kernels
    from alance.file.open.columns import States
    from alance.file.rows.fragment import OpenFragment
    from alance.file.rows.placed_columns import PlacedColumns
    from alance.format.plans import Plan


def _placed(
    fragment: OpenFragment, spans: Sequence[tuple[int, int]], content: PageBytes | None = None
) -> tuple[Placing, _kernels.RowPlan] | None:
    """Place ranges of rows by the page tables of a fragment.

    Returns None if there are no ranges, or no fields that the kernel builds.

    Args:
        spans: ascending, not empty.
        content: bytes read so far.

    Raises:
        CorruptFileError: the pages contradict each other.
    """
    if not (spans and (fields := fragment.forms).forms):
        return None
    placing = Placing.of([fragment], spans, [len(spans)], fields)
    return placing, placing.place(content)


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
        yield _load(*placed, states, besides=parts)


def loads_of_all(
    fragment: OpenFragment, states: States, most_bytes: int | None = None
) -> list[Plan[None]]:
    """Return plans for the unknown states of all pages, including small ones; at most one round.

    Args:
        most_bytes: maximum bytes of a state to load; None for no limit.
    """
    placed = _placed(fragment, [(0, fragment.num_rows)] if fragment.num_rows else ())
    return [] if placed is None else [_load(*placed, states, most_bytes=most_bytes)]


def read_ranges(
    fragment: OpenFragment,
    parts: Sequence[Sequence[tuple[int, int]]],
    states: States,
    *,
    is_read: bool = True,
) -> Plan[list[PlacedColumns] | None]:
    """Plan ranges of rows with their bytes, in parts that are decoded separately.

    A small page inside the ranges is read once, completely. Returns None if there are no ranges, or
    if the kernel can build no field.

    Cost: one round if the plans of `loads_of_range` have run, else two; one more if a page's index
    is too large to hold in memory.

    Args:
        parts: ranges of each part; ascending over all parts, not empty.
        is_read: False to find where the bytes are, without reading them; the last round is saved.
    """
    content: PageBytes | None = None
    is_much = False
    spans = joined_spans(chain.from_iterable(parts))
    while placed := _placed(fragment, spans, content):
        placing, plan = placed
        paths = placing.paths
        content = content or PageBytes(placing.containers)
        if unknown := plan.unknown:
            pages = yield from unknown_pages([placing], [unknown], states)
            small = yield from pages.small(spans)
            if missing := (yield from pages.fill_known()):
                loads = [pages.learn()]
                if is_read:
                    loads.append(content.read_rows(plan, paths))
                    if rest := (yield from pages.rest([*{*missing}.intersection(small)])):
                        loads.append(content.read(rest))
                yield from together(loads)
            if is_much := len(unknown) > PAGES_A_TURN:
                yield TURN
            continue
        if plan.lacks_places:  # also of the rows between two parts
            every = [*chain.from_iterable(parts)]
            plan = placing._replace(rows=every, ends=[len(every)]).place(content)
            yield from content.read_rows(plan, paths, places=True)
            continue
        if is_much:
            yield TURN
        if is_read:
            yield from content.read_rows(plan, paths)
        plans = [plan]
        if len(parts) > 1:
            of_parts = [placing._replace(rows=part, ends=[len(part)]) for part in parts]
            plans = [own.place(content) for own in of_parts]
        return [placing.columns(own, content if is_read else None) for own in plans]
    return None


def _load(
    placing: Placing,
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
    pages = yield from unknown_pages([placing], [plan.unknown], states)
    skipped = {*(yield from pages.small(besides))}
    missing = [
        pages.unknown[at]
        for at in (yield from pages.fill_known())
        if at not in skipped and (most_bytes is None or pages.num_bytes(at) <= most_bytes)
    ]
    pages = yield from unknown_pages([placing], [missing], states)
    yield from pages.learn()
