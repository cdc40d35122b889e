"""Plans for ranges of rows of an open fragment; one kernel call decodes all fields that it can.

A scan reads a fragment in parts, and a lookup reads some pages of an index. One kernel call lists
the bytes that a part needs, and another call decodes them into a record batch. So the Python work
per part does not depend on the number of columns. Fields of 2.0 and
0.1 that the kernel cannot decode are planned and decoded separately.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from alance.file.open.new_pages import NewPages
from alance.file.rows.placing import PageBytes, Placing, complete_plans, unknown_pages
from alance.format.plans import TURN, joined_spans, together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.file.open.columns import States
    from alance.file.rows.fragment import OpenFragment
    from alance.file.rows.placed_columns import PlacedColumns
    from alance.format.plans import Plan


def load_states(
    fragment: OpenFragment,
    spans: Sequence[tuple[int, int]],
    states: States,
    *,
    with_small: bool = False,
    most_bytes: int | None = None,
) -> Plan[None]:
    """Plan the unknown page states of ranges of rows: at most one round.

    Args:
        spans: ascending, not empty.
        with_small: False to skip small pages inside a range, because `read_ranges` reads these
            whole.
        most_bytes: maximum bytes of a state to load; None for no limit.
    """
    rows, fields = joined_spans(spans), fragment.forms
    if not (rows and fields.forms):
        return
    placing = Placing.of([fragment], rows, [len(rows)], fields)
    loads: list[Plan[None]] = []
    for pages in (yield from unknown_pages([placing], [placing.place().unknown], states)):
        if loads:
            yield TURN
        far = pages.fill_known()
        skipped = () if with_small else {*pages.small(spans)}
        chosen = [
            number
            for number in far
            if number not in skipped
            and (most_bytes is None or pages.num_bytes(number) <= most_bytes)
        ]
        if len(chosen) < len(far):
            pages = NewPages(pages.owners, [pages.unknown[number] for number in chosen], states)
            yield from pages.find()
        loads.append(pages.learn())
    yield from together(loads)


def page_states(
    fragment: OpenFragment, states: States, most_bytes: int | None = None
) -> Plan[None]:
    """Plan the unknown page states of all rows; see `load_states`."""
    rows = [(0, fragment.num_rows)] if fragment.num_rows else []
    return load_states(fragment, rows, states, with_small=True, most_bytes=most_bytes)


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

    Cost: one round if the plans of `load_states` have run, else two; one more if a page's index is
    too large to hold in memory.

    Args:
        parts: ranges of each part; ascending over all parts, not empty.
        is_read: False to find where the bytes of a single part are, without reading them; the last
            round is saved.
    """
    rows, fields = [*chain.from_iterable(parts)], fragment.forms
    if not (rows and fields.forms):
        return None
    placing = Placing.of([fragment], rows, [len(rows)], fields)
    content = PageBytes(placing.containers) if is_read else None
    plans, _ = yield from complete_plans([placing], states, content, spans=joined_spans(rows))
    if content is not None:
        yield from content.read_rows(plans[0], placing.paths)
    if len(parts) > 1:
        of_parts = [placing._replace(rows=part, ends=[len(part)]) for part in parts]
        plans = [own.place(content) for own in of_parts]
    return [placing.columns(own, content) for own in plans]
