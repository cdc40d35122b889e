"""Rows with scores, and the combination of the rows of a query's parts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from alance.base.records import dataclass
from alance.format.numbers import distinct
from alance.ops.search.text.query import BooleanQuery, BoostQuery, MultiMatchQuery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Float32s, Int64s, Mask, UInt32s, UInt64s
    from alance.ops.search.text.query import TextQuery


@dataclass(frozen=True, slots=True)
class Ranked:
    """Distinct rows (or list elements) with their scores.

    Attributes:
        ids: row ids, uint64, shape (n,).
        scores: float32, shape (n,).
        elements: positions of elements in their lists, uint32, shape (n,); None if rows are ranked,
            or if there are no matches.
    """

    ids: UInt64s
    scores: Float32s
    elements: UInt32s | None = None

    @classmethod
    def joined(cls, parts: Sequence[Ranked]) -> Ranked:
        """Concatenate parts.

        Args:
            parts: at least one part; no two parts may have a row in common.
        """
        elements = [part.elements for part in parts if part.elements is not None]
        return cls(
            np.concatenate([part.ids for part in parts]),
            np.concatenate([part.scores for part in parts]),
            np.concatenate(elements) if elements else None,
        )

    def least_of(self, count: int | None) -> float:
        """Return the score of the `count`-th best row; -inf if there are fewer rows."""
        if count is None or not 0 < count <= len(self.scores):
            return -math.inf
        return float(np.partition(self.scores, len(self.scores) - count)[-count])

    @property
    def greatest(self) -> float:
        """Largest score; 0 if there are no rows."""
        return float(self.scores.max()) if len(self.scores) else 0.0

    def where(self, chosen: Mask | Int64s | slice) -> Ranked:
        """Select rows by a mask, by positions or by a slice."""
        elements = None if self.elements is None else self.elements[chosen]
        return Ranked(self.ids[chosen], self.scores[chosen], elements)

    def best(self, count: int | None) -> Ranked:
        """Return the best rows in order; ties are ordered by id and element.

        Args:
            count: maximum number of rows; None for all.
        """
        best = self
        if count is not None and 0 < count < len(self.ids):
            best = self.where(self.scores >= self.least_of(count))
        keys = (best.ids, -best.scores)
        order = np.lexsort(keys if best.elements is None else (best.elements, *keys))
        return best.where(order[:count])


ROUNDING: Final = 1e-5  # largest relative difference between sums in different order
NO_RANKED: Final = Ranked(np.empty(0, np.uint64), np.empty(0, np.float32))


def rows_of(parts: Sequence[Ranked]) -> Int64s:
    """Return the distinct row ids of several rankings, ascending."""
    return distinct(np.concatenate([part.ids for part in parts]).view(np.int64))[0]


def shares(floor: float, greatest: Sequence[float]) -> list[float]:
    """Split a score floor among parts whose scores are added.

    A row whose total score reaches `floor` reaches its share in at least one part.

    Args:
        greatest: upper bound of each part's score; inf if unknown.
    """
    total = sum(most for most in greatest if most > 0)
    if floor <= 0 or not 0 < total < math.inf:
        return [-math.inf] * len(greatest)
    share = floor * (1 - ROUNDING) / total
    return [share * most if most > 0 else math.inf for most in greatest]


def combined(query: TextQuery, parts: Sequence[Ranked]) -> Ranked:
    """Return the rows of a compound query.

    Args:
        parts: rows of each part of the query.
    """
    if isinstance(query, MultiMatchQuery):
        return _best(parts)
    if isinstance(query, BoostQuery):
        positive, negative = parts
        return _weakened(positive, negative, query.negative_boost)
    assert isinstance(query, BooleanQuery)
    by_occur: dict[str, list[Ranked]] = {"MUST": [], "SHOULD": [], "MUST_NOT": []}
    for (occur, _), part in zip(query.queries, parts, strict=True):
        by_occur[occur].append(part)
    return _boolean(**{occur.lower(): ranked for occur, ranked in by_occur.items()})


def _boolean(must: list[Ranked], should: list[Ranked], must_not: list[Ranked]) -> Ranked:
    ids, places = _numbered([*must, *should])
    scores = np.zeros(len(ids), np.float32)
    counts = np.zeros(len(ids), np.int64)
    for number, part in enumerate([*must, *should]):
        scores[places[number]] += part.scores
        if number < len(must):
            counts[places[number]] += 1
    is_match = counts == len(must)
    for part in must_not:
        is_match &= ~_is_in(ids, part.ids)
    return Ranked(ids[is_match], scores[is_match])


def _best(parts: Sequence[Ranked]) -> Ranked:
    ids, places = _numbered(parts)
    scores = np.full(len(ids), -np.inf, np.float32)
    for place, part in zip(places, parts, strict=True):
        scores[place] = np.maximum(scores[place], part.scores)
    return Ranked(ids, scores)


def _weakened(positive: Ranked, negative: Ranked, negative_boost: float) -> Ranked:
    ids, (first, second) = _numbered([positive, negative])
    taken = np.zeros(len(ids), np.float32)
    taken[second] = negative.scores * np.float32(negative_boost)
    return Ranked(positive.ids, positive.scores - taken[first])


def _numbered(parts: Sequence[Ranked]) -> tuple[UInt64s, list[Int64s]]:
    """Return the distinct ids of all parts, and the positions of each part's rows among them."""
    whole = Ranked.joined(parts)
    ids, places = distinct(whole.ids.view(np.int64))
    cuts = np.cumsum([len(part.ids) for part in parts])[:-1]
    return ids.view(np.uint64), np.split(places, cuts)


def _is_in(ids: UInt64s, others: UInt64s) -> Mask:
    """Return the mask of ascending `ids` that are in `others`."""
    mask = np.zeros(len(ids), np.bool_)
    if len(ids):
        places = np.minimum(np.searchsorted(ids, others), len(ids) - 1)
        mask[places[ids[places] == others]] = True
    return mask
