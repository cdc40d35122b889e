"""`alance.trace()`: a recorder that can also draw itself."""

from __future__ import annotations

from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from alance.io import trace as records
from alance.viz.page import page

if TYPE_CHECKING:
    from collections.abc import Iterator


class Recorder(records.Recorder):
    """The requests of a `with alance.trace()` block, in the order in which they ended."""

    __slots__ = ()

    def to_html(self, path: str | Path, *, title: str = "") -> None:
        """Write a page with a waterfall of the requests: one file that asks no network.

        Args:
            title: shown at the top.
        """
        Path(path).write_text(page(self, title), encoding="utf-8")

    def _repr_html_(self) -> str:
        """The totals, for notebooks."""
        return f"<pre>{escape(self.summary())}</pre>"


@contextmanager
def trace() -> Iterator[Recorder]:
    """Record the requests that this block asks for.

    Costs some microseconds a request while the block runs, nothing otherwise.
    """
    with records.recording(Recorder()) as recorder:
        yield recorder
