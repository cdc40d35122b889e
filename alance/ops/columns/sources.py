"""New columns as users give them, and the values that come of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from alance.errors import CommitConflictError, InvalidInputError
from alance.ops.columns.sql import Expressions
from alance.ops.columns.udf import Computed
from alance.ops.write.sources import open_source
from alance.udf import BatchUdf

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    import pyarrow.compute as pc

    from alance.format.schema import Schema
    from alance.ops.columns.checkpoint import Checkpoint
    from alance.ops.columns.values import Values
    from alance.ops.version.handle import FragmentHandle
    from alance.ops.version.snapshot import Snapshot
    from alance.ops.write.sources import Data

Transforms: TypeAlias = (
    "Mapping[str, str | pc.Expression] | BatchUdf | Callable[[pa.RecordBatch], object] | Data "
    "| pa.Field | Sequence[pa.Field] | pa.Schema"
)


@dataclass(frozen=True, slots=True)
class AllNull:
    """Columns without values."""

    arrow: pa.Schema


@dataclass(slots=True)
class NewColumns:
    """Columns with values.

    Attributes:
        fixed: names and types of the columns; None: computed from each version's schema.
        checkpoint: of a user's function.
    """

    values: Values
    fixed: pa.Schema | None = None
    checkpoint: Checkpoint | None = None

    async def schema(self, snapshot: Snapshot) -> pa.Schema:
        """The new columns, on top of a version."""
        if self.fixed is not None:
            return self.fixed
        values = self.values
        assert isinstance(values, Expressions)
        return await snapshot.engine.pool.run(lambda: values.schema(snapshot.schema))

    async def finish(self) -> None:
        """The version is there: what was kept for the case that it is not can go."""
        if self.checkpoint is not None:
            await self.checkpoint.remove()


async def opened(
    snapshot: Snapshot,
    transforms: Transforms,
    read_columns: Sequence[str] | None,
    batch_size: int | None,
) -> NewColumns | AllNull:
    """The new columns that a user gave.

    Raises:
        InvalidInputError: none of what is accepted.
    """
    nulls = _fields(transforms)
    if read_columns is not None and (nulls is not None or not callable(transforms)):
        raise InvalidInputError("read_columns: only of a function; others tell what they read")
    if nulls is not None:
        return all_null(nulls)
    if isinstance(transforms, Mapping):
        return NewColumns(Expressions(dict(transforms), batch_size))
    if callable(transforms):
        udf = transforms if isinstance(transforms, BatchUdf) else BatchUdf(transforms)
        values = await Computed.of(snapshot, udf, read_columns, batch_size)
        return NewColumns(values, values.output, values.checkpoint)
    source = await open_source(transforms, None, snapshot.engine.pool)
    return NewColumns(Stream(source.batches), source.schema)


def _fields(transforms: Any) -> pa.Schema | None:
    if isinstance(transforms, pa.Schema):
        return transforms
    if isinstance(transforms, pa.Field):
        return pa.schema([transforms])
    is_list = isinstance(transforms, list | tuple) and bool(transforms)
    if is_list and all(isinstance(one, pa.Field) for one in transforms):
        return pa.schema(transforms)
    return None


def all_null(arrow: pa.Schema) -> AllNull:
    """New columns of nulls.

    Raises:
        InvalidInputError: one that is not nullable.
    """
    for one in arrow:
        if not one.nullable:
            raise InvalidInputError(f"column {one.name!r}: not nullable, and it has no values")
    return AllNull(arrow)


@dataclass(slots=True)
class Stream:
    """Values from a stream of batches: one for each live row of the table, in its order."""

    source: AsyncIterator[pa.RecordBatch]
    _rest: pa.RecordBatch | None = field(default=None, init=False)
    _is_ended: bool = field(default=False, init=False)
    num_rows: int = field(default=0, init=False)

    @property
    def is_physical(self) -> bool:
        return False

    @property
    def in_order(self) -> bool:
        return True

    def reads(self, schema: Schema) -> frozenset[int]:
        return frozenset()

    async def batches(
        self, snapshot: Snapshot, handle: FragmentHandle, ahead_bytes: int
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        left = await snapshot.live_count(handle)
        if self._is_ended and left:
            raise CommitConflictError(
                f"new columns: fragment {handle.id} was made by others meanwhile, and the data "
                f"has no values for its rows; add the columns again to the latest version"
            )
        while left:
            batch = self._rest
            self._rest = None
            if batch is None:
                batch = await anext(self.source, None)
            if batch is None:
                raise InvalidInputError(
                    f"new columns: the data ends after {self.num_rows} rows, fragment {handle.id} "
                    f"has {left} more"
                )
            part = batch.slice(0, left)
            if part.num_rows < batch.num_rows:
                self._rest = batch.slice(left)
            left -= part.num_rows
            self.num_rows += part.num_rows
            if part.num_rows:
                yield part

    async def end(self, snapshot: Snapshot) -> None:
        while not self._is_ended:
            batch = self._rest
            if batch is None:
                batch = await anext(self.source, None)
            if batch is not None and batch.num_rows:
                raise InvalidInputError(
                    f"new columns: the data goes on after {self.num_rows} rows, which are all "
                    f"that there are"
                )
            self._rest, self._is_ended = None, batch is None
