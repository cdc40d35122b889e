"""The documents of posting lists that match, and their scores (BM25)."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alance import _kernels
from alance.errors import kernel_errors
from alance.format.index.text.postings import Postings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.arrays import Float32s, UInt32s
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
    num_tokens: int
    counts: Mapping[str, int]

    def with_more(self, num_docs: int, num_tokens: int, counts: Mapping[str, int]) -> Statistics:
        """The same of these and other documents."""
        return Statistics(
            self.num_docs + num_docs,
            self.num_tokens + num_tokens,
            {word: count + counts.get(word, 0) for word, count in self.counts.items()},
        )

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

    def where(self, chosen: np.ndarray) -> Matches:
        """Some of them."""
        return Matches(self.docs[chosen], self.scores[chosen])


_NO_MATCHES = Matches(np.empty(0, np.uint32), np.empty(0, np.float32))


def matches_of(
    terms: Terms,
    lists: Mapping[str, Postings],
    lengths: UInt32s,
    statistics: Statistics,
    *,
    of_index: bool,
) -> Matches:
    """The documents of a partition that match.

    Args:
        lists: the posting lists of the words that the partition has, one each.
        lengths: tokens of each document, as scores count them.
        of_index: of an index; else of texts that were read.
    """
    groups = [[word for word in group if word in lists] for group in terms.groups]
    if not groups or (terms.needs_all and not all(groups)):
        return _NO_MATCHES
    if not terms.needs_all or all(len(group) == 1 for group in groups):
        words = [word for group in groups for word in group]
        matches = _scored(words, lists, lengths, statistics, needs_all=terms.needs_all)
    else:
        matches = _of_all(
            [_scored(group, lists, lengths, statistics, needs_all=False) for group in groups]
        )
    if terms.places is not None:
        matches = _of_phrase(terms, lists, matches, of_index=of_index)
    if terms.boost != 1:
        matches = Matches(matches.docs, matches.scores * np.float32(terms.boost))
    return matches


def _scored(
    words: Sequence[str],
    lists: Mapping[str, Postings],
    lengths: UInt32s,
    statistics: Statistics,
    *,
    needs_all: bool,
) -> Matches:
    counts = Counter(words)
    postings = Postings.joined([lists[word] for word in counts])
    weights = [statistics.weight(word) * times for word, times in counts.items()]
    with kernel_errors:
        docs, scores = _kernels.score_postings(
            postings.starts,
            postings.docs,
            postings.frequencies,
            np.array(weights, np.float32),
            lengths,
            statistics.mean_length,
            needs_all,
        )
    return Matches(docs, scores)


def _of_all(parts: Sequence[Matches]) -> Matches:
    """The documents that are in all of them, by the sum of their scores."""
    first, *others = parts
    for other in others:
        docs, left, right = np.intersect1d(
            first.docs, other.docs, assume_unique=True, return_indices=True
        )
        first = Matches(docs, first.scores[left] + other.scores[right])
    return first


def _of_phrase(
    terms: Terms, lists: Mapping[str, Postings], matches: Matches, *, of_index: bool
) -> Matches:
    words = terms.words
    postings = Postings.joined([lists[word] for word in words])
    assert postings.positions is not None
    assert terms.places is not None
    tokens = [words.index(group[0]) for group in terms.groups]
    with kernel_errors:
        mask = _kernels.phrase_mask(
            postings.starts,
            postings.docs,
            postings.frequencies,
            postings.positions,
            matches.docs,
            np.array(tokens, np.int32),
            np.array(terms.places, np.int32),
            terms.slop,
            of_index,
        )
    return matches.where(mask.view(np.bool_))
