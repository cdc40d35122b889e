"""Operations: each is the change that a transaction makes to a version, as a frozen dataclass.

Operations on rows, columns and fragments are here, the others in `operations_meta.py`, whose
`OPERATIONS` lists all. Fragments, fields, files and index entries are protobuf messages, which keep
unknown fields. Do not change these messages.

Source: docs/format/table.md, "Operations".
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, ClassVar, Final

from alance.base.records import dataclass
from alance.format.proto import file_pb2, table_pb2, transaction_pb2
from alance.format.table.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.any_pb2 import Any as AnyMessage
    from google.protobuf.message import Message

_T: Final = transaction_pb2.Transaction

REWRITE_ROWS: Final = 0
REWRITE_COLUMNS: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Wire):
    """Base class of all operations.

    Attributes:
        ARM: name of the operation's field in the transaction's message.
    """

    ARM: ClassVar[str] = ""

    @property
    def name(self) -> str:
        """Name of the operation in the format."""
        return type(self).__name__


@dataclass(frozen=True, slots=True)
class Append(Operation):
    """Add fragments after the existing ones. Fragments with id 0 get the next free id."""

    ARM: ClassVar = "append"
    MESSAGE: ClassVar[type[Message]] = _T.Append

    fragments: tuple[table_pb2.DataFragment, ...] = ()


@dataclass(frozen=True, slots=True)
class Delete(Operation):
    """Delete rows.

    Attributes:
        updated_fragments: complete records of fragments with new deletion files.
        deleted_fragment_ids: ids of fragments that have no live rows any more.
        predicate: the user's filter, for information only.
    """

    ARM: ClassVar = "delete"
    MESSAGE: ClassVar[type[Message]] = _T.Delete

    updated_fragments: tuple[table_pb2.DataFragment, ...] = ()
    deleted_fragment_ids: tuple[int, ...] = ()
    predicate: str = ""


@dataclass(frozen=True, slots=True)
class Overwrite(Operation):
    """Replace all rows and the schema, or create a table.

    Attributes:
        new_schema: fields, depth-first, with their ids.
        schema_metadata: replaces the previous metadata.
        config_upsert_values: keys to add to the table's configuration.
        initial_bases: base paths of a new table; a base path with id 0 gets an id.
    """

    ARM: ClassVar = "overwrite"
    MESSAGE: ClassVar[type[Message]] = _T.Overwrite
    NAMES: ClassVar = {"new_schema": "schema"}

    new_schema: tuple[file_pb2.Field, ...] = ()
    fragments: tuple[table_pb2.DataFragment, ...] = ()
    schema_metadata: Mapping[str, bytes] = field(default_factory=dict)
    config_upsert_values: Mapping[str, str] = field(default_factory=dict)
    initial_bases: tuple[table_pb2.BasePath, ...] = ()


@dataclass(frozen=True, slots=True)
class RewriteGroup(Wire):
    """Fragments to replace, and the new fragments that hold the same rows."""

    MESSAGE: ClassVar[type[Message]] = _T.Rewrite.RewriteGroup

    old_fragments: tuple[table_pb2.DataFragment, ...] = ()
    new_fragments: tuple[table_pb2.DataFragment, ...] = ()


@dataclass(frozen=True, slots=True)
class RewrittenIndex(Wire):
    """Index segment that was translated to new row addresses and has a new UUID."""

    MESSAGE: ClassVar[type[Message]] = _T.Rewrite.RewrittenIndex

    old_id: table_pb2.UUID
    new_id: table_pb2.UUID
    new_index_details: AnyMessage | None = None
    new_index_version: int = 0
    new_index_files: tuple[table_pb2.IndexFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Rewrite(Operation):
    """Compaction: move rows to other fragments without a change.

    Attributes:
        groups: groups of old and new fragments; the ids of the new ones are already reserved.
        old_fragments, new_fragments: old form of a single group; read but never written.
    """

    ARM: ClassVar = "rewrite"
    MESSAGE: ClassVar[type[Message]] = _T.Rewrite
    PARTS: ClassVar = {"groups": RewriteGroup, "rewritten_indices": RewrittenIndex}

    groups: tuple[RewriteGroup, ...] = ()
    rewritten_indices: tuple[RewrittenIndex, ...] = ()
    old_fragments: tuple[table_pb2.DataFragment, ...] = ()
    new_fragments: tuple[table_pb2.DataFragment, ...] = ()

    @property
    def all_groups(self) -> tuple[RewriteGroup, ...]:
        """All groups, including the group in the old form."""
        if not self.old_fragments and not self.new_fragments:
            return self.groups
        return (RewriteGroup(self.old_fragments, self.new_fragments), *self.groups)


@dataclass(frozen=True, slots=True)
class Merge(Operation):
    """Add columns: fragments with more files, and a new schema.

    Attributes:
        fragments: all fragments of the version in order, then new fragments.
        schema_metadata: replaces the previous metadata unless empty.
        preserves_nullability: True if all fields that were nullable still are.
    """

    ARM: ClassVar = "merge"
    MESSAGE: ClassVar[type[Message]] = _T.Merge

    fragments: tuple[table_pb2.DataFragment, ...] = ()
    schema: tuple[file_pb2.Field, ...] = ()
    schema_metadata: Mapping[str, bytes] = field(default_factory=dict)
    preserves_nullability: bool = False


@dataclass(frozen=True, slots=True)
class Project(Operation):
    """Drop columns, rename them, or change their nullability; files do not change."""

    ARM: ClassVar = "project"
    MESSAGE: ClassVar[type[Message]] = _T.Project

    schema: tuple[file_pb2.Field, ...] = ()
    preserves_nullability: bool = False


@dataclass(frozen=True, slots=True)
class Update(Operation):
    """Change values of rows: move the rows to new fragments, or add files to their fragments.

    Attributes:
        updated_fragments: complete records of fragments with new deletion files or new data files.
        new_fragments: moved rows, then inserted rows. With stable row ids, moved rows keep their
            row ids and inserted rows get new ones.
        fields_modified: for `REWRITE_COLUMNS`, ids of the fields with new values.
        fields_for_preserving_frag_bitmap: ids of all fields that moved rows have.
        inserted_rows: filter of inserted keys, to detect duplicate inserts; None without keys.
        updated_fragment_offset_bitmaps: for `REWRITE_COLUMNS`, roaring bitmaps of the offsets of
            changed rows, by fragment id. `updated_fragment_offsets` is the old form.
    """

    ARM: ClassVar = "update"
    MESSAGE: ClassVar[type[Message]] = _T.Update

    removed_fragment_ids: tuple[int, ...] = ()
    updated_fragments: tuple[table_pb2.DataFragment, ...] = ()
    new_fragments: tuple[table_pb2.DataFragment, ...] = ()
    fields_modified: tuple[int, ...] = ()
    fields_for_preserving_frag_bitmap: tuple[int, ...] = ()
    update_mode: int = REWRITE_ROWS
    inserted_rows: transaction_pb2.Transaction.KeyExistenceFilter | None = None
    updated_fragment_offset_bitmaps: Mapping[int, bytes] = field(default_factory=dict)
    updated_fragment_offsets: Mapping[int, transaction_pb2.Transaction.Update.Offsets] = field(
        default_factory=dict
    )
    compacted_sstables: tuple[transaction_pb2.Transaction.CompactedSstable, ...] = ()


@dataclass(frozen=True, slots=True)
class DataReplacementGroup(Wire):
    """File with new values of some fields of a fragment."""

    MESSAGE: ClassVar[type[Message]] = _T.DataReplacement.Replacement

    fragment_id: int
    new_file: table_pb2.DataFile


@dataclass(frozen=True, slots=True)
class DataReplacement(Operation):
    """Add a file with new values to each fragment; all files have the same fields."""

    ARM: ClassVar = "data_replacement"
    MESSAGE: ClassVar[type[Message]] = _T.DataReplacement
    PARTS: ClassVar = {"replacements": DataReplacementGroup}

    replacements: tuple[DataReplacementGroup, ...] = ()
