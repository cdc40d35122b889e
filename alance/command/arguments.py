"""Arguments that subcommands share, and the opening of the table that they name."""

from __future__ import annotations

import argparse
import re
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import alance
from alance import InvalidInputError
from alance.command.terminal import escaped
from alance.optimize import parse_duration

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from typing import TypeAlias

    from alance import Catalog, Dataset
    from alance.command.output import Output

    Run: TypeAlias = Callable[[argparse.Namespace], Awaitable[Output | None]]
    Parsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


MAX_PORT: Final = 65535
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGT])i?B?|B)?", re.IGNORECASE)


def add(
    parsers: Parsers, name: str, run: Run, summary: str, *, in_catalog: bool = True
) -> argparse.ArgumentParser:
    """Add a subcommand on a URI, with the options that all subcommands have.

    Args:
        in_catalog: True if the first argument may be the name of a table in a catalog.
    """
    parser = parsers.add_parser(name, help=summary, description=summary[0].upper() + summary[1:])
    parser.set_defaults(run=run)
    what = "path, or URI such as s3://bucket/table"
    parser.add_argument("uri", help=f"{what}; with --in, a name" if in_catalog else what)
    if in_catalog:
        parser.add_argument(
            "--in",
            dest="catalog",
            metavar="CATALOG",
            help="a folder of tables, or the URI of a catalog server; the first argument is then "
            "the name of a table in it, such as users or shop/users",
        )
        add_header(parser)
    parser.add_argument(
        "--storage",
        action="append",
        type=pair,
        metavar="KEY=VALUE",
        help="an option of the store, added to those of the environment; may be repeated",
    )
    parser.add_argument(
        "--json", action="store_true", help="print JSON: one object, or one line per row"
    )
    return parser


def add_version(parser: argparse.ArgumentParser) -> None:
    """Add the options for the version of the table."""
    parser.add_argument("--version", type=version, help="a number or a tag; default: the latest")
    parser.add_argument("--branch", help="a branch; default: main")


def add_header(parser: argparse.ArgumentParser) -> None:
    """Add the option for the headers of a catalog server."""
    parser.add_argument(
        "--header",
        action="append",
        type=pair,
        metavar="NAME=VALUE",
        help="a header for a catalog server; may be repeated",
    )


def add_confirmation(parser: argparse.ArgumentParser, *, what: str = "only show it") -> None:
    """Add the options of a subcommand that deletes permanently."""
    parser.add_argument("--dry-run", action="store_true", help=what)
    parser.add_argument("--yes", action="store_true", help="do it without a question")


def add_reclaimable(parser: argparse.ArgumentParser) -> None:
    """Add the option to count the bytes that a cleanup would free."""
    parser.add_argument(
        "--reclaimable",
        action="store_true",
        help="also files and bytes that a cleanup would free; reads all versions",
    )


def add_rows(parser: argparse.ArgumentParser) -> None:
    """Add the options for the columns and rows to read."""
    parser.add_argument("--columns", type=names, help="names or dotted paths, with commas between")
    parser.add_argument("--filter", help="a condition in SQL, such as \"price > 10 AND x = 'a'\"")


def pair(text: str) -> tuple[str, str]:
    """Parse `KEY=VALUE`."""
    key, sign, value = text.partition("=")
    if not sign or not key:  # without the text, which may be a secret
        raise argparse.ArgumentTypeError("expected KEY=VALUE")
    return key, value


def names(text: str) -> list[str]:
    """Parse names separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def numbers(text: str) -> list[int]:
    """Parse numbers and ranges, such as `1,2,5-9`; ranges include both ends."""
    listed: list[int] = []
    try:
        for part in names(text):
            first, dash, last = part.partition("-")
            listed += range(int(first), int(last) + 1) if dash else [int(part)]
    except ValueError:
        message = f"{text!r}, expected numbers and ranges, such as 1,2,5-9"
        raise argparse.ArgumentTypeError(message) from None
    return listed


def vector(text: str) -> list[float]:
    """Parse a vector: numbers with commas between, in brackets or not."""
    try:
        return [float(part) for part in text.strip("[] ").split(",")]
    except ValueError:
        message = f"{text[:40]!r}, expected numbers with commas between, such as 0.1,0.2"
        raise argparse.ArgumentTypeError(message) from None


def port(text: str) -> int:
    """Parse the number of a port."""
    if not text.isdecimal() or int(text) > MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r}, expected a number from 0 to {MAX_PORT}")
    return int(text)


def version(text: str) -> int | str:
    """Parse a version number or a tag."""
    return int(text) if text.isdecimal() else text


def duration(text: str) -> timedelta:
    """Parse a duration such as `90s`, `7d` or `2w`."""
    try:
        return parse_duration(text)
    except InvalidInputError:
        raise argparse.ArgumentTypeError(f"{text!r}, expected such as 90s, 7d or 2w") from None


def age(text: str) -> timedelta:
    """Parse an age: a duration; 0 needs no unit."""
    if text == "0":
        return timedelta(0)
    if text.replace(".", "", 1).isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}, expected a unit, such as {text}d or 12h")
    return duration(text)


def size(text: str) -> int:
    """Parse a number of bytes, such as `1000000`, `512MiB` or `1.5G`."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r}, expected bytes, such as 1000000 or 512MiB")
    return int(float(match[1]) * (1 << 10 * " KMGT".index((match[2] or " ").upper())))


def options(pairs: Iterable[tuple[str, str]] | None) -> dict[str, Any]:
    """Convert `KEY=VALUE` pairs to arguments; numbers and booleans become values."""
    values: dict[str, Any] = {}
    for key, text in pairs or ():
        values[key] = {"true": True, "false": False}.get(text.lower(), text)
        for kind in (int, float):
            if values[key] is text:
                values[key] = _as(kind, text)
    return values


def _as(kind: Callable[[str], Any], text: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        return text


def storage(args: argparse.Namespace) -> dict[str, str] | None:
    """Return the `--storage` options; None if there are none."""
    return dict(args.storage) if args.storage else None


def table_name(text: str) -> tuple[str, ...]:
    """Parse the name of a table in a catalog, such as `namespace/table`."""
    return tuple(text.split("/"))


async def connected(args: argparse.Namespace, uri: str) -> Catalog:
    """Open a catalog."""
    headers = dict(args.header) if args.header else None
    return await alance.connect(uri, headers=headers, storage_options=storage(args))


async def opened(args: argparse.Namespace) -> Dataset:
    """Open the table at the requested version and branch.

    Raises:
        InvalidInputError: both a branch and a tag are requested.
    """
    number = getattr(args, "version", None)
    branch = getattr(args, "branch", None)
    if branch is not None and isinstance(number, str):
        raise InvalidInputError(f"--branch {branch} --version {number}: a tag names its own branch")
    at = None if branch is not None else number
    if args.catalog is None:
        dataset = await alance.dataset(args.uri, version=at, storage_options=storage(args))
    else:
        catalog = await connected(args, args.catalog)
        dataset = await catalog.open_table(table_name(args.uri), version=at)
    return dataset if branch is None else await dataset.checkout_branch(branch, number)


def confirm(args: argparse.Namespace, what: str) -> None:
    """Ask the user to confirm a permanent deletion; `--yes` confirms it without a question.

    Raises:
        InvalidInputError: the answer is no, or there is no terminal to ask on.
    """
    if args.yes:
        return
    if not sys.stdin.isatty():
        raise InvalidInputError(f"{what}: nothing was done; add --yes to do it, or --dry-run")
    print(escaped(f"{what}? [y/N] "), end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InvalidInputError("nothing was done")
