"""Arguments that subcommands share, and the opening of the table that they name."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

import alance
from alance import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from typing import TypeAlias

    from alance import Dataset
    from alance.command.output import Output

    Run: TypeAlias = Callable[[argparse.Namespace], Awaitable[Output | None]]
    Parsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


MAX_PORT: Final = 65535


def add(parsers: Parsers, name: str, run: Run, summary: str) -> argparse.ArgumentParser:
    """Add a subcommand on a URI, with the options that all subcommands have."""
    parser = parsers.add_parser(name, help=summary, description=summary[0].upper() + summary[1:])
    parser.set_defaults(run=run)
    parser.add_argument("uri", help="path, or URI such as s3://bucket/table")
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


def port(text: str) -> int:
    """Parse the number of a port."""
    if not text.isdecimal() or int(text) > MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r}, expected a number from 0 to {MAX_PORT}")
    return int(text)


def version(text: str) -> int | str:
    """Parse a version number or a tag."""
    return int(text) if text.isdecimal() else text


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


async def opened(args: argparse.Namespace) -> Dataset:
    """Open the table at the requested version and branch.

    Raises:
        InvalidInputError: both a branch and a tag are requested.
    """
    number = getattr(args, "version", None)
    branch = getattr(args, "branch", None)
    if branch is None:
        return await alance.dataset(args.uri, version=number, storage_options=storage(args))
    if isinstance(number, str):
        raise InvalidInputError(f"--branch {branch} --version {number}: a tag names its own branch")
    dataset = await alance.dataset(args.uri, storage_options=storage(args))
    return await dataset.checkout_branch(branch, number)
