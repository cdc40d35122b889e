"""K-way merge of sorted runs of any length, in bounded memory.

Some blocks of each run are held in memory. All rows below the smallest last value of the held
blocks are final: they are concatenated and sorted at once. Rows equal to that value follow run by
run, however many they are; so equal values keep the order of the runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from alance.base.records import dataclass
from alance.format.numbers import as_numbers
from alance.io.loop.tasks import all_of
from alance.ops.index.values.runs import read_blocks
from alance.ops.index.values.sort import SORTED_BATCH_ROWS, sort_parts
from alance.ops.lookup.files import sort_key

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

    from alance.io.reading.pool import DecodePool
    from alance.ops.index.values.runs import IndexPart
    from alance.ops.version.snapshot import Snapshot

HELD_SHARE: Final = 4  # blocks take a quarter of the memory; joining and sorting take the rest


class _RunValues:
    """Sequence of Python values of an array without nulls, for bisection."""

    __slots__ = ("_array",)

    def __init__(self, array: pa.Array) -> None:
        self._array = array

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, place: int) -> Any:
        return self._array[place].as_py()


def keys_of(values: pa.Array) -> Any:
    """Return non-null values as keys that compare in index order; integers as a numpy array."""
    keys = sort_key(values)
    kinds = pa.types
    if kinds.is_boolean(keys.type):
        keys = keys.cast(pa.int8())
    elif kinds.is_temporal(keys.type):
        keys = keys.view(pa.int32() if keys.type.bit_width == 32 else pa.int64())
    return as_numbers(keys) if kinds.is_integer(keys.type) else _RunValues(keys)


def _place(keys: Any, value: Any, start: int, *, behind: bool) -> int:
    """Return the position of `value` in sorted keys: before equal keys, or `behind` them."""
    if isinstance(keys, np.ndarray):
        side: Any = "right" if behind else "left"
        return start + int(np.searchsorted(keys[start:], value, side))
    return (bisect_right if behind else bisect_left)(keys, value, start)


@dataclass(slots=True, eq=False)
class _Block:
    batch: pa.RecordBatch
    keys: Any
    start: int = 0


@dataclass(slots=True, eq=False)
class _SortedRun(ABC):
    """A sorted run during the merge, with some of its batches in memory."""

    pool: DecodePool
    low: Any = None
    high: Any = None
    is_read: bool = False
    held_bytes: int = 0
    blocks: deque[_Block] = field(default_factory=deque)
    nulls: deque[pa.RecordBatch] = field(default_factory=deque)

    @abstractmethod
    async def fill(self, budget: int) -> None:
        """Read more rows, if any remain, until the budget or at least one batch is held."""

    def put(self, batches: Sequence[pa.RecordBatch]) -> None:
        for batch in batches:
            nulls = batch.column(0).null_count
            if nulls:
                if self.low is None:
                    self.nulls.append(batch.slice(0, nulls))
                batch = batch.slice(nulls)
            keys = keys_of(batch.column(0))
            start = 0 if self.low is None else _place(keys, self.low, 0, behind=False)
            stop = len(keys) if self.high is None else _place(keys, self.high, 0, behind=False)
            if start < stop:
                if stop - start < len(keys):
                    batch = batch.slice(start, stop - start)
                    keys = keys_of(batch.column(0))
                self.blocks.append(_Block(batch, keys))
                self.held_bytes += batch.nbytes

    def last(self) -> Any:
        return self.blocks[-1].keys[len(self.blocks[-1].keys) - 1]

    def take(self, value: Any, *, behind: bool) -> list[pa.RecordBatch]:
        """Remove and return the rows below `value`; with `behind`, also rows equal to `value`."""
        taken = []
        while self.blocks:
            block = self.blocks[0]
            stop = _place(block.keys, value, block.start, behind=behind)
            if stop > block.start:
                taken.append(block.batch.slice(block.start, stop - block.start))
            if stop < len(block.keys):
                block.start = stop
                break
            self.held_bytes -= self.blocks.popleft().batch.nbytes
        return taken


@dataclass(slots=True, eq=False)
class _PartRun(_SortedRun):
    """Run of an `IndexPart`."""

    snapshot: Snapshot = field(kw_only=True)
    schema: pa.Schema = field(kw_only=True)
    part: IndexPart = field(kw_only=True)
    next_block: int = 0

    async def fill(self, budget: int) -> None:
        start, stop = self.next_block, self._stop_within(budget)
        if stop > start:
            blocks = await read_blocks(self.snapshot, self.part, start, stop, self.schema)
            await self.pool.run(lambda: self.put(blocks))
        self.next_block = stop
        self.is_read = stop == len(self.part.blocks)

    def _stop_within(self, budget: int) -> int:
        """Return the number of the block before which to stop reading.

        The blocks to read fit in the rest of the budget; if no block is held, at least one is read.
        """
        sizes, stop, room = self.part.blocks, self.next_block, budget - self.held_bytes
        while stop < len(sizes) and (
            room >= sizes[stop][1] or not (self.blocks or stop > self.next_block)
        ):
            room -= sizes[stop][1]
            stop += 1
        return stop


@dataclass(slots=True, eq=False)
class _StreamRun(_SortedRun):
    """Run of batches that arrive sorted from an iterator."""

    batches: AsyncIterator[pa.RecordBatch] = field(kw_only=True)

    async def fill(self, budget: int) -> None:
        while not self.is_read and (self.held_bytes < budget or not self.blocks):
            batch = await anext(self.batches, None)
            if batch is None:
                self.is_read = True
            elif batch.num_rows:
                self.put([batch])


@dataclass(slots=True, eq=False)
class RunMerger:
    """Merger of the runs of parts of one index.

    Attributes:
        memory: approximate bytes held and sorted at once; at least two blocks per run.
        peak_bytes: largest size of the held blocks so far.
        on_rows: called with the number of rows of each batch before it is yielded.
    """

    snapshot: Snapshot
    schema: pa.Schema
    memory: int
    on_rows: Callable[[int], object] | None = None
    peak_bytes: int = 0

    def merged(
        self, parts: Sequence[IndexPart], low: Any = None, high: Any = None
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield all rows in order, nulls first; rows with equal values keep the order of the parts.

        Cost: each byte of the parts is read once. A GET reads a run's share of the memory, but at
        most 8 MiB.

        Args:
            low, high: bounds of the values, as keys of `keys_of`: from `low` on and before `high`.
                None for no bound; nulls are yielded only without `low`.

        Raises:
            CorruptFileError, NotFoundError, StoreError: a part cannot be read.
        """
        pool = self.snapshot.engine.pool
        runs = [
            _PartRun(pool, low, high, snapshot=self.snapshot, schema=self.schema, part=part)
            for part in parts
            if part.blocks
        ]
        return self._merged(runs)

    def merged_streams(
        self, streams: Sequence[AsyncIterator[pa.RecordBatch]]
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the rows of sorted streams in order, like `merged`."""
        pool = self.snapshot.engine.pool
        return self._merged([_StreamRun(pool, batches=stream) for stream in streams])

    async def _merged(self, runs: Sequence[_SortedRun]) -> AsyncGenerator[pa.RecordBatch, None]:
        waiting: list[pa.RecordBatch] = []
        num_rows = 0
        async for piece in self._pieces(runs):
            waiting.append(piece)
            num_rows += piece.num_rows
            if num_rows >= SORTED_BATCH_ROWS:
                yield await self._joined(waiting)
                waiting, num_rows = [], 0
        if waiting:
            yield await self._joined(waiting)

    async def _joined(self, pieces: list[pa.RecordBatch]) -> pa.RecordBatch:
        num_rows = sum(piece.num_rows for piece in pieces)
        if self.on_rows is not None:
            self.on_rows(num_rows)
        if len(pieces) == 1:
            return pieces[0]
        return await self.snapshot.engine.pool.run(lambda: pa.concat_batches(pieces))

    async def _pieces(self, runs: Sequence[_SortedRun]) -> AsyncGenerator[pa.RecordBatch, None]:
        pool = self.snapshot.engine.pool
        share = self.memory // (HELD_SHARE * max(1, len(runs)))
        for run in runs:
            while not run.blocks and not run.is_read:
                await run.fill(share)
                while run.nulls:
                    yield run.nulls.popleft()
        while True:
            hungry = [run for run in runs if not run.is_read and run.held_bytes <= share // 2]
            await all_of(run.fill(share) for run in hungry)
            self.peak_bytes = max(self.peak_bytes, sum(run.held_bytes for run in runs))
            runs = [run for run in runs if run.blocks]
            if not runs:
                return
            value = min(run.last() for run in runs)

            def below(runs: list[_SortedRun] = runs, value: Any = value) -> pa.RecordBatch | None:
                parts = [part for run in runs for part in run.take(value, behind=False)]
                return sort_parts(parts) if parts else None

            rows = await pool.run(below)
            for start in range(0, 0 if rows is None else rows.num_rows, SORTED_BATCH_ROWS):
                assert rows is not None
                yield rows.slice(start, SORTED_BATCH_ROWS)
            for run in runs:
                while run.blocks:
                    for piece in run.take(value, behind=True):
                        yield piece
                    if run.blocks or run.is_read:
                        break
                    await run.fill(share)
