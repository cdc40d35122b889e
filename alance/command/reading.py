"""Commands that read: `info`, `schema`, `head`, `take`, `cat`, `sql`, `search`, `count`, ..."""

from __future__ import annotations

import sys
from contextlib import aclosing
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import alance
from alance.command.arguments import (
    add,
    add_reclaimable,
    add_rows,
    add_version,
    names,
    numbers,
    opened,
    options,
    pair,
    storage,
    vector,
)
from alance.command.output import OutputFacts, OutputRows, Size, Text, as_json
from alance.command.terminal import EscapedFile
from alance.serve.json_rows import is_binary, json_rows, json_values
from alance.serve.values import dicts

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from alance import Dataset
    from alance.command.arguments import Parsers

OUTPUT_FORMATS = ("jsonl", "csv", "arrow", "parquet")


def add_to(parsers: Parsers) -> None:
    """Add the subcommands of this module."""
    parser = add(parsers, "info", info, "what a table is: rows, size, version, columns, indices")
    add_version(parser)
    add_reclaimable(parser)
    parser = add(parsers, "schema", schema, "the columns with their types and metadata")
    add_version(parser)
    parser = add(parsers, "head", head, "the first rows")
    parser.add_argument("-n", "--num-rows", type=int, default=10, help="default: 10")
    add_version(parser)
    add_rows(parser)
    parser = add(parsers, "take", take, "rows by position")
    parser.add_argument("rows", type=numbers, help="positions from 0, such as 3,17,100-110")
    parser.add_argument("--columns", type=names, help="names or dotted paths")
    add_version(parser)
    parser = add(parsers, "cat", cat, "all rows to the output, as a stream")
    parser.add_argument("--format", choices=OUTPUT_FORMATS, default="jsonl", help="default: jsonl")
    parser.add_argument("--limit", type=int, help="at most so many rows")
    add_version(parser)
    add_rows(parser)
    _add_sql(parsers)
    _add_search(parsers)
    parser = add(parsers, "count", count, "the number of rows")
    parser.add_argument("--filter", help="a condition in SQL")
    add_version(parser)
    parser = add(parsers, "explain", explain, "what a scan would read, and why, without reading it")
    add_version(parser)
    add_rows(parser)


def _add_sql(parsers: Parsers) -> None:
    parser = add(parsers, "sql", sql, "a query in SQL, by DuckDB; the table is named `dataset`")
    parser.add_argument("query", help='such as "select kind, count(*) from dataset group by kind"')
    parser.add_argument(
        "--format", choices=OUTPUT_FORMATS, help="write the result to the output in this format"
    )
    parser.add_argument(
        "--table",
        action="append",
        type=pair,
        metavar="NAME=URI",
        help="another table for the query",
    )
    parser.add_argument(
        "--setting",
        action="append",
        type=pair,
        metavar="KEY=VALUE",
        help="a setting of DuckDB, such as threads=2",
    )
    add_version(parser)


def _add_search(parsers: Parsers) -> None:
    parser = add(
        parsers, "search", search, "the rows that match words best, or are nearest to a vector"
    )
    parser.add_argument("text", nargs="?", help="words, or a phrase: '\"quick fox\"'")
    parser.add_argument(
        "--vector", type=vector, metavar="NUMBERS", help="such as [0.1,0.2]; may stand beside words"
    )
    parser.add_argument("--on", type=names, metavar="COLUMNS", help="columns of the words")
    parser.add_argument(
        "--vector-column", metavar="COLUMN", help="column of vectors; default: the only one"
    )
    parser.add_argument("-k", type=int, default=10, help="number of rows; default: 10")
    add_version(parser)
    add_rows(parser)


async def info(args: argparse.Namespace) -> OutputFacts:
    """Describe a table."""
    dataset = await opened(args)
    stats = await dataset.stats()
    upkeep = await _upkeep(args, dataset)
    return OutputFacts(
        {
            "uri": dataset.uri,
            "version": dataset.version,
            "branch": dataset.branch or "main",
            "committed": dataset.timestamp,
            "rows": stats.num_rows,
            "deleted_rows": stats.num_deleted_rows,
            "fragments": stats.num_fragments,
            "small_fragments": stats.num_small_fragments,
            "data_files": stats.num_data_files,
            "data_bytes": Size(stats.num_bytes),
            "file_version": dataset.data_storage_version.value,
            "stable_row_ids": dataset.has_stable_row_ids,
            "columns": [f"{field.name}: {field.type}" for field in dataset.schema],
            "indices": [
                f"{index['name']} ({index['type']}) of {', '.join(index['fields'])}"
                for index in dataset.list_indices()
            ],
            "config": dataset.config,
            **upkeep,
        }
    )


async def _upkeep(args: argparse.Namespace, dataset: alance.Dataset) -> dict[str, Any]:
    """Return the facts of a table's maintenance for `info`."""
    try:
        health = await dataset.health(reclaimable=args.reclaimable)
    except alance.UnsupportedError:  # a plain HTTP server does not list the versions
        if args.reclaimable:
            raise
        return {}
    facts: dict[str, Any] = {
        "unindexed_rows": {index.name: index.num_unindexed_rows for index in health.indices},
        "last_maintenance": None,
    }
    if (run := health.last_run) is not None:
        age = (datetime.now(UTC) - run.finished_at).total_seconds()
        facts["last_maintenance"] = (
            asdict(run) | {"age_seconds": age}
            if args.json
            else f"{timedelta(seconds=round(age))} ago, by {run.holder}"
        )
    if args.reclaimable:
        facts["reclaimable_bytes"] = Size(health.num_reclaimable_bytes or 0)
        facts["reclaimable_files"] = health.num_reclaimable_files
    return facts


def all_fields(dataset: Dataset) -> list[tuple[str, Any]]:
    """Return all columns, each before the fields in it, with their dotted paths."""
    fields: list[tuple[str, Any]] = []

    def walk(field: Any, parent: str) -> None:
        path = f"{parent}{field.name}"
        fields.append((path, field))
        for child in field.children:
            walk(child, f"{path}.")

    for root in dataset.fields:
        walk(root, "")
    return fields


async def schema(args: argparse.Namespace) -> OutputRows:
    """List the columns."""
    rows = []
    for path, field in all_fields(await opened(args)):
        metadata = field.to_arrow().metadata or {}
        rows.append(
            {
                "id": field.id,
                "column": path,
                "type": str(field.arrow_type),
                "nullable": field.nullable,
                "metadata": {key.decode(): value.decode() for key, value in metadata.items()},
            }
        )
    return OutputRows(
        rows, ("id", "column", "type", "nullable", "metadata"), right=frozenset({"id"})
    )


async def head(args: argparse.Namespace) -> OutputRows:
    """Read the first rows."""
    dataset = await opened(args)
    scanner = dataset.scanner(args.columns, filter=args.filter, limit=args.num_rows)
    return _rows(args, await scanner.to_table())


async def take(args: argparse.Namespace) -> OutputRows:
    """Read rows by position."""
    dataset = await opened(args)
    return _rows(args, await dataset.take(args.rows, args.columns))


async def cat(args: argparse.Namespace) -> None:
    """Print all rows, batch by batch."""
    dataset = await opened(args)
    scanner = dataset.scanner(args.columns, filter=args.filter, limit=args.limit)
    form = "jsonl" if args.json else args.format
    with _writer(form, scanner.projected_schema) as write:
        async with aclosing(scanner.to_batches()) as batches:
            async for batch in batches:
                write.write_batch(batch)


async def sql(args: argparse.Namespace) -> OutputRows | None:
    """Run a query; return its result as a table, or stream it in `--format` and return None."""
    dataset = await opened(args)
    others = {
        name: await alance.dataset(uri, storage_options=storage(args))
        for name, uri in args.table or ()
    }
    settings = options(args.setting)
    form = "jsonl" if args.json else args.format
    if form is None:
        return _rows(args, await dataset.sql(args.query, tables=others, settings=settings))
    async with aclosing(
        dataset.sql_batches(args.query, tables=others, settings=settings)
    ) as batches:
        first = await anext(batches)
        with _writer(form, first.schema) as write:
            write.write_batch(first)
            async for batch in batches:
                write.write_batch(batch)
    return None


async def search(args: argparse.Namespace) -> OutputRows:
    """Search by words, by a vector, or by both."""
    dataset = await opened(args)
    more: Any = {"columns": args.columns, "filter": args.filter}
    if args.vector is None:
        if args.text is None:
            raise alance.InvalidInputError("search: expected words, or --vector 0.1,0.2,...")
        return _rows(args, await dataset.search_text(args.text, args.k, on=args.on, **more))
    if args.text is not None:
        more |= {"on": args.on, "vector_column": args.vector_column}
        return _rows(args, await dataset.search(args.text, args.vector, args.k, **more))
    column = args.vector_column or _vector_column(dataset)
    return _rows(args, await dataset.nearest(column, args.vector, args.k, **more))


def _vector_column(dataset: alance.Dataset) -> str:
    """Return the name of the only column of vectors.

    Raises:
        InvalidInputError: there is no such column, or there are several.
    """
    vectors = [field.name for field in dataset.schema if pa.types.is_fixed_size_list(field.type)]
    if len(vectors) != 1:
        among = f", such as {vectors[0]}" if vectors else f"; columns: {dataset.schema.names}"
        raise alance.InvalidInputError(
            f"--vector: the table has {len(vectors)} columns of vectors; add --vector-column{among}"
        )
    return str(vectors[0])


async def count(args: argparse.Namespace) -> Text:
    """Count rows."""
    dataset = await opened(args)
    num_rows = await dataset.count_rows(args.filter)
    return Text(str(num_rows), {"rows": num_rows})


async def explain(args: argparse.Namespace) -> Text:
    """Explain the plan of a scan."""
    dataset = await opened(args)
    plan = str(await dataset.scanner(args.columns, filter=args.filter).explain())
    return Text(plan, {"plan": plan.splitlines()})


def _rows(args: argparse.Namespace, table: pa.Table) -> OutputRows:
    right = {
        field.name
        for field in table.schema
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
    }
    rows = json_rows(table) if args.json else dicts(table)
    return OutputRows(rows, table.schema.names, right=frozenset(right))


def _writer(form: str, schema: pa.Schema) -> Any:
    """Return a context manager whose `write_batch` writes to standard output.

    Raises:
        InvalidInputError: the format is binary, and standard output is a terminal.
    """
    sink: Any = sys.stdout.buffer
    if form == "csv":
        return _Csv(EscapedFile(sink) if sys.stdout.isatty() else sink, schema)
    if form == "jsonl":
        return _JsonLines(sink.write)
    if sys.stdout.isatty():
        raise alance.InvalidInputError(
            f"--format {form}: expected a file or a pipe, not a terminal"
        )
    if form == "arrow":
        return pa.ipc.new_stream(sink, schema)
    from pyarrow import parquet

    return parquet.ParquetWriter(sink, schema)


class _Csv:
    """Writer of CSV; values of types that CSV lacks (bytes, lists, structs, ...) become JSON."""

    def __init__(self, sink: Any, schema: pa.Schema) -> None:
        from pyarrow import csv

        self._schema = pa.schema([(field.name, _csv_type(field.type)) for field in schema])
        self._writer = csv.CSVWriter(sink, self._schema)

    def __enter__(self) -> _Csv:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def write_batch(self, batch: pa.RecordBatch) -> None:
        columns = [
            column if column.type.equals(field.type) else _csv_texts(column)
            for column, field in zip(batch.columns, self._schema, strict=True)
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))


def _csv_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind if _csv_type(kind.value_type).equals(kind.value_type) else pa.string()
    if isinstance(kind, pa.BaseExtensionType) or pa.types.is_nested(kind) or is_binary(kind):
        return pa.string()
    return kind


def _csv_texts(column: pa.Array) -> pa.Array:
    texts = [
        value if value is None or isinstance(value, str) else as_json(value)
        for value in json_values(column)
    ]
    return pa.array(texts, pa.string())


class _JsonLines:
    """Writer of JSON lines, one object per row."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write

    def __enter__(self) -> _JsonLines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def write_batch(self, batch: pa.RecordBatch) -> None:
        lines = [as_json(row) + "\n" for row in json_rows(batch)]
        self._write("".join(lines).encode())
