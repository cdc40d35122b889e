"""Output of subcommands: facts and tables, by `rich` for users or as JSON for programs."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from datetime import datetime
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeAlias

from alance.base.extras import missing
from alance.command.terminal import escaped
from alance.serve.values import plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PIPE_WIDTH = 240  # characters per line if the output is not a terminal


@dataclass(frozen=True, slots=True)
class OutputFacts:
    """Named values, printed one per line."""

    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OutputRows:
    """A table: mappings with the same keys, one per row.

    `columns` has the keys if there are no rows.
    """

    rows: Sequence[Mapping[str, Any]]
    columns: Sequence[str] = ()
    title: str = ""
    right: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class Text:
    """Text to print, and the values to print as JSON instead."""

    text: str
    values: Any = None


@dataclass(frozen=True, slots=True)
class Lines:
    """A value shown on several lines of a table cell."""

    texts: Sequence[str]


class Size(int):
    """A number of bytes: with a unit in text, as a number in JSON."""


Output: TypeAlias = OutputFacts | OutputRows | Text


def show(output: Output, *, as_json: bool) -> None:
    """Print an output: as text, or as JSON (lines for rows, one object for facts)."""
    if as_json:
        _print_json(output)
    elif isinstance(output, Text):
        print(escaped(output.text, allowed="\n\t"))
    else:
        _as_table(output)


def human_bytes(num_bytes: int) -> str:
    """Format a size with a binary unit, such as `1.5 MiB`."""
    size, unit = float(num_bytes), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{num_bytes} B" if unit == "B" else f"{size:.1f} {unit}"


def as_json(value: Any) -> str:
    """Serialize a value as standard JSON; NaN and infinities become null."""
    try:
        text = _ENCODER.encode(value)
    except ValueError:
        text = _ENCODER.encode(_finite(value))
    # DEL is the only control character that the encoder does not escape.
    return text.replace("\x7f", "\\u007f")


_ENCODER = json.JSONEncoder(default=plain, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return value


def _print_json(output: Output) -> None:
    for value in output.rows if isinstance(output, OutputRows) else [output.values]:
        print(as_json(value))


def _as_table(output: OutputFacts | OutputRows) -> None:
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text as Cell
    except ImportError as error:
        raise missing("tables are drawn by the package rich (--json needs none)", "cli") from error
    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)
    if isinstance(output, OutputFacts):
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        table.add_column(style="bold cyan", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in output.values.items():
            table.add_row(Cell(escaped(name.replace("_", " "))), Cell(_cell(value)))
    else:
        from rich.box import SIMPLE_HEAD

        names = list(output.columns or (output.rows[0] if output.rows else ()))
        title = Cell(escaped(output.title)) if output.title else None
        table = Table(box=SIMPLE_HEAD, title=title, title_justify="left")
        for name in names:
            is_right = name in output.right
            header = Cell(escaped(name))  # not a str, in which rich interprets [ ] as markup
            table.add_column(header, justify="right" if is_right else "left", overflow="fold")
        for row in output.rows:
            table.add_row(*(Cell(_cell(row.get(name))) for name in names))
    console.print(table)


def _cell(value: Any) -> str:
    """Format a value for a table cell: short, on one line except for `Lines`."""
    if value is None:
        return "-"
    if isinstance(value, Lines):
        return "\n".join(map(_cell, value.texts))
    if isinstance(value, Size):
        return human_bytes(value)
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value}"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds")
    if isinstance(value, set | frozenset):
        value = sorted(value)
    if isinstance(value, list | tuple) and len(value) > 8:
        shown = ", ".join(_cell(item) for item in value[:6])
        return f"[{shown}, ... {len(value)} in all]"
    if isinstance(value, list | tuple):
        return ", ".join(_cell(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{escaped(str(key))}={_cell(item)}" for key, item in value.items())
    return escaped(str(value))
