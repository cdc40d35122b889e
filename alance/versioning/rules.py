"""What the commit loop asks of the format's rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from alance.format.table.manifest import Manifest
    from alance.format.table.transaction import Transaction


class Rules(Protocol):
    """What a transaction becomes when others were first, and which version it makes."""

    def transaction_bytes(self, transaction: Transaction) -> bytes:
        """The content of a transaction's file."""

    async def rebase(self, ours: Transaction, newer: Manifest, base: Manifest) -> Transaction:
        """Our transaction on top of a version that another committer made.

        Args:
            newer: the version after `base`.

        Raises:
            RetryableConflictError: the operation must be run again.
            CommitConflictError: the other version rules ours out.
        """

    def next_manifest(
        self, previous: Manifest | None, transaction: Transaction, version: int
    ) -> bytes:
        """The content of the manifest of the version that a transaction makes.

        Args:
            previous: the version before; None: there is no table yet.
            version: its number.

        Raises:
            InvalidInputError, CommitConflictError: the transaction does not fit the version.
        """
