"""Columns in new data files: added by a Merge operation, or replaced by a DataReplacement.

Other columns of the fragments are neither read nor written. The functions for single fragments are
for backfills by several processes: each process writes files, and one commit follows.
"""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.format.table.operations import DataReplacement, DataReplacementGroup, Merge
from alance.ops.columns.backfill import Backfill
from alance.ops.columns.cast import cast
from alance.ops.columns.fields import added, check_grown, next_field_id
from alance.ops.columns.sources import opened
from alance.ops.version.commits import PreparedChange, with_retries
from alance.ops.version.mem_wal import refuse_with_mem_wal
from alance.ops.version.summary import ChangeSummary

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from alance.format.proto import file_pb2, table_pb2
    from alance.format.schema import Schema
    from alance.ops.columns.sources import NewColumns, NewValues, Transforms
    from alance.ops.version.handle import FragmentHandle
    from alance.ops.version.options import CommitOptions
    from alance.ops.version.snapshot import Snapshot


async def add_columns(
    snapshot: Snapshot,
    transforms: Transforms,
    *,
    read_columns: Sequence[str] | None = None,
    batch_size: int | None = None,
    options: CommitOptions,
) -> Snapshot:
    """Add columns; return the new version. See `Dataset.add_columns`."""
    columns = await opened(snapshot, transforms, read_columns, batch_size)
    return await add_opened(snapshot, columns, options)


async def add_opened(snapshot: Snapshot, columns: NewColumns, options: CommitOptions) -> Snapshot:
    """Add columns with values from an open source; return the new version.

    Raises:
        InvalidInputError: a column already exists, or values do not fit.
        RetryableConflictError: other commits were first in all attempts, or have added rows for
            which the source has no values.
        CommitConflictError: a newer version rules this one out.
    """
    if columns.values is None:
        return await _add_nulls(snapshot, columns, options)

    async def attempt(base: Snapshot) -> Snapshot:
        schema, new = await grown(base, columns)
        fragments = await backfill.fragments(base, new)
        change = merge_of(base, schema, new, fragments)
        summary = ChangeSummary(files_added=len(fragments))
        return await backfill.commit(base, change, options, summary)

    async with Backfill(columns.values, columns.checkpoint) as backfill:
        return await with_retries(snapshot, attempt, options.max_retries)


async def _add_nulls(snapshot: Snapshot, columns: NewColumns, options: CommitOptions) -> Snapshot:
    async def attempt(base: Snapshot) -> Snapshot:
        schema, new = await grown(base, columns)
        records = base.manifest.fragments.records
        fragments = await base.engine.pool.run(lambda: records[:])
        return await PreparedChange(base, merge_of(base, schema, new, fragments), options).commit()

    return await with_retries(snapshot, attempt, options.max_retries)


async def grown(snapshot: Snapshot, columns: NewColumns) -> tuple[Schema, Schema]:
    """Return the schema with new columns, and a schema of only the new fields and their parents.

    Raises:
        InvalidInputError: a column already exists, or is inside a list and has values.
        UnsupportedError: the format, or the version of the table's files, does not have a type; or
            the columns have values and the table has a MemWAL.
    """
    if columns.values is not None:
        refuse_with_mem_wal(
            snapshot.table,
            snapshot.manifest,
            "add a column with values",
            "add it without values (a pyarrow field)",
        )
    arrow = await columns.schema(snapshot)

    def make() -> tuple[Schema, Schema]:
        schema, new = added(snapshot.schema, arrow, next_field_id(snapshot.manifest))
        check_grown(snapshot.manifest, new, is_null=columns.values is None)
        return schema, new

    return await snapshot.engine.pool.run(make)


def merge_of(
    base: Snapshot,
    schema: Schema,
    new: Schema,
    fragments: Sequence[table_pb2.DataFragment],
) -> Merge:
    """Return the operation that adds fields to a version.

    Args:
        schema: schema of the next version.
        new: new fields, with their parents.
        fragments: records of all fragments, with their new files.
    """
    ids_before = {field.id for field in base.schema.walk()}
    return Merge(
        fragments=tuple(fragments),
        schema=schema.messages,
        preserves_nullability=all(
            field.nullable for field in new.walk() if field.id not in ids_before
        ),
    )


async def add_to_fragment(
    snapshot: Snapshot,
    handle: FragmentHandle,
    transforms: Transforms,
    *,
    read_columns: Sequence[str] | None = None,
    batch_size: int | None = None,
) -> tuple[table_pb2.DataFragment, tuple[file_pb2.Field, ...]]:
    """Add columns; return the fragment and the schema. See `DatasetFragment.add_columns`."""
    columns = await opened(snapshot, transforms, read_columns, batch_size)
    return await add_opened_to_fragment(snapshot, handle, columns)


async def add_opened_to_fragment(
    snapshot: Snapshot, handle: FragmentHandle, columns: NewColumns
) -> tuple[table_pb2.DataFragment, tuple[file_pb2.Field, ...]]:
    """Add columns with values from an open source; return the fragment and the schema."""
    schema, new = await grown(snapshot, columns)
    if columns.values is None:
        return handle.fragment.message, schema.messages
    async with Backfill(columns.values, columns.checkpoint) as backfill:
        (fragment,) = await backfill.fragments(snapshot, new, [handle])
    return fragment, schema.messages


async def replace_columns(
    snapshot: Snapshot,
    transforms: Transforms,
    *,
    read_columns: Sequence[str] | None = None,
    batch_size: int | None = None,
    options: CommitOptions,
) -> Snapshot:
    """Replace the values of columns; return the new version. See `Dataset.replace_columns`."""
    columns = await opened(snapshot, transforms, read_columns, batch_size)
    values = Conformed(columns.required_values())

    async def attempt(base: Snapshot) -> Snapshot:
        schema = await values.aim(base, columns)
        fragments = await backfill.fragments(base, schema)
        replacements = await base.engine.pool.run(lambda: _replacements(base, fragments))
        change = DataReplacement(replacements)
        summary = ChangeSummary(files_added=len(change.replacements))
        return await backfill.commit(base, change, options, summary)

    async with Backfill(values, columns.checkpoint) as backfill:
        return await with_retries(snapshot, attempt, options.max_retries)


async def replace_in_fragment(
    snapshot: Snapshot,
    handle: FragmentHandle,
    transforms: Transforms,
    *,
    read_columns: Sequence[str] | None = None,
    batch_size: int | None = None,
) -> DataReplacementGroup:
    """Write a new file for columns of a fragment. See `DatasetFragment.replace_columns`."""
    columns = await opened(snapshot, transforms, read_columns, batch_size)
    values = Conformed(columns.required_values())
    async with Backfill(values, columns.checkpoint) as backfill:
        schema = await values.aim(snapshot, columns)
        fragments = await backfill.fragments(snapshot, schema, [handle])
    (replacement,) = _replacements(snapshot, fragments)
    return replacement


def _replacements(
    snapshot: Snapshot, fragments: Sequence[table_pb2.DataFragment]
) -> tuple[DataReplacementGroup, ...]:
    """Return the last file of each fragment that has more files than in the snapshot.

    Raises:
        InvalidInputError: no fragment has a new file.
    """
    replacements = tuple(
        DataReplacementGroup(fragment.id, fragment.files[-1])
        for fragment in fragments
        if len(fragment.files) > len(snapshot.handle(fragment.id).fragment.files)
    )
    if not replacements:
        raise InvalidInputError("replace_columns: there are no rows")
    return replacements


def whole_columns(snapshot: Snapshot, names: Sequence[str]) -> Schema:
    """Return the fields of top-level columns.

    Raises:
        InvalidInputError: a column does not exist, is nested, or is repeated.
    """
    schema = snapshot.schema.project(names)
    if [field.name for field in schema.fields] != list(names):
        raise InvalidInputError(f"columns {', '.join(names)}: expected whole columns, each once")
    return schema


@dataclass(slots=True)
class Conformed:
    """Source of values, cast to the types of existing columns.

    Attributes:
        values: source of the values before the cast.
        target: the existing columns, in the order of the values; None before `aim`.
    """

    values: NewValues
    target: pa.Schema | None = None

    async def aim(self, snapshot: Snapshot, columns: NewColumns) -> Schema:
        """Look up the existing columns in a version, set `target`, and return their fields.

        Raises:
            InvalidInputError: a column does not exist.
        """
        schema = whole_columns(snapshot, (await columns.schema(snapshot)).names)
        self.target = pa.schema([field.logical_arrow() for field in schema.fields])
        return schema

    @property
    def is_physical(self) -> bool:
        return self.values.is_physical

    @property
    def in_order(self) -> bool:
        return self.values.in_order

    def reads(self, schema: Schema) -> frozenset[int] | None:
        # Concurrent changes of these columns would be lost as well.
        names = [] if self.target is None else self.target.names
        own = frozenset(field.id for field in schema.project(names).walk())
        reads = self.values.reads(schema)
        return None if reads is None else reads | own

    @property
    def is_grouped(self) -> bool:
        return self.values.is_grouped

    def batches(
        self, snapshot: Snapshot, handle: FragmentHandle, ahead_bytes: int
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        return self._cast(snapshot, self.values.batches(snapshot, handle, ahead_bytes))

    def grouped(
        self, snapshot: Snapshot, handles: Sequence[FragmentHandle], ahead_bytes: int
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        return self._cast(snapshot, self.values.grouped(snapshot, handles, ahead_bytes))

    async def _cast(
        self, snapshot: Snapshot, values: AsyncGenerator[pa.RecordBatch, None]
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        assert self.target is not None
        async with aclosing(values) as batches:
            async for batch in batches:
                yield await snapshot.engine.pool.run(partial(cast, batch, self.target))

    async def end(self, snapshot: Snapshot) -> None:
        await self.values.end(snapshot)
