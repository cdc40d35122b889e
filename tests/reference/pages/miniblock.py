"""Mini-block pages: chunks of compressed values, each with the levels of its entries.

A chunk has the entries up to its last value; entries without a value that follow open the next
chunk, and the last chunk has all that are left.

Source: docs/format/file.md, "Mini-block layout" and "Level budget".
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import numpy as np

from alance.errors import InvalidInputError
from alance.file_version import FileVersion
from alance.format.blocks import DictionaryBlock
from alance.format.encode.levels import layer_names
from alance.format.encode.page_inputs import EncodedPage
from alance.format.layouts.base import max_definition, max_repetition, max_visible
from alance.format.proto import encodings_v2_1_pb2 as pb
from tests.reference.pages.dictionary import encode_items
from tests.reference.pages.levels import level_blocks
from tests.reference.pages.values import mini_block_values

if TYPE_CHECKING:
    from alance.base.arrays import Bytes, Int64s, UInt16s
    from alance.format.encode.page_inputs import Hints
    from alance.format.layouts.base import PageValues

FILLER: Final = b"\xfe"
MAX_ENTRIES: Final = 0xFFFF  # a chunk says their number in 16 bits
MAX_LEVEL_BITS: Final = 131072  # of all levels of a chunk: half of a chunk of 2.1
MAX_CHUNK_BYTES: Final = 32768  # of 2.1, whose chunk words have 16 bits


class TooManyLevels(Exception):
    """A chunk would have more levels than it may."""


def level_budget(values: PageValues) -> int:
    """Entries that a chunk of these rows may have."""
    bits = max_repetition(values.layers).bit_length() + max_definition(values.layers).bit_length()
    return min(MAX_ENTRIES, MAX_LEVEL_BITS // max(bits, 1))


def mini_block_page(values: PageValues, hints: Hints) -> EncodedPage:
    """All rows as one page.

    Args:
        values: at least one visible entry; a `DictionaryBlock` becomes a page with a dictionary.

    Raises:
        TooManyLevels: a chunk would have too many entries; fewer rows may do.
        InvalidInputError: a chunk that is too large for this file version.
    """
    version = hints.version
    large = version >= FileVersion.V2_2
    message = pb.MiniBlockLayout(
        layers=layer_names(values.layers), num_items=values.values.num_values, has_large_chunk=large
    )
    block = values.values
    more: list[Bytes] = []
    if isinstance(block, DictionaryBlock):
        encoding, items = encode_items(block.items, hints)
        message.dictionary.CopyFrom(encoding)
        message.num_dictionary_items = block.items.num_values
        more.append(items)
        block = block.indices
    chunks = mini_block_values(block, hints)
    message.value_compression.CopyFrom(chunks.encoding)
    message.num_buffers = len(chunks.buffers)
    has_levels = values.rep is not None or values.definition is not None
    ends, counts = np.cumsum(chunks.counts), chunks.counts  # of entries
    if values.rep is not None:
        ends = _entry_ends(values, ends)
        counts = np.diff(ends, prepend=0)
    buffers = list(chunks.buffers)
    sizes = [*chunks.sizes]
    if has_levels and counts.max() > level_budget(values):
        raise TooManyLevels
    if values.definition is not None:
        highest = max_definition(values.layers)
        encoding, content, level_sizes = level_blocks(values.definition, counts, highest, version)
        message.def_compression.CopyFrom(encoding)
        buffers.insert(0, content)
        sizes.insert(0, level_sizes)
    if values.rep is not None:
        highest = max_repetition(values.layers)
        encoding, content, level_sizes = level_blocks(values.rep, counts, highest, version)
        message.rep_compression.CopyFrom(encoding)
        message.repetition_index_depth = 1
        buffers.insert(0, content)
        sizes.insert(0, level_sizes)
        more.append(_repetition_index(values.rep, highest, ends))
    num_levels = len(buffers) - len(chunks.buffers)
    _check_sizes(sizes, num_levels, large=large)
    entries = counts if has_levels else np.zeros_like(counts)
    words_of = [*"H" * num_levels, *("I" if large else "H") * len(chunks.buffers)]
    bodies = _bodies(buffers, sizes, entries, "<H" + "".join(words_of))
    words = _chunk_words(np.array([*map(len, bodies)]), chunks.counts, large=large)
    content = np.frombuffer(b"".join(bodies), np.uint8)
    layout = pb.PageLayout(mini_block_layout=message)
    search = (0, *range(2, 2 + len(more)))
    return EncodedPage.of(layout, (words, content, *more), values.num_rows, search)


def _bodies(buffers: list[Bytes], sizes: list[Int64s], entries: Int64s, header: str) -> list[bytes]:
    """The chunks: entries and sizes, then each part; all on multiples of 8 bytes."""
    starts = [np.cumsum(part) - part for part in sizes]
    return [
        _padded(struct.pack(header, entries[chunk], *(part[chunk] for part in sizes)))
        + b"".join(
            _padded(buffer[start[chunk] :][: part[chunk]].tobytes())
            for buffer, start, part in zip(buffers, starts, sizes, strict=True)
        )
        for chunk in range(len(entries))
    ]


def _padded(content: bytes) -> bytes:
    return content + FILLER * (-len(content) % 8)


def _entry_ends(values: PageValues, ends: Int64s) -> Int64s:
    """Convert the end of each chunk from a number of values to a number of entries."""
    definition = values.definition
    visible = max_visible(values.layers)
    if definition is None:
        return ends
    if max_definition(values.layers) > visible:
        places = np.flatnonzero(definition <= visible)
        ends = places[ends - 1] + 1
    ends[-1] = len(definition)
    return ends


def _repetition_index(rep: UInt16s, max_rep: int, ends: Int64s) -> Bytes:
    """A pair a chunk: rows that end in it, and its entries of a row that goes on behind it."""
    starts = np.flatnonzero(rep == max_rep)
    # The row that is open at the end of each chunk, and the one open at its start.
    begun = np.searchsorted(starts, ends, "left")
    is_whole = np.append(rep[ends[:-1]] == max_rep, True)
    ended = np.where(is_whole, begun, begun - 1)
    pairs = np.zeros((len(ends), 2), "<u8")
    pairs[:, 0] = np.diff(ended, prepend=0)
    chunk_starts = np.concatenate([[0], ends[:-1]])
    open_from = np.maximum(starts[np.maximum(begun - 1, 0)], chunk_starts)
    pairs[:, 1] = np.where(is_whole, 0, ends - open_from)
    return pairs.reshape(-1).view(np.uint8)


def _check_sizes(sizes: list[Int64s], num_levels: int, *, large: bool) -> None:
    """Check that the chunks can be written.

    Raises:
        TooManyLevels: a chunk would have too many entries; fewer rows may do.
        InvalidInputError: a chunk that is too large for this file version.
    """
    levels, values = sizes[:num_levels], sizes[num_levels:]
    if any(part.max(initial=0) > 0xFFFF for part in levels):
        raise TooManyLevels
    if large:
        return
    padded = sum((-(-part // 8) * 8 for part in sizes), np.zeros_like(sizes[-1]))
    header = -(-(2 + 2 * len(sizes)) // 8) * 8
    if padded.max(initial=0) + header <= MAX_CHUNK_BYTES:
        return
    only_values = sum((-(-part // 8) * 8 for part in values), np.zeros_like(sizes[-1]))
    if num_levels and only_values.max(initial=0) + header <= MAX_CHUNK_BYTES // 2:
        raise TooManyLevels
    raise InvalidInputError(
        f"mini-block: a chunk of {padded.max() + header} bytes, files of 2.1 have at most "
        f"{MAX_CHUNK_BYTES}; write full-zip pages or a file of 2.2"
    )


def _chunk_words(chunk_bytes: Int64s, counts: Int64s, *, large: bool) -> Bytes:
    """Size and logarithm of the values of each chunk; the last one has no logarithm."""
    words = (chunk_bytes // 8 - 1) << 4
    if len(words) > 1:
        words[:-1] |= np.log2(counts[:-1]).astype(np.int64)
    return words.astype("<u4" if large else "<u2").view(np.uint8)
