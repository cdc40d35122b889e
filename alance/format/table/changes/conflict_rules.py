"""Rules of the conflict matrix that compare two operations, numbered as in `docs/commits.md`.

"Ours" is the operation to commit; "theirs" is the operation of a transaction that was committed
first. A rule returns the error, or None if the operations are compatible.
Source: docs/format/table.md, "Conflict matrix".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.base.checks import some_of
from alance.format.table.changes.apply_indices import MEM_WAL, SYSTEM, covered, related
from alance.format.table.changes.conflict_case import (
    fields_of,
    keeps_nulls,
    removed,
    replaced_fields,
    touched,
)
from alance.format.table.operations import (
    Append,
    CreateIndex,
    DataReplacement,
    Merge,
    Overwrite,
    Rewrite,
    Update,
    UpdateBases,
    UpdateConfig,
    UpdateMap,
    UpdateMemWalState,
)

if TYPE_CHECKING:
    from alance.errors import CommitConflictError
    from alance.format.proto import transaction_pb2
    from alance.format.table.changes.conflict_case import Case

    Found = CommitConflictError | None


def nulls_of_theirs(case: Case) -> Found:
    """Rule 1: ours writes rows while theirs changes the schema, which may forbid nulls.

    An append is also a conflict if it writes a field that got a new id.
    """
    if not keeps_nulls(case.theirs):
        return case.retry("it may have forbidden nulls")
    if isinstance(case.ours, Append) and isinstance(case.theirs, Merge):
        now = {field.id for field in case.newer.message.fields}
        gone = {field.id for field in case.base.message.fields} - now
        if lost := sorted(gone & fields_of(case.ours.fragments)):
            return case.retry(f"fields {lost} have got new ids")
    return None


def same_fragments(case: Case) -> Found:
    """Rule 3: both change a fragment, and the changes cannot be merged."""
    return case.retry(f"both change fragments {some_of(case.shared)}") if case.shared else None


def inserted_keys(case: Case) -> Found:
    """Rule 4: theirs may have added rows with the primary keys that ours inserts."""
    if (
        isinstance(case.ours, Update)
        and case.ours.inserted_rows is not None
        and _is_primary(case, case.ours.inserted_rows)
    ):
        return case.retry("it added rows, of which some may have the keys that ours inserts")
    return None


def _is_primary(case: Case, keys: transaction_pb2.Transaction.KeyExistenceFilter) -> bool:
    """True if the table has a primary key, and the keys are of its fields or of unknown ones."""
    schema = case.base.schema
    primary = {schema.field(name).id for name in schema.primary_key}
    return bool(primary) and (not keys.field_ids or set(keys.field_ids) == primary)


def both_insert_keys(case: Case) -> Found:
    """Rule 5: both insert rows with unique keys."""
    ours, theirs = case.ours, case.theirs
    assert isinstance(ours, Update)
    assert isinstance(theirs, Update)
    if ours.inserted_rows is None:
        return None
    if theirs.inserted_rows is None:
        return inserted_keys(case)
    fields, their_fields = set(ours.inserted_rows.field_ids), set(theirs.inserted_rows.field_ids)
    if fields and their_fields and fields != their_fields:
        return inserted_keys(case)
    if may_share_keys(ours.inserted_rows, theirs.inserted_rows):
        return case.retry("both may insert rows of the same key")
    return None


def may_share_keys(
    ours: transaction_pb2.Transaction.KeyExistenceFilter,
    theirs: transaction_pb2.Transaction.KeyExistenceFilter,
) -> bool:
    """True if two filters may have a key in common, also if they cannot be compared.

    A filter without field ids comes from a merge whose key columns are unknown.
    """
    kind = ours.WhichOneof("data")
    if list(ours.field_ids) != list(theirs.field_ids) or kind != theirs.WhichOneof("data"):
        return True
    if kind == "exact":
        return not set(ours.exact.hashes).isdisjoint(theirs.exact.hashes)
    if kind is None:
        return True
    our_bloom, their_bloom = ours.bloom, theirs.bloom
    if (our_bloom.num_bits, our_bloom.number_of_items, our_bloom.probability) != (
        their_bloom.num_bits,
        their_bloom.number_of_items,
        their_bloom.probability,
    ) or len(our_bloom.bitmap) != len(their_bloom.bitmap):
        return True
    return bool(
        int.from_bytes(our_bloom.bitmap, "little") & int.from_bytes(their_bloom.bitmap, "little")
    )


def same_shards(case: Case) -> Found:
    """Rule 7: both record progress of the same shard of a write-ahead log.

    A change of the log's index by theirs is a conflict, too.
    """
    if isinstance(case.theirs, CreateIndex):
        names = {index.name for index in (*case.theirs.new_indices, *case.theirs.removed_indices)}
        return case.retry(f"it changed index {MEM_WAL!r}") if MEM_WAL in names else None
    ours, theirs = _shards(case.ours), _shards(case.theirs)
    for shard in ours.keys() & theirs.keys():
        if theirs[shard] >= ours[shard]:
            return case.conflict(f"shard {shard.hex()} is at generation {theirs[shard]} already")
        return case.retry(f"both are of shard {shard.hex()}")
    return None


def _shards(change: object) -> dict[bytes, int]:
    assert isinstance(change, Update | UpdateMemWalState)
    return {
        compacted_sstable.shard.uuid: compacted_sstable.generation
        for compacted_sstable in change.compacted_sstables
    }


def overwrites(case: Case) -> Found:
    """Rule 8: an Overwrite meets a change of the configuration or another Overwrite."""
    assert isinstance(case.ours, Overwrite)
    keys = set(case.ours.config_upsert_values)
    if isinstance(case.theirs, UpdateConfig):
        if shared := _shares_config(case.theirs, keys):
            return case.conflict(f"both set configuration keys {some_of(shared)}")
        return None
    assert isinstance(case.theirs, Overwrite)
    if shared := sorted(keys & case.theirs.config_upsert_values.keys()):
        return case.conflict(f"both set configuration keys {some_of(shared)}")
    return case.retry("both replace all rows")


def _shares_config(change: UpdateConfig, keys: set[str]) -> list[str]:
    if change.config.replace:
        return sorted(keys)
    return sorted(keys & change.config.updates.keys())


def same_indices(case: Case) -> Found:
    """Rule 10: both change the index section."""
    ours, theirs = case.ours, case.theirs
    assert isinstance(ours, CreateIndex)
    assert isinstance(theirs, CreateIndex)
    new, their_new = ({index.name for index in side.new_indices} for side in (ours, theirs))
    gone, their_gone = ({index.name for index in side.removed_indices} for side in (ours, theirs))
    if names := sorted(new & their_new | new & their_gone | gone & their_new):
        return case.retry(f"both change indices {names}")
    if names := sorted((new | gone) & (their_new | their_gone) & set(SYSTEM)):
        return case.retry(f"both change indices {names}")
    uuids = {index.uuid.uuid for index in ours.removed_indices}
    shared = [index.name for index in theirs.removed_indices if index.uuid.uuid in uuids]
    if shared and (new or their_new):
        return case.retry(f"both replace segments of indices {shared}")
    return None


def index_of_rewritten(case: Case) -> Found:
    """Rule 11: one operation adds an index that may cover fragments that the other rewrote."""
    changes = (case.ours, case.theirs)
    index = next(change for change in changes if isinstance(change, CreateIndex))
    moved = removed(next(change for change in changes if isinstance(change, Rewrite)))
    for entry in index.new_indices:
        fragment_ids = covered(entry)
        if fragment_ids is None:
            return case.retry(f"which fragments index {entry.name!r} covers is not known")
        if shared := sorted(fragment_ids & moved):
            return case.retry(
                f"index {entry.name!r} covers the rewritten fragments {some_of(shared)}"
            )
    return None


def same_segments(case: Case) -> Found:
    """Rule 26: both rewrote the same segment of an index."""
    ours, theirs = case.ours, case.theirs
    assert isinstance(ours, Rewrite)
    assert isinstance(theirs, Rewrite)
    written = {moved.old_id.uuid for moved in theirs.rewritten_indices}
    if any(moved.old_id.uuid in written for moved in ours.rewritten_indices):
        return case.retry("both moved rows of one segment of an index")
    return None


def index_of_replaced(case: Case) -> Found:
    """Rule 12: one operation replaced values of a field that the other indexes."""
    changes = (case.ours, case.theirs)
    index = next(change for change in changes if isinstance(change, CreateIndex))
    replacement = next(change for change in changes if isinstance(change, DataReplacement))
    fields = related(case.base.message.fields, replaced_fields(replacement))
    for entry in index.new_indices:
        if shared := sorted(fields & set(entry.fields)):
            return case.retry(f"fields {shared} of index {entry.name!r} have new values")
    return None


def index_of_log(case: Case) -> Found:
    """Rule 13: ours changes an index while the write-ahead log advanced."""
    assert isinstance(case.ours, CreateIndex)
    if all(index.name == MEM_WAL for index in case.ours.new_indices):
        return None
    return case.conflict("the write-ahead log moved on")


def schema_metadata(case: Case) -> Found:
    """Rule 14: one operation changes metadata of the schema that the other replaces."""
    if changes_schema(next(change for change in (case.ours, case.theirs) if is_config(change))):
        return case.retry("one changes metadata of the schema that the other replaces")
    return None


def is_config(change: object) -> bool:
    """True if an operation is an `UpdateConfig`."""
    return isinstance(change, UpdateConfig)


def changes_schema(change: object) -> bool:
    """True if an `UpdateConfig` changes metadata of the schema or of fields."""
    assert isinstance(change, UpdateConfig)
    return change.of_schema is not None or bool(change.of_fields)


def nulls_of_ours(case: Case) -> Found:
    """Rule 15: ours changes the schema, which may forbid nulls, while theirs writes rows."""
    return None if keeps_nulls(case.ours) else case.retry("ours may forbid nulls")


def replaced_or_dropped(case: Case) -> Found:
    """Rule 21: ours replaces values of a field that theirs dropped, or theirs may forbid nulls."""
    gone = replaced_fields(case.ours) - {field.id for field in case.newer.message.fields}
    if gone:
        return case.conflict(f"fields {sorted(gone)} were dropped")
    return None if keeps_nulls(case.theirs) else case.retry("it may have forbidden nulls")


def restored_schema(case: Case) -> Found:
    """Rule 16: one operation changes metadata of the schema that the other restores."""
    if changes_schema(next(change for change in (case.ours, case.theirs) if is_config(change))):
        return case.conflict("one changes metadata of the schema that the other restores")
    return None


def config_of_overwritten(case: Case) -> Found:
    """Rule 17: ours changes the configuration of a table that theirs overwrote."""
    assert isinstance(case.ours, UpdateConfig)
    assert isinstance(case.theirs, Overwrite)
    if changes_schema(case.ours):
        return case.conflict("the schema whose metadata changes was replaced")
    if shared := _shares_config(case.ours, set(case.theirs.config_upsert_values)):
        return case.conflict(f"both set configuration keys {some_of(shared)}")
    return None


def same_bases(case: Case) -> Found:
    """Rule 25: both add a base path with the same id, name or path."""
    assert isinstance(case.ours, UpdateBases)
    assert isinstance(case.theirs, UpdateBases)
    for base in case.ours.new_bases:
        for two in case.theirs.new_bases:
            same_name = bool(base.name) and base.name == two.name
            if (base.id and base.id == two.id) or same_name or base.path == two.path:
                return case.conflict(f"both add base path {base.path!r} (name {base.name!r})")
    return None


def replaced_in_removed(case: Case) -> Found:
    """Rule 19: ours replaces values of a fragment that theirs removed."""
    if gone := sorted(touched(case.ours) & removed(case.theirs)):
        return case.conflict(f"fragments {some_of(gone)} were removed")
    return None


def replaced_in_updated(case: Case) -> Found:
    """Rule 20: ours replaces values of a fragment that theirs updated."""
    theirs = case.theirs
    assert isinstance(theirs, Update)
    if conflict := replaced_in_removed(case):
        return conflict
    if not case.shared:
        return None
    if theirs.new_fragments:
        return case.retry(f"rows were moved out of fragments {some_of(case.shared)}")
    fields = replaced_fields(case.ours) & replaced_fields(theirs)
    return case.retry(f"both replace fields {sorted(fields)}") if fields else None


def both_replace(case: Case) -> Found:
    """Rule 22: both replace values of the same fields in a fragment."""
    fields = replaced_fields(case.ours) & replaced_fields(case.theirs)
    if case.shared and fields:
        return case.retry(
            f"both replace fields {sorted(fields)} of fragments {some_of(case.shared)}"
        )
    return None


def overlaid_removed(case: Case) -> Found:
    """Rule 23: ours overlays values of a fragment that theirs removed."""
    if gone := sorted(touched(case.ours) & removed(case.theirs)):
        return case.retry(f"fragments {some_of(gone)} were removed")
    return None


def same_configuration(case: Case) -> Found:
    """Rule 18: both change the same key of the configuration or of metadata."""
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
    """Describe the keys that both changes of a map touch; empty if there are none.

    Args:
        deletes_agree: True if two deletions of the same key are compatible.
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
    return f"keys {some_of(sorted(shared))}" if shared else ""
