"""Steps of operations on rows (Append, Delete, Update, Overwrite, Rewrite) and on columns (Merge,
Project, DataReplacement).

Source: docs/format/table.md, "Building the next manifest", "Row ids by operation" and "Schema
evolution".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from alance.errors import CorruptFileError, InvalidInputError, UnsupportedError
from alance.file_version import FileVersion
from alance.format.proto import table_pb2
from alance.format.table.changes.apply_indices import covered, prune, reuse_index, with_coverage
from alance.format.table.changes.apply_state import DraftedFragments
from alance.format.table.changes.lineage import mark_moved, mark_updated
from alance.format.table.fragment import ROW_ID_FIELD
from alance.format.table.indices import FRAGMENT_REUSE, holds_row_ids
from alance.format.table.operations import REWRITE_COLUMNS
from alance.format.table.roaring import check_roaring, parse_roaring

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from alance.base.arrays import Int64s
    from alance.format.table.changes.apply_state import Draft
    from alance.format.table.operations import (
        Append,
        DataReplacement,
        Delete,
        Merge,
        Overwrite,
        Project,
        Rewrite,
        RewriteGroup,
        RewrittenIndex,
        Update,
    )

TOMBSTONE: Final = -2  # field id of a column whose values another file has


def append(draft: Draft, change: Append) -> None:
    draft.add_new_rows(change.fragments)


def delete(draft: Draft, change: Delete) -> None:
    """Replace the records of fragments that lose rows, and remove fragments without live rows."""
    draft.remove(change.deleted_fragment_ids)
    draft.replace(change.updated_fragments)


def update(draft: Draft, change: Update) -> None:
    """Apply an update. Moved rows keep their ids; indices lose fields that changed in place."""
    assert draft.previous is not None
    for key, content in change.updated_fragment_offset_bitmaps.items():
        try:
            check_roaring(memoryview(content))
        except CorruptFileError as error:
            raise InvalidInputError(
                f"Update: updated_fragment_offset_bitmaps of fragment {key}: {error}"
            ) from error
    before = draft.previous.fragments
    # Rows move out of fragments that lose rows; the others need not be parsed.
    losing = {*change.removed_fragment_ids, *(record.id for record in change.updated_fragments)}
    order = np.lexsort((before.ids, ~np.isin(before.ids, list(losing))))
    sources = (before.records[position] for position in order.tolist())
    draft.remove(change.removed_fragment_ids)
    draft.replace(change.updated_fragments)
    added = draft.add(change.new_fragments)
    num_moved = draft.assign_row_ids(added)
    if draft.stable:
        mark_moved(added, num_moved, sources, draft.version, draft.lineages)
    updated = {fragment.id for fragment in change.updated_fragments}
    if change.update_mode == REWRITE_COLUMNS and draft.stable:
        offsets = changed_offsets(change)
        for fragment_id in sorted(updated & offsets.keys()):
            fragment = draft.fragments.get(fragment_id)
            mark_updated(fragment, draft.version, offsets[fragment_id], draft.lineages)
    changed = {fragment_id: frozenset(change.fields_modified) for fragment_id in updated}
    draft.indices = prune(draft.indices, changed, draft.message.fields)


def changed_offsets(change: Update) -> dict[int, Int64s]:
    """Return the sorted offsets of rows that an update changed in place, by fragment id.

    Reads the current form (bitmaps) and the old one (lists).
    """
    old = {
        key: np.unique(np.array(message.offsets, np.int64))
        for key, message in change.updated_fragment_offsets.items()
    }
    new = {
        key: parse_roaring(memoryview(content))
        for key, content in change.updated_fragment_offset_bitmaps.items()
    }
    return {**old, **new}


def overwrite(draft: Draft, change: Overwrite) -> None:
    """Replace all rows and the schema; keep the id counters and the configuration."""
    message = draft.message
    for fragment in change.fragments:
        if fragment.HasField("deletion_file"):
            raise InvalidInputError(
                f"Overwrite: fragment of {fragment.files[0].path!r} has a deletion file"
            )
    if draft.previous is not None and change.initial_bases:
        raise InvalidInputError("Overwrite: base paths are given at creation only")
    draft.fragments = DraftedFragments()
    draft.indices = []
    draft.set_fields(change.new_schema)
    message.ClearField("schema_metadata")
    message.schema_metadata.update(change.schema_metadata)
    message.config.update(change.config_upsert_values)
    next_base = 1
    for base in change.initial_bases:
        copy = message.base_paths.add()
        copy.CopyFrom(base)
        copy.id = copy.id or next_base
        next_base = max(next_base, copy.id) + 1
    draft.add_new_rows(change.fragments, renumber=draft.previous is not None)
    version = draft.settings.data_storage_version
    if version is None and draft.previous is None:
        version = version_of(change.fragments) or FileVersion.V2_2
    if version is not None:
        message.data_format.file_format = "lance"
        message.data_format.version = version.value
    advance_field_ids(draft)


def version_of(fragments: tuple[table_pb2.DataFragment, ...]) -> FileVersion | None:
    """Return the file version of the first data file; None if there is no data file."""
    for fragment in fragments:
        for file in fragment.files:
            return FileVersion.from_footer(file.file_major_version, file.file_minor_version)
    return None


def rewrite(draft: Draft, change: Rewrite) -> None:
    """Replace groups of fragments by fragments that hold the same rows.

    An index is translated to the new row addresses, no longer covers the rows, or is remapped
    later.
    """
    if draft.index_entries is None and reuse_index(draft.indices) is not None:
        raise UnsupportedError(f"Rewrite: the table has an index {FRAGMENT_REUSE!r}")
    old_of_new: list[tuple[RewriteGroup, list[int]]] = []
    for group in change.all_groups:
        draft.remove(fragment.id for fragment in group.old_fragments)
        added = draft.add(group.new_fragments)
        had = draft.assign_row_ids(added)
        for fragment, count in zip(added, had, strict=False):
            if count != fragment.physical_rows:
                raise InvalidInputError(
                    f"Rewrite: fragment {fragment.id} has row ids for {count} rows, "
                    f"expected {fragment.physical_rows}"
                )
        old_of_new.append((group, [fragment.id for fragment in added]))
    if draft.index_entries is not None:
        draft.indices = list(draft.index_entries)
        return
    translated = {rewritten.old_id.uuid: rewritten for rewritten in change.rewritten_indices}
    draft.indices = [
        _rewritten(
            index,
            translated.get(index.uuid.uuid),
            old_of_new,
            follows=draft.stable and holds_row_ids(index),
        )
        for index in draft.indices
    ]


def _rewritten(
    index: table_pb2.IndexMetadata,
    translated: RewrittenIndex | None,
    groups: list[tuple[RewriteGroup, list[int]]],
    *,
    follows: bool,
) -> table_pb2.IndexMetadata:
    """Return an index entry after a rewrite.

    Args:
        translated: new files of the index; None if it was not translated.
        follows: True if the entry also covers moved rows, because it holds stable row ids.
    """
    covered_before = covered(index)
    if covered_before is None and translated is None:
        return index
    coverage = set(covered_before or ())
    for group, new in groups:
        old = {fragment.id for fragment in group.old_fragments}
        inside = old & coverage
        if translated is not None and inside and inside != old:
            raise InvalidInputError(
                f"Rewrite: index {index.name!r} covers fragments {sorted(inside)} of the group "
                f"{sorted(old)}; expected all or none"
            )
        coverage -= old
        if (translated is not None or follows) and inside == old:
            coverage.update(new)
    if translated is None:
        return index if coverage == set(covered_before or ()) else with_coverage(index, coverage)
    copy = with_files(index, translated, coverage)
    if covered_before is None:
        copy.ClearField("fragment_bitmap")
    return copy


def with_files(
    index: table_pb2.IndexMetadata, translated: RewrittenIndex, coverage: Iterable[int]
) -> table_pb2.IndexMetadata:
    """Copy an entry with rewritten files and their coverage."""
    copy = with_coverage(index, coverage)
    copy.ClearField("base_id")  # the new files are in the table's own folder
    copy.uuid.CopyFrom(translated.new_id)
    if translated.new_index_details is not None:
        copy.index_details.CopyFrom(translated.new_index_details)
    copy.index_version = translated.new_index_version
    copy.ClearField("files")
    copy.files.extend(translated.new_index_files)
    return copy


def merge(draft: Draft, change: Merge) -> None:
    """Replace fragment records by records with more files, and set the new schema."""
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
    draft.add_new_rows(new)


def _split(
    fragments: Iterable[table_pb2.DataFragment], before: dict[int, table_pb2.DataFragment]
) -> tuple[list[table_pb2.DataFragment], list[table_pb2.DataFragment]]:
    """Split fragments into existing and new ones. Id 0 is either a real id or means "no id yet"."""
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
    """Set a schema that is a subset of the existing fields."""
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
    """Return copies of fragments without the data files that have none of the schema's `fields`."""
    live = set(fields)
    copies = table_pb2.Manifest().fragments  # all in the memory of a single message
    for fragment in fragments:
        copy = copies.add()
        copy.CopyFrom(fragment)
        copy.ClearField("files")
        copy.files.extend(file for file in fragment.files if _is_live(file, live))
    return [*copies]


def drop_tombstones(draft: Draft) -> None:
    """Drop the data files that have only tombstones, because all their fields were replaced."""
    _drop_files(draft, lambda file: {*file.fields} == {TOMBSTONE})


def _drop_files(draft: Draft, is_dropped: Callable[[table_pb2.DataFile], bool]) -> None:
    for fragment in draft.fragments.all_like(lambda form: any(map(is_dropped, form.files))):
        files = [file for file in fragment.files if not is_dropped(file)]
        fragment.ClearField("files")
        fragment.files.extend(files)


def _is_live(file: table_pb2.DataFile, live: set[int]) -> bool:
    return any(field in live or field <= ROW_ID_FIELD for field in file.fields)


def replace_data(draft: Draft, change: DataReplacement) -> None:
    """Add data files with new values to fragments; see `replace_file`."""
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
