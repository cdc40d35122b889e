"""Values with their row numbers in the order of an index, of any number of rows.

Up to a budget they are sorted in memory. What is more goes to files on the local disk, is cut there
into ranges of values by a sample of them, and sorted range by range.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from alance.expr.compare import total_order
from alance.format.numbers import as_mask, to_arrow
from alance.ops.spool import Scratch, Spool

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable

    import numpy.typing as npt

    from alance.io.pool import DecodePool

MEMORY: Final = 256 << 20
SAMPLES: Final = 64  # of a batch
MAX_RANGES: Final = 64
BATCH_ROWS: Final = 64 << 10


def sort_key(values: pa.Array) -> pa.Array:
    """Values that Arrow sorts as an index does: floats in total order, -NaN first, NaN last."""
    return total_order(values) if pa.types.is_floating(values.type) else values


@dataclass(slots=True)
class RowSorter:
    """Sorts batches of the columns `values` and `ids`; rows of equal values keep their order.

    Attributes:
        memory: bytes that are sorted at once.
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
            spool = Spool(scratch, schema, self.memory)
            async for batch in batches:
                self._samples.append(await self.pool.run(lambda batch=batch: _sample(batch)))  # type: ignore[misc]
                await spool.append(batch)
            ranges = [spool]
            if spool.num_bytes > self.memory:
                ranges = await self._cut(spool, scratch, schema)
            for one in ranges:
                parts = [batch async for batch in one.batches()]
                if parts:
                    found = await self.pool.run(lambda parts=parts: _sorted(parts))  # type: ignore[misc]
                    for start in range(0, found.num_rows, BATCH_ROWS):
                        yield found.slice(start, BATCH_ROWS)
                await one.close()
        finally:
            await scratch.remove()

    async def _cut(self, spool: Spool, scratch: Scratch, schema: pa.Schema) -> list[Spool]:
        """The rows by ranges of values, each range in a spool of its own."""
        wanted = min(MAX_RANGES, -(-2 * spool.num_bytes // self.memory))
        ends = await self.pool.run(lambda: _ends(self._samples, wanted))
        made = [
            Spool(scratch, schema, self.memory // (len(ends) + 1)) for _ in range(len(ends) + 1)
        ]
        async for batch in spool.batches():
            parts = await self.pool.run(lambda batch=batch: _parted(batch, ends))  # type: ignore[misc]
            for one, part in zip(made, parts, strict=True):
                await one.append(part)
        await spool.close()
        return made


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
    numbers: npt.NDArray[np.int64] = np.zeros(batch.num_rows, np.int64)
    for end in ends:
        numbers += as_mask(pc.greater_equal(keys, end))
    order = np.argsort(numbers, kind="stable")
    cuts = np.searchsorted(numbers[order], np.arange(len(ends) + 2))
    there = batch.take(to_arrow(order))
    starts, stops = cuts[:-1].tolist(), cuts[1:].tolist()
    return [there.slice(a, b - a) for a, b in zip(starts, stops, strict=True)]


def _sorted(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    found = pa.concat_batches(parts)
    order = pc.array_sort_indices(sort_key(found.column(0)), null_placement="at_start")
    return found.take(order)
