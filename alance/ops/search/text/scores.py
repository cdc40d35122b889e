"""The documents of posting lists that match, and their scores (BM25)."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from alance import _kernels
from alance.errors import kernel_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance._kernels import PostingList
    from alance.arrays import Bytes, Float32s, UInt32s, UInt64s
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


@dataclass(frozen=True, slots=True)
class Collection:
    """Documents that are numbered together: those of a partition, or of texts that were read.

    Attributes:
        lengths: tokens of each, as scores count them; ids: of their rows; shape (documents,).
        is_ordered: ids ascend.
        mask: which of them count; empty: all.
        of_index: of an index; else of texts that were read.
    """

    lengths: UInt32s
    ids: UInt64s
    is_ordered: bool
    mask: Bytes
    of_index: bool


@dataclass(frozen=True, slots=True)
class Quota:
    """How many documents are asked for.

    Attributes:
        count: the best at most; None: all.
        floor: those with less need not be given.
    """

    count: int | None = None
    floor: float = -math.inf


ALL: Final = Quota()


def matches_of(
    terms: Terms,
    lists: Mapping[str, PostingList],
    collection: Collection,
    statistics: Statistics,
    quota: Quota,
) -> Matches:
    """The documents of a partition that match.

    Args:
        lists: the posting lists of the words that the partition has.
        quota: counts where nothing is asked of documents beside words.
    """
    groups = [[word for word in group if word in lists] for group in terms.groups]
    if not groups or (terms.needs_all and not all(groups)):
        return _NO_MATCHES

    def scored(words: Sequence[str], *, needs_all: bool, quota: Quota = ALL) -> Matches:
        counts = Counter(words)
        boost = terms.boost if terms.boost > 0 else 1
        weights = [statistics.weight(word) * times * boost for word, times in counts.items()]
        with kernel_errors:
            docs, scores = _kernels.search_postings(
                [lists[word] for word in counts],
                np.array(weights, np.float32),
                collection.lengths,
                statistics.mean_length,
                needs_all,
                collection.mask,
                collection.ids,
                collection.is_ordered,
                min(quota.count or 0, len(collection.ids)),
                quota.floor,
            )
        return Matches(docs, scores)

    if terms.needs_all and any(len(group) > 1 for group in groups):
        matches = _of_all([scored(group, needs_all=False) for group in groups])
    else:
        words = [word for group in groups for word in group]
        is_plain = terms.places is None and terms.boost > 0
        matches = scored(words, needs_all=terms.needs_all, quota=quota if is_plain else ALL)
    if terms.places is not None:
        matches = _of_phrase(terms, lists, matches, of_index=collection.of_index)
    if terms.boost <= 0:  # the best are those that match least: all were asked for
        matches = Matches(matches.docs, matches.scores * np.float32(terms.boost))
    return matches


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
    terms: Terms, lists: Mapping[str, PostingList], matches: Matches, *, of_index: bool
) -> Matches:
    words = terms.words
    assert terms.places is not None
    with kernel_errors:
        mask = _kernels.phrase_mask(
            [lists[word] for word in words],
            matches.docs,
            np.array([words.index(group[0]) for group in terms.groups], np.int32),
            np.array(terms.places, np.int32),
            terms.slop,
            of_index,
        )
    return matches.where(mask.view(np.bool_))
