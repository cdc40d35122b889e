"""Small batches wait until they are enough for the encoder, and are encoded as one.

What a batch costs an encoder does not depend on its rows: of 100 rows it is a hundred times what
copying them takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Sequence

ENOUGH_ROWS: Final = 8 << 10
ENOUGH_BYTES: Final = 1 << 20  # copied in a third of a millisecond
COLUMN_BYTES: Final = 64 << 10  # as many rows of numbers
WHOLE_BYTES: Final = 32 << 20  # of a file that is held in memory; a thread encodes it in 30 ms
OWN_BYTES: Final = 64 << 10  # so little memory need not be asked what of it is a batch's own


def whole_bytes(num_columns: int) -> int:
    """Bytes of rows that are encoded at once, as a whole file, where columns are plain."""
    return max(ENOUGH_BYTES, min(num_columns * COLUMN_BYTES, WHOLE_BYTES))


class BatchSizes:
    """How large the batches of a stream are, about: asking Arrow for each costs 20 microseconds.

    Of small ones it is the memory that they hold. Of slices of one large batch the first, second,
    fourth and so on are measured, and the others are taken to have rows of the same size.

    Attributes:
        is_new: the last batch is a small part of memory that those before it do not hold.
    """

    def __init__(self) -> None:
        self.is_new = False
        self._held = self._offset = 0
        self._row_bytes = 0.0
        self._num_seen = 0

    def of(self, batch: pa.RecordBatch) -> int:
        """Bytes of the rows of the next batch."""
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
    """Batches of a stream that wait; they hold little memory beside their rows, or share it.

    Args:
        enough_rows, enough_bytes: what has as many of one of them waits no longer.

    Attributes:
        num_bytes: of the rows that wait, about.
    """

    def __init__(self, enough_rows: int = ENOUGH_ROWS, enough_bytes: int = ENOUGH_BYTES) -> None:
        self._enough_rows, self._enough_bytes = enough_rows, enough_bytes
        self.num_rows = self.num_bytes = 0
        self._batches: list[pa.RecordBatch] = []
        self._sizes = BatchSizes()

    def add(self, batch: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        """Let a batch wait; gives those that leave before it.

        A large one waits alone, and so is not copied. Slices of one large batch wait together, but
        those of several would keep all of these alive.
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
        """Whether they are worth an encoder's call."""
        return self.num_rows >= self._enough_rows or self.num_bytes >= self._enough_bytes

    def take(self) -> Sequence[pa.RecordBatch]:
        """All of them; none waits any longer."""
        batches, self._batches = self._batches, []
        self.num_rows = self.num_bytes = 0
        return batches


async def in_groups(
    batches: AsyncIterable[pa.RecordBatch],
    enough_rows: int = ENOUGH_ROWS,
    enough_bytes: int = ENOUGH_BYTES,
) -> AsyncGenerator[Sequence[pa.RecordBatch], None]:
    """Yield the batches of a stream, small neighbours as a group: work on a group costs a hop."""
    waiting = SmallBatches(enough_rows, enough_bytes)
    async for batch in batches:
        if leaving := waiting.add(batch):
            yield leaving
        if waiting.are_enough:
            yield waiting.take()
    if rest := waiting.take():
        yield rest


def merged(batches: Sequence[pa.RecordBatch]) -> Sequence[pa.RecordBatch]:
    """Join batches into a single batch; return them as they are if Arrow cannot join them."""
    if len(batches) < 2:
        return batches
    try:
        joined: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
        return joined or batches[:1]
    except pa.ArrowException:  # of several types, or of dictionaries that do not fit into one
        return batches
