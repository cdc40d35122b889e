"""Input for new columns, and the sources of their values."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import pyarrow as pa

from alance.base.checks import check_text
from alance.base.records import dataclass
from alance.errors import AlanceError, CommitConflictError, InvalidInputError
from alance.expr import computed_from_arrow, is_nullable, parse_projection
from alance.file.batches import empty_batch, fixed_bytes
from alance.ops.columns.checkpoint import Checkpoint
from alance.ops.read.groups import file_bytes
from alance.ops.read.options import ScanOptions
from alance.ops.read.rows import ScanPlan
from alance.ops.read.scan import scan, scanned
from alance.ops.version.projection import Output, Projection
from alance.ops.write.sources import ArrowStream, open_source
from alance.udf import BatchUdf

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    import pyarrow.compute as pc

    from alance.format.schema import Schema
    from alance.ops.version.handle import FragmentHandle
    from alance.ops.version.snapshot import Snapshot
    from alance.ops.write.sources import Data


class NewValues(Protocol):
    """Protocol of a source of the values of new columns."""

    @property
    def is_physical(self) -> bool:
        """True if batches include the deleted rows."""

    @property
    def in_order(self) -> bool:
        """True if fragments must be read one after another, in the table's order."""

    def batches(
        self, snapshot: Snapshot, handle: FragmentHandle, ahead_bytes: int
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the new columns of the live rows of a fragment, or of all rows if `is_physical`.

        Args:
            ahead_bytes: maximum bytes that are read ahead.
        """

    @property
    def is_grouped(self) -> bool:
        """True if the values of small fragments are read together, and are in memory at once."""

    def grouped(
        self, snapshot: Snapshot, handles: Sequence[FragmentHandle], ahead_bytes: int
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the new columns of consecutive fragments, as `batches` for each of them."""

    async def end(self, snapshot: Snapshot) -> None:
        """Check that no values remain after all fragments were read."""

    def reads(self, schema: Schema) -> frozenset[int] | None:
        """Return the ids of the fields on which the values depend; None for all fields."""


def source_of(handle: FragmentHandle, reads: frozenset[int] | None) -> str:
    """Return a text that identifies the files from which a fragment's values are computed."""
    fragment = handle.fragment
    files = [
        f"{file.path}@{file.base_id}"
        for file in fragment.files
        if reads is None or not reads.isdisjoint(file.columns)
    ]
    return "|".join([str(handle.num_physical_rows), *files])


def rows_source(handle: FragmentHandle, reads: frozenset[int] | None) -> str:
    """Return a text that identifies a fragment's live rows: `source_of` and the deletion file."""
    file = handle.fragment.deletion_file
    deleted = "" if file is None else file.name(handle.id)
    return f"{source_of(handle, reads)}|{deleted}"


class OfLiveRows:
    """Base class of sources; by default, of live rows, of one fragment at a time, in any order.

    A subclass defines `batches` or `grouped`.
    """

    __slots__ = ()

    @property
    def is_physical(self) -> bool:
        return False

    @property
    def in_order(self) -> bool:
        return False

    @property
    def is_grouped(self) -> bool:
        return False

    def batches(
        self, snapshot: Snapshot, handle: FragmentHandle, ahead_bytes: int
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        return self.grouped(snapshot, [handle], ahead_bytes)

    async def grouped(
        self, snapshot: Snapshot, handles: Sequence[FragmentHandle], ahead_bytes: int
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        for handle in handles:
            async with aclosing(self.batches(snapshot, handle, ahead_bytes)) as batches:
                async for batch in batches:
                    yield batch

    async def end(self, snapshot: Snapshot) -> None:
        pass


def are_of_fixed_width(columns: pa.Schema) -> bool:
    """Return True if the rows of all columns have a known size: only these are grouped."""
    return all(fixed_bytes(column.type) for column in columns)


Transforms: TypeAlias = (
    "Mapping[str, str | pc.Expression] | BatchUdf | Callable[[pa.RecordBatch], object] | Data "
    "| pa.Field | Sequence[pa.Field] | pa.Schema"
)


@dataclass(slots=True)
class NewColumns:
    """New columns that a caller has passed.

    Attributes:
        values: source of the values; None for columns of nulls.
        fixed: names and types of the columns; None if they depend on the version's schema.
        checkpoint: checkpoint of a caller's function; None if there is none.
    """

    values: NewValues | None
    fixed: pa.Schema | None = None
    checkpoint: Checkpoint | None = None

    async def schema(self, snapshot: Snapshot) -> pa.Schema:
        """Return the schema of the new columns, for a version."""
        if self.fixed is not None:
            return self.fixed
        values = self.values
        assert isinstance(values, Expressions)
        return await snapshot.engine.pool.run(lambda: values.schema(snapshot.schema))

    def required_values(self) -> NewValues:
        """Return the source of the values.

        Raises:
            InvalidInputError: the columns have no values.
        """
        if self.values is None:
            raise InvalidInputError("replace_columns: fields without values")
        return self.values


async def opened(
    snapshot: Snapshot,
    transforms: Transforms,
    read_columns: Sequence[str] | None,
    batch_size: int | None,
) -> NewColumns:
    """Check a caller's input for new columns, and open its source.

    Raises:
        InvalidInputError: the input has none of the accepted types, or is invalid.
    """
    nulls = _fields(transforms)
    if read_columns is not None and (nulls is not None or not callable(transforms)):
        raise InvalidInputError("read_columns: only of a function; others tell what they read")
    if nulls is not None:
        return _all_null(nulls)
    if isinstance(transforms, Mapping):
        return NewColumns(Expressions(dict(transforms), batch_size))
    if callable(transforms):
        udf = transforms if isinstance(transforms, BatchUdf) else BatchUdf(transforms)
        values = await ComputedColumn.of(snapshot, udf, read_columns, batch_size)
        return NewColumns(values, values.output, values.checkpoint)
    source = await open_source(transforms, None, snapshot.engine.pool)
    return NewColumns(Stream(source.batches, source.schema), source.schema)


def _fields(transforms: Any) -> pa.Schema | None:
    if isinstance(transforms, pa.Schema):
        return transforms
    if isinstance(transforms, pa.Field):
        return pa.schema([transforms])
    is_list = isinstance(transforms, list | tuple) and bool(transforms)
    if is_list and all(isinstance(item, pa.Field) for item in transforms):
        return pa.schema(transforms)
    return None


def _all_null(arrow: pa.Schema) -> NewColumns:
    """Return new columns of nulls.

    Raises:
        InvalidInputError: a column is not nullable.
    """
    for arrow_field in arrow:
        if not arrow_field.nullable:
            raise InvalidInputError(
                f"column {arrow_field.name!r}: not nullable, and it has no values"
            )
    return NewColumns(None, arrow)


@dataclass(slots=True)
class Stream(OfLiveRows):
    """Values from a stream of batches: one value for each live row of the table, in order."""

    source: AsyncIterator[pa.RecordBatch]
    columns: pa.Schema
    _rest: pa.RecordBatch | None = field(default=None, init=False)
    _is_ended: bool = field(default=False, init=False)
    num_rows: int = field(default=0, init=False)

    @property
    def in_order(self) -> bool:
        return True

    @property
    def is_grouped(self) -> bool:
        return are_of_fixed_width(self.columns)

    def reads(self, schema: Schema) -> frozenset[int]:
        return frozenset()

    async def batches(
        self, snapshot: Snapshot, handle: FragmentHandle, ahead_bytes: int
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        num_missing = await snapshot.live_count(handle)
        if self._is_ended and num_missing:
            raise CommitConflictError(
                f"new columns: fragment {handle.id} was made by others meanwhile, and the data "
                f"has no values for its rows; add the columns again to the latest version"
            )
        while num_missing:
            batch = self._rest
            self._rest = None
            if batch is None:
                batch = await anext(self.source, None)
            if batch is None:
                raise InvalidInputError(
                    f"new columns: the data ends after {self.num_rows} rows, fragment {handle.id} "
                    f"has {num_missing} more"
                )
            part = batch.slice(0, num_missing)
            if part.num_rows < batch.num_rows:
                self._rest = batch.slice(num_missing)
            num_missing -= part.num_rows
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


WHOLE_FILE_BYTES: Final = 128 << 10  # bytes; up to this size, reading a whole local file is faster


def whole_if_small(snapshot: Snapshot, plan: ScanPlan) -> ScanPlan:
    """Let a scan of several fragments read whole files if they are small, local ones."""
    if len(plan.handles) == 1 or snapshot.is_remote:
        return plan
    is_small = sum(map(file_bytes, plan.handles)) <= WHOLE_FILE_BYTES * len(plan.handles)
    return replace(plan, reads_files_whole=is_small)


@dataclass(slots=True)
class Expressions(OfLiveRows):
    """Values of expressions.

    Attributes:
        texts: SQL text or a pyarrow expression for each new column.
        batch_size: maximum number of rows computed at once; None: a size that suits the pages.
    """

    texts: Mapping[str, str | pc.Expression]
    batch_size: int | None = None
    _parsed: tuple[Schema, Projection] | None = field(default=None, init=False)

    @property
    def is_grouped(self) -> bool:
        return True

    def projection(self, schema: Schema) -> Projection:
        """Return the projection of the new columns; parsed once for each schema.

        Raises:
            InvalidInputError: SQL or a name is invalid, or a column is unknown.
            UnsupportedError: the SQL is valid, but alance does not evaluate it.
        """
        parsed = self._parsed
        if parsed is not None and parsed[0] is schema:
            return parsed[1]
        arrow = schema.to_arrow()
        outputs = []
        for name, text in self.texts.items():
            if not isinstance(name, str):
                raise InvalidInputError(f"new column {name!r}: expected a name")
            check_text("column", name)
            try:
                if isinstance(text, str):
                    computed = parse_projection(text, arrow)
                else:
                    computed = computed_from_arrow(text, arrow)
            except AlanceError as error:
                error.add_note(f"in new column {name!r}")
                raise
            outputs.append(Output(name, computed=computed))
        fields = [name for output in outputs if output.computed for name in output.computed.columns]
        projection = Projection(tuple(dict.fromkeys(fields)), tuple(outputs), frozenset())
        self._parsed = schema, projection
        return projection

    def schema(self, schema: Schema) -> pa.Schema:
        """Return the schema of the new columns.

        Raises:
            InvalidInputError: SQL or a name is invalid, or a column is unknown.
            UnsupportedError: the SQL is valid, but alance does not evaluate it.
        """
        projection = self.projection(schema)
        arrow = schema.project(projection.fields).to_arrow()
        computed = projection.apply(empty_batch(arrow)).schema
        return pa.schema(
            [
                column.with_nullable(output.computed is None or is_nullable(output.computed, arrow))
                for column, output in zip(computed, projection.outputs, strict=True)
            ]
        )

    def reads(self, schema: Schema) -> frozenset[int]:
        paths = self.projection(schema).fields
        return frozenset(below.id for below in schema.project(paths).walk())

    def grouped(
        self, snapshot: Snapshot, handles: Sequence[FragmentHandle], ahead_bytes: int
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        projection = self.projection(snapshot.schema)
        read = snapshot.schema.project(projection.fields)
        options = ScanOptions(batch_size=self.batch_size, io_buffer_bytes=ahead_bytes)
        plan = ScanPlan(options, projection, None, read, None, handles, {}, frozenset())
        return scan(snapshot, whole_if_small(snapshot, plan))


@dataclass(slots=True)
class ComputedColumn(OfLiveRows):
    """Values computed by a caller's function.

    Attributes:
        columns: columns that are passed to the function; None for all.
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
    ) -> ComputedColumn:
        """Prepare a function; call it with one row if it has no `output_schema`.

        Raises:
            InvalidInputError: a column is unknown; or the schema cannot be determined, because the
                table has no rows.
        """
        values = cls(udf, columns, batch_size, udf.output_schema or pa.schema([]))
        if udf.output_schema is None:
            async with aclosing(scanned(snapshot, columns, ScanOptions(limit=1))) as batches:
                sample = await anext(batches, None)
            if sample is None:
                raise InvalidInputError("new columns: the table has no rows, give output_schema")
            values.output = (await values._called(snapshot, sample)).schema
        if udf.checkpoint_file is not None:
            values.checkpoint = await Checkpoint.open(
                udf.checkpoint_file, snapshot, values.output, columns
            )
        return values

    def reads(self, schema: Schema) -> frozenset[int] | None:
        if self.columns is None:
            return frozenset(below.id for below in schema.walk())
        stored = [name for name in self.columns if not name.startswith("_row")]
        return frozenset(below.id for below in schema.project(stored).walk())

    async def batches(
        self, snapshot: Snapshot, handle: FragmentHandle, ahead_bytes: int
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        options = ScanOptions(
            batch_size=self.batch_size, fragments=[handle.id], io_buffer_bytes=ahead_bytes
        )
        pending: deque[asyncio.Task[pa.RecordBatch]] = deque()
        start = 0
        try:
            async with aclosing(scanned(snapshot, self.columns, options)) as batches:
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
            stored = await self.checkpoint.find_batch(handle.id, source, start, batch.num_rows)
            if stored is not None:
                return stored
        try:
            async with self._limit:
                result = await self._called(snapshot, batch)
                result = await snapshot.engine.pool.run(
                    partial(self._checked, result, batch.num_rows)
                )
                # Stored before the next call begins, so that a crash loses only the running calls.
                if self.checkpoint is not None:
                    await self.checkpoint.add_batch(handle.id, source, start, result)
            return result
        except AlanceError as error:
            error.add_note(f"in fragment {handle.id}")
            raise

    async def _called(self, snapshot: Snapshot, batch: pa.RecordBatch) -> pa.RecordBatch:
        result: Any
        if self.udf.is_async:
            result = await self.udf(batch)
        else:
            # Not in the session's decode pool, because the call may take long.
            result = await asyncio.to_thread(self.udf, batch)
            if inspect.isawaitable(result):
                result = await result
        return _as_batch(result)

    def _checked(self, result: pa.RecordBatch, num_rows: int) -> pa.RecordBatch:
        """Check a result, and cast it without loss to the output schema."""
        if result.num_rows != num_rows:
            raise InvalidInputError(
                f"new columns: the function gave {result.num_rows} rows for {num_rows}"
            )
        if result.schema.equals(self.output):
            return result
        if sorted(result.schema.names) != sorted(self.output.names):
            raise InvalidInputError(
                f"new columns: the function gave {', '.join(result.schema.names)}, expected "
                f"{', '.join(self.output.names)}"
            )
        arrays = []
        for column in self.output:
            array = result.column(column.name)
            try:
                arrays.append(array if array.type == column.type else array.cast(column.type))
            except pa.ArrowException as error:
                raise InvalidInputError(
                    f"column {column.name!r}: the function gave {array.type}, expected "
                    f"{column.type}: {error}"
                ) from error
        return pa.RecordBatch.from_arrays(arrays, schema=self.output)


def _as_batch(result: Any) -> pa.RecordBatch:
    """Convert the result of a function (a RecordBatch, Table or frame) to one batch."""
    if isinstance(result, pa.RecordBatch):
        return result
    if isinstance(result, ArrowStream):
        table = pa.table(result).combine_chunks()
        arrays = [
            column.chunk(0) if column.num_chunks else pa.nulls(0, column.type)
            for column in table.columns
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=table.schema)
    raise InvalidInputError(
        f"new columns: the function gave {type(result).__name__}, expected a RecordBatch, Table or "
        "frame"
    )
