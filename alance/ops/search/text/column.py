"""A column that is searched: its index, opened, its words, and what no index covers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from alance.errors import CorruptFileError, InvalidInputError, UnsupportedError
from alance.io.loop.tasks import all_of
from alance.ops.search.answer import check_rows, flat_options
from alance.ops.search.eligible import eligible_rows
from alance.ops.search.text.files import Needed, kept_segments, open_params, open_segment
from alance.ops.search.text.flat import FlatTexts, read_texts
from alance.ops.search.text.part import TextPart
from alance.ops.search.text.query import MatchQuery, PhraseQuery, leaves_of
from alance.ops.search.text.ranked import NO_ROWS, Ranked
from alance.ops.search.text.scores import ALL, Quota, Statistics
from alance.ops.search.text.segments import REMEDY
from alance.ops.search.text.terms import UNINDEXED, terms_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from alance._kernels import PostingList
    from alance.arrays import Int64s
    from alance.format.index.text.params import TextParams
    from alance.ops.read.options import ScanOptions
    from alance.ops.search.eligible import Eligible
    from alance.ops.search.text.files import Partition
    from alance.ops.search.text.query import TextQuery
    from alance.ops.search.text.segments import TextWay
    from alance.ops.search.text.terms import Terms
    from alance.ops.version.snapshot import Snapshot

    Leaf = MatchQuery | PhraseQuery

WORD_WORK: Final = 512  # to make words of a character costs as much as to decode so many bytes
LONG_WORK: Final = 1 << 20
MASK_WORK: Final = 64  # to see whether a document counts may cost as much as so many postings


@dataclass(eq=False)
class ColumnSearch:
    """The parts of a query that are of one column.

    Attributes:
        terms: of each part, what it asks of the index, and of texts without one.
        is_indexed: True if the settings of an index say how texts are split into words.
        keeps_all: of texts without an index the lengths of all are kept.
        partitions: of all segments, with the rows that count.
        lists: the posting lists of each partition, as far as they are asked for.
    """

    snapshot: Snapshot
    options: ScanOptions
    way: TextWay
    leaves: list[Leaf]
    params: TextParams = UNINDEXED
    is_indexed: bool = False
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
        """Open the index, and see which words are asked for.

        Raises:
            UnsupportedError: the index has a tokenizer or format that is not known here.
        """
        await self._open_segments()
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
            if self.way.words is not None:
                self.params = await open_params(self.snapshot, self.way.words)
                self.is_indexed = True
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
                        f"index {name}, {partition.where}: documents that are no elements of lists "
                        "or are, against its record"
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

    def needed(self) -> list[Needed]:
        """The posting lists of each partition."""
        # Counts of the words of texts without an index are needed as well.
        term_lists = (terms for pair in self.terms.values() for terms in pair)
        words = list(dict.fromkeys(word for terms in term_lists for word in terms.words))
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

    @cached_property
    def parts(self) -> list[TextPart]:
        """What is searched, once it is read: partitions of the index, and texts without one."""
        parts = [
            TextPart(partition.documents, own, partition.where, eligible)
            for (partition, eligible), own in zip(self.partitions, self.lists, strict=True)
        ]
        if self.flat is not None:
            parts.append(TextPart(self.flat.documents(), self.flat.lists()))
        return parts

    def answer(self, query: TextQuery, quota: Quota = ALL, rows: Int64s | None = None) -> Ranked:
        """The rows of a query that is of this column alone, those of a quota at least.

        Args:
            rows: the only ones that are asked for, ascending; then all of them that match.
        """
        leaves = list(leaves_of(query))
        in_index = {leaf: self.terms[leaf][0] for leaf in leaves}
        in_texts = {leaf: self.terms[leaf][1] for leaf in leaves}
        words = {
            word for own in (in_index, in_texts) for terms in own.values() for word in terms.words
        }
        of_both = self.totals(words)
        # As pylance: documents of an index that are rows know no others.
        of_index = of_both if self.way.of_elements else self.totals(words, of_index=True)
        ranked = NO_ROWS
        for part in self.parts:
            is_index = part.where is not None
            terms, statistics = (in_index, of_index) if is_index else (in_texts, of_both)
            more = part.ranked(query, terms, statistics, quota.beside(ranked), rows)
            ranked = Ranked.joined([ranked, more])
        return ranked

    def totals(self, words: Iterable[str], *, of_index: bool = False) -> Statistics:
        """Of all documents, or of those of the index."""
        documents = [partition.documents for partition, _ in self.partitions]
        parts = [part for part in self.parts if part.where is not None or not of_index]
        num_docs = sum(len(covered.ids) for covered in documents)
        num_tokens = sum(covered.total for covered in documents)
        if self.flat is not None and not of_index:
            num_docs, num_tokens = num_docs + self.flat.num_docs, num_tokens + self.flat.num_tokens
        counts = {word: sum(len(part.lists.get(word, ())) for part in parts) for word in words}
        return Statistics(num_docs, num_tokens, counts)

    def check(self, ranked: Ranked) -> None:
        """Make sure that the rows of an index are in the table."""
        if self.partitions:
            check_rows(self.snapshot, self.way.segments[0].index.name, ranked.ids)
