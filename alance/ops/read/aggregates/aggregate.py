"""Aggregates of a scan: `count`, `min`, `max`, `sum` and `avg`, of all rows or by group.

Each aggregate uses the cheapest source. Counts of rows are from the manifest or from indices;
minima and maxima are from the zones that statistics select. All other aggregates take a scan of
their columns, whose batches are folded as they arrive; memory has one row per group. Batches are
collected into chunks, and Arrow groups each chunk by itself. The resulting rows are *partials*
(sums, counts, minima and so on). When there are as many pending partials as groups, they are
merged. So a partial is merged only a few times, for any number of chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import field
from decimal import Context, Decimal
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

from alance.base import compute as pc
from alance.base.checks import INT64_MAX, check_count, check_text, list_hint
from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.expr.sql.aggregate import parse_aggregate
from alance.expr.tree import FAILURES, Column, single_line
from alance.file.batches import empty_columns
from alance.format.numbers import as_scalar, canonical, is_text
from alance.format.paths import quoted
from alance.ops.read.aggregates.extremes import extreme_rows
from alance.ops.read.ordering import schema_of
from alance.ops.version.projection import META, project

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from alance.expr.sql.aggregate import Aggregator
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
    key_columns = {name: f"{KEY_COLUMN_PREFIX}{number}" for number, name in enumerate(keys)}
    texts = dict(zip(key_columns.values(), keys.values(), strict=True))
    arguments = dict.fromkeys(own.argument for own in calls.values() if own.argument is not None)
    values = {text: f"{VALUE}{number}" for number, text in enumerate(arguments)}
    texts.update({name: text for text, name in values.items()})
    projection = project(snapshot.schema, texts, flat=True)
    schema = schema_of(snapshot, projection)
    for name, key_column in key_columns.items():
        check_key(name, schema.field(key_column).type)
    measures = []
    for name, call in calls.items():
        column = None if call.argument is None else values[call.argument]
        kind = pa.null() if column is None else schema.field(column).type
        measures.append(Measure(name, call.function, column, kind))
        measures[-1].check()
    arrow = snapshot.schema.known_arrow()
    ends = {own.name: column for own in projection.outputs if (column := _ordered(own, arrow))}
    return Aggregation(texts, schema, key_columns, measures, ends)


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
    return quoted(snapshot.schema.names_of(name))


def _ordered(output: Output, schema: pa.Schema) -> str | None:
    """Return the table column of an output if `extreme_rows` supports it; else None."""
    value = None if output.computed is None else output.computed.value
    if not isinstance(value, Column) or len(value.path) > 1 or value.path[0] in META:
        return None
    kind = schema.field(value.path[0]).type
    is_moment = pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.unit != "ns")
    return value.path[0] if pa.types.is_integer(kind) or is_moment or is_text(kind) else None


# Rows to group at once; the sum of as many 32-bit values fits into 64 bits.
CHUNK_ROWS: Final = 1 << 19
GROUPED_CHUNK_BYTES: Final = 32 << 20
# Minimum rows per group in a chunk; with fewer, merges would do most of the work.
ROWS_OF_GROUP: Final = 8
MERGED_ROWS: Final = 1 << 16  # minimum pending partials for a merge
COUNT_ALL: Final = "count_all"
WIDE_INTEGER_TYPE: Final = pa.decimal128(38, 0)
DECIMAL128_DIGITS: Final = 38  # largest precision of decimal128
MOST_DIGITS: Final = 76
_SUM_CONTEXT: Final = Context(prec=MOST_DIGITS)

# Arrow functions by the first word of a partial's name, where they differ from that word: first to
# compute partials, then to merge them.
_GIVEN: Final = {"nan": "any"}
_JOINED: Final = {**_GIVEN, COUNT_ALL: "sum", "count": "sum"}


@dataclass(frozen=True, slots=True)
class Measure:
    """Aggregate of a column.

    Attributes:
        name: output name.
        column: column of the batches; None to count rows.
        type: type of the column's values.
    """

    name: str
    function: Aggregator
    column: str | None
    type: pa.DataType

    @property
    def partials(self) -> list[str]:
        """Names of the partials that the measure is computed from."""
        if self.column is None:
            return [COUNT_ALL]
        kinds: list[str] = ["sum", "count"] if self.function == "avg" else [self.function]
        if self.function == "max" and pa.types.is_floating(self.type):
            kinds.append("nan")
        return [f"{kind} {self.column}" for kind in kinds]

    def check(self) -> None:
        """Check that values of the type have this aggregate."""
        if self.column is None or self.function == "count" or pa.types.is_null(self.type):
            return
        kind, types = self.type, pa.types
        if self.function in ("min", "max"):
            fits = not (types.is_nested(kind) or types.is_interval(kind))
        else:
            fits = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
            fits = fits or types.is_duration(kind)
        if not fits:
            raise InvalidInputError(f"{self.name!r}: {self.type} has no {self.function}")

    def of(self, partials: pa.Table) -> pa.ChunkedArray:
        """Compute the values of the groups from their partials."""
        values = partials[self.partials[0]]
        if self.function == "avg":
            return _mean(values, partials[f"count {self.column}"], self.type)
        if self.function == "count":
            return values
        if self.function == "sum":
            return _sum(values, self.type)
        values = values.cast(self.type)
        if f"nan {self.column}" in self.partials:
            is_nan = pc.fill_null(partials[f"nan {self.column}"], as_scalar(False))
            values = pc.if_else(is_nan, pa.scalar(float("nan"), self.type), values)
        return values


@dataclass(slots=True)
class Groups:
    """Groups of the batches so far, with their partials. Not thread-safe.

    Args:
        schema: schema of the batches.
        keys: columns to group by.
        measures: aggregates of each group.
        memory_bytes: maximum memory of the groups.
    """

    schema: pa.Schema
    keys: Sequence[str]
    measures: Sequence[Measure]
    memory_bytes: int
    _parts: list[pa.Table] = field(default_factory=list)  # the first one may be a merged one
    _num_merged: int = 0  # number of groups in the merged part

    def add(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Fold batches into the groups. CPU work.

        Raises:
            InvalidInputError: the groups exceed the memory limit, or a sum of decimals may
                overflow.
        """
        table = pa.Table.from_batches(batches, schema=self.schema)
        part = self._grouped(self._inputs(table), _GIVEN)
        for place, name in enumerate(part.column_names):
            if place >= len(self.keys) and name.startswith("sum "):
                type_ = self.schema.field(name.removeprefix("sum ")).type
                part = part.set_column(place, name, _exact(part.column(place), type_))
        self._parts.append(part)
        num_waiting = sum(part.num_rows for part in self._parts) - self._num_merged
        if num_waiting >= max(2 * self._num_merged, MERGED_ROWS):
            self._merge()
        self._check_memory()

    def is_chunk(self, num_rows: int, num_bytes: int) -> bool:
        """Return True if these rows are worth grouping; the more groups, the more rows it takes."""
        groups = max((part.num_rows for part in self._parts), default=0)
        if groups * ROWS_OF_GROUP > CHUNK_ROWS:
            most = max(GROUPED_CHUNK_BYTES, self.memory_bytes // 4)
        else:
            most = min(GROUPED_CHUNK_BYTES, self.memory_bytes)
        return num_rows >= max(CHUNK_ROWS, groups * ROWS_OF_GROUP) or num_bytes >= most

    def result(self) -> pa.Table:
        """Return the groups in arbitrary order: columns for keys, then for measures. CPU work.

        Raises:
            InvalidInputError: a sum exceeds its type, or an error of `add`.
        """
        if not self._parts:
            self.add([])
        merged = self._merge()
        columns = [merged[key] for key in self.keys]
        for measure in self.measures:
            try:
                columns.append(measure.of(merged))
            except FAILURES as error:  # not reached by `InvalidInputError`, which is one of them
                raise InvalidInputError(f"{measure.name!r}: {single_line(error)}") from error
        names = [*self.keys, *(measure.name for measure in self.measures)]
        return pa.table(columns, names=names)

    def _inputs(self, table: pa.Table) -> pa.Table:
        """Return a column for each partial, converted for the Arrow function."""
        columns = {key: _key(table[key]) for key in self.keys}
        for measure in self.measures:
            for name in measure.partials:
                kind, _, column = name.partition(" ")
                if name != COUNT_ALL and name not in columns:
                    columns[name] = _input(kind, table[column])
        if not columns:  # because only rows are counted
            columns[""] = pa.chunked_array([pa.nulls(table.num_rows)])
        return pa.table(columns)

    def _merge(self) -> pa.Table:
        if len(self._parts) > 1:
            self._parts = [self._grouped(pa.concat_tables(self._parts), _JOINED)]
        (merged,) = self._parts
        self._num_merged = merged.num_rows
        return merged

    def _grouped(self, table: pa.Table, functions: Mapping[str, str]) -> pa.Table:
        """Group a table of inputs or of partials by the keys."""
        calls: list[tuple[str | list[str], str]] = []
        names = list(self.keys)
        partials = [name for measure in self.measures for name in measure.partials]
        partials = list(dict.fromkeys(partials))
        for name in partials:
            kind = name.partition(" ")[0]
            function = functions.get(kind, kind)
            is_count = function == COUNT_ALL
            if function == "sum":
                _check_sum(table[name])
            calls.append(([] if is_count else name, function))
            names.append(COUNT_ALL if is_count else f"{name}_{function}")
        groups = table.group_by(list(self.keys), use_threads=False).aggregate(calls)
        return groups.select(names).rename_columns([*self.keys, *partials])

    def _check_memory(self) -> None:
        if sum(part.nbytes for part in self._parts) <= self.memory_bytes:
            return
        merged = self._merge()
        if merged.nbytes > self.memory_bytes:
            raise InvalidInputError(
                f"group_by: {merged.num_rows} groups take {merged.nbytes} bytes, more than "
                f"memory_bytes={self.memory_bytes}; `Dataset.sql` can group on disk"
            )


def check_key(name: str, kind: pa.DataType) -> None:
    """Check that rows can be grouped by values of a type."""
    if pa.types.is_nested(kind):
        raise InvalidInputError(f"group_by {name!r}: {kind} is no type to group by")


def _key(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return group keys with canonical floats, because Arrow groups floats by their bits."""
    if not pa.types.is_floating(values.type):
        return values
    return pa.chunked_array([canonical(chunk) for chunk in values.chunks], values.type)


def _input(kind: str, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert values to a type from which Arrow can compute a partial exactly."""
    if kind == "count":
        return values
    if kind == "nan":
        return pc.is_nan(values)
    if pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    elif pa.types.is_duration(values.type):
        values = values.cast(pa.int64())
    if kind != "sum":
        return values
    if values.type in (pa.int64(), pa.uint64()):
        ends = pc.min_max(values)
        largest = max(abs(ends["min"].as_py() or 0), abs(ends["max"].as_py() or 0))
        # Arrow's sum of integers wraps around on overflow.
        return values.cast(WIDE_INTEGER_TYPE) if largest * len(values) > INT64_MAX else values
    if pa.types.is_decimal128(values.type):
        type_ = values.type
        is_wide = type_.precision + len(str(len(values))) > DECIMAL128_DIGITS
        if is_wide:
            return values.cast(pa.decimal256(MOST_DIGITS, type_.scale))
        # Use a view, because a cast would check each value although no bytes change.
        wide = pa.decimal128(DECIMAL128_DIGITS, type_.scale)
        return pa.chunked_array([chunk.view(wide) for chunk in values.chunks], wide)
    return values


def _exact(sums: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Convert the sums of a chunk to a type that can hold the sums of all chunks."""
    if pa.types.is_decimal(kind):
        return sums.cast(pa.decimal256(MOST_DIGITS, kind.scale))
    return sums.cast(WIDE_INTEGER_TYPE) if pa.types.is_integer(sums.type) else sums


def _check_sum(values: pa.ChunkedArray) -> None:
    """Check that sums of wide decimals cannot overflow."""
    kind = values.type
    if not pa.types.is_decimal256(kind) or kind.precision + len(str(len(values))) <= MOST_DIGITS:
        return
    ends = pc.min_max(values.cast(pa.decimal256(MOST_DIGITS, kind.scale)))
    outermost = [ends[end].as_py() or Decimal() for end in ("min", "max")]
    largest = max(int(value.copy_abs().scaleb(kind.scale, _SUM_CONTEXT)) for value in outermost)
    if largest * len(values) >= 10**MOST_DIGITS:
        raise InvalidInputError(f"a sum of {kind} may be beyond {MOST_DIGITS} digits")


def _sum(sums: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Convert sums to their output type, which depends on the type of the values."""
    if pa.types.is_floating(kind):
        return sums
    if pa.types.is_decimal128(kind):
        output = pa.decimal128(min(DECIMAL128_DIGITS, kind.precision + 10), kind.scale)
    elif pa.types.is_decimal(kind):
        output = pa.decimal256(min(MOST_DIGITS, kind.precision + 10), kind.scale)
    else:
        output = pa.uint64() if pa.types.is_unsigned_integer(kind) else pa.int64()
    try:
        sums = sums.cast(output)
    except pa.ArrowInvalid:
        is_whole = pa.types.is_integer(output)
        cure = "; `sum(cast(x as decimal(38, 0)))` gives decimals" if is_whole else ""
        raise InvalidInputError(f"a sum is beyond {output}{cure}") from None
    return sums.cast(kind) if pa.types.is_duration(kind) else sums


def _mean(sums: pa.ChunkedArray, counts: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return sums divided by counts; null for a count of 0.

    Means of decimals have four decimal places more than the values; further digits are truncated.
    """
    divisor = pc.if_else(pc.equal(counts, as_scalar(0)), as_scalar(None, pa.int64()), counts)
    if not (pa.types.is_duration(kind) or pa.types.is_decimal128(kind)):
        return pc.divide(sums.cast(pa.float64()), divisor.cast(pa.float64()))
    scale = kind.scale if pa.types.is_decimal(kind) else 0
    # With a divisor of at least three digits, the quotient has four decimal places more than the
    # dividend.
    digits = max(3, len(str(pc.max(counts).as_py() or 0)))
    dividends = sums.cast(pa.decimal256(DECIMAL128_DIGITS + digits, scale))
    divisors = divisor.cast(pa.decimal256(19, 0)).cast(pa.decimal256(digits, 0))
    means = pc.divide(dividends, divisors)
    if pa.types.is_duration(kind):
        whole = pc.CastOptions(pa.int64(), allow_decimal_truncate=True)
        return means.cast(options=whole).cast(kind)
    mean = pa.decimal128(
        min(DECIMAL128_DIGITS, kind.precision + 4), min(DECIMAL128_DIGITS, scale + 4)
    )
    cut = pc.CastOptions(pa.decimal256(MOST_DIGITS, mean.scale), allow_decimal_truncate=True)
    # Two casts, because a truncating cast does not check the range.
    return means.cast(options=cut).cast(mean)
