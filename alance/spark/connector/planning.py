"""Handlers of requests of the driver's JVM: a table's columns, filters to push down, tasks."""

from __future__ import annotations

import asyncio
import base64
import json
import pickle
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.types import LongType, StructField, StructType

from alance import ColumnOrdering, CommitConflictError, InvalidInputError, UnsupportedError
from alance.distributed import (
    META,
    ROW_ADDRESS,
    field_ids,
    fragment_bytes,
    fragments_of,
    member_paths,
)
from alance.spark.connector.keeping import described, is_blob
from alance.spark.connector.work import COUNT_OP, Aggregate, PartitionWork
from alance.spark.filters import FilterCall, FilterColumn, column_of, sql_of, tree_of
from alance.spark.options import MANY_PATHS, ReadOptions, StreamOptions, for_cores
from alance.spark.reader import planned, selected_rows
from alance.spark.types import arrow_schema, is_exact, is_list, spark_schema
from alance.spark.versions import Version, open_for_read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance import Dataset
    from alance.distributed import SelectedRows
    from alance.spark.source import AlanceSource

PLANNED_VERSIONS: Final = 4  # versions whose manifests are cached between the requests of a query
SAMPLE: Final = 4096  # most fragments whose bytes are summed; more are sampled
# key of a table's configuration with the producers' batches that it contains
PRODUCERS_KEY: Final = "alance.producers"
# estimated selectivity by the operator of a filter
SHARES: Final = {" = ": 0.1, " IN (": 0.2, "<": 1 / 3, ">": 1 / 3}
# lower bound of an estimate, because Spark broadcasts an input that it estimates as small
LEAST_SHARE: Final = 0.1
TEXT_BYTES: Final = 20  # estimated bytes of a text or an array, as in Spark


class Planner:
    """Handler of planning requests. The *state* of a version is its pickled options and number."""

    def __init__(self) -> None:
        self._tables: OrderedDict[bytes, list[Dataset]] = OrderedDict()

    async def answer(self, request: Mapping[str, Any]) -> object:
        """Answer a request; the result is converted to JSON."""
        verb = request["verb"]
        if verb == "open":
            return await self.opened(request, request["options"])
        tables = await self.tables(request["state"])
        if verb == "push":
            texts = [_pushed(request["predicates"], *table) for table in tables]
            return {"texts": [_common(texts_of) for texts_of in zip(*texts, strict=True)]}
        if verb == "order":
            return {"is_ours": all(_orderings(request["order"], *table) for table in tables)}
        if verb == "aggregate":
            of_tables = [_aggregates(request["aggregates"], *table) for table in tables]
            schema = None if None in of_tables else _result(of_tables[0] or (), tables[0][1]).json()
            return {"schema": schema}
        if verb == "plan":
            plans = [await _planned(request, *table) for table in tables]
            return plans[0] if len(plans) == 1 else _of_all(plans)
        if verb == "delete":
            dataset = await self.whole_table(request["state"])
            await dataset.delete(joined(request["filters"]) or "true")
            return {}
        raise InvalidInputError(f"verb {verb!r}: not known")

    async def opened(self, request: Mapping[str, Any], texts: dict[str, str]) -> dict[str, object]:
        """Open the version that a reader's options name."""
        kind: type[AlanceSource] = cloudpickle.loads(request["source"])
        tables: list[tuple[ReadOptions, Dataset]] = []
        schemas: list[StructType] = []
        opening = [kind(of_path).opened() for of_path in _of_paths(texts)]
        for options, dataset, schema in await asyncio.gather(*opening):
            if isinstance(options, StreamOptions):
                return {"state": "", "schema": schema.json(), "rows": -1, "config": {}}
            tables.append((for_cores(options, texts, request["parallelism"]), dataset))
            schemas.append(schema)
        is_whole = all(options.filter is None and options.limit is None for options, _ in tables)
        rows = sum([await dataset.count_rows() for _, dataset in tables]) if is_whole else -1
        state = pickle.dumps([(options, dataset.version) for options, dataset in tables])
        self._keep(state, [dataset for _, dataset in tables])
        return {
            "state": _text(state),
            "schema": _common_columns(schemas, [options.path for options, _ in tables]).json(),
            "rows": rows,
            "config": shown_config(tables[0][1]),
        }

    def _keep(self, state: bytes, datasets: list[Dataset]) -> None:
        self._tables[state] = datasets
        self._tables.move_to_end(state)
        while len(self._tables) > PLANNED_VERSIONS:
            self._tables.popitem(last=False)

    async def tables(self, state: bytes) -> list[tuple[ReadOptions, Dataset]]:
        """Return the versions of a state, and their reading options.

        Raises:
            CommitConflictError: a tag names another version now.
        """
        parts: list[tuple[ReadOptions, int]] = pickle.loads(state)
        datasets = self._tables.get(state)
        if datasets is None:
            datasets = []
            for options, version in parts:
                dataset = await open_for_read(options)
                if dataset.version != version:
                    raise CommitConflictError(
                        f"tag {options.tag!r} is now version {dataset.version}; "
                        f"the DataFrame was made of version {version}"
                    )
                datasets.append(dataset)
        self._keep(state, datasets)
        return [(options, dataset) for (options, _), dataset in zip(parts, datasets, strict=True)]

    async def whole_table(self, state: bytes) -> Dataset:
        """Return the version of a state, for a statement that changes its rows.

        Raises:
            UnsupportedError: the reader has a filter, a limit or several tables.
        """
        tables = await self.tables(state)
        options, dataset = tables[0]
        if len(tables) > 1:
            raise UnsupportedError(MANY_PATHS)
        if options.filter is not None or options.limit is not None:
            raise UnsupportedError(
                f"dataset {options.path!r}: is read with a filter or limit; name the table itself "
                "to change its rows"
            )
        return dataset


def _of_paths(options: dict[str, str]) -> list[dict[str, str]]:
    """Split the options of a reader into the options of each of its tables.

    Raises:
        InvalidInputError: an empty list of paths, or several paths with a limit, which would apply
            to all tables together.
    """
    if "paths" not in options:
        return [options]
    paths = json.loads(options["paths"])
    if not paths or "limit" in {name.lower() for name in options}:
        raise InvalidInputError(f"paths={paths}: expected some, without the option limit")
    others = {name: text for name, text in options.items() if name != "paths"}
    return [{**others, "path": path} for path in paths]


def _common_columns(schemas: Sequence[StructType], paths: Sequence[str]) -> StructType:
    """Return the columns of several tables; a column that is nullable in one is nullable.

    Raises:
        InvalidInputError: a table's columns differ from the first table's.
    """
    first = schemas[0]
    for schema, path in zip(schemas, paths, strict=True):
        if [(field.name, field.dataType) for field in schema] != [
            (field.name, field.dataType) for field in first
        ]:
            raise InvalidInputError(
                f"{path!r} has columns {schema.simpleString()}, {paths[0]!r} has "
                f"{first.simpleString()}; name those that all have by the option `columns`"
            )
    return StructType(
        [
            StructField(
                field.name,
                field.dataType,
                any(schema[i].nullable for schema in schemas),
                field.metadata,
            )
            for i, field in enumerate(first)
        ]
    )


def _common(texts: Sequence[str | None]) -> str | None:
    """Return the filter if it is the same for all tables; otherwise None, and Spark filters."""
    return texts[0] if len(set(texts)) == 1 else None


def _of_all(plans: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Combine the plans of several tables; each partition has its own work."""
    return {
        "work": plans[0]["work"],
        "partitions": [
            {**piece, "work": plan["work"]} for plan in plans for piece in plan["partitions"]
        ],
        "rows": sum(plan["rows"] for plan in plans),
        "bytes": sum(plan["bytes"] for plan in plans),
    }


def shown_config(dataset: Dataset) -> dict[str, str]:
    """Return the configuration of a table without alance's internal entries."""
    return {key: text for key, text in dataset.config.items() if key != PRODUCERS_KEY}


def joined(filters: Sequence[str | None]) -> str | None:
    """Join conditions by AND; None if there are none."""
    return " AND ".join(f"({text})" for text in filters if text is not None) or None


def _pushed(
    predicates: list[dict[str, object]], options: ReadOptions, dataset: Dataset
) -> list[str | None]:
    """Translate filters to SQL; None for each filter that is left to Spark.

    With a limit, all filters are left to Spark, because the limit applies first.
    """
    if options.limit is not None:
        return [None] * len(predicates)
    return [sql_of(tree_of(predicate), dataset.schema) for predicate in predicates]


def _aggregates(
    trees: list[dict[str, object]], options: ReadOptions, dataset: Dataset
) -> tuple[Aggregate, ...] | None:
    """Return the aggregates that tasks compute; None if Spark has to compute any of them."""
    if options.limit is not None:
        return None
    aggregates = []
    for node in trees:
        match tree_of(node):
            case FilterCall("COUNT", ()):
                aggregates.append(Aggregate(COUNT_OP, None))
            case FilterCall("COUNT", (FilterColumn((name,)),)) if name in dataset.schema.names:
                aggregates.append(Aggregate(COUNT_OP, name))
            case FilterCall(("MIN" | "MAX") as op, (FilterColumn((name,)),)) if column_of(
                (name,), dataset.schema
            ) is not None and _is_ordered(dataset.schema.field(name).type):
                aggregates.append(Aggregate(op, name))
            case _:
                return None
    return tuple(aggregates)


def _orderings(
    keys: Sequence[Mapping[str, Any]], options: ReadOptions, dataset: Dataset
) -> tuple[ColumnOrdering, ...]:
    """Translate the requested order of rows; empty if the order is left to Spark."""
    orderings = []
    for key in keys:
        column = column_of(key.get("column", ()), dataset.schema)
        if column is None or len(key["column"]) > 1 or options.limit is not None:
            return ()
        # Spark considers truncated times equal that have an order here.
        if not (_is_ordered(column[1]) and is_exact(column[1])) and not (
            pa.types.is_floating(column[1]) or pa.types.is_boolean(column[1])
        ):
            return ()
        orderings.append(
            ColumnOrdering(
                key["column"][0], ascending=key["ascending"], nulls_first=key["nulls_first"]
            )
        )
    return tuple(orderings)


def _is_ordered(kind: pa.DataType) -> bool:
    """True if Arrow and Spark agree on the least and greatest values of a type."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_decimal128(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
    )


def _result(aggregates: tuple[Aggregate, ...], dataset: Dataset) -> StructType:
    columns = spark_schema(dataset.schema)
    fields = []
    for aggregate in aggregates:
        is_count = aggregate.op == COUNT_OP
        name = f"{aggregate.op.lower()}({aggregate.column or '*'})"
        kind = LongType() if is_count else columns[aggregate.column or ""].dataType
        fields.append(StructField(name, kind, not is_count))
    return StructType(fields)


async def _planned(
    request: Mapping[str, Any], options: ReadOptions, dataset: Dataset
) -> dict[str, Any]:
    """Plan the tasks of a query, and estimate the rows and bytes that they read."""
    work = await asyncio.to_thread(_work, request, options, dataset)
    names = [key.column_name for key in work.order] or work.columns
    aggregates = {(own.op, own.column) for own in work.aggregates or ()}
    counts = aggregates == {(COUNT_OP, None)}
    selected = await selected_rows(dataset, names, work.options, counts=counts)
    return await asyncio.to_thread(_tasks, request, work, dataset, selected)


def _work(request: Mapping[str, Any], options: ReadOptions, dataset: Dataset) -> PartitionWork:
    """Return the part of a query's work that all its tasks share."""
    filters = [options.filter, *request.get("filters", ())]
    limits = [limit for limit in (options.limit, request.get("limit")) if limit is not None]
    options = replace(options, filter=joined(filters), limit=min(limits, default=None))
    row_type = StructType.fromJson(json.loads(request["schema"]))
    aggregates, columns = None, row_type
    if "aggregates" in request:
        aggregates = _aggregates(request["aggregates"], replace(options, limit=None), dataset)
        assert aggregates is not None
        columns = _aggregated(aggregates, dataset)
    # Struct members that the reader's options name are columns of their own, read unchanged.
    flat = not {*dataset.schema.names, *META}.issuperset(columns.names)
    paths = columns.names if flat else member_paths(dataset.schema, arrow_schema(columns))
    order = _orderings(request.get("order", ()), options, dataset)
    if order:  # few rows are read, so members are not pruned
        flat, paths = True, columns.names
    return PartitionWork(
        Version.of(dataset, options),
        options,
        arrow_schema(columns),
        tuple(paths),
        flat,
        aggregates,
        arrow_schema(row_type),
        marks=_marks(columns.names, dataset, options) if request.get("marks") else (),
        order=order,
        first=request["first"] if order else None,
    )


def _tasks(
    request: Mapping[str, Any],
    work: PartitionWork,
    dataset: Dataset,
    selected: SelectedRows | None,
) -> dict[str, Any]:
    """Cut a query into tasks, and estimate the rows and bytes that they read."""
    names = [key.column_name for key in work.order] or work.columns
    options = work.options
    partitions = planned(dataset, names, options, selected=selected)
    pieces = [rows.pieces for rows in partitions]
    num_counted = 0 if selected is None else selected.num_counted
    if work.aggregates is not None and (num_counted or not pieces):
        pieces.append(())  # this task adds the rows that indices counted, at least 0
    share = _selectivity(request.get("filters", ()))
    num_rows, num_bytes = _estimated(work, dataset, len(pieces), share, selected)
    return {
        "work": _text(replace(work, num_counted=num_counted).dumps()),
        "partitions": [{"pieces": _text(pickle.dumps(piece))} for piece in pieces],
        "rows": num_rows,
        "bytes": num_bytes,
    }


def _aggregated(aggregates: tuple[Aggregate, ...], dataset: Dataset) -> StructType:
    """Return the columns to read for aggregates."""
    names = {aggregate.column for aggregate in aggregates}
    return StructType([field for field in spark_schema(dataset.schema) if field.name in names])


def _estimated(
    work: PartitionWork,
    dataset: Dataset,
    num_tasks: int,
    share: float,
    selected: SelectedRows | None,
) -> tuple[int, int]:
    """Estimate the rows and bytes that all tasks return.

    Args:
        share: estimated share of the rows that pass the filter.
    """
    fragments = fragments_of(dataset)
    rows = sum(fragment.num_rows or 0 for fragment in fragments)
    num_bytes = max(_encoded_bytes(dataset, work.columns), rows * _row_bytes(work.schema))
    passing = int(rows * share)
    if selected is not None:
        passing = min(passing, sum(map(selected.num_rows, fragments)))
    if work.options.limit is not None:
        passing = min(passing, work.options.limit)
    if work.first is not None:
        passing = min(passing, work.first * num_tasks)
    return passing, num_bytes * passing // max(rows, 1)


def _marks(names: Sequence[str], dataset: Dataset, options: ReadOptions) -> tuple[str, ...]:
    """Return the columns read as blob descriptions, if row addresses are read too; else ()."""
    blobs = {field.name for field in described(dataset, options) if is_blob(field)}
    return tuple(name for name in names if name in blobs and ROW_ADDRESS in names)


def _selectivity(filters: Sequence[str]) -> float:
    """Estimate the selectivity of filters by their operators, as optimizers do."""
    share = 1.0
    for text in filters:
        if not any(word in text for word in (" OR ", "NOT ", " <> ")):
            share *= next((part for sign, part in SHARES.items() if sign in text), 1.0)
    return max(LEAST_SHARE, share)


def _encoded_bytes(dataset: Dataset, names: Sequence[str]) -> int:
    fragments, ids = fragments_of(dataset), field_ids(dataset, names)
    step = len(fragments) // SAMPLE + 1
    return step * sum(fragment_bytes(fragment, ids) for fragment in fragments[::step])


def _row_bytes(schema: pa.Schema) -> int:
    """Estimate the decoded bytes of a row as Spark does, which may far exceed the encoded bytes."""
    return 8 + sum(_width(field.type) for field in schema)


def _width(kind: pa.DataType) -> int:
    if pa.types.is_struct(kind):
        return sum(_width(field.type) for field in kind)
    if is_list(kind) or pa.types.is_map(kind):
        return TEXT_BYTES
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return TEXT_BYTES


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
