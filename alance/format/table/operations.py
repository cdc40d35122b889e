"""Operations: what a transaction does to a version, one frozen dataclass for each.

Here are those that change rows, columns and fragments; the others are in `operations_meta.py`,
and `OPERATIONS` there has all of them. Fragments, fields, files and index entries are protobuf
messages, so that what this alance does not know of them stays with them; nobody changes them.

Source: docs/format/table.md, "Operations".
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, ClassVar, Final

from alance.format.proto import file_pb2, table_pb2, transaction_pb2
from alance.format.table.wire import Wire
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.any_pb2 import Any as AnyMessage
    from google.protobuf.message import Message

_T: Final = transaction_pb2.Transaction

REWRITE_ROWS: Final = 0
REWRITE_COLUMNS: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Wire):
    """The base of all operations.

    Attributes:
        ARM: the name of the operation's field in the transaction's message.
    """

    ARM: ClassVar[str] = ""

    @property
    def name(self) -> str:
        """The operation's name as the format has it."""
        return type(self).__name__


@dataclass(frozen=True, slots=True)
class Append(Operation):
    """New fragments after those that are there. Those of id 0 get the next free one."""

    ARM: ClassVar = "append"
    MESSAGE: ClassVar[type[Message]] = _T.Append

    fragments: tuple[table_pb2.DataFragment, ...] = ()


@dataclass(frozen=True, slots=True)
class Delete(Operation):
    """Rows are deleted.

    Attributes:
        updated_fragments: whole records of fragments, with their new deletion files.
        deleted_fragment_ids: fragments that have no rows left.
        predicate: what the user said; a note.
    """

    ARM: ClassVar = "delete"
    MESSAGE: ClassVar[type[Message]] = _T.Delete

    updated_fragments: tuple[table_pb2.DataFragment, ...] = ()
    deleted_fragment_ids: tuple[int, ...] = ()
    predicate: str = ""


@dataclass(frozen=True, slots=True)
class Overwrite(Operation):
    """All rows and the schema are replaced; also the creation of a table.

    Attributes:
        new_schema: fields, depth-first, with their ids.
        schema_metadata: replaces that of before.
        config_upsert_values: keys that are added to the table's configuration.
        initial_bases: base paths of a new table; id 0: to be given.
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
    """Fragments, and those that hold the same rows now."""

    MESSAGE: ClassVar[type[Message]] = _T.Rewrite.RewriteGroup

    old_fragments: tuple[table_pb2.DataFragment, ...] = ()
    new_fragments: tuple[table_pb2.DataFragment, ...] = ()


@dataclass(frozen=True, slots=True)
class RewrittenIndex(Wire):
    """An index segment that was translated to the new row addresses, under a new UUID."""

    MESSAGE: ClassVar[type[Message]] = _T.Rewrite.RewrittenIndex

    old_id: table_pb2.UUID
    new_id: table_pb2.UUID
    new_index_details: AnyMessage | None = None
    new_index_version: int = 0
    new_index_files: tuple[table_pb2.IndexFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Rewrite(Operation):
    """Compaction: the same rows in other fragments.

    Attributes:
        groups: each group's new fragments take the place of its old ones; ids are reserved.
        old_fragments: with `new_fragments` the form of one group, read only.
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
        """The groups, of the old form as well."""
        if not self.old_fragments and not self.new_fragments:
            return self.groups
        return (RewriteGroup(self.old_fragments, self.new_fragments), *self.groups)


@dataclass(frozen=True, slots=True)
class Merge(Operation):
    """New columns: fragments with more files, and the schema that tells them.

    Attributes:
        fragments: all of the version's fragments, in their order; new ones after them.
        schema_metadata: replaces that of before, where there is any.
        preserves_nullability: no field forbids nulls that allowed them before.
    """

    ARM: ClassVar = "merge"
    MESSAGE: ClassVar[type[Message]] = _T.Merge

    fragments: tuple[table_pb2.DataFragment, ...] = ()
    schema: tuple[file_pb2.Field, ...] = ()
    schema_metadata: Mapping[str, bytes] = field(default_factory=dict)
    preserves_nullability: bool = False


@dataclass(frozen=True, slots=True)
class Project(Operation):
    """Columns are dropped, renamed, or change their nullability: files stay as they are."""

    ARM: ClassVar = "project"
    MESSAGE: ClassVar[type[Message]] = _T.Project

    schema: tuple[file_pb2.Field, ...] = ()
    preserves_nullability: bool = False


@dataclass(frozen=True, slots=True)
class Update(Operation):
    """Rows get new values: moved to new fragments, or by new files beside those of a fragment.

    Attributes:
        updated_fragments: whole records: new deletion files, or new data files.
        new_fragments: moved rows, then inserted ones. With stable row ids their row ids are
            those of the moved rows; the rows after them get new ones.
        fields_modified: of `REWRITE_COLUMNS`: the fields that have new values.
        fields_for_preserving_frag_bitmap: all fields that are on a moved row.
        inserted_rows: keys of inserted rows, against inserting them twice.
        updated_fragment_offset_bitmaps: of `REWRITE_COLUMNS`: the rows that changed, for each
            fragment; roaring bitmaps of offsets. `updated_fragment_offsets` is the old form.
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
    """A file that takes the place of a fragment's values of its fields."""

    MESSAGE: ClassVar[type[Message]] = _T.DataReplacement.Replacement

    fragment_id: int
    new_file: table_pb2.DataFile


@dataclass(frozen=True, slots=True)
class DataReplacement(Operation):
    """Fragments get a new file for some fields; all new files have the same ones."""

    ARM: ClassVar = "data_replacement"
    MESSAGE: ClassVar[type[Message]] = _T.DataReplacement
    PARTS: ClassVar = {"replacements": DataReplacementGroup}

    replacements: tuple[DataReplacementGroup, ...] = ()
