"""Errors of an expression while it is built, before its position in the text is known."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Problem(Exception):
    """Raised by the builders of nodes; the caller adds the position and picks the public error.

    Attributes:
        unsupported: valid SQL that alance does not evaluate, rather than a mistake.
    """

    def __init__(self, message: str, *, unsupported: bool = False) -> None:
        super().__init__(message)
        self.unsupported = unsupported


def unknown(kind: str, name: str, known: Iterable[str]) -> Problem:
    """The problem of a name that is not there, with names that look like it."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)
    hint = ""
    if close:
        hint = "; did you mean " + " or ".join(repr(by_lower[match]) for match in close) + "?"
    return Problem(f"unknown {kind} {name!r}{hint}")
