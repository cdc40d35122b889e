"""Scans in an order of the caller's: `order_by`."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from alance.errors import InvalidInputError
from alance.file.batches import empty_batch
from alance.ops.read.plan import plan_scan, projection_of
from alance.ops.read.scan import scan
from alance.ops.version.projection import plain_names

if TYPE_CHECKING:
    from alance.ops.read.options import ScanOptions
    from alance.ops.version.projection import Columns
    from alance.ops.version.snapshot import Snapshot


def output_schema(snapshot: Snapshot, columns: Columns, options: ScanOptions) -> pa.Schema:
    """The Arrow schema of a scan's batches.

    Raises:
        InvalidInputError: an unknown column or a bad expression.
    """
    names = plain_names(columns)
    if columns is not None and names is None:
        return _output_schema(snapshot, columns, options)
    key = (output_schema, names, options.with_row_id, options.with_row_address)
    return snapshot.schema.remember(key, lambda: _output_schema(snapshot, columns, options))


def _output_schema(snapshot: Snapshot, columns: Columns, options: ScanOptions) -> pa.Schema:
    projection = projection_of(snapshot, columns, options)
    fields = [field.to_arrow() for field in snapshot.schema.project(projection.fields).fields]
    fields += [pa.field(name, pa.uint64()) for name in projection.meta]
    schema = projection.apply(empty_batch(pa.schema(fields))).schema
    return schema.with_metadata(snapshot.schema.to_arrow().metadata)


async def sorted_table(snapshot: Snapshot, columns: Columns, options: ScanOptions) -> pa.Table:
    """All rows of a scan, sorted by `order_by`, then cut by offset and limit.

    A name with a leading `-` sorts descending. Nulls come last. Needs all rows in memory.

    Raises:
        InvalidInputError: a sort column that the output has not.
    """
    schema = output_schema(snapshot, columns, options)
    keys = []
    for name in options.order_by or ():
        column, direction = (
            (name[1:], "descending") if name.startswith("-") else (name, "ascending")
        )
        if schema.get_field_index(column) < 0:
            raise InvalidInputError(f"order_by {name!r}: no such column in the output")
        keys.append((column, direction))
    unsorted = replace(options, order_by=None, limit=None, offset=None)
    plan = await plan_scan(snapshot, columns, unsorted)
    async with aclosing(scan(snapshot, plan)) as batches:
        table = pa.Table.from_batches([batch async for batch in batches], schema=schema)
    table = await snapshot.engine.pool.run(lambda: table.sort_by(keys))
    return table.slice(options.offset or 0, options.limit)
