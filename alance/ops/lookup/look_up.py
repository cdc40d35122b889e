"""Asking indices which rows a filter may be true of: never less than those that it is true of.

A question is asked of each segment of an index that covers live fragments. What comes out is known
for those fragments alone; where the questions of a filter are about different columns, for each
fragment those count that are known there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from alance.errors import CorruptFileError, InvalidInputError, NotFoundError, UnsupportedError
from alance.expr.arrow import ArrowCondition
from alance.expr.arrow_parts import implied_by
from alance.expr.index_query import AllOf, Ask, question_of
from alance.expr.logic import Junction
from alance.expr.tree import FAILURES, Problem
from alance.format.paths import join_path
from alance.io.tasks import all_of
from alance.ops.lookup.ask import Asked, ask_segment
from alance.ops.lookup.segments import segments_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.arrays import Int64s
    from alance.expr import Predicate
    from alance.expr.index_query import Question
    from alance.expr.tree import Node
    from alance.ops.lookup.segments import Segment
    from alance.ops.version.snapshot import FragmentHandle, Snapshot


USEFUL_ROWS: Final = 16 << 10  # so many rows are worth a lookup whatever the table has
USEFUL_SHARE: Final = 4  # more than one row in so many: a scan is no slower
MAX_ROWS: Final = 8 << 20  # of which the numbers are held in memory
WORK: Final = 8  # sorting and cutting a row number, as bytes to decode
# What a damaged index, or one of a kind that is not known, may raise.
SPOILED: Final = (CorruptFileError, NotFoundError, UnsupportedError, InvalidInputError, Problem)


@dataclass(slots=True)
class IndexUse:
    """The answer of the indices to a filter.

    Attributes:
        covered: fragments of which `rows` are all that the filter may be true of.
        rows: addresses, ascending; shape (n,).
        told: the part of the filter that is true of all these rows, if the indices are right;
            None: another one in each fragment.
        lines: which indices were asked, and what of; which were not, and why.
    """

    covered: frozenset[int]
    rows: Int64s
    told: Node | None = None
    lines: list[str] = field(default_factory=list)

    def by_fragment(self) -> dict[int, Int64s]:
        """The row offsets of each covered fragment that has any. CPU: some 10 ns a row."""
        fragments, starts = np.unique(self.rows >> 32, return_index=True)
        parts = np.split(self.rows & 0xFFFF_FFFF, starts[1:])
        return dict(zip(fragments.tolist(), parts, strict=False))


async def look_up(
    snapshot: Snapshot, predicate: Predicate, handles: Sequence[FragmentHandle]
) -> IndexUse | None:
    """Ask the indices of a version; None where none is on a column of the filter.

    Cost: for each index asked a round for its page table, once, and one for its pages; with stable
    row ids and a bitmap index, at the first call, all deletion vectors and row ids as well.

    Raises:
        StoreError: the store failed. An index that cannot be read is not used.
    """
    if not snapshot.manifest.indices:
        return None
    asked = predicate.condition
    if isinstance(asked, ArrowCondition):
        condition = implied_by(asked.expression, snapshot.schema.to_arrow())
    else:
        condition = cast("Node", asked)
    if condition is None:
        return None
    segments, lines = segments_of(snapshot, handles)
    question = question_of(condition, lambda column: column.path in segments)
    if question is None:
        return IndexUse(frozenset(), np.empty(0, np.int64), lines=lines) if lines else None
    lookup = _Lookup(snapshot, segments, {handle.id: handle for handle in handles}, lines)
    found = await lookup.answer(question)
    if found is None:
        return IndexUse(frozenset(), np.empty(0, np.int64), lines=lines)
    return IndexUse(found.covered, found.rows, found.told, lines)


@dataclass(frozen=True, slots=True)
class _Answer:
    covered: frozenset[int]
    rows: Int64s
    told: Node | None

    def and_(self, other: _Answer) -> _Answer:
        rows = [
            np.intersect1d(self.rows, other.rows, assume_unique=True),
            _outside(self.rows, other.covered),
            _outside(other.rows, self.covered),
        ]
        told = self._told_with(other, is_and=True)
        return _Answer(self.covered | other.covered, np.unique(np.concatenate(rows)), told)

    def or_(self, other: _Answer) -> _Answer:
        covered = self.covered & other.covered
        rows = np.union1d(self.rows, other.rows)
        told = self._told_with(other, is_and=False)
        return _Answer(covered, rows[np.isin(rows >> 32, _ids(covered))], told)

    def _told_with(self, other: _Answer, *, is_and: bool) -> Node | None:
        if self.told is None or other.told is None or self.covered != other.covered:
            return None
        return Junction(is_and, (self.told, other.told))


@dataclass(frozen=True, slots=True)
class _Lookup:
    snapshot: Snapshot
    segments: Mapping[tuple[str, ...], Sequence[Segment]]
    handles: Mapping[int, FragmentHandle]
    lines: list[str]

    async def answer(self, question: Question) -> _Answer | None:
        """The answer; None: the indices say nothing."""
        prepared = await self._prepare(question)
        return None if prepared is None else await self._fetch(prepared)

    async def _prepare(self, question: Question) -> _Prepared | None:
        """The pages to read for a question: page tables and keys are looked at, rows are not."""
        if isinstance(question, Ask):
            return await self._prepare_ask(question)
        found = await all_of(self._prepare(part) for part in question.parts)
        known = [one for one in found if one is not None]
        if isinstance(question, AllOf):
            # Beside a narrow question a broad one costs more than it saves.
            least = min((one.estimate for one in known), default=0)
            known = [one for one in known if one.estimate <= USEFUL_SHARE * least + USEFUL_ROWS]
            if not known:
                return None
            return _Prepared(least, tuple(known), is_and=True)
        if len(known) < len(found):
            return None
        estimate = sum(one.estimate for one in known)
        return _Prepared(estimate, tuple(known), is_and=False)

    async def _prepare_ask(self, ask: Ask) -> _Prepared | None:
        segments = self.segments[ask.column.path]
        name = segments[0].index.name
        try:
            asked = await all_of(ask_segment(self.snapshot, one, ask) for one in segments)
        except (*SPOILED, *FAILURES) as error:
            self.lines.append(f"index {name} not used: {error}")
            return None
        covered = frozenset[int]().union(*(one.covered for one in segments))
        total = sum(self.handles[one].num_physical_rows for one in covered)
        estimate = sum(one.estimate for one in asked)
        what = f"index {name} ({segments[0].index.kind}) on {join_path(ask.column.path)}"
        if estimate > min(MAX_ROWS, max(USEFUL_ROWS, total // USEFUL_SHARE)):
            self.lines.append(f"{what} not used: it may give {estimate:,} of {total:,} rows")
            return None
        return _Prepared(estimate, asked=tuple(asked), told=ask.condition, what=what)

    async def _fetch(self, prepared: _Prepared) -> _Answer | None:
        if prepared.asked:
            return await self._fetch_asked(prepared)
        found = await all_of(self._fetch(part) for part in prepared.parts)
        known = [one for one in found if one is not None]
        if not known or (not prepared.is_and and len(known) < len(found)):
            return None
        join = _Answer.and_ if prepared.is_and else _Answer.or_
        num_bytes = sum(one.rows.nbytes for one in known)
        return await self.snapshot.engine.decode(lambda: reduce(join, known), num_bytes * WORK)

    async def _fetch_asked(self, prepared: _Prepared) -> _Answer | None:
        try:
            answers = await all_of(self._fetch_segment(one) for one in prepared.asked)
        except (*SPOILED, *FAILURES) as error:
            self.lines.append(f"{prepared.what} not used: {error}")
            return None
        covered = frozenset[int]().union(*(one.segment.covered for one in prepared.asked))
        rows = answers[0]
        if len(answers) > 1:
            num_bytes = sum(one.nbytes for one in answers)
            rows = await self.snapshot.engine.decode(
                lambda: np.unique(np.concatenate(answers)), num_bytes * WORK
            )
        parts = ", ".join(one.told for one in prepared.asked)
        self.lines.append(
            f"{prepared.what}: {parts}; {len(rows):,} rows of {len(covered)} fragments"
        )
        return _Answer(covered, rows, prepared.told)

    async def _fetch_segment(self, asked: Asked) -> Int64s:
        """The addresses that a segment gives, of the fragments that it covers."""
        numbers = await asked.row_numbers()
        segment = asked.segment
        index = await self.snapshot.row_index() if segment.has_row_ids and len(numbers) else None

        def addresses() -> Int64s:
            rows = numbers
            if index is not None:
                found, missing = index.find(rows)
                rows = np.sort(found[~missing])
            rows = rows[np.isin(rows >> 32, _ids(segment.covered))]
            for fragment in np.unique(rows >> 32).tolist():
                last = int(rows[np.searchsorted(rows, (fragment + 1) << 32) - 1]) & 0xFFFF_FFFF
                known = self.handles[fragment].num_physical_rows
                if known and last >= known:
                    raise CorruptFileError(
                        f"row {last} of fragment {fragment}: it has {known} rows"
                    )
            return rows

        return await self.snapshot.engine.decode(addresses, numbers.nbytes * WORK)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The pages to be read, of segments or of several such."""

    estimate: int
    parts: tuple[_Prepared, ...] = ()
    is_and: bool = False
    asked: tuple[Asked, ...] = ()
    told: Node | None = None
    what: str = ""


def _ids(fragments: frozenset[int]) -> Int64s:
    return np.fromiter(fragments, np.int64, len(fragments))


def _outside(rows: Int64s, fragments: frozenset[int]) -> Int64s:
    return rows[~np.isin(rows >> 32, _ids(fragments))]
