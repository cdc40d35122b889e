"""Search of several columns as one (BM25F): word counts and lengths are added before scoring."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from alance.errors import InvalidInputError
from alance.format.numbers import distinct
from alance.io.loop.tasks import all_of
from alance.ops.search.text.column import ColumnSearch
from alance.ops.search.text.ranked import NO_RANKED, Ranked, rows_of, shares
from alance.ops.search.text.scores import ALL, Quota, TextStatistics
from alance.ops.search.text.segments import text_way

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Int64s
    from alance.ops.read.options import ScanOptions
    from alance.ops.search.text.query import CombinedFieldsQuery, TextQuery
    from alance.ops.search.text.terms import Terms
    from alance.ops.version.snapshot import Snapshot

_K1, _B = 1.2, 0.75


class FieldsSearch:
    """A search of several columns as one.

    Attributes:
        searches: search of each column.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        options: ScanOptions,
        query: CombinedFieldsQuery,
        *,
        use_index: bool,
    ) -> None:
        self.query = query
        self.searches = [
            ColumnSearch(
                snapshot,
                options,
                text_way(snapshot, str(part.column), options, use_index=use_index),
                [part],
                keeps_all=True,
            )
            for part in query.parts()
        ]

    async def open(self) -> None:
        """Open the indices, and find the requested words.

        Raises:
            InvalidInputError: there is no index, or the indices have different token settings.
        """
        await all_of(search.open() for search in self.searches)
        indexed = [search.params for search in self.searches if search.is_indexed]
        ways = {replace(params, with_position=False): None for params in indexed}
        if len(ways) != 1:
            reason = "several ways to make words of texts" if ways else "no index"
            raise InvalidInputError(f"columns {', '.join(self.query.columns)} as one: {reason}")
        for search in self.searches:
            await search.make_terms(*ways)

    def answer(self, query: TextQuery, quota: Quota = ALL, rows: Int64s | None = None) -> Ranked:
        """Score the matches of a query; return at least those that `quota` requires.

        Args:
            rows: ascending row ids; if given, all matches among these rows are returned instead.
        """
        terms, _ = next(iter(self.searches[0].terms.values()))
        if not terms.words or (terms.needs_all and not all(terms.groups)):
            return NO_RANKED
        statistics = self._statistics(terms.words)
        if rows is None:
            rows = self._candidates(terms, statistics, quota)
        return self._scored(terms, statistics, rows)

    def _columns(self) -> list[tuple[ColumnSearch, float]]:
        parts = zip(self.searches, self.query.parts(), strict=True)
        return [(search, part.boost) for search, part in parts]

    def _statistics(self, words: Sequence[str]) -> TextStatistics:
        """Return the combined statistics of the columns."""
        columns = [(search.totals(words), boost) for search, boost in self._columns()]
        return TextStatistics(
            max(own.num_docs for own, _ in columns),
            sum(boost * own.num_tokens for own, boost in columns),
            {word: max(own.counts[word] for own, _ in columns) for word in words},
        )

    def _candidates(self, terms: Terms, statistics: TextStatistics, quota: Quota) -> Int64s:
        """Return candidate rows, which include all rows that `quota` requires."""
        floor, tops = quota.floor, []
        if quota.count:
            tops = self._bounds(terms, statistics, [quota] * len(self.searches))
            seeds = rows_of(tops)
            floor = max(floor, self._scored(terms, statistics, seeds).least_of(quota.count))
        elif floor > 0:
            tops = self._bounds(terms, statistics, [Quota(1)] * len(self.searches))
        if floor > 0:
            floors = shares(floor, [top.greatest for top in tops])
            return rows_of(self._bounds(terms, statistics, [Quota(None, own) for own in floors]))
        # A match has a word of each group, so only the group with the fewest documents is searched.
        groups = [list(group) for group in terms.groups] if terms.needs_all else [terms.words]
        words = min(groups, key=lambda group: sum(statistics.counts[word] for word in group))
        parts = [part for search in self.searches for part in search.parts]
        ids = [np.empty(0, np.int64), *(part.rows_of(words) for part in parts)]
        return distinct(np.concatenate(ids))[0]

    def _bounds(
        self, terms: Terms, statistics: TextStatistics, quotas: Sequence[Quota]
    ) -> list[Ranked]:
        """Return the rows that each column's quota requires, with upper bounds of their scores.

        The bound is the score that the row would have if its other columns were empty, because
        their words only make the document longer.
        """
        any_word = replace(terms, needs_all=False, boost=1.0)
        bounds = []
        for (search, boost), quota in zip(self._columns(), quotas, strict=True):
            own = {self.query: any_word}
            parts = [
                part.ranked(self.query, own, statistics, quota, times=boost)
                for part in search.parts
            ]
            bounds.append(Ranked.joined([NO_RANKED, *parts]))
        return bounds

    def _scored(self, terms: Terms, statistics: TextStatistics, rows: Int64s) -> Ranked:
        """Return the rows that match, with their scores.

        Args:
            rows: ascending ids of the rows to score.
        """
        lengths = np.zeros(len(rows))
        counts = {word: np.zeros(len(rows)) for word in terms.words}
        for search, boost in self._columns():
            for part in search.parts:
                places, docs = part.docs_of(rows)
                lengths[places] += boost * part.documents.lengths[docs]
                for word in counts.keys() & part.lists.keys():
                    counts[word][places] += boost * part.lists[word].frequencies_of(docs)
        norms = _K1 * (1 - _B + _B * lengths / statistics.mean_length)
        scores = np.zeros(len(rows))
        for word, count in counts.items():
            scores += statistics.weight(word) * (_K1 + 1) * count / (count + norms)
        groups = terms.groups if terms.needs_all else (tuple(terms.words),)
        of_groups = [np.any([counts[word] > 0 for word in group], axis=0) for group in groups]
        ranked = Ranked(rows.view(np.uint64), scores.astype(np.float32))
        return ranked.where(np.all(of_groups, axis=0))
