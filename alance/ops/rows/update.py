"""Update: rows that match move to new fragments with their new values."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from alance.file.parts import batch_bytes
from alance.format.numbers import as_numbers
from alance.format.table.operations import Update
from alance.ops.read.options import ScanOptions
from alance.ops.read.plan import plan_scan
from alance.ops.read.scan import scan
from alance.ops.rows.assign import parse_updates
from alance.ops.rows.matching import Offsets
from alance.ops.rows.moved import commit_rows
from alance.ops.version.commit_options import CommitOptions
from alance.ops.version.commits import with_retries
from alance.ops.version.projection import ROW_ADDRESS, ROW_ID
from alance.ops.write.blob_moves import moved_blobs, with_payloads
from alance.ops.write.files import DataFiles

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence

    import numpy.typing as npt

    from alance.format.schema import Schema
    from alance.ops.rows.assign import Assignments, Updates
    from alance.ops.version.snapshot import Snapshot

BLOB_BYTES: Final = 32 << 20  # of the rows of a batch that are read at once
GROUP_ROWS: Final = 8192  # that are written at once, or more
GROUP_BYTES: Final = 8 << 20


async def update(
    snapshot: Snapshot,
    updates: Updates,
    where: str | pc.Expression | None,
    options: CommitOptions | None = None,
) -> Snapshot:
    """The version in which rows have new values. See `Dataset.update`."""
    commit = options or CommitOptions()

    async def attempt(base: Snapshot) -> Snapshot:
        # Off the loop: the engine of pyarrow's expressions takes 0.2 s to come up.
        assignments = await base.engine.pool.run(partial(parse_updates, base.schema, updates))
        return await _attempt(base, assignments, where, commit)

    return await with_retries(snapshot, attempt, commit.max_retries)


async def _attempt(
    base: Snapshot,
    assignments: Assignments,
    where: str | pc.Expression | None,
    commit: CommitOptions,
) -> Snapshot:
    moved = Offsets()
    row_ids: list[npt.NDArray[np.uint64]] = []
    files = DataFiles(base.session, base.table, base.schema, base.manifest.data_storage_version)
    run = base.engine.pool.run
    try:
        async with aclosing(_matching(base, assignments, where)) as batches:
            async for some in _together(batches):
                batch, rows = await run(partial(_new_rows, some, assignments, base.schema))
                moved.add(as_numbers(batch.column(ROW_ADDRESS)))
                if base.has_stable_row_ids:
                    row_ids.append(as_numbers(batch.column(ROW_ID)))
                await files.write(rows)
        fragments = await files.seal()
        deleted = await run(moved.by_fragment)
        ids = await run(partial(np.concatenate, row_ids)) if row_ids else None
    except BaseException:
        await files.discard()
        raise
    return await commit_rows(
        base,
        Update(fields_for_preserving_frag_bitmap=assignments.field_ids),
        deleted=deleted,
        files=files,
        new_fragments=fragments,
        row_ids=ids,
        options=commit,
        summary={"num_rows_updated": moved.num_rows},
    )


async def _together(
    batches: AsyncIterator[pa.RecordBatch],
) -> AsyncGenerator[list[pa.RecordBatch], None]:
    """Small batches a few at a time: what comes of many fragments with a row each."""
    some: list[pa.RecordBatch] = []
    num_rows = num_bytes = 0
    async for batch in batches:
        some.append(batch)
        num_rows += batch.num_rows
        num_bytes += batch_bytes(batch)
        if num_rows >= GROUP_ROWS or num_bytes >= GROUP_BYTES:
            yield some
            some, num_rows, num_bytes = [], 0, 0
    if some:
        yield some


def _new_rows(
    some: Sequence[pa.RecordBatch], assignments: Assignments, schema: Schema
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The rows of some batches in one, as they were and as they will be. CPU."""
    batch = some[0] if len(some) == 1 else pa.concat_batches(some)
    return batch, assignments.apply(batch, schema)


async def _matching(
    base: Snapshot, assignments: Assignments, where: str | pc.Expression | None
) -> AsyncGenerator[pa.RecordBatch, None]:
    """The rows that move, with their addresses (and ids, where they have some), as they are."""
    columns = assignments.needed(base.schema)
    blobs = moved_blobs(base, columns)
    options = ScanOptions(filter=where, with_row_address=True, with_row_id=base.has_stable_row_ids)
    plan = await plan_scan(base, columns, options)
    async with aclosing(scan(base, plan)) as batches:
        if not blobs:
            async for batch in batches:
                yield batch
            return
        async with aclosing(with_payloads(base, batches, blobs, keep_address=True)) as filled:
            async for batch in filled:
                yield batch
