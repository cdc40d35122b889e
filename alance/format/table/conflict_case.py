"""Two transactions that may conflict, and what the rules ask about them.

Source: docs/format/table.md, "Conflict matrix".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from alance.errors import CommitConflictError, RetryableConflictError
from alance.format.table.operations import (
    DataReplacement,
    Delete,
    Merge,
    Project,
    Rewrite,
    Update,
)
from alance.format.table.operations_meta import DataOverlay

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from alance.arrays import Int64s
    from alance.format.proto import table_pb2
    from alance.format.table.deletions import DeletionVector
    from alance.format.table.manifest import Manifest
    from alance.format.table.operations import Operation
    from alance.format.table.transaction import Transaction

    Rows = Mapping[int, Int64s]


@dataclass(frozen=True, slots=True)
class Case:
    """Our transaction and one that was committed before it; what is known of both.

    Attributes:
        ours, theirs: the operations.
        base: the version before theirs, which ours stands on.
        newer: the version that theirs made.
    """

    transaction: Transaction
    other: Transaction
    ours: Operation
    theirs: Operation
    base: Manifest
    newer: Manifest
    deleted: Rows | None
    vectors: Mapping[int, DeletionVector]

    def retry(self, reason: str) -> RetryableConflictError:
        """The error of an operation that may succeed when it is run again."""
        return RetryableConflictError(f"{self._who()}: {reason}; run the operation again")

    def conflict(self, reason: str) -> CommitConflictError:
        """The error of an operation that is ruled out."""
        return CommitConflictError(f"{self._who()}: {reason}")

    def _who(self) -> str:
        return (
            f"{self.transaction.operation} from version {self.transaction.read_version} conflicts "
            f"with {self.other.operation} of version {self.newer.version}"
        )

    @property
    def shared(self) -> list[int]:
        """The fragments that both change, sorted."""
        return sorted(touched(self.ours) & touched(self.theirs))


def updated(change: Operation) -> tuple[table_pb2.DataFragment, ...]:
    """The fragments that an operation gives a new record."""
    return change.updated_fragments if isinstance(change, Delete | Update) else ()


def removed(change: Operation) -> frozenset[int]:
    """The fragments that are not there after an operation."""
    if isinstance(change, Delete):
        return frozenset(change.deleted_fragment_ids)
    if isinstance(change, Update):
        return frozenset(change.removed_fragment_ids)
    if isinstance(change, Rewrite):
        return frozenset(
            fragment.id for group in change.all_groups for fragment in group.old_fragments
        )
    return frozenset()


def touched(change: Operation) -> frozenset[int]:
    """The fragments, of those that were there before, that an operation changes or removes."""
    if isinstance(change, DataReplacement):
        return frozenset(replacement.fragment_id for replacement in change.replacements)
    if isinstance(change, DataOverlay):
        return frozenset(group.fragment_id for group in change.groups)
    return removed(change) | {fragment.id for fragment in updated(change)}


def replaced_fields(change: Operation) -> frozenset[int]:
    """The fields that get new values in place."""
    if isinstance(change, DataReplacement):
        return frozenset(
            field
            for replacement in change.replacements
            for field in replacement.new_file.fields
            if field >= 0
        )
    return frozenset(change.fields_modified) if isinstance(change, Update) else frozenset()


def keeps_nulls(change: Operation) -> bool:
    """Whether no field forbids nulls after an operation that allowed them before."""
    return isinstance(change, Merge | Project) and change.preserves_nullability


def fields_of(fragments: Iterable[table_pb2.DataFragment]) -> frozenset[int]:
    """The fields that the files of some fragments have."""
    return frozenset(
        field
        for fragment in fragments
        for file in fragment.files
        for field in file.fields
        if field >= 0
    )
