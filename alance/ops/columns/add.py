"""Add columns: their fields, a new data file beside those of each fragment, one Merge."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from alance.format.table.operations import Merge
from alance.ops.columns.backfill import Backfill
from alance.ops.columns.fields import added, check_grown, next_field_id
from alance.ops.columns.sources import AllNull, opened
from alance.ops.version.commit_options import CommitOptions
from alance.ops.version.commits import commit_change, with_retries
from alance.ops.write.write import messages_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.proto import table_pb2
    from alance.format.schema import Schema
    from alance.ops.columns.sources import NewColumns, Transforms
    from alance.ops.version.snapshot import Snapshot


async def add_columns(
    snapshot: Snapshot,
    transforms: Transforms,
    *,
    read_columns: Sequence[str] | None = None,
    batch_size: int | None = None,
    options: CommitOptions | None = None,
) -> Snapshot:
    """The version with new columns. See `Dataset.add_columns`."""
    columns = await opened(snapshot, transforms, read_columns, batch_size)
    commit = options or CommitOptions()
    if isinstance(columns, AllNull):
        return await _add_nulls(snapshot, columns, commit)
    return await add_opened(snapshot, columns, commit)


async def add_opened(snapshot: Snapshot, columns: NewColumns, options: CommitOptions) -> Snapshot:
    """The version with new columns, whose values come from a source that is open.

    Raises:
        InvalidInputError: a column that is there already, or values that do not fit.
        RetryableConflictError: others were first, again and again, or have added rows for which
            the source has no values.
        CommitConflictError: a newer version rules this one out.
    """
    backfill = Backfill(columns.values, columns.checkpoint)

    async def attempt(base: Snapshot) -> Snapshot:
        next_id = await base.engine.pool.run(partial(next_field_id, base.manifest))
        schema, new = added(base.schema, await columns.schema(base), next_id)
        check_grown(base.manifest, new, is_null=False)
        fragments = await backfill.fragments(base, new)
        change = merge_of(base, schema, new, fragments)
        summary = {"num_data_files": len(fragments)}
        return await backfill.commit(base, change, options, summary)

    try:
        made = await with_retries(snapshot, attempt, options.max_retries)
    except BaseException:
        await backfill.discard()
        raise
    await columns.finish()
    return made


async def _add_nulls(snapshot: Snapshot, columns: AllNull, options: CommitOptions) -> Snapshot:
    async def attempt(base: Snapshot) -> Snapshot:
        next_id = await base.engine.pool.run(partial(next_field_id, base.manifest))
        schema, new = added(base.schema, columns.arrow, next_id)
        check_grown(base.manifest, new, is_null=True)
        fragments = [handle.fragment.message for handle in base.handles]
        return await commit_change(base, merge_of(base, schema, new, fragments), options)

    return await with_retries(snapshot, attempt, options.max_retries)


def merge_of(
    base: Snapshot,
    schema: Schema,
    new: Schema,
    fragments: Sequence[table_pb2.DataFragment],
) -> Merge:
    """The operation that adds fields to a version.

    Args:
        schema: of the next version.
        new: the fields that are new, with their parents.
        fragments: all of them, with their new files.
    """
    known = {one.id for one in base.schema.walk()}
    keeps = all(one.nullable for one in new.walk() if one.id not in known)
    return Merge(
        fragments=tuple(fragments),
        schema=messages_of(schema),
        preserves_nullability=keeps,
    )
