"""Counts of rows, with or without a filter."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from alance.ops.read.plan import chosen_in_turns, plan_scan
from alance.ops.read.scan import scan
from alance.ops.version.deleted import deleted_rows, with_deletions

if TYPE_CHECKING:
    from alance.format.row_set import RowSet
    from alance.ops.read.options import ScanOptions
    from alance.ops.read.rows import ScanPlan
    from alance.ops.version.snapshot import Snapshot


async def count_scanned(snapshot: Snapshot, options: ScanOptions) -> int:
    """Return the number of rows that a scan with these options returns.

    Cost: without a filter, only the deletion files whose row counts are unknown. With a filter, a
    scan of its columns. In fragments where indices answer the whole filter, no data files are read,
    and deletion files only if the fragment has rows that pass.
    """
    if options.filter is None:
        return _cut(await _count(snapshot, options), options)
    if options.with_row_id:  # not always: a copy of all options takes 20 us
        options = replace(options, with_row_id=False)
    plan = await plan_scan(snapshot, [], options, counts=True)
    if plan.counted is None:
        return await _count_batches(snapshot, plan)
    total = await count_live(snapshot, plan.counted)
    if plan.handles:
        total += await _count_batches(snapshot, replace(plan, is_cut=True))
    return _cut(total, options)


def _cut(total: int, options: ScanOptions) -> int:
    total = max(0, total - (options.offset or 0))
    return total if options.limit is None else min(total, options.limit)


async def _count_batches(snapshot: Snapshot, plan: ScanPlan) -> int:
    async with aclosing(scan(snapshot, plan)) as batches:
        return sum([batch.num_rows async for batch in batches])


async def _count(snapshot: Snapshot, options: ScanOptions) -> int:
    stored = options.include_deleted_rows
    if options.fragments is None:
        return (
            int((await snapshot.physical_counts()).sum()) if stored else await snapshot.num_live()
        )
    handles = await chosen_in_turns(snapshot, options)
    if stored:
        await snapshot.resolve_sizes(handles)
        return sum(handle.num_physical_rows for handle in handles)
    return sum([await snapshot.live_count(handle) for handle in handles])


async def count_live(snapshot: Snapshot, rows: RowSet) -> int:
    """Return the number of live rows in a set.

    Cost: deletion files of the fragments of these rows.
    """
    hit = [handle for handle in with_deletions(snapshot) if rows.count_of(handle.id)]
    deleted = await deleted_rows(snapshot, hit) if hit else ()
    return len(rows) - sum(rows.count_common(gone) for gone in deleted)
