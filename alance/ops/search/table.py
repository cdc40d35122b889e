"""Searches as tables: the steps that are the same for all kinds of searches.

A kind finds the rows that its measure ranks best. The rest is here: joining with concurrent
searches, the filter after the search, offset and limit, the columns of the rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from alance.errors import InvalidInputError
from alance.format.numbers import as_mask, offsets_of, positions_of, to_arrow
from alance.ops.read.filters import parsed_predicate
from alance.ops.read.options import ScanOptions, condition_of, orderings_of
from alance.ops.read.ordering import output_schema
from alance.ops.read.sorting import in_order
from alance.ops.read.take import batch_of, flat_rows, take_rows
from alance.ops.search.joined import MAX_JOINED_ROWS, CallerPart, joint_of
from alance.ops.search.options import DOC_INDEX, QUERY_INDEX
from alance.ops.version.first_use import load_readers
from alance.ops.version.projection import ROW_ADDRESS, ROW_ID, plain_names, project

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from alance.base.arrays import Int64s
    from alance.ops.read.options import ColumnOrdering
    from alance.ops.search.answer import Hits
    from alance.ops.version.projection import Columns, Projection
    from alance.ops.version.snapshot import Snapshot

PLACES_TYPE: Final = pa.list_(pa.field("item", pa.uint32(), nullable=False))  # one-item lists
# Largest batch that several callers share. Rows of larger batches are copied, so that the rows of
# one caller do not keep all rows in memory.
SHARED_BATCH_BYTES: Final = 64 << 10


class Search(ABC):
    """A checked search of a version; each subclass is a kind of search.

    Attributes:
        measure: name of the column that ranks the rows.
        queries: queries of the caller, in any form that has a length.
        question: properties, in addition to columns and options, that joined searches must share.
        num_rows: maximum number of rows per query, for the limit of joined searches.
        max_joined: maximum number of joined searches.
        is_batch: True if the output has the number of the query of each row.
        of_elements: True if list elements are searched, and their positions are in the output.
    """

    measure: ClassVar[str]
    queries: Any
    question: Hashable
    num_rows: int
    max_joined: int = MAX_JOINED_ROWS
    is_batch: bool = False
    of_elements: bool = False

    @abstractmethod
    def __init__(self, snapshot: Snapshot, options: ScanOptions) -> None:
        """Check the search of a scan's options.

        Raises:
            InvalidInputError: the query is invalid; an option that searches do not have.
        """

    def check(self) -> None:  # noqa: B027  # few kinds have more to check
        """Check the queries against the index that answers them."""

    @abstractmethod
    async def hits(self, queries: Sequence[Any], columns: Columns) -> Hits:
        """Find the best rows of the queries of several callers.

        Args:
            columns: columns that the rows will be taken from, to open their files ahead.
        """

    @classmethod
    async def table(cls, snapshot: Snapshot, columns: Columns, options: ScanOptions) -> pa.Table:
        """Return the rows of a search; the filter is applied before or after the search.

        Cost: that of `hits`; then a take of the other columns of the rows. Concurrent
        searches that differ only in their queries share these costs.

        Raises:
            InvalidInputError: the search or the filter is invalid.
        """
        await load_readers(snapshot, columns, condition_of(options))
        search = cls(snapshot, options)
        measure = search.measure
        flags = {"is_batch": search.is_batch, "of_elements": search.of_elements}
        schema = schema_of(snapshot, columns, options, measure, **flags)
        keys = sort_keys(schema, options)
        search.check()

        async def answer(queries: Sequence[Any]) -> Sequence[CallerPart]:
            own = (measure, DOC_INDEX) if search.of_elements else (measure,)
            hits = await search.hits(queries, stored(columns, *own))
            if options.filter is not None and not options.prefilter:
                hits = await filtered(snapshot, hits, options, measure)
            counts = [len(own) for own in queries]
            return await parts_of(snapshot, columns, options, hits, counts, measure)

        joint = joint_of(
            snapshot, search.question, search.num_rows, columns, options, most=search.max_joined
        )
        part = await joint.ask(search.queries, len(search.queries), answer)
        numbers = {QUERY_INDEX: to_arrow(part.numbers)} if search.is_batch else {}
        table = table_of(schema, part.batch, numbers)
        return in_order(table, keys) if keys else table

    @classmethod
    def schema(cls, snapshot: Snapshot, columns: Columns, options: ScanOptions) -> pa.Schema:
        """Return the Arrow schema of the output.

        Raises:
            InvalidInputError: a column is unknown, or an expression or the search is invalid.
        """
        search = cls(snapshot, options)
        flags = {"is_batch": search.is_batch, "of_elements": search.of_elements}
        return schema_of(snapshot, columns, options, search.measure, **flags)


def table_of(schema: pa.Schema, batch: pa.RecordBatch, more: Mapping[str, pa.Array]) -> pa.Table:
    """Return a table with the columns of a schema, taken from `more` or else from a batch."""
    arrays = {**dict(zip(batch.schema.names, batch.columns, strict=True)), **more}
    return pa.Table.from_arrays([arrays[name] for name in schema.names], schema=schema)


def schema_of(
    snapshot: Snapshot,
    columns: Columns,
    options: ScanOptions,
    measure: str,
    *,
    is_batch: bool = False,
    of_elements: bool = False,
) -> pa.Schema:
    """Return the Arrow schema of the rows of a search. Memoized if the columns are plain names.

    Args:
        measure: name of the column that ranks the rows.
        is_batch, of_elements: as in `Search`.
    """

    def make() -> pa.Schema:
        own = {measure: pa.field(measure, pa.float32())}
        if of_elements:
            own = {DOC_INDEX: pa.field(DOC_INDEX, PLACES_TYPE, nullable=False)} | own
        schema = output_schema(snapshot, stored(columns, *own), ScanOptions())
        fields = {field.name: field for field in schema} | own
        names = list(columns) if columns is not None else list(schema.names)
        names += [name for name in own if name not in names]
        for is_output, name in zip(ids, (ROW_ID, ROW_ADDRESS), strict=True):
            if is_output and name not in names:
                names.append(name)
                fields[name] = pa.field(name, pa.uint64())
        if is_batch:
            names.insert(0, QUERY_INDEX)
            fields[QUERY_INDEX] = pa.field(QUERY_INDEX, pa.int32(), nullable=False)
        return pa.schema([fields[name] for name in names], metadata=schema.metadata)

    plain, ids = plain_names(columns), (options.with_row_id, options.with_row_address)
    if columns is not None and plain is None:
        return make()
    key = (schema_of, plain, ids, measure, is_batch, of_elements)
    return snapshot.schema.remember(key, make)


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


def stored(columns: Columns, *own: str) -> Columns:
    """Return the columns without `own`, which the search computes."""
    if columns is None:
        return None
    if isinstance(columns, Mapping):
        return {name: text for name, text in columns.items() if name not in own}
    return [name for name in columns if name not in own]


async def filtered(snapshot: Snapshot, hits: Hits, options: ScanOptions, measure: str) -> Hits:
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
    measure: str,
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
    is_shared = batch.nbytes <= SHARED_BATCH_BYTES
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
    measure: str,
) -> pa.RecordBatch:
    """Return the output columns of hits, in any order, possibly with further columns.

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
