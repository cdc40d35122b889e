"""Rule 18 of the conflict matrix: two changes of configuration and metadata.

Source: docs/format/table.md, "Conflict matrix".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.format.table.operations_meta import UpdateConfig, UpdateMap

if TYPE_CHECKING:
    from alance.errors import CommitConflictError
    from alance.format.table.conflict_case import Case


def same_configuration(case: Case) -> CommitConflictError | None:
    """18: both change one map at the same place."""
    ours, theirs = case.ours, case.theirs
    assert isinstance(ours, UpdateConfig)
    assert isinstance(theirs, UpdateConfig)
    if keys := clash(ours.config, theirs.config):
        return case.conflict(f"both change the configuration: {keys}")
    our_updates, their_updates = ours.table_metadata_updates, theirs.table_metadata_updates
    if (
        our_updates is not None
        and their_updates is not None
        and (keys := clash(our_updates, their_updates, deletes_agree=False))
    ):
        return case.conflict(f"both change the table's metadata: {keys}")
    if ours.of_schema is not None and theirs.of_schema is not None:
        return case.conflict("both change the schema's metadata")
    if fields := sorted(ours.of_fields.keys() & theirs.of_fields.keys()):
        return case.conflict(f"both change the metadata of fields {fields}")
    return None


def clash(ours: UpdateMap, theirs: UpdateMap, *, deletes_agree: bool = True) -> str:
    """What two changes of a map both touch, in words; empty: nothing.

    Args:
        deletes_agree: two that delete a key get along.
    """
    both_change = all(side.replace or side.updates for side in (ours, theirs))
    if both_change and (ours.replace or theirs.replace):
        return "all keys"
    shared = ours.updates.keys() & theirs.updates.keys()
    if deletes_agree:
        shared = {
            key
            for key in shared
            if ours.updates[key] is not None or theirs.updates[key] is not None
        }
    return f"keys {sorted(shared)}" if shared else ""
