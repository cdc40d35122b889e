"""Two that delete rows of one fragment: their deletion vectors are joined.

It takes the rows that our operation deletes, and not only its vectors, to see that the two do
not delete the same row: the operation that came second would then have found it gone.

Source: docs/format/table.md, "Rebasing Delete and Update".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from alance.errors import InvalidInputError
from alance.format.proto import copied, table_pb2
from alance.format.table.conflict_case import removed, touched, updated
from alance.format.table.deletions import new_deletion_file
from alance.format.table.operations import Delete, Update

if TYPE_CHECKING:
    from alance.errors import CommitConflictError
    from alance.format.table.conflict_case import Case
    from alance.format.table.deletions import DeletionVector, NewDeletionFile
    from alance.format.table.operations import Operation


def to_merge(case: Case) -> tuple[int, ...]:
    """The fragments whose vectors are joined, so that those of `newer` are needed; sorted."""
    if case.deleted is None or not isinstance(case.ours, Delete | Update):
        return ()
    if not isinstance(case.theirs, Delete | Update):
        return ()
    ours = {fragment.id for fragment in updated(case.ours)} & case.deleted.keys()
    theirs = {
        fragment.id for fragment in updated(case.theirs) if fragment.HasField("deletion_file")
    }
    return tuple(sorted(ours & theirs))


def check_merge(case: Case) -> CommitConflictError | None:
    """2: both delete rows of a fragment; the error, or None where the vectors can be joined."""
    if not case.shared:
        return None
    if gone := sorted(touched(case.ours) & removed(case.theirs)):
        return case.retry(f"fragments {gone} were removed")
    if gone := sorted(touched(case.theirs) & removed(case.ours)):
        return case.retry(f"rows of fragments {gone}, which ours removes, were changed")
    mergeable = to_merge(case)
    if unknown := sorted(set(case.shared) - set(mergeable)):
        return case.retry(f"both change rows of fragments {unknown}")
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
        if same := int(vector.contains(case.deleted[fragment.id]).sum()):
            return case.retry(f"both delete {same} rows of fragment {fragment.id}")
    return None


def vector_of(case: Case, fragment_id: int) -> DeletionVector:
    """The deleted rows of a fragment in the newer version, as they were given.

    Raises:
        InvalidInputError: they were not.
    """
    if fragment_id not in case.vectors:
        raise InvalidInputError(
            f"fragment {fragment_id}: its deletion vector of version {case.newer.version} "
            f"is needed, given: {sorted(case.vectors)}"
        )
    return case.vectors[fragment_id]


def merge(case: Case) -> tuple[Operation, list[NewDeletionFile]]:
    """Our operation on top of the newer version, after `check_merge`; and its new files.

    Records of fragments that only the other changed, or that both did, are those of the newer
    version, with our deletion files.
    """
    ours = case.ours
    assert isinstance(ours, Delete | Update)
    files: list[NewDeletionFile] = []
    kept: list[table_pb2.DataFragment] = []
    emptied: list[int] = []
    mergeable = to_merge(case)
    for fragment in ours.updated_fragments:
        now = case.newer.fragments.record_of(fragment.id)
        if fragment.id not in mergeable:
            kept.append(_refreshed(fragment, case.base.fragments.record_of(fragment.id), now))
            continue
        assert case.deleted is not None
        assert now is not None
        union = np.union1d(vector_of(case, fragment.id).rows, case.deleted[fragment.id])
        if len(union) == now.physical_rows:
            emptied.append(fragment.id)
            continue
        # A vector that was joined once is a bitmap, however few its rows: so do other writers.
        file = new_deletion_file(fragment.id, union, case.newer.version, as_bitmap=True)
        files.append(file)
        now.deletion_file.CopyFrom(file.record)
        kept.append(now)
    if isinstance(ours, Delete):
        gone = (*ours.deleted_fragment_ids, *emptied)
        return replace(ours, updated_fragments=tuple(kept), deleted_fragment_ids=gone), files
    gone = (*ours.removed_fragment_ids, *emptied)
    return replace(ours, updated_fragments=tuple(kept), removed_fragment_ids=gone), files


def _refreshed(
    ours: table_pb2.DataFragment,
    before: table_pb2.DataFragment | None,
    now: table_pb2.DataFragment | None,
) -> table_pb2.DataFragment:
    """Our record of a fragment; made of the newer one where ours differs by its deletions only."""
    if before is None or now is None or before == now or bare(ours) != bare(before):
        return ours
    fragment = copied(now)
    fragment.deletion_file.CopyFrom(ours.deletion_file)
    return fragment


def bare(record: table_pb2.DataFragment) -> table_pb2.DataFragment:
    """A copy without its deletion file."""
    copy = copied(record)
    copy.ClearField("deletion_file")
    return copy
