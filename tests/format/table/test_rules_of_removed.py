"""Changes of a fragment that an earlier commit removed: ruled out, or to be run again."""

from __future__ import annotations

import pytest

from alance.errors import CommitConflictError, RetryableConflictError
from alance.format.proto import table_pb2, transaction_pb2
from alance.format.schema import Schema
from alance.format.table.changes.conflicts import rebase
from alance.format.table.fragment import Records
from alance.format.table.manifest import Manifest
from alance.format.table.operations import (
    DataOverlay,
    DataReplacement,
    DataReplacementGroup,
    Delete,
    Operation,
    Update,
)
from alance.format.table.transaction import Transaction

FILE = table_pb2.DataFile(path="a.lance", fields=[4])
REPLACEMENT = DataReplacement((DataReplacementGroup(7, FILE),))
OVERLAY = DataOverlay((transaction_pb2.Transaction.DataOverlay.Group(fragment_id=7),))


def conflict(ours: Operation, theirs: Operation) -> tuple[type[Exception], str]:
    head = table_pb2.Manifest(version=6)
    newer = Manifest.of(head, Schema.from_protobuf((), {}), Records.of(()))
    first, second = (Transaction.of(change, read_version=5) for change in (ours, theirs))
    with pytest.raises(CommitConflictError) as raised:
        rebase(first, second, base=newer, newer=newer)
    return raised.type, str(raised.value)


def test_new_values_of_a_removed_fragment_are_ruled_out() -> None:
    for theirs in (Delete(deleted_fragment_ids=(7, 8)), Update(removed_fragment_ids=(7,))):
        kind, text = conflict(REPLACEMENT, theirs)
        assert kind is CommitConflictError
        assert text.endswith("fragments [7] were removed")


def test_an_overlay_of_a_removed_fragment_is_run_again() -> None:
    kind, text = conflict(OVERLAY, Delete(deleted_fragment_ids=(7,)))
    assert kind is RetryableConflictError
    assert text.endswith("fragments [7] were removed; run the operation again")


def test_new_values_of_one_field_are_run_again() -> None:
    record = table_pb2.DataFragment(id=7)
    theirs = Update(updated_fragments=(record,), fields_modified=(4,))
    for change in (theirs, REPLACEMENT):
        kind, text = conflict(REPLACEMENT, change)
        assert kind is RetryableConflictError
        assert "both replace fields [4] of fragments [7]" in text
    moved = Update(updated_fragments=(record,), new_fragments=(record,))
    assert "rows were moved out of fragments [7]" in conflict(REPLACEMENT, moved)[1]
