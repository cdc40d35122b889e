"""Commands that change columns: `add-columns`, `alter`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

import alance
from alance import InvalidInputError
from alance.blocking import did_you_mean
from alance.command.arguments import add, names, opened, pair
from alance.command.output import OutputFacts, OutputRows
from alance.command.reading import all_fields
from alance.command.terminal import is_terminal

if TYPE_CHECKING:
    import argparse

    from alance import Dataset
    from alance.command.arguments import Parsers

SHOWN_ROWS: Final = 5  # rows of new columns that a dry run computes


def add_to(parsers: Parsers) -> None:
    """Add the subcommands of this module."""
    parser = add(parsers, "add-columns", add_columns, "add columns, computed from others")
    parser.add_argument(
        "columns",
        nargs="*",
        type=pair,
        metavar="NAME=SQL",
        help='such as "total=price * amount"',
    )
    parser.add_argument(
        "--nulls",
        action="append",
        type=pair,
        metavar="NAME=TYPE",
        help="a column of nulls, such as note=text; may be repeated",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="only show the new columns of the first rows"
    )
    parser = add(parsers, "alter", alter, "rename, cast or drop columns; allow or forbid nulls")
    for option, metavar, summary in (
        ("--rename", "COLUMN=NAME", "a new name; may be repeated"),
        ("--cast", "COLUMN=TYPE", "a new type, such as price=decimal(10, 2); may be repeated"),
    ):
        parser.add_argument(option, action="append", type=pair, metavar=metavar, help=summary)
    for option, summary in (
        ("--nullable", "columns that may have nulls, with commas between"),
        ("--not-null", "columns without nulls, which get none any more"),
        ("--drop", "columns to drop; their bytes stay in the files"),
    ):
        parser.add_argument(option, type=names, default=[], metavar="COLUMNS", help=summary)
    parser.add_argument("--dry-run", action="store_true", help="only show what would change")


async def add_columns(args: argparse.Namespace) -> OutputFacts | OutputRows:
    """Add either columns by SQL expressions or columns of nulls."""
    dataset = await opened(args)
    computed = dict(args.columns)
    nulls = [
        pa.field(name, _parse_type(dataset, text)) for name, text in dict(args.nulls or ()).items()
    ]
    if not computed and not nulls:
        raise InvalidInputError('which columns? Such as "total=price * 2", or --nulls note=text')
    if computed and nulls:
        raise InvalidInputError("NAME=SQL and --nulls are two changes: run the command for each")
    if args.dry_run:
        if nulls:
            return OutputRows([{"column": field.name, "type": str(field.type)} for field in nulls])
        rows = await dataset.to_table(computed, limit=SHOWN_ROWS)
        return OutputRows(rows.to_pylist(), rows.schema.names)
    after = await dataset.add_columns(computed or nulls, progress=is_terminal())
    return _changed(after)


async def alter(args: argparse.Namespace) -> OutputFacts | OutputRows:
    """Rename, cast and drop columns, and change whether they may have nulls."""
    dataset = await opened(args)
    changes: dict[str, dict[str, Any]] = {}
    for path, name in args.rename or ():
        changes.setdefault(path, {})["name"] = name
    for path, text in args.cast or ():
        changes.setdefault(path, {})["data_type"] = _parse_type(dataset, text)
    for paths, flag in ((args.nullable, True), (args.not_null, False)):
        for path in paths:
            changes.setdefault(path, {})["nullable"] = flag
    if not changes and not args.drop:
        raise InvalidInputError(
            "nothing to change: --rename, --cast, --nullable, --not-null, --drop"
        )
    if changes and args.drop:
        raise InvalidInputError("--drop is a change of its own: run the command for it alone")
    if args.dry_run:
        return await _planned(dataset, changes, args.drop)
    if args.drop:
        return _changed(await dataset.drop_columns(args.drop))
    alterations = [{"path": path, **change} for path, change in changes.items()]
    return _changed(await dataset.alter_columns(*alterations, progress=is_terminal()))


def _changed(dataset: Dataset) -> OutputFacts:
    columns = [f"{field.name}: {field.type}" for field in dataset.schema]
    return OutputFacts({"uri": dataset.uri, "version": dataset.version, "columns": columns})


def _parse_type(dataset: Dataset, text: str) -> pa.DataType:
    """Return the type with a name of SQL, or with the name that `alance schema` prints.

    Raises:
        InvalidInputError: no such type.
    """
    try:
        return pa.type_for_alias(text)
    except ValueError:
        pass
    try:
        scanner = dataset.scanner({"value": f"CAST(NULL AS {text})"})
        return scanner.projected_schema.field("value").type
    except alance.AlanceError as error:
        raise InvalidInputError(
            f"type {text!r}: expected a type of SQL such as bigint, text or decimal(10, 2), or of "
            "Arrow such as int64 or timestamp[us]"
        ) from error


async def _planned(
    dataset: Dataset, changes: dict[str, dict[str, Any]], dropped: list[str]
) -> OutputRows:
    """Describe changes, and count the rows that they rewrite or that prevent them.

    Raises:
        InvalidInputError: no such column.
    """
    fields = dict(all_fields(dataset))
    rows = []
    for path in [*changes, *dropped]:
        if path not in fields:
            raise InvalidInputError(f"no field {path!r}{did_you_mean(path, fields)}")
        change = changes.get(path)
        row: dict[str, Any] = {
            "column": path,
            "type": str(fields[path].arrow_type),
            "change": _described(change),
        }
        touched = [
            index["name"]
            for index in dataset.list_indices()
            if any(f"{field}.".startswith(f"{path}.") for field in index["fields"])
        ]
        if change is None:
            row["loses_indices"] = touched
        elif "data_type" in change:
            row |= {"rewrites_rows": await dataset.count_rows(), "prevented_by_indices": touched}
        elif change.get("nullable") is False:
            names = [name.replace("`", "``") for name in path.split(".")]
            condition = ".".join(f"`{name}`" for name in names) + " IS NULL"
            row["prevented_by_nulls"] = await dataset.count_rows(condition)
        rows.append(row)
    columns = dict.fromkeys(name for row in rows for name in row)
    return OutputRows(rows, list(columns))


def _described(change: dict[str, Any] | None) -> str:
    if change is None:
        return "drop"
    texts = {
        "name": f"rename to {change.get('name')}",
        "data_type": f"cast to {change.get('data_type')}",
        "nullable": "allow nulls" if change.get("nullable") else "forbid nulls",
    }
    return ", ".join(texts[key] for key in change)
