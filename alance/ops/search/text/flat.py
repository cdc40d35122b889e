"""Unindexed texts: read by a scan, and retained if they have a requested word."""

from __future__ import annotations

from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import kernel_errors
from alance.format.index.text.analyzer import Analyzer, Elements
from alance.format.index.text.metadata import Documents
from alance.format.index.text.postings import Postings
from alance.format.index.text.source import TextSource
from alance.format.numbers import as_numbers
from alance.ops.search.flat import scan_each

if TYPE_CHECKING:
    import pyarrow as pa

    from alance.base.arrays import UInt32s, UInt64s
    from alance.format.index.text.params import TextParams
    from alance.ops.read.options import ScanOptions
    from alance.ops.version.snapshot import Snapshot

ANALYZER_BYTES: Final = 64 << 20  # distinct tokens are dropped when they exceed this memory


@dataclass(slots=True, eq=False)
class FlatTexts:
    """The texts of a scan that contain a requested word.

    Attributes:
        keeps_all: True to retain all texts with words, whether requested or not.
        of_elements: True if documents are list elements, not rows.
        num_docs: number of rows with tokens, or of all elements.
        num_tokens: number of tokens of all texts.
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
        is_requested = tokens.numbers < len(self.words)
        counts = np.bincount(docs[is_requested], minlength=total)
        retained = (tokens.counts if self.keeps_all else counts) > 0
        with kernel_errors:
            self._postings.add(
                counts[retained], tokens.numbers[is_requested], tokens.places[is_requested]
            )
        self._ids.append(ids[retained])
        self._lengths.append(tokens.counts[retained].astype(np.uint32))
        if places is not None:
            self._elements.append(places[retained])

    @property
    def num_bytes(self) -> int:
        """Memory of the retained postings in bytes."""
        return self._postings.num_bytes()

    def documents(self) -> Documents:
        """Return the retained texts as documents."""
        ids = np.concatenate(self._ids) if self._ids else np.empty(0, np.uint64)
        lengths = np.concatenate(self._lengths) if self._lengths else np.empty(0, np.uint32)
        elements = np.concatenate(self._elements) if self._elements else None
        return Documents(lengths, ids, self.num_tokens, False, elements)

    def lists(self) -> dict[str, _kernels.PostingList]:
        """Return the posting lists of the words that occur."""
        last = self._postings.num_tokens()
        starts, docs, frequencies, positions = self._postings.lists(0, last)
        postings = Postings(starts, docs, frequencies, positions if self.with_positions else None)
        pairs = zip(self.words, postings.lists(), strict=False)
        return {word: single for word, single in pairs if len(single)}

    def _new_analyzer(self) -> Analyzer:
        analyzer = Analyzer(self.params)
        for word in self.words:  # first, so that requested words have the lowest numbers
            analyzer.number(word)
        return analyzer


async def read_texts(
    snapshot: Snapshot, column: str, options: ScanOptions, texts: FlatTexts
) -> None:
    """Add the texts of a scan, which applies the filter, fragments and deletions.

    Cost: a scan of the column and of the filter's columns.
    """
    source = TextSource.of(snapshot.schema, column)
    # Batches are added one after another, because they share one analyzer.
    await scan_each(snapshot, source.path, options, partial(texts.add, source), 0, flat=False)
