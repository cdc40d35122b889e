"""Finds where single rows of open fragments are, and plans their reading.

Every take goes through `placed_rows`. One kernel call places the rows of a leaf in all fragments.
It returns the bytes to read, and the pages that its tables do not know. These are filled from the
caches, or by a round of reads. On stores where a round is expensive, their rows are read by a guess
instead. Columns and pages of other kinds have plans of their own, which run beside.
"""

from __future__ import annotations

from itertools import groupby, pairwise
from operator import attrgetter, lt
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from alance import _kernels
from alance.errors import CorruptFileError
from alance.file.field_forms import with_tables
from alance.file.leaves import Parts
from alance.file.open import bytes_at_hand, from_content
from alance.file.page_tables import Hole, fill_known, learn
from alance.file.placed_columns import PlacedColumns
from alance.format.layouts.paged_rows import PagedRows, PlacedRows
from alance.format.plans import PLANS_A_TURN, TURN, together

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from alance.arrays import Int64s
    from alance.file.columns import States
    from alance.file.fragment import Found, OpenFragment
    from alance.file.leaves import OpenLeaf
    from alance.file.page_tables import PageTables
    from alance.format.plans import Plan

PLACED_AT_ONCE: Final = 1 << 17  # rows of columns that a call places: 1 to 4 milliseconds
_CONTAINERS, _TABLES, _PATH = map(attrgetter, ("containers", "tables", "path"))
_IS_SIMPLE, _IS_WHOLE = map(attrgetter, ("is_simple", "is_whole"))
GUESSED_PLACES: Final = 64  # of more, what is read in vain costs more than a round of 30 ms


def placed_rows(
    fragments: Sequence[OpenFragment],
    rows: Int64s,
    ends: Sequence[int],
    states: States,
    *,
    guess: bool,
) -> Plan[list[FoundRows]]:
    """Plan single rows: what was found of neighbouring fragments with the same leaves.

    Cost: no round where the pages are known, else one; two for some kinds of pages.

    Args:
        rows: physical row offsets, sorted and unique in each fragment, one behind the other.
        ends: where those of each fragment end.
        guess: a round is dear: rows of pages that are not known are read by a guess, where they
            are few, and those of the others beside them.

    Raises:
        CorruptFileError, UnsupportedError: the description of a page, or what is read of it.
    """
    plans, first = [], 0
    for _, alike in groupby(fragments, attrgetter("leaf_ids")):
        last = first + len([*alike])
        begin = ends[first - 1] if first else 0
        own_ends = [end - begin for end in ends[first:last]] if first else ends[:last]
        asked = _Asked.of(fragments[first:last], rows[begin : ends[last - 1]], own_ends)
        plans.append(_rows_of(asked, states, guess))
        first = last
    return (yield from together(plans))


class FoundRows(NamedTuple):
    """Rows of neighbouring fragments.

    Attributes:
        leaves: what was found of leaves, by field id.
        columns: the other leaves, all of whose rows are placed and values of plain types.
    """

    num_rows: int
    leaves: dict[int, Found]
    columns: Sequence[PlacedColumns]


class _Asked(NamedTuple):
    """Rows of fragments that have the same leaves."""

    tables: Sequence[PageTables]  # of the fragments
    rows: Int64s  # end to end
    ends: Sequence[int]  # where those of each fragment end
    is_simple: bool  # there are rows of each fragment, and their tables are simple and alike

    @classmethod
    def of(cls, fragments: Sequence[OpenFragment], rows: Int64s, ends: Sequence[int]) -> _Asked:
        tables = [*map(_TABLES, fragments)]
        are_alike = all(map(_IS_SIMPLE, tables)) and len({*map(_IS_WHOLE, tables)}) == 1
        return cls(tables, rows, ends, are_alike and all(map(lt, [0, *ends], ends)))

    @property
    def num_runs(self) -> int:
        """Runs of neighbouring rows."""
        return 1 + int(np.count_nonzero(np.diff(self.rows) != 1))

    @property
    def leaves(self) -> Sequence[OpenLeaf]:
        """The leaves of the first fragment, whose fields are those of all."""
        return self.tables[0].leaves

    def leaf(self, at: int, number: int) -> OpenLeaf:
        """A leaf of one of the fragments."""
        return self.tables[number].leaves[at]

    def rows_of(self, at: int, first: int, last: int) -> tuple[Int64s, list[int]]:
        """The rows of a column that are those of some fragments, and where those of each end."""
        begin, leaf = self.ends[first - 1] if first else 0, self.leaf(at, first)
        if leaf.leaf.multiplier == 1 and last - first == len(self.ends):
            return self.rows, [*self.ends]
        rows = leaf.rows(self.rows[begin : self.ends[last - 1]])
        return rows, [(end - begin) * leaf.leaf.multiplier for end in self.ends[first:last]]

    def everywhere(self, apart: Collection[int]) -> Sequence[int]:
        """Leaves whose rows are placed by the tables of all fragments.

        Args:
            apart: leaves that go another way in some of them.
        """
        if not self.is_simple:
            return ()
        numbers = self.tables[0].placed
        left_out = {*apart}
        for own in self.tables:
            if own.placed != numbers:
                left_out.update({*numbers}.difference(own.placed))
        return [at for at in numbers if at not in left_out] if left_out else numbers

    def runs(self, at: int, apart: Collection[int]) -> Sequence[tuple[bool, int, int]]:
        """Neighbouring fragments whose rows of a leaf are placed by tables, or go another way.

        Args:
            apart: fragments that go another way though they have tables.
        """
        tables = [own.tables[at] for own in self.tables]
        ways = []
        for number, (first, end) in enumerate(pairwise([0, *self.ends])):
            is_placed = tables[number] is not None and number not in apart and first < end
            ways.append((is_placed, self.leaf(at, number).column.container.is_whole))
        runs, first = [], 0
        for (is_placed, _), run in groupby(ways):
            last = first + len([*run])
            runs.append((is_placed, first, last))
            first = last
        return runs

    def batches(
        self, everywhere: Sequence[int], runs: Mapping[int, Sequence[tuple[bool, int, int]]]
    ) -> list[_Batch]:
        """What one call of the kernel places each."""
        batches: dict[tuple[object, ...], list[int]] = {}
        for at, own in runs.items():
            for is_placed, first, last in own:
                if is_placed:
                    leaf = self.leaf(at, first)
                    is_whole = leaf.column.container.is_whole
                    other = at if leaf.leaf.multiplier != 1 else None
                    batches.setdefault((first, last, is_whole, other), []).append(at)
        every = [_Batch(leaves, 0, len(self.ends)) for leaves in self._whole_fields(everywhere)]
        partial = [_Batch(leaves, first, last) for (first, last, *_), leaves in batches.items()]  # type: ignore[arg-type]
        return every + partial

    def _whole_fields(self, leaves: Sequence[int]) -> Iterator[Sequence[int]]:
        """Cut leaves into batches between fields, since a field is decoded from one plan."""
        step = max(1, PLACED_AT_ONCE // max(1, len(self.rows)))
        if 0 < len(leaves) <= step:
            yield leaves
            return
        inner = {at for form in self.tables[0].forms.forms for at in form.leaves[1:]}
        first = 0
        while first < len(leaves):
            last = first + step
            while last < len(leaves) and leaves[last] in inner:
                last += 1
            yield leaves[first:last]
            first = last

    def place(self, batch: _Batch) -> _kernels.RowPlan:
        """Where rows are, as far as their tables know."""
        leaves, first, last = batch
        by_leaf = [*zip(*map(_TABLES, self.tables[first:last]), strict=True)]
        columns = [by_leaf[at] for at in leaves]
        try:
            return _kernels.plan_rows(columns, *self.rows_of(leaves[0], first, last))
        except ValueError as error:
            path = self.leaf(leaves[0], first).column.container.path
            raise CorruptFileError(f"{path}: {error}") from error

    def columns(self, batch: _Batch, placed: PlacedRows) -> PlacedColumns | None:
        """Fields of a batch of all fragments that are decoded in one call; None: there are none."""
        if batch.first or batch.last != len(self.ends) or not len(self.rows):
            return None
        place = {at: column for column, at in enumerate(batch.leaves)}
        fields = with_tables(self.tables[0].forms, place.keys())
        columns = [*map(place.__getitem__, fields.leaves)]
        fitting = PlacedColumns(placed, fields, columns).fitting()
        return fitting if fitting.columns else None

    def placed(self, batch: _Batch, plan: _kernels.RowPlan) -> PlacedRows:
        """Rows that were placed, with their bytes where small files are kept whole."""
        leaves, first, last = batch
        by_leaf = [*zip(*map(_CONTAINERS, self.tables[first:last]), strict=True)]
        containers = [container for at in leaves for container in by_leaf[at]]
        placed = PlacedRows(plan, [*map(_PATH, containers)])
        if containers[0].is_whole:  # all of them are
            by_path = {container.path: container for container in containers}
            placed.content = bytes_at_hand(placed.pieces, by_path)
        return placed


class _Batch(NamedTuple):
    """Leaves of neighbouring fragments, whose rows are the same."""

    leaves: Sequence[int]
    first: int
    last: int


def _rows_of(asked: _Asked, states: States, guess: bool) -> Plan[FoundRows]:
    leaves = asked.leaves
    apart: dict[int, set[int]] = {}  # by leaf: fragments whose rows are read by a guess
    is_guessed = guess and len(leaves) * asked.num_runs <= GUESSED_PLACES
    while True:
        everywhere = asked.everywhere(apart)
        left = frozenset(range(len(leaves))).difference(everywhere)
        runs = {at: asked.runs(at, apart.get(at, ())) for at in sorted(left)}
        batches = asked.batches(everywhere, runs)
        plans: list[_kernels.RowPlan] = []
        for batch in batches:
            if plans:
                yield TURN
            plans.append(asked.place(batch))
        num_unknown = sum([len(plan.unknown) for plan in plans])
        if not num_unknown:
            break
        is_much = num_unknown > PLANS_A_TURN
        if is_much:
            yield TURN
        holes = {}  # and the fragments that they are in
        for batch, plan in zip(batches, plans, strict=True):
            for table, page in plan.unknown:
                column, number = divmod(table, batch.last - batch.first)
                number += batch.first
                hole = Hole(asked.tables[number], batch.leaves[column], page)
                holes[hole] = number
        missing = fill_known(holes, states)
        at_once = [
            hole for hole in missing if not is_guessed or hole.leaf.column.container.is_whole
        ]
        if is_much:
            yield TURN
        if at_once:
            yield from learn(at_once, states)
            if is_much:
                yield TURN
        for hole in set(missing).difference(at_once):
            apart.setdefault(hole.at, set()).add(holes[hole])
    placed = [asked.placed(batch, plan) for batch, plan in zip(batches, plans, strict=True)]
    parts: dict[tuple[int, int], Found] = {}  # by leaf and first fragment
    together_found = []
    for batch, rows in zip(batches, placed, strict=True):
        columns = asked.columns(batch, rows)
        if columns is not None:
            together_found.append(columns)
        in_columns = frozenset(() if columns is None else columns.columns)
        for column in sorted(frozenset(range(len(batch.leaves))).difference(in_columns)):
            at = batch.leaves[column]
            leaf = asked.leaf(at, batch.first)
            is_field = leaf.is_top and not leaf.leaf.field.is_json
            parts[at, batch.first] = PagedRows.of(leaf.leaf.field, rows, column, is_field=is_field)
    others = {
        (at, number): _other(asked, at, number, states, guess)
        for at, own in runs.items()
        for is_placed, first, last in own
        if not is_placed
        for number in range(first, last)
    }
    if others:
        reading: list[Plan[Any]] = [*others.values()]
        if guess:
            reading.append(fetch_placed([rows for rows in placed if not rows.is_read]))
        parts.update(zip(others, (yield from together(reading)), strict=False))
    per_leaf: dict[int, list[Found]] = {}
    for at, first in sorted(parts):
        per_leaf.setdefault(at, []).append(parts[at, first])
    by_field = {
        leaves[at].leaf.field.id: own[0] if len(own) == 1 else Parts(own)
        for at, own in per_leaf.items()
    }
    return FoundRows(len(asked.rows), by_field, together_found)


def _other(asked: _Asked, at: int, number: int, states: States, guess: bool) -> Plan[Found]:
    """Plan the rows of a leaf of a fragment that are not placed by tables."""
    column = asked.leaf(at, number).column
    rows, _ = asked.rows_of(at, number, number + 1)
    taking: Plan[Found] = column.take(rows, states, guess=guess)
    return from_content(taking, column.container)


def fetch_placed(placed: Sequence[PlacedRows]) -> Plan[None]:
    """Plan the bytes of placed rows: one round, none where there are none."""
    if placed:
        contents = yield [rows.pieces for rows in placed]
        for rows, content in zip(placed, contents, strict=True):
            rows.content = content
