"""Inputs of conflict rules: two transactions with derived facts, and the merge of their deletions.

Source: docs/format/table.md, "Conflict matrix".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from alance.base.checks import some_of
from alance.base.records import dataclass
from alance.errors import CommitConflictError, InvalidInputError, RetryableConflictError
from alance.format.numbers import union
from alance.format.proto import copied, table_pb2
from alance.format.table.deletions import new_deletion_file
from alance.format.table.operations import (
    DataOverlay,
    DataReplacement,
    Delete,
    Merge,
    Project,
    Rewrite,
    Update,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from alance.base.arrays import Int64s
    from alance.format.table.deletions import DeletionVector, NewDeletionFile
    from alance.format.table.manifest import Manifest
    from alance.format.table.operations import Operation
    from alance.format.table.transaction import Transaction

    Rows = Mapping[int, Int64s]


@dataclass(frozen=True, slots=True)
class Case:
    """Our transaction, and a transaction that was committed before it.

    Attributes:
        transaction: our transaction, based on `base`.
        other: the transaction that was committed before, and made `newer` from `base`.
        ours, theirs: the operations of `transaction` and `other`.
        deleted: offsets of the rows that ours deletes or moves, by fragment id; None if unknown.
        vectors: deletion vectors in `newer`, by fragment id.
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
        """Build the error for an operation that may succeed when it is run again."""
        return RetryableConflictError(f"{self._who()}: {reason}; run the operation again")

    def conflict(self, reason: str) -> CommitConflictError:
        """Build the error for an operation that the other commit rules out."""
        return CommitConflictError(f"{self._who()}: {reason}")

    def _who(self) -> str:
        return (
            f"{self.transaction.operation} from version {self.transaction.read_version} conflicts "
            f"with {self.other.operation} of version {self.newer.version}"
        )

    @property
    def shared(self) -> list[int]:
        """Ids of the fragments that both operations change; sorted."""
        return sorted(touched(self.ours) & touched(self.theirs))


def updated(change: Operation) -> tuple[table_pb2.DataFragment, ...]:
    """Return the new records of the fragments that a Delete or Update changes.

    Returns an empty tuple for other operations.
    """
    return change.updated_fragments if isinstance(change, Delete | Update) else ()


def removed(change: Operation) -> frozenset[int]:
    """Return the ids of fragments that an operation removes."""
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
    """Return the ids of existing fragments that an operation changes or removes."""
    if isinstance(change, DataReplacement):
        return frozenset(replacement.fragment_id for replacement in change.replacements)
    if isinstance(change, DataOverlay):
        return frozenset(group.fragment_id for group in change.groups)
    return removed(change) | {fragment.id for fragment in updated(change)}


def replaced_fields(change: Operation) -> frozenset[int]:
    """Return the ids of the fields whose values an operation replaces in place."""
    if isinstance(change, DataReplacement):
        return frozenset(
            field
            for replacement in change.replacements
            for field in replacement.new_file.fields
            if field >= 0
        )
    return frozenset(change.fields_modified) if isinstance(change, Update) else frozenset()


def keeps_nulls(change: Operation) -> bool:
    """True for a schema change after which all nullable fields are still nullable.

    False for operations that do not change the schema.
    """
    return isinstance(change, Merge | Project) and change.preserves_nullability


def fields_of(fragments: Iterable[table_pb2.DataFragment]) -> frozenset[int]:
    """Return the ids of the fields that the fragments' files hold."""
    return frozenset(
        field
        for fragment in fragments
        for file in fragment.files
        for field in file.fields
        if field >= 0
    )


def to_merge(case: Case) -> tuple[int, ...]:
    """Return the fragments whose deletion vectors have to be merged; sorted.

    To rebase, the caller has to pass the deletion vectors of these fragments in `newer`.
    """
    if case.deleted is None:
        return ()
    ours = {fragment.id for fragment in updated(case.ours)} & case.deleted.keys()
    theirs = {
        fragment.id for fragment in updated(case.theirs) if fragment.HasField("deletion_file")
    }
    return tuple(sorted(ours & theirs))


def check_merge(case: Case) -> CommitConflictError | None:
    """Check rule 2: both delete rows of a fragment. Returns None if deletions can be merged."""
    if not case.shared:
        return None
    if gone := sorted(touched(case.ours) & removed(case.theirs)):
        return case.retry(f"fragments {some_of(gone)} were removed")
    if gone := sorted(touched(case.theirs) & removed(case.ours)):
        return case.retry(f"rows of fragments {some_of(gone)}, which ours removes, were changed")
    mergeable = to_merge(case)
    if unknown := sorted(set(case.shared) - set(mergeable)):
        return case.retry(f"both change rows of fragments {some_of(unknown)}")
    for fragment in updated(case.ours):
        if fragment.id not in mergeable:
            continue
        before = case.base.fragments.record_of(fragment.id)
        now = case.newer.fragments.record_of(fragment.id)
        assert before is not None
        assert now is not None
        for record in (fragment, now):
            if bare(record) != bare(before):
                return case.retry(f"data files of fragment {fragment.id} changed")
        vector = vector_of(case, fragment.id)
        assert case.deleted is not None
        if num_common := int(vector.contains(case.deleted[fragment.id]).sum()):
            return case.retry(f"both delete {num_common} rows of fragment {fragment.id}")
    return None


def vector_of(case: Case, fragment_id: int) -> DeletionVector:
    """Return the deletion vector of a fragment in the newer version."""
    if fragment_id not in case.vectors:
        raise InvalidInputError(
            f"fragment {fragment_id}: its deletion vector of version {case.newer.version} "
            f"is needed, given: {sorted(case.vectors)}"
        )
    return case.vectors[fragment_id]


def merge(case: Case) -> tuple[Operation, list[NewDeletionFile]]:
    """Rebase our operation onto the newer version; return it and its new deletion files.

    Call `check_merge` first. The record of a fragment that theirs changed is taken from the newer
    version, with the merged deletion file.
    """
    ours = case.ours
    assert isinstance(ours, Delete | Update)
    files: list[NewDeletionFile] = []
    fragments: list[table_pb2.DataFragment] = []
    emptied: list[int] = []
    mergeable = to_merge(case)
    for fragment in ours.updated_fragments:
        now = case.newer.fragments.record_of(fragment.id)
        if fragment.id not in mergeable:
            fragments.append(_refreshed(fragment, case.base.fragments.record_of(fragment.id), now))
            continue
        assert case.deleted is not None
        assert now is not None
        all_rows = union(vector_of(case, fragment.id).rows, case.deleted[fragment.id])
        if len(all_rows) == now.physical_rows:
            emptied.append(fragment.id)
            continue
        # Even a small merged deletion vector is stored as a bitmap, as by other writers.
        file = new_deletion_file(fragment.id, all_rows, case.newer.version, as_bitmap=True)
        files.append(file)
        now.deletion_file.CopyFrom(file.record)
        fragments.append(now)
    if isinstance(ours, Delete):
        gone = (*ours.deleted_fragment_ids, *emptied)
        return replace(ours, updated_fragments=tuple(fragments), deleted_fragment_ids=gone), files
    gone = (*ours.removed_fragment_ids, *emptied)
    return replace(ours, updated_fragments=tuple(fragments), removed_fragment_ids=gone), files


def _refreshed(
    ours: table_pb2.DataFragment,
    before: table_pb2.DataFragment | None,
    now: table_pb2.DataFragment | None,
) -> table_pb2.DataFragment:
    """Return our record of a fragment, based on the newer record if ours only changes deletions."""
    if before is None or now is None or before == now or bare(ours) != bare(before):
        return ours
    fragment = copied(now)
    fragment.deletion_file.CopyFrom(ours.deletion_file)
    return fragment


def bare(record: table_pb2.DataFragment) -> table_pb2.DataFragment:
    """Copy a record without its deletion file."""
    copy = copied(record)
    copy.ClearField("deletion_file")
    return copy
