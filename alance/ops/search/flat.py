"""Exact search: each vector of a scan, or of taken rows, is compared."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from alance import _kernels
from alance.format.index.values import METRICS, NO_MASK, TYPES, values_of, vector_lists_of
from alance.format.numbers import as_numbers
from alance.io.loop.readahead import in_turn
from alance.ops.read.scan import scanned
from alance.ops.version.projection import ROW_ID

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    import pyarrow as pa

    from alance.base.arrays import Bytes, Float64s, Int32s, UInt64s
    from alance.ops.read.options import ScanOptions
    from alance.ops.search.options import VectorSearch
    from alance.ops.version.snapshot import Snapshot


def kernel_of(
    search: VectorSearch, k: int, queries: Float64s | None = None, *, below: int = 0
) -> _kernels.Nearest:
    """Return an empty kernel that collects the k nearest rows of each query.

    Args:
        queries: queries in the form for comparisons, one per row; None for the queries of the
            search.
        below: number of rows to also collect whose distances are just below the lower bound of the
            search; their exact distances may be in its range.
    """
    queries = search.queries if queries is None else queries
    width, bounds = queries.shape[1] // search.type.dim, (search.lower, search.upper)
    return _kernels.Nearest(queries.reshape(-1), search.type.dim, k, *bounds, width, below)


async def search_flat(
    snapshot: Snapshot,
    search: VectorSearch,
    metric: str,
    nearest: _kernels.Nearest,
    options: ScanOptions,
) -> None:
    """Compare all rows of a scan with the queries, and collect the nearest ones in `nearest`.

    The scan applies the filter, the choice of fragments and the deletions.

    Cost: a scan of the vector column and of the filter's columns.
    """
    numbers = np.arange(len(search.queries), dtype=np.int32)

    def add(batch: pa.RecordBatch) -> None:
        ids = as_numbers(batch.column(1))
        add_vectors(nearest, search, metric, numbers, ids, batch.column(0))

    num_ahead = snapshot.session.decode_threads
    await scan_each(snapshot, search.path, options, add, num_ahead, flat=True)


async def scan_each(
    snapshot: Snapshot,
    path: str,
    options: ScanOptions,
    add: Callable[[pa.RecordBatch], None],
    num_ahead: int,
    *,
    flat: bool,
) -> None:
    """Call a function in the pool with each batch of a scanned column and its row ids.

    Args:
        num_ahead, flat: as for `in_turn` and `scanned`.
    """

    async def works() -> AsyncGenerator[Awaitable[None], None]:
        async with aclosing(scanned(snapshot, [path, ROW_ID], options, flat=flat)) as batches:
            async for batch in batches:
                yield snapshot.engine.pool.run(partial(add, batch))

    async with aclosing(in_turn(works(), num_ahead)) as done:
        async for _ in done:
            pass


def add_vectors(
    nearest: _kernels.Nearest,
    search: VectorSearch,
    metric: str,
    numbers: Int32s,
    ids: UInt64s,
    vectors: pa.Array,
    mask: Bytes = NO_MASK,
) -> None:
    """Compare vectors, or lists of vectors, with queries; nulls are skipped.

    Args:
        numbers: numbers of the queries.
        ids: row ids of the vectors.
        mask: nonzero for the rows to compare; empty for all rows.
    """
    kind, by = TYPES[search.type.name], METRICS.index(metric)
    lists = None
    if search.type.is_multi:
        values, lists, valid = vector_lists_of(vectors)
    else:
        values, valid = values_of(vectors)
    if len(valid):
        mask = mask & valid if len(mask) else valid
    _kernels.add_vectors(nearest, numbers, ids, mask, values, kind, by, lists)
