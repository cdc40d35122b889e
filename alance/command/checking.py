"""Commands that check or inspect: `validate`, `repair`, `check-store`, `inspect`, `trace`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import alance
from alance.command.arguments import add, add_rows, add_version, numbers, opened, storage
from alance.command.output import Lines, OutputRows, Size, Text, human_bytes
from alance.viz.file_page import file_page

if TYPE_CHECKING:
    import argparse

    from alance.command.arguments import Parsers
    from alance.types import FileDescription


def add_to(parsers: Parsers) -> None:
    """Add the subcommands of this module."""
    parser = add(parsers, "validate", validate, "check a version against the format")
    add_version(parser)
    parser = add(
        parsers,
        "repair",
        repair,
        "mend the latest version in a new one, without losing rows",
        in_catalog=False,
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="only say what would be done (the default)"
    )
    parser.add_argument("--yes", action="store_true", help="do it")
    parser.add_argument(
        "--restore",
        action="store_true",
        help="go back to an intact version if mending is not enough",
    )
    parser.add_argument(
        "--drop-lost-rows",
        action="store_true",
        help="drop fragments with a data file that is missing or cannot be read",
    )
    add(
        parsers,
        "check-store",
        check_store,
        "check that a store can do what reads, writes and commits need",
        in_catalog=False,
    )
    parser = add(
        parsers,
        "inspect",
        inspect,
        "columns, pages and encodings of one data file",
        in_catalog=False,
    )
    parser.add_argument("--pages", action="store_true", help="a row for each page")
    parser.add_argument("--html", metavar="FILE", help="draw it as a page")
    parser = add(parsers, "trace", trace, "the requests of a read, as text or as a page (--html)")
    parser.add_argument("--html", metavar="FILE", help="write the picture to this file")
    parser.add_argument("--take", type=numbers, help="trace a take of these rows; default: a scan")
    add_version(parser)
    add_rows(parser)


async def validate(args: argparse.Namespace) -> Text:
    """Validate a version; exit status 2 if there are findings."""
    dataset = await opened(args)
    try:
        await dataset.validate()
    except alance.CorruptFileError as error:
        args.status = 2
        return Text(str(error), {"valid": False, "findings": str(error).splitlines()[1:]})
    text = f"{dataset.uri}, version {dataset.version}: nothing is wrong"
    return Text(text, {"valid": True, "findings": []})


async def repair(args: argparse.Namespace) -> Text:
    """Show or apply the repairs of a table; exit status 2 if damage remains."""
    if args.dry_run and args.yes:
        raise alance.InvalidInputError("--dry-run and --yes: expected one of them")
    report = await alance.repair(
        args.uri,
        dry_run=not args.yes,
        restore=args.restore,
        drop_lost_rows=args.drop_lost_rows,
        storage_options=storage(args),
    )
    is_pending = bool(report.remedies) and report.new_version is None
    args.status = 2 if report.left or is_pending else 0
    text = f"{report}\nrun it with --yes to do this" if is_pending else str(report)
    return Text(text, {name: getattr(report, name) for name in report.__dataclass_fields__})


async def check_store(args: argparse.Namespace) -> Text:
    """Check a store; exit status 2 if a check fails."""
    report = await alance.check_store(args.uri, storage_options=storage(args))
    args.status = 2 if report.failures else 0
    checks = [
        {"name": check.name, "purpose": check.purpose, "failure": check.failure}
        for check in report.checks
    ]
    return Text(str(report), {"root": report.root, "checks": checks})


async def inspect(args: argparse.Namespace) -> OutputRows | Text:
    """Describe the columns and pages of a data file."""
    reader = await alance.FileReader.open(args.uri, storage_options=storage(args))
    file = await reader.describe()
    if args.html:
        _write(args.html, file_page(file))
        return Text(f"{args.html}: {len(file.columns)} columns", {"html": args.html})
    return _pages(file) if args.pages else _columns(file, as_json=args.json)


def _write(path: str, text: str) -> None:
    Path(path).write_text(text, encoding="utf-8")


def _columns(file: FileDescription, *, as_json: bool) -> OutputRows:
    total = sum(column.num_bytes for column in file.columns) or 1
    rows = [
        {
            "column": column.path,
            "type": str(column.type),
            "pages": len(column.pages),
            "bytes": Size(column.num_bytes),
            "share": column.num_bytes / total
            if as_json
            else "█" * round(20 * column.num_bytes / total) or "▏",
            "encoding": list(column.layouts) if as_json else Lines(column.layouts),
        }
        for column in file.columns
    ]
    title = (
        f"{file.location}: version {file.version}, {file.num_rows:,} rows, "
        f"{human_bytes(file.num_bytes)}"
    )
    names = ("column", "type", "pages", "bytes", "share", "encoding")
    return OutputRows(rows, names, title, right=frozenset({"pages", "bytes"}))


def _pages(file: FileDescription) -> OutputRows:
    rows = [
        {
            "column": column.path,
            "page": number,
            "rows": page.num_rows,
            "start": page.start,
            "bytes": Size(page.num_bytes),
            "layout": page.layout,
            "encoding": page.encoding,
        }
        for column in file.columns
        for number, page in enumerate(column.pages)
    ]
    names = ("column", "page", "rows", "start", "bytes", "layout", "encoding")
    return OutputRows(rows, names, right=frozenset({"page", "rows", "start", "bytes"}))


async def trace(args: argparse.Namespace) -> Text:
    """Take or scan rows, and show the requests to the store."""
    with alance.trace() as recorder:
        dataset = await opened(args)
        if args.take is not None:
            await dataset.take(args.take, args.columns)
        else:
            async for _ in dataset.to_batches(args.columns, filter=args.filter):
                pass
    if args.html:
        recorder.to_html(args.html, title=args.uri)
    totals = recorder.totals
    return Text(
        recorder.summary(), {name: getattr(totals, name) for name in totals.__dataclass_fields__}
    )
