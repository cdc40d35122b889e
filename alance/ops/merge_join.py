"""The join of a merge: which source rows match which target rows, by hash of their keys.

The source's keys stand in an index, partition by partition where they do not fit together; the
target's keys come by as they are scanned, or partition by partition from the disk.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from alance.format.numbers import as_mask, as_numbers, to_arrow
from alance.ops.merge_keys import Keys
from alance.ops.spool import Spool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import numpy.typing as npt

    from alance.ops.spool import Scratch

    Rows = npt.NDArray[np.int64]

KEY: Final = "key"  # of a row, see `Keys`
ROW: Final = "row"  # of the source: its number; of the target: its address
INDEX_FACTOR: Final = 4  # bytes of an index over the bytes of the keys in it
ROW_BYTES: Final = 32  # what a row costs in the index beside its key
PARTITIONS_MOST: Final = 512
BLOCK_BYTES: Final = 1 << 18  # of a partition that are held before they go to the disk
PROBED_ROWS: Final = 256 << 10  # of the target, for which the index's table is worth building


@dataclass(frozen=True, slots=True)
class Pairs:
    """Rows of source and target that have the same key; sorted by target row.

    Attributes:
        source: positions in the index's rows; shape (n,).
        target: positions in the rows that were looked up; shape (n,).
    """

    source: Rows
    target: Rows


@dataclass(frozen=True, slots=True)
class KeyIndex:
    """Rows of the source by their keys.

    Attributes:
        rows: the rows that have a key, with all that was given; in the order given.
        distinct: their keys, each once.
    """

    rows: pa.Table
    distinct: pa.Array
    _order: Rows  # rows by key
    _starts: Rows  # of each key in the order, and the end; shape (keys + 1,)

    @classmethod
    def of(cls, batches: list[pa.RecordBatch], schema: pa.Schema) -> KeyIndex:
        """The index of batches that have a column `KEY`. CPU."""
        rows = pa.Table.from_batches(batches, schema)
        if rows.column(KEY).null_count:
            rows = rows.filter(rows.column(KEY).is_valid())
        rows = rows.combine_chunks()
        keys = rows.column(KEY)
        if not rows.num_rows:
            nothing = np.zeros(1, np.int64)
            return cls(rows, pa.nulls(0, schema.field(KEY).type), nothing[:0], nothing)
        encoded = keys.combine_chunks().dictionary_encode()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.chunk(0)
        codes = as_numbers(encoded.indices)
        counts = np.bincount(codes, minlength=len(encoded.dictionary))
        order = np.argsort(codes, kind="stable")
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        return cls(rows, encoded.dictionary, order, starts)

    def find(self, keys: pa.Array) -> Pairs:
        """All pairs of rows that have the same key. CPU.

        Args:
            keys: of the target's rows; null where there is none.
        """
        nothing = np.empty(0, np.int64)
        if not len(self.distinct) or not len(keys):
            return Pairs(nothing, nothing)
        found = pc.index_in(keys, value_set=self.distinct)
        if found.null_count == len(found):
            return Pairs(nothing, nothing)
        hits = np.flatnonzero(as_mask(found.is_valid()))
        codes = as_numbers(found.drop_null()).astype(np.int64)
        if keys.null_count:
            assert as_mask(keys.is_valid())[hits].all()
        first = self._starts[codes]
        counts = self._starts[codes + 1] - first
        if int(counts.max()) == 1:
            return Pairs(self._order[first], hits)
        before = np.cumsum(counts) - counts
        places = np.arange(int(counts.sum())) + np.repeat(first - before, counts)
        return Pairs(self._order[places], np.repeat(hits, counts))


@dataclass(slots=True)
class Partitions:
    """Batches with a column `KEY`, each row in the part that its key's hash says."""

    scratch: Scratch
    schema: pa.Schema
    count: int
    parts: list[Spool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parts = [
            Spool(self.scratch, self.schema, BLOCK_BYTES if self.count > 1 else None)
            for _ in range(self.count)
        ]

    async def add(self, batch: pa.RecordBatch) -> None:
        """Add rows; those without a key are left out."""
        for part, rows in await self.scratch.pool.run(lambda: self._split(batch)):
            await self.parts[part].append(rows)

    def _split(self, batch: pa.RecordBatch) -> list[tuple[int, pa.RecordBatch]]:
        keys = batch.column(KEY)
        if keys.null_count:
            batch = batch.filter(keys.is_valid())
        if self.count == 1:
            return [(0, batch)]
        owner = (Keys(batch.column(KEY)).hashes() >> np.uint64(16)) % np.uint64(self.count)
        order = np.argsort(owner, kind="stable")
        batch = batch.take(to_arrow(order))
        counts = np.bincount(owner.astype(np.int64), minlength=self.count)
        ends = np.cumsum(counts)
        return [
            (int(part), batch.slice(int(ends[part] - counts[part]), int(counts[part])))
            for part in np.flatnonzero(counts)
        ]


def partitions_for(num_rows: int, num_bytes: int, memory: int) -> int:
    """How many parts the source's keys are cut into, so that the index of one fits."""
    needed = num_bytes * INDEX_FACTOR + num_rows * ROW_BYTES
    return min(PARTITIONS_MOST, max(1, -(-needed // max(1, memory))))


async def joined_groups(
    batches: AsyncIterator[pa.RecordBatch], least: int
) -> AsyncIterator[pa.RecordBatch]:
    """The batches, so many together that they have at least some number of rows.

    Each lookup builds a table of all keys first, which should not cost more than the lookup.
    """
    held: list[pa.RecordBatch] = []
    count = 0
    async for batch in batches:
        held.append(batch)
        count += batch.num_rows
        if count >= least:
            yield held[0] if len(held) == 1 else pa.concat_batches(held)
            held, count = [], 0
    if held:
        yield held[0] if len(held) == 1 else pa.concat_batches(held)
