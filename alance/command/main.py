"""Parsing and running of the command `alance`."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from typing import TYPE_CHECKING, NoReturn

import alance
from alance import AlanceError
from alance.command import (
    changing,
    checking,
    completions,
    maintaining,
    reading,
    serving,
    versions,
)
from alance.command.output import show
from alance.command.terminal import escaped

if TYPE_CHECKING:
    from collections.abc import Sequence

EPILOG = """Credentials and endpoints: the environment (AWS_*, AZURE_*, GOOGLE_*) and --storage.
Exit status: 0 done, 1 failed, 2 wrong arguments or findings, 130 interrupted."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand, and return its exit status. Results go to stdout, errors to stderr."""
    args = parser().parse_args(arguments)
    try:
        return asyncio.run(_run(args))
    except AlanceError as error:
        print(escaped(f"alance {args.command}: {error}", allowed="\n\t"), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # no error at the last flush
        return 0


async def _run(args: argparse.Namespace) -> int:
    async with alance.Session.of_loop():
        output = await args.run(args)
        if output is not None:
            show(output, as_json=getattr(args, "json", False))
    return int(getattr(args, "status", 0))


class _CommandParser(argparse.ArgumentParser):
    """Parser that escapes its error messages, which quote arguments such as foreign file names."""

    def error(self, message: str) -> NoReturn:
        super().error(escaped(message))


def parser() -> argparse.ArgumentParser:
    """Create the parser of all subcommands."""
    whole: argparse.ArgumentParser = _CommandParser(
        prog="alance",
        description="Lance tables from the shell.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole.add_argument("--version", action="version", version=alance.__version__)
    parsers = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    reading.add_to(parsers)
    versions.add_to(parsers)
    changing.add_to(parsers)
    checking.add_to(parsers)
    maintaining.add_to(parsers)
    serving.add_to(parsers)
    completions.add_to(parsers, whole)
    return whole
