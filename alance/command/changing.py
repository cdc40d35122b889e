"""Commands that write: `write`, `append`, `upsert`, `update`, `delete`, `cleanup`, `index`, ..."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import alance
from alance.command.arguments import (
    add,
    add_confirmation,
    add_version,
    age,
    confirm,
    connected,
    names,
    opened,
    options,
    pair,
    storage,
    table_name,
)
from alance.command.files import FORMAT_BY_ENDING, reader_of
from alance.command.lakes import LAKE_FORMATS
from alance.command.output import OutputFacts, OutputRows, Size, human_bytes
from alance.command.terminal import is_terminal

if TYPE_CHECKING:
    import argparse

    import pyarrow as pa

    from alance import Dataset
    from alance.command.arguments import Parsers
    from alance.types import CleanupStats, CompactionArguments

VECTOR_KINDS = ("IVF_",)


def add_to(parsers: Parsers) -> None:
    """Add the subcommands of this module."""
    _add_writes(parsers)
    _add_changes(parsers)
    _add_index(parsers)


def _add_writes(parsers: Parsers) -> None:
    for name, run, summary in (
        ("write", write, "make a table of files, or of a Delta or Iceberg table"),
        ("append", append, "add the rows of files to a table"),
        ("upsert", upsert, "update the rows that have the keys of rows of files; add the others"),
    ):
        parser = add(parsers, name, run, summary)
        parser.add_argument(
            "files",
            nargs="+",
            help="paths or URIs of files with the same columns, of folders of such files, or "
            "patterns in quotes",
        )
        parser.add_argument(
            "--from-storage",
            action="append",
            type=pair,
            metavar="KEY=VALUE",
            help="an option of the store of the files; default: the environment",
        )
        parser.add_argument(
            "--format",
            choices=[*sorted(set(FORMAT_BY_ENDING.values())), *LAKE_FORMATS],
            help="of the files, or of a table in a store; folders with a table are recognized",
        )
        parser.add_argument(
            "--without-folders",
            action="store_true",
            help="do not make columns of folders named KEY=VALUE",
        )
        if name == "upsert":
            parser.add_argument(
                "--on", type=names, help="key columns; default: the table's primary key"
            )
            continue
        parser.add_argument(
            "--max-rows-per-file", type=int, help="begin a new file after so many rows"
        )
        if name == "write":
            parser.add_argument("--overwrite", action="store_true", help="replace a table's rows")
            parser.add_argument("--file-version", help="2.0, 2.1, 2.2 (default)")
            parser.add_argument("--stable-row-ids", action="store_true")
    parser = add(parsers, "copy", copy, "copy a version to another place, as a new table")
    parser.add_argument("target", help="path or URI of the new table")
    parser.add_argument(
        "--to-storage",
        action="append",
        type=pair,
        metavar="KEY=VALUE",
        help="an option of the target's store; default: those of --storage, in a store of its kind",
    )
    add_version(parser)


def _add_changes(parsers: Parsers) -> None:
    parser = add(parsers, "update", update, "set columns of rows to new values")
    parser.add_argument(
        "--set",
        action="append",
        type=pair,
        required=True,
        metavar="COLUMN=SQL",
        help='such as "price=price * 2" or "name=\'ann\'"; may be repeated',
    )
    parser.add_argument("--filter", help="a condition in SQL; default: all rows")
    parser.add_argument("--dry-run", action="store_true", help="only count the rows")
    parser = add(parsers, "delete", delete, "delete the rows for which a condition is true")
    parser.add_argument("filter", help="a condition in SQL")
    parser.add_argument("--dry-run", action="store_true", help="only count the rows")
    parser = add(
        parsers, "compact", compact, "rewrite fragments that are small or have many deleted rows"
    )
    parser.add_argument("--target-rows", type=int, help="rows of a fragment; default: 1 048 576")
    parser = add(parsers, "cleanup", cleanup, "remove old versions, and files that only they need")
    parser.add_argument(
        "--older-than", type=age, metavar="TIME", help="such as 12h, 7d or 2w; default: 14d"
    )
    parser.add_argument("--keep", type=int, metavar="N", help="keep the last N versions")
    add_confirmation(parser, what="count only")
    parser.add_argument(
        "--keep-tagged", action="store_true", help="keep tagged versions, instead of failing"
    )


def _add_index(parsers: Parsers) -> None:
    parser = add(parsers, "index", index, "list, make, drop or update indices")
    parser.add_argument("--create", metavar="COLUMN", help="make an index of a column")
    parser.add_argument("--type", help="BTREE, BITMAP, IVF_PQ, ...; default: BTREE")
    parser.add_argument("--name", help="default: COLUMN_idx")
    parser.add_argument("--option", action="append", type=pair, metavar="KEY=VALUE")
    parser.add_argument("--drop", metavar="NAME", help="drop an index")
    parser.add_argument("--optimize", action="store_true", help="cover new rows")
    parser.add_argument("--statistics", metavar="NAME", help="what an index covers")
    add_version(parser)


async def write(args: argparse.Namespace) -> OutputFacts:
    """Write files as a new table, or replace the rows of a table by them."""
    mode = "overwrite" if args.overwrite else "create"
    stable = args.stable_row_ids
    return await _written(args, mode, data_storage_version=args.file_version, stable_row_ids=stable)


async def append(args: argparse.Namespace) -> OutputFacts:
    """Append the rows of files to a table."""
    dataset = await opened(args)  # raises if there is no table, which a write would create
    return await _written(args, "append", dataset.schema)


async def _written(
    args: argparse.Namespace, mode: Any, types: pa.Schema | None = None, **more: Any
) -> OutputFacts:
    if args.max_rows_per_file is not None:
        more["max_rows_per_file"] = args.max_rows_per_file
    more |= {"mode": mode, "progress": is_terminal()}
    data = _reader(args, types)
    if args.catalog is None:
        dataset = await alance.write_dataset(data, args.uri, storage_options=storage(args), **more)
    else:
        catalog = await connected(args, args.catalog)
        dataset = await catalog.create_table(table_name(args.uri), data, **more)
    rows = dataset.summary.num_inserted_rows
    return OutputFacts({"uri": dataset.uri, "version": dataset.version, "rows_written": rows})


def _reader(args: argparse.Namespace, types: pa.Schema | None) -> pa.RecordBatchReader:
    return reader_of(
        args.files,
        args.format,
        types,
        with_folders=not args.without_folders,
        storage=dict(args.from_storage or ()),
    )


async def upsert(args: argparse.Namespace) -> OutputFacts:
    """Merge the rows of files into a table by key."""
    dataset = await opened(args)
    return _changed(await dataset.upsert(_reader(args, dataset.schema), args.on))


async def update(args: argparse.Namespace) -> OutputFacts:
    """Set columns of the rows for which a condition is true."""
    dataset = await opened(args)
    if args.dry_run:
        return OutputFacts({"rows_to_update": await dataset.count_rows(args.filter)})
    updates = dict(args.set)
    try:
        return _changed(await dataset.update(updates, args.filter))
    except alance.InvalidInputError as error:
        words = {"true", "false", "null", *dataset.schema.names}
        for column, text in updates.items():
            if text.isidentifier() and text.lower() not in words:
                hint = f"a text is in quotes: --set \"{column}='{text}'\""
                raise alance.InvalidInputError(f"{error}; {hint}") from error
        raise


async def copy(args: argparse.Namespace) -> OutputFacts:
    """Copy a version with all its files to another place."""
    dataset = await opened(args)
    to_storage = dict(args.to_storage) if args.to_storage else None
    copied = await dataset.deep_clone(
        args.target, storage_options=to_storage, progress=is_terminal()
    )
    stats = await copied.stats()
    return OutputFacts(
        {
            "uri": copied.uri,
            "version": copied.version,
            "rows": stats.num_rows,
            "data_files": stats.num_data_files,
            "data_bytes": Size(stats.num_bytes),
        }
    )


async def delete(args: argparse.Namespace) -> OutputFacts:
    """Delete the rows for which a condition is true."""
    dataset = await opened(args)
    if args.dry_run:
        return OutputFacts({"rows_to_delete": await dataset.count_rows(args.filter)})
    return _changed(await dataset.delete(args.filter))


async def compact(args: argparse.Namespace) -> OutputFacts:
    """Compact small fragments, and fragments with many deleted rows."""
    more: CompactionArguments = {}
    if args.target_rows is not None:
        more["target_rows_per_fragment"] = args.target_rows
    dataset = await opened(args)
    return _changed(await dataset.optimize.compact_files(progress=is_terminal(), **more))


def _changed(dataset: Dataset) -> OutputFacts:
    return OutputFacts({"uri": dataset.uri, "version": dataset.version, **dataset.summary})


async def cleanup(args: argparse.Namespace) -> OutputFacts:
    """Remove old versions; the question for confirmation has their number and bytes."""
    dataset = await opened(args)

    async def clean(*, dry_run: bool) -> CleanupStats:
        return await dataset.cleanup_old_versions(
            args.older_than,
            args.keep,
            error_if_tagged_old_versions=not args.keep_tagged,
            dry_run=dry_run,
            progress=is_terminal(),
        )

    if args.dry_run or not args.yes:
        stats = await clean(dry_run=True)
        num_bytes = human_bytes(stats.bytes_removed)
        if not args.dry_run and stats.bytes_removed:
            confirm(args, f"remove {stats.old_versions} versions of {args.uri}, {num_bytes}")
    if not args.dry_run:
        stats = await clean(dry_run=False)
    facts = {name: getattr(stats, name) for name in stats.__dataclass_fields__}
    return OutputFacts(facts | {"bytes_removed": Size(stats.bytes_removed)})


async def index(args: argparse.Namespace) -> OutputFacts | OutputRows:
    """Change indices, then list them."""
    dataset = await opened(args)
    if args.create:
        dataset = await _indexed(dataset, args)
    if args.drop:
        dataset = await dataset.drop_index(args.drop)
    if args.optimize:
        dataset = await dataset.optimize.optimize_indices(progress=is_terminal())
    if args.statistics:
        return OutputFacts(await dataset.index_statistics(args.statistics))
    rows = [
        {
            "index": segment["name"],
            "type": segment["type"],
            "fields": segment["fields"],
            "fragments": len(segment["fragment_ids"] or ()),
            "of_version": segment["version"],
            "uuid": str(segment["uuid"]),
        }
        for segment in dataset.list_indices()
    ]
    names = ("index", "type", "fields", "fragments", "of_version", "uuid")
    return OutputRows(rows, names, right=frozenset({"fragments", "of_version"}))


async def _indexed(dataset: Dataset, args: argparse.Namespace) -> Dataset:
    kind: Any = (args.type or "BTREE").upper()  # alance refuses an unknown one
    more = {"progress": is_terminal(), **options(args.option)}
    if kind.startswith(VECTOR_KINDS):
        return await dataset.create_index(args.create, kind, args.name, **more)
    return await dataset.create_scalar_index(args.create, kind, args.name, **more)
