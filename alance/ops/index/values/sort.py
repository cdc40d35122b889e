"""External sort of values with their row numbers, in index order, for any number of rows.

A share of the memory budget is sorted in memory. More rows are spilled to the local disk, split
there into ranges of values by a sample until each range fits the share, and sorted range by range.
If one frequent value fills a range, its rows need no sorting.
"""

from __future__ import annotations

import itertools
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base import compute as pc
from alance.base.records import dataclass
from alance.expr.casts import is_bytes, is_text
from alance.expr.pruning_sets import whole_numbers
from alance.format.numbers import as_mask, as_numbers, to_arrow, validity_of
from alance.ops.lookup.files import sort_key
from alance.ops.read.sorting import stable_order
from alance.ops.write.spool import Scratch, Spool

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable

    from alance.io.reading.pool import DecodePool

SORT_MEMORY_BYTES: Final = 256 << 20
# An eighth of the budget is for the rows that are sorted at once. The rest is for copies of these
# rows, sort keys, and pages being scanned, spooled and written: with 256 MiB, building a B-tree of
# 10 M keys takes 235 MiB.
SORTED_SHARE: Final = 8
# A scan reads ahead 1/32 of the memory; the sort is slower than the scan.
SORT_AHEAD_SHARE: Final = 32
LEAST_AHEAD: Final = 1 << 20
SAMPLES: Final = 64  # sampled rows per batch
# Sample size; if over 2^15 values are distinct, nearly all samples differ.
DISTINCT_SAMPLE_ROWS: Final = 4096
MAX_SORT_RANGES: Final = 64
SORTED_BATCH_ROWS: Final = 64 << 10
# After a sort of this many bytes, freed memory is returned to the system. That takes no measurable
# time, and allocators keep more small copies per thread than a small budget allows.
RELEASED_SORT_BYTES: Final = 1 << 20


@dataclass(slots=True)
class _Range:
    """Rows of a range of values, in arrival order.

    Attributes:
        is_alike: True if all rows have the same value, or all are null, so that no sort is needed.
    """

    spool: Spool
    is_alike: bool = False


@dataclass(slots=True)
class RowSorter:
    """Stable external sort of batches with the columns `values` and `ids`.

    Attributes:
        memory: approximate memory budget in bytes for rows, copies and sort keys.
    """

    pool: DecodePool
    memory: int = SORT_MEMORY_BYTES

    async def sorted(
        self, batches: AsyncIterable[pa.RecordBatch], schema: pa.Schema
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield all rows in order, nulls first, in batches of at most 64 Ki rows.

        Raises:
            OSError: the local disk is full.
        """
        scratch = Scratch(self.pool)
        try:
            held = max(1, self.memory // SORTED_SHARE)
            spool = Spool(scratch, schema, held)
            async for batch in batches:
                await spool.append(batch)
            pending = [_Range(spool)]  # a stack: the lowest range is last
            while pending:
                rows = pending.pop()
                if rows.spool.num_bytes > held and not rows.is_alike:
                    pending += reversed(await self._cut(rows.spool, held))
                    continue
                async with aclosing(self._in_order(rows)) as in_order:
                    async for batch in in_order:
                        yield batch
                await rows.spool.close()
        finally:
            await scratch.remove()

    async def _in_order(self, rows: _Range) -> AsyncGenerator[pa.RecordBatch, None]:
        if rows.is_alike:
            async for batch in rows.spool.batches():
                yield batch
            return
        parts = [batch async for batch in rows.spool.batches()]
        await rows.spool.close()
        if parts:
            whole = await self.pool.run(lambda: _alone(parts))
            for start in range(0, whole.num_rows, SORTED_BATCH_ROWS):
                yield whole.slice(start, SORTED_BATCH_ROWS)

    async def _cut(self, spool: Spool, held: int) -> list[_Range]:
        """Split spooled rows into ranges of values, each with fewer distinct values."""
        run = self.pool.run
        samples = [await run(partial(_sample, batch)) async for batch in spool.batches()]
        num_ranges = min(MAX_SORT_RANGES, -(-2 * spool.num_bytes // held))
        ends = await run(lambda: _ends(samples, num_ranges))
        alike = [True, False]
        for _, is_frequent in ends:
            alike += [True, False] if is_frequent else [False]
        share = held // len(alike)
        ranges = [_Range(Spool(spool.scratch, spool.schema, share), flag) for flag in alike]
        async for batch in spool.batches():
            parts = await run(partial(_parted, batch, ends))
            for rows, part in zip(ranges, parts, strict=True):
                await rows.spool.append(part)
        await spool.close()
        return ranges


def _alone(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Sort the rows of batches like `sort_parts`, and give freed memory back to the system."""
    rows = sort_parts(parts)
    if rows.nbytes >= RELEASED_SORT_BYTES:
        _kernels.trim_memory(0)
        pa.default_memory_pool().release_unused()
    return rows


def _sample(batch: pa.RecordBatch) -> pa.Array:
    places = np.linspace(0, batch.num_rows - 1, min(SAMPLES, batch.num_rows)).astype(np.int64)
    return sort_key(batch.column(0).take(to_arrow(places)))


def _ends(samples: list[pa.Array], num_ranges: int) -> list[tuple[pa.Scalar, bool]]:
    """Return the starts of ranges, ascending; each with True if its value fills a range alone.

    A value fills a range alone if it is so frequent in the sample that several ranges would start
    with it: no split can separate its rows.
    """
    keys = pc.drop_null(pa.concat_arrays(samples))
    if not len(keys):
        return []
    keys = keys.take(pc.array_sort_indices(keys))
    places = np.linspace(0, len(keys) - 1, num_ranges + 1)[1:-1].astype(np.int64)
    counts = pc.value_counts(keys.take(to_arrow(places)))
    return [(entry["values"], entry["counts"].as_py() > 1) for entry in counts]


def _parted(batch: pa.RecordBatch, ends: list[tuple[pa.Scalar, bool]]) -> list[pa.RecordBatch]:
    """Split a batch into ranges: nulls, then the ranges between the values of `ends`.

    A frequent value has its own range. Each result is a copy, so that it does not keep the whole
    batch in memory.
    """
    keys = sort_key(batch.column(0))
    numbers = as_mask(pc.is_valid(keys)).astype(np.uint8)
    for end, is_frequent in ends:
        numbers += as_mask(pc.greater_equal(keys, end))
        if is_frequent:
            numbers += as_mask(pc.greater(keys, end))
    num_parts = 2 + sum(1 + is_frequent for _, is_frequent in ends)
    order = np.argsort(numbers, kind="stable")
    cuts = np.searchsorted(numbers[order], np.arange(num_parts + 1)).tolist()
    return [batch.take(to_arrow(order[a:b])) for a, b in itertools.pairwise(cuts)]


def sort_parts(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Sort the rows of batches, nulls first; the sort is stable.

    Memory: the rows twice. The list is emptied, because it would hold the rows a third time.
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
    numbers = whole_numbers(keys)
    if numbers is None:
        return pc.array_sort_indices(keys, null_placement="at_start")
    return to_arrow(stable_order(numbers, validity_of(keys)))


def _by_codes(batch: pa.RecordBatch) -> pa.RecordBatch | None:
    """Sort rows by the ranks of their values; None if too many are distinct, or of fixed size."""
    values = batch.column(0)
    if pa.types.is_fixed_size_binary(values.type):
        return None
    places = np.linspace(0, len(values) - 1, DISTINCT_SAMPLE_ROWS).astype(np.int64)
    if (
        len(values) > DISTINCT_SAMPLE_ROWS
        and len(values.take(to_arrow(places)).unique()) > DISTINCT_SAMPLE_ROWS * 9 // 10
    ):
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
