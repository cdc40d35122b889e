"""Checks of what callers give: numbers and words of options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from alance.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Collection


MOST: Final = (1 << 63) - 1  # what the kernels and Arrow count to


def check_count(name: str, value: object, least: int = 1, most: float = float("inf")) -> None:
    """Make sure that a value is an integer within bounds; truth values are none.

    Raises:
        InvalidInputError: it is not.
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
    """Make sure that some attributes, which may be None, are integers from a number on.

    Raises:
        InvalidInputError: one is not.
    """
    for name in names:
        if (value := getattr(options, name)) is not None:
            check_count(name, value, least)


def check_text(what: str, value: object) -> None:
    """Make sure that a value is a text that can be stored: one of whole characters.

    Raises:
        InvalidInputError: it is not.
    """
    if not isinstance(value, str):
        raise InvalidInputError(f"{what} {value!r}: expected text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(f"{what} {value!r}: half of a surrogate pair is no text") from None


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Make sure that a value is one of some words.

    Raises:
        InvalidInputError: it is not.
    """
    if value not in choices:
        raise InvalidInputError(f"{name}={value!r}: expected one of {', '.join(choices)}")
