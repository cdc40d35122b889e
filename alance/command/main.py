"""Parsing and running of the command `alance`."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import alance
from alance import AlanceError
from alance.blocking import did_you_mean
from alance.command import (
    catalogs,
    changing,
    checking,
    columns,
    completions,
    health,
    maintaining,
    reading,
    serving,
    versions,
    words,
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
        print(escaped(f"alance {args.command}: {_text_of(error)}", allowed="\n\t"), file=sys.stderr)
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):  # the latter by SIGTERM
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # no error at the last flush
        return 0


def _text_of(error: AlanceError) -> str:
    """Return the text of an error, with commands in place of functions."""
    listing = "list it by `alance ls`, and name a table of it by `NAME --in FOLDER`"
    text = str(error).replace(
        "use mode 'append' or 'overwrite'", "write `alance append`, or --overwrite"
    )
    return text.replace("open it by `alance.connect`", listing)


async def _run(args: argparse.Namespace) -> int:
    async with alance.Session.of_loop():
        output = await args.run(args)
        if output is not None:
            show(output, as_json=getattr(args, "json", False))
    return int(getattr(args, "status", 0))


class _CommandParser(argparse.ArgumentParser):
    """Parser that prints errors on one line, escapes them, and suggests similar options."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, escaped(f"{self.prog}: error: {message}; see `{self.prog} --help`") + "\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        parsed, others = super().parse_known_args(args, namespace)
        if others and self._take_late(parsed, others):
            others = []
        if others:  # here, because the parser of all subcommands knows no option of this one
            options = [name for name in self._option_string_actions if name.startswith("--")]
            option = others[0].partition("=")[0]
            hint = did_you_mean(option, options)
            meant = words.OPTIONS.get(option, "")
            if any(f"'{name}'" in meant for name in self._option_string_actions):
                hint = f", did you mean {meant}?"
            elif option == "--where" and "filter" in vars(parsed):
                hint = "; the condition stands behind the table, without an option"
            elif meant:
                hint = f"; write {meant}" if meant.startswith("`") else ""
            if not hint and "--in" in options and len(others) == 1 and others[0][:1] != "-":
                name = f"{others[0]} --in {getattr(parsed, 'uri', 'CATALOG')}"
                hint = f"; a table of a catalog is named by `{self.prog} {name}`"
            self.error(f"unrecognized arguments: {' '.join(others)}{hint}")
        return parsed, others

    def _take_late(self, parsed: Any, texts: list[str]) -> bool:
        """Store optional positional arguments that follow options; False if none are expected.

        argparse decides that such arguments are missing when it meets the first option.
        """
        if any(text.startswith("-") for text in texts):
            return False
        for action in self._get_positional_actions():
            value = getattr(parsed, action.dest, "")
            is_single = action.nargs == "?" and value is action.default and len(texts) == 1
            if is_single or (action.nargs == "*" and value == []):
                setattr(parsed, action.dest, self._get_values(action, texts))
                return True
        return False

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [*map(str, action.choices)]
            if action.dest == "command" and value in words.SUBCOMMANDS:
                text = f"no {value!r}; write `alance {words.SUBCOMMANDS[value]}`"
                raise argparse.ArgumentError(action, text)
            message = f"no {value!r}, expected one of {', '.join(choices)}"
            raise argparse.ArgumentError(action, message + did_you_mean(str(value), choices))


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
    catalogs.add_to(parsers)
    reading.add_to(parsers)
    versions.add_to(parsers)
    changing.add_to(parsers)
    columns.add_to(parsers)
    checking.add_to(parsers)
    health.add_to(parsers)
    maintaining.add_to(parsers)
    serving.add_to(parsers)
    completions.add_to(parsers, whole)
    return whole
