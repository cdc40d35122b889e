"""Plans that locate and read single rows of open fragments.

Every take uses `placed_rows`. One kernel call places rows: it looks them up in all page tables of
similar fragments, and returns the bytes to read, and the pages of unknown state. Those states are
read from the caches, or in another round. On stores where a round is expensive, the positions of
rows in these pages are guessed instead. Leaves without a page table have separate plans, which run
concurrently.
"""

from __future__ import annotations

from itertools import accumulate, chain, groupby, pairwise
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from alance.file.rows.field_forms import FieldForms
from alance.file.rows.placing import PageBytes, Placing, unknown_pages
from alance.file.rows.taken import FragmentTask
from alance.format.plans import PLANS_A_TURN, TURN, together

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from alance import _kernels
    from alance.base.arrays import Int64s
    from alance.file.open.columns import States
    from alance.file.open.new_pages import NewPages
    from alance.file.rows.fragment import OpenFragment
    from alance.file.rows.placed_columns import PlacedColumns, PlacedRows
    from alance.format.plans import Plan
    from alance.format.schema import Schema
    from alance.format.v2_0.fields import FieldPiece

PLACED_AT_ONCE: Final = 1 << 17  # rows times columns that a call places: 1 to 4 milliseconds
_IDS_OF = attrgetter("own.ids")
_CONTAINERS = attrgetter("containers")
_PLACED_OF, _WHOLE_OF = map(attrgetter, ("placed", "whole"))
# Above this number of guesses, wasted bytes cost more than a round of 30 ms.
GUESSED_PLACES: Final = 64


def placed_rows(
    schema: Schema,
    fragments: Sequence[OpenFragment],
    rows: Int64s,
    ends: Sequence[int],
    states: States,
    *,
    guess: bool,
) -> Plan[list[FragmentTask]]:
    """Plan single rows, with one task per group of similar consecutive fragments.

    Cost: no round if page states are known, else one, or two for some kinds of pages; and one more
    if a page's index is too large to hold in memory. The bytes of the tasks' `unread` rows are not
    read, except with `guess` if fields that the kernel does not decode have to be read.

    Args:
        rows: physical row offsets of all fragments, concatenated; sorted and unique in each
            fragment.
        ends: end of each fragment's offsets in `rows`.
        guess: True to guess the positions of a few rows in pages of unknown state, because a round
            is expensive.

    Raises:
        CorruptFileError: a page's description or state contradicts the format.
        UnsupportedError: a page has an unknown layout or encoding.
    """
    runs = _FragmentRun(fragments, 0, rows, ends).split(map(_IDS_OF, fragments))
    groups = yield from together([_rows_of(schema, run, states, guess) for run in runs])
    return [*chain.from_iterable(groups)]


class _FragmentRun(NamedTuple):
    """Rows of consecutive fragments that are placed together.

    Attributes:
        first: number of the first fragment.
        rows: row offsets of all fragments, concatenated.
        ends: end of each fragment's offsets in `rows`.
    """

    fragments: Sequence[OpenFragment]
    first: int
    rows: Int64s
    ends: Sequence[int]

    @property
    def num_spans(self) -> int:
        """Number of runs of consecutive rows."""
        return 1 + int(np.count_nonzero(np.diff(self.rows) != 1))

    def split(self, keys: Iterable[object]) -> list[_FragmentRun]:
        """Group consecutive fragments with equal keys.

        Args:
            keys: key of each fragment.
        """
        if len(self.fragments) == 1:
            return [self]
        runs, first = [], 0
        for _, alike in groupby(keys):
            last = first + len([*alike])
            begin = self.ends[first - 1] if first else 0
            rows = self.rows[begin : self.ends[last - 1]]
            ends = [end - begin for end in self.ends[first:last]] if first else self.ends[:last]
            runs.append(_FragmentRun(self.fragments[first:last], first, rows, ends))
            first = last
        return runs

    def alike(self) -> list[_FragmentRun]:
        """Group consecutive fragments that the same plans can read.

        The fragments of a run have tables for the same leaves, and have the same leaves in files
        that are completely in memory.
        """
        ways = map(_PLACED_OF, self.fragments), map(_WHOLE_OF, self.fragments)
        return self.split(zip(*ways, strict=True))

    def batches(self) -> list[Placing]:
        """Split the fields into batches, each for one kernel call."""
        if not len(self.rows):
            return []
        batches, step = [], max(1, PLACED_AT_ONCE // len(self.rows))
        for part, is_whole in self.fragments[0].by_file():
            several = [part]
            if len(part.leaves) > step:
                cuts = [at // step for at in accumulate([len(form.leaves) for form in part.forms])]
                groups = groupby(zip(cuts, part.forms, strict=True), itemgetter(0))
                several = [FieldForms.of([form for _, form in group]) for _, group in groups]
            batches += [
                Placing.of(self.fragments, self.rows, self.ends, fields, is_whole, self.first)
                for fields in several
            ]
        return batches

    def others(self, batches: Sequence[Placing]) -> list[int]:
        """Return the numbers of the leaves that are in none of the run's `batches`."""
        numbers = range(len(self.fragments[0].containers)) if len(self.rows) else ()
        own = {at for part in batches if part.run == self.first for at in part.fields.leaves}
        return [at for at in numbers if at not in own] if len(own) < len(numbers) else []


def _rows_of(
    schema: Schema, rows: _FragmentRun, states: States, guess: bool
) -> Plan[list[FragmentTask]]:
    content: PageBytes | None = None
    is_guessed = guess and len(rows.fragments[0].containers) * rows.num_spans <= GUESSED_PLACES
    ahead: NewPages | None = None
    runs = rows.alike()
    batches = [*chain.from_iterable(map(_FragmentRun.batches, runs))]
    while ahead is None:
        plans: list[_kernels.RowPlan] = []
        for batch in batches:
            if plans:
                yield TURN
            plans.append(batch.place(content))
        unknown = [plan.unknown for plan in plans]
        num_unknown = sum(map(len, unknown))
        if not num_unknown:
            lacking = [at for at, plan in enumerate(plans) if plan.lacks_places]
            if not lacking:
                break
            content = content or PageBytes(chain.from_iterable(map(_CONTAINERS, batches)))
            yield from _read_places(
                [batches[at] for at in lacking], [plans[at] for at in lacking], content
            )
            continue
        is_much = num_unknown > PLANS_A_TURN
        if is_much:
            yield TURN
        pages = yield from unknown_pages(batches, unknown, states)
        missing = yield from pages.fill_known()
        if is_much:
            yield TURN
        if missing and not is_guessed:
            yield from pages.learn()
            if is_much:
                yield TURN
        elif missing:
            ahead = pages
    beside = [run.others(batches) for run in runs]
    reading: list[Plan[Any]] = [
        _placed(batches, plans, is_read=guess and any(beside))
        if ahead is None
        else _read_ahead(batches, ahead, states)
    ]
    if any(beside):
        reading += [_read_others(run, places) for run, places in zip(runs, beside, strict=True)]
    placed, *others = yield from together(reading)
    columns: dict[int, list[PlacedColumns]] = {run.first: [] for run in runs}
    for batch, own in zip(batches, placed, strict=True):
        columns[batch.run].append(own)
    return [
        FragmentTask(schema, len(run.rows), of_run, columns[run.first])
        for run, of_run in zip(runs, others or [{}] * len(runs), strict=True)
    ]


def _placed(
    batches: Sequence[Placing], plans: Sequence[_kernels.RowPlan], *, is_read: bool
) -> Plan[list[PlacedColumns]]:
    """Return the placed rows of complete plans.

    Args:
        is_read: True to read their bytes, in one round.
    """
    columns = [batch.columns(plan) for batch, plan in zip(batches, plans, strict=True)]
    if is_read:
        yield from fetch_placed([own.placed for own in columns if not own.placed.is_read])
    return columns


def _read_places(
    batches: Sequence[Placing], plans: Sequence[_kernels.RowPlan], content: PageBytes
) -> Plan[None]:
    """Plan the reading of the entries of pages' indices that row plans lack; one round."""
    reading = [
        content.read_rows(plan, batch.paths, places=True)
        for batch, plan in zip(batches, plans, strict=True)
    ]
    yield from together(reading)


def _read_ahead(
    batches: Sequence[Placing], pages: NewPages, states: States
) -> Plan[list[PlacedColumns]]:
    """Plan the states of unknown pages and all rows: one round, or two if a guess misses.

    Rows of known pages are read where they are, rows of unknown pages where they probably are. If
    an index is too large to hold in memory, its entries take another round, and so do the items of
    a sparse page if many of its rows are read.
    """
    content = PageBytes(chain.from_iterable(map(_CONTAINERS, batches)))
    rows: dict[tuple[int, int], Int64s] = {}
    loads, first = [pages.learn()], 0
    for batch in batches:
        plan = batch.place(is_partial=True)
        loads.append(content.read_rows(plan, batch.paths))
        for number, (table, page) in enumerate(plan.unknown):
            rows[first + table, page] = plan.unknown_rows(number)
        first += len(batch.paths)
    if guesses := pages.guesses(rows):
        loads.append(content.read(guesses))
    yield from together(loads)
    plans = yield from _completed(batches, content, states)
    columns = [batch.columns(plan, content) for batch, plan in zip(batches, plans, strict=True)]
    yield from together([content.read_rows(own.placed.plan, own.placed.paths) for own in columns])
    return columns


def _completed(
    batches: Sequence[Placing], content: PageBytes, states: States
) -> Plan[list[_kernels.RowPlan]]:
    """Place all rows of batches; learn unknown pages and read missing entries of indices before."""
    while True:
        plans = [batch.place(content) for batch in batches]
        unknown = [plan.unknown for plan in plans]
        if any(unknown):
            pages = yield from unknown_pages(batches, unknown, states)
            if (yield from pages.fill_known()):
                yield from pages.learn()
        elif any(plan.lacks_places for plan in plans):
            yield from _read_places(batches, plans, content)
        else:
            return plans


def _read_others(run: _FragmentRun, places: Sequence[int]) -> Plan[dict[int, Sequence[FieldPiece]]]:
    """Plan the rows of fields in files of 2.0 and 0.1, by field id."""
    ids = run.fragments[0].own.ids
    spans = [
        (fragment, run.rows[first:last])
        for fragment, (first, last) in zip(run.fragments, pairwise([0, *run.ends]), strict=True)
        if first < last
    ]
    taken = [(fragment.older(at), rows) for at in places for fragment, rows in spans]
    plans = [column.take(rows) for column, rows in taken if column is not None]
    pieces, count = (yield from together(plans)), len(spans)
    return {ids[at]: pieces[n * count : (n + 1) * count] for n, at in enumerate(places)}


def fetch_placed(placed: Sequence[PlacedRows]) -> Plan[None]:
    """Plan the bytes of placed rows in one round; no round if `placed` is empty."""
    if placed:
        contents = yield [rows.pieces for rows in placed]
        for rows, content in zip(placed, contents, strict=True):
            rows.content = content
