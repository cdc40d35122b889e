"""Build the next version of a table from a manifest and a transaction; pure, without I/O.

So a lost commit race costs only another call. The steps of operations on rows and columns are in
`apply_rows.py`; those on indices, configuration, versions and base paths are here. A step raises
`InvalidInputError` if its operation does not fit the previous version.

Source: docs/format/table.md, "Building the next manifest", "Clones" and "Manifest files".
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from alance._version import __version__
from alance.base.records import dataclass
from alance.errors import InvalidInputError, UnsupportedError
from alance.format.field import KEY_PROPERTIES, PRIMARY_KEYS, check_primary_key, set_keys
from alance.format.numbers import distinct
from alance.format.proto import copied, table_pb2
from alance.format.table.changes import apply_rows
from alance.format.table.changes.apply_indices import retain
from alance.format.table.changes.apply_rows import drop_dead_files, drop_tombstones
from alance.format.table.changes.apply_state import (
    DEFAULT_SETTINGS,
    MAX_FRAGMENT_ID,
    Draft,
    DraftedFragments,
    Settings,
)
from alance.format.table.dictionaries import place_values
from alance.format.table.flags import (
    FIELD_IDS_NOT_REUSED,
    STABLE_ROW_IDS,
    STICKY,
    check_writable,
    flags_of,
    settle_file_version,
)
from alance.format.table.manifest import (
    MANIFEST_FOOTER,
    MANIFEST_MAGIC,
    SECTION_LENGTH,
    whole_message,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
    from datetime import datetime

    from alance.format.table.changes.lineage import Lineage
    from alance.format.table.manifest import Manifest
    from alance.format.table.operations import (
        Clone,
        CreateIndex,
        ReserveFragments,
        Restore,
        UpdateBases,
        UpdateConfig,
        UpdateMap,
    )
    from alance.format.table.transaction import Transaction

T = TypeVar("T", str, bytes)

LIBRARY: Final = "alance"
# A larger transaction is stored in its own file alone.
MAX_INLINE_TRANSACTION_BYTES: Final = 20 << 20
DROPS_FILES: Final = ("Project", "Merge")
RETAINS_INDICES: Final = ("Delete", "Update", "Merge", "Project", "CreateIndex")
# Fields of the manifest that the next version does not take over.
RESET: Final = (
    "version_aux_data",
    "index_section",
    "tag",
    "transaction_file",
    "legacy_transaction_section",
    "transaction_section",
    "timestamp",
    "writer_version",
)


def create_index(draft: Draft, change: CreateIndex) -> None:
    """Remove and add entries of the index section."""
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
    """Take over the content of an older version, except for counters that must never decrease."""
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
    """Add base paths; assign ids to the base paths without an id."""
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
    """Change the configuration and the metadata of the table, its schema and its fields."""
    message = draft.message
    edit(message.config, change.config, str)
    if change.table_metadata_updates is not None:
        edit(message.table_metadata, change.table_metadata_updates, str)
    if change.of_schema is not None:
        edit(message.schema_metadata, change.of_schema, str.encode)
    fields = {field.id: field for field in message.fields}
    for field_id, updates in change.of_fields.items():
        if field_id not in fields:
            raise InvalidInputError(f"UpdateConfig: field {field_id} is not in the schema")
        field = fields[field_id]
        before = {key: field.metadata[key] for key in KEY_PROPERTIES if key in field.metadata}
        edit(field.metadata, updates, str.encode)
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


def edit(into: MutableMapping[str, T], updates: UpdateMap, stored: Callable[[str], T]) -> None:
    """Apply updates to a map. Deleting an absent key does nothing.

    Args:
        stored: converts a text to a value of the map.
    """
    if updates.replace:
        into.clear()
    for key, value in updates.updates.items():
        if value is not None:
            into[key] = stored(value)
        elif key in into:
            del into[key]


def clone(draft: Draft, change: Clone) -> None:
    """Make the first version of a new table from a version of another.

    The records of a shallow clone refer to the other table's files; those of a deep clone, to files
    in the new table's folder. No file is copied here.
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
        if base_id is None:
            index.ClearField("base_id")
        elif not index.HasField("base_id"):
            index.base_id = base_id


STEPS: Final[Mapping[str, Callable[[Draft, Any], None]]] = {
    "Append": apply_rows.append,
    "Delete": apply_rows.delete,
    "Overwrite": apply_rows.overwrite,
    "CreateIndex": create_index,
    "Rewrite": apply_rows.rewrite,
    "Merge": apply_rows.merge,
    "Restore": restore,
    "ReserveFragments": reserve,
    "Update": apply_rows.update,
    "Project": apply_rows.project,
    "UpdateConfig": update_config,
    "DataReplacement": apply_rows.replace_data,
    "Clone": clone,
    "UpdateBases": update_bases,
}


@dataclass(frozen=True, slots=True)
class Next:
    """A version to write.

    Attributes:
        head: the manifest without its fragments and the positions of its sections.
        fragments: serialized fragment fields of the manifest's message.
    """

    head: table_pb2.Manifest
    fragments: bytes
    indices: tuple[table_pb2.IndexMetadata, ...]
    transaction: Transaction

    @property
    def message(self) -> table_pb2.Manifest:
        """Manifest with all fragments, parsed at each access."""
        return whole_message(self.head, self.fragments)


def apply(
    previous: Manifest | None,
    transaction: Transaction,
    *,
    now: datetime,
    version: int | None = None,
    source: Manifest | None = None,
    lineage: Mapping[int, Lineage] | None = None,
    settings: Settings = DEFAULT_SETTINGS,
    config: Mapping[str, str] | None = None,
    index_entries: Sequence[table_pb2.IndexMetadata] | None = None,
) -> Next:
    """Build the version that a transaction makes from the previous version.

    Assigns fragment ids, row ids and base path ids. Field ids are already in the operation's
    schema; see `fields.assign_ids`.

    Args:
        previous: the latest version, onto which the transaction was rebased; None to create the
            table.
        version: number of the new version; None for the previous number plus 1.
        source: for `Restore`: the version to restore; for `Clone`: the version to clone.
        lineage: row ids and versions, by fragment id, for fragments of `previous` that do not store
            them inline; `lineage.spilled` lists these fragments.
        config: configuration entries to set, in addition to the operation's.
        index_entries: for a `Rewrite` that defers index remapping: all entries of the index
            section, including a fragment-reuse index that records the moves.
    """
    change = transaction.change
    name = transaction.operation
    if name not in STEPS:
        raise UnsupportedError(f"operation {name}: not written by this alance")
    if previous is None and name not in ("Overwrite", "Clone"):
        raise InvalidInputError(f"{name}: there is no table yet")
    for manifest in filter(None, (previous, source)):
        flags = manifest.head
        check_writable(flags.reader_feature_flags, flags.writer_feature_flags)
    if version is None:
        version = 1 if previous is None else previous.version + 1
    draft = Draft(previous, source, version, settings, lineage or {}, index_entries)
    STEPS[name](draft, change)
    draft.message.config.update(config or {})
    _finish(draft, transaction, name, now)
    return Next(draft.message, draft.fragments.content(), tuple(draft.indices), transaction)


def _finish(draft: Draft, transaction: Transaction, name: str, now: datetime) -> None:
    """Take the steps that all operations share, after the operation's own step."""
    message = draft.message
    _check_bases(draft, name)
    drop_tombstones(draft)
    if name in DROPS_FILES:
        drop_dead_files(draft)
    ids = np.sort(draft.fragments.ids)
    if len(twice := distinct(ids[1:][ids[1:] == ids[:-1]])[0]):
        raise InvalidInputError(
            f"{name}: fragments {twice.tolist()} are there twice; where the version before has "
            f"them, as releases up to 0.16 have made it, restore an older one or overwrite it"
        )
    if len(ids) and not (
        message.HasField("max_fragment_id") and ids[-1] <= message.max_fragment_id
    ):
        message.max_fragment_id = int(ids[-1])
    if name in RETAINS_INDICES:
        fields = {field.id for field in message.fields}
        draft.indices = retain(draft.indices, fields, set(ids.tolist()))
    for part in RESET:
        message.ClearField(part)
    message.version = draft.version
    message.timestamp.FromDatetime(now)
    message.writer_version.library = LIBRARY
    message.writer_version.version = __version__
    forms = draft.fragments.forms
    settle_file_version(message, forms)
    writes_file = draft.settings.writes_transaction_file
    if writes_file:
        message.transaction_file = transaction.file_name
    stable = draft.stable if draft.source is None else draft.source.has_stable_row_ids
    message.reader_feature_flags, message.writer_feature_flags = flags_of(
        message,
        forms,
        draft.indices,
        stable_row_ids=stable,
        writes_transaction_file=writes_file,
    )


def _check_bases(draft: Draft, name: str) -> None:
    """Check that changed files refer to known base paths; readers could not find other files."""
    base_ids = {base.id for base in draft.message.base_paths}
    before = () if draft.previous is None else draft.previous.indices
    uuids = {index.uuid.uuid for index in before}
    drafted = draft.fragments.drafted
    records: Iterable[table_pb2.DataFile | table_pb2.DeletionFile | table_pb2.IndexMetadata]
    records = chain(
        chain.from_iterable(fragment.files for fragment in drafted),
        (fragment.deletion_file for fragment in drafted),
        (index for index in draft.indices if index.uuid.uuid not in uuids),
    )
    for record in records:
        if record.HasField("base_id") and record.base_id not in base_ids:
            place = getattr(record, "path", "") or getattr(record, "name", "")
            raise InvalidInputError(
                f"{name}: {type(record).__name__} {place!r} is below base path {record.base_id}, "
                f"which is not there; base paths: {', '.join(map(str, sorted(base_ids))) or 'none'}"
            )


def manifest_bytes(version: Next) -> bytes:
    """Serialize a manifest file: dictionaries, indices, transaction, manifest, footer."""
    message = copied(version.head)
    parts = place_values(message.fields, 0)
    position = sum(len(part) for part in parts)
    if version.indices:
        message.index_section = position
        content = table_pb2.IndexSection(indices=version.indices).SerializeToString()
        parts += (SECTION_LENGTH.pack(len(content)), content)
        position += SECTION_LENGTH.size + len(content)
    inline = version.transaction.to_bytes()
    if len(inline) <= MAX_INLINE_TRANSACTION_BYTES or not message.transaction_file:
        message.transaction_section = position
        parts += (SECTION_LENGTH.pack(len(inline)), inline)
        position += SECTION_LENGTH.size + len(inline)
    content = message.SerializeToString() + version.fragments
    parts += (
        SECTION_LENGTH.pack(len(content)),
        content,
        MANIFEST_FOOTER.pack(position, 0, 2, MANIFEST_MAGIC),
    )
    return b"".join(parts)
