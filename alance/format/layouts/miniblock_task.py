"""Decoding of mini-block chunks one by one, and the selection of rows.

    u16              number of entries of the chunk; 0 if it has no levels
    u16              size of the repetition levels, if the page has them
    u16              size of the definition levels, if the page has them
    u16 or u32, n x  sizes of the value buffers
    padding to 8     then each buffer with padding to 8

Source: docs/format/file.md, "Mini-block layout".
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from alance.errors import CorruptFileError
from alance.format.blocks import ConstantBlock, DictionaryBlock, FixedWidth, joined_values
from alance.format.layouts.base import PageValues
from alance.format.layouts.levels import Levels, as_rows
from alance.format.layouts.place import joined, levels_view

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alance.base.arrays import Bytes, Int64s, UInt16s
    from alance.format.blocks import Block
    from alance.format.codecs.base import BlockCodec, MiniBlockCodec
    from alance.format.layouts.dictionary import Dictionary
    from alance.format.layouts.levels import Shape
    from alance.format.layouts.miniblock_chunks import ChunkRuns
    from alance.format.layouts.place import PagePlace


class ChunkForm(NamedTuple):
    """Parsed description: format of a page's chunks."""

    place: PagePlace
    shape: Shape
    rep: BlockCodec | None
    definition: BlockCodec | None
    values: MiniBlockCodec
    is_large: bool  # True if sizes of value buffers have 32 bits instead of 16

    def decode_chunk(self, chunk: Bytes, number: int, count: int) -> DecodedChunk:
        """Decode a chunk.

        Args:
            number: number of the chunk in its page, for errors.
            count: number of values in the chunk.

        Raises:
            CorruptFileError: the header, levels or values contradict the format.
            ValueError: the kernel cannot decode the values.
        """
        entries, buffers = self.buffers_of(chunk, number)
        if self.rep is None and self.definition is None:
            entries = count
        levels: list[UInt16s | None] = []
        for codec, is_used in (
            (self.rep, self.shape.has_lists),
            (self.definition, self.shape.max_def > 0),
        ):
            decoded = None if codec is None else decode_levels(codec, buffers.pop(0), entries)
            if decoded is not None and not is_used and decoded.any():
                raise CorruptFileError("mini-block: levels that the layers do not have")
            levels.append(decoded if is_used else None)
        rep, definition = levels
        return DecodedChunk(entries, rep, definition, self.values.decode_chunk(buffers, count))

    def buffers_of(self, chunk: Bytes, number: int) -> tuple[int, list[Bytes]]:
        """Return the number of entries of a chunk, and its buffers: levels, then values.

        Raises:
            CorruptFileError: the header or a buffer does not fit into the chunk.
        """
        num_levels = (self.rep is not None) + (self.definition is not None)
        words = Struct(
            f"<{1 + num_levels}H{self.values.num_buffers}{'I' if self.is_large else 'H'}"
        )
        if len(chunk) < words.size:
            raise CorruptFileError(
                f"chunk {number}: {len(chunk)} bytes, its header has {words.size}"
            )
        entries, *sizes = words.unpack_from(chunk.data)
        buffers, position = [], (words.size + 7) // 8 * 8
        for buffer, size in enumerate(sizes):
            # If the padding before a buffer exceeds the chunk, even a buffer of size 0 is refused.
            if size > len(chunk) - position:
                raise CorruptFileError(
                    f"chunk {number}: buffer {buffer} of {size} bytes at {position}, "
                    f"the chunk has {len(chunk)}"
                )
            buffers.append(chunk[position : position + size])
            position += (size + 7) // 8 * 8
        return entries, buffers


class DecodedChunk(NamedTuple):
    """Levels and values of a chunk."""

    entries: int
    rep: UInt16s | None
    definition: UInt16s | None
    values: Block


class MiniBlockTask(NamedTuple):
    """Chunks of a page, and the rows to select from them."""

    form: ChunkForm
    dictionary: Dictionary | None
    pieces: tuple[memoryview, ...]  # bytes of each run of chunks, or one piece with all runs
    runs: ChunkRuns
    rows: Int64s | range  # sorted and unique

    @property
    def num_bytes(self) -> int:
        return sum(len(piece) for piece in self.pieces)

    def decode(self) -> PageValues:
        """Decode the chunks one by one, and select the rows.

        Raises:
            CorruptFileError: the chunks are inconsistent, or contradict the index or the
                description.
        """
        with self.form.place.checking():
            runs = self.runs
            levels, values, entries = self._decode_chunks()
            if self._wants_all(runs):
                return self._with_dictionary(levels.all_rows(values, len(self.rows)))
            rows = as_rows(self.rows)
            chosen = levels.choose(runs.ordinals(rows), np.cumsum(entries)[runs.ends - 1])
            return self._with_dictionary(levels.page_values(values, len(rows), chosen))

    def _wants_all(self, runs: ChunkRuns) -> bool:
        """True if the chunks contain the requested rows and nothing else."""
        if len(self.rows) != runs.num_rows or len(runs.first) == 0:
            return False
        return runs.chunks.carries is None or not runs.chunks.carries[runs.first].any()

    def _decode_chunks(self) -> tuple[Levels, Block, Int64s]:
        """Return the levels and values of all chunks, and the number of entries of each chunk."""
        form, runs = self.form, self.runs
        numbers, (counts, starts, sizes) = runs.numbers, runs.places()
        chunks = [
            form.decode_chunk(chunk, number, count)
            for number, count, chunk in zip(
                numbers.tolist(),
                counts.tolist(),
                _cut(joined(self.pieces), starts, sizes),
                strict=True,
            )
        ]
        if not chunks:
            return Levels(form.shape, 0, None, None), ConstantBlock(0, None), counts
        entries = np.array([chunk.entries for chunk in chunks], np.int64)
        rep = _end_to_end([chunk.rep for chunk in chunks])
        definition = _end_to_end([chunk.definition for chunk in chunks])
        levels = Levels(form.shape, int(entries.sum()), rep, definition)
        if form.shape.has_lists:
            table = runs.chunks
            assert table.carries is not None
            begun = table.first_rows[numbers + 1] - table.first_rows[numbers]
            levels.check(entries, values=counts, rows=begun, carries=table.carries[numbers])
        else:
            levels.check(entries, values=counts)
        values = joined_values([chunk.values for chunk in chunks])
        if values is None:
            raise CorruptFileError("mini-block: chunks with values of different kinds")
        return levels, values, entries

    def _with_dictionary(self, page: PageValues) -> PageValues:
        """Return the page with its values as indices into the dictionary."""
        if self.dictionary is None or len(self.rows) == 0:
            return page
        items = self.dictionary.items()
        stored = page.values
        if not isinstance(stored, FixedWidth) or stored.bits_per_value not in (8, 16, 32, 64):
            raise CorruptFileError("mini-block: dictionary indices have 8, 16, 32 or 64 bits")
        indices = _checked(stored, items.num_values, page, self.form.shape)
        return PageValues(
            page.layers, page.rep, page.definition, DictionaryBlock(indices, items), page.num_rows
        )


def _end_to_end(levels: Sequence[UInt16s | None]) -> UInt16s | None:
    used = [own for own in levels if own is not None]
    return np.concatenate(used) if used else None


def _cut(data: Bytes, starts: Int64s, sizes: Int64s) -> Iterator[Bytes]:
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        yield data[start : start + size]


def decode_block(codec: BlockCodec, data: Bytes, num_values: int) -> Block:
    """Decode a block with a known number of values.

    Raises:
        CorruptFileError: the bytes contradict the codec.
        ValueError: the kernel cannot decode the bytes.
    """
    if num_values >= 1 << 62:
        raise CorruptFileError(f"a block of {num_values} values")
    return codec.decode_block(data, num_values)


def decode_levels(codec: BlockCodec, data: Bytes, num_levels: int) -> UInt16s:
    """Decode a block of levels.

    Raises:
        CorruptFileError: the bytes contradict the codec, or levels do not have 16 bits.
        ValueError: the kernel cannot decode the bytes.
    """
    block = decode_block(codec, data, num_levels)
    if not isinstance(block, FixedWidth) or block.bits_per_value != 16:
        raise CorruptFileError("levels of 16 bits expected")
    return levels_view(block.data)


def _checked(indices: FixedWidth, num_items: int, page: PageValues, shape: Shape) -> FixedWidth:
    """Check dictionary indices.

    An index outside of the dictionary becomes 0 if its value is null.
    """
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
