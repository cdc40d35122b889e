"""Aggregates of a scan: `count`, `min`, `max`, `sum` and `avg`, of all rows or by group.

Each aggregate uses the cheapest source. Counts of rows are from the manifest or from indices;
minima and maxima are from the zones that statistics select. All other aggregates take a scan of
their columns, whose batches are folded as they arrive.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

from alance.base.checks import check_count, check_text, list_hint
from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.expr.sql.aggregate import parse_aggregate
from alance.expr.tree import Column
from alance.file.batches import empty_columns
from alance.format.numbers import is_text
from alance.format.paths import quoted
from alance.ops.read.aggregates.extremes import extreme_rows
from alance.ops.read.aggregates.grouping import Groups, Measure, check_key
from alance.ops.read.ordering import schema_of
from alance.ops.version.projection import META, project

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from alance.expr.sql.aggregate import AggregateCall
    from alance.io.reading.pool import DecodePool
    from alance.ops.read.options import ScanOptions
    from alance.ops.version.projection import Columns, Output
    from alance.ops.version.snapshot import Snapshot

KEY_COLUMN_PREFIX: Final = "key "  # prefix of the names of the scan's key columns; a number follows
VALUE: Final = "value "


class RowScan(Protocol):
    """Scan of columns of the rows to aggregate."""

    def to_batches(self) -> AsyncIterator[pa.RecordBatch]:
        """Return the batches, as a generator that can be closed."""

    async def count_rows(self) -> int:
        """Return the number of rows."""


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Aggregates as columns of a scan, and the measures to compute from these.

    Attributes:
        texts: SQL text of each column of the scan.
        schema: schema of the scan.
        keys: scan column to group by, by its output name.
        measures: measures in output order.
        ends: table column by scan column, where statistics may have the minimum or maximum.
    """

    texts: Mapping[str, str]
    schema: pa.Schema
    keys: Mapping[str, str]
    measures: Sequence[Measure]
    ends: Mapping[str, str]


async def aggregate(
    snapshot: Snapshot,
    aggregates: Mapping[str, str],
    group_by: Columns,
    options: ScanOptions,
    rows: Callable[[Columns], RowScan],
    memory_bytes: int,
) -> pa.Table:
    """Return the aggregates of rows; see `Scanner.aggregate`."""
    check_count("memory_bytes", memory_bytes)
    plan = planned(snapshot, aggregates, group_by)
    pool, measures = snapshot.engine.pool, list(plan.measures)
    tables: list[pa.Table] = []
    if not plan.keys:
        ends = ends_of(plan, options)
        if ends:
            names = {name: plan.ends[name] for own in ends if (name := own.column) is not None}
            batches = extreme_rows(snapshot, list(dict.fromkeys(names.values())), options, {})
            tables.append(await folded(pool, batches, plan, ends, memory_bytes, names))
            measures = [measure for measure in measures if measure not in ends]
        if measures and all(measure.column is None for measure in measures):
            count = pa.array([await rows([]).count_rows()], pa.int64())
            tables.append(pa.table([count] * len(measures), [own.name for own in measures]))
            measures = []
    if measures or not tables:
        used = [*plan.keys.values(), *(own.column for own in measures if own.column is not None)]
        texts = {name: plan.texts[name] for name in dict.fromkeys(used)}
        scanned = rows(texts or []).to_batches()
        names = {name: name for name in texts}
        tables.append(await folded(pool, scanned, plan, measures, memory_bytes, names))
    columns = {name: table[name] for table in tables for name in table.column_names}
    return pa.table({name: columns[name] for name in (*plan.keys, *aggregates)})


def planned(snapshot: Snapshot, aggregates: Mapping[str, str], group_by: Columns) -> Aggregation:
    """Check the aggregates, and plan the scan for them.

    Raises:
        InvalidInputError: aggregates are missing or invalid, a column is unknown, or values have a
            type that does not have the aggregate or cannot be grouped.
        UnsupportedError: an aggregate is not implemented.
    """
    if not isinstance(aggregates, Mapping) or not (aggregates or group_by):
        raise InvalidInputError(
            f"aggregates={aggregates!r}: expected names, and what is asked, such as "
            "{'total': 'sum(price)'}"
        )
    for name, text in aggregates.items():
        if not isinstance(text, str):
            raise InvalidInputError(
                f"aggregate {name!r}: expected SQL text such as 'sum(price)', found "
                f"{type(text).__name__}"
            )
    calls = {name: parse_aggregate(text) for name, text in aggregates.items()}
    keys = _key_texts(snapshot, group_by)
    for name in (*keys, *calls):
        check_text("name of an aggregate or a group_by:", name)
    for name in calls:
        if name in keys:
            raise InvalidInputError(f"{name!r} is the name of an aggregate and of a group_by")
    texts = {f"{KEY_COLUMN_PREFIX}{number}": text for number, text in enumerate(keys.values())}
    values = _values(calls.values())
    texts.update({name: text for text, name in values.items()})
    projection = project(snapshot.schema, texts, flat=True)
    schema = schema_of(snapshot, projection)
    for number, name in enumerate(keys):
        check_key(name, schema.field(f"{KEY_COLUMN_PREFIX}{number}").type)
    measures = []
    for name, call in calls.items():
        column = None if call.argument is None else values[call.argument]
        kind = pa.null() if column is None else schema.field(column).type
        measures.append(Measure(name, call.function, column, kind))
        measures[-1].check()
    arrow = snapshot.schema.known_arrow()
    ends = {own.name: column for own in projection.outputs if (column := _ordered(own, arrow))}
    named_keys = {name: f"{KEY_COLUMN_PREFIX}{number}" for number, name in enumerate(keys)}
    return Aggregation(texts, schema, named_keys, measures, ends)


def ends_of(plan: Aggregation, options: ScanOptions) -> list[Measure]:
    """Return the minima and maxima that statistics may answer.

    They must be over all rows, because statistics do not show which rows pass a filter, a limit or
    a search; and their columns must have no other measures.
    """
    is_whole = options.filter is None and options.limit is None and not options.offset
    is_search = options.nearest is not None or options.full_text_query is not None
    if not is_whole or is_search or not options.use_stats or options.include_deleted_rows:
        return []
    others = {own.column for own in plan.measures if own.function not in ("min", "max")}
    return [own for own in plan.measures if own.column in plan.ends and own.column not in others]


async def folded(
    pool: DecodePool,
    batches: AsyncIterator[pa.RecordBatch],
    plan: Aggregation,
    measures: Sequence[Measure],
    memory_bytes: int,
    names: Mapping[str, str],
) -> pa.Table:
    """Fold batches into groups, and return the result. Memory: a chunk of batches and the groups.

    Args:
        names: column in the batches for each column of the scan's schema.
    """
    schema = pa.schema([plan.schema.field(name) for name in names])
    groups = Groups(schema, list(plan.keys.values()), measures, memory_bytes)
    chunk: list[pa.RecordBatch] = []
    num_rows = num_bytes = 0
    async with aclosing(batches) as stream:  # type: ignore[type-var]  # a generator
        async for batch in stream:
            arrays = [batch.column(name) for name in names.values()]
            chunk.append(_batch(arrays, schema, batch.num_rows))
            num_rows += batch.num_rows
            num_bytes += chunk[-1].nbytes
            if groups.is_chunk(num_rows, num_bytes):
                await pool.run(partial(groups.add, chunk))
                chunk, num_rows, num_bytes = [], 0, 0
    if chunk:
        await pool.run(partial(groups.add, chunk))
    table = await pool.run(groups.result)
    return table.rename_columns([*plan.keys, *(own.name for own in measures)])


def _batch(arrays: list[pa.Array], schema: pa.Schema, num_rows: int) -> pa.RecordBatch:
    if not arrays:
        return empty_columns(num_rows)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _key_texts(snapshot: Snapshot, group_by: Columns) -> dict[str, str]:
    """Return the SQL text of each key, by name."""
    if group_by is None or isinstance(group_by, Mapping):
        return dict(group_by or {})
    is_list = isinstance(group_by, Iterable) and not isinstance(group_by, str)
    if not is_list or not all(isinstance(name, str) for name in group_by):
        hint = list_hint("group_by", group_by)
        raise InvalidInputError(f"group_by={group_by!r}: expected a list of names{hint}")
    texts = {name: _quoted(snapshot, name) for name in group_by}
    if len(texts) < len(group_by):
        raise InvalidInputError(f"group_by={group_by!r}: a name is there twice")
    return texts


def _quoted(snapshot: Snapshot, name: str) -> str:
    if name in META:
        return name
    snapshot.schema.field(name)
    names = snapshot.schema.names_of(name)
    return quoted(names)


def _values(calls: Iterable[AggregateCall]) -> dict[str, str]:
    texts = dict.fromkeys(call.argument for call in calls if call.argument is not None)
    return {text: f"{VALUE}{number}" for number, text in enumerate(texts)}


def _ordered(output: Output, schema: pa.Schema) -> str | None:
    """Return the table column of an output if `extreme_rows` supports it; else None."""
    value = None if output.computed is None else output.computed.value
    if not isinstance(value, Column) or len(value.path) > 1 or value.path[0] in META:
        return None
    kind = schema.field(value.path[0]).type
    is_moment = pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.unit != "ns")
    return value.path[0] if pa.types.is_integer(kind) or is_moment or is_text(kind) else None
