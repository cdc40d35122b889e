"""Conflict matrix: check a transaction against an earlier commit, and rebase it.

"Ours" is the operation to commit; "theirs" is the operation of a transaction that was committed
first. A rule, numbered as in `docs/commits.md`, compares both, and returns the error, or None if
they are compatible.
Source: docs/format/table.md, "Conflict matrix" and "Rebasing Delete and Update".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from alance.base.checks import some_of
from alance.base.records import dataclass
from alance.errors import CommitConflictError
from alance.format.table.changes.apply_indices import MEM_WAL, SYSTEM, covered, prune, related
from alance.format.table.changes.apply_rows import moved_fields
from alance.format.table.changes.conflict_case import (
    Case,
    check_merge,
    fields_of,
    keeps_nulls,
    merge,
    removed,
    replaced_fields,
    to_merge,
    touched,
    updated,
)
from alance.format.table.operations import (
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
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
    from collections.abc import Callable, Mapping, Sequence

    from alance.format.proto import transaction_pb2
    from alance.format.table.changes.conflict_case import Rows
    from alance.format.table.deletions import DeletionVector, NewDeletionFile
    from alance.format.table.manifest import Manifest
    from alance.format.table.operations import Operation
    from alance.format.table.transaction import Transaction

    Found = CommitConflictError | None

K = TypeVar("K", bound="Operation")

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


def _pair_of(case: Case, kind: type[K]) -> tuple[K, K]:
    """Return both operations of a case, which are of one kind."""
    assert isinstance(case.ours, kind)
    assert isinstance(case.theirs, kind)
    return case.ours, case.theirs


def _change_of(case: Case, kind: type[K]) -> K:
    """Return the operation of a kind, which is ours or theirs."""
    return next(change for change in (case.ours, case.theirs) if isinstance(change, kind))


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
    ours, theirs = _pair_of(case, Update)
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
    our_shape, their_shape = (
        (bloom.num_bits, bloom.number_of_items, bloom.probability, len(bloom.bitmap))
        for bloom in (ours.bloom, theirs.bloom)
    )
    our_bits, their_bits = (int.from_bytes(side.bloom.bitmap, "little") for side in (ours, theirs))
    return our_shape != their_shape or our_bits & their_bits != 0


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
    if shared := _shared_config(case.ours, case.theirs):
        return case.conflict(f"both set configuration keys {some_of(shared)}")
    return case.retry("both replace all rows") if isinstance(case.theirs, Overwrite) else None


def _shared_config(overwrite: Overwrite, other: Operation) -> list[str]:
    keys = set(overwrite.config_upsert_values)
    if isinstance(other, Overwrite):
        return sorted(keys & other.config_upsert_values.keys())
    assert isinstance(other, UpdateConfig)
    return sorted(keys if other.config.replace else keys & other.config.updates.keys())


def schema_kept(case: Case) -> Found:
    """Rule 9: ours indexes a field that theirs dropped."""
    assert isinstance(case.ours, CreateIndex)
    field_ids = {field.id for field in case.newer.message.fields}
    for index in case.ours.new_indices:
        if gone := sorted(set(index.fields) - field_ids):
            return case.conflict(f"fields {gone} of index {index.name!r} were dropped")
    return None


def same_indices(case: Case) -> Found:
    """Rule 10: both change the index section."""
    ours, theirs = _pair_of(case, CreateIndex)
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
    moved = removed(_change_of(case, Rewrite))
    for entry in _change_of(case, CreateIndex).new_indices:
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
    ours, theirs = _pair_of(case, Rewrite)
    written = {moved.old_id.uuid for moved in theirs.rewritten_indices}
    if any(moved.old_id.uuid in written for moved in ours.rewritten_indices):
        return case.retry("both moved rows of one segment of an index")
    return None


def index_of_replaced(case: Case) -> Found:
    """Rule 12: one operation replaced values of a field that the other indexes."""
    replaced = replaced_fields(_change_of(case, DataReplacement))
    fields = related(case.base.message.fields, replaced)
    for entry in _change_of(case, CreateIndex).new_indices:
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
    if _changes_schema(case):
        return case.retry("one changes metadata of the schema that the other replaces")
    return None


def _changes_schema(case: Case) -> bool:
    """True if the `UpdateConfig` of a case changes metadata of the schema or of fields."""
    change = _change_of(case, UpdateConfig)
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
    if _changes_schema(case):
        return case.conflict("one changes metadata of the schema that the other restores")
    return None


def config_of_overwritten(case: Case) -> Found:
    """Rule 17: ours changes the configuration of a table that theirs overwrote."""
    assert isinstance(case.theirs, Overwrite)
    if _changes_schema(case):
        return case.conflict("the schema whose metadata changes was replaced")
    if shared := _shared_config(case.theirs, case.ours):
        return case.conflict(f"both set configuration keys {some_of(shared)}")
    return None


def same_bases(case: Case) -> Found:
    """Rule 25: both add a base path with the same id, name or path."""
    ours, theirs = _pair_of(case, UpdateBases)
    for base in ours.new_bases:
        for two in theirs.new_bases:
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
    if case.shared and theirs.new_fragments:
        return case.retry(f"rows were moved out of fragments {some_of(case.shared)}")
    return both_replace(case)


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
    ours, theirs = _pair_of(case, UpdateConfig)
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


RULES: Final[Mapping[str, Callable[[Case], CommitConflictError | None]]] = {
    "C": lambda _: None,
    "R": lambda case: case.retry("they cannot both be based on one version"),
    "X": lambda case: case.conflict("the newer version rules it out"),
    "1": nulls_of_theirs,
    "2": check_merge,
    "3": same_fragments,
    "4": inserted_keys,
    "5": both_insert_keys,
    "7": same_shards,
    "8": overwrites,
    "9": schema_kept,
    "10": same_indices,
    "11": index_of_rewritten,
    "12": index_of_replaced,
    "13": index_of_log,
    "14": schema_metadata,
    "15": nulls_of_ours,
    "16": restored_schema,
    "17": config_of_overwritten,
    "18": same_configuration,
    "19": replaced_in_removed,
    "20": replaced_in_updated,
    "21": replaced_or_dropped,
    "22": both_replace,
    "23": overlaid_removed,
    "25": same_bases,
    "26": same_segments,
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
    return to_merge(Case(ours, theirs, ours.change, theirs.change, base, newer, deleted, {}))


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
    changes = ours.change, theirs.change
    case = Case(ours, theirs, *changes, base, newer, deleted, vectors or {})
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
