"""A column that is searched: its index, opened, its words, and what no index covers."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from alance import _kernels
from alance.errors import CorruptFileError, InvalidInputError, UnsupportedError
from alance.format.index.values import NO_MASK
from alance.io.tasks import all_of
from alance.ops.search.answer import check_rows, flat_options
from alance.ops.search.eligible import MASKED_ROWS, eligible_rows
from alance.ops.search.text.files import Needed, kept_segments, open_segment
from alance.ops.search.text.flat import FlatTexts, read_texts
from alance.ops.search.text.query import MatchQuery, PhraseQuery, leaves_of
from alance.ops.search.text.ranked import NO_ROWS, Ranked
from alance.ops.search.text.scores import Collection, Quota, Statistics, matches_of
from alance.ops.search.text.segments import TextWay, text_way
from alance.ops.search.text.terms import UNINDEXED, terms_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from alance._kernels import PostingList
    from alance.arrays import Bytes
    from alance.format.index.text.params import TextParams
    from alance.ops.read.options import ScanOptions
    from alance.ops.search.eligible import Eligible
    from alance.ops.search.text.files import Partition
    from alance.ops.search.text.query import TextQuery
    from alance.ops.search.text.terms import Terms
    from alance.ops.version.snapshot import Snapshot

    Leaf = MatchQuery | PhraseQuery

_log: Final = logging.getLogger(__name__)
WORD_WORK: Final = 512  # to make words of a character costs as much as to decode so many bytes
LONG_WORK: Final = 1 << 20
MASK_WORK: Final = 64  # to see whether a document counts may cost as much as so many postings
FEW: Final = 4  # documents with the words are so many times fewer than all


@dataclass(slots=True, eq=False)
class ColumnSearch:
    """The parts of a query that are of one column.

    Attributes:
        terms: of each part, what it asks of the index, and of texts without one.
        keeps_all: of texts without an index the lengths of all are kept.
        partitions: of all segments, with the rows that count.
        lists: the posting lists of each partition, as far as they are asked for.
    """

    snapshot: Snapshot
    options: ScanOptions
    way: TextWay
    leaves: list[Leaf]
    params: TextParams = UNINDEXED
    keeps_all: bool = False
    partitions: list[tuple[Partition, Eligible]] = field(default_factory=list)
    terms: dict[Leaf, tuple[Terms, Terms]] = field(default_factory=dict)
    lists: list[dict[str, PostingList]] = field(default_factory=list)
    flat: FlatTexts | None = None

    @property
    def has_phrases(self) -> bool:
        """Positions are needed."""
        return any(isinstance(leaf, PhraseQuery) for leaf in self.leaves)

    async def open(self) -> None:
        """Open the index, and see which words are asked for."""
        try:
            await self._open_segments()
        except UnsupportedError as error:
            _log.warning("%s: every text is read: %s", self.snapshot.uri, error)
            self.way = text_way(
                self.snapshot,
                self.way.column,
                self.options,
                of_elements=self.way.of_elements,
                use_index=False,
            )
        await self.make_terms(self.params)

    async def make_terms(self, params: TextParams) -> None:
        """See which words are asked for, by a way to make words of texts."""
        self.params = params
        dictionaries = [partition.dictionary for partition, _ in self.partitions]

        def make() -> dict[Leaf, tuple[Terms, Terms]]:
            return terms_of(self.leaves, self.params, dictionaries)

        # Words that are not there are looked for in all of the dictionary.
        is_fuzzy = any(isinstance(leaf, MatchQuery) and leaf.fuzziness for leaf in self.leaves)
        size = LONG_WORK if is_fuzzy else WORD_WORK * sum(len(leaf.query) for leaf in self.leaves)
        self.terms = await self.snapshot.engine.decode(make, size)

    async def _open_segments(self) -> None:
        segments = self.way.segments
        if not segments:
            if self.has_phrases and self.way.without_positions:
                raise self._no_positions(self.way.without_positions)
            return
        is_filtered = self.options.prefilter and self.options.filter is not None
        filtering = flat_options(self.options) if is_filtered else None
        indices = [segment.index for segment in segments]
        works: list[Awaitable[Any]] = [eligible_rows(self.snapshot, segments, filtering)]
        opened = kept_segments(self.snapshot, indices)
        if opened is None:
            works += [open_segment(self.snapshot, index) for index in indices]
        rows: list[Eligible]
        (rows, _), *others = await all_of(works)
        opened = opened or others
        name = segments[0].index.name
        params = opened[0].metadata.params
        if any(segment.metadata.params != params for segment in opened):
            raise UnsupportedError(f"index {name}: its segments make tokens in several ways")
        if self.has_phrases and not params.with_position:
            raise self._no_positions(name)
        self.params = params
        for place, segment in enumerate(opened):
            eligible = rows[place]
            for partition in segment.partitions:
                if (partition.documents.elements is not None) != self.way.of_elements:
                    raise CorruptFileError(
                        f"index {name}, {partition.where}: documents that are no elements of lists "
                        "or are, against its record"
                    )
            if not segment.is_whole and not self.snapshot.has_stable_row_ids:
                # Its files name fragments that are gone, and that its record forgot.
                covered = np.array(sorted(segments[place].covered), np.int64)
                eligible = replace(eligible, fragments=covered)
            self.partitions += [(partition, eligible) for partition in segment.partitions]

    def _no_positions(self, index: str) -> InvalidInputError:
        return InvalidInputError(
            f"a phrase of column {self.way.column!r}: index {index} has no positions; make it "
            "with_position=True"
        )

    def needed(self) -> list[Needed]:
        """The posting lists of each partition."""
        # Counts of the words of texts without an index are needed as well.
        both = (terms for pair in self.terms.values() for terms in pair)
        words = list(dict.fromkeys(word for terms in both for word in terms.words))
        parts = []
        for partition, _ in self.partitions:
            numbers = partition.dictionary.find(words)
            parts.append(
                Needed(
                    partition,
                    {word: n for word, n in zip(words, numbers.tolist(), strict=True) if n >= 0},
                    self.has_phrases,
                )
            )
        return parts

    async def read_flat(self) -> None:
        """Read the texts that no index covers."""
        flat_terms = [terms for _, terms in self.terms.values()]
        words = tuple(dict.fromkeys(word for terms in flat_terms for word in terms.words))
        self.flat = FlatTexts(
            self.params, words, self.has_phrases, self.keeps_all, self.way.of_elements
        )
        fragments = [handle.id for handle in self.way.uncovered]
        options = replace(flat_options(self.options), fragments=fragments)
        await read_texts(self.snapshot, self.way.column, options, self.flat)

    @property
    def num_postings(self) -> int:
        """Of all lists that were read."""
        return sum(sum(map(len, own.values())) for own in self.lists)

    def work(self) -> int:
        """What the answers to all parts cost, as if so many bytes were decoded."""
        work = 0 if self.flat is None else self.flat.num_bytes
        for (_, eligible), own in zip(self.partitions, self.lists, strict=True):
            num_postings = sum(map(len, own.values()))
            work += num_postings if eligible.has_all else MASK_WORK * num_postings
        return work

    def answer(self, query: TextQuery, count: int | None) -> Ranked:
        """The rows of a query that is of this column alone.

        Args:
            count: the best rows at least; None: all.
        """
        leaves = list(leaves_of(query))
        in_index = {leaf: self.terms[leaf][0] for leaf in leaves}
        in_texts = {leaf: self.terms[leaf][1] for leaf in leaves}
        words = {
            word for own in (in_index, in_texts) for terms in own.values() for word in terms.words
        }
        statistics = self._statistics(words)
        flat_lists = {} if self.flat is None else self.flat.lists()
        of_both = statistics
        if self.flat is not None:
            counts = {word: len(postings) for word, postings in flat_lists.items()}
            of_both = statistics.with_more(self.flat.num_docs, self.flat.num_tokens, counts)
        if self.way.of_elements:
            statistics = of_both  # as pylance: documents of an index that are rows know no others
        asked_words = {word for terms in in_index.values() for word in terms.words}
        ranked, quota = NO_ROWS, Quota(count)
        for (partition, eligible), own in zip(self.partitions, self.lists, strict=True):
            asked = [own[word] for word in asked_words if word in own]
            documents = partition.documents
            collection = Collection(
                documents.lengths,
                documents.ids,
                documents.is_ordered,
                _mask(partition, eligible, asked),
                of_index=True,
            )
            matches = matches_of(query, in_index, own, collection, statistics, quota)
            elements = documents.elements
            places = None if elements is None else elements[matches.docs]
            rows = Ranked(documents.ids[matches.docs], matches.scores, places)
            ranked = Ranked.joined([ranked, rows])
            quota = Quota(count, ranked.least_of(count))
        if self.flat is None:
            return ranked
        ids, elements = self.flat.ids, self.flat.elements
        collection = Collection(self.flat.lengths, ids, False, NO_MASK, of_index=False)
        matches = matches_of(query, in_texts, flat_lists, collection, of_both, quota)
        places = None if elements is None else elements[matches.docs]
        return Ranked.joined([ranked, Ranked(ids[matches.docs], matches.scores, places)])

    def _statistics(self, words: Iterable[str]) -> Statistics:
        return Statistics(
            sum(len(partition.documents.lengths) for partition, _ in self.partitions),
            sum(partition.documents.total for partition, _ in self.partitions),
            {word: sum(len(own[word]) for own in self.lists if word in own) for word in words},
        )

    def check(self, ranked: Ranked) -> None:
        """Make sure that the rows of an index are in the table."""
        if self.partitions:
            check_rows(self.snapshot, self.way.segments[0].index.name, ranked.ids)


def _mask(partition: Partition, eligible: Eligible, lists: list[PostingList]) -> Bytes:
    """Which documents of a partition count; those without any of the words may be left out, where
    the mask is of no use for another search.
    """
    ids = partition.documents.ids
    is_remembered = eligible.masks is not None and len(ids) <= MASKED_ROWS
    if eligible.has_all or is_remembered or FEW * sum(map(len, lists)) >= len(ids):
        return eligible.mask_of_part(partition.where, ids)
    docs = _kernels.documents_of(lists)
    kept = eligible.mask(ids[docs])
    if kept.all():  # or empty
        return NO_MASK
    mask = np.zeros(len(ids), np.uint8)
    mask[docs] = kept
    return mask
