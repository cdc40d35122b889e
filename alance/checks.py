"""Checks of arguments: numbers, texts, choices, callbacks, and names of arguments."""

from __future__ import annotations

import inspect
import reprlib
from dataclasses import fields
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from alance.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

T = TypeVar("T")

# Arguments that pandas, SQL and other stores call so, with their names here.
_SYNONYMS: Final = {
    "where": "filter",
    "predicate": "filter",
    "select": "columns",
    "n": "limit",
    "top_k": "k",
    "batch_rows": "batch_size",
    "sort_by": "order_by",
}
NAMED: Final = 8  # maximum number of values that a message lists; there may be tens of thousands
MOST: Final = (1 << 63) - 1  # largest integer in the kernels and in Arrow


def check_count(name: str, value: object, least: int = 1, most: float = float("inf")) -> None:
    """Check that a value is an integer within bounds; booleans are refused.

    Raises:
        InvalidInputError: the value is not an integer, or is out of bounds.
    """
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if is_integer and least <= value <= most:  # type: ignore[operator]  # it is an integer
        return
    if most != float("inf") and (most != MOST or (is_integer and value > most)):  # type: ignore[operator]
        expected = f"an integer from {least} to {most}"
    else:
        expected = "a positive integer" if least == 1 else f"an integer of at least {least}"
    raise InvalidInputError(f"{name}={value!r}: expected {expected}")


def check_counts(options: object, *names: str, least: int = 1) -> None:
    """Check that attributes are None or integers of at least `least`.

    Raises:
        InvalidInputError: an attribute has another type, or is too small.
    """
    for name in names:
        if (value := getattr(options, name)) is not None:
            check_count(name, value, least)


def check_text(what: str, value: object) -> None:
    """Check that a value is a text that UTF-8 can encode.

    Raises:
        InvalidInputError: the value is not text, or has a lone surrogate.
    """
    if not isinstance(value, str):
        raise InvalidInputError(f"{what} {reprlib.repr(value)}: expected text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(f"{what} {value!r}: half of a surrogate pair is no text") from None


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Check that a value is one of the allowed words.

    Raises:
        InvalidInputError: the value is not in `choices`.
    """
    if value not in choices:
        raise InvalidInputError(f"{name}={value!r}: expected one of {', '.join(choices)}")


def check_callback(name: str, value: object, expected: str = "a function") -> None:
    """Check that a value is None or a function that is not async.

    Raises:
        InvalidInputError: the value is not callable, or is async, so that nothing would await it.
    """
    if value is None:
        return
    if not callable(value):
        raise InvalidInputError(f"{name}={value!r}: expected {expected}")
    if inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(type(value).__call__):
        raise InvalidInputError(
            f"{name}={value!r}: expected {expected}, not async, as nothing would await it"
        )


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return ", did you mean ...?" with names similar to a wrong one; empty if there are none."""
    from difflib import get_close_matches

    by_lower: dict[str, list[str]] = {}
    for candidate in names:
        by_lower.setdefault(candidate.lower(), []).append(candidate)
    close = get_close_matches(name.lower(), by_lower, n=3)
    alike = [repr(candidate) for lower in close for candidate in by_lower[lower]]
    return f", did you mean {' or '.join(alike)}?" if alike else ""


def unexpected(names: Iterable[str], choices: Iterable[str], what: str = "") -> TypeError:
    """Return the error for unknown arguments, which suggests names similar to the first of them."""
    first, *others = sorted(names)
    choices = [*choices]
    synonym = _SYNONYMS.get(first)
    hint = did_you_mean(first, choices)
    if synonym in choices:
        hint = f", did you mean {synonym!r}?"
    more = f" (nor are there {', '.join(map(repr, others))})" if others else ""
    return TypeError(f"{what}unexpected keyword argument {first!r}{hint}{more}")


def public_arguments(options: type[T]) -> type[T]:
    """Decorate a dataclass of a method's keywords to report a wrong keyword by `unexpected`.

    Python's own message names the class, which callers do not know, and suggests no similar names.
    """
    accepted = frozenset(field.name for field in fields(options))  # type: ignore[arg-type]
    init = options.__init__

    @wraps(init)
    def checked(self: T, *values: Any, **arguments: Any) -> None:
        if not arguments.keys() <= accepted:
            raise unexpected(arguments.keys() - accepted, accepted)
        init(self, *values, **arguments)

    options.__init__ = checked  # type: ignore[assignment, method-assign]  # with its arguments
    return options


def some_of(values: Sequence[object]) -> str:
    """Format values for a message: the first `NAMED` values, and the number of further values."""
    more = len(values) - NAMED
    return f"{list(values[:NAMED])} and {more:,} more" if more > 0 else f"{list(values)}"
