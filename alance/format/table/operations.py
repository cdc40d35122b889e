"""Operations: each is the change that a transaction makes to a version, as a frozen dataclass.

Operations on rows, columns and fragments come first, then those on indices, configuration, versions
and base paths. Fragments, fields, files and index entries are protobuf messages, which keep unknown
fields. Do not change these messages.

Source: docs/format/table.md, "Operations".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from alance.base.records import dataclass
from alance.format.proto import copied, file_pb2, table_pb2, transaction_pb2

if TYPE_CHECKING:
    from google.protobuf.any_pb2 import Any as AnyMessage

_T: Final = transaction_pb2.Transaction

EXTRA_ATTRIBUTE = "extra"
ITEMS_AT_ONCE: Final = 1000  # items copied by one call, which holds the interpreter's lock
REWRITE_ROWS: Final = 0
REWRITE_COLUMNS: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """Base class of dataclasses that mirror protobuf messages and keep unknown fields.

    An attribute has the name of its field in the message, or of the field in `NAMES`. Repeated
    fields are tuples, maps are dicts, absent fields are None. `PARTS` names the attributes that are
    dataclasses of this kind. Do not change messages that are attributes.

    Attributes:
        extra: all other content of a message, serialized.
    """

    MESSAGE: ClassVar[type[Message]]
    NAMES: ClassVar[Mapping[str, str]] = {}
    PARTS: ClassVar[Mapping[str, type[Wire]]] = {}

    extra: bytes = field(default=b"", repr=False)

    @classmethod
    def from_protobuf(cls, message: Message) -> Self:
        """Wrap a message. Messages inside are shared, not copied.

        Args:
            message: the protobuf message.
        """
        values: dict[str, Any] = {}
        for attribute in fields(cls):
            if attribute.name == EXTRA_ATTRIBUTE:
                continue
            name = cls.NAMES.get(attribute.name, attribute.name)
            values[attribute.name] = _value(
                message, name, cls.PARTS.get(attribute.name), is_optional=attribute.default is None
            )
        return cls(**values, extra=unknown_fields(message))

    def to_protobuf(self) -> Message:
        """Return a new message."""
        message = self.MESSAGE()
        self._fill(message)
        return message

    def _fill(self, message: Message) -> None:
        """Set the content of an empty message."""
        if self.extra:
            message.MergeFromString(self.extra)
        for attribute in fields(self):
            value = getattr(self, attribute.name)
            if attribute.name != EXTRA_ATTRIBUTE and value is not None:
                _set(message, self.NAMES.get(attribute.name, attribute.name), value)

    @property
    def _num_parts(self) -> int:
        """Number of items of all tuples and maps."""
        values = [getattr(self, attribute.name) for attribute in fields(self)]
        return sum(
            value._num_parts if isinstance(value, Wire) else len(value)
            for value in values
            if isinstance(value, Wire | tuple | Mapping)
        )


def unknown_fields(message: Message) -> bytes:
    """Serialize the top-level fields of a message that are unknown to its class."""
    if not message.DESCRIPTOR.fields:
        return bytes(message.SerializeToString())
    if not len(UnknownFieldSet(message)):
        return b""
    rest = copied(message)
    for descriptor in message.DESCRIPTOR.fields:
        rest.ClearField(descriptor.name)
    return bytes(rest.SerializeToString())


def _value(message: Message, name: str, part: type[Wire] | None, *, is_optional: bool) -> Any:
    value: Any = getattr(message, name)
    if hasattr(value, "items"):
        return {key: part.from_protobuf(value[key]) if part else value[key] for key in value}
    if hasattr(value, "extend"):
        return tuple(map(part.from_protobuf, value) if part else value)
    if is_optional and not message.HasField(name):
        return None
    return part.from_protobuf(value) if part else value


def _set(message: Message, name: str, value: Any) -> None:
    if isinstance(value, Mapping):
        into = getattr(message, name)
        for key, item in value.items():
            if isinstance(item, Wire | Message):
                into[key].CopyFrom(_message(item))
            else:
                into[key] = item
    elif isinstance(value, tuple | list):
        is_wire = bool(value) and isinstance(value[0], Wire)
        items = getattr(message, name)
        for start in range(0, len(value), ITEMS_AT_ONCE):
            part = value[start : start + ITEMS_AT_ONCE]
            items.extend(map(_message, part) if is_wire else part)
    elif isinstance(value, Wire | Message):
        getattr(message, name).CopyFrom(_message(value))
    else:
        setattr(message, name, value)


def _message(value: Any) -> Any:
    return value.to_protobuf() if isinstance(value, Wire) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Wire):
    """Base class of all operations, which have the names of their messages."""

    def __init_subclass__(cls) -> None:
        cls.MESSAGE = getattr(_T, cls.__name__, transaction_pb2.Transaction)

    @property
    def name(self) -> str:
        """Name of the operation in the format."""
        return type(self).__name__


@dataclass(frozen=True, slots=True)
class Append(Operation):
    """Add fragments after the existing ones. Fragments with id 0 get the next free id."""

    fragments: tuple[table_pb2.DataFragment, ...] = ()


@dataclass(frozen=True, slots=True)
class Delete(Operation):
    """Delete rows.

    Attributes:
        updated_fragments: complete records of fragments with new deletion files.
        deleted_fragment_ids: ids of fragments that have no live rows any more.
        predicate: the user's filter, for information only.
    """

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

    fragments: tuple[table_pb2.DataFragment, ...] = ()
    schema: tuple[file_pb2.Field, ...] = ()
    schema_metadata: Mapping[str, bytes] = field(default_factory=dict)
    preserves_nullability: bool = False


@dataclass(frozen=True, slots=True)
class Project(Operation):
    """Drop columns, rename them, or change their nullability; files do not change."""

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

    PARTS: ClassVar = {"replacements": DataReplacementGroup}

    replacements: tuple[DataReplacementGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateIndex(Operation):
    """Add and remove index segments.

    Attributes:
        removed_indices: entries to remove, identified by their UUIDs.
    """

    new_indices: tuple[table_pb2.IndexMetadata, ...] = ()
    removed_indices: tuple[table_pb2.IndexMetadata, ...] = ()


@dataclass(frozen=True, slots=True)
class Restore(Operation):
    """Make an older version the newest."""

    version: int = 0


@dataclass(frozen=True, slots=True)
class ReserveFragments(Operation):
    """Reserve fragment ids for a later commit."""

    num_fragments: int = 0


@dataclass(frozen=True, slots=True)
class UpdateMap(Wire):
    """Changes to a map of strings.

    Attributes:
        updates: new value of each key; None to delete the key.
        replace: True to clear the map first.
    """

    MESSAGE: ClassVar[type[Message]] = _T.UpdateMap

    updates: Mapping[str, str | None] = field(default_factory=dict)
    replace: bool = False

    @classmethod
    def from_protobuf(cls, message: Message) -> UpdateMap:
        """Parse a message. If a key occurs twice, its last entry counts.

        Args:
            message: the protobuf message.
        """
        assert isinstance(message, _T.UpdateMap)
        updates = {
            update_entry.key: update_entry.value if update_entry.HasField("value") else None
            for update_entry in message.update_entries
        }
        return cls(updates, message.replace, extra=unknown_fields(message))

    def _fill(self, message: Message) -> None:
        """Set the content of an empty message."""
        assert isinstance(message, _T.UpdateMap)
        message.replace = self.replace
        message.MergeFromString(self.extra)
        for key, value in self.updates.items():
            message.update_entries.add(key=key, value=value)


@dataclass(frozen=True, slots=True)
class UpdateConfig(Operation):
    """Change the configuration and the metadata of the table, its schema and its fields.

    The last four attributes are an old form, which is read but never written.
    """

    PARTS: ClassVar = {
        "config_updates": UpdateMap,
        "table_metadata_updates": UpdateMap,
        "schema_metadata_updates": UpdateMap,
        "field_metadata_updates": UpdateMap,
    }

    config_updates: UpdateMap | None = None
    table_metadata_updates: UpdateMap | None = None
    schema_metadata_updates: UpdateMap | None = None
    field_metadata_updates: Mapping[int, UpdateMap] = field(default_factory=dict)
    upsert_values: Mapping[str, str] = field(default_factory=dict)
    delete_keys: tuple[str, ...] = ()
    schema_metadata: Mapping[str, str] = field(default_factory=dict)
    field_metadata: Mapping[int, transaction_pb2.Transaction.UpdateConfig.FieldMetadata] = field(
        default_factory=dict
    )

    @property
    def config(self) -> UpdateMap:
        """Changes of the configuration, from the current or the old form."""
        if self.config_updates is not None:
            return self.config_updates
        deleted: dict[str, str | None] = dict.fromkeys(self.delete_keys)
        return UpdateMap({**deleted, **self.upsert_values})

    @property
    def of_schema(self) -> UpdateMap | None:
        """Changes of the schema's metadata, from either form; None if there are none."""
        if self.schema_metadata_updates is not None or not self.schema_metadata:
            return self.schema_metadata_updates
        return UpdateMap(dict(self.schema_metadata), replace=True)

    @property
    def of_fields(self) -> Mapping[int, UpdateMap]:
        """Changes of the fields' metadata by field id, from the current or the old form."""
        old = {
            key: UpdateMap(dict(updates.metadata), replace=True)
            for key, updates in self.field_metadata.items()
        }
        return {**old, **self.field_metadata_updates}


@dataclass(frozen=True, slots=True)
class UpdateMemWalState(Operation):
    """Record progress of the in-memory write-ahead log; retained and compared, but not applied."""

    compacted_sstables: tuple[transaction_pb2.Transaction.CompactedSstable, ...] = ()


@dataclass(frozen=True, slots=True)
class Clone(Operation):
    """Make the first version of a new table or branch from a version of another table or branch."""

    is_shallow: bool = True
    ref_name: str | None = None
    ref_version: int = 0
    ref_path: str = ""
    branch_name: str | None = None


@dataclass(frozen=True, slots=True)
class UpdateBases(Operation):
    """Add base paths; a base path with id 0 gets an id."""

    new_bases: tuple[table_pb2.BasePath, ...] = ()


@dataclass(frozen=True, slots=True)
class DataOverlay(Operation):
    """Overlay values of single rows of fragments; retained and compared, but not applied."""

    groups: tuple[transaction_pb2.Transaction.DataOverlay.Group, ...] = ()


@dataclass(frozen=True, slots=True)
class Unknown(Operation):
    """Operation that this alance does not know. It is retained, and conflicts with all others."""


# Operations by the name of their field in the transaction's message.
OPERATION_BY_ARM: Final[Mapping[str, type[Operation]]] = {
    "append": Append,
    "delete": Delete,
    "overwrite": Overwrite,
    "create_index": CreateIndex,
    "rewrite": Rewrite,
    "merge": Merge,
    "restore": Restore,
    "reserve_fragments": ReserveFragments,
    "update": Update,
    "project": Project,
    "update_config": UpdateConfig,
    "data_replacement": DataReplacement,
    "update_mem_wal_state": UpdateMemWalState,
    "clone": Clone,
    "update_bases": UpdateBases,
    "data_overlay": DataOverlay,
}
ARM_OF: Final = {kind: arm for arm, kind in OPERATION_BY_ARM.items()}
