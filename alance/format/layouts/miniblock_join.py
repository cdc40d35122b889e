"""Many small mini-block pages decoded as one: their chunks, dictionaries and indices end to end.

Each call of numpy or a kernel costs as much for a page of a few rows as for many pages. Whatever
is unusual, wrong bytes too, is left to the decoding of single pages, which says what is wrong.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from alance.errors import AlanceError
from alance.format.blocks import DictionaryBlock, FixedWidth
from alance.format.codecs import block_codec
from alance.format.codecs.base import ChunkBuffers
from alance.format.layouts.miniblock import CHUNKS, MiniBlockPage
from alance.format.layouts.miniblock_chunks import MAX_CHUNK_VALUES, Chunks
from alance.format.layouts.miniblock_task import MiniBlockTask

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from alance.format.blocks import Block
    from alance.format.layouts.base import PageValues

    Int64s = npt.NDArray[np.int64]


def decode_together(
    pages: Sequence[MiniBlockPage], buffers: Sequence[Sequence[memoryview]]
) -> PageValues | None:
    """The rows of pages of one kind, end to end; None where they must be decoded one by one.

    Args:
        pages: at least one, all of the same `kind`.
        buffers: all buffers of each page.
    """
    first = pages[0]
    try:
        num_rows = np.array([page.num_rows for page in pages], np.int64)
        num_items = np.array([page.num_items for page in pages], np.int64)
        chunks = _chunks(first, num_rows, num_items, buffers)
        if chunks is None:
            return None
        pieces = tuple(page[CHUNKS] for page in buffers)
        rows = range(int(chunks.first_rows[-1]))
        found = MiniBlockTask(first.form, None, pieces, chunks.all(), rows).decode()
        if first.dictionary is None:
            return found
        values = _with_items(first, pages, num_items, buffers, found.values)
    except (AlanceError, ValueError, OverflowError):
        return None
    return None if values is None else replace(found, values=values)


def _chunks(
    page: MiniBlockPage,
    num_rows: Int64s,
    num_items: Int64s,
    buffers: Sequence[Sequence[memoryview]],
) -> Chunks | None:
    """The chunks of all pages; None: something does not fit."""
    width = 4 if page.form.is_large else 2
    sizes = np.array([len(one[0]) for one in buffers], np.int64)
    contents = np.array([len(one[CHUNKS]) for one in buffers], np.int64)
    if not sizes.all() or (sizes % width).any():
        return None
    words = np.frombuffer(b"".join([one[0] for one in buffers]), f"<u{width}").astype(np.int64)
    ends = np.cumsum(sizes // width)
    begins, lasts = ends - sizes // width, ends - 1
    first_bytes = _sums(((words >> 4) + 1) * 8)
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
    first_values = _sums(counts)
    if not page.form.shape.has_lists:
        if not np.array_equal(num_items, num_rows):
            return None
        return Chunks(first_bytes, first_values, first_values, None, None)
    number = 2 + (page.dictionary is not None)
    if any(len(one[number]) != 16 * (len(one[0]) // width) for one in buffers):
        return None
    index = np.frombuffer(b"".join([one[number] for one in buffers]), "<u8").reshape(-1, 2)
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
    return Chunks(first_bytes, first_values, _sums(starts), carries, None)


def _with_items(
    first: MiniBlockPage,
    pages: Sequence[MiniBlockPage],
    num_items: Int64s,
    buffers: Sequence[Sequence[memoryview]],
    stored: Block,
) -> DictionaryBlock | None:
    """Indices into the dictionaries of all pages end to end; None: one is outside of its own."""
    assert first.dictionary is not None
    if not isinstance(stored, FixedWidth) or stored.bits_per_value not in (8, 16, 32, 64):
        return None
    sizes = np.array([len(one[2]) for one in buffers], np.int64)
    counts = np.array([page.num_dictionary_items for page in pages], np.int64)
    if counts.max() > 0xFFFF_FFFF:
        return None
    data = np.frombuffer(b"".join([one[2] for one in buffers]), np.uint8)
    starts = np.cumsum(sizes) - sizes
    items = block_codec(first.dictionary).decode_blocks(
        ChunkBuffers(data, starts[None], sizes[None], counts)
    )
    if items.num_values != counts.sum() or items.num_values > 0xFFFF_FFFF:
        return None
    raw = stored.data.view(f"<u{stored.bits_per_value // 8}")
    if (raw >= np.repeat(counts, num_items)).any():
        return None
    indices = np.repeat((np.cumsum(counts) - counts).astype(np.uint32), num_items)
    indices += raw.astype(np.uint32)
    return DictionaryBlock(FixedWidth(32, len(indices), indices.view(np.uint8)), items)


def _sums(counts: Int64s) -> Int64s:
    sums = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=sums[1:])
    return sums
