"""Plans that locate and read single rows of open fragments.

Every take uses `placed_rows`. One kernel call places rows: it looks them up in all page tables of
similar fragments, and returns the bytes to read, and the pages of unknown state. Those states are
read from the caches, or in another round. On stores where a round is expensive, the positions of
rows in these pages are guessed instead. Leaves without a page table have separate plans, which run
concurrently.
"""

from __future__ import annotations

from itertools import accumulate, chain, groupby, islice, pairwise
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from alance.file.rows.field_forms import FieldForms
from alance.file.rows.placing import Placing, complete_plans
from alance.file.rows.taken import FragmentTask
from alance.format.plans import together

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.base.arrays import Int64s
    from alance.file.open.columns import States
    from alance.file.rows.fragment import OpenFragment
    from alance.file.rows.placed_columns import PlacedColumns, PlacedRows
    from alance.format.plans import Plan
    from alance.format.schema import Schema
    from alance.format.v2_0.fields import FieldPiece

PLACED_AT_ONCE: Final = 1 << 17  # rows times columns that a call places: 1 to 4 milliseconds
# Fragments for which these are equal can be read by the same plans.
_KEYS: Final = [*map(attrgetter, ("own.ids", "placed", "whole"))]
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
    runs = _runs(fragments, rows, ends)
    batches = [*map(_FragmentRun.batches, runs)]
    beside = [*map(_FragmentRun.beside, runs)]
    is_guessed = guess and sum([run.num_places for run in runs]) <= GUESSED_PLACES
    reading: list[Plan[Any]] = [
        _placed(
            [*chain.from_iterable(batches)],
            states,
            guess=is_guessed,
            is_read=guess and any(beside),
        )
    ]
    if any(beside):
        reading += map(read_beside, beside)
    placed, *others = yield from together(reading)
    columns = iter(placed)
    return [
        FragmentTask(schema, len(run.rows), of_run, [*islice(columns, len(own))])
        for run, own, of_run in zip(runs, batches, others or [{}] * len(runs), strict=True)
    ]


class _FragmentRun(NamedTuple):
    """Rows of consecutive fragments that the same plans can read.

    The fragments have tables for the same leaves, and have the same leaves in files that are
    completely in memory.

    Attributes:
        rows: row offsets of all fragments, concatenated.
        ends: end of each fragment's offsets in `rows`.
    """

    fragments: Sequence[OpenFragment]
    rows: Int64s
    ends: Sequence[int]

    @property
    def num_places(self) -> int:
        """Number of columns times the number of runs of consecutive rows."""
        num_spans = 1 + int(np.count_nonzero(np.diff(self.rows) != 1))
        return num_spans * len(self.fragments[0].containers)

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
                Placing.of(self.fragments, self.rows, self.ends, fields, is_whole)
                for fields in several
            ]
        return batches

    def beside(self) -> dict[int, list[Plan[FieldPiece]]]:
        """Return plans of the fields that the kernel does not decode, by field id."""
        if not (self.fragments[0].older and len(self.rows)):
            return {}
        rows = [self.rows[first:last] for first, last in pairwise([0, *self.ends])]
        taken = [pair for pair in zip(self.fragments, rows, strict=True) if len(pair[1])]
        return {
            self.fragments[0].own.ids[at]: [own.older[at].take(rows) for own, rows in taken]
            for at in self.fragments[0].beside
        }


def _runs(
    fragments: Sequence[OpenFragment], rows: Int64s, ends: Sequence[int]
) -> list[_FragmentRun]:
    """Group consecutive fragments that the same plans can read."""
    if len(fragments) == 1:
        return [_FragmentRun(fragments, rows, ends)]
    runs, first, begin = [], 0, 0
    for _, alike in groupby(zip(*[map(key, fragments) for key in _KEYS], strict=True)):
        last = first + len([*alike])
        own_ends = [end - begin for end in ends[first:last]] if first else ends[:last]
        end = ends[last - 1]
        runs.append(_FragmentRun(fragments[first:last], rows[begin:end], own_ends))
        first, begin = last, end
    return runs


def _placed(
    batches: Sequence[Placing], states: States, *, guess: bool, is_read: bool
) -> Plan[list[PlacedColumns]]:
    """Plan single rows of fields; their bytes are not read unless positions had to be guessed.

    Args:
        is_read: True to read the bytes in any case.
    """
    plans, content = yield from complete_plans(batches, states, guess=guess)
    columns = [batch.columns(plan, content) for batch, plan in zip(batches, plans, strict=True)]
    if content is not None:
        yield from together(
            [content.read_rows(own.placed.plan, own.placed.paths) for own in columns]
        )
    elif is_read:
        yield from fetch_placed([own.placed for own in columns if not own.placed.is_read])
    return columns


def read_beside(
    plans: Mapping[int, Sequence[Plan[FieldPiece]]],
) -> Plan[dict[int, Sequence[FieldPiece]]]:
    """Run the plans of fields in files of 2.0 and 0.1, by field id, in the same rounds."""
    pieces = iter((yield from together([*chain.from_iterable(plans.values())])))
    return {field_id: [next(pieces) for _ in own] for field_id, own in plans.items()}


def fetch_placed(placed: Sequence[PlacedRows]) -> Plan[None]:
    """Plan the bytes of placed rows in one round; no round if `placed` is empty."""
    if placed:
        contents = yield [rows.pieces for rows in placed]
        for rows, content in zip(placed, contents, strict=True):
            rows.content = content
