"""Build the next version of a table from a manifest and a transaction; pure, without I/O.

So a lost commit race costs only another call. The steps of the operations are in `apply_rows.py`
and `apply_meta.py`.

Source: docs/format/table.md, "Building the next manifest" and "Manifest files".
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from alance._version import __version__
from alance.base.records import dataclass
from alance.errors import InvalidInputError, UnsupportedError
from alance.format.numbers import distinct
from alance.format.proto import copied, table_pb2
from alance.format.table.changes import apply_meta, apply_rows
from alance.format.table.changes.apply_indices import retain
from alance.format.table.changes.apply_rows import drop_dead_files, drop_tombstones
from alance.format.table.changes.apply_state import DEFAULT_SETTINGS, Draft, Settings
from alance.format.table.dictionaries import place_values
from alance.format.table.flags import check_writable, flags_of, settle_file_version
from alance.format.table.manifest import (
    MANIFEST_FOOTER,
    MANIFEST_MAGIC,
    SECTION_LENGTH,
    whole_message,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from alance.format.table.changes.lineage import Lineage
    from alance.format.table.manifest import Manifest
    from alance.format.table.transaction import Transaction

LIBRARY: Final = "alance"
# A larger transaction is stored in its own file alone.
MAX_INLINE_TRANSACTION_BYTES: Final = 20 << 20

STEPS: Final[Mapping[str, Callable[[Draft, Any], None]]] = {
    "Append": apply_rows.append,
    "Delete": apply_rows.delete,
    "Overwrite": apply_rows.overwrite,
    "CreateIndex": apply_meta.create_index,
    "Rewrite": apply_rows.rewrite,
    "Merge": apply_rows.merge,
    "Restore": apply_meta.restore,
    "ReserveFragments": apply_meta.reserve,
    "Update": apply_rows.update,
    "Project": apply_rows.project,
    "UpdateConfig": apply_meta.update_config,
    "DataReplacement": apply_rows.replace_data,
    "Clone": apply_meta.clone,
    "UpdateBases": apply_meta.update_bases,
}
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


@dataclass(frozen=True, slots=True)
class Next:
    """A version to write.

    Attributes:
        head: the manifest without its fragments and the positions of its sections.
        fragments: serialized fragment fields of the manifest's message.
        indices: entries of its index section.
        transaction: the transaction that makes the version.
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
        now: timestamp of the manifest.
        version: number of the new version; None for the previous number plus 1.
        source: for `Restore`: the version to restore; for `Clone`: the version to clone.
        lineage: row ids and versions, by fragment id, for fragments of `previous` that do not store
            them inline; `lineage.spilled` lists these fragments.
        config: configuration entries to set, in addition to the operation's.
        index_entries: for a `Rewrite` that defers index remapping: all entries of the index
            section, including a fragment-reuse index that records the moves.

    Raises:
        InvalidInputError: the operation does not fit the previous version.
        UnsupportedError: the table needs features that this alance does not write.
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
    """Check that changed files refer to known base paths; readers could not find other files.

    Raises:
        InvalidInputError: a base path is unknown. The message names it.
    """
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
