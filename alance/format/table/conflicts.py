"""Whether a transaction gets along with one that was committed before it, and what it becomes.

Source: table format specification, "Conflict matrix" and "Rebasing Delete and Update".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt

    from alance.format.table.deletions import DeletionVector
    from alance.format.table.manifest import Manifest
    from alance.format.table.transaction import Transaction

    Rows = Mapping[int, npt.NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class NewDeletionFile:
    """A deletion file that must be written before the manifest.

    Attributes:
        name: inside `_deletions/` of the table's own root.
    """

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Rebased:
    """Our transaction on top of a newer version, and the files that it names anew."""

    transaction: Transaction
    deletion_files: tuple[NewDeletionFile, ...] = ()


def fragments_to_merge(
    ours: Transaction, theirs: Transaction, *, newer: Manifest, deleted: Rows | None
) -> tuple[int, ...]:
    """The fragments of which `rebase` needs the deletion vectors of the newer version.

    Args:
        newer: the version that `theirs` made.
        deleted: as for `rebase`.
    """
    raise NotImplementedError


def rebase(
    ours: Transaction,
    theirs: Transaction | None,
    *,
    base: Manifest,
    newer: Manifest,
    deleted: Rows | None = None,
    vectors: Mapping[int, DeletionVector] | None = None,
) -> Rebased:
    """Our transaction, made from `base` or rebased onto it, on top of `newer`.

    Args:
        theirs: the transaction that made `newer`, the version after `base`; None: it has none.
        deleted: of Delete and Update: the rows that ours deletes or moves, for each fragment;
            physical offsets, sorted. None: not known; then two that touch the same fragment must
            not both be committed.
        vectors: the deletion vectors, as of `newer`, of `fragments_to_merge`.

    Raises:
        RetryableConflictError: run the operation again on the newer version.
        CommitConflictError: the newer version rules ours out.
    """
    raise NotImplementedError
