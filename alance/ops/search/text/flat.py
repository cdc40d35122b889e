"""Texts that no index covers: read, split, and kept where they have a word that is asked for."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from alance import _kernels
from alance.errors import kernel_errors
from alance.format.index.text.analyzer import Analyzer, Elements
from alance.format.index.text.metadata import Documents
from alance.format.index.text.postings import Postings
from alance.format.index.text.source import TextSource
from alance.format.numbers import as_numbers
from alance.io.loop.readahead import in_turn
from alance.ops.read.scan import scanned
from alance.ops.version.projection import ROW_ID
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable

    import pyarrow as pa

    from alance.arrays import UInt32s, UInt64s
    from alance.format.index.text.params import TextParams
    from alance.ops.read.options import ScanOptions
    from alance.ops.version.snapshot import Snapshot

ANALYZER_BYTES: Final = 64 << 20  # of distinct tokens, before they are forgotten


@dataclass(slots=True, eq=False)
class FlatTexts:
    """The texts of a scan that have some of the words.

    Attributes:
        keeps_all: also those that have other words alone.
        of_elements: texts are the elements of lists, not rows.
        num_docs, num_tokens: of all rows that have tokens; of all elements.
    """

    params: TextParams
    words: tuple[str, ...]
    with_positions: bool
    keeps_all: bool = False
    of_elements: bool = False
    num_docs: int = 0
    num_tokens: int = 0
    _analyzer: Analyzer = field(init=False)
    _postings: _kernels.TextPostings = field(init=False)
    _ids: list[UInt64s] = field(default_factory=list)
    _lengths: list[UInt32s] = field(default_factory=list)
    _elements: list[UInt32s] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._analyzer = self._new_analyzer()
        self._postings = _kernels.TextPostings(self.with_positions)

    def add(self, source: TextSource, batch: pa.RecordBatch) -> None:
        """Add texts and the ids of their rows."""
        if self._analyzer.num_bytes > ANALYZER_BYTES:
            self._analyzer = self._new_analyzer()
        texts, ids = source.texts(batch.column(0)), as_numbers(batch.column(1))
        places = None
        if self.of_elements:
            texts, lists, places = Elements.of(texts)
            ids = ids[lists]
        tokens = self._analyzer.tokens(texts)
        total = len(tokens.counts)
        self.num_docs += total if self.of_elements else int(np.count_nonzero(tokens.counts))
        self.num_tokens += len(tokens.numbers)
        docs = np.repeat(np.arange(total), tokens.counts)
        is_asked = tokens.numbers < len(self.words)
        counts = np.bincount(docs[is_asked], minlength=total)
        kept = (tokens.counts if self.keeps_all else counts) > 0
        with kernel_errors:
            self._postings.add(counts[kept], tokens.numbers[is_asked], tokens.places[is_asked])
        self._ids.append(ids[kept])
        self._lengths.append(tokens.counts[kept].astype(np.uint32))
        if places is not None:
            self._elements.append(places[kept])

    @property
    def num_bytes(self) -> int:
        """Of the texts that were kept, as postings."""
        return self._postings.num_bytes()

    def documents(self) -> Documents:
        """The texts that were kept."""
        ids = np.concatenate(self._ids) if self._ids else np.empty(0, np.uint64)
        lengths = np.concatenate(self._lengths) if self._lengths else np.empty(0, np.uint32)
        elements = np.concatenate(self._elements) if self._elements else None
        return Documents(lengths, ids, self.num_tokens, False, elements)

    def lists(self) -> dict[str, _kernels.PostingList]:
        """The posting lists of the words that there are."""
        last = self._postings.num_tokens()
        starts, docs, frequencies, positions = self._postings.lists(0, last)
        postings = Postings(starts, docs, frequencies, positions if self.with_positions else None)
        pairs = zip(self.words, postings.lists(), strict=False)
        return {word: single for word, single in pairs if len(single)}

    def _new_analyzer(self) -> Analyzer:
        analyzer = Analyzer(self.params)
        for word in self.words:  # their numbers are the first ones
            analyzer.number(word)
        return analyzer


async def read_texts(
    snapshot: Snapshot, column: str, options: ScanOptions, texts: FlatTexts
) -> None:
    """Add the texts of a scan: its filter, fragments and deleted rows count.

    Cost: that of a scan of the column, and of the filter's columns.
    """
    source = TextSource.of(snapshot.schema, column)
    columns = [source.path, ROW_ID]

    async def works() -> AsyncGenerator[Awaitable[None], None]:
        async with aclosing(scanned(snapshot, columns, options, flat=False)) as batches:
            async for batch in batches:
                yield snapshot.engine.pool.run(partial(texts.add, source, batch))

    # One after the other: they share their tokens.
    async with aclosing(in_turn(works(), 0)) as done:
        async for _ in done:
            pass
