"""User data as a stream of Arrow batches.

Blocking sources (readers, iterators, pyarrow datasets) are read in a thread, one batch or up to 1
MB of small batches at a time, and only after earlier batches have been consumed.
"""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
import pyarrow as pa

from alance.base.checks import await_hint, did_you_mean, some_columns
from alance.base.deferred import Deferred
from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.file.write.small_batches import SmallBatches
from alance.format.schema import check_not_reserved
from alance.ops.blobs.arrow import blob_values, has_blobs
from alance.ops.write.annotations import annotated_type, has_nulls_alone

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from alance.io.reading.pool import DecodePool
    from alance.ops.write import refusals
else:
    refusals = Deferred("alance.ops.write.refusals")


@runtime_checkable
class ArrowStream(Protocol):
    """Protocol of objects with the Arrow stream interface, as of pandas, polars and DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


@runtime_checkable
class Scan(Protocol):
    """Protocol of a scanner of alance."""

    @property
    def projected_schema(self) -> pa.Schema: ...
    def to_batches(self) -> AsyncIterator[pa.RecordBatch]: ...


@runtime_checkable
class Scanned(Protocol):
    """Protocol of a dataset of alance."""

    @property
    def schema(self) -> pa.Schema: ...
    def scanner(self, *, blob_handling: Literal["all_binary"]) -> Scan: ...


@runtime_checkable
class Formatted(Protocol):
    """Protocol of a Dataset or IterableDataset of Hugging Face's `datasets`."""

    @property
    def features(self) -> Any: ...
    def with_format(self, type: str) -> Any: ...
    def iter(self, batch_size: int) -> Iterator[Any]: ...


@runtime_checkable
class PandasFrame(Protocol):
    """Protocol of a pandas frame: a mapping of columns."""

    @property
    def columns(self) -> Any: ...
    def items(self) -> Iterator[tuple[Any, Any]]: ...


@runtime_checkable
class Model(Protocol):
    """Protocol of a row that is a pydantic model."""

    def model_dump(self) -> dict[str, Any]: ...


Rows: TypeAlias = "pa.Table | pa.RecordBatch"
Row: TypeAlias = "Mapping[str, Any] | Model"
Data: TypeAlias = (
    "Rows | ArrowStream | Scan | Scanned | Formatted | Sequence[Row] | Mapping[str, Any] | "
    "Iterable[Rows] | AsyncIterable[Rows]"
)

CUT_COLUMNS: Final = 256  # maximum columns of a table that the event loop cuts into batches
ACCEPTED: Final = (
    "a Table, RecordBatch, RecordBatchReader, Dataset or Scanner of alance or pyarrow, Dataset of "
    "Hugging Face, pandas or polars frame, a list of dicts or pydantic models, a dict of lists or "
    "arrays, or an iterable or async iterable of Tables or RecordBatches"
)
_SCALARS: Final = (str, bytes, int, float, datetime.date, type(None))
# Column names under which lists of Python floats become vectors if no schema gives their type.
VECTOR_COLUMNS: Final = ("vector", "embedding")
_END_OF_BATCHES: Final = object()
FORMATTED_ROWS: Final = 1024  # rows per batch from Hugging Face's datasets
COLLECTION_S: Final = 0.02  # seconds that a thread collects small batches


@dataclass(frozen=True, slots=True)
class RowSource:
    """Rows to write.

    Attributes:
        schema: schema of all batches.
        batches: the rows.
        num_rows: number of rows; None: unknown until the end.
    """

    schema: pa.Schema
    batches: AsyncIterator[pa.RecordBatch]
    num_rows: int | None = None


def check_schema(schema: object) -> None:
    """Check a `schema` argument.

    Raises:
        InvalidInputError: the argument is neither an Arrow schema nor None.
    """
    if isinstance(schema, pa.Schema | None):
        return
    hint = ""
    if hasattr(schema, "to_arrow_schema"):  # a model of LanceDB
        hint = f"; write `{getattr(schema, '__name__', 'schema')}.to_arrow_schema()`"
    elif hasattr(schema, "model_fields"):
        hint = "; rows that are models have their own types: leave `schema` out"
    elif hasattr(schema, "schema"):
        hint = "; write `schema=data.schema`"
    elif isinstance(schema, Mapping | list | tuple):
        hint = "; write `pyarrow.schema(...)` around it"
    raise InvalidInputError(f"schema: expected a pyarrow.Schema, not {type(schema).__name__}{hint}")


async def open_source(
    data: Data, schema: pa.Schema | None, pool: DecodePool, logged: set[str] | None = None
) -> RowSource:
    """Open data as a stream of batches. Reads the first batch of an iterable without a schema.

    Args:
        schema: schema to which batches are cast; None: that of the data. Required for an empty
            iterable.
        logged: columns whose conversion from lists to vectors is not logged again; other converted
            columns are logged and added. None: no column was logged before.

    Raises:
        InvalidInputError: the data is of an unknown kind, is an empty iterable without a schema, or
            has a batch that does not fit the schema.
    """
    check_schema(schema)
    logged = set() if logged is None else logged
    # A class has the methods of its instances, so it would match a protocol.
    if isinstance(data, type):
        raise _refused(data)
    num_rows = data.num_rows if isinstance(data, pa.Table | pa.RecordBatch) else None
    is_arrow = num_rows is not None  # the checks for other kinds take long
    if not is_arrow and _is_python(data):
        data = table = await pool.run(partial(_table_of, data, schema, logged))
        num_rows = table.num_rows
    elif not is_arrow and isinstance(data, Scanned) and not _is_pyarrow_dataset(data):
        schema = schema or data.schema  # blobs are blobs in this schema, not bytes
        data = data.scanner(blob_handling="all_binary")
    if isinstance(data, pa.Table) and data.num_columns > CUT_COLUMNS:
        own, batches = await pool.run(partial(_opened, data, logged))
    else:
        own, batches = _opened(data, logged)
    if isinstance(batches, AsyncIterable):
        stream = _from_async(batches)
    else:
        stream = _in_threads(batches, pool)
    if own is None:
        first = await anext(stream, None)
        if isinstance(data, Scan):
            own = data.projected_schema
        elif first is not None:
            own = first.schema
        elif schema is None:
            raise InvalidInputError("no batches: an empty iterable needs `schema`")
        if first is not None:
            stream = _chained(first, stream)
    return RowSource(schema or own, _conforming(stream, schema or own), num_rows)


def _is_python(data: object) -> bool:
    """True for rows or columns of Python values."""
    if isinstance(data, list | tuple):
        return bool(data) and isinstance(data[0], Mapping | Model)
    return isinstance(data, Mapping)


def _table_of(data: Any, schema: pa.Schema | None, logged: set[str]) -> pa.Table:
    """Build a table of Python values; columns in the schema get its types.

    Raises:
        InvalidInputError: values do not form a column, or rows are of several kinds.
    """
    models: list[type] = []
    if isinstance(data, Mapping):
        columns = dict(data)
    else:
        models = list(dict.fromkeys(type(row) for row in data if isinstance(row, Model)))
        rows = [row.model_dump() if isinstance(row, Model) else row for row in data]
        strange = next((row for row in rows if not isinstance(row, Mapping)), None)
        if strange is not None:
            raise InvalidInputError(f"a list of rows with {type(strange).__name__}: expected dicts")
        # A row may lack names: missing values are null.
        names = dict.fromkeys(name for row in rows for name in row)
        columns = {name: [row.get(name) for row in rows] for name in names}
    arrays = [_column(name, values, schema, logged, models) for name, values in columns.items()]
    try:
        return pa.table(arrays, names=list(columns))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidInputError(f"a dict of columns: {error}") from error


def _column(
    name: object,
    values: Any,
    schema: pa.Schema | None,
    logged: set[str],
    models: Sequence[type] = (),
) -> pa.Array:
    """Build a column from values.

    Args:
        schema: the type is that of the field with this name, if there is one.
        models: pydantic models of the rows, which determine the type if all values are null.
    """
    if not isinstance(name, str):
        raise InvalidInputError(f"column {name!r}: expected a name")
    if not isinstance(values, list) and isinstance(values, Formatted):  # a split of a DatasetDict
        raise InvalidInputError(f"column {name!r}: a dataset; write each split by itself")
    if isinstance(values, pa.DataType):
        raise InvalidInputError(f"column {name!r}: got a type; types are pyarrow.schema(data)")
    if isinstance(values, _SCALARS):
        raise InvalidInputError(
            f"column {name!r}: got {type(values).__name__}, expected a list or array of the "
            "column's values; a row is an item of a list, [row]"
        )
    index = -1 if schema is None else schema.get_field_index(name)
    type_ = None if schema is None or index < 0 else schema.field(index).type
    try:
        if isinstance(values, pa.Array | pa.ChunkedArray):
            return values
        if schema is not None and index >= 0 and has_blobs(schema.field(index)):
            return blob_values(values, schema.field(index))
        if isinstance(values, np.ndarray) and values.ndim > 1:
            from alance.ops.write.vector_columns import vectors

            return vectors(values, type_)
        array = pa.array(values, type_)
        if type_ is not None and isinstance(values, list | tuple):
            refusals.check_lossless(values, type_)
        if type_ is None and name in VECTOR_COLUMNS:
            from alance.ops.write.vector_columns import as_vectors

            array = as_vectors(name, array, logged)
        if models and type_ is None and has_nulls_alone(array.type):
            return pa.array(values, annotated_type(models, name) or array.type)
        return array
    except refusals.ARROW_REFUSALS as error:
        row = "" if isinstance(error, InvalidInputError) else refusals.first_refused(values, type_)
        raise InvalidInputError(f"column {name!r}{row}: {refusals.plain(error, type_)}") from error


def _opened(
    data: Data,
    logged: set[str],
) -> tuple[pa.Schema | None, Iterator[Rows] | AsyncIterable[Rows]]:
    """Return the schema (None if unknown) and the iterator of batches."""
    if isinstance(data, pa.RecordBatch):
        return data.schema, _at_hand([data])
    if isinstance(data, pa.Table):
        return data.schema, _at_hand(data.to_batches())
    if isinstance(data, pa.RecordBatchReader):
        return data.schema, iter(data)
    if _is_pyarrow_dataset(data):
        scanner: Any = data
        return _schema_of(scanner), iter(scanner.to_batches())
    if isinstance(data, AsyncIterable):
        return None, data
    if isinstance(data, Formatted):
        schema = None if data.features is None else data.features.arrow_schema
        return schema, data.with_format("arrow").iter(FORMATTED_ROWS)
    if isinstance(data, ArrowStream):
        try:
            reader = pa.RecordBatchReader.from_stream(data)
        except (pa.ArrowException, ValueError) as error:
            if isinstance(data, PandasFrame):
                raise _refused_column(data, error) from error
            raise _refused(data) from error  # a Series or ChunkedArray streams values, not rows
        if isinstance(data, PandasFrame):
            return _of_frame(reader, logged)
        return reader.schema, iter(reader)
    if isinstance(data, Scan):
        # its first batch loads modules that parsing its schema may need
        return None, data.to_batches()
    if isinstance(data, Iterable) and not isinstance(data, Mapping | str | bytes):
        return None, iter(data)
    raise _refused(data)


def _refused(data: object) -> InvalidInputError:
    what = f"{data.__name__}, a class" if isinstance(data, type) else f"type {type(data).__name__}"
    hint = await_hint(data)
    if isinstance(data, str | os.PathLike):
        hint = "; a path is no data: read the file first, as by `pyarrow.dataset.dataset(path)`"
    elif hasattr(data, "collect"):
        hint = "; write `data.collect()`"
    return InvalidInputError(f"data of {what}: expected {ACCEPTED}{hint}")


def _of_frame(reader: pa.RecordBatchReader, logged: set[str]) -> tuple[pa.Schema, Iterator[Rows]]:
    """Return schema and rows of a pandas frame, whose lists of floats may be vectors."""
    table = reader.read_all()
    for place, name in enumerate(table.column_names):
        column = table.column(place)
        if name in VECTOR_COLUMNS and column.num_chunks == 1:
            from alance.ops.write.vector_columns import as_vectors

            table = table.set_column(place, name, as_vectors(name, column.chunk(0), logged))
    return table.schema, iter(table.to_batches())


def _refused_column(frame: PandasFrame, cause: Exception) -> InvalidInputError:
    """Return the error for a frame with a column that Arrow cannot convert."""
    names = list(frame.columns)
    for name in names:
        if names.count(name) > 1:
            return InvalidInputError(f"column {name!r}: the data has it twice")
    for name, column in frame.items():
        values = column.to_numpy()
        try:
            pa.array(values, from_pandas=True)
        except refusals.ARROW_REFUSALS as error:
            return InvalidInputError(f"column {name!r}{refusals.first_refused(values)}: {error}")
    return InvalidInputError(f"data of type {type(frame).__name__}: {cause}")


def _is_pyarrow_dataset(data: object) -> bool:
    """True for a pyarrow Dataset or Scanner, without importing `pyarrow.dataset`."""
    return type(data).__module__ == "pyarrow._dataset" or any(
        base.__module__ == "pyarrow._dataset" for base in type(data).__mro__
    )


def _schema_of(data: Any) -> pa.Schema:
    return getattr(data, "projected_schema", None) or data.schema


async def _at_hand(batches: Sequence[pa.RecordBatch]) -> AsyncIterator[pa.RecordBatch]:
    for batch in batches:
        yield batch


async def _in_threads(batches: Iterator[Rows], pool: DecodePool) -> AsyncIterator[pa.RecordBatch]:
    while True:
        batches_read, end = await pool.run(partial(_next_of, batches))
        for batch in batches_read:
            yield batch
        if isinstance(end, Exception):
            raise end
        if end is _END_OF_BATCHES:
            return


def _next_of(batches: Iterator[Rows]) -> tuple[list[pa.RecordBatch], object]:
    """Return the next batch, or up to 1 MB of small batches, and the end or error that followed."""
    taken: list[pa.RecordBatch] = []
    waiting = SmallBatches()
    until = time.monotonic() + COLLECTION_S
    while not waiting.are_enough:
        try:
            rows: object = next(batches, _END_OF_BATCHES)
            if rows is _END_OF_BATCHES:
                return taken, _END_OF_BATCHES
            parts = _batches_of(rows)
        except Exception as error:
            return taken, error
        taken += parts
        for batch in parts:
            waiting.add(batch)
        if time.monotonic() > until:
            break
    return taken, None


async def _from_async(data: AsyncIterable[Rows]) -> AsyncIterator[pa.RecordBatch]:
    async for rows in data:
        for batch in _batches_of(rows):
            yield batch


def _batches_of(rows: object) -> list[pa.RecordBatch]:
    if isinstance(rows, pa.RecordBatch):
        return [rows]
    if isinstance(rows, pa.Table):
        return rows.to_batches() or [
            pa.RecordBatch.from_arrays(
                [pa.nulls(0, field.type) for field in rows.schema], schema=rows.schema
            )
        ]
    hint = ""
    if isinstance(rows, Mapping):
        hint = "; a list of dicts is accepted"
    elif isinstance(rows, tuple | list):
        hint = "; write [dict(zip(names, row)) for row in rows]"
    elif is_dataclass(rows):
        hint = "; write [dataclasses.asdict(row) for row in rows]"
    elif isinstance(rows, np.ndarray | np.generic | pa.Scalar | int | float):
        hint = "; an array is a column: write {'name': array}"
    raise InvalidInputError(
        f"data: an iterable of {type(rows).__name__}: expected dicts, Tables or RecordBatches{hint}"
    )


async def _chained(
    first: pa.RecordBatch, rest: AsyncIterator[pa.RecordBatch]
) -> AsyncIterator[pa.RecordBatch]:
    yield first
    async for batch in rest:
        yield batch


async def _conforming(
    batches: AsyncIterator[pa.RecordBatch], schema: pa.Schema
) -> AsyncIterator[pa.RecordBatch]:
    """Yield the batches with the columns of a schema, in the schema's order."""
    async for batch in batches:
        yield conform(batch, schema)


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the columns of a schema, in the schema's order.

    Missing nullable columns become null.

    Args:
        batch: the rows.
        schema: schema of the result.

    Raises:
        InvalidInputError: there are too many or too few columns, or a type cannot be cast without
            loss.
    """
    if batch.schema.equals(schema):
        return batch
    names = batch.schema.names
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInputError(f"column {twice!r}: the data has it twice")
    extra = [name for name in names if schema.get_field_index(name) < 0]
    if extra:
        check_not_reserved(extra)
        raise InvalidInputError(
            f"column {extra[0]!r}: not among the columns of the table, "
            f"{some_columns(schema.names)}{did_you_mean(extra[0], schema.names)}"
            + "; it is the index of a pandas frame, which `frame.reset_index(drop=True)` and "
            "`pa.Table.from_pandas(frame, preserve_index=False)` drop"
            * extra[0].startswith("__index_level_")
        )
    arrays = []
    for field in schema:
        index = batch.schema.get_field_index(field.name)
        if index < 0:
            if not field.nullable:
                raise InvalidInputError(f"column {field.name!r}: missing, and it is not nullable")
            arrays.append(pa.nulls(batch.num_rows, field.type))
            continue
        arrays.append(_cast(batch.column(index), field))
    if any(array.type != field.type for array, field in zip(arrays, schema, strict=True)):
        pairs = zip(arrays, schema, strict=True)
        schema = pa.schema([field.with_type(array.type) for array, field in pairs])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(array: pa.Array, field: pa.Field) -> pa.Array:
    if array.type == field.type or has_blobs(field):
        return array  # the writer checks the different types of blobs
    if _is_hollow(array):
        # Values from a stream may have no buffer at all, so that a cast to vectors would crash.
        array = pa.concat_arrays([array, array[:0]])
    try:
        return array.cast(field.type)
    except pa.ArrowException as error:
        raise InvalidInputError(
            f"column {field.name!r}: the data has {array.type}, the table {field.type}: {error}"
        ) from error


def _is_hollow(array: pa.Array) -> bool:
    """True if an array contains lists, but no values in them."""
    if isinstance(array, pa.StructArray):
        return any(_is_hollow(array.field(number)) for number in range(array.type.num_fields))
    if not isinstance(array, pa.ListArray | pa.LargeListArray) or not len(array):
        return False
    return not len(array.values) or _is_hollow(array.values)
