"""The k nearest rows, and the output made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from alance.errors import InvalidInputError, UnsupportedError
from alance.format.numbers import as_mask, to_arrow
from alance.ops.read.filters import parsed_predicate
from alance.ops.read.ordering import output_schema
from alance.ops.read.take import take_rows
from alance.ops.search.answer import batch_of, find_hits, rows_of
from alance.ops.search.options import DISTANCE, QUERY_INDEX, search_of
from alance.ops.version.first_use import load_readers
from alance.ops.version.projection import ROW_ADDRESS, ROW_ID

if TYPE_CHECKING:
    from alance.ops.read.options import ScanOptions
    from alance.ops.search.answer import Hits
    from alance.ops.search.options import Search
    from alance.ops.version.projection import Columns
    from alance.ops.version.snapshot import Snapshot


async def search_table(snapshot: Snapshot, columns: Columns, options: ScanOptions) -> pa.Table:
    """The rows of a scan with `nearest`; its filter is one before or after the search.

    Cost: of an exact search that of a scan of the column; then a take of the other columns of the
    rows found.

    Raises:
        InvalidInputError: see `search_of`; options that do not go with a search; a bad filter.
    """
    await load_readers(snapshot, columns, options.filter)
    search = checked_search(snapshot, options)
    schema = _schema(snapshot, columns, options, is_batch=search.is_batch)
    keys = _sort_keys(schema, options)
    hits = await find_hits(snapshot, search, options, _stored(columns))
    if options.filter is not None and not options.prefilter:
        hits = await _filtered(snapshot, hits, options)
    if options.limit is not None or options.offset:
        start = options.offset or 0
        stop = None if options.limit is None else start + options.limit
        hits = hits.where(slice(start, stop))
    table = await _output(snapshot, columns, options, hits, schema)
    return table.sort_by(keys) if keys else table


def _sort_keys(schema: pa.Schema, options: ScanOptions) -> list[tuple[str, str]]:
    keys = []
    for key in options.order_by or ():
        name = key.removeprefix("-")
        if schema.get_field_index(name) < 0:
            raise InvalidInputError(f"order_by {key!r}: no such column in the output")
        keys.append((name, "descending" if key != name else "ascending"))
    return keys


def checked_search(snapshot: Snapshot, options: ScanOptions) -> Search:
    """The search of a scan's options.

    Raises:
        InvalidInputError: see `search_of`; options that do not go with a search.
        UnsupportedError: blobs as bytes beside a search.
    """
    assert options.nearest is not None
    if options.include_deleted_rows:
        raise InvalidInputError("include_deleted_rows: a search gives rows that are there")
    if options.blob_handling == "all_binary":
        raise UnsupportedError("blob_handling='all_binary' beside nearest: take the blobs by id")
    search = search_of(snapshot.schema, options.nearest, fast_search=options.fast_search)
    if search.is_batch and any(field.name == QUERY_INDEX for field in snapshot.schema.fields):
        raise InvalidInputError(f"queries in number: the table has a column {QUERY_INDEX!r}")
    return search


def search_schema(snapshot: Snapshot, columns: Columns, options: ScanOptions) -> pa.Schema:
    """The Arrow schema of the output.

    Raises:
        InvalidInputError: an unknown column, a bad expression or search.
    """
    is_batch = checked_search(snapshot, options).is_batch
    return _schema(snapshot, columns, options, is_batch=is_batch)


def _schema(
    snapshot: Snapshot, columns: Columns, options: ScanOptions, *, is_batch: bool
) -> pa.Schema:
    plain = replace(options, with_row_id=False, with_row_address=False)
    schema = output_schema(snapshot, _stored(columns), plain)
    fields = {field.name: field for field in schema}
    fields[DISTANCE] = pa.field(DISTANCE, pa.float32())
    names = list(columns) if columns is not None else list(schema.names)
    names += [] if DISTANCE in names else [DISTANCE]
    for is_asked, name in ((options.with_row_id, ROW_ID), (options.with_row_address, ROW_ADDRESS)):
        if is_asked and name not in names:
            names.append(name)
            fields[name] = pa.field(name, pa.uint64())
    if is_batch:
        names.insert(0, QUERY_INDEX)
        fields[QUERY_INDEX] = pa.field(QUERY_INDEX, pa.int32(), nullable=False)
    return pa.schema([fields[name] for name in names], metadata=schema.metadata)


def _stored(columns: Columns) -> Columns:
    """The columns without `_distance`, which no table has."""
    if columns is None:
        return None
    if isinstance(columns, Mapping):
        return {name: text for name, text in columns.items() if name != DISTANCE}
    return [name for name in columns if name != DISTANCE]


async def _filtered(snapshot: Snapshot, hits: Hits, options: ScanOptions) -> Hits:
    """The rows for which the filter is true. Cost: a take of its columns."""
    predicate = await parsed_predicate(snapshot, options.filter)
    assert predicate is not None
    names = dict.fromkeys([ROW_ID, *predicate.columns])
    table = await take_rows(snapshot, hits.ids, [*names])
    return hits.where(as_mask(predicate.mask(batch_of(table))))


async def _output(
    snapshot: Snapshot, columns: Columns, options: ScanOptions, hits: Hits, schema: pa.Schema
) -> pa.Table:
    """The columns asked for, of the rows found. Cost: a take, or nothing where no column is."""
    names = _stored(columns)
    if names is not None and not isinstance(names, Mapping):
        names = list(names)
    arrays = {DISTANCE: to_arrow(hits.distances), ROW_ID: to_arrow(hits.ids)}
    if QUERY_INDEX in schema.names:
        arrays[QUERY_INDEX] = to_arrow(hits.numbers)
    if names is None or set(names) - set(arrays) or options.with_row_address:
        batch = await rows_of(snapshot, hits.ids, names)
        arrays |= dict(zip(batch.schema.names, batch.columns, strict=True))
        if options.with_row_address and ROW_ADDRESS not in arrays:
            arrays[ROW_ADDRESS] = to_arrow(
                (await snapshot.addresses_of(hits.ids.astype(np.int64))).astype(np.uint64)
            )
    return pa.Table.from_arrays([arrays[name] for name in schema.names], schema=schema)
