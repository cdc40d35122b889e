"""Queries of several columns: only rows that may be among the best are scored by all parts.

Each part is searched by itself first, which gives an upper bound of its scores. The best rows of
the parts are then scored by the whole query, and the k-th best of them sets a floor. A row that
reaches the floor must reach its share of the floor in at least one part, so only such rows are
scored.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

from alance.base.records import dataclass
from alance.ops.search.text.query import (
    BooleanQuery,
    BoostQuery,
    CombinedFieldsQuery,
    MatchQuery,
    MultiMatchQuery,
    column_of,
    leaves_of,
)
from alance.ops.search.text.ranked import ROUNDING, Ranked, combined, rows_of, shares
from alance.ops.search.text.scores import ALL, Quota

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from alance.base.arrays import Int64s
    from alance.ops.search.text.column import ColumnSearch
    from alance.ops.search.text.fields import FieldsSearch
    from alance.ops.search.text.query import TextQuery

Tops: TypeAlias = "dict[TextQuery, Ranked]"


@dataclass(frozen=True, slots=True)
class Searches:
    """Searches of the parts of queries.

    Attributes:
        singles: searches of columns, by name.
        groups: searches of several columns as one, by query.
    """

    singles: Mapping[str | None, ColumnSearch]
    groups: Mapping[TextQuery, FieldsSearch]

    def best(self, query: TextQuery, count: int | None) -> Ranked:
        """Return the best rows of a query, and possibly more, in any order.

        Args:
            count: number of the best rows; None for all rows.
        """
        if not count or isinstance(query, MultiMatchQuery) or self._search(query) is not None:
            return self._answer(query, Quota(count or None))
        tops = {part: self._answer(part, Quota(count)) for part in self._adding(query)}
        seeds = self._answer(query, rows=rows_of(list(tops.values())))
        floor = seeds.least_of(count)
        rows = rows_of(self._candidates(query, floor - ROUNDING * abs(floor), tops, count))
        return self._answer(query, rows=rows)

    def _search(self, query: TextQuery) -> ColumnSearch | FieldsSearch | None:
        """Return the search of a query on one column, or on several as one; None for others."""
        if isinstance(query, CombinedFieldsQuery):
            return self.groups[query]
        column = column_of(query)
        return None if column is None else self.singles[column]

    def _answer(self, query: TextQuery, quota: Quota = ALL, rows: Int64s | None = None) -> Ranked:
        """Return at least the matches that `quota` requires; with `rows`, all matches in `rows`."""
        if (search := self._search(query)) is not None:
            return search.answer(query, quota, rows)
        # If only the score of the best part is used, each of the best rows is among the best of a
        # part.
        of_parts = quota if isinstance(query, MultiMatchQuery) else ALL
        return combined(query, [self._answer(part, of_parts, rows) for part in query.parts()])

    def _adding(self, query: TextQuery) -> Iterator[TextQuery]:
        """Yield the parts that add to scores and are searched separately."""
        if self._search(query) is not None:
            yield query
            return
        for part in _adding_parts(query):
            yield from self._adding(part)

    def _candidates(self, query: TextQuery, floor: float, tops: Tops, count: int) -> list[Ranked]:
        """Return rows that include all matches with a score of at least `floor`.

        The scores of these rows are meaningless.
        """
        if (search := self._search(query)) is not None:
            top = tops[query]
            return [top if len(top.ids) < count else search.answer(query, Quota(None, floor))]
        parts = _adding_parts(query)
        greatest = [self._greatest(part, tops) for part in parts]
        floors = [floor] * len(parts)
        if isinstance(query, BoostQuery) and not _only_lowers(query):
            floors = [-math.inf]
        elif isinstance(query, BooleanQuery) and (needed := len(query.of("MUST"))):
            # A match is in all of these parts, so the part with the rarest words is searched, and
            # only its rows are looked up in the others.
            place = max(range(needed), key=greatest.__getitem__)
            most = sum(max(0.0, other) for other in greatest) - max(0.0, greatest[place])
            own = floor - most if most < math.inf else -math.inf
            of_all = self._candidates(parts[place], own, tops, count)
            for other in [*parts[:place], *parts[place + 1 : needed]]:
                of_all = [self._answer(other, rows=rows_of(of_all))]
            return of_all
        elif isinstance(query, BooleanQuery):
            floors = shares(floor, greatest)
        return [
            ranked
            for part, own in zip(parts, floors, strict=True)
            if own < math.inf
            for ranked in self._candidates(part, own, tops, count)
        ]

    def _greatest(self, query: TextQuery, tops: Tops) -> float:
        """Return an upper bound of the scores of a query."""
        if query in tops:
            return tops[query].greatest
        greatest = [self._greatest(part, tops) for part in _adding_parts(query)]
        if isinstance(query, BooleanQuery):
            return sum(max(0.0, most) for most in greatest)
        if isinstance(query, BoostQuery) and not _only_lowers(query):
            return math.inf
        return max(greatest)


def _adding_parts(query: TextQuery) -> list[TextQuery]:
    """Return the parts that add to scores, `MUST` parts first."""
    if isinstance(query, BooleanQuery):
        return [*query.of("MUST"), *query.of("SHOULD")]
    return [query.positive] if isinstance(query, BoostQuery) else list(query.parts())


def _only_lowers(query: BoostQuery) -> bool:
    """True if the negative part can never raise a score."""
    leaves = leaves_of(query.negative)
    is_above = all(leaf.boost >= 0 for leaf in leaves if isinstance(leaf, MatchQuery))
    return query.negative_boost >= 0 and is_above
