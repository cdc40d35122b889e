"""New columns that a user's function computes, batch by batch, in threads or awaited."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from alance.errors import AlanceError, InvalidInputError
from alance.ops.columns.backfill import rows_source
from alance.ops.columns.checkpoint import Checkpoint
from alance.ops.columns.values import OfLiveRows
from alance.ops.read.options import ScanOptions
from alance.ops.read.plan import plan_scan
from alance.ops.read.scan import scan
from alance.ops.write.sources import ArrowStream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from alance.format.schema import Schema
    from alance.ops.version.handle import FragmentHandle
    from alance.ops.version.snapshot import Snapshot
    from alance.udf import BatchUdf


@dataclass(slots=True)
class Computed(OfLiveRows):
    """Values of a function.

    Attributes:
        columns: those that it gets; None: all.
        output: names and types of the new columns.
    """

    udf: BatchUdf
    columns: Sequence[str] | None
    batch_size: int | None
    output: pa.Schema
    checkpoint: Checkpoint | None = None
    _limit: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._limit = asyncio.Semaphore(self.udf.concurrency)

    @classmethod
    async def of(
        cls,
        snapshot: Snapshot,
        udf: BatchUdf,
        columns: Sequence[str] | None,
        batch_size: int | None,
    ) -> Computed:
        """The values of a function; calls it with one row where it does not tell its schema.

        Raises:
            InvalidInputError: unknown columns; or no rows to find out the schema with.
        """
        made = cls(udf, columns, batch_size, udf.output_schema or pa.schema([]))
        if udf.output_schema is None:
            plan = await plan_scan(snapshot, columns, ScanOptions(limit=1))
            async with aclosing(scan(snapshot, plan)) as batches:
                sample = await anext(batches, None)
            if sample is None:
                raise InvalidInputError("new columns: the table has no rows, give output_schema")
            made.output = (await made._called(snapshot, sample)).schema
        if udf.checkpoint_file is not None:
            made.checkpoint = await Checkpoint.open(
                udf.checkpoint_file, snapshot, made.output, columns
            )
        return made

    def reads(self, schema: Schema) -> frozenset[int] | None:
        if self.columns is None:
            return frozenset(one.id for one in schema.walk())
        known = [name for name in self.columns if not name.startswith("_row")]
        return frozenset(one.id for one in schema.project(known).walk())

    async def batches(
        self, snapshot: Snapshot, handle: FragmentHandle, ahead_bytes: int
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        options = ScanOptions(
            batch_size=self.batch_size, fragments=[handle.id], io_buffer_bytes=ahead_bytes
        )
        plan = await plan_scan(snapshot, self.columns, options)
        pending: deque[asyncio.Task[pa.RecordBatch]] = deque()
        start = 0
        try:
            async with aclosing(scan(snapshot, plan)) as batches:
                async for batch in batches:
                    work = self._values(snapshot, handle, start, batch)
                    pending.append(asyncio.ensure_future(work))
                    start += batch.num_rows
                    if len(pending) >= self.udf.concurrency:
                        yield await pending.popleft()
            while pending:
                yield await pending.popleft()
        finally:
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    async def _values(
        self, snapshot: Snapshot, handle: FragmentHandle, start: int, batch: pa.RecordBatch
    ) -> pa.RecordBatch:
        source = ""
        if self.checkpoint is not None:
            source = rows_source(handle, self.reads(snapshot.schema))
            known = await self.checkpoint.find_batch(handle.id, source, start, batch.num_rows)
            if known is not None:
                return known
        try:
            async with self._limit:
                made = await self._called(snapshot, batch)
                made = await snapshot.engine.pool.run(partial(self._checked, made, batch.num_rows))
                # Before the next call begins: a crash loses no more than the calls under way.
                if self.checkpoint is not None:
                    await self.checkpoint.add_batch(handle.id, source, start, made)
            return made
        except AlanceError as error:
            error.add_note(f"in fragment {handle.id}")
            raise

    async def _called(self, snapshot: Snapshot, batch: pa.RecordBatch) -> pa.RecordBatch:
        made: Any
        if self.udf.is_async:
            made = await self.udf(batch)
        else:
            # Not in the session's pool, which decodes for others: this may take long.
            made = await asyncio.to_thread(self.udf, batch)
            if inspect.isawaitable(made):
                made = await made
        return _as_batch(made)

    def _checked(self, made: pa.RecordBatch, num_rows: int) -> pa.RecordBatch:
        """A result in the shape of the output; casts what casts without loss."""
        if made.num_rows != num_rows:
            raise InvalidInputError(
                f"new columns: the function gave {made.num_rows} rows for {num_rows}"
            )
        if made.schema.equals(self.output):
            return made
        if sorted(made.schema.names) != sorted(self.output.names):
            raise InvalidInputError(
                f"new columns: the function gave {', '.join(made.schema.names)}, expected "
                f"{', '.join(self.output.names)}"
            )
        arrays = []
        for one in self.output:
            array = made.column(one.name)
            try:
                arrays.append(array if array.type == one.type else array.cast(one.type))
            except pa.ArrowException as error:
                raise InvalidInputError(
                    f"column {one.name!r}: the function gave {array.type}, expected {one.type}: "
                    f"{error}"
                ) from error
        return pa.RecordBatch.from_arrays(arrays, schema=self.output)


def _as_batch(made: Any) -> pa.RecordBatch:
    """What a function gave as one batch: a RecordBatch, a Table, or a frame."""
    if isinstance(made, pa.RecordBatch):
        return made
    if isinstance(made, ArrowStream):
        table = pa.table(made).combine_chunks()
        arrays = [
            column.chunk(0) if column.num_chunks else pa.nulls(0, column.type)
            for column in table.columns
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=table.schema)
    raise InvalidInputError(
        f"new columns: the function gave {type(made).__name__}, expected a RecordBatch, Table or "
        "frame"
    )
