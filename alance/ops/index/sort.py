"""Values with their row numbers in the order of an index, of any number of rows.

Rows up to a share of the memory budget are sorted at once. More rows are spooled to the local disk,
cut into ranges of values by a sample, and sorted range by range.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from alance import _kernels
from alance.expr.casts import is_bytes, is_text
from alance.expr.pruning_sets import whole_numbers
from alance.format.numbers import as_mask, as_numbers, to_arrow, validity_of
from alance.ops.lookup.files import sort_key
from alance.ops.read.sorting import stable_order
from alance.ops.write.spool import Scratch, Spool

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable

    from alance.arrays import Int64s
    from alance.io.pool import DecodePool

MEMORY: Final = 256 << 20
# One part in so many of the budget is for rows that are sorted at once. The others are for copies
# of these rows, sort keys, and pages being scanned, spooled and written: with 256 MiB, building a
# B-tree of 10 M keys takes 235 MiB.
SORTED_SHARE: Final = 8
SAMPLES: Final = 64  # of a batch
MANY: Final = 4096  # values of which nearly all differ where more than 2^15 are distinct
MAX_RANGES: Final = 64
BATCH_ROWS: Final = 64 << 10
RELEASED_BYTES: Final = 16 << 20  # of rows whose unsorted copies are worth to be given back


@dataclass(slots=True)
class RowSorter:
    """Sorts batches of the columns `values` and `ids`; rows of equal values keep their order.

    Attributes:
        memory: budget in bytes, about, for all that is held at once: rows, copies and sort keys.
    """

    pool: DecodePool
    memory: int = MEMORY
    _samples: list[pa.Array] = field(default_factory=list)

    async def sorted(
        self, batches: AsyncIterable[pa.RecordBatch], schema: pa.Schema
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """All rows in order, nulls first, as batches of 64 Ki rows.

        Raises:
            OSError: the local disk is full.
        """
        scratch = Scratch(self.pool)
        try:
            held = max(1, self.memory // SORTED_SHARE)
            spool = Spool(scratch, schema, held)
            async for batch in batches:
                self._samples.append(await self.pool.run(lambda batch=batch: _sample(batch)))  # type: ignore[misc]
                await spool.append(batch)
            ranges = [spool]
            if spool.num_bytes > held:
                ranges = await self._cut(spool, scratch, schema, held)
            for bucket in ranges:
                parts = [batch async for batch in bucket.batches()]
                await bucket.close()
                if parts:
                    rows = await self.pool.run(lambda parts=parts: _alone(parts))  # type: ignore[misc]
                    for start in range(0, rows.num_rows, BATCH_ROWS):
                        yield rows.slice(start, BATCH_ROWS)
        finally:
            await scratch.remove()

    async def _cut(
        self, spool: Spool, scratch: Scratch, schema: pa.Schema, held: int
    ) -> list[Spool]:
        """The rows by ranges of values, each range in a spool of its own."""
        num_buckets = min(MAX_RANGES, -(-2 * spool.num_bytes // held))
        ends = await self.pool.run(lambda: _ends(self._samples, num_buckets))
        buckets = [Spool(scratch, schema, held // (len(ends) + 1)) for _ in range(len(ends) + 1)]
        async for batch in spool.batches():
            parts = await self.pool.run(lambda batch=batch: _parted(batch, ends))  # type: ignore[misc]
            for bucket, part in zip(buckets, parts, strict=True):
                await bucket.append(part)
        await spool.close()
        return buckets


def _alone(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of batches in order; the memory of batches and of sorting is given back."""
    rows = sort_parts(parts)
    if rows.nbytes >= RELEASED_BYTES:
        _kernels.trim_memory(0)
        pa.default_memory_pool().release_unused()
    return rows


def _sample(batch: pa.RecordBatch) -> pa.Array:
    places = np.linspace(0, batch.num_rows - 1, min(SAMPLES, batch.num_rows)).astype(np.int64)
    return sort_key(batch.column(0).take(to_arrow(places)))


def _ends(samples: list[pa.Array], num_ranges: int) -> list[pa.Scalar]:
    """Where all ranges but the first begin: distinct values, ascending."""
    keys = pc.drop_null(pa.concat_arrays(samples))
    keys = pc.unique(keys.take(pc.array_sort_indices(keys)))
    places = np.linspace(0, len(keys) - 1, num_ranges + 1)[1:-1].astype(np.int64)
    return [keys[place] for place in np.unique(places).tolist()] if len(keys) else []


def _parted(batch: pa.RecordBatch, ends: list[pa.Scalar]) -> list[pa.RecordBatch]:
    keys = sort_key(batch.column(0))
    numbers: Int64s = np.zeros(batch.num_rows, np.int64)
    for end in ends:
        numbers += as_mask(pc.greater_equal(keys, end))
    order = np.argsort(numbers, kind="stable")
    cuts = np.searchsorted(numbers[order], np.arange(len(ends) + 2))
    sorted_batch = batch.take(to_arrow(order))
    starts, stops = cuts[:-1].tolist(), cuts[1:].tolist()
    return [sorted_batch.slice(a, b - a) for a, b in zip(starts, stops, strict=True)]


def sort_parts(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of batches in order, nulls first; rows of equal values keep theirs.

    Memory: the rows twice. The list is emptied, which would hold them a third time.
    """
    rows = pa.concat_batches(parts)
    parts.clear()
    values = rows.column(0)
    if is_text(values.type) or is_bytes(values.type):
        coded = _by_codes(rows)
        if coded is not None:
            return coded
    return rows.take(_order(sort_key(values)))


def _order(keys: pa.Array) -> pa.Array:
    """The stable order of keys, nulls first."""
    numbers = whole_numbers(keys)
    if numbers is None:
        return pc.array_sort_indices(keys, null_placement="at_start")
    return to_arrow(stable_order(numbers, validity_of(keys)))


def _by_codes(batch: pa.RecordBatch) -> pa.RecordBatch | None:
    """The rows sorted by the ranks of their values, where few of them are distinct."""
    values = batch.column(0)
    if pa.types.is_fixed_size_binary(values.type):
        return None
    places = np.linspace(0, len(values) - 1, MANY).astype(np.int64)
    if len(values) > MANY and len(values.take(to_arrow(places)).unique()) > MANY * 9 // 10:
        return None
    coded = values.dictionary_encode()
    if len(coded.dictionary) > 1 << 15:
        return None
    ascending = pc.array_sort_indices(coded.dictionary)
    ranks = np.empty(len(ascending), np.int16)
    ranks[as_numbers(ascending)] = np.arange(len(ascending), dtype=np.int16)
    codes = np.full(len(values), -1, np.int16)
    valid = np.flatnonzero(as_mask(pc.is_valid(values)))
    codes[valid] = ranks[as_numbers(coded.indices.drop_null())]
    order = np.argsort(codes, kind="stable")
    codes = codes[order]
    places = to_arrow(np.maximum(codes, 0), codes >= 0)
    distinct = coded.dictionary.take(ascending)
    columns = [distinct.take(places), batch.column(1).take(to_arrow(order))]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
