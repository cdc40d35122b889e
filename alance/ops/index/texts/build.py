"""Build of an inverted index segment: texts become tokens, tokens become posting lists.

Rows are read once. Packed posting lists grow in memory. When they reach the memory limit, they are
written as a partition of the segment, and the next partition begins.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base.progress import Stage
from alance.base.records import dataclass
from alance.errors import NotFoundError, UnsupportedError
from alance.file.budgets import PAGE_BYTES
from alance.format.index.text import dictionary, metadata, postings
from alance.format.index.text.analyzer import Analyzer, Elements
from alance.format.index.text.metadata import TextMetadata
from alance.format.index.text.params import is_of_elements
from alance.format.index.text.postings import Postings
from alance.format.index.text.source import TextSource, text_paths
from alance.format.numbers import as_numbers
from alance.format.paths import join_path
from alance.format.table.indices import TEXT_KIND, Index
from alance.io.loop.readahead import in_turn
from alance.ops.index.new import commit_segments
from alance.ops.index.segment_files import NewSegment
from alance.ops.index.texts.new import check_new_text
from alance.ops.index.values.sort import SORT_MEMORY_BYTES
from alance.ops.lookup.stored import SegmentEnd, StoredFile
from alance.ops.read.options import ScanOptions
from alance.ops.read.scan import scanned
from alance.ops.version.commits import with_retries
from alance.ops.version.projection import ROW_ID

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Collection, Sequence

    from alance.base.arrays import UInt32s, UInt64s
    from alance.format.index.text.params import TextParams
    from alance.format.proto import table_pb2
    from alance.ops.index.texts.new import NewTextIndex
    from alance.ops.version.options import CommitOptions
    from alance.ops.version.snapshot import Snapshot

TEXT_DETAILS: Final = "/lance.table.InvertedIndexDetails"
TEXT_BATCH_BYTES: Final = 512 << 10  # texts between two checks of the memory
# 1/256 of the memory is read ahead; decoded, it takes four times as much.
TEXT_AHEAD_SHARE: Final = 256
PAGE_SHARE: Final = 128  # a page of posting lists is 1/128 of the memory; encoding takes 1/32
LEAST_PAGE_BYTES: Final = 256 << 10
ROWS_BYTES: Final = 256 << 10  # packed posting lists per written batch
TEXT_BLOCKS_BYTES: Final = 2 << 20  # free memory that the allocator keeps for reading more texts


async def create_text_index(
    snapshot: Snapshot, new: NewTextIndex, options: CommitOptions
) -> Snapshot:
    """Commit a new inverted index; see `Dataset.create_index`."""

    async def attempt(base: Snapshot) -> Snapshot:
        checked = check_new_text(base, new)
        builder = TextSegmentBuilder(
            base,
            checked.column,
            checked.leaf,
            checked.name,
            checked.source,
            new.params,
            new.memory_bytes,
            new.of_elements,
        )
        covered = base.handles.ids if new.train else []
        return await commit_segments(base, {builder: covered}, checked.old, options)

    return await with_retries(snapshot, attempt, options.max_retries)


async def texts_like(
    base: Snapshot, segments: Sequence[table_pb2.IndexMetadata]
) -> TextSegmentBuilder | None:
    """Return a builder with the options of an index's latest segment.

    Returns None if alance cannot write a segment of this form, or if the column is gone.

    Raises:
        CorruptFileError, NotFoundError: the segment's files cannot be read.
    """
    index = Index.from_protobuf(segments[-1])
    path = text_paths(base.schema.fields).get(index.fields[0])
    if index.kind != TEXT_KIND or path is None:
        return None
    try:
        head = await StoredFile.open(base, index, metadata.TEXT_METADATA_FILE)
        stored = TextMetadata.parse(head.metadata)
    except UnsupportedError:
        return None
    except NotFoundError:
        if index.message.files:
            raise
        return None  # an index of an old release has no such file
    if stored.is_rounded:
        return None  # pylance searches no index with blocks of several sizes
    of_elements = is_of_elements(index.message.index_details.value)
    column = join_path(path)
    source = TextSource.of(base.schema, column)
    return TextSegmentBuilder(
        base,
        column,
        source.leaf,
        index.name,
        source,
        stored.params,
        of_elements=of_elements,
        version=max(metadata.TEXT_FORMAT, stored.format_version),
    )


@dataclass(slots=True, eq=False)
class TextSegmentBuilder(NewSegment):
    """Builder of an inverted index segment.

    Attributes:
        source: location of the texts in the column.
        memory_bytes: size at which a partition is written.
        of_elements: True if documents are list elements, not rows.
        version: format version of the index's other segments: pylance only merges equal versions.
    """

    source: TextSource
    params: TextParams
    memory_bytes: int = SORT_MEMORY_BYTES
    of_elements: bool = False
    version: int = metadata.TEXT_FORMAT

    async def build(self, fragment_ids: Collection[int]) -> table_pb2.IndexMetadata:
        """Write the files of the segment and return its record.

        Cost: a scan of the column in these fragments; the files' PUTs. Memory: `memory_bytes`, plus
        a tenth of it (at least 16 MiB) for read-ahead and for pages being written.

        Raises:
            StoreError: the store failed.
        """
        numbers: list[int] = []
        if fragment_ids or self.of_elements:
            numbers, _ = await self.partitions(fragment_ids, 0)
        return await self.finish(fragment_ids, numbers)

    async def partitions(self, fragment_ids: Collection[int], first: int) -> tuple[list[int], int]:
        """Write the partitions of some fragments; return their numbers and the row count.

        Args:
            first: number of the first partition.
        """
        pool = self.snapshot.engine.pool
        numbers: list[int] = []
        part = _NewPartition(self.params, self.of_elements)
        num_rows, total = 0, await self.snapshot.watched_rows(fragment_ids)

        async def works() -> AsyncGenerator[Awaitable[None], None]:
            nonlocal num_rows
            options = ScanOptions(
                fragments=fragment_ids,
                batch_size_bytes=min(TEXT_BATCH_BYTES, self.memory_bytes),
                batch_readahead=1,
                io_buffer_bytes=max(1, self.memory_bytes // TEXT_AHEAD_SHARE),
            )
            columns = [self.source.path, ROW_ID]
            rows = scanned(self.snapshot, columns, options, flat=False)
            with Stage("scan", total, "rows") as stage:
                async with aclosing(rows) as batches:
                    async for batch in batches:
                        num_rows += batch.num_rows
                        yield pool.run(lambda batch=batch: part.add(self.source, batch))  # type: ignore[misc]
                        stage.at(num_rows)

        # Batches are added one after the other, because they share the token dictionary.
        async with aclosing(in_turn(works(), 0)) as done:
            async for _ in done:
                if part.num_bytes >= self.memory_bytes:
                    numbers.append(first + len(numbers))
                    await self._write(part, numbers[-1])
                    part = _NewPartition(self.params, self.of_elements)
        # The documents' columns show whether documents are elements. So an index of elements needs
        # at least one partition, even an empty one.
        if part.num_docs or (self.of_elements and not numbers):
            numbers.append(first + len(numbers))
            await self._write(part, numbers[-1])
        return numbers, num_rows

    async def finish(
        self, fragment_ids: Collection[int], numbers: Sequence[int]
    ) -> table_pb2.IndexMetadata:
        """Write the metadata file of the segment and return its record. Cost: a PUT."""
        schema = metadata.metadata_schema(self.params, numbers, self.version)
        await self.files.write(
            metadata.TEXT_METADATA_FILE, schema, _rows_of(metadata.metadata_rows(schema))
        )
        return self.record(
            fragment_ids,
            version=metadata.OF_ELEMENTS if self.of_elements else self.version,
            details=(
                TEXT_DETAILS,
                self.params.details(of_elements=self.of_elements, version=self.version),
            ),
        )

    async def _write(self, part: _NewPartition, number: int) -> None:
        pool = self.snapshot.engine.pool
        words = _rows_of(await pool.run(part.words))
        await self.files.write(metadata.tokens_file(number), dictionary.TOKENS_SCHEMA, words)
        documents = _rows_of(await pool.run(part.documents))
        end = SegmentEnd({metadata.TOTAL: str(part.num_tokens)})
        name = metadata.documents_file(number)
        schema = metadata.DOCUMENTS_OF_ELEMENTS if self.of_elements else metadata.DOCUMENTS
        await self.files.write(name, schema, documents, lambda: end)
        with_positions = self.params.with_position
        layout = metadata.layout(with_positions=with_positions, version=self.version)
        schema = postings.postings_schema(layout, with_positions=with_positions)

        async def lists() -> AsyncGenerator[pa.RecordBatch, None]:
            first = 0
            while first < part.num_lists:
                batch, first = await pool.run(lambda first=first: part.lists(first, schema))  # type: ignore[misc]
                yield batch

        name, page_bytes = metadata.postings_file(number), self.memory_bytes // PAGE_SHARE
        page_bytes = min(PAGE_BYTES, max(LEAST_PAGE_BYTES, page_bytes))
        await self.files.write(name, schema, lists(), page_bytes=page_bytes)


class _NewPartition:
    """Documents and posting lists of a partition under construction."""

    def __init__(self, params: TextParams, of_elements: bool) -> None:
        self._analyzer = Analyzer(params)
        self._postings = _kernels.TextPostings(params.with_position)
        self._ids: list[UInt64s] = [np.empty(0, np.uint64)]
        self._lengths: list[UInt32s] = [np.empty(0, np.uint32)]
        self._elements: list[UInt32s] | None = None
        if of_elements:
            self._elements = [np.empty(0, np.uint32)]
        self.num_docs = 0
        self.num_tokens = 0

    @property
    def num_bytes(self) -> int:
        """Approximate memory of the partition."""
        return self._postings.num_bytes() + self._analyzer.num_bytes + 16 * self.num_docs

    @property
    def num_lists(self) -> int:
        """Number of distinct tokens."""
        return self._postings.num_tokens()

    def add(self, source: TextSource, batch: pa.RecordBatch) -> None:
        """Add texts with row ids. A row without tokens is no document; a list element always is."""
        texts, ids = source.texts(batch.column(0)), as_numbers(batch.column(1))
        if self._elements is not None:
            texts, rows, numbers = Elements.of(texts)
            ids = ids[rows]
            self._elements.append(numbers)
        tokens = self._analyzer.tokens(texts)
        counts = tokens.counts
        if self._elements is None:
            is_used = counts > 0
            counts, ids = counts[is_used], ids[is_used]
        self._postings.add(counts, tokens.numbers, tokens.places)
        self._ids.append(ids)
        self._lengths.append(counts.astype(np.uint32))
        self.num_docs += len(counts)
        self.num_tokens += len(tokens.numbers)
        _release()

    def words(self) -> pa.RecordBatch:
        """Return the rows of the token file and free the tokens; `add` must not be called again."""
        words = self._analyzer.words
        del self._analyzer
        _release()
        return dictionary.token_rows(words)

    def documents(self) -> pa.RecordBatch:
        """Return the rows of the document file; free everything except the document lengths."""
        ids, self._ids = np.concatenate(self._ids), []
        self._lengths = [np.concatenate(self._lengths)]
        elements, self._elements = self._elements, None
        places = None if elements is None else np.concatenate(elements)
        return metadata.document_rows(ids, self._lengths[0], places)

    def lists(self, first: int, schema: pa.Schema) -> tuple[pa.RecordBatch, int]:
        """Return rows of the posting list file from token `first` on, and the next token.

        Call `documents` first.
        """
        (lengths,) = self._lengths
        mean = self.num_tokens / self.num_docs
        lists = Postings(*self._postings.lists(first, self.num_lists, ROWS_BYTES))
        if postings.POSITIONS not in schema.names:
            lists = replace(lists, positions=None)
        rows = postings.posting_rows(lists, lengths, mean, schema)
        _release()
        return rows, first + rows.num_rows


def _release() -> None:
    """Return freed memory to the system: blocks of many sizes are rarely reused."""
    _kernels.trim_memory(TEXT_BLOCKS_BYTES)
    pa.default_memory_pool().release_unused()


async def _rows_of(batch: pa.RecordBatch) -> AsyncGenerator[pa.RecordBatch, None]:
    yield batch
