"""Conflict matrix: check a transaction against an earlier commit, and rebase it.

`docs/commits.md` explains the matrix and its rules.
Source: docs/format/table.md, "Conflict matrix" and "Rebasing Delete and Update".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from alance.base.records import dataclass
from alance.errors import CommitConflictError
from alance.format.table.changes import conflict_rules as rules
from alance.format.table.changes.apply_columns import moved_fields
from alance.format.table.changes.apply_indices import prune
from alance.format.table.changes.conflict_case import (
    Case,
    check_merge,
    merge,
    replaced_fields,
    to_merge,
    updated,
)
from alance.format.table.operations import CreateIndex, Delete, Merge, Update

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from alance.format.table.changes.conflict_case import Rows
    from alance.format.table.deletions import DeletionVector, NewDeletionFile
    from alance.format.table.manifest import Manifest
    from alance.format.table.operations import Operation
    from alance.format.table.transaction import Transaction

COLUMNS: Final = (
    *("Append", "Delete", "Update", "Overwrite", "CreateIndex", "Rewrite", "Merge", "Project"),
    *("Restore", "ReserveFragments", "UpdateConfig", "DataReplacement", "DataOverlay"),
    *("UpdateMemWalState", "UpdateBases"),
)
# Row: our operation. Columns: their operation, in the order of `COLUMNS`. C: compatible; R: run
# ours again; X: ours is ruled out; numbers: check all of these rules, see below.
MATRIX: Final[Mapping[str, str]] = {
    "Append": "C C C X C C 1 1 X C C C C X C",
    "Delete": "C 2 2 X C 3 R C X C C 3 C X C",
    "Update": "4 2 2,5 X C 3 R 1 X C C 3 3 7 C",
    "Overwrite": "C C C 8 C C C C C C 8 C C X C",
    "CreateIndex": "C C C X 10 11 9 9 X C C 12 C 13 C",
    "Rewrite": "C 3 3 X 11 3,26 R C X C C 3 3 C C",
    "Merge": "R R R X C R R X X C 14 R R X C",
    "Project": "15 C 15 X C C R R X C C 15 15 X C",
    "Restore": "C C C C C C C C C C 16 C C X C",
    "ReserveFragments": "C C C X C C C C X C C C C C C",
    "UpdateConfig": "C C C 17 C C 14 C 16 C 18 C C C C",
    "DataReplacement": "C 19 20 X 12 3 R 21 X C C 22 C X C",
    "DataOverlay": "C 23 3 X C 3 R 1 X C C C C X C",
    "UpdateMemWalState": "X X 7 X 7 C X X X C C X X 7 C",
    "UpdateBases": "C C C C C C C C C C C C C C 25",
}


def _schema_kept(case: Case) -> CommitConflictError | None:
    """Rule 9: ours indexes a field that theirs dropped."""
    assert isinstance(case.ours, CreateIndex)
    field_ids = {field.id for field in case.newer.message.fields}
    for index in case.ours.new_indices:
        if gone := sorted(set(index.fields) - field_ids):
            return case.conflict(f"fields {gone} of index {index.name!r} were dropped")
    return None


RULES: Final[Mapping[str, Callable[[Case], CommitConflictError | None]]] = {
    "C": lambda _: None,
    "R": lambda case: case.retry("they cannot both be based on one version"),
    "X": lambda case: case.conflict("the newer version rules it out"),
    "1": rules.nulls_of_theirs,
    "2": check_merge,
    "3": rules.same_fragments,
    "4": rules.inserted_keys,
    "5": rules.both_insert_keys,
    "7": rules.same_shards,
    "8": rules.overwrites,
    "9": _schema_kept,
    "10": rules.same_indices,
    "11": rules.index_of_rewritten,
    "12": rules.index_of_replaced,
    "13": rules.index_of_log,
    "14": rules.schema_metadata,
    "15": rules.nulls_of_ours,
    "16": rules.restored_schema,
    "17": rules.config_of_overwritten,
    "18": rules.same_configuration,
    "19": rules.replaced_in_removed,
    "20": rules.replaced_in_updated,
    "21": rules.replaced_or_dropped,
    "22": rules.both_replace,
    "23": rules.overlaid_removed,
    "25": rules.same_bases,
    "26": rules.same_segments,
}


@dataclass(frozen=True, slots=True)
class Rebased:
    """Our transaction rebased onto a newer version, and its new deletion files."""

    transaction: Transaction
    deletion_files: tuple[NewDeletionFile, ...] = ()


def fragments_to_merge(
    ours: Transaction,
    theirs: Transaction | None,
    *,
    base: Manifest,
    newer: Manifest,
    deleted: Rows | None,
) -> tuple[int, ...]:
    """Return the fragments whose deletion vectors in `newer` have to be passed to `rebase`; sorted.

    The arguments are those of `rebase`.
    """
    if theirs is None:
        return ()
    return to_merge(_case(ours, theirs, base, newer, deleted, {}))


def rebase(
    ours: Transaction,
    theirs: Transaction | None,
    *,
    base: Manifest,
    newer: Manifest,
    deleted: Rows | None = None,
    vectors: Mapping[int, DeletionVector] | None = None,
) -> Rebased:
    """Rebase our transaction from `base` onto `newer`.

    Args:
        ours: our transaction, computed from `base` or rebased onto it.
        theirs: the transaction that made `newer`, the version after `base`. None if unknown, which
            is a conflict.
        deleted: for Delete and Update, physical offsets of the rows that ours deletes or moves, by
            fragment id; sorted, without rows deleted before. None if unknown; then any change of
            the same fragment is a conflict.
        vectors: deletion vectors of `fragments_to_merge` in `newer`.

    Raises:
        RetryableConflictError: run the operation again on the newer version.
        CommitConflictError: the newer version rules our transaction out.
        InvalidInputError: a needed deletion vector is missing.
    """
    if theirs is None:
        raise CommitConflictError(
            f"{ours.operation} from version {ours.read_version}: version {newer.version} does not "
            f"tell what it changed"
        )
    case = _case(ours, theirs, base, newer, deleted, vectors or {})
    for rule in cell(ours.operation, theirs.operation):
        if conflict := RULES[rule](case):
            raise conflict
    if isinstance(case.ours, Delete | Update):
        change, files = merge(case)
        moved = ours.with_change(change, read_version=newer.version)
        return Rebased(moved, tuple(files))
    if isinstance(case.ours, CreateIndex):
        return Rebased(ours.with_change(_pruned(case, case.ours)))
    return Rebased(ours)


def cell(ours: str, theirs: str) -> Sequence[str]:
    """Return the matrix entry for the names of two operations: a list of codes or rule numbers."""
    if theirs == "Clone" and ours in MATRIX:
        return ("C",)
    if ours not in MATRIX or theirs not in COLUMNS:
        return ("X",)
    return MATRIX[ours].split()[COLUMNS.index(theirs)].split(",")


def _case(
    ours: Transaction,
    theirs: Transaction,
    base: Manifest,
    newer: Manifest,
    deleted: Rows | None,
    vectors: Mapping[int, DeletionVector],
) -> Case:
    return Case(ours, theirs, ours.change, theirs.change, base, newer, deleted, vectors)


def _pruned(case: Case, ours: CreateIndex) -> Operation:
    """Remove from the coverage of `ours` the fragments whose indexed values theirs changed."""
    changed: dict[int, frozenset[int]] = {}
    if isinstance(case.theirs, Update):
        fields = replaced_fields(case.theirs)
        changed = {fragment.id: fields for fragment in updated(case.theirs)}
    elif isinstance(case.theirs, Merge):
        before = {fragment.id: fragment.message for fragment in case.base.fragments}
        for fragment in case.newer.fragments:
            if fragment.id in before:
                changed[fragment.id] = moved_fields(before[fragment.id], fragment.message)
    if not any(changed.values()):
        return ours
    retained = prune(ours.new_indices, changed, case.base.message.fields)
    return replace(ours, new_indices=tuple(retained))
