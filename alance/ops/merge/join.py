"""The join of a merge: which source rows match which target rows, by hash of their keys.

The source's keys stand in an index, partition by partition where they do not fit together; the
target's keys come by as they are scanned, or partition by partition from the disk.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.format.numbers import as_mask, as_numbers, to_arrow
from alance.ops.merge.keys import Keys
from alance.ops.write.spool import Spool

if TYPE_CHECKING:
    import numpy.typing as npt

    from alance.ops.merge.keys import KeyColumns
    from alance.ops.write.spool import Scratch

    Rows = npt.NDArray[np.int64]

KEY: Final = "key"  # of a row, see `Keys`
ROW: Final = "row"  # of the source: its number; of the target: its address
INDEX_FACTOR: Final = 3  # copies of the keys while their index is made
SEED: Final = 1  # of the hashes that cut keys into parts
ROW_BYTES: Final = 64  # what a row costs in the index beside its key
PARTITIONS_MOST: Final = 512
BLOCK_BYTES: Final = 1 << 18  # of a partition that are held before they go to the disk


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
        numbers: their numbers in the source, `ROW`; shape (n,).
    """

    rows: pa.Table
    numbers: Rows
    _table: _kernels.KeyTable
    _order: Rows | None  # rows by key; None: each key is there once, and rows are in this order
    _starts: Rows  # of each key in the order, and the end; shape (keys + 1,)

    @classmethod
    def of(
        cls,
        batches: list[pa.RecordBatch],
        schema: pa.Schema,
        widths: npt.NDArray[np.int64] | None = None,
    ) -> KeyIndex:
        """The index of batches that have a column `KEY`. CPU.

        Args:
            widths: bytes of each column of the keys, 0 where they vary: rows are then looked up by
                `find_columns`; without them by `find`.
        """
        rows = pa.Table.from_batches(batches, schema)
        if rows.column(KEY).null_count:
            rows = rows.filter(rows.column(KEY).is_valid())
        rows = rows.combine_chunks()
        keys = rows.column(KEY).combine_chunks()
        if isinstance(keys, pa.ChunkedArray):
            keys = keys.chunk(0) if keys.num_chunks else pa.nulls(0, keys.type)
        plain = Keys(keys).plain()
        if widths is not None and widths.tolist() != [0]:  # one column of strings is as it was
            plain = plain.split(widths)
        table = _kernels.KeyTable(plain, secrets.randbits(64))
        own = as_numbers(rows.column(ROW))
        if len(table) == rows.num_rows:
            return cls(rows, own, table, None, np.arange(1))
        numbers = table.numbers()
        counts = np.bincount(numbers, minlength=len(table))
        order = np.argsort(numbers, kind="stable")
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        return cls(rows, own, table, order, starts)

    def find(self, keys: pa.Array) -> Pairs:
        """All pairs of rows that have the same key. CPU.

        Args:
            keys: of the target's rows; null where there is none.
        """
        valid = as_mask(keys.is_valid()) if keys.null_count else None
        return self._pairs(Keys(keys).plain(), valid)

    def find_columns(self, keys: KeyColumns) -> Pairs:
        """All pairs of rows that have the same key, of which no copy is made. CPU."""
        return self._pairs(keys.plain(), keys.valid)

    def _pairs(self, keys: _kernels.Keys, valid: npt.NDArray[np.bool_] | None) -> Pairs:
        hits, numbers = self._table.find(keys)
        if valid is not None:
            is_key = valid[hits]
            hits, numbers = hits[is_key], numbers[is_key]
        if self._order is None:
            return Pairs(numbers, hits)
        first = self._starts[numbers]
        counts = self._starts[numbers + 1] - first
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
        owner = Keys(batch.column(KEY)).plain().hashes(SEED) % np.uint64(self.count)
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
