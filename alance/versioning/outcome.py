"""What is known of a commit that ended with an error, and what versions have of a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alance.errors import CommitStateUnknownError
from alance.versioning.tokens import Notes

if TYPE_CHECKING:
    from alance.format.table.manifest import Manifest

_VISIBLE: Final = "_alance_may_be_visible"  # attribute of an exception


def may_be_visible(error: BaseException) -> bool:
    """Whether a commit that ended so may have made its version, or may yet.

    Then the files that it names must stay: who removes them may remove rows of the table.
    """
    return isinstance(error, CommitStateUnknownError) or hasattr(error, _VISIBLE)


def mark_as_open(error: BaseException) -> None:
    """Note that a commit that ends so may have made its version; see `may_be_visible`."""
    setattr(error, _VISIBLE, True)


def notes_of(manifest: Manifest) -> Notes:
    """What the transaction of a version notes of producers."""
    if manifest.transaction is None:
        return Notes()
    return Notes.of(manifest.transaction.transaction_properties)


def clash_with(manifest: Manifest, notes: Notes) -> str | None:
    """What a version has of the batches that a transaction notes; None: nothing."""
    if not notes:
        return None
    clash = notes.clash(notes_of(manifest))
    return None if clash is None else f"version {manifest.version} has {clash} already"
