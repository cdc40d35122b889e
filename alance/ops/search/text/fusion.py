"""Two rankings of rows made one: by their ranks, by weights, or as a caller's function says."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

import numpy as np
import pyarrow as pa

from alance.errors import InvalidInputError
from alance.format.numbers import as_numbers, distinct, to_arrow
from alance.records import dataclass

if TYPE_CHECKING:
    from alance.arrays import Float32s, Float64s, Int64s, Mask, UInt64s

Scores: TypeAlias = Any  # numbers: an Arrow array, a numpy array or a list
Combine: TypeAlias = (
    Literal["rrf"] | Mapping[str, float] | Callable[[pa.Table], Scores | Awaitable[Scores]]
)

RANK_SHIFT: Final = 60  # of reciprocal ranks, so that the first ones do not outweigh all others
PARTS: Final = ("text", "vector")
ROW_ID, SCORE, DISTANCE = "_rowid", "_score", "_distance"
SCORE_RANK, DISTANCE_RANK = "_score_rank", "_distance_rank"


@dataclass(frozen=True, slots=True)
class Ranking:
    """One of the two rankings, by the places of its rows among the candidates.

    Attributes:
        places: of its rows, best first; values: their scores or distances; shape (n,) each.
    """

    places: Int64s
    values: Float32s

    def spread(self, values: np.ndarray, total: int) -> pa.Array:
        """Values of its rows among all candidates, null for the others."""
        full = np.zeros(total, values.dtype)
        full[self.places] = values
        is_there: Mask = np.zeros(total, np.bool_)
        is_there[self.places] = True
        return to_arrow(full, is_there)

    @property
    def ranks(self) -> Int64s:
        """From 1."""
        return np.arange(1, len(self.places) + 1)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The rows of two rankings.

    Attributes:
        ids: row ids, ascending; shape (n,).
    """

    ids: UInt64s
    text: Ranking
    vector: Ranking

    @classmethod
    def of(cls, text: pa.Table, vector: pa.Table) -> Candidates:
        """Of tables with `_rowid`, and `_score` or `_distance`, best first."""
        parts = [as_numbers(_joined(table, ROW_ID)) for table in (text, vector)]
        ids, places = distinct(np.concatenate(parts).view(np.int64))
        of_text, of_vector = np.split(places, [len(parts[0])])
        return cls(
            ids.view(np.uint64),
            Ranking(of_text, as_numbers(_joined(text, SCORE))),
            Ranking(of_vector, as_numbers(_joined(vector, DISTANCE))),
        )

    def table(self) -> pa.Table:
        """The rows with their scores, distances and ranks, null where a ranking has not the row."""
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
        """The places of so many rows, the most relevant first, and what `table` has of them."""
        places = np.lexsort((self.ids, -relevance))[:count]
        return places, self.table().take(to_arrow(places))

    def by_rank(self) -> Float64s:
        """The sum of 1 / (60 + rank) over the rankings."""
        sums = np.zeros(len(self.ids))
        for ranking in (self.text, self.vector):
            sums[ranking.places] += 1 / (RANK_SHIFT + ranking.ranks)
        return sums

    def by_weight(self, weights: Mapping[str, float]) -> Float64s:
        """The sum of weighted scores, scaled from 0, of the last candidate, to 1, of the first."""
        sums = np.zeros(len(self.ids))
        for name, ranking in zip(PARTS, (self.text, self.vector), strict=True):
            if not len(ranking.values):
                continue
            values = ranking.values.astype(np.float64)
            first, last = values[0], values[-1]
            scaled = (values - last) / (first - last) if first != last else np.ones(len(values))
            sums[ranking.places] += weights[name] * scaled
        return sums


def check_combine(combine: object) -> Combine:
    """What says how rankings become one.

    Raises:
        InvalidInputError: another thing; weights that are no numbers of at least 0.
    """
    if combine == "rrf" or callable(combine):
        return cast("Combine", combine)
    if not isinstance(combine, Mapping):
        raise InvalidInputError(
            f"combine={combine!r}: expected 'rrf', weights of {' and '.join(PARTS)}, or a function"
        )
    if set(combine) != set(PARTS):
        raise InvalidInputError(f"combine={combine!r}: expected weights of {' and '.join(PARTS)}")
    for name, weight in combine.items():
        is_number = isinstance(weight, int | float | np.number) and not isinstance(weight, bool)
        if not is_number or not math.isfinite(weight) or weight < 0:
            raise InvalidInputError(f"combine: {name}={weight!r}: expected a number of at least 0")
    return combine


def relevance_of(candidates: Candidates, combine: Combine) -> Float64s | Awaitable[Scores]:
    """How much each candidate is to the point; what a function gives is still to be checked."""
    if combine == "rrf":
        return candidates.by_rank()
    if isinstance(combine, Mapping):
        return candidates.by_weight(combine)
    scores = cast("Callable[[pa.Table], Any]", combine)(candidates.table())
    return scores if inspect.isawaitable(scores) else checked_scores(scores, len(candidates.ids))


def checked_scores(values: Scores, total: int) -> Float64s:
    """What a caller's function gave, as numbers.

    Raises:
        InvalidInputError: no numbers, too few or too many, or NaN among them.
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
