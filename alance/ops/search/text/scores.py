"""Documents that match in posting lists, and their scores (BM25)."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, get_args

import numpy as np

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import kernel_errors
from alance.ops.search.text.query import BooleanQuery, BoostQuery, Occur

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from alance._kernels import PostingList
    from alance.base.arrays import Bytes, Float32s, UInt32s, UInt64s
    from alance.ops.search.text.query import TextQuery
    from alance.ops.search.text.ranked import Ranked
    from alance.ops.search.text.terms import Terms


@dataclass(frozen=True, slots=True)
class TextStatistics:
    """Statistics of all documents of a column, for scores.

    Attributes:
        num_docs: number of documents.
        num_tokens: number of tokens of all documents.
        counts: number of documents with each requested word.
    """

    num_docs: int
    num_tokens: float
    counts: Mapping[str, int]

    @property
    def mean_length(self) -> float:
        """Mean number of tokens per document; 1 if there are no tokens."""
        return self.num_tokens / self.num_docs if self.num_docs and self.num_tokens else 1.0

    def weight(self, word: str) -> float:
        """Return the inverse document frequency of a word, as in BM25."""
        count = self.counts[word]
        return math.log((self.num_docs - count + 0.5) / (count + 0.5) + 1)


@dataclass(frozen=True, slots=True)
class DocMatches:
    """Numbers of matching documents, ascending, and their scores; shape (n,)."""

    docs: UInt32s
    scores: Float32s


NO_DOCS: Final = np.empty(0, np.uint32)
_NO_MATCHES: Final = DocMatches(NO_DOCS, np.empty(0, np.float32))


@dataclass(frozen=True, slots=True)
class Collection:
    """Consecutively numbered documents: of a partition, or of unindexed texts.

    Attributes:
        lengths: number of tokens of each document for scores; shape (documents,).
        ids: row id of each document; shape (documents,).
        is_ordered: True if ids ascend.
        mask: nonzero for eligible documents; empty for all.
        of_index: True for a partition of an index.
        only: numbers of the documents to score, ascending and all eligible; empty for all
            documents.
        times: weight of the column: word counts and document lengths are multiplied by it.
    """

    lengths: UInt32s
    ids: UInt64s
    is_ordered: bool
    mask: Bytes
    of_index: bool
    only: UInt32s
    times: float


@dataclass(frozen=True, slots=True)
class Quota:
    """Documents that a search must return; it may return more.

    Attributes:
        count: number of the best documents; None for all.
        floor: score below which documents are not needed.
    """

    count: int | None = None
    floor: float = -math.inf

    def beside(self, ranked: Ranked) -> Quota:
        """Return the quota for further documents.

        If `ranked` has at least `count` rows, the floor is raised to the lowest score among the
        best `count` of them.
        """
        return Quota(self.count, max(self.floor, ranked.least_of(self.count)))


ALL: Final = Quota()


_WORDS, _PHRASE, _BOOLEAN, _BOOST, _NO_PART = range(5)  # kinds of parts, for the kernel


def matches_of(
    query: TextQuery,
    terms: Mapping[Any, Terms],
    lists: Mapping[str, PostingList],
    collection: Collection,
    statistics: TextStatistics,
    quota: Quota,
) -> DocMatches:
    """Score the matches of a query of one column; return at least those that `quota` requires.

    Args:
        terms: terms of each match and phrase of the query.
        lists: posting lists of the words that occur in the collection.
    """
    program = Program(terms, lists, statistics)
    program.add(query)
    if not program.lists:
        return _NO_MATCHES
    with kernel_errors:
        docs, scores = _kernels.search_postings(
            program.lists,
            np.array(program.weights, np.float32),
            np.array(program.numbers, np.int32),
            np.array(program.factors, np.float32),
            collection.of_index,
            collection.lengths,
            statistics.mean_length,
            collection.times,
            collection.mask,
            collection.ids,
            collection.is_ordered,
            min(quota.count or 0, len(collection.ids)),
            quota.floor,
            collection.only,
        )
    return DocMatches(docs, scores)


@dataclass(slots=True)
class Program:
    """A query in the form for the kernel; see `text_query.hpp`.

    Attributes:
        words: posting list of each word that occurs.
        lists: posting lists of all parts; a list is repeated if several parts request its word.
        weights: weight of each list.
        numbers: encoded parts.
        factors: factor of the score of each part.
    """

    terms: Mapping[Any, Terms]
    words: Mapping[str, PostingList]
    statistics: TextStatistics
    lists: list[PostingList] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)

    def add(self, query: TextQuery) -> None:
        """Add a query and its parts."""
        if isinstance(query, BooleanQuery):
            parts = [query.of(occur) for occur in get_args(Occur)]
            self._add_part(_BOOLEAN, [len(parts[0]), len(parts[1]), len(parts[2])])
            for part in (part for own in parts for part in own):
                self.add(part)
        elif isinstance(query, BoostQuery):
            self._add_part(_BOOST, [], query.negative_boost)
            self.add(query.positive)
            self.add(query.negative)
        else:
            self._add_words(self.terms[query])

    def _add_part(self, kind: int, numbers: Iterable[int], factor: float = 1) -> None:
        self.numbers += [kind, *numbers]
        self.factors.append(factor)

    def _add_words(self, terms: Terms) -> None:
        groups = [[word for word in group if word in self.words] for group in terms.groups]
        counts = Counter(word for group in groups for word in group)
        if not counts or (terms.needs_all and not all(groups)):
            self._add_part(_NO_PART, [])
            return
        # With a boost of 0 or less, better matches score lower, so it is passed to the kernel as a
        # factor.
        boost, factor = (terms.boost, 1.0) if terms.boost > 0 else (1.0, terms.boost)
        first = len(self.lists)
        places = {word: place for place, word in enumerate(counts, first)}
        for word, times in counts.items():
            self.lists.append(self.words[word])
            self.weights.append(self.statistics.weight(word) * times * boost)
        bounds = [first, len(self.lists)]
        if terms.places is not None:
            pairs = zip(groups, terms.places, strict=True)
            tokens = [number for (word,), place in pairs for number in (places[word], place)]
            self._add_part(_PHRASE, [*bounds, terms.slop, len(groups), *tokens], factor)
            return
        if not terms.needs_all:
            groups = [list(counts)]
        numbers = [int(terms.needs_all), len(groups)]
        for group in groups:
            numbers += [len(group), *(places[word] for word in group)]
        self._add_part(_WORDS, [*bounds, *numbers], factor)
