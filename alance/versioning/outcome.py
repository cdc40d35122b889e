"""What is known of a commit that ended with an error, and what versions have of a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alance.errors import CommitStateUnknownError
from alance.versioning.tokens import Notes, last_numbers

if TYPE_CHECKING:
    from alance.format.table.manifest import Manifest

_VISIBLE: Final = "_alance_may_be_visible"  # attribute of an exception
_NOT_MADE: Final = "alance_not_made"


def may_be_visible(error: BaseException) -> bool:
    """Whether a commit that ended so may have made its version, or may yet.

    Then the files that it names must stay: who removes them may remove rows of the table.
    """
    return isinstance(error, CommitStateUnknownError) or hasattr(error, _VISIBLE)


def mark_as_open(error: BaseException) -> None:
    """Note that a commit that ends so may have made its version; see `may_be_visible`."""
    if not hasattr(error, _VISIBLE):
        error.add_note("whether the version was made is not known: the table's latest one tells")
    setattr(error, _VISIBLE, True)


def mark_as_not_made(error: BaseException) -> None:
    """Note that a put that was cancelled is over, and has not made its object."""
    setattr(error, _NOT_MADE, True)


def is_not_made(error: BaseException) -> bool:
    """Whether `mark_as_not_made` was told of an error."""
    return hasattr(error, _NOT_MADE)


def notes_of(manifest: Manifest) -> Notes:
    """The notes of producers in a version's transaction."""
    if manifest.transaction is None:
        return Notes()
    return Notes.of(manifest.transaction.transaction_properties)


def last_number(manifest: Manifest, producer: str) -> int | None:
    """The number of a producer's last batch up to a version; None: the version does not tell."""
    noted = notes_of(manifest).producers
    if producer in noted:
        return noted[producer][1]
    return last_numbers(manifest.config).get(producer)


def clash_with(manifest: Manifest, notes: Notes) -> str | None:
    """What a version, or one before it, has of the batches that a transaction notes; None: nothing
    that the version tells of.
    """
    if not notes:
        return None
    clash = notes.clash(notes_of(manifest))
    for name, (previous, _) in notes.producers.items():
        number = last_number(manifest, name)
        if clash is None and number is not None and number > previous:
            clash = f"batch {number} of producer {name!r}"
    return None if clash is None else f"version {manifest.version} has {clash} already"
