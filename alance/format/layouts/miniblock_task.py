"""Decoding of mini-block chunks: all chunks of a read at once, then the rows asked for.

    u16              entries of the chunk; 0 if it has no levels
    u16              size of the repetition levels, if the page has them
    u16              size of the definition levels, if the page has them
    u16 or u32, n x  sizes of the value buffers
    filler to 8      then each buffer with filler to 8

Many small pages are decoded as one, their chunks, dictionaries and indices end to end: each call of
numpy or a kernel costs as much for a page of a few rows as for many pages. Whatever is unusual,
wrong bytes too, is left to the decoding of single pages, which says what is wrong.

Source: docs/format/file.md, "Mini-block layout".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from alance import _kernels
from alance.errors import CorruptFileError
from alance.format.blocks import DictionaryBlock, FixedWidth
from alance.format.codecs.base import ChunkBuffers
from alance.format.layouts.base import PageValues
from alance.format.layouts.levels import Levels, Shape
from alance.format.layouts.miniblock_chunks import (
    ChunkRuns,
    Points,
)
from alance.format.layouts.place import joined, levels_view

if TYPE_CHECKING:
    from alance.arrays import Bytes, Int64s, UInt16s
    from alance.format.blocks import Block
    from alance.format.codecs.base import BlockCodec, MiniBlockCodec
    from alance.format.layouts.dictionary import Dictionary
    from alance.format.layouts.place import PagePlace


class ChunkForm(NamedTuple):
    """How the chunks of a page are written."""

    place: PagePlace
    shape: Shape
    rep: BlockCodec | None
    definition: BlockCodec | None
    values: MiniBlockCodec
    is_large: bool  # sizes of value buffers have 32 bits instead of 16

    @property
    def num_level_buffers(self) -> int:
        return (self.rep is not None) + (self.definition is not None)


class MiniBlockTask(NamedTuple):
    """Chunks of a page, and the rows wanted of them."""

    form: ChunkForm
    dictionary: Dictionary | None
    pieces: tuple[memoryview, ...]  # the bytes of each run of chunks
    runs: ChunkRuns | Points
    rows: Int64s | range  # sorted and unique

    @property
    def num_bytes(self) -> int:
        """Bytes of the input."""
        return sum(len(piece) for piece in self.pieces)

    def decode(self) -> PageValues:
        """Decode the rows: all chunks in a few calls, whatever their number.

        Raises:
            CorruptFileError: the chunks contradict themselves, the index or the description.
        """
        with self.form.place.checking():
            runs = self.runs
            if isinstance(runs, Points):
                levels, values, _ = self._decode_chunks(
                    runs.numbers, runs.counts, runs.starts, runs.sizes
                )
                points = runs.entries, runs.entries
                return self._with_dictionary(levels.page_values(values, len(self.rows), points))
            levels, values, entries = self._decode_chunks(runs.numbers, *runs.places())
            if self._wants_all(runs):
                page = levels.all_rows(values, len(self.rows))
                return self._with_dictionary(page)
            if isinstance(self.rows, range):
                first = int(runs.ordinals(np.array(self.rows[:1], np.int64)).sum())
                breaks = np.array([levels.num_entries])
                chosen = levels.choose_range(first, first + len(self.rows), breaks)
            else:
                breaks = np.cumsum(entries)[runs.ends - 1]
                chosen = levels.choose(runs.ordinals(self.rows), breaks)
            return self._with_dictionary(levels.page_values(values, len(self.rows), chosen))

    def _wants_all(self, runs: ChunkRuns) -> bool:
        """Whether the chunks hold the wanted rows and nothing else."""
        if len(self.rows) != runs.num_rows or len(runs.first) == 0:
            return False
        return runs.chunks.carries is None or not runs.chunks.carries[runs.first].any()

    def _decode_chunks(
        self, numbers: Int64s, counts: Int64s, starts: Int64s, sizes: Int64s
    ) -> tuple[Levels, Block, Int64s]:
        """Levels and values of all chunks, and the number of entries of each.

        Args: of each chunk, its number, values, place in the bytes that were read, and bytes.
        """
        form = self.form
        buffers = self._split(counts, starts, sizes)
        entries = counts if form.num_level_buffers == 0 else buffers.entries
        num_entries = int(entries.sum())
        taken = 0
        decoded_levels: list[UInt16s | None] = []
        for codec, is_used in (
            (form.rep, form.shape.has_lists),
            (form.definition, form.shape.max_def > 0),
        ):
            decoded = None
            if codec is not None:
                decoded = decode_levels(codec, buffers.levels(taken))
                taken += 1
                if not is_used and decoded.any():
                    raise CorruptFileError("mini-block: levels that the layers do not have")
            decoded_levels.append(decoded if is_used else None)
        levels = Levels(form.shape, num_entries, decoded_levels[0], decoded_levels[1])
        if form.shape.has_lists:
            assert isinstance(self.runs, ChunkRuns)
            chunks = self.runs.chunks
            assert chunks.carries is not None
            begun = chunks.first_rows[numbers + 1] - chunks.first_rows[numbers]
            levels.check(entries, values=counts, rows=begun, carries=chunks.carries[numbers])
        else:
            levels.check(entries, values=counts)
        values = form.values.decode_chunks(buffers.values(taken))
        if values.num_values != counts.sum():
            raise CorruptFileError(
                f"mini-block: {values.num_values} values decoded, expected {counts.sum()}"
            )
        return levels, values, entries

    def _split(self, counts: Int64s, starts: Int64s, sizes: Int64s) -> _SplitChunks:
        """Where the buffers of all chunks lie in the joined pieces."""
        form = self.form
        data = joined(self.pieces)
        num_buffers = form.num_level_buffers + form.values.num_buffers
        split = _SplitChunks(
            data, np.empty((2, num_buffers, len(counts)), np.int64), np.empty_like(counts), counts
        )
        _kernels.split_chunks(
            data,
            starts,
            sizes,
            form.num_level_buffers,
            form.values.num_buffers,
            form.is_large,
            split.entries,
            split.spans[0].reshape(-1),
            split.spans[1].reshape(-1),
        )
        return split

    def _with_dictionary(self, page: PageValues) -> PageValues:
        """The page with its values as indices into the dictionary."""
        if self.dictionary is None:
            return page
        items = self.dictionary.items()
        stored = page.values
        if not isinstance(stored, FixedWidth) or stored.bits_per_value not in (8, 16, 32, 64):
            raise CorruptFileError("mini-block: dictionary indices have 8, 16, 32 or 64 bits")
        indices = _checked(stored, items.num_values, page, self.form.shape)
        return PageValues(
            page.layers, page.rep, page.definition, DictionaryBlock(indices, items), page.num_rows
        )


class _SplitChunks(NamedTuple):
    """Chunks taken apart into buffers."""

    data: Bytes
    spans: Int64s  # shape (2, num_buffers, num_chunks): starts, sizes
    entries: Int64s  # shape (num_chunks,): levels in each chunk
    counts: Int64s  # shape (num_chunks,): values in each chunk

    def levels(self, buffer: int) -> ChunkBuffers:
        span = self.spans[:, buffer : buffer + 1]
        return ChunkBuffers(self.data, span[0], span[1], self.entries)

    def values(self, first_buffer: int) -> ChunkBuffers:
        spans = self.spans[:, first_buffer:]
        return ChunkBuffers(self.data, spans[0], spans[1], self.counts)


def decode_block(codec: BlockCodec, data: Bytes, num_values: int) -> Block:
    """Decode one block of a known number of values.

    Raises:
        CorruptFileError, ValueError: its encoding.
    """
    if num_values >= 1 << 62:
        raise CorruptFileError(f"a block of {num_values} values")
    block = codec.decode_blocks(ChunkBuffers.of_one(data, num_values))
    if block.num_values != num_values:
        raise CorruptFileError(f"{block.num_values} values decoded, expected {num_values}")
    return block


def decode_levels(codec: BlockCodec, blocks: ChunkBuffers) -> UInt16s:
    """Levels of all blocks.

    Raises:
        CorruptFileError, ValueError: their encoding, or they do not have 16 bits.
    """
    block = codec.decode_blocks(blocks)
    total = int(blocks.counts.sum())
    if not isinstance(block, FixedWidth) or block.bits_per_value != 16:
        raise CorruptFileError("levels of 16 bits expected")
    if block.num_values != total:
        raise CorruptFileError(f"{block.num_values} levels decoded, expected {total}")
    return levels_view(block.data)


def _checked(indices: FixedWidth, num_items: int, page: PageValues, shape: Shape) -> FixedWidth:
    """The indices, all inside the dictionary where the value is not null; 0 for other nulls."""
    numbers = indices.data.view(f"<u{indices.bits_per_value // 8}")
    if len(numbers) == 0 or numbers.max() < num_items:
        return indices
    outside = numbers >= num_items
    if page.definition is not None:
        visible = page.definition[page.definition <= shape.max_visible]
        if not (outside & (visible == 0)).any():
            cleaned = np.where(outside, 0, numbers).astype(numbers.dtype)
            return FixedWidth(indices.bits_per_value, indices.num_values, cleaned.view(np.uint8))
    raise CorruptFileError(
        f"dictionary index {numbers[outside][0]}, the dictionary has {num_items} items"
    )
