"""Scans in a requested order, by `order_by`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from alance.base.deferred import Deferred
from alance.errors import InvalidInputError
from alance.file.batches import empty_batch
from alance.format.numbers import as_numbers
from alance.format.paths import join_path
from alance.ops.read.options import orderings_of
from alance.ops.read.plan import projection_of
from alance.ops.read.scan import scanned
from alance.ops.read.take import flat_rows
from alance.ops.version.first_use import parsed
from alance.ops.version.projection import META, ROW_ADDRESS, plain_names

if TYPE_CHECKING:
    from alance.ops.read import sorting
    from alance.ops.read.options import ScanOptions
    from alance.ops.read.rows import ChosenRows
    from alance.ops.version.projection import Columns, Projection
    from alance.ops.version.snapshot import Snapshot
else:
    sorting = Deferred("alance.ops.read.sorting")

# Rows; above this limit, a scan of all columns is cheaper than a take.
LATE_ROWS: Final = 128 << 10


def output_schema(snapshot: Snapshot, columns: Columns, options: ScanOptions) -> pa.Schema:
    """Return the Arrow schema of a scan's batches."""

    def make() -> pa.Schema:
        return schema_of(snapshot, projection_of(snapshot, columns, options))

    names = plain_names(columns)
    if columns is not None and names is None:
        return make()
    key = (output_schema, names, options.with_row_id, options.with_row_address)
    return snapshot.schema.remember(key, make)


def schema_of(snapshot: Snapshot, projection: Projection) -> pa.Schema:
    """Return the Arrow schema of batches with a projection."""
    fields = [field.to_arrow() for field in snapshot.schema.project(projection.fields).fields]
    fields += [pa.field(name, pa.uint64()) for name in projection.meta]
    schema = projection.apply(empty_batch(pa.schema(fields))).schema
    return schema.with_metadata(snapshot.schema.known_arrow().metadata)


async def sorted_table(
    snapshot: Snapshot,
    columns: Columns,
    options: ScanOptions,
    rows: ChosenRows | None = None,
) -> pa.Table:
    """Return all rows of a scan, sorted by `order_by`, and then cut by offset and limit.

    Cost: with a limit of up to `LATE_ROWS` rows, a scan of the sort columns, and a take of the
    other columns of the returned rows; otherwise, a scan of all columns.

    Memory: without a limit, all rows. With a limit, twice as many rows, but at least 64 Ki rows; if
    the limit is at most `LATE_ROWS`, only the sort columns of these rows.

    Args:
        rows: physical rows to scan; None: all rows.

    Raises:
        InvalidInputError: a sort column is neither in the table nor in the output.
        UnsupportedError: the values of a sort column have no order.
    """
    unsorted = unsorted_options(options)

    def make() -> tuple[Projection, pa.Schema, Columns, pa.Schema]:
        projection = projection_of(snapshot, columns, options)
        schema = output_schema(snapshot, columns, options)
        needed = scanned_columns(snapshot, columns, options)
        return projection, schema, needed, output_schema(snapshot, needed, unsorted)

    projection, schema, needed, of_scan = await parsed(snapshot, columns, make)
    stop = None if options.limit is None else options.limit + (options.offset or 0)
    await snapshot.engine.pool.load(sorting)
    first = sorting.FirstRows(of_scan, orderings_of(options.order_by), stop)
    run = snapshot.engine.pool.run
    async with aclosing(scanned(snapshot, needed, unsorted, rows=rows)) as batches:
        async for batch in batches:
            await run(partial(first.add, batch))
    offset = options.offset or 0
    if not takes_others(options):

        def finish() -> pa.Table:
            table = first.result().slice(offset)
            return table.select(schema.names).replace_schema_metadata(schema.metadata)

        return await run(finish)
    addresses = as_numbers((await run(first.result)).column(ROW_ADDRESS).combine_chunks())
    batch = await flat_rows(snapshot, addresses[offset:], projection, by_address=True)
    return await run(lambda: _as_schema(batch, schema))


def _as_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    """Cast the columns of other types; pyarrow's cast refuses null structs of non-null members."""
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def takes_others(options: ScanOptions) -> bool:
    """Return True if the other output columns are read by a take after the sort."""
    if options.limit is None or options.include_deleted_rows:
        return False
    return options.limit + (options.offset or 0) <= LATE_ROWS


def unsorted_options(options: ScanOptions) -> ScanOptions:
    """Return the options of the scan whose rows are sorted."""
    unsorted = replace(options, order_by=None, limit=None, offset=None)
    if takes_others(options):
        return replace(unsorted, with_row_id=False, with_row_address=True)
    return unsorted


def scanned_columns(snapshot: Snapshot, columns: Columns, options: ScanOptions) -> Columns:
    """Return the columns to scan before a sort: the sort columns, and perhaps the output."""
    names = dict.fromkeys(key.column_name for key in orderings_of(options.order_by))
    if isinstance(columns, Mapping):
        texts = {
            name: columns[name] if name in columns else join_path(_path(snapshot, name))
            for name in names
        }
        return texts if takes_others(options) else {**columns, **texts}
    for name in names:
        _path(snapshot, name)
    if takes_others(options):
        return list(names)
    output = output_schema(snapshot, columns, options).names
    return [*output, *(name for name in names if name not in output)]


def _path(snapshot: Snapshot, name: str) -> tuple[str, ...]:
    """Return the names on the path of a sort column in the table.

    Raises:
        InvalidInputError: the column is unknown.
    """
    if name in META:
        return (name,)
    try:
        snapshot.schema.field(name)
    except InvalidInputError as error:
        words = name.split() if isinstance(name, str) else []
        hint = ""
        if len(words) == 2 and words[1].lower() in ("asc", "desc"):
            sign = "-" * (words[1].lower() == "desc")
            hint = f"; write the direction before the name: '{sign}{words[0]}'"
        raise InvalidInputError(f"order_by {name!r}: {error}{hint}") from error
    return snapshot.schema.names_of(name)
