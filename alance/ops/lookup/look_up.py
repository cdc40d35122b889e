"""Index lookup for a filter: the answer contains all matching rows, and may contain others.

A question is looked up in each segment of an index that covers live fragments. The answer is valid
only for the covered fragments. If a filter has several questions, the rows of a fragment are
narrowed down by those questions whose index covers the fragment. Row sets are bitmaps: joining and
counting them takes microseconds, however many rows they have.
"""

from __future__ import annotations

from dataclasses import field, replace
from functools import partial, reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Final, cast

from alance.base.deferred import Deferred
from alance.base.records import dataclass
from alance.errors import CorruptFileError, InvalidInputError, NotFoundError, UnsupportedError
from alance.expr.arrow import ArrowCondition
from alance.expr.index_query import AllOf, Ask, question_of
from alance.expr.logic import Junction
from alance.expr.tree import FAILURES, Problem
from alance.format.paths import join_path
from alance.format.row_set import RowSet
from alance.io.events import trace
from alance.io.loop.tasks import all_of
from alance.ops.lookup.ask import ask_segment, takes
from alance.ops.lookup.segments import segments_of
from alance.ops.lookup.work import SHORT_FILTER_WORK, checking_work

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.expr import Predicate, arrow_parts
    from alance.expr.index_query import Question
    from alance.expr.tree import Node
    from alance.ops.lookup.kinds.kind import PreparedAsk
    from alance.ops.lookup.segments import Segment, Segments
    from alance.ops.version.snapshot import FragmentHandle, Snapshot

    ByPath = Mapping[tuple[str, ...], Sequence[Sequence[Segment]]]
    _Memoized = tuple[Predicate, tuple[Question, bool] | None]
else:
    arrow_parts = Deferred("alance.expr.arrow_parts")

USEFUL_ROWS: Final = 16 << 10  # answers with up to this many rows are worth a lookup in any table
USEFUL_SHARE: Final = 4  # an answer with over a quarter of the rows is no faster than a scan
SCAN_WORK: Final = 4  # scanning a row costs as much as 4 rows of a B-tree, about 20 ns each
MAX_LOOKUP_ROWS: Final = 8 << 20  # most row numbers that a lookup holds in memory
SET_ENTRY_BYTES: Final = 300  # cache overhead of a row set
SET_ROW_BYTES: Final = 2  # upper bound per row of a row set
SET_PART_BYTES: Final = 64  # overhead of each part of up to 65,536 rows in a row set
SET_ROWS_A_BYTE: Final = 16  # joining 16 rows of sets costs as much as decoding a byte
# Errors of a damaged index, or of an index of an unknown kind.
SPOILED: Final = (CorruptFileError, NotFoundError, UnsupportedError, InvalidInputError, Problem)


@dataclass(slots=True)
class IndexUse:
    """Answer of the indices to a filter.

    Attributes:
        covered: fragments for which `rows` contains all rows that may match the filter.
        rows: row addresses in these fragments; may contain deleted rows.
        is_exact: True if all these rows match the filter, provided that the indices are correct.
        condition: part of the filter that is true for all these rows, provided that the indices are
            correct; None if there is none, or if it differs between fragments.
        lines: texts for `explain`: each index with the reason why it was used or not.
    """

    covered: frozenset[int] = frozenset()
    rows: RowSet = field(default_factory=RowSet)
    is_exact: bool = False
    condition: Node | None = None
    lines: list[str] = field(default_factory=list)


async def look_up(
    snapshot: Snapshot,
    predicate: Predicate,
    handles: Sequence[FragmentHandle],
    *,
    counts: bool = False,
) -> IndexUse | None:
    """Look up a filter in the indices of a version.

    Returns None if no index can answer a part of the filter. Returns an answer without fragments if
    indices exist but are damaged, unsupported or not worth using.

    Cost: for each index one round for its pages; before it, unless they are cached, one for its
    page table or keys (two if they are large). If an index stores stable row ids, the first call
    also costs that of `Snapshot.row_index`.

    Args:
        handles: fragments of the read.
        counts: True if rows are only counted, so that an answer is used even if it has many rows.

    Raises:
        StoreError: the store failed. An index that cannot be read is not used.
    """
    segments = await segments_of(snapshot)
    pair = await _question_of(snapshot, predicate, segments) if segments.by_path else None
    if pair is None:
        return IndexUse(lines=[*segments.lines]) if segments.lines else None
    question, is_equivalent = pair
    num_rows = None
    if handles is not snapshot.handles:
        num_rows = sum(handle.num_physical_rows for handle in handles)
    lookup = _Lookup(snapshot, segments.by_path, num_rows, counts, [*segments.lines])
    answer = await lookup.answer(question)
    if answer is None:
        return IndexUse(lines=lookup.lines)
    return IndexUse(
        answer.covered,
        answer.rows,
        answer.is_exact and is_equivalent,
        answer.condition,
        lookup.lines,
    )


async def covered_fragments(snapshot: Snapshot, predicate: Predicate) -> frozenset[int] | None:
    """Return the fragments that indices cover for all answerable parts of a filter.

    Returns None if no index can answer any part.

    Cost: no request if the version's indices are known.
    """
    segments = await segments_of(snapshot)
    pair = await _question_of(snapshot, predicate, segments) if segments.by_path else None
    return _covered_by_all(pair[0], segments.by_path) if pair else None


def _covered_by_all(question: Question, indices: ByPath) -> frozenset[int]:
    if isinstance(question, Ask):
        return frozenset[int]().union(*(own.covered for own in _takers(question, indices)[0]))
    return reduce(and_, (_covered_by_all(part, indices) for part in question.parts))


async def _question_of(
    snapshot: Snapshot, predicate: Predicate, segments: Segments
) -> tuple[Question, bool] | None:
    """Return the part of a filter that indices can answer, and True if it is the whole; memoized.

    Questions of short filters are shared with other sessions. Returns None if no index takes any
    part.
    """

    def make() -> _Memoized:
        condition: Node | None
        is_equivalent = True
        if isinstance(predicate.condition, ArrowCondition):
            implied = arrow_parts.implied_by(
                predicate.condition.expression, snapshot.schema.known_arrow()
            )
            condition, is_equivalent = (implied.node, implied.is_true) if implied else (None, False)
        else:
            condition = cast("Node", predicate.condition)
        question = condition and question_of(condition, partial(_is_taken, segments.by_path))
        return predicate, (question, is_equivalent) if question else None

    # The memos also hold the filter, so that its id is not reused.
    key = _question_of, id(predicate)
    memoized: _Memoized | None = segments.remember.get(key) or snapshot.remember.get(key)
    if memoized is not None:
        return memoized[1]
    work = checking_work(predicate)
    answer = await snapshot.engine.decode(make, work)
    if not predicate.has_params:
        remember = segments.remember if work < SHORT_FILTER_WORK else snapshot.remember
        remember(key, lambda: answer)
    return answer[1]


def _is_taken(indices: ByPath, ask: Ask) -> bool:
    """Return True if an index takes a question; if so, sort the question's values. CPU work."""
    if not _takers(ask, indices):
        return False
    ask.sort()
    return True


def _takers(ask: Ask, indices: ByPath) -> list[Sequence[Segment]]:
    """Return the indices that take a question, best first, each as its segments."""
    of_column = indices.get(ask.column.path, ())
    return [segments for segments in of_column if takes(segments[0], ask)]


@dataclass(frozen=True, slots=True)
class _LookupAnswer:
    """Answer of some indices; see `IndexUse`.

    Attributes:
        domain: all rows of the covered fragments.
    """

    covered: frozenset[int]
    domain: RowSet
    rows: RowSet
    is_exact: bool
    condition: Node | None

    def __and__(self, other: _LookupAnswer) -> _LookupAnswer:
        is_alike = self.covered == other.covered
        rows = self.rows & other.rows
        domain = self.domain
        if not is_alike:
            rows = rows | (self.rows - other.domain) | (other.rows - self.domain)
            domain = domain | other.domain
        is_exact = is_alike and self.is_exact and other.is_exact
        condition = self._condition_with(other, is_and=True)
        return _LookupAnswer(self.covered | other.covered, domain, rows, is_exact, condition)

    def __or__(self, other: _LookupAnswer) -> _LookupAnswer:
        rows, domain = self.rows | other.rows, self.domain
        if self.covered != other.covered:
            domain = domain & other.domain
            rows = rows & domain
        is_exact = self.is_exact and other.is_exact
        condition = self._condition_with(other, is_and=False)
        return _LookupAnswer(self.covered & other.covered, domain, rows, is_exact, condition)

    def _condition_with(self, other: _LookupAnswer, *, is_and: bool) -> Node | None:
        if self.covered != other.covered:
            return None
        if self.condition is None or other.condition is None:
            return (self.condition or other.condition) if is_and else None
        return Junction(is_and, (self.condition, other.condition))


@dataclass(frozen=True, slots=True)
class _Lookup:
    snapshot: Snapshot
    indices: ByPath
    num_rows: int | None  # number of rows in the fragments of the read; None for all fragments
    counts: bool
    lines: list[str]

    async def answer(self, question: Question) -> _LookupAnswer | None:
        """Return the answer to a question; None if no index is worth using."""
        prepared = await self._prepare(question)
        return None if prepared is None else await self._fetch(prepared)

    async def _prepare(self, question: Question) -> _Prepared | None:
        """Choose the pages to read for a question; None if no index is worth using."""
        if isinstance(question, Ask):
            return await self._prepare_ask(question)
        prepared = await all_of(self._prepare(part) for part in question.parts)
        parts = [part for part in prepared if part is not None]
        if isinstance(question, AllOf):
            # An expensive question costs more than it saves in addition to the most selective
            # question.
            least = min((part.estimate for part in parts), default=0)
            most = USEFUL_SHARE * least + USEFUL_ROWS
            parts = [part for part in parts if part.work <= most or part.estimate == least]
            if not parts:
                return None
            is_whole = question.is_whole and len(parts) == len(prepared)
            work = sum(part.work for part in parts)
            return _Prepared(least, work, tuple(parts), is_and=True, is_whole=is_whole)
        if len(parts) < len(prepared):
            return None
        estimate, work = sum(part.estimate for part in parts), sum(part.work for part in parts)
        return _Prepared(estimate, work, tuple(parts))

    async def _prepare_ask(self, ask: Ask) -> _Prepared | None:
        for segments in _takers(ask, self.indices):
            prepared = await self._prepare_segments(ask, segments)
            if prepared is not None:
                return prepared
        return None

    async def _prepare_segments(self, ask: Ask, segments: Sequence[Segment]) -> _Prepared | None:
        index = segments[0].index
        try:
            asking = partial(ask_segment, self.snapshot, ask)
            answers = await all_of(map(asking, segments))
        except (*SPOILED, *FAILURES) as error:
            self.lines.append(f"index {index.name} not used: {error}")
            return None
        total = estimate = work = 0
        for part in answers:
            total += len(part.segment.domain)
            estimate += part.estimate
            work += part.work
        if self.num_rows is not None:
            total = min(total, self.num_rows)
        what = f"index {index.name} ({index.kind}) on {join_path(ask.column.path)}"
        most = min(MAX_LOOKUP_ROWS, max(USEFUL_ROWS, total // USEFUL_SHARE))
        if all(part.is_at_hand or (self.counts and part.is_counted) for part in answers):
            most = total if self.counts and answers[0].is_exact else total - 1
        if estimate > most:
            self.lines.append(f"{what} not used: it may give {estimate:,} of {total:,} rows")
            return None
        if work > max(MAX_LOOKUP_ROWS, SCAN_WORK * total):
            counted = ", ".join(part.summary for part in answers)
            self.lines.append(f"{what} not used: {counted}; a scan of {total:,} rows costs less")
            return None
        condition = ask.condition if answers[0].is_exact else None
        return _Prepared(estimate, work, by_segment=tuple(answers), condition=condition, what=what)

    async def _fetch(self, prepared: _Prepared) -> _LookupAnswer | None:
        if prepared.by_segment:
            return await self._fetch_segments(prepared)
        fetched = await all_of(self._fetch(part) for part in prepared.parts)
        answers = [answer for answer in fetched if answer is not None]
        is_all = len(answers) == len(fetched)
        if not answers or not (is_all or prepared.is_and):
            return None
        join = and_ if prepared.is_and else or_
        num_bytes = sum(len(answer.rows) for answer in answers) // SET_ROWS_A_BYTE
        answer = await self.snapshot.engine.decode(lambda: reduce(join, answers), num_bytes)
        return answer if is_all and prepared.is_whole else replace(answer, is_exact=False)

    async def _fetch_segments(self, prepared: _Prepared) -> _LookupAnswer | None:
        try:
            parts = await all_of(map(self._fetch_segment, prepared.by_segment))
        except (*SPOILED, *FAILURES) as error:
            self.lines.append(f"{prepared.what} not used: {error}")
            return None
        segments = [part.segment for part in prepared.by_segment]
        covered, rows, domain = segments[0].covered, parts[0], segments[0].domain
        if len(parts) > 1:
            covered = covered.union(*(segment.covered for segment in segments))
            rows = RowSet.union(parts)
            domain = RowSet.union(segment.domain for segment in segments)
        summary = ", ".join([part.summary for part in prepared.by_segment])
        self.lines.append(
            f"{prepared.what}: {summary}; {len(rows):,} rows of {len(covered)} fragments"
        )
        return _LookupAnswer(
            covered, domain, rows, prepared.condition is not None, prepared.condition
        )

    async def _fetch_segment(self, prepared: PreparedAsk) -> RowSet:
        """Return the rows in a segment's answer, as addresses in its covered fragments."""
        engine, segment = self.snapshot.engine, prepared.segment
        trace.compare(prepared.num_compared)
        if not segment.has_row_ids:
            rows = await prepared.row_numbers()
            return await engine.decode(
                lambda: rows.within(segment.domain, segment.covered), len(rows) // SET_ROWS_A_BYTE
            )
        where = segment.files(self.snapshot).where  # UUIDs repeat in copies of a table
        key = ("row addresses", where, segment.identity, prepared.cache_key)
        addresses: RowSet | None = engine.cache.peek(key) if prepared.cache_key else None
        if addresses is None:
            addresses = await self._addresses_of(await prepared.row_numbers(), segment)
            if prepared.cache_key:
                most = len(segment.covered) + (len(segment.domain) >> 16)
                parts = min(len(addresses), most)
                num_bytes = (
                    SET_ENTRY_BYTES + SET_ROW_BYTES * len(addresses) + SET_PART_BYTES * parts
                )
                engine.cache.put(key, addresses, num_bytes)
        return addresses

    async def _addresses_of(self, row_ids: RowSet, segment: Segment) -> RowSet:
        """Return the addresses of stable row ids in the fragments that a segment covers.

        Raises:
            UnsupportedError: there are more than `MAX_LOOKUP_ROWS` row ids.
        """
        if not row_ids:
            return row_ids
        if len(row_ids) > MAX_LOOKUP_ROWS:
            raise UnsupportedError(f"{len(row_ids):,} stable row ids, at most {MAX_LOOKUP_ROWS:,}")
        index = await self.snapshot.row_index()

        def addresses() -> RowSet:
            return index.addresses_in(row_ids).within(segment.domain, segment.covered)

        return await self.snapshot.engine.decode(addresses, index.work(row_ids))


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Pages to read, for the segments of an index or for several questions.

    Attributes:
        estimate: estimated number of rows in the answer.
        work: cost of the answer, in rows of a B-tree.
        is_whole: True if the parts cover the whole condition.
    """

    estimate: int
    work: int
    parts: tuple[_Prepared, ...] = ()
    is_and: bool = False
    is_whole: bool = True
    by_segment: tuple[PreparedAsk, ...] = ()
    condition: Node | None = None
    what: str = ""
