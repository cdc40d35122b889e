"""Completions of values: names of tables, columns, tags, branches and indices, kinds of indices."""

from __future__ import annotations

import argparse
import asyncio
import shlex
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, get_args

import alance
from alance.command.arguments import connected, opened, pair
from alance.command.catalogs import names_below

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from alance import Dataset

MAX_SECONDS: Final = 3.0  # a shell waits for its completions
# What the values of an option are, by its name or by `command option`.
KINDS: Final = {
    "--columns": "columns",
    "--on": "columns",
    "--nullable": "columns",
    "--not-null": "columns",
    "--vector-column": "columns",
    "alter --drop": "columns",
    "index --create": "columns",
    "--rename": "columns=",
    "--cast": "columns=",
    "update --set": "columns=",
    "--version": "tags",
    "--at": "tags",
    "tags --delete": "tags",
    "tags --move": "tags",
    "--branch": "branches",
    "branches --delete": "branches",
    "index --drop": "indices",
    "index --statistics": "indices",
    "index --type": "kinds",
}


async def values_at(parsers: Mapping[str, argparse.ArgumentParser], line: str) -> list[str]:
    """Return the values with which the last word of a command line may go on.

    The result is empty if they are free, or a table or catalog cannot be read in time.

    Args:
        parsers: the parser of each subcommand.
        line: the command line up to the cursor.
    """
    try:
        words = shlex.split(line)
    except ValueError:  # a quote is open
        return []
    if line[-1:].isspace():
        words.append("")
    if len(words) < 3 or words[1] not in parsers:
        return []
    command, *words_before, word = words[1:]
    before = _LineBefore(parsers[command], words_before)
    listed, comma, start = word.rpartition(",") if before.names_columns(command) else ("", "", word)
    names: Iterable[str] = ()
    with suppress(alance.AlanceError, OSError, TimeoutError):
        async with asyncio.timeout(MAX_SECONDS):
            names = await before.values(command)
    return [f"{listed}{comma}{name}" for name in names if name.startswith(start)]


class _LineBefore:
    """The part of a command line before the word to complete.

    Attributes:
        option: the option whose value is completed; empty for a positional argument.
        args: the place of the table or catalog, as subcommands get it.
    """

    def __init__(self, parser: argparse.ArgumentParser, words: list[str]) -> None:
        actions: Any = parser._option_string_actions
        options: dict[str, list[str]] = {}
        self._places: list[str] = []
        self.option = ""
        self._choices: tuple[str, ...] = ()
        for word in words:
            if self.option:
                options.setdefault(self.option, []).append(word)
                self.option, self._choices = "", ()
            elif word not in actions:
                self._places.append(word)
            elif actions[word].nargs != 0:
                self.option, self._choices = word, tuple(map(str, actions[word].choices or ()))
        self.args = argparse.Namespace(
            uri=next(iter(self._places), None),
            catalog=options.get("--in", [None])[-1],
            storage=list(map(pair, options.get("--storage", ()))),
            header=list(map(pair, options.get("--header", ()))),
        )

    def _kind(self, command: str) -> str | None:
        return KINDS.get(f"{command} {self.option}", KINDS.get(self.option))

    def names_columns(self, command: str) -> bool:
        """True if the value is a list of columns, with commas between."""
        return self._kind(command) == "columns"

    async def values(self, command: str) -> Iterable[str]:
        """Return all values that the word may have."""
        if self._choices:
            return self._choices
        if not self.option:
            return [] if self._places else await self._tables()
        kind = self._kind(command)
        if kind == "kinds":
            return _index_kinds()
        if kind is None or self.args.uri is None:
            return []
        return await _names(await opened(self.args), kind)

    async def _tables(self) -> list[str]:
        if self.args.catalog is None:
            return []
        catalog = await connected(self.args, self.args.catalog)
        return ["/".join(name) for name in await names_below(catalog)]


async def _names(dataset: Dataset, kind: str) -> Iterable[str]:
    if kind == "tags":
        return await dataset.tags.list()
    if kind == "branches":
        return await dataset.branches.list()
    if kind == "indices":
        return dict.fromkeys(index["name"] for index in dataset.list_indices())
    sign = kind.removeprefix("columns")
    return [f"{name}{sign}" for name in dataset.schema.names]


def _index_kinds() -> list[str]:
    from alance.types import ScalarIndexKind, TextIndexKind, VectorIndexKind

    kinds = (ScalarIndexKind, VectorIndexKind, TextIndexKind)
    return [name for kind in kinds for name in get_args(kind)]
