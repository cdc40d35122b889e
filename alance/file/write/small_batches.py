"""Buffering and merging of small batches until they are worth an encoder's call.

The cost of encoding a small batch hardly depends on its rows. For 100 rows, it is a hundred times
the cost of copying them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Sequence

ENOUGH_ROWS: Final = 8 << 10
ENOUGH_BYTES: Final = 1 << 20  # bytes; copying them takes a third of a millisecond
SMALL_COLUMN_BYTES: Final = 64 << 10  # bytes of about ENOUGH_ROWS numbers
# Bytes of the largest file that is encoded at once in memory, which takes a thread 30 ms.
WHOLE_SMALL_FILE_BYTES: Final = 32 << 20
# Bytes; if a batch holds less, memory that it shares with others does not matter.
OWN_BYTES: Final = 64 << 10
PAUSED_COLUMNS: Final = 512  # of a batch after which others run: a column takes 2 us to measure


def whole_bytes(num_columns: int) -> int:
    """Return the maximum size, in bytes, of a file of plain columns that is encoded at once."""
    return max(ENOUGH_BYTES, min(num_columns * SMALL_COLUMN_BYTES, WHOLE_SMALL_FILE_BYTES))


class BatchSizes:
    """Estimator of the sizes of a stream's batches; asking Arrow would take 20 us per batch.

    The size of a small batch is the memory that it holds. If batches are slices of one large batch,
    the first, second, fourth and so on are measured; other slices are assumed to have the same
    bytes per row.

    Attributes:
        is_new: True if the last batch is a small slice of memory that no earlier batch holds.
    """

    def __init__(self) -> None:
        self.is_new = False
        self._held = self._offset = 0
        self._row_bytes = 0.0
        self._num_seen = 0

    def of(self, batch: pa.RecordBatch) -> int:
        """Return the approximate bytes of a batch's rows; call it once per batch, in order."""
        held = int(batch.get_total_buffer_size())
        self.is_new = False
        if held <= OWN_BYTES or not batch.num_columns:
            return held
        offset = batch.column(0).offset
        is_next = held == self._held and offset > self._offset
        self._num_seen = self._num_seen + 1 if is_next else 1
        self._held, self._offset = held, offset
        if self._num_seen & (self._num_seen - 1) == 0:
            self._row_bytes = batch.nbytes / max(1, batch.num_rows)
        num_bytes = int(self._row_bytes * batch.num_rows)
        self.is_new = not is_next and held > 2 * num_bytes + OWN_BYTES
        return num_bytes


class SmallBatches:
    """Waiting batches of a stream. Together they hold little more memory than their rows need.

    Args:
        enough_rows, enough_bytes: batches wait until one of these limits is reached.

    Attributes:
        num_bytes: approximate bytes of the waiting rows.
    """

    def __init__(self, enough_rows: int = ENOUGH_ROWS, enough_bytes: int = ENOUGH_BYTES) -> None:
        self._enough_rows, self._enough_bytes = enough_rows, enough_bytes
        self.num_rows = self.num_bytes = 0
        self._batches: list[pa.RecordBatch] = []
        self._sizes = BatchSizes()

    def add(self, batch: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        """Add a batch; return the batches that must be encoded before it.

        A large batch waits alone, so that it is not copied. Slices of one large batch wait
        together; slices of several batches do not, because they would keep all of these in memory.
        """
        num_bytes = self._sizes.of(batch)
        leaving: Sequence[pa.RecordBatch] = ()
        is_large = batch.num_rows >= self._enough_rows or num_bytes >= self._enough_bytes
        if self._batches and (is_large or self._sizes.is_new):
            leaving = self.take()
        self._batches.append(batch)
        self.num_rows += batch.num_rows
        self.num_bytes += num_bytes
        return leaving

    @property
    def are_enough(self) -> bool:
        """True if the waiting batches are worth an encoder's call."""
        return self.num_rows >= self._enough_rows or self.num_bytes >= self._enough_bytes

    def take(self) -> Sequence[pa.RecordBatch]:
        """Remove and return all waiting batches."""
        batches, self._batches = self._batches, []
        self.num_rows = self.num_bytes = 0
        return batches


async def in_groups(
    batches: AsyncIterable[pa.RecordBatch],
    enough_rows: int = ENOUGH_ROWS,
    enough_bytes: int = ENOUGH_BYTES,
) -> AsyncGenerator[Sequence[pa.RecordBatch], None]:
    """Yield groups of small consecutive batches of a stream; a group takes one hop to a thread."""
    waiting = SmallBatches(enough_rows, enough_bytes)
    async for batch in batches:
        if leaving := waiting.add(batch):
            yield leaving
        if batch.num_columns >= PAUSED_COLUMNS:
            await asyncio.sleep(0)
        if waiting.are_enough:
            yield waiting.take()
    if rest := waiting.take():
        yield rest


def merged(batches: Sequence[pa.RecordBatch]) -> Sequence[pa.RecordBatch]:
    """Join batches to a single batch. Returns them unchanged if Arrow cannot join them."""
    if len(batches) < 2:
        return batches
    try:
        joined: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
        return joined or batches[:1]
    except pa.ArrowException:  # types differ, or dictionaries do not fit into a single one
        return batches
