"""Draft of the next version, which the steps of operations change.

Source: docs/format/table.md, "Building the next manifest".
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Final

from alance.base.checks import some_of
from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.format.field import check_primary_key
from alance.format.proto import table_pb2
from alance.format.schema import check_not_reserved, check_null_characters
from alance.format.table.changes.drafted import DraftedFragments
from alance.format.table.changes.lineage import mark_created
from alance.format.table.flags import STABLE_ROW_IDS
from alance.format.table.row_ids import extended_row_ids, num_row_ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from alance.file_version import FileVersion
    from alance.format.proto import file_pb2
    from alance.format.table.changes.lineage import Lineage
    from alance.format.table.manifest import Manifest

MAX_FRAGMENT_ID: Final = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a commit that are not in its transaction.

    Attributes:
        data_storage_version: file version of new data, for a creation or an Overwrite. If None,
            an Overwrite keeps the table's file version, and a creation takes the version of its
            files, or 2.2 without files.
        stable_row_ids: for a creation, True to assign stable row ids.
        writes_transaction_file: True to write a transaction file in addition to the manifest.
        base_paths: for a deep clone, base paths of the objects that its rows refer to.
    """

    data_storage_version: FileVersion | None = None
    stable_row_ids: bool = False
    writes_transaction_file: bool = True
    base_paths: tuple[table_pb2.BasePath, ...] = ()


DEFAULT_SETTINGS: Final = Settings()


@dataclass(slots=True)
class Draft:
    """The next version under construction; owned by one call of `apply`.

    Attributes:
        message: the manifest without its fragments; at first a copy of the previous one.
        fragments: fragments of the version; at first those of the previous version.
        indices: entries of the index section; shared with the previous version until replaced.
        stable: True if the table has stable row ids.
        next_fragment_id: lowest id that was never used.
        lineages: lineage of the previous version's spilled fragments, by fragment id.
        index_entries: for a Rewrite that defers index remapping, the new entries of the index
            section; else None.
    """

    message: table_pb2.Manifest
    fragments: DraftedFragments
    indices: list[table_pb2.IndexMetadata]
    previous: Manifest | None
    source: Manifest | None
    version: int
    settings: Settings
    stable: bool
    next_fragment_id: int
    lineages: Mapping[int, Lineage] = field(default_factory=dict)
    index_entries: Sequence[table_pb2.IndexMetadata] | None = None

    @classmethod
    def after(
        cls,
        previous: Manifest | None,
        *,
        source: Manifest | None,
        version: int,
        settings: Settings,
        lineages: Mapping[int, Lineage] | None,
        index_entries: Sequence[table_pb2.IndexMetadata] | None = None,
    ) -> Draft:
        """Start a draft as a copy of the previous version; if that is None, as an empty table."""
        message = table_pb2.Manifest()
        stable = settings.stable_row_ids
        if previous is not None:
            message.CopyFrom(previous.head)
            stable = bool(message.reader_feature_flags & STABLE_ROW_IDS)
        next_fragment_id = message.max_fragment_id + 1 if message.HasField("max_fragment_id") else 0
        fragments = DraftedFragments(None if previous is None else previous.fragments)
        next_fragment_id = max(next_fragment_id, 1 + int(fragments.ids.max(initial=-1)))
        return cls(
            message,
            fragments,
            list(previous.indices) if previous is not None else [],
            previous,
            source,
            version,
            settings,
            stable,
            next_fragment_id,
            lineages or {},
            index_entries,
        )

    def new_fragment_id(self) -> int:
        """Return an id that no fragment ever had.

        Raises:
            InvalidInputError: all 32-bit ids are used.
        """
        fragment_id = self.next_fragment_id
        if fragment_id > MAX_FRAGMENT_ID:
            raise InvalidInputError("fragment ids have come to their end: 32 bits")
        self.next_fragment_id += 1
        return fragment_id

    def add(
        self, fragments: Iterable[table_pb2.DataFragment], *, renumber: bool = False
    ) -> list[table_pb2.DataFragment]:
        """Add copies of fragments and return the copies.

        Args:
            renumber: True to give new ids to fragments that have one, too.
        """
        added = []
        for fragment in fragments:
            copy = self.fragments.add(fragment)
            if renumber or copy.id == 0:
                copy.id = self.new_fragment_id()
            self.next_fragment_id = max(self.next_fragment_id, copy.id + 1)
            added.append(copy)
        return added

    def add_new_rows(
        self, fragments: Iterable[table_pb2.DataFragment], *, renumber: bool = False
    ) -> None:
        """Add copies of fragments whose rows are all new in this version."""
        added = self.add(fragments, renumber=renumber)
        self.assign_row_ids(added)
        if self.stable:
            for fragment in added:
                mark_created(fragment, self.version)

    def assign_row_ids(self, fragments: Iterable[table_pb2.DataFragment]) -> list[int]:
        """Assign row ids to rows without one.

        Returns the number of leading rows that already had an id, for each fragment; empty if the
        table has no stable row ids.

        Raises:
            InvalidInputError: a fragment has no row count, or more row ids than rows.
        """
        had: list[int] = []
        if not self.stable:
            return had
        for fragment in fragments:
            if not fragment.physical_rows:
                raise InvalidInputError(
                    f"fragment {fragment.id}: no number of rows, which stable row ids need"
                )
            kind = fragment.WhichOneof("row_id_sequence")
            if kind not in (None, "inline_row_ids"):
                had.append(fragment.physical_rows)
                continue
            had.append(num_row_ids(fragment.inline_row_ids))
            fragment.inline_row_ids, self.message.next_row_id = extended_row_ids(
                fragment.inline_row_ids, fragment.physical_rows, self.message.next_row_id
            )
        return had

    def remove(self, fragment_ids: Iterable[int]) -> None:
        """Remove fragments.

        Raises:
            InvalidInputError: a fragment is not in the table.
        """
        gone = set(fragment_ids)
        if missing := self.fragments.missing(gone):
            raise InvalidInputError(f"fragments {some_of(missing)} to be removed: not in the table")
        self.fragments.remove(gone)

    def replace(self, fragments: Iterable[table_pb2.DataFragment]) -> None:
        """Replace the records of fragments with the same ids.

        Raises:
            InvalidInputError: a fragment is not in the table.
        """
        new = {fragment.id: fragment for fragment in fragments}
        if missing := self.fragments.missing(new.keys()):
            raise InvalidInputError(f"fragments {some_of(missing)} to be updated: not in the table")
        for fragment in new.values():
            self.fragments.replace(fragment)

    def set_fields(self, fields: Iterable[file_pb2.Field]) -> None:
        """Replace the schema.

        Raises:
            InvalidInputError: a new column has a reserved name, a new name has null characters, or
                a field cannot be part of the primary key.
        """
        new_fields = list(fields)
        named = {(field.id, field.name) for field in self.message.fields}
        for new in new_fields:
            if (new.id, new.name) not in named:
                check_null_characters(new.name)
        before = {field.name for field in self.message.fields if field.parent_id == -1}
        check_not_reserved(
            field.name for field in new_fields if field.parent_id == -1 and field.name not in before
        )
        check_primary_key(new_fields)
        self.message.ClearField("fields")
        self.message.fields.extend(new_fields)
