"""Many small mini-block pages decoded as one: their chunks, dictionaries and indices end to end.

Each call of numpy or a kernel costs as much for a page of a few rows as for many pages. Whatever
is unusual, wrong bytes too, is left to the decoding of single pages, which says what is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from alance.errors import AlanceError
from alance.format.blocks import DictionaryBlock, FixedWidth
from alance.format.codecs import block_codec
from alance.format.codecs.base import ChunkBuffers
from alance.format.layouts.miniblock import CHUNKS
from alance.format.layouts.miniblock_chunks import MAX_CHUNK_VALUES, Chunks
from alance.format.layouts.miniblock_task import MiniBlockTask
from alance.format.numbers import offsets_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.arrays import Bytes, Int64s
    from alance.format.blocks import Block
    from alance.format.layouts.base import PageValues
    from alance.format.layouts.miniblock import MiniBlockPage

TOO_MANY: Final = 1 << 40  # items of a page: more are not decoded together


class Joined(NamedTuple):
    """One buffer of many pages, end to end."""

    data: Bytes
    sizes: Int64s  # bytes of each page


class AlikePages(NamedTuple):
    """At least one page, all of the same `kind`; arrays have one value a page."""

    first: MiniBlockPage  # what all of them are, but for numbers of items
    num_rows: Int64s
    num_items: Int64s
    num_dictionary_items: Int64s
    buffer: Callable[[int], Joined]  # the buffer of a number, of all pages


def decode_together(pages: AlikePages) -> PageValues | None:
    """The rows of pages of one kind, end to end; None where they must be decoded one by one."""
    first = pages.first
    try:
        content = pages.buffer(CHUNKS)
        chunks = _chunks(pages, content.sizes)
        if chunks is None:
            return None
        rows = range(int(chunks.first_rows[-1]))
        page = MiniBlockTask(first.form, None, (content.data.data,), chunks.all(), rows).decode()
        if first.said.dictionary is None:
            return page
        values = _with_items(pages, page.values)
    except (AlanceError, ValueError, OverflowError):
        return None
    return None if values is None else page._replace(values=values)


def _chunks(pages: AlikePages, contents: Int64s) -> Chunks | None:
    """The chunks of all pages; None: something does not fit.

    Args:
        contents: bytes of the chunks of each page.
    """
    page, num_rows, num_items = pages.first, pages.num_rows, pages.num_items
    width = 4 if page.form.is_large else 2
    data, sizes = pages.buffer(0)
    if not sizes.all() or (sizes % width).any():
        return None
    words = data.view(f"<u{width}").astype(np.int64)
    ends = np.cumsum(sizes // width)
    begins, lasts = ends - sizes // width, ends - 1
    first_bytes = offsets_of(((words >> 4) + 1) * 8)
    logs = words & 15
    last_logs = logs[lasts]
    counts = np.left_shift(1, logs)
    counts[lasts] = 0
    left = num_items - np.add.reduceat(counts, begins)
    counts[lasts] = left
    logs[lasts] = 1
    fits = (
        (first_bytes[ends] - first_bytes[begins] == contents).all()
        and logs.all()
        and left.min() >= 0
        and left.max() <= MAX_CHUNK_VALUES
        and ((last_logs == 0) | (np.left_shift(1, last_logs) == left)).all()
    )
    if not fits:
        return None
    first_values = offsets_of(counts)
    if not page.form.shape.has_lists:
        if not np.array_equal(num_items, num_rows):
            return None
        return Chunks(first_bytes, first_values, first_values, None, None)
    entries, entry_sizes = pages.buffer(2 + (page.said.dictionary is not None))
    if not np.array_equal(entry_sizes, 16 * (sizes // width)):
        return None
    index = entries.view("<u8").reshape(-1, 2)
    if index.max() > 0xFFFF:
        return None
    rows, is_open = index[:, 0].astype(np.int64), index[:, 1] > 0
    if is_open[lasts].any() or not np.array_equal(np.add.reduceat(rows, begins), num_rows):
        return None
    carries = np.zeros(len(rows), np.bool_)
    carries[1:] = is_open[:-1]
    starts = rows + is_open - carries
    if starts.min() < 0:
        return None
    return Chunks(first_bytes, first_values, offsets_of(starts), carries, None)


def _with_items(pages: AlikePages, stored: Block) -> DictionaryBlock | None:
    """Indices into the dictionaries of all pages end to end; None: one is outside of its own."""
    codec, counts = pages.first.said.dictionary, pages.num_dictionary_items
    assert codec is not None
    if not isinstance(stored, FixedWidth) or stored.bits_per_value not in (8, 16, 32, 64):
        return None
    if counts.max() > 0xFFFF_FFFF:
        return None
    data, sizes = pages.buffer(2)
    starts = np.cumsum(sizes) - sizes
    items = block_codec(codec).decode_blocks(ChunkBuffers(data, starts[None], sizes[None], counts))
    if items.num_values != counts.sum() or items.num_values > 0xFFFF_FFFF:
        return None
    raw = stored.data.view(f"<u{stored.bits_per_value // 8}")
    if (raw >= np.repeat(counts, pages.num_items)).any():
        return None
    indices = np.repeat((np.cumsum(counts) - counts).astype(np.uint32), pages.num_items)
    indices += raw.astype(np.uint32)
    return DictionaryBlock(FixedWidth(32, len(indices), indices.view(np.uint8)), items)
