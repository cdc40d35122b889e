"""Single rows of open fragments: placed, learned where something is not known, and planned.

Every take goes through `placed_rows`. The rows of a leaf in all fragments are placed by one call of
the kernel, which gives the bytes to read, or the pages of which its tables know nothing. Those are
filled from the caches or by a round of reads; where a round is dear, rows of such pages are read by
a guess instead. Columns and pages of other kinds have plans of their own, beside.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from alance import _kernels
from alance.errors import CorruptFileError
from alance.file.leaves import Parts
from alance.file.open import from_content
from alance.file.page_tables import Hole, fill_known, learn
from alance.format.layouts.paged_rows import PagedRows, PlacedRows
from alance.format.plans import cut, together

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from alance.arrays import Int64s
    from alance.file.columns import States
    from alance.file.fragment import Found, OpenFragment
    from alance.file.leaves import OpenLeaf
    from alance.format.plans import Plan


def placed_rows(
    fragments: Sequence[tuple[OpenFragment, Int64s]], states: States, *, guess: bool
) -> Plan[list[tuple[int, dict[int, Found]]]]:
    """Plan single rows: of neighbouring fragments with the same leaves their number, and what was
    found of each leaf, by field id.

    Cost: no round where the pages are known, else one; two for some kinds of pages.

    Args:
        fragments: with physical row offsets, sorted and unique.
        guess: a round is dear: rows of pages that are not known are read by a guess, and those
            of the others beside them.

    Raises:
        CorruptFileError, UnsupportedError: the description of a page, or what is read of it.
    """
    alike = groupby(fragments, lambda pair: [leaf.leaf.field.id for leaf in pair[0].leaves])
    plans = [_rows_of(_Asked.of([*same]), states, guess) for _, same in alike]
    return (yield from together(plans))


@dataclass(frozen=True, slots=True)
class _Asked:
    """Rows of fragments that have the same leaves."""

    fragments: Sequence[OpenFragment]
    rows: Int64s  # end to end
    ends: Sequence[int]  # where those of each fragment end
    is_simple: bool  # there are rows of each fragment, and their tables are simple

    @classmethod
    def of(cls, asked: Sequence[tuple[OpenFragment, Int64s]]) -> _Asked:
        rows = asked[0][1] if len(asked) == 1 else np.concatenate([rows for _, rows in asked])
        counts = [len(rows) for _, rows in asked]
        fragments = [fragment for fragment, _ in asked]
        simple = all(counts) and all(fragment.tables.is_simple for fragment in fragments)
        return cls(fragments, rows, [*accumulate(counts)], simple)

    def leaf(self, at: int, number: int) -> OpenLeaf:
        """A leaf of one of the fragments."""
        return self.fragments[number].leaves[at]

    def rows_of(self, at: int, first: int, last: int) -> tuple[Int64s, list[int]]:
        """The rows of a column that are those of some fragments, and where those of each end."""
        begin, leaf = self.ends[first - 1] if first else 0, self.leaf(at, first)
        if leaf.leaf.multiplier == 1 and last - first == len(self.ends):
            return self.rows, [*self.ends]
        rows = leaf.rows(self.rows[begin : self.ends[last - 1]])
        return rows, [(end - begin) * leaf.leaf.multiplier for end in self.ends[first:last]]

    def runs(self, at: int, apart: Collection[int]) -> Sequence[tuple[bool, int, int]]:
        """Neighbouring fragments whose rows of a leaf are placed by tables, or go another way.

        Args:
            apart: fragments that go another way though they have tables.
        """
        tables = [fragment.tables.tables[at] for fragment in self.fragments]
        if self.is_simple and not apart and None not in tables:
            return [(True, 0, len(tables))]
        ways = []
        for number, (first, end) in enumerate(pairwise([0, *self.ends])):
            is_placed = tables[number] is not None and number not in apart and first < end
            ways.append((is_placed, self.leaf(at, number).column.container.is_whole))
        runs, first = [], 0
        for (is_placed, _), same in groupby(ways):
            last = first + len([*same])
            runs.append((is_placed, first, last))
            first = last
        return runs

    def batches(self, runs: Sequence[Sequence[tuple[bool, int, int]]]) -> list[_Batch]:
        """What one call of the kernel places each."""
        batches: dict[tuple[object, ...], list[int]] = {}
        for at, own in enumerate(runs):
            for is_placed, first, last in own:
                if is_placed:
                    leaf = self.leaf(at, first)
                    is_whole = leaf.column.container.is_whole
                    other = at if leaf.leaf.multiplier != 1 else None
                    batches.setdefault((first, last, is_whole, other), []).append(at)
        return [_Batch(leaves, first, last) for (first, last, *_), leaves in batches.items()]  # type: ignore[arg-type]

    def place(self, batch: _Batch) -> _kernels.RowPlan:
        """Where rows are, as far as their tables know."""
        leaves, first, last = batch
        fragments = self.fragments[first:last]
        columns = [[fragment.tables.tables[at] for fragment in fragments] for at in leaves]
        try:
            return _kernels.plan_rows(columns, *self.rows_of(leaves[0], first, last))  # type: ignore[arg-type]
        except ValueError as error:
            path = self.leaf(leaves[0], first).column.container.path
            raise CorruptFileError(f"{path}: {error}") from error

    def placed(self, batch: _Batch, plan: _kernels.RowPlan) -> PlacedRows:
        """Rows that were placed, with their bytes where small files are kept whole."""
        leaves, first, last = batch
        numbers = range(first, last)
        containers = [self.leaf(at, number).column.container for at in leaves for number in numbers]
        placed = PlacedRows(plan, [container.path for container in containers])
        if containers[0].is_whole:  # all of them are
            contents = {container.path: container.content for container in containers}
            ranges = placed.pieces.ranges()
            placed.content = memoryview(
                b"".join([cut(byte_range, contents[byte_range.path]) for byte_range in ranges])
            )
        return placed


class _Batch(NamedTuple):
    """Leaves of neighbouring fragments, whose rows are the same."""

    leaves: Sequence[int]
    first: int
    last: int


def _rows_of(asked: _Asked, states: States, guess: bool) -> Plan[tuple[int, dict[int, Found]]]:
    leaves = asked.fragments[0].leaves
    apart: dict[int, set[int]] = {}  # by leaf: fragments whose rows are read by a guess
    while True:
        runs = [asked.runs(at, apart.get(at, ())) for at in range(len(leaves))]
        batches = asked.batches(runs)
        plans = [asked.place(batch) for batch in batches]
        if not any(plan.unknown for plan in plans):
            break
        holes = {}  # and the fragments that they are in
        for batch, plan in zip(batches, plans, strict=True):
            for table, page in plan.unknown:
                column, number = divmod(table, batch.last - batch.first)
                number += batch.first
                hole = Hole(asked.fragments[number].tables, batch.leaves[column], page)
                holes[hole] = number
        missing = fill_known(holes, states)
        at_once = [hole for hole in missing if not guess or hole.leaf.column.container.is_whole]
        if at_once:
            yield from learn(at_once, states)
        for hole in set(missing).difference(at_once):
            apart.setdefault(hole.at, set()).add(holes[hole])
    placed = [asked.placed(batch, plan) for batch, plan in zip(batches, plans, strict=True)]
    parts: dict[tuple[int, int], Found] = {}  # by leaf and first fragment
    for batch, rows in zip(batches, placed, strict=True):
        for column, at in enumerate(batch.leaves):
            leaf = asked.leaf(at, batch.first)
            is_field = leaf.is_top and not leaf.leaf.field.is_json
            parts[at, batch.first] = PagedRows.of(leaf.leaf.field, rows, column, is_field=is_field)
    others = {
        (at, number): _other(asked, at, number, states, guess)
        for at, own in enumerate(runs)
        for is_placed, first, last in own
        if not is_placed
        for number in range(first, last)
    }
    if others:
        reading: list[Plan[Any]] = [*others.values()]
        if guess:
            reading.append(fetch_placed([rows for rows in placed if rows.content is None]))
        parts.update(zip(others, (yield from together(reading)), strict=False))
    per_leaf: list[list[Found]] = [[] for _ in leaves]
    for at, first in sorted(parts):
        per_leaf[at].append(parts[at, first])
    return len(asked.rows), {
        leaf.leaf.field.id: own[0] if len(own) == 1 else Parts(own)
        for leaf, own in zip(leaves, per_leaf, strict=True)
    }


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
