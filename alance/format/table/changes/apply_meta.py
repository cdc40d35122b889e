"""Steps of operations on indices, configuration, versions and base paths.

Source: docs/format/table.md, "Building the next manifest" and "Clones".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.errors import InvalidInputError
from alance.format.field import KEY_PROPERTIES, PRIMARY_KEYS, check_primary_key, set_keys
from alance.format.proto import copied
from alance.format.table.changes.apply_state import MAX_FRAGMENT_ID, DraftedFragments
from alance.format.table.flags import FIELD_IDS_NOT_REUSED, STABLE_ROW_IDS, STICKY

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from alance.format.proto import table_pb2
    from alance.format.table.changes.apply_state import Draft
    from alance.format.table.operations import (
        Clone,
        CreateIndex,
        ReserveFragments,
        Restore,
        UpdateBases,
        UpdateConfig,
        UpdateMap,
    )


def create_index(draft: Draft, change: CreateIndex) -> None:
    """Remove and add entries of the index section.

    Raises:
        InvalidInputError: an indexed field is not in the schema.
    """
    field_ids = {field.id for field in draft.message.fields}
    for index in change.new_indices:
        if not field_ids.issuperset(index.fields):
            raise InvalidInputError(
                f"CreateIndex: index {index.name!r} on fields {list(index.fields)}, "
                f"the schema has {sorted(field_ids)}"
            )
    gone = {index.uuid.uuid for index in (*change.removed_indices, *change.new_indices)}
    draft.indices = [index for index in draft.indices if index.uuid.uuid not in gone]
    draft.indices.extend(change.new_indices)


def reserve(draft: Draft, change: ReserveFragments) -> None:
    """Reserve fragment ids.

    Raises:
        InvalidInputError: not enough 32-bit ids remain.
    """
    message = draft.message
    # An absent `max_fragment_id` counts as 0 here, although id 0 is still free then.
    highest = message.max_fragment_id + change.num_fragments
    if highest > MAX_FRAGMENT_ID:
        raise InvalidInputError(
            f"ReserveFragments: {change.num_fragments} ids after {message.max_fragment_id}; "
            f"they have 32 bits"
        )
    message.max_fragment_id = highest


def restore(draft: Draft, change: Restore) -> None:
    """Take over the content of an older version, except for counters that must never decrease.

    Raises:
        InvalidInputError: `draft.source` is not the version to restore, the two versions differ in
            stable row ids, or the older one may reuse field ids.
    """
    source, previous = draft.source, draft.previous
    if source is None or source.version != change.version:
        number = "none" if source is None else source.version
        raise InvalidInputError(f"Restore: version {change.version} is needed, given: {number}")
    assert previous is not None
    now, then = previous.head, source.head
    if (now.reader_feature_flags ^ then.reader_feature_flags) & STABLE_ROW_IDS:
        raise InvalidInputError(
            f"Restore: version {change.version} and the latest one differ in stable row ids"
        )
    if now.writer_feature_flags & ~then.writer_feature_flags & FIELD_IDS_NOT_REUSED:
        raise InvalidInputError(
            f"Restore: version {change.version} is from before field ids were not used again"
        )
    message = draft.message
    message.CopyFrom(then)
    draft.fragments = DraftedFragments(source.fragments)
    message.max_fragment_id = max(now.max_fragment_id, then.max_fragment_id)
    if not now.HasField("max_fragment_id") and not then.HasField("max_fragment_id"):
        message.ClearField("max_fragment_id")
    message.next_row_id = max(now.next_row_id, then.next_row_id)
    if now.HasField("max_allocated_field_id"):
        message.max_allocated_field_id = max(
            now.max_allocated_field_id, then.max_allocated_field_id
        )
    message.reader_feature_flags |= now.reader_feature_flags & STICKY
    message.writer_feature_flags |= now.writer_feature_flags & STICKY
    ids = {base.id for base in then.base_paths}
    message.base_paths.extend(base for base in now.base_paths if base.id not in ids)
    message.ClearField("branch")
    if now.HasField("branch"):
        message.branch = now.branch
    draft.indices = list(source.indices)


def update_bases(draft: Draft, change: UpdateBases) -> None:
    """Add base paths; assign ids to the base paths without an id.

    Raises:
        InvalidInputError: the name, path or id is already in use.
    """
    bases = draft.message.base_paths
    for base in change.new_bases:
        for other in bases:
            if base.path == other.path or (base.name and base.name == other.name):
                raise InvalidInputError(
                    f"UpdateBases: base path {base.path!r} (name {base.name!r}) is there as "
                    f"{other.id} ({other.path!r}, name {other.name!r})"
                )
            if base.id and base.id == other.id:
                raise InvalidInputError(f"UpdateBases: base path id {base.id} is there")
        copy = bases.add()
        copy.CopyFrom(base)
        if not base.id:
            copy.id = max(other.id for other in bases) + 1


def update_config(draft: Draft, change: UpdateConfig) -> None:
    """Change the configuration and the metadata of the table, its schema and its fields.

    Raises:
        InvalidInputError: an unknown field, or a changed primary or clustering key.
    """
    message = draft.message
    edit(message.config, change.config)
    if change.table_metadata_updates is not None:
        edit(message.table_metadata, change.table_metadata_updates)
    if change.of_schema is not None:
        edit_bytes(message.schema_metadata, change.of_schema)
    fields = {field.id: field for field in message.fields}
    for field_id, updates in change.of_fields.items():
        if field_id not in fields:
            raise InvalidInputError(f"UpdateConfig: field {field_id} is not in the schema")
        field = fields[field_id]
        before = {key: field.metadata[key] for key in KEY_PROPERTIES if key in field.metadata}
        edit_bytes(field.metadata, updates)
        after = {key: field.metadata[key] for key in KEY_PROPERTIES if key in field.metadata}
        if before and before != after:
            raise InvalidInputError(
                f"UpdateConfig: field {field.name!r} is part of a key, which cannot be changed"
            )
        if before != after:
            set_keys(field)
            if not field.unenforced_primary_key and any(key in after for key in PRIMARY_KEYS):
                raise InvalidInputError(
                    f"UpdateConfig: field {field.name!r}: {after} says no primary key, expected "
                    "'true' or a position from 1 on"
                )
            check_primary_key(message.fields)


def edit(into: MutableMapping[str, str], updates: UpdateMap) -> None:
    """Apply updates to a map. Deleting an absent key does nothing."""
    if updates.replace:
        into.clear()
    for key, value in updates.updates.items():
        if value is not None:
            into[key] = value
        elif key in into:
            del into[key]


def edit_bytes(into: MutableMapping[str, bytes], updates: UpdateMap) -> None:
    """Apply updates to a map whose values are UTF-8 bytes."""
    texts = {key: value.decode() for key, value in into.items()}
    edit(texts, updates)
    into.clear()
    into.update({key: value.encode() for key, value in texts.items()})


def clone(draft: Draft, change: Clone) -> None:
    """Make the first version of a new table from a version of another.

    The records of a shallow clone refer to the other table's files; those of a deep clone, to files
    in the new table's folder. No file is copied here.

    Raises:
        InvalidInputError: `draft.source` is missing, or the table already exists.
    """
    if draft.source is None or draft.previous is not None:
        raise InvalidInputError("Clone: needs the version to clone, and a table that is not there")
    message = draft.message
    message.CopyFrom(draft.source.head)
    draft.indices = list(map(copied, draft.source.indices))
    message.ClearField("branch")
    if change.branch_name is not None:
        message.branch = change.branch_name
    base_id = None
    if change.is_shallow:
        base_id = max((base_path.id for base_path in message.base_paths), default=-1) + 1
        base = message.base_paths.add(id=base_id, is_dataset_root=True, path=change.ref_path)
        if change.ref_name is not None:
            base.name = change.ref_name
    else:
        message.ClearField("base_paths")
        message.base_paths.extend(draft.settings.base_paths)
    draft.fragments = DraftedFragments(draft.source.fragments.below(base_id))
    for index in draft.indices:
        set_base(index, base_id)


def set_base(
    record: table_pb2.DataFile | table_pb2.DeletionFile | table_pb2.IndexMetadata,
    base_id: int | None,
) -> None:
    """Set the base of a file without one; if `base_id` is None, remove the file's base."""
    if base_id is None:
        record.ClearField("base_id")
    elif not record.HasField("base_id"):
        record.base_id = base_id
