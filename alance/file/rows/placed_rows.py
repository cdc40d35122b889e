"""Plans that locate and read single rows of open fragments.

Every take uses `placed_rows`. One kernel call places rows: it looks them up in all page tables of
similar fragments, and returns the bytes to read, and the pages of unknown state. Those states are
read from the caches, or in another round. On stores where a round is expensive, the positions of
rows in these pages are guessed instead. Leaves without a page table have separate plans, which run
concurrently.
"""

from __future__ import annotations

from itertools import accumulate, chain, groupby, pairwise, product
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from alance import _kernels
from alance.errors import CorruptFileError
from alance.file.open.files import bytes_at_hand, from_content
from alance.file.open.new_pages import NewPages
from alance.file.rows.field_forms import FieldForms, with_tables
from alance.file.rows.leaves import Parts
from alance.file.rows.placed_columns import PlacedColumns, PlacedRows
from alance.file.rows.ranged import PageBytes
from alance.format.plans import PLANS_A_TURN, TURN, together

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from alance.base.arrays import Int64s
    from alance.file.open.columns import States
    from alance.file.rows.fragment import Found, OpenFragment
    from alance.file.rows.leaves import OpenLeaf
    from alance.format.container import Container
    from alance.format.plans import Plan

PLACED_AT_ONCE: Final = 1 << 17  # rows times columns that a call places: 1 to 4 milliseconds
_CONTAINERS, _PATH_OF, _TABLES_OF = map(attrgetter, ("containers", "path", "tables"))
_PLACED_OF, _WHOLE_OF, _KINDS_OF = map(attrgetter, ("placed", "whole", "kinds"))
NO_LEAVES: Final[frozenset[int]] = frozenset()
# Above this number of guesses, wasted bytes cost more than a round of 30 ms.
GUESSED_PLACES: Final = 64


def placed_rows(
    fragments: Sequence[OpenFragment],
    rows: Int64s,
    ends: Sequence[int],
    states: States,
    *,
    guess: bool,
) -> Plan[list[FoundRows]]:
    """Plan single rows, with one result per group of similar consecutive fragments.

    Cost: no round if page states are known, else one, or two for some kinds of pages; and one if an
    index stays in its file. The bytes of
    the results' `columns` are not read, except with `guess` if leaves without a page table have to
    be read.

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
    plans, first = [], 0
    for _, alike in groupby(fragments, attrgetter("own.ids")):
        last = first + len([*alike])
        begin = ends[first - 1] if first else 0
        own_ends = [end - begin for end in ends[first:last]] if first else ends[:last]
        request = _RowRequest(fragments[first:last], rows[begin : ends[last - 1]], own_ends)
        plans.append(_rows_of(request, states, guess))
        first = last
    groups = yield from together(plans)
    return [*chain.from_iterable(groups)]


class FoundRows(NamedTuple):
    """Rows of consecutive fragments.

    Attributes:
        leaves: decode tasks of the leaves that the kernel cannot decode, by field id.
        columns: placed rows of the fields that the kernel decodes.
    """

    num_rows: int
    leaves: dict[int, Found]
    columns: Sequence[PlacedColumns]


class _RowRequest(NamedTuple):
    """Rows of fragments that have the same leaves.

    Attributes:
        rows: row offsets of all fragments, concatenated.
        ends: end of each fragment's offsets in `rows`.
    """

    fragments: Sequence[OpenFragment]
    rows: Int64s
    ends: Sequence[int]

    @property
    def num_runs(self) -> int:
        """Number of runs of consecutive rows."""
        return 1 + int(np.count_nonzero(np.diff(self.rows) != 1))

    def runs(self, apart: Mapping[int, set[int]]) -> list[_FragmentRun]:
        """Group consecutive fragments that the same plans can read.

        The fragments of a run have tables for the same leaves, have the same leaves in files that
        are completely in memory, and have the same classes of columns.

        Args:
            apart: numbers of the leaves whose rows are guessed, by the number of the fragment.
        """
        numbers, runs, first = range(len(self.fragments)), [], 0
        ways = zip(
            *[map(way, self.fragments) for way in (_PLACED_OF, _WHOLE_OF, _KINDS_OF)],
            map(apart.get, numbers),
            strict=True,
        )
        for _, alike in groupby(numbers, [*ways].__getitem__):
            last = first + len([*alike])
            begin = self.ends[first - 1] if first else 0
            rows = self.rows[begin : self.ends[last - 1]]
            ends = [end - begin for end in self.ends[first:last]] if first else self.ends[:last]
            left_out = apart.get(first, NO_LEAVES)
            runs.append(_FragmentRun(self.fragments[first:last], first, rows, ends, left_out))
            first = last
        return runs


class _FragmentRun(NamedTuple):
    """Rows of consecutive fragments that are placed together.

    Attributes:
        first: number of the first fragment.
        apart: numbers of the leaves whose rows are guessed.
    """

    fragments: Sequence[OpenFragment]
    first: int
    rows: Int64s
    ends: Sequence[int]
    apart: Collection[int]

    def batches(self) -> list[_Batch]:
        """Split the fields into batches, each for one kernel call."""
        if not len(self.rows):
            return []
        own, batches = self.fragments[0], []
        forms = own.own.forms
        if self.apart or len(own.placed) < len(own.own.ids):
            forms = with_tables(forms, {*own.placed}.difference(self.apart))
        for part, is_whole in own.by_file(forms):
            step = max(1, PLACED_AT_ONCE // max(1, len(self.rows)))
            if len(part.leaves) <= step:
                batches.append(_Batch(self, part, is_whole))
                continue
            cuts = [at // step for at in accumulate([len(form.leaves) for form in part.forms])]
            for _, forms_of in groupby(zip(cuts, part.forms, strict=True), itemgetter(0)):
                fields = FieldForms.of([form for _, form in forms_of])
                batches.append(_Batch(self, fields, is_whole))
        return batches

    def others(self, columns: Sequence[PlacedColumns]) -> list[int]:
        """Return the numbers of the leaves that are not in `columns`."""
        numbers = range(len(self.fragments[0].containers)) if len(self.rows) else ()
        own = {at for part in columns for at in part.fields.leaves}
        return [at for at in numbers if at not in own] if len(own) < len(numbers) else []


class _Batch(NamedTuple):
    """Fields of a run that one kernel call places.

    Attributes:
        is_whole: True if the fields' files are completely in memory.
    """

    run: _FragmentRun
    fields: FieldForms
    is_whole: bool

    def place(self, content: PageBytes | None) -> _kernels.RowPlan:
        """Place the rows. The plan's `unknown` has the pages of unknown state.

        Args:
            content: numbers of indices that were read; None if there are none.
        """
        run, leaves = self.run, self.fields.leaves
        held = [] if content is None else content.of(self.paths)
        tables = [*map(_TABLES_OF, run.fragments)]
        try:
            return _kernels.plan_rows(tables, leaves, run.rows, run.ends, held)
        except ValueError as error:
            path = run.fragments[0].containers[leaves[0]].path
            raise CorruptFileError(f"{path}: {error}") from error

    @property
    def containers(self) -> list[Container]:
        """File of each table of the plan."""
        by_leaf = [*zip(*map(_CONTAINERS, self.run.fragments), strict=True)]
        return [*chain.from_iterable(map(by_leaf.__getitem__, self.fields.leaves))]

    @property
    def paths(self) -> list[str]:
        """Path of the file of each table of the plan."""
        return [*map(_PATH_OF, self.containers)]

    def placed(self, plan: _kernels.RowPlan) -> PlacedColumns:
        """Return the placed rows, with their bytes if the files are completely in memory."""
        containers = self.containers
        placed = PlacedRows(plan, [*map(_PATH_OF, containers)])
        if self.is_whole and not placed.is_read:
            by_path = {container.path: container for container in containers}
            placed.content = bytes_at_hand(placed.pieces, by_path)
        return PlacedColumns(placed, self.fields, range(len(self.fields.leaves)))


def _rows_of(request: _RowRequest, states: States, guess: bool) -> Plan[list[FoundRows]]:
    apart: dict[int, set[int]] = {}
    content: PageBytes | None = None
    is_guessed = guess and len(request.fragments[0].containers) * request.num_runs <= GUESSED_PLACES
    while True:
        runs = request.runs(apart)
        batches = [*chain.from_iterable(map(_FragmentRun.batches, runs))]
        plans: list[_kernels.RowPlan] = []
        for batch in batches:
            if plans:
                yield TURN
            plans.append(batch.place(content))
        num_unknown = sum([len(plan.unknown) for plan in plans])
        if not num_unknown and not _drop_unfit(batches, plans):
            lacking = [at for at, plan in enumerate(plans) if plan.lacks_places]
            if not lacking:
                break
            files = [file for batch in batches for file in batch.containers]
            content = PageBytes([*{file.path: file for file in files}.values()])
            yield from together(
                [content.read_rows(plans[at], batches[at].paths, places=True) for at in lacking]
            )
            continue
        is_much = num_unknown > PLANS_A_TURN
        if is_much:
            yield TURN
        owners: list[tuple[int, OpenFragment]] = []
        unknown: list[tuple[int, int]] = []
        for batch, plan in zip(batches, plans, strict=True):
            unknown += [(len(owners) + table, page) for table, page in plan.unknown]
            owners += product(batch.fields.leaves, batch.run.fragments)
        pages = NewPages(owners, unknown, states)
        missing = pages.fill_known()
        if is_much:
            yield TURN
        if is_guessed and missing:
            guessed = [at for at in missing if not pages.hole(at).column.container.is_whole]
            pages.leave(guessed)
            for hole in map(pages.hole, guessed):
                number = [own is hole.fragment for own in request.fragments].index(True)
                apart.setdefault(number, set()).add(hole.at)
            missing = [*{*missing}.difference(guessed)]
        if missing:
            yield from pages.learn()
            if is_much:
                yield TURN
    columns: dict[int, list[PlacedColumns]] = {run.first: [] for run in runs}
    for batch, plan in zip(batches, plans, strict=True):
        columns[batch.run.first].append(batch.placed(plan))
    beside = [run.others(columns[run.first]) for run in runs]
    leaves: list[dict[int, Found]] = [{}] * len(runs)
    if any(beside):
        reading: list[Plan[Any]] = [
            _read_leaves(run, others, states, guess)
            for run, others in zip(runs, beside, strict=True)
        ]
        if guess:
            placed = [own.placed for of_run in columns.values() for own in of_run]
            reading.append(fetch_placed([rows for rows in placed if not rows.is_read]))
        leaves = yield from together(reading)
    return [
        FoundRows(len(run.rows), of_run, columns[run.first])
        for run, of_run in zip(runs, leaves, strict=False)
    ]


def _drop_unfit(batches: Sequence[_Batch], plans: Sequence[_kernels.RowPlan]) -> bool:
    """Drop the tables of fields whose pages do not have values of the field's type.

    The codecs then decode such fields leaf by leaf, and raise a precise error. Returns True if
    tables were dropped.
    """
    is_any = False
    for batch, plan in zip(batches, plans, strict=True):
        unfit = batch.fields.unfit(plan, range(len(batch.fields.leaves)))
        for fragment in batch.run.fragments if unfit else ():
            is_any = True
            fragment.drop(unfit)
    return is_any


def _read_leaves(
    run: _FragmentRun, numbers: Sequence[int], states: States, guess: bool
) -> Plan[dict[int, Found]]:
    """Plan the rows of leaves that the kernel cannot decode, by field id."""
    ids = run.fragments[0].own.ids
    spans = [
        (fragment, run.rows[first:last])
        for fragment, (first, last) in zip(run.fragments, pairwise([0, *run.ends]), strict=True)
        if first < last
    ]
    plans = [_taken(own.leaf(at), rows, states, guess) for at in numbers for own, rows in spans]
    pieces, rows_of, count = (yield from together(plans)), {}, len(spans)
    for first, at in enumerate(numbers):
        parts = pieces[first * count : (first + 1) * count]
        rows_of[ids[at]] = parts[0] if count == 1 else Parts(parts)
    return rows_of


def _taken(leaf: OpenLeaf, rows: Int64s, states: States, guess: bool) -> Plan[Found]:
    """Plan a take from a leaf without a page table."""
    taking: Plan[Found] = leaf.column.take(leaf.rows(rows), states, guess=guess)
    return from_content(taking, leaf.column.container)


def fetch_placed(placed: Sequence[PlacedRows]) -> Plan[None]:
    """Plan the bytes of placed rows in one round; no round if `placed` is empty."""
    if placed:
        contents = yield [rows.pieces for rows in placed]
        for rows, content in zip(placed, contents, strict=True):
            rows.content = content
