"""Fusion of two rankings: by rank, by weights, or by a caller's function."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

import numpy as np
import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.format.numbers import as_numbers, distinct, to_arrow

if TYPE_CHECKING:
    from alance.base.arrays import Float32s, Float64s, Int64s, Mask, UInt64s

Scores: TypeAlias = Any  # numbers: an Arrow array, a numpy array or a list
Combine: TypeAlias = (
    Literal["rrf"] | Mapping[str, float] | Callable[[pa.Table], Scores | Awaitable[Scores]]
)

RANK_SHIFT: Final = 60  # added to ranks, so that the top ranks do not dominate
RANKINGS: Final = ("text", "vector")
ROW_ID, SCORE, DISTANCE = "_rowid", "_score", "_distance"
SCORE_RANK, DISTANCE_RANK = "_score_rank", "_distance_rank"


@dataclass(frozen=True, slots=True)
class Ranking:
    """A ranking of some of the candidates.

    Attributes:
        places: positions of its rows among the candidates, best first; shape (n,).
        values: scores or distances of its rows; shape (n,).
    """

    places: Int64s
    values: Float32s

    def spread(self, values: np.ndarray, total: int) -> pa.Array:
        """Return an array over all candidates: values for ranked rows, null for the others."""
        full = np.zeros(total, values.dtype)
        full[self.places] = values
        is_ranked: Mask = np.zeros(total, np.bool_)
        is_ranked[self.places] = True
        return to_arrow(full, is_ranked)

    @property
    def ranks(self) -> Int64s:
        """Ranks of its rows, from 1."""
        return np.arange(1, len(self.places) + 1)


@dataclass(frozen=True, slots=True)
class RankedCandidates:
    """Rows that are in at least one of the two rankings.

    Attributes:
        ids: row ids, ascending; shape (n,).
    """

    ids: UInt64s
    text: Ranking
    vector: Ranking

    @classmethod
    def of(cls, text: pa.Table, vector: pa.Table) -> RankedCandidates:
        """Join two tables with `_rowid`, and `_score` or `_distance`, best rows first."""
        parts = [as_numbers(_joined(table, ROW_ID)) for table in (text, vector)]
        ids, places = distinct(np.concatenate(parts).view(np.int64))
        of_text, of_vector = np.split(places, [len(parts[0])])
        return cls(
            ids.view(np.uint64),
            Ranking(of_text, as_numbers(_joined(text, SCORE))),
            Ranking(of_vector, as_numbers(_joined(vector, DISTANCE))),
        )

    def table(self) -> pa.Table:
        """Return the scores, distances and ranks of all rows; null where a ranking lacks a row."""
        total = len(self.ids)
        return pa.table(
            {
                ROW_ID: to_arrow(self.ids),
                SCORE: self.text.spread(self.text.values, total),
                DISTANCE: self.vector.spread(self.vector.values, total),
                SCORE_RANK: self.text.spread(self.text.ranks, total),
                DISTANCE_RANK: self.vector.spread(self.vector.ranks, total),
            }
        )

    def best(self, relevance: Float64s, count: int) -> tuple[Int64s, pa.Table]:
        """Return the positions of the most relevant rows in order, and their rows of `table`."""
        places = np.lexsort((self.ids, -relevance))[:count]
        return places, self.table().take(to_arrow(places))

    def by_rank(self) -> Float64s:
        """Return the relevance by reciprocal rank fusion: the sum of 1 / (60 + rank)."""
        sums = np.zeros(len(self.ids))
        for ranking in (self.text, self.vector):
            sums[ranking.places] += 1 / (RANK_SHIFT + ranking.ranks)
        return sums

    def by_weight(self, weights: Mapping[str, float]) -> Float64s:
        """Return the weighted sums of scores, scaled to 0 for the last row and 1 for the first."""
        sums = np.zeros(len(self.ids))
        for name, ranking in zip(RANKINGS, (self.text, self.vector), strict=True):
            if not len(ranking.values):
                continue
            values = ranking.values.astype(np.float64)
            first, last = values[0], values[-1]
            scaled = (values - last) / (first - last) if first != last else np.ones(len(values))
            sums[ranking.places] += weights[name] * scaled
        return sums


def check_combine(combine: object) -> Combine:
    """Check the `combine` argument of a hybrid search, and return it.

    Raises:
        InvalidInputError: it is not 'rrf', weights or a function, or a weight is negative or not a
            number.
    """
    if combine == "rrf" or callable(combine):
        return cast("Combine", combine)
    if not isinstance(combine, Mapping):
        raise InvalidInputError(
            f"combine={combine!r}: expected 'rrf', weights of {' and '.join(RANKINGS)}, "
            "or a function"
        )
    if set(combine) != set(RANKINGS):
        raise InvalidInputError(
            f"combine={combine!r}: expected weights of {' and '.join(RANKINGS)}"
        )
    for name, weight in combine.items():
        is_number = isinstance(weight, int | float | np.number) and not isinstance(weight, bool)
        if not is_number or not math.isfinite(weight) or weight < 0:
            raise InvalidInputError(f"combine: {name}={weight!r}: expected a number of at least 0")
    return combine


def relevance_of(candidates: RankedCandidates, combine: Combine) -> Float64s | Awaitable[Scores]:
    """Return the relevance of each candidate.

    Returns an awaitable if the caller's function returns one; its result is not checked yet.
    """
    if combine == "rrf":
        return candidates.by_rank()
    if isinstance(combine, Mapping):
        return candidates.by_weight(combine)
    scores = cast("Callable[[pa.Table], Any]", combine)(candidates.table())
    return scores if inspect.isawaitable(scores) else checked_scores(scores, len(candidates.ids))


def checked_scores(values: Scores, total: int) -> Float64s:
    """Check the result of a caller's function, and return it as numbers.

    Raises:
        InvalidInputError: the values are not numbers, include NaN, or are not one per candidate.
    """
    if isinstance(values, pa.ChunkedArray | pa.Array):
        values = (
            values.to_numpy() if isinstance(values, pa.ChunkedArray) else values.to_numpy(False)
        )
    try:
        scores: Float64s = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"combine gave {values!r}: expected numbers ({error})") from None
    if scores.shape != (total,) or np.isnan(scores).any():
        raise InvalidInputError(
            f"combine gave values of shape {scores.shape}, {int(np.isnan(scores).sum())} of them "
            f"NaN: expected a number for each of {total} candidates"
        )
    return scores


def _joined(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name).combine_chunks()
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
