"""Remap of inverted indices to new row addresses after a compaction."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import UnsupportedError
from alance.format.index.text import dictionary, metadata, postings
from alance.format.index.text.dictionary import TokenDictionary
from alance.format.index.text.metadata import Documents, TextMetadata
from alance.format.index.text.postings import Postings
from alance.format.numbers import offsets_of
from alance.ops.lookup.stored import SegmentEnd, StoredFile, spans_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from alance.base.arrays import Int64s, Mask, UInt32s
    from alance.format.index.remap import Moves
    from alance.format.table.indices import Index
    from alance.ops.index.segment_files import SegmentFiles
    from alance.ops.version.snapshot import Snapshot

LISTS_AT_ONCE: Final = 1024  # posting lists per batch


async def moved_texts(snapshot: Snapshot, index: Index, moves: Moves, new: SegmentFiles) -> None:
    """Rewrite an inverted index with new row addresses, without the documents of deleted rows.

    Cost: a read and PUTs of its files. If no document is dropped, token and posting list files are
    copied. Format 1 is always rewritten as format 2. Memory: the documents of all partitions, the
    tokens of one, and some posting lists.

    Raises:
        CorruptFileError: the files contradict each other.
        UnsupportedError: posting lists in blocks of 256, or unsupported token settings.
    """
    head = await StoredFile.open(snapshot, index, metadata.TEXT_METADATA_FILE)
    old = TextMetadata.parse(head.metadata)
    if old.is_rounded:
        raise UnsupportedError(f"text index in blocks of {old.block}")
    parts = [
        await _MovedPartition.open(snapshot, index, old, number, moves) for number in old.partitions
    ]
    schema = head.schema
    if old.format_version >= metadata.TEXT_FORMAT and all(part.is_retained.all() for part in parts):
        for part in parts:
            await part.write_documents(new)
            for file, name in ((part.tokens, part.tokens_name), (part.lists, part.lists_name)):
                await new.copy(name, file)
    else:
        has_elements = any(part.documents.elements is not None for part in parts)
        parts = [part for part in parts if part.is_retained.any()] or parts[: int(has_elements)]
        for part in parts:
            await part.write_documents(new)
            await part.write_tokens(new, await part.write_lists(new))
        changed = {
            **metadata.TOKEN_SET,
            "partitions": "[" + ",".join(str(part.number) for part in parts) + "]",
            **_layout(old),
        }
        schema = schema.with_metadata({**head.metadata, **changed})

    await new.write(metadata.TEXT_METADATA_FILE, schema, _rows_of(metadata.metadata_rows(schema)))


@dataclass(frozen=True, slots=True, eq=False)
class _MovedPartition:
    """A partition and the new row ids of its documents.

    Attributes:
        rows: new row ids of the retained documents; int64.
        is_retained: mask of the retained documents.
    """

    number: int
    old: TextMetadata
    documents: Documents
    rows: Int64s
    is_retained: Mask
    tokens: StoredFile
    lists: StoredFile
    snapshot: Snapshot

    @classmethod
    async def open(
        cls, snapshot: Snapshot, index: Index, old: TextMetadata, number: int, moves: Moves
    ) -> _MovedPartition:
        pool = snapshot.engine.pool
        docs = await StoredFile.open(snapshot, index, metadata.documents_file(number))
        batch = await _whole(docs)

        def parse() -> tuple[Documents, Int64s, Mask]:
            documents = Documents.parse(batch, docs.metadata)
            rows, is_retained = moves.moved(documents.ids.astype(np.int64))
            return documents, rows, is_retained

        documents, rows, is_retained = await pool.run(parse)
        tokens = await StoredFile.open(snapshot, index, metadata.tokens_file(number))
        lists = await StoredFile.open(snapshot, index, metadata.postings_file(number))
        return cls(number, old, documents, rows, is_retained, tokens, lists, snapshot)

    @property
    def tokens_name(self) -> str:
        return metadata.tokens_file(self.number)

    @property
    def lists_name(self) -> str:
        return metadata.postings_file(self.number)

    @property
    def lengths(self) -> UInt32s:
        """Token counts of the retained documents."""
        return self.documents.lengths[self.is_retained]

    async def write_documents(self, new: SegmentFiles) -> None:
        elements = self.documents.elements
        if elements is not None:
            elements = elements[self.is_retained]
        rows = metadata.document_rows(self.rows.view(np.uint64), self.lengths, elements)
        end = SegmentEnd({metadata.TOTAL: str(int(self.lengths.sum(dtype=np.uint64)))})
        name = metadata.documents_file(self.number)
        await new.write(name, rows.schema, _rows_of(rows), lambda: end)

    async def write_lists(self, new: SegmentFiles) -> Mask:
        """Write the posting lists of retained documents; return the mask of non-empty tokens."""
        pool = self.snapshot.engine.pool
        with_positions = self.old.params.with_position
        schema = postings.postings_schema(_layout(self.old), with_positions=with_positions)
        is_used: list[Mask] = [np.zeros(0, np.bool_)]
        lengths = self.lengths
        mean = float(lengths.mean(dtype=np.float64)) if len(lengths) else 1.0

        def moved(batch: pa.RecordBatch) -> pa.RecordBatch:
            lists = Postings.parse(
                batch, self.old, len(self.is_retained), with_positions=with_positions
            )
            lists, is_there = _without(lists, self.is_retained)
            is_used.append(is_there)
            return postings.posting_rows(lists, lengths, mean, schema)

        async def rows() -> AsyncGenerator[pa.RecordBatch, None]:
            spans = spans_of(self.lists.num_rows, LISTS_AT_ONCE)
            async with aclosing(self.lists.batches(spans)) as batches:
                async for batch in batches:
                    yield await pool.run(lambda batch=batch: moved(batch))  # type: ignore[misc]

        await new.write(self.lists_name, schema, rows())
        return np.concatenate(is_used)

    async def write_tokens(self, new: SegmentFiles, is_used: Mask) -> None:
        """Write the tokens of the retained documents, with new numbers."""
        batch = await _whole(self.tokens)

        def words() -> pa.RecordBatch:
            tokens = TokenDictionary.parse(batch, len(is_used)).tokens
            words = [""] * len(is_used)
            for place, number in enumerate(tokens.numbers.tolist()):
                words[number] = tokens.word(place)
            used = np.flatnonzero(is_used).tolist()
            return dictionary.token_rows([words[number] for number in used])

        rows = await self.snapshot.engine.pool.run(words)
        await new.write(self.tokens_name, dictionary.TOKENS_SCHEMA, _rows_of(rows))


def _layout(old: TextMetadata) -> dict[str, str]:
    version = max(old.format_version, metadata.TEXT_FORMAT)
    return metadata.layout(with_positions=old.params.with_position, version=version)


def _without(lists: Postings, is_retained: Mask) -> tuple[Postings, Mask]:
    """Drop removed documents from posting lists and renumber the others.

    Returns the non-empty lists, and the mask of lists that are not empty.
    """
    stays = is_retained[lists.docs]
    before = offsets_of(stays)[lists.starts]
    counts = np.diff(before)
    positions = lists.positions
    if positions is not None:
        positions = positions[np.repeat(stays, lists.frequencies)]
    numbers = (np.cumsum(is_retained) - 1).astype(np.uint32)
    moved = Postings(
        offsets_of(counts[counts > 0]),
        numbers[lists.docs[stays]],
        lists.frequencies[stays],
        positions,
    )
    return moved, counts > 0


async def _whole(file: StoredFile) -> pa.RecordBatch:
    async with aclosing(file.batches([(0, file.num_rows)])) as batches:
        return pa.concat_batches([batch async for batch in batches])


async def _rows_of(batch: pa.RecordBatch) -> AsyncGenerator[pa.RecordBatch, None]:
    yield batch
