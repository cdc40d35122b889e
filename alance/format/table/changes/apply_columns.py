"""Steps of the operations on columns: Merge, Project, DataReplacement.

Source: docs/format/table.md, "Building the next manifest" and "Schema evolution".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alance.errors import InvalidInputError
from alance.format.proto import copied, table_pb2
from alance.format.table.changes.apply_indices import prune
from alance.format.table.changes.lineage import mark_created, mark_updated
from alance.format.table.fragment import ROW_ID_FIELD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from alance.format.table.changes.apply_state import Draft
    from alance.format.table.operations import DataReplacement, Merge, Project

TOMBSTONE: Final = -2


def merge(draft: Draft, change: Merge) -> None:
    """Replace fragment records by records with more files, and set the new schema.

    Raises:
        InvalidInputError: a fragment of the table is missing or has another number of rows.
    """
    assert draft.previous is not None
    before = {fragment.id: fragment for fragment in draft.previous.fragments.records[:]}
    existing, new = _split(change.fragments, before)
    if missing := before.keys() - {record.id for record in existing}:
        raise InvalidInputError(
            f"Merge: fragments {sorted(missing)} are not among those of the operation"
        )
    for record in existing:
        if record.physical_rows != before[record.id].physical_rows:
            raise InvalidInputError(
                f"Merge: fragment {record.id} has {record.physical_rows} rows, "
                f"expected {before[record.id].physical_rows} as before"
            )
    differing = [record for record in existing if record != before[record.id]]
    draft.replace(differing)
    changed = {}
    for record in differing:
        changed[record.id] = moved_fields(before[record.id], record)
        if draft.stable and changed[record.id]:
            mark_updated(draft.fragments.get(record.id), draft.version)
    draft.indices = prune(draft.indices, changed, draft.message.fields)
    draft.set_fields(change.schema)
    if change.schema_metadata:
        draft.message.ClearField("schema_metadata")
        draft.message.schema_metadata.update(change.schema_metadata)
    advance_field_ids(draft)
    added = draft.add(new)
    draft.assign_row_ids(added)
    if draft.stable:
        for fragment in added:
            mark_created(fragment, draft.version)


def _split(
    fragments: Iterable[table_pb2.DataFragment], before: dict[int, table_pb2.DataFragment]
) -> tuple[list[table_pb2.DataFragment], list[table_pb2.DataFragment]]:
    """Split fragments into existing and new ones. Id 0 is either a real id or means "no id yet".

    Raises:
        InvalidInputError: an existing fragment occurs twice.
    """
    existing: dict[int, table_pb2.DataFragment] = {}
    new = []
    for fragment in fragments:
        if fragment.id in before and fragment.id not in existing:
            existing[fragment.id] = fragment
        elif fragment.id in before and fragment.id != 0:
            raise InvalidInputError(f"Merge: fragment {fragment.id} is there twice")
        else:
            new.append(fragment)
    return list(existing.values()), new


def moved_fields(before: table_pb2.DataFragment, now: table_pb2.DataFragment) -> frozenset[int]:
    """Return the ids of the fields whose data file was changed, added or removed in a fragment."""
    old, new = _paths(before), _paths(now)
    return frozenset(field for field in old.keys() | new.keys() if old.get(field) != new.get(field))


def _paths(fragment: table_pb2.DataFragment) -> dict[int, tuple[int | None, str]]:
    """Map each field to its file's base (None for the table's folder) and path."""
    return {
        field: (file.base_id if file.HasField("base_id") else None, file.path)
        for file in fragment.files
        for field in file.fields
        if field >= 0
    }


def project(draft: Draft, change: Project) -> None:
    """Set a schema that is a subset of the existing fields.

    Raises:
        InvalidInputError: the schema has a new field.
    """
    field_ids = {field.id for field in draft.message.fields}
    if unknown := sorted({field.id for field in change.schema} - field_ids):
        raise InvalidInputError(f"Project: fields {unknown} are not in the table")
    draft.set_fields(change.schema)


def advance_field_ids(draft: Draft) -> None:
    """Record the highest field id; does nothing in tables that may reuse field ids."""
    message = draft.message
    if message.HasField("max_allocated_field_id"):
        highest = max((field.id for field in message.fields), default=-1)
        message.max_allocated_field_id = max(message.max_allocated_field_id, highest)


def drop_dead_files(draft: Draft) -> None:
    """Drop data files that have no field of the schema; keep files of hidden lineage columns."""
    live = {field.id for field in draft.message.fields}
    _drop_files(draft, lambda file: not _is_live(file, live))


def without_dead_files(
    fragments: Iterable[table_pb2.DataFragment], fields: Iterable[int]
) -> list[table_pb2.DataFragment]:
    """Return copies of fragments without the data files that `drop_dead_files` drops.

    Args:
        fields: ids of the schema's fields.
    """
    live = set(fields)
    copies = []
    for fragment in fragments:
        copy = copied(fragment)
        copy.ClearField("files")
        copy.files.extend(file for file in fragment.files if _is_live(file, live))
        copies.append(copy)
    return copies


def drop_tombstones(draft: Draft) -> None:
    """Drop the data files that have only tombstones, because all their fields were replaced."""
    _drop_files(draft, _is_dead)


def _drop_files(draft: Draft, is_dropped: Callable[[table_pb2.DataFile], bool]) -> None:
    for fragment in draft.fragments.all_like(lambda form: any(map(is_dropped, form.files))):
        files = [file for file in fragment.files if not is_dropped(file)]
        fragment.ClearField("files")
        fragment.files.extend(files)


def _is_live(file: table_pb2.DataFile, live: set[int]) -> bool:
    return any(field in live or field <= ROW_ID_FIELD for field in file.fields)


def _is_dead(file: table_pb2.DataFile) -> bool:
    return bool(file.fields) and all(field == TOMBSTONE for field in file.fields)


def replace_data(draft: Draft, change: DataReplacement) -> None:
    """Add data files with new values to fragments; see `replace_file`.

    Raises:
        InvalidInputError: a fragment is unknown or named twice, or the files differ in their
            fields.
    """
    missing = draft.fragments.missing({part.fragment_id for part in change.replacements})
    seen: set[int] = set()
    fields = tuple(change.replacements[0].new_file.fields) if change.replacements else ()
    for replacement in change.replacements:
        if replacement.fragment_id in missing or replacement.fragment_id in seen:
            what = "is named twice" if replacement.fragment_id in seen else "is not in the table"
            raise InvalidInputError(f"DataReplacement: fragment {replacement.fragment_id} {what}")
        seen.add(replacement.fragment_id)
        if tuple(replacement.new_file.fields) != fields:
            raise InvalidInputError(
                f"DataReplacement: files of fields {list(replacement.new_file.fields)} and "
                f"{list(fields)}; expected the same in all fragments"
            )
        fragment = draft.fragments.get(replacement.fragment_id)
        replace_file(fragment, replacement.new_file)
        if draft.stable:
            mark_updated(fragment, draft.version)
    changed = dict.fromkeys(seen, frozenset(fields))
    draft.indices = prune(draft.indices, changed, draft.message.fields)


def replace_file(fragment: table_pb2.DataFragment, new: table_pb2.DataFile) -> None:
    """Replace the data file with the same fields and version by a new one.

    If there is no such file, appends the new one, and replaces its fields by tombstones in the
    other files.

    Raises:
        InvalidInputError: a field is in a 0.1 file; such files cannot have tombstones.
    """
    fields = set(new.fields)
    version = (new.file_major_version, new.file_minor_version)
    for file in fragment.files:
        has_same_fields = list(file.fields) == list(new.fields)
        if has_same_fields and (file.file_major_version, file.file_minor_version) == version:
            file.CopyFrom(new)
            return
    for file in fragment.files:
        if fields.isdisjoint(file.fields):
            continue
        if file.file_major_version < 2:
            raise InvalidInputError(
                f"DataReplacement: fragment {fragment.id} has fields {sorted(fields)} in a 0.1 file"
            )
        file.fields[:] = [TOMBSTONE if field in fields else field for field in file.fields]
    fragment.files.add().CopyFrom(new)
