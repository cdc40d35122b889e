"""Run a merge: a source row updates or deletes the table row with its key, or is inserted.

Table rows without a match can be deleted. The source is read once, and held in memory or on the
local disk. The key columns of the target are scanned. Updated rows are marked as deleted in their
old fragments and written to new fragments with their row ids.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from alance.errors import CommitConflictError, RetryableConflictError
from alance.file.batches import work_bytes
from alance.format.keys import KEY_COLUMN, ROW_COLUMN
from alance.format.numbers import as_numbers, ascending
from alance.format.table.operations import Update
from alance.io.reading.engine import DECODED_INLINE_BYTES
from alance.ops.merge.inserted import InsertedKeys, key_hashes
from alance.ops.merge.match import match
from alance.ops.merge.plan import RowMerge
from alance.ops.merge.rows import rewrite_columns, write_inserted, write_updated
from alance.ops.merge.source import SourcePart, hold
from alance.ops.rows.moved import FEW_MOVED_ROWS, ChangedRows, prepare_rows
from alance.ops.version.commits import latest, with_retries
from alance.ops.version.first_use import load_readers, of_fields
from alance.ops.version.summary import ChangeSummary
from alance.ops.write.bases import places_of
from alance.ops.write.blob_moves import moved_blobs
from alance.ops.write.files import DataFiles
from alance.ops.write.sources import VECTOR_COLUMNS, open_source
from alance.ops.write.spool import Scratch

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    import pyarrow as pa

    from alance.base.arrays import Int64s, Mask, UInt64s
    from alance.format.table.operations import Operation
    from alance.ops.merge.match import Matches
    from alance.ops.merge.options import MergePlan
    from alance.ops.merge.source import HeldSource
    from alance.ops.version.commits import PreparedChange
    from alance.ops.version.snapshot import Snapshot
    from alance.ops.write.sources import Data


async def merge_insert(
    snapshot: Snapshot, plan: MergePlan, data: Data, schema: pa.Schema | None = None
) -> Snapshot:
    """Merge a source into the table; return the new version. See `alance.MergeInsert`."""
    return await merge_parts(snapshot, plan, [SourcePart(data, schema)])


async def merge_parts(
    snapshot: Snapshot,
    plan: MergePlan,
    parts: Sequence[SourcePart],
    *,
    deleted: pa.RecordBatch | None = None,
    rebase: Callable[[Snapshot], Awaitable[Snapshot | None]] = latest,
) -> Snapshot:
    """Merge a source of several parts, at least one, into the table; return the new version.

    Args:
        deleted: keys of rows to delete, which the source must not contain; None: none.
        rebase: as for `with_retries`.
    """
    async with held(snapshot, plan, parts, deleted) as merged:
        return await _with_retries(snapshot, *merged, rebase)


async def merge_uncommitted(
    snapshot: Snapshot, plan: MergePlan, data: Data, schema: pa.Schema | None = None
) -> tuple[Operation, ChangeSummary]:
    """Write the files of a merge; return its operation and the counts of its rows."""
    async with held(snapshot, plan, [SourcePart(data, schema)]) as merged:
        change = await attempt(snapshot, *merged)
        return await change.give(), change.summary or ChangeSummary()


@asynccontextmanager
async def held(
    snapshot: Snapshot,
    plan: MergePlan,
    parts: Sequence[SourcePart],
    deleted: pa.RecordBatch | None = None,
) -> AsyncGenerator[tuple[RowMerge, HeldSource, Scratch], None]:
    """Plan a merge and hold its source until the end of the block."""
    plan.check()
    await load_readers(snapshot, condition=plan.condition or plan.others)
    pool = snapshot.engine.pool
    own = {name for name in VECTOR_COLUMNS if snapshot.schema.top(name) is not None}
    sources = [await open_source(part.data, part.schema, pool, own) for part in parts]
    schemas = [source.schema for source in sources]
    make = partial(RowMerge.of, plan, snapshot.schema, *schemas)
    merge = await of_fields(snapshot.engine, sum(map(len, schemas)), make)
    scratch = Scratch(pool)
    replaces = [part.replaces for part in parts]
    try:
        yield merge, await hold(sources, replaces, merge, scratch, deleted), scratch
    finally:
        await scratch.remove()


async def _with_retries(
    snapshot: Snapshot,
    merge: RowMerge,
    source: HeldSource,
    scratch: Scratch,
    rebase: Callable[[Snapshot], Awaitable[Snapshot | None]],
) -> Snapshot:
    """Merge into the snapshot; after a conflict into the latest version, until the deadline.

    Raises:
        RetryableConflictError: the deadline passed, or all retries failed.
    """
    plan = merge.plan
    deadline = asyncio.get_running_loop().time() + plan.retry_seconds

    async def run(base: Snapshot) -> Snapshot:
        if base is snapshot:
            change = await attempt(base, merge, source, scratch)
            return await change.commit()
        # The deadline cancels a retry before its commit; a commit that has begun continues.
        async with asyncio.timeout_at(deadline):
            change = await attempt(base, _again(merge, snapshot, base), source, scratch)
        return await change.commit()

    try:
        return await with_retries(
            snapshot, run, plan.conflict_retries, rebase=rebase, deadline=deadline
        )
    except TimeoutError as error:
        raise RetryableConflictError(
            f"dataset {snapshot.uri!r}: others changed the same rows, and the merge was not "
            f"done within {plan.retry_seconds} s"
        ) from error


def _again(merge: RowMerge, snapshot: Snapshot, newer: Snapshot) -> RowMerge:
    """Plan a merge again on a newer version, with the data that is already read.

    Raises:
        CommitConflictError: the newer version has other columns.
    """
    again = RowMerge.of(merge.plan, newer.schema, *merge.source_schemas)
    if again.source_schemas != merge.source_schemas or again.on != merge.on:
        raise CommitConflictError(
            f"dataset {snapshot.uri!r}: version {newer.version} has other columns than version "
            f"{snapshot.version}, for which the data was read"
        )
    return again


async def attempt(
    base: Snapshot, merge: RowMerge, source: HeldSource, scratch: Scratch
) -> PreparedChange:
    """Write all files for a merge into version `base`, and prepare its commit."""
    plan = merge.plan
    run = base.engine.pool.run
    if plan.when_matched == "update" and not merge.rewrites_columns:
        for part in source.parts:
            moved_blobs(base, await part.gaps(base))
    matches = await match(base, merge, source, scratch)
    is_little = matches.num_changed + matches.gone.num_rows <= FEW_MOVED_ROWS
    rows, places, row_ids = await run(matches.changed, inline=is_little)
    if source.deleted is not None:
        rows, places, row_ids = _without_deleted(matches, source, rows, places, row_ids)
    summary = _summary(merge, matches, source.num_keys)
    if merge.rewrites_columns:
        return await rewrite_columns(base, merge, source, rows, places, scratch, summary)
    files = await _new_files(base, plan)
    updates = plan.when_matched == "update"
    moved_ids = row_ids if base.has_stable_row_ids and updates else None
    try:
        if updates:
            moved_ids = await write_updated(base, source, files, rows, places, moved_ids)
        if plan.inserts:
            await write_inserted(base, source, files, matches.matched)
        fragments = await files.seal()
        keys = await _inserted_keys(merge, source, matches)
        deleted = await run(partial(_deleted, matches, places), inline=is_little)
    except BaseException:
        await files.discard()
        raise
    change = Update(
        fields_for_preserving_frag_bitmap=_field_ids(merge),
        inserted_rows=None if keys is None else keys.filter(),
    )
    changed = ChangedRows(deleted, files=files, new_fragments=fragments, row_ids=moved_ids)
    return await prepare_rows(base, change, changed, plan.commit, summary)


async def _new_files(base: Snapshot, plan: MergePlan) -> DataFiles:
    version = plan.data_storage_version or base.manifest.data_storage_version
    bases = base.manifest.base_paths
    targets = await places_of(plan.bases, base.engine, base.table, bases)
    return DataFiles(
        base.session, base.table, base.schema, version, plan.limits, bases=bases, targets=targets
    )


def _without_deleted(
    matches: Matches, source: HeldSource, rows: Int64s, places: UInt64s, row_ids: UInt64s
) -> tuple[Int64s, UInt64s, UInt64s]:
    """Return the matched rows that are updated, without those of deleted keys."""
    cut = int(np.searchsorted(rows, source.num_rows))
    matches.gone.add(ascending(places[cut:]))
    matches.num_changed = cut
    matches.matched[source.num_rows :] = True  # a key without a row is not inserted
    return rows[:cut], places[:cut], row_ids[:cut]


def _deleted(matches: Matches, places: UInt64s) -> dict[int, Int64s]:
    """Return all rows to mark as deleted, as physical offsets by fragment. CPU work."""
    matches.gone.add(ascending(places))
    return matches.gone.by_fragment()


def _summary(merge: RowMerge, matches: Matches, num_keys: int) -> ChangeSummary:
    plan = merge.plan
    deletes = plan.when_matched == "delete"
    inserted = num_keys - int(np.count_nonzero(matches.matched)) if plan.inserts else 0
    return ChangeSummary(
        num_inserted_rows=inserted,
        num_updated_rows=0 if deletes else matches.num_changed,
        num_deleted_rows=matches.gone.num_rows + (matches.num_changed if deletes else 0),
    )


def _field_ids(merge: RowMerge) -> tuple[int, ...]:
    """Return the ids of all fields, or of top-level ones (as pylance) if rows are only deleted."""
    fields = merge.schema.fields
    if merge.deletes_matches_alone:
        return tuple(root.id for root in fields)
    return tuple(field.id for root in fields for field in root.walk())


async def _inserted_keys(
    merge: RowMerge, source: HeldSource, matches: Matches
) -> InsertedKeys | None:
    """Collect the keys that a merge inserts, for its transaction.

    Returns None if the transaction needs no keys: the merge only deletes matches, or it inserts
    nothing and its keys are not the primary key.
    """
    keys = InsertedKeys.of(merge.schema, merge.on)
    if merge.deletes_matches_alone or not (keys.is_primary or merge.plan.inserts):
        return None
    if not merge.plan.inserts:
        return keys
    if keys.is_primary and source.num_keys - np.count_nonzero(matches.matched) > keys.limit:
        keys.hashes = None
        return keys
    run = source.keys.scratch.pool.run
    async with aclosing(source.keys.batches()) as batches:
        async for batch in batches:
            work = partial(_add_keys, keys, batch, matches.matched)
            num_bytes = work_bytes([batch]) + keys.num_bytes  # all are sorted again
            await run(work, inline=num_bytes <= DECODED_INLINE_BYTES)
            if keys.hashes is None:
                break
    return keys


def _add_keys(keys: InsertedKeys, batch: pa.RecordBatch, matched: Mask) -> None:
    """Add the keys of unmatched source rows. CPU work."""
    is_new = ~matched[as_numbers(batch.column(ROW_COLUMN))]
    keys.add_hashes(key_hashes(batch.column(KEY_COLUMN), is_new))
