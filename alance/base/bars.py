"""Bars on the error output for `progress=True`: by rich, tqdm, or a plain line.

A terminal gets a bar by rich, by tqdm if rich is not installed, or a line that changes. So does a
notebook, where rich needs ipywidgets. Elsewhere, as in a log, each finished stage is a line.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from alance.base.progress import Progress


class Bar(Protocol):
    """Display of the stages of one operation."""

    def __call__(self, event: Progress) -> None:
        """Show an event."""

    def close(self) -> None:
        """End the display; what it shows stays."""


def new_bar() -> Bar:
    """Return the best display that the error output and the installed packages allow."""
    in_notebook = _in_notebook()
    if not in_notebook and not sys.stderr.isatty():
        return LogLines()
    if find_spec("rich") and (not in_notebook or find_spec("ipywidgets")):
        return RichBar()
    return TqdmBar() if find_spec("tqdm") else Line()


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


class RichBar:
    """Bars of rich, one below the other, one for each stage."""

    def __init__(self) -> None:
        from rich import progress
        from rich.console import Console

        columns = (
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.TextColumn("{task.completed:,.0f} {task.fields[unit]}"),
            progress.TimeElapsedColumn(),
        )
        self._bars = progress.Progress(*columns, console=Console(stderr=True))
        self._tasks: dict[str, Any] = {}
        self._bars.start()

    def __call__(self, event: Progress) -> None:
        task = self._tasks.get(event.stage)
        if task is None:
            task = self._bars.add_task(event.stage, total=event.total, unit=event.unit)
            self._tasks[event.stage] = task
        self._bars.update(task, completed=event.done, total=event.total)

    def close(self) -> None:
        self._bars.stop()


class TqdmBar:
    """A bar of tqdm for each stage."""

    def __init__(self) -> None:
        # In a notebook without widgets `tqdm.auto` warns and shows text.
        kind = import_module("tqdm.auto" if find_spec("ipywidgets") else "tqdm")
        self._new = kind.tqdm
        self._stage: str | None = None
        self._bar: Any = None

    def __call__(self, event: Progress) -> None:
        if event.stage != self._stage:
            self.close()
            self._stage = event.stage
            self._bar = self._new(desc=event.stage, total=event.total, unit=f" {event.unit}")
        self._bar.n, self._bar.total = event.done, event.total
        self._bar.refresh()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


class Line:
    """A line for each stage, which changes in place."""

    def __init__(self) -> None:
        self._stage: str | None = None
        self._width = 0

    def __call__(self, event: Progress) -> None:
        if event.stage != self._stage:
            self.close()
            self._stage = event.stage
        text = str(event)
        padding = " " * (self._width - len(text))
        print(f"\r{text}{padding}", end="", file=sys.stderr, flush=True)
        self._width = len(text)

    def close(self) -> None:
        if self._stage is not None:
            print(file=sys.stderr)
        self._stage, self._width = None, 0


class LogLines:
    """A line for each finished stage."""

    def __call__(self, event: Progress) -> None:
        if event.done == event.total:
            print(event, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Do nothing: no line is open."""
