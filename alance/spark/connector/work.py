"""Work of a connector task, sent from the driver to an executor's Python."""

from __future__ import annotations

import pickle
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from alance.distributed import ROW_ADDRESS
from alance.spark.connector.keeping import marked
from alance.spark.reader import read_extreme_pieces, read_pieces
from alance.spark.types import converted

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from alance import ColumnOrdering
    from alance.distributed import ColumnsAcross, Piece
    from alance.spark.options import ReadOptions
    from alance.spark.versions import Version

COUNT_OP: Final = "COUNT"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A count, minimum or maximum over the rows of a task.

    Attributes:
        op: `COUNT_OP`, `MIN` or `MAX`.
        column: name of the column; None: count rows.
    """

    op: str
    column: str | None


@dataclass(frozen=True, slots=True)
class PartitionWork:
    """Rows of some fragments that a task reads, or aggregates of them.

    Attributes:
        schema: columns to read with Spark's types.
        columns: paths of the columns to read.
        flat: True if struct members are columns of their own; False: they stay inside their
            parents.
        aggregates: aggregates that the task returns instead of rows; None: rows.
        result: schema of the returned batches.
        marks: columns of blob descriptions that are replaced by marks of their rows; see `keeping`.
        across: matches the columns of the query to those of the version that is read; None if both
            have the same names.
        num_counted: number of rows that indices have counted; the task without pieces adds it.
        order: order of the rows; only the first `first` rows are returned. If `order` is empty, all
            rows are returned in the order of the table.
    """

    version: Version
    options: ReadOptions
    schema: pa.Schema
    columns: tuple[str, ...]
    flat: bool
    aggregates: tuple[Aggregate, ...] | None
    result: pa.Schema
    pieces: tuple[Piece, ...] = ()
    marks: tuple[str, ...] = ()
    order: tuple[ColumnOrdering, ...] = ()
    first: int | None = None
    across: ColumnsAcross | None = None
    num_counted: int = 0

    def dumps(self) -> bytes:
        """Pickle the part of the work that all tasks share."""
        return pickle.dumps(self)

    @staticmethod
    def loads(shared: bytes, pieces: bytes, cores: int = 1) -> PartitionWork:
        """Unpickle the work of one task, in a process that decodes for `cores` tasks at once."""
        work: PartitionWork = pickle.loads(shared)
        threads = max(cores, work.options.decode_threads)
        options = replace(work.options, decode_threads=threads)
        return replace(work, options=options, pieces=pickle.loads(pieces))

    async def batches(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the batches that the task returns to Spark."""
        if self.aggregates is None:
            rows = self._rows()
            async with aclosing(rows):
                async for batch in rows:
                    yield batch
        else:
            yield await self._aggregated(self.aggregates)

    async def _rows(self) -> AsyncGenerator[pa.RecordBatch, None]:
        names = self.columns or (ROW_ADDRESS,)
        options = replace(self.options, limit=self.first) if self.order else self.options
        batches = read_pieces(
            self.version, names, options, self.pieces, flat=self.flat, order_by=self.order
        )
        async with aclosing(batches):
            async for batch in batches:
                named = batch if self.across is None else self.across.rows(batch)
                rows = converted(named, self.schema) if self.columns else batch.select([])
                yield marked(rows, self.marks)

    async def _aggregated(self, aggregates: Sequence[Aggregate]) -> pa.RecordBatch:
        """Return one row of aggregates. Without a filter, statistics find the extreme values."""
        are_ends = [
            self.options.filter is None and aggregate.op != COUNT_OP for aggregate in aggregates
        ]
        counted = [] if self.pieces else [pa.scalar(self.num_counted, pa.int64())]
        values: list[list[pa.Scalar]] = [
            [*counted] if (aggregate.op, aggregate.column) == (COUNT_OP, None) else []
            for aggregate in aggregates
        ]
        for by_statistics in sorted(set(are_ends)):
            parts = [
                (aggregate, seen)
                for aggregate, seen, is_end in zip(aggregates, values, are_ends, strict=True)
                if is_end == by_statistics
            ]
            names = {aggregate.column for aggregate, _ in parts}
            schema = pa.schema([field for field in self.schema if field.name in names])
            work = replace(self, schema=schema, columns=tuple(schema.names))
            rows = work._extremes() if by_statistics else work._rows()
            async with aclosing(rows):
                async for batch in rows:
                    for aggregate, seen in parts:
                        seen.append(_of(aggregate, batch))
        columns = [
            _of_all(aggregate, seen, field.type)
            for aggregate, seen, field in zip(aggregates, values, self.result, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.result)

    async def _extremes(self) -> AsyncGenerator[pa.RecordBatch, None]:
        batches = read_extreme_pieces(self.version, self.columns, self.options, self.pieces)
        async with aclosing(batches):
            async for batch in batches:
                yield converted(batch, self.schema)


def _of(aggregate: Aggregate, batch: pa.RecordBatch) -> pa.Scalar:
    if aggregate.column is None:
        return pa.scalar(batch.num_rows, pa.int64())
    column = batch.column(aggregate.column)
    if aggregate.op == COUNT_OP:
        return pa.scalar(len(column) - column.null_count, pa.int64())
    return pc.min_max(column)[aggregate.op.lower()]


def _of_all(aggregate: Aggregate, values: list[pa.Scalar], kind: pa.DataType) -> pa.Array:
    parts = [pa.repeat(value, 1).cast(kind) for value in values]
    array = pa.concat_arrays([pa.array([], kind), *parts])
    if aggregate.op == COUNT_OP:
        return pa.array([pc.sum(array).as_py() or 0], kind)
    return pa.repeat(pc.min_max(array)[aggregate.op.lower()], 1)
