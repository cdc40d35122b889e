"""Replace the values of columns that exist: new files in the place of old ones, one
DataReplacement. Other columns of the fragments are neither read nor written.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from alance.errors import InvalidInputError
from alance.format.table.operations import DataReplacement, DataReplacementGroup
from alance.ops.columns.backfill import Backfill
from alance.ops.columns.cast import cast
from alance.ops.columns.sources import AllNull, opened
from alance.ops.version.commit_options import CommitOptions
from alance.ops.version.commits import with_retries

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from alance.format.proto import table_pb2
    from alance.format.schema import Schema
    from alance.ops.columns.sources import NewColumns, Transforms
    from alance.ops.columns.values import Values
    from alance.ops.version.handle import FragmentHandle
    from alance.ops.version.snapshot import Snapshot


async def replace_columns(
    snapshot: Snapshot,
    transforms: Transforms,
    *,
    read_columns: Sequence[str] | None = None,
    batch_size: int | None = None,
    options: CommitOptions | None = None,
) -> Snapshot:
    """The version with other values of columns. See `Dataset.replace_columns`."""
    commit = options or CommitOptions()
    columns = await _opened(snapshot, transforms, read_columns, batch_size)
    values = Conformed(columns.values)
    backfill = Backfill(values, columns.checkpoint)

    async def attempt(base: Snapshot) -> Snapshot:
        schema = await values.aim(base, columns)
        fragments = await backfill.fragments(base, schema)
        change = DataReplacement(groups_of(base, fragments))
        summary = {"num_data_files": len(change.replacements)}
        return await backfill.commit(base, change, commit, summary)

    try:
        made = await with_retries(snapshot, attempt, commit.max_retries)
    except BaseException:
        await backfill.discard()
        raise
    await columns.finish()
    return made


async def replace_in_fragment(
    snapshot: Snapshot,
    handle: FragmentHandle,
    transforms: Transforms,
    *,
    read_columns: Sequence[str] | None = None,
    batch_size: int | None = None,
) -> DataReplacementGroup:
    """A new file for columns of a fragment. See `DatasetFragment.replace_columns`."""
    columns = await _opened(snapshot, transforms, read_columns, batch_size)
    values = Conformed(columns.values)
    backfill = Backfill(values, columns.checkpoint)
    try:
        schema = await values.aim(snapshot, columns)
        fragments = await backfill.fragments(snapshot, schema, [handle])
    except BaseException:
        await backfill.discard()
        raise
    (made,) = groups_of(snapshot, fragments)
    return made


def groups_of(
    snapshot: Snapshot, fragments: Sequence[table_pb2.DataFragment]
) -> tuple[DataReplacementGroup, ...]:
    """The new files of fragments that have one more than in a version.

    Raises:
        InvalidInputError: there are none.
    """
    made = tuple(
        DataReplacementGroup(one.id, one.files[-1])
        for one in fragments
        if len(one.files) > len(snapshot.handle(one.id).fragment.files)
    )
    if not made:
        raise InvalidInputError("replace_columns: there are no rows")
    return made


async def _opened(
    snapshot: Snapshot,
    transforms: Transforms,
    read_columns: Sequence[str] | None,
    batch_size: int | None,
) -> NewColumns:
    columns = await opened(snapshot, transforms, read_columns, batch_size)
    if isinstance(columns, AllNull):
        raise InvalidInputError("replace_columns: fields without values")
    return columns


def whole_columns(snapshot: Snapshot, names: Sequence[str]) -> Schema:
    """The fields of columns at top level.

    Raises:
        InvalidInputError: one that does not exist, or is below another.
    """
    schema = snapshot.schema.project(names)
    if [one.name for one in schema.fields] != list(names):
        raise InvalidInputError(f"columns {', '.join(names)}: expected whole columns, each once")
    return schema


@dataclass(slots=True)
class Conformed:
    """Values in the types of columns that exist.

    Attributes:
        target: those columns, in the order of the values.
    """

    values: Values
    target: pa.Schema | None = None

    async def aim(self, snapshot: Snapshot, columns: NewColumns) -> Schema:
        """The fields that get new values, of a version.

        Raises:
            InvalidInputError: one that does not exist.
        """
        schema = whole_columns(snapshot, (await columns.schema(snapshot)).names)
        self.target = pa.schema([one.logical_arrow() for one in schema.fields])
        return schema

    @property
    def is_physical(self) -> bool:
        return self.values.is_physical

    @property
    def in_order(self) -> bool:
        return self.values.in_order

    def reads(self, schema: Schema) -> frozenset[int] | None:
        # What others do to the columns themselves is lost as well.
        names = [] if self.target is None else self.target.names
        own = frozenset(one.id for one in schema.project(names).walk())
        reads = self.values.reads(schema)
        return None if reads is None else reads | own

    async def batches(
        self, snapshot: Snapshot, handle: FragmentHandle, ahead_bytes: int
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        assert self.target is not None
        async with aclosing(self.values.batches(snapshot, handle, ahead_bytes)) as batches:
            async for batch in batches:
                yield await snapshot.engine.pool.run(partial(cast, batch, self.target))

    async def end(self, snapshot: Snapshot) -> None:
        await self.values.end(snapshot)
