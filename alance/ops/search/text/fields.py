"""Columns that count as one: words and lengths are added up before they are scored (BM25F)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from alance.errors import InvalidInputError
from alance.format.index.values import NO_MASK
from alance.format.numbers import distinct, places_in
from alance.io.tasks import all_of
from alance.ops.search.text.column import ColumnSearch
from alance.ops.search.text.ranked import NO_ROWS, Ranked
from alance.ops.search.text.segments import text_way

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance._kernels import PostingList
    from alance.arrays import Float64s, Int64s, Mask, UInt32s, UInt64s
    from alance.ops.read.options import ScanOptions
    from alance.ops.search.eligible import Eligible
    from alance.ops.search.text.query import CombinedFieldsQuery
    from alance.ops.version.snapshot import Snapshot

_K1, _B = 1.2, 0.75


@dataclass(frozen=True, slots=True)
class _Documents:
    """Documents of a column: of a partition of its index, or texts that were read.

    Attributes:
        lengths: tokens of each; ids: of their rows; shape (n,).
        eligible: which of them count; None: all.
    """

    lengths: UInt32s
    ids: UInt64s
    is_ordered: bool
    lists: Mapping[str, PostingList]
    eligible: Eligible | None

    def postings(self, word: str) -> tuple[UInt32s, UInt32s]:
        """The documents with a word that count, and how often they have it."""
        docs, frequencies = self.lists[word].documents(), self.lists[word].frequencies()
        mask = self._mask(docs)
        return docs[mask], frequencies[mask]

    def add_lengths(self, ids: Int64s, lengths: Float64s) -> None:
        """Add the lengths of rows that have documents here that count."""
        own = self.ids.view(np.int64)
        order = np.arange(len(own)) if self.is_ordered else own.argsort()
        places, is_there = places_in(own[order], ids)
        rows = np.flatnonzero(is_there)
        docs = order[places[rows]]
        mask = self._mask(docs)
        lengths[rows[mask]] += self.lengths[docs[mask]]

    def _mask(self, docs: UInt32s | Int64s) -> Mask:
        mask = NO_MASK if self.eligible is None else self.eligible.mask(self.ids[docs])
        return mask.view(np.bool_) if len(mask) else np.ones(len(docs), np.bool_)


class FieldsSearch:
    """A search of several columns as one.

    Attributes:
        searches: of each column.
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
        """Open the indices, and see which words are asked for.

        Raises:
            InvalidInputError: no index, or indices that make words in different ways.
        """
        await all_of(search.open() for search in self.searches)
        indexed = [search.params for search in self.searches if search.partitions]
        ways = {replace(params, with_position=False): None for params in indexed}
        if len(ways) != 1:
            told = "several ways to make words of texts" if ways else "no index"
            raise InvalidInputError(f"columns {', '.join(self.query.columns)} as one: {told}")
        for search in self.searches:
            await search.make_terms(*ways)

    def answer(self) -> Ranked:
        """The rows, and their scores."""
        columns = [
            _Column.of(search, part.boost)
            for search, part in zip(self.searches, self.query.parts(), strict=True)
        ]
        terms, _ = next(iter(self.searches[0].terms.values()))
        if not terms.words or (terms.needs_all and not all(terms.groups)):
            return NO_ROWS
        ids, counts = _counts(columns, terms.words)
        num_docs = max(column.num_docs for column in columns)
        lengths = np.sum([column.lengths_of(ids) for column in columns], axis=0)
        mean = sum(column.boost * column.num_tokens for column in columns) / max(1, num_docs)
        norms = _K1 * (1 - _B + _B * lengths / (mean or 1))
        scores = np.zeros(len(ids))
        for word, count in counts.items():
            own = max(column.num_with(word) for column in columns)
            weight = math.log((num_docs - own + 0.5) / (own + 0.5) + 1)
            scores += weight * (_K1 + 1) * count / (count + norms)
        ranked = Ranked(ids.view(np.uint64), scores.astype(np.float32))
        if not terms.needs_all:
            return ranked
        of_groups = [np.any([counts[word] > 0 for word in group], axis=0) for group in terms.groups]
        return ranked.where(np.all(of_groups, axis=0))


@dataclass(frozen=True, slots=True)
class _Column:
    """What is searched of a column."""

    boost: float
    parts: list[_Documents]
    num_docs: int
    num_tokens: int

    @classmethod
    def of(cls, search: ColumnSearch, boost: float) -> _Column:
        """Of the partitions of its index, and of texts that were read."""
        parts = []
        for (partition, eligible), own in zip(search.partitions, search.lists, strict=True):
            told = partition.documents
            parts.append(_Documents(told.lengths, told.ids, told.is_ordered, own, eligible))
        num_docs = sum(len(part.ids) for part in parts)
        num_tokens = sum(partition.documents.total for partition, _ in search.partitions)
        if (flat := search.flat) is not None:
            parts.append(_Documents(flat.lengths, flat.ids, False, flat.lists(), None))
            num_docs, num_tokens = num_docs + flat.num_docs, num_tokens + flat.num_tokens
        return cls(boost, parts, num_docs, num_tokens)

    def num_with(self, word: str) -> int:
        """Documents with a word."""
        return sum(len(part.lists[word]) for part in self.parts if word in part.lists)

    def lengths_of(self, ids: Int64s) -> Float64s:
        """The lengths of rows, weighted; 0 of those without a text."""
        lengths = np.zeros(len(ids))
        for part in self.parts:
            part.add_lengths(ids, lengths)
        return self.boost * lengths


def _counts(columns: Sequence[_Column], words: Sequence[str]) -> tuple[Int64s, dict[str, Float64s]]:
    """The rows with any of some words, ascending; and how often each has each word, weighted."""
    numbers, ids, counts = [], [], []
    for column in columns:
        for part in column.parts:
            for number, word in enumerate(words):
                if word in part.lists:
                    docs, frequencies = part.postings(word)
                    numbers.append(np.full(len(docs), number))
                    ids.append(part.ids[docs].view(np.int64))
                    counts.append(column.boost * frequencies)
    if not ids:
        return np.empty(0, np.int64), {word: np.empty(0) for word in words}
    rows, places = distinct(np.concatenate(ids))
    of_word, weighted = np.concatenate(numbers), np.concatenate(counts)
    sums: dict[str, Float64s] = {}
    for number, word in enumerate(words):
        own = of_word == number
        sums[word] = np.bincount(places[own], weighted[own], len(rows)).astype(np.float64)
    return rows, sums
