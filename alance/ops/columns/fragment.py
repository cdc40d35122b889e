"""Columns of single fragments, for backfills that many processes share: files now, one commit
later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.ops.columns.backfill import Backfill
from alance.ops.columns.fields import added, check_grown, next_field_id
from alance.ops.columns.join import Joined
from alance.ops.columns.sources import AllNull, NewColumns, opened
from alance.ops.write.write import messages_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.proto import file_pb2, table_pb2
    from alance.ops.columns.sources import Transforms
    from alance.ops.version.handle import FragmentHandle
    from alance.ops.version.snapshot import Snapshot
    from alance.ops.write.sources import Data


async def add_to_fragment(
    snapshot: Snapshot,
    handle: FragmentHandle,
    transforms: Transforms,
    *,
    read_columns: Sequence[str] | None = None,
    batch_size: int | None = None,
) -> tuple[table_pb2.DataFragment, tuple[file_pb2.Field, ...]]:
    """A fragment with new columns, and the schema. See `DatasetFragment.add_columns`."""
    columns = await opened(snapshot, transforms, read_columns, batch_size)
    if isinstance(columns, AllNull):
        schema, new = added(snapshot.schema, columns.arrow, next_field_id(snapshot.manifest))
        check_grown(snapshot.manifest, new, is_null=True)
        return handle.fragment.message, messages_of(schema)
    return await _written(snapshot, handle, columns)


async def merge_into_fragment(
    snapshot: Snapshot,
    handle: FragmentHandle,
    data: Data,
    left_on: str,
    right_on: str | None = None,
) -> tuple[table_pb2.DataFragment, tuple[file_pb2.Field, ...]]:
    """A fragment with the columns of other data. See `DatasetFragment.merge`."""
    values = await Joined.of(snapshot, data, left_on, right_on or left_on)
    return await _written(snapshot, handle, NewColumns(values, values.columns.schema))


async def _written(
    snapshot: Snapshot, handle: FragmentHandle, columns: NewColumns
) -> tuple[table_pb2.DataFragment, tuple[file_pb2.Field, ...]]:
    backfill = Backfill(columns.values, columns.checkpoint)
    arrow = await columns.schema(snapshot)
    schema, new = added(snapshot.schema, arrow, next_field_id(snapshot.manifest))
    check_grown(snapshot.manifest, new, is_null=False)
    try:
        (made,) = await backfill.fragments(snapshot, new, [handle])
    except BaseException:
        await backfill.discard()
        raise
    return made, messages_of(schema)
