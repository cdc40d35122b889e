"""Vector search: from the options of a scan to the output table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.errors import InvalidInputError
from alance.file.batches import batch_bytes
from alance.format.index.values import VectorType
from alance.format.numbers import as_mask, offsets_of, positions_of, to_arrow
from alance.ops.read.filters import parsed_predicate
from alance.ops.read.options import ScanOptions, condition_of, orderings_of
from alance.ops.read.ordering import output_schema
from alance.ops.read.sorting import in_order
from alance.ops.read.take import batch_of, flat_rows, take_rows
from alance.ops.search.answer import check_queries, find_hits
from alance.ops.search.joined import CallerPart, joint_of
from alance.ops.search.options import DISTANCE, DOC_INDEX, QUERY_INDEX, search_of, vector_type
from alance.ops.search.segments import way_of
from alance.ops.version.first_use import load_readers
from alance.ops.version.projection import ROW_ADDRESS, ROW_ID, plain_names, project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.arrays import Float64s, Int64s
    from alance.ops.read.options import ColumnOrdering
    from alance.ops.search.answer import Hits
    from alance.ops.search.options import VectorSearch
    from alance.ops.version.projection import Columns, Projection
    from alance.ops.version.snapshot import Snapshot


PLACES_TYPE: Final = pa.list_(pa.field("item", pa.uint32(), nullable=False))  # one-item lists
# Largest batch that several callers share. Rows of larger batches are copied, so that one caller's
# rows do not keep those of the others in memory.
SHARED_BATCH_BYTES: Final = 64 << 10


async def search_table(snapshot: Snapshot, columns: Columns, options: ScanOptions) -> pa.Table:
    """Return the rows of a scan with `nearest`; the filter is applied before or after the search.

    Cost: for an exact search a scan of the column; then a take of the other columns of the rows.
    Concurrent searches that differ only in their queries share these costs.

    Raises:
        InvalidInputError: see `search_of`; an option that searches do not have; an invalid filter.
    """
    await load_readers(snapshot, columns, condition_of(options))
    search = checked_search(snapshot, options)
    schema = _memoized_schema(snapshot, columns, options, is_batch=search.is_batch)
    keys = sort_keys(schema, options)
    check_queries(search, way_of(snapshot, search, options))

    async def answer(queries: Sequence[Float64s]) -> Sequence[CallerPart]:
        counts = [len(own) for own in queries]
        whole = search
        if len(counts) > 1 or queries[0] is not search.queries:
            whole = replace(search, queries=np.concatenate(queries))
        hits = await find_hits(snapshot, whole, options, stored(columns, DISTANCE))
        if options.filter is not None and not options.prefilter:
            hits = await filtered(snapshot, hits, options)
        return await parts_of(snapshot, columns, options, hits, counts)

    alike = (
        search.path, search.k, search.metric, search.lower, search.upper, search.probing,
        search.fast_search, search.width,
    )  # fmt: skip
    joint = joint_of(snapshot, alike, search.k * search.width, columns, options)
    part = await joint.ask(search.queries, len(search.queries), answer)
    arrays = dict(zip(part.batch.schema.names, part.batch.columns, strict=True))
    if search.is_batch:
        arrays[QUERY_INDEX] = to_arrow(part.numbers)
    table = pa.Table.from_arrays([arrays[name] for name in schema.names], schema=schema)
    return in_order(table, keys) if keys else table


def sort_keys(schema: pa.Schema, options: ScanOptions) -> tuple[ColumnOrdering, ...]:
    """Return the sort keys of the output table.

    Raises:
        InvalidInputError: a key is not a column of the output.
    """
    keys = orderings_of(options.order_by)
    for key in keys:
        if schema.get_field_index(key.column_name) < 0:
            raise InvalidInputError(f"order_by {key.column_name!r}: no such column in the output")
    return keys


def checked_search(snapshot: Snapshot, options: ScanOptions) -> VectorSearch:
    """Check the search in a scan's options and return it.

    Raises:
        InvalidInputError: see `search_of`; an option that searches do not have.
    """
    assert options.nearest is not None
    if options.include_deleted_rows:
        raise InvalidInputError("include_deleted_rows: a search returns live rows only")
    types = snapshot.remember(vector_type, dict[str, VectorType])
    arguments = options.nearest
    if options.limit is not None and arguments.get("k") is None:
        arguments = {**arguments, "k": max(1, options.limit + (options.offset or 0))}
    search = search_of(snapshot.schema, arguments, options.fast_search, types)
    if search.is_batch and any(field.name == QUERY_INDEX for field in snapshot.schema.fields):
        raise InvalidInputError(f"queries in number: the table has a column {QUERY_INDEX!r}")
    return search


def search_schema(snapshot: Snapshot, columns: Columns, options: ScanOptions) -> pa.Schema:
    """Return the Arrow schema of the output.

    Raises:
        InvalidInputError: a column is unknown, or an expression or the search is invalid.
    """
    is_batch = checked_search(snapshot, options).is_batch
    return schema_of(snapshot, columns, options, is_batch=is_batch)


def schema_of(
    snapshot: Snapshot,
    columns: Columns,
    options: ScanOptions,
    *,
    is_batch: bool = False,
    measure: str = DISTANCE,
    of_elements: bool = False,
) -> pa.Schema:
    """Return the Arrow schema of the rows of a search.

    Args:
        measure: name of the column that ranks the rows.
        of_elements: True if list elements are searched, and their positions are in the output.
    """
    own = {measure: pa.field(measure, pa.float32())}
    if of_elements:
        own = {DOC_INDEX: pa.field(DOC_INDEX, PLACES_TYPE, nullable=False)} | own

    def make() -> pa.Schema:
        return _schema_of(snapshot, columns, options, own, is_batch=is_batch)

    names = plain_names(columns)
    if columns is not None and names is None:
        return make()
    key = (schema_of, names, options.with_row_id, options.with_row_address, is_batch, *own)
    return snapshot.schema.remember(key, make)


def _schema_of(
    snapshot: Snapshot,
    columns: Columns,
    options: ScanOptions,
    own: Mapping[str, pa.Field],
    *,
    is_batch: bool,
) -> pa.Schema:
    plain = ScanOptions()
    schema = output_schema(snapshot, stored(columns, *own), plain)
    fields = {field.name: field for field in schema} | dict(own)
    names = list(columns) if columns is not None else list(schema.names)
    names += [name for name in own if name not in names]
    for is_output, name in ((options.with_row_id, ROW_ID), (options.with_row_address, ROW_ADDRESS)):
        if is_output and name not in names:
            names.append(name)
            fields[name] = pa.field(name, pa.uint64())
    if is_batch:
        names.insert(0, QUERY_INDEX)
        fields[QUERY_INDEX] = pa.field(QUERY_INDEX, pa.int32(), nullable=False)
    return pa.schema([fields[name] for name in names], metadata=schema.metadata)


def _memoized_schema(
    snapshot: Snapshot, columns: Columns, options: ScanOptions, *, is_batch: bool
) -> pa.Schema:
    """Return `schema_of`, memoized if the columns are plain names."""

    def schema() -> pa.Schema:
        return schema_of(snapshot, columns, options, is_batch=is_batch)

    if columns is not None and plain_names(columns) is None:
        return schema()
    meta = (options.with_row_id, options.with_row_address)
    return snapshot.remember((schema_of, plain_names(columns), *meta, is_batch), schema)


def stored(columns: Columns, *own: str) -> Columns:
    """Return the columns without `own`, which the search computes."""
    if columns is None:
        return None
    if isinstance(columns, Mapping):
        return {name: text for name, text in columns.items() if name not in own}
    return [name for name in columns if name not in own]


async def filtered(
    snapshot: Snapshot, hits: Hits, options: ScanOptions, measure: str = DISTANCE
) -> Hits:
    """Return the hits that pass the filter. Cost: a take of the filter's columns.

    Args:
        measure: name of the distance or score column, which the filter may use.
    """
    predicate = await parsed_predicate(snapshot, condition_of(options), measure)
    assert predicate is not None
    names = dict.fromkeys([ROW_ID, *predicate.columns])
    names.pop(measure, None)
    batch = batch_of(await take_rows(snapshot, hits.ids, [*names]))
    batch = pa.RecordBatch.from_arrays(
        [*batch.columns, to_arrow(hits.distances)], names=[*batch.schema.names, measure]
    )
    work = batch.nbytes if predicate.is_quick else math.inf
    return hits.where(await snapshot.engine.decode(lambda: as_mask(predicate.mask(batch)), work))


async def parts_of(
    snapshot: Snapshot,
    columns: Columns,
    options: ScanOptions,
    hits: Hits,
    counts: Sequence[int],
    measure: str = DISTANCE,
) -> list[CallerPart]:
    """Return the rows of each caller within its offset and limit. Cost: a take of the columns.

    Args:
        counts: number of queries of each caller.
    """
    firsts = offsets_of(counts)
    starts, stops = _ends(np.searchsorted(hits.numbers, firsts))
    if options.limit is not None or options.offset:
        starts = np.minimum(starts + (options.offset or 0), stops)
        if options.limit is not None:
            stops = np.minimum(starts + options.limit, stops)
        hits = hits.where(positions_of(starts, stops - starts))
        starts, stops = _ends(offsets_of(stops - starts))
    batch = await output_of(snapshot, columns, options, hits, measure)
    if len(counts) == 1:
        return [CallerPart(hits.numbers, batch)]
    is_shared = batch_bytes(batch) <= SHARED_BATCH_BYTES
    parts = []
    for start, stop, first in zip(starts.tolist(), stops.tolist(), firsts.tolist(), strict=False):
        rows = batch.slice(start, stop - start)
        if not is_shared:
            rows = batch.take(to_arrow(np.arange(start, stop)))
        parts.append(CallerPart(hits.numbers[start:stop] - np.int32(first), rows))
    return parts


def _ends(offsets: Int64s) -> tuple[Int64s, Int64s]:
    return offsets[:-1], offsets[1:]


def _projection(snapshot: Snapshot, columns: Columns) -> Projection:

    def make() -> Projection:
        return project(snapshot.schema, columns, flat=True)

    names = plain_names(columns)
    return make() if names is None else snapshot.schema.remember((project, names), make)


async def output_of(
    snapshot: Snapshot,
    columns: Columns,
    options: ScanOptions,
    hits: Hits,
    measure: str = DISTANCE,
) -> pa.RecordBatch:
    """Return the output columns of hits, in any order; there may be further columns.

    Cost: a take; none if all columns come from the search itself.
    """
    arrays = {measure: to_arrow(hits.distances)}
    if hits.elements is not None:
        offsets = to_arrow(np.arange(len(hits.elements) + 1, dtype=np.int32))
        values = to_arrow(hits.elements)
        arrays[DOC_INDEX] = pa.ListArray.from_arrays(offsets, values, type=PLACES_TYPE)
    names = stored(columns, *arrays)
    arrays[ROW_ID] = to_arrow(hits.ids)
    if names is None or set(names) - set(arrays) or options.with_row_address:
        batch = await flat_rows(snapshot, hits.ids, _projection(snapshot, names))
        arrays |= dict(zip(batch.schema.names, batch.columns, strict=True))
        if options.with_row_address and ROW_ADDRESS not in arrays:
            arrays[ROW_ADDRESS] = to_arrow(
                (await snapshot.addresses_of(hits.ids.astype(np.int64))).astype(np.uint64)
            )
    return pa.RecordBatch.from_arrays([*arrays.values()], names=[*arrays])
