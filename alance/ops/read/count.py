"""Counting rows, with and without a filter."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from alance.ops.read.options import ScanOptions
from alance.ops.read.plan import chosen, plan_scan
from alance.ops.read.scan import scan

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from alance.ops.version.snapshot import Snapshot


async def count_rows(snapshot: Snapshot, condition: str | pc.Expression | None = None) -> int:
    """The number of rows; with a filter, of those for which it is true."""
    return await count_scanned(snapshot, ScanOptions(filter=condition))


async def count_scanned(snapshot: Snapshot, options: ScanOptions) -> int:
    """The number of rows that a scan with these options gives.

    Cost: without a filter nothing is read, but deletion files of unknown count.
    """
    if options.filter is None:
        total = max(0, await _count(snapshot, options) - (options.offset or 0))
        return total if options.limit is None else min(total, options.limit)
    plan = await plan_scan(snapshot, [], replace(options, with_row_id=False))
    async with aclosing(scan(snapshot, plan)) as batches:
        return sum([batch.num_rows async for batch in batches])


async def _count(snapshot: Snapshot, options: ScanOptions) -> int:
    """The rows of the fragments that the options name."""
    stored = options.include_deleted_rows
    if options.fragments is None:
        counts = await (snapshot.physical_counts() if stored else snapshot.live_counts())
        return int(counts.sum())
    handles = chosen(snapshot, options)
    if stored:
        await snapshot.resolve_sizes(handles)
        return sum(handle.num_physical_rows for handle in handles)
    return sum([await snapshot.live_count(handle) for handle in handles])
