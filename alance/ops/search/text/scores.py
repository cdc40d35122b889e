"""The documents of posting lists that match, and their scores (BM25)."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, get_args

import numpy as np

from alance import _kernels
from alance.errors import kernel_errors
from alance.ops.search.text.query import BooleanQuery, BoostQuery, Occur
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from alance._kernels import PostingList
    from alance.arrays import Bytes, Float32s, UInt32s, UInt64s
    from alance.ops.search.text.query import TextQuery
    from alance.ops.search.text.ranked import Ranked
    from alance.ops.search.text.terms import Terms


@dataclass(frozen=True, slots=True)
class Statistics:
    """What scores depend on, of all documents of a column.

    Attributes:
        num_docs: how many there are.
        num_tokens: of all of them.
        counts: documents with each word that is asked for.
    """

    num_docs: int
    num_tokens: float
    counts: Mapping[str, int]

    @property
    def mean_length(self) -> float:
        """Tokens of a document."""
        return self.num_tokens / self.num_docs if self.num_docs and self.num_tokens else 1.0

    def weight(self, word: str) -> float:
        """How much a word says: the fewer have it, the more."""
        count = self.counts[word]
        return math.log((self.num_docs - count + 0.5) / (count + 0.5) + 1)


@dataclass(frozen=True, slots=True)
class Matches:
    """Documents that match, ascending, and their scores; shape (n,) each."""

    docs: UInt32s
    scores: Float32s


NO_DOCS: Final = np.empty(0, np.uint32)
_NO_MATCHES: Final = Matches(NO_DOCS, np.empty(0, np.float32))


@dataclass(frozen=True, slots=True)
class Collection:
    """Documents that are numbered together: those of a partition, or of texts that were read.

    Attributes:
        lengths: tokens of each, as scores count them; ids: of their rows; shape (documents,).
        is_ordered: ids ascend.
        mask: which of them count; empty: all.
        of_index: of an index; else of texts that were read.
        only: the only ones that are asked for, ascending, which all count; empty: all are.
        times: what each token counts.
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
    """How many documents are asked for.

    Attributes:
        count: the best at most; None: all.
        floor: those with less need not be given.
    """

    count: int | None = None
    floor: float = -math.inf

    def beside(self, ranked: Ranked) -> Quota:
        """The same of other documents, where some are found."""
        return Quota(self.count, max(self.floor, ranked.least_of(self.count)))


ALL: Final = Quota()


_WORDS, _PHRASE, _BOOLEAN, _BOOST, _NOTHING = range(5)  # kinds of parts, for the kernel


def matches_of(
    query: TextQuery,
    terms: Mapping[Any, Terms],
    lists: Mapping[str, PostingList],
    collection: Collection,
    statistics: Statistics,
    quota: Quota,
) -> Matches:
    """The documents of a partition that match a query of one column.

    Args:
        terms: of each match and phrase that the query is made of.
        lists: the posting lists of the words that the partition has.
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
    return Matches(docs, scores)


@dataclass(slots=True)
class Program:
    """A query as the kernel wants it, see `text_query.hpp`.

    Attributes:
        lists: posting lists, several times where several parts ask for a word.
        weights: of the lists.
        numbers: the parts; factors: of each part.
    """

    terms: Mapping[Any, Terms]
    words: Mapping[str, PostingList]
    statistics: Statistics
    lists: list[PostingList] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)

    def add(self, query: TextQuery) -> None:
        """Add a part, and those that it is made of."""
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
            self._add_part(_NOTHING, [])
            return
        # The best are those that match least, where the boost is not above 0.
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
