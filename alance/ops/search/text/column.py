"""A searched column: its opened index, the requested words, and texts that no index covers."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from alance.errors import CorruptFileError, InvalidInputError, UnsupportedError
from alance.io.loop.tasks import all_of
from alance.ops.search.answer import check_rows
from alance.ops.search.eligible import eligible_rows
from alance.ops.search.text.files import NeededLists, cached_segments, open_params, open_segment
from alance.ops.search.text.flat import FlatTexts, read_texts
from alance.ops.search.text.part import TextPart
from alance.ops.search.text.query import MatchQuery, PhraseQuery, leaves_of
from alance.ops.search.text.ranked import NO_RANKED, Ranked
from alance.ops.search.text.scores import ALL, Quota, TextStatistics
from alance.ops.search.text.segments import REMEDY
from alance.ops.search.text.terms import UNINDEXED, terms_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from alance._kernels import PostingList
    from alance.base.arrays import Int64s
    from alance.format.index.text.params import TextParams
    from alance.ops.read.options import ScanOptions
    from alance.ops.search.eligible import Eligible
    from alance.ops.search.text.files import TextPartition
    from alance.ops.search.text.query import TextQuery
    from alance.ops.search.text.segments import TextWay
    from alance.ops.search.text.terms import Terms
    from alance.ops.version.snapshot import Snapshot

    Leaf = MatchQuery | PhraseQuery

WORD_WORK: Final = 512  # cost of splitting a character into words, in decoded bytes
LONG_WORK: Final = 1 << 20  # cost of work of unknown length, in decoded bytes
MASK_WORK: Final = 64  # cost of testing if a document is eligible, in postings


@dataclass(eq=False)
class ColumnSearch:
    """Search of one column for all parts of queries on it.

    Attributes:
        leaves: match and phrase queries of the column.
        params: token settings.
        is_indexed: True if `params` are the settings of an index.
        keeps_all: True to keep the lengths of all unindexed texts, not only of matches.
        partitions: partitions of all segments, with their eligible rows.
        terms: terms of each query, for the index and for unindexed texts.
        lists: requested posting lists of each partition, by word.
        flat: texts that no index covers; None before `read_flat`.
    """

    snapshot: Snapshot
    options: ScanOptions
    way: TextWay
    leaves: list[Leaf]
    params: TextParams = UNINDEXED
    is_indexed: bool = False
    keeps_all: bool = False
    partitions: list[tuple[TextPartition, Eligible]] = field(default_factory=list)
    terms: dict[Leaf, tuple[Terms, Terms]] = field(default_factory=dict)
    lists: list[dict[str, PostingList]] = field(default_factory=list)
    flat: FlatTexts | None = None

    @property
    def has_phrases(self) -> bool:
        """True if positions of words are needed."""
        return any(isinstance(leaf, PhraseQuery) for leaf in self.leaves)

    async def open(self) -> None:
        """Open the index, and find the requested words.

        Raises:
            UnsupportedError: the index has an unknown tokenizer or format, or segments with
                different token settings.
            InvalidInputError: a phrase query, but the index has no positions.
        """
        await self._open_segments()
        await self.make_terms(self.params)

    async def make_terms(self, params: TextParams) -> None:
        """Find the requested words under the given token settings."""
        self.params = params
        dictionaries = [partition.dictionary for partition, _ in self.partitions]

        def make() -> dict[Leaf, tuple[Terms, Terms]]:
            return terms_of(self.leaves, self.params, dictionaries)

        # A fuzzy word is compared with the whole dictionary.
        is_fuzzy = any(isinstance(leaf, MatchQuery) and leaf.fuzziness for leaf in self.leaves)
        size = LONG_WORK if is_fuzzy else WORD_WORK * sum(len(leaf.query) for leaf in self.leaves)
        self.terms = await self.snapshot.engine.decode(make, size)

    async def _open_segments(self) -> None:
        segments = self.way.segments
        if not segments:
            if self.has_phrases and self.way.without_positions:
                raise self._no_positions(self.way.without_positions)
            if self.way.words is not None:
                self.params = await open_params(self.snapshot, self.way.words)
                self.is_indexed = True
            return
        indices = [segment.index for segment in segments]
        works: list[Awaitable[Any]] = [eligible_rows(self.snapshot, segments, self.options)]
        opened = cached_segments(self.snapshot, indices)
        if opened is None:
            works += [open_segment(self.snapshot, index) for index in indices]
        rows: list[Eligible]
        (rows, _), *others = await all_of(works)
        opened = opened or others
        name = segments[0].index.name
        params = opened[0].metadata.params
        if any(segment.metadata.params != params for segment in opened):
            raise UnsupportedError(
                f"index {name}: its segments make tokens in several ways; {REMEDY}"
            )
        if self.has_phrases and not params.with_position:
            raise self._no_positions(name)
        self.params, self.is_indexed = params, True
        for place, segment in enumerate(opened):
            eligible = rows[place]
            for partition in segment.partitions:
                if (partition.documents.elements is not None) != self.way.of_elements:
                    raise CorruptFileError(
                        f"index {name}, {partition.where}: its documents are rows instead of "
                        "elements of lists, or the reverse, against its record"
                    )
            self.partitions += [
                (partition, eligible.of_part(partition.fragments))
                for partition in segment.partitions
            ]

    def _no_positions(self, index: str) -> InvalidInputError:
        return InvalidInputError(
            f"a phrase of column {self.way.column!r}: index {index} has no positions; make it "
            "with_position=True"
        )

    def needed(self) -> list[NeededLists]:
        """Return the posting lists to read from each partition."""
        # Words for unindexed texts are needed, too, for their document counts.
        term_lists = (terms for pair in self.terms.values() for terms in pair)
        words = list(dict.fromkeys(word for terms in term_lists for word in terms.words))
        parts = []
        for partition, _ in self.partitions:
            numbers = partition.dictionary.find(words)
            parts.append(
                NeededLists(
                    partition,
                    {word: n for word, n in zip(words, numbers.tolist(), strict=True) if n >= 0},
                    self.has_phrases,
                )
            )
        return parts

    async def read_flat(self) -> None:
        """Read the texts that no index covers. Cost: a scan of the column."""
        flat_terms = [terms for _, terms in self.terms.values()]
        words = tuple(dict.fromkeys(word for terms in flat_terms for word in terms.words))
        self.flat = FlatTexts(
            self.params, words, self.has_phrases, self.keeps_all, self.way.of_elements
        )
        options = self.way.scan(self.options)
        await read_texts(self.snapshot, self.way.column, options, self.flat)

    @property
    def num_postings(self) -> int:
        """Total number of postings in the lists."""
        return sum(sum(map(len, own.values())) for own in self.lists)

    def work(self) -> int:
        """Return the cost of answering all parts, in decoded bytes."""
        work = 0 if self.flat is None else self.flat.num_bytes
        for (_, eligible), own in zip(self.partitions, self.lists, strict=True):
            num_postings = sum(map(len, own.values()))
            work += num_postings if eligible.has_all else MASK_WORK * num_postings
        return work

    @cached_property
    def parts(self) -> list[TextPart]:
        """Searched documents: partitions of the index, and unindexed texts.

        Access it only after `lists` and `flat` were read.
        """
        parts = [
            TextPart(partition.documents, own, partition.where, eligible)
            for (partition, eligible), own in zip(self.partitions, self.lists, strict=True)
        ]
        if self.flat is not None:
            parts.append(TextPart(self.flat.documents(), self.flat.lists()))
        return parts

    def answer(self, query: TextQuery, quota: Quota = ALL, rows: Int64s | None = None) -> Ranked:
        """Score the matches of a query of this column; return at least those that `quota` requires.

        Args:
            rows: ascending row ids; if given, all matches among these rows are returned instead.
        """
        leaves = list(leaves_of(query))
        in_index = {leaf: self.terms[leaf][0] for leaf in leaves}
        in_texts = {leaf: self.terms[leaf][1] for leaf in leaves}
        words = {
            word for own in (in_index, in_texts) for terms in own.values() for word in terms.words
        }
        of_all = self.totals(words)
        # As in pylance, if documents are rows, scores in an index use only its own documents.
        of_index = of_all if self.way.of_elements else self.totals(words, of_index=True)
        ranked = NO_RANKED
        for part in self.parts:
            is_index = part.where is not None
            terms, statistics = (in_index, of_index) if is_index else (in_texts, of_all)
            more = part.ranked(query, terms, statistics, quota.beside(ranked), rows)
            ranked = Ranked.joined([ranked, more])
        return ranked

    def totals(self, words: Iterable[str], *, of_index: bool = False) -> TextStatistics:
        """Return the statistics of all documents, or only of those in the index."""
        documents = [partition.documents for partition, _ in self.partitions]
        parts = [part for part in self.parts if part.where is not None or not of_index]
        num_docs = sum(len(covered.ids) for covered in documents)
        num_tokens = sum(covered.total for covered in documents)
        if self.flat is not None and not of_index:
            num_docs, num_tokens = num_docs + self.flat.num_docs, num_tokens + self.flat.num_tokens
        counts = {word: sum(len(part.lists.get(word, ())) for part in parts) for word in words}
        return TextStatistics(num_docs, num_tokens, counts)

    def check(self, ranked: Ranked) -> None:
        """Check that the table has the rows of the index."""
        if self.partitions:
            check_rows(self.snapshot, self.way.segments[0].index.name, ranked.ids)
