"""Outcome of a commit that ended with an error, and producers' notes in versions."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from alance.errors import CommitStateUnknownError, InvalidInputError, StoreError
from alance.versioning.tokens import Notes, last_numbers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from alance.format.table.manifest import Manifest

_VISIBLE: Final = "_alance_may_be_visible"  # name of an attribute of exceptions
_UNCOMMITTED: Final = "alance_uncommitted"


def may_be_visible(error: BaseException) -> bool:
    """True if a failed commit may have made its version, or may still make it.

    In that case, files of the version must not be removed, because they may have rows of the table.

    Args:
        error: error that the commit raised.
    """
    return isinstance(error, CommitStateUnknownError) or hasattr(error, _VISIBLE)


def mark_as_open(error: BaseException) -> None:
    """Mark an error of a commit that may have made its version; see `may_be_visible`."""
    if not hasattr(error, _VISIBLE):
        error.add_note("whether the version was made is not known: the table's latest one tells")
    setattr(error, _VISIBLE, True)


def mark_as_uncommitted(error: BaseException) -> None:
    """Mark an error of a cancelled put that has ended and has not created its object."""
    setattr(error, _UNCOMMITTED, True)


def is_uncommitted(error: BaseException) -> bool:
    """True if `mark_as_uncommitted` marked the error."""
    return hasattr(error, _UNCOMMITTED)


def _seconds_of(timeout: timedelta | float | None) -> float | None:
    """Convert `commit_timeout` to seconds; None if there is no timeout.

    Raises:
        InvalidInputError: the timeout is neither a timedelta nor a number, or not greater than 0.
    """
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise InvalidInputError(
            f"commit_timeout={timeout!r}: expected a timedelta or seconds, greater than 0"
        )
    return float(seconds)


@asynccontextmanager
async def within(timeout: timedelta | float | None, uri: str) -> AsyncIterator[None]:
    """Limit the time of the commit in this context.

    Args:
        timeout: a timedelta or a number of seconds; None for no limit.

    Raises:
        InvalidInputError: `timeout` is not a time greater than 0.
        CommitStateUnknownError: the version may have been made.
        StoreError: the version was not made.
    """
    seconds = _seconds_of(timeout)
    try:
        async with asyncio.timeout(seconds) as deadline:
            yield
    except TimeoutError as error:
        if not deadline.expired():
            raise
        what = f"dataset {uri!r}: the commit was given up after {seconds:g} s (commit_timeout)"
        if error.__cause__ is not None and may_be_visible(error.__cause__):
            raise CommitStateUnknownError(
                f"{what}; the latest version tells whether it was made"
            ) from error
        raise StoreError(f"{what}; no version was made", retryable=True) from error


def notes_of(manifest: Manifest) -> Notes:
    """Return the tokens and batch numbers in a version's transaction; empty without transaction."""
    if manifest.transaction is None:
        return Notes()
    return Notes.of(manifest.transaction.transaction_properties)


def last_number(manifest: Manifest, producer: str) -> int | None:
    """Return the number of a producer's last batch at a version; None if it is not recorded."""
    noted = notes_of(manifest).producers
    if producer in noted:
        return noted[producer][1]
    return last_numbers(manifest.config).get(producer)


def clash_with(manifest: Manifest, notes: Notes) -> str | None:
    """Describe a batch in `notes` that this version or an earlier one already has.

    Returns None if the version does not record such a batch.
    """
    if not notes:
        return None
    clash = notes.clash(notes_of(manifest))
    for name, (previous, _) in notes.producers.items():
        number = last_number(manifest, name)
        if clash is None and number is not None and number > previous:
            clash = f"batch {number} of producer {name!r}"
    return None if clash is None else f"version {manifest.version} has {clash} already"
