"""Merge: rows of a source update, delete or fail the rows of a table that have the same key, and
are added where there are none; rows of the table without a match can be deleted.

The source is read once and kept, in memory or on the local disk. The target is scanned on its key
columns. Rows that are updated are deleted where they are and written anew, with their row ids.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from alance.errors import CommitConflictError, RetryableConflictError
from alance.file.batches import work_bytes
from alance.format.keys import KEY, ROW, Keys
from alance.format.numbers import as_mask, as_numbers
from alance.format.proto import transaction_pb2
from alance.format.table.operations import Update
from alance.io.engine import INLINE_BYTES
from alance.ops.merge.match import match
from alance.ops.merge.plan import Merge
from alance.ops.merge.rows import rewrite_columns, write_inserted, write_updated
from alance.ops.merge.source import hold
from alance.ops.rows.moved import FEW_ROWS, prepare_rows
from alance.ops.version.commits import latest
from alance.ops.version.first_use import load_readers
from alance.ops.write.bases import places_of
from alance.ops.write.blob_moves import moved_blobs
from alance.ops.write.files import DataFiles
from alance.ops.write.sources import open_source
from alance.ops.write.spool import Scratch

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from typing import Any

    import pyarrow as pa

    from alance.arrays import Int64s, Mask, UInt64s
    from alance.format.table.operations import Operation
    from alance.ops.merge.match import Matches
    from alance.ops.merge.options import MergePlan
    from alance.ops.merge.source import HeldSource
    from alance.ops.version.commits import PreparedChange
    from alance.ops.version.snapshot import Snapshot
    from alance.ops.write.sources import Data

    Filter = transaction_pb2.Transaction.KeyExistenceFilter


async def merge_insert(
    snapshot: Snapshot, plan: MergePlan, data: Data, schema: pa.Schema | None = None
) -> Snapshot:
    """The version with a source merged into it. See `alance.MergeInsert`."""
    async with held(snapshot, plan, data, schema) as merged:
        return await _with_retries(snapshot, *merged)


async def merge_uncommitted(
    snapshot: Snapshot, plan: MergePlan, data: Data, schema: pa.Schema | None = None
) -> tuple[Operation, Mapping[str, Any]]:
    """The operation that merges a source, whose files are there, and counts of its rows."""
    async with held(snapshot, plan, data, schema) as merged:
        change = await attempt(snapshot, *merged)
        return await change.give(), change.summary or {}


@asynccontextmanager
async def held(
    snapshot: Snapshot, plan: MergePlan, data: Data, schema: pa.Schema | None
) -> AsyncGenerator[tuple[Merge, HeldSource, Scratch], None]:
    """What a merge is computed from: the data read, and where it waits; until the block ends."""
    plan.check()
    await load_readers(snapshot, condition=plan.condition or plan.others)
    source = await open_source(data, schema, snapshot.engine.pool)
    merge = Merge.of(plan, snapshot.schema, source.schema)
    scratch = Scratch(snapshot.engine.pool)
    try:
        yield merge, await hold(source, merge, scratch), scratch
    finally:
        await scratch.remove()


async def _with_retries(
    snapshot: Snapshot, merge: Merge, source: HeldSource, scratch: Scratch
) -> Snapshot:
    """Attempts on the version at hand, then on the latest one, as often and as long as allowed."""
    plan = merge.plan
    loop = asyncio.get_running_loop()
    deadline = loop.time() + plan.retry_seconds
    base = snapshot
    for left in range(plan.conflict_retries, -1, -1):
        try:
            # A commit that has begun goes on: only what comes before it can be given up.
            async with asyncio.timeout_at(None if base is snapshot else deadline):
                change = await attempt(base, merge, source, scratch)
            return await change.commit()
        except RetryableConflictError:
            if not left or loop.time() >= deadline:
                raise
        except TimeoutError as error:
            raise RetryableConflictError(
                f"dataset {snapshot.uri!r}: others changed the same rows, and the merge was not "
                f"done within {plan.retry_seconds} s"
            ) from error
        base = await latest(snapshot)
        again = Merge.of(plan, base.schema, merge.source_schema)
        if again.source_schema != merge.source_schema or again.on != merge.on:
            raise CommitConflictError(
                f"dataset {snapshot.uri!r}: version {base.version} has other columns than version "
                f"{snapshot.version}, which the data was read for"
            )
        merge = again
    raise AssertionError("unreachable")


async def attempt(
    base: Snapshot, merge: Merge, source: HeldSource, scratch: Scratch
) -> PreparedChange:
    """Write all that the merge of a version needs."""
    plan = merge.plan
    run = base.engine.pool.run
    if plan.when_matched == "update" and not merge.rewrites_columns:
        moved_blobs(base, (*merge.lacking, *merge.partial))
    matches = await match(base, merge, source, scratch)
    is_little = matches.num_changed + matches.gone.num_rows <= FEW_ROWS
    rows, places, row_ids = await run(matches.changed, inline=is_little)
    summary = _summary(merge, matches, source.num_rows)
    if merge.rewrites_columns:
        return await rewrite_columns(base, merge, source, rows, places, scratch, summary)
    version = plan.data_storage_version or base.manifest.data_storage_version
    bases = base.manifest.base_paths
    targets = await places_of(plan.bases, base.engine, base.table, bases)
    files = DataFiles(base.session, base.table, base.schema, version, bases=bases, targets=targets)
    updates = plan.when_matched == "update"
    try:
        if updates:
            await write_updated(base, merge, source, files, rows, places)
        if plan.inserts:
            await write_inserted(base, source, files, matches.matched)
        fragments = await files.seal()
        keys = await inserted_keys(merge, source, matches)
        deleted = await run(partial(_deleted, matches, places), inline=is_little)
    except BaseException:
        await files.discard()
        raise
    return await prepare_rows(
        base,
        Update(fields_for_preserving_frag_bitmap=_field_ids(merge), inserted_rows=keys),
        deleted=deleted,
        files=files,
        new_fragments=fragments,
        row_ids=row_ids if base.has_stable_row_ids and updates else None,
        options=plan.commit,
        summary=summary,
    )


def _deleted(matches: Matches, places: UInt64s) -> dict[int, Int64s]:
    """All rows that go, as physical offsets by fragment. CPU."""
    matches.gone.add(np.sort(places))
    return matches.gone.by_fragment()


def _summary(merge: Merge, matches: Matches, num_rows: int) -> dict[str, int]:
    plan = merge.plan
    deletes = plan.when_matched == "delete"
    inserted = num_rows - int(np.count_nonzero(matches.matched)) if plan.inserts else 0
    return {
        "num_inserted_rows": inserted,
        "num_updated_rows": 0 if deletes else matches.num_changed,
        "num_deleted_rows": matches.gone.num_rows + (matches.num_changed if deletes else 0),
    }


def _field_ids(merge: Merge) -> tuple[int, ...]:
    """All fields; of a merge that only deletes matches those of the top, as pylance has it."""
    fields = merge.schema.fields
    if merge.deletes_matches_alone:
        return tuple(root.id for root in fields)
    return tuple(field.id for root in fields for field in root.walk())


# One bit a key: of two filters every bit in common counts. With 50 keys each, 4 % of pairs
# have one by chance; filters of more keys than MOST_KEYS have nearly always one.
NUM_BYTES: Final = 8 << 10
MOST_KEYS: Final = 4096
EXACT_KEYS: Final = 16 << 10  # of keys that are not primary: their hashes, 150 KiB at most
SEED: Final = 0x616C616E6365
# Names this kind of filter, so that those of other makers, or of other hashes, are not compared.
NUMBER_OF_ITEMS: Final = 1
PROBABILITY: Final = 0.5


async def inserted_keys(merge: Merge, source: HeldSource, matches: Matches) -> Filter | None:
    """The filter of the keys that a merge inserts; None: it is not by the primary key and inserts
    nothing, or only deletes what matches.

    Two writers that both insert a key that is not there would leave it twice. So the transaction
    has this filter, and of two whose filters have a bit in common the second one is run again.
    Filters of other makers have other parameters and are not compared: then the second one is run
    again in any case.
    """
    key = merge.schema.primary_key
    is_primary = bool(key) and set(merge.on) == set(key)
    if merge.deletes_matches_alone or not (is_primary or merge.plan.inserts):
        return None
    filter_ = transaction_pb2.Transaction.KeyExistenceFilter()
    filter_.field_ids.extend(merge.schema.field(name).id for name in merge.on)
    num_new = source.num_rows - int(np.count_nonzero(matches.matched))
    if not is_primary and num_new <= EXACT_KEYS:  # pylance compares none of these
        hashes = np.unique(np.concatenate(await _hashes(source, matches)))
        filter_.exact.hashes.extend(hashes.tolist())
        return filter_
    bits = np.zeros(NUM_BYTES * 8, np.uint8)
    if merge.plan.inserts:
        if num_new > MOST_KEYS:
            bits[:] = 1
        else:
            for hashes in await _hashes(source, matches):
                bits[hashes % np.uint64(len(bits))] = 1
    filter_.bloom.bitmap = np.packbits(bits, bitorder="little").tobytes()
    filter_.bloom.num_bits = len(bits)
    filter_.bloom.number_of_items = NUMBER_OF_ITEMS
    filter_.bloom.probability = PROBABILITY
    return filter_


async def _hashes(source: HeldSource, matches: Matches) -> list[UInt64s]:
    """The hashes of the keys that are inserted; never no array."""
    hashes = [np.empty(0, np.uint64)]
    run = source.keys.scratch.pool.run
    async with aclosing(source.keys.batches()) as batches:
        hashes += [
            await run(
                partial(_hashed, batch, matches.matched), inline=work_bytes([batch]) <= INLINE_BYTES
            )
            async for batch in batches
        ]
    return hashes


def _hashed(batch: pa.RecordBatch, matched: Mask) -> UInt64s:
    """The hashes of the keys of rows that are inserted. CPU."""
    keys = batch.column(KEY)
    new = ~matched[as_numbers(batch.column(ROW))]
    if keys.null_count:
        new &= as_mask(keys.is_valid())
    return np.asarray(Keys(keys).plain().hashes(SEED)[new])
