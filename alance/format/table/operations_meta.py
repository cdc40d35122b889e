"""Operations on indices, configuration, versions and base paths.

Source: docs/format/table.md, "Operations".
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, ClassVar, Final

from alance.base.records import dataclass
from alance.format.proto import table_pb2, transaction_pb2
from alance.format.table.operations import (
    Append,
    DataReplacement,
    Delete,
    Merge,
    Operation,
    Overwrite,
    Project,
    Rewrite,
    Update,
)
from alance.format.table.wire import Wire, unknown_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.message import Message

_TRANSACTION: Final = transaction_pb2.Transaction


@dataclass(frozen=True, slots=True)
class CreateIndex(Operation):
    """Add and remove index segments.

    Attributes:
        removed_indices: entries to remove, identified by their UUIDs.
    """

    ARM: ClassVar = "create_index"
    MESSAGE: ClassVar[type[Message]] = _TRANSACTION.CreateIndex

    new_indices: tuple[table_pb2.IndexMetadata, ...] = ()
    removed_indices: tuple[table_pb2.IndexMetadata, ...] = ()


@dataclass(frozen=True, slots=True)
class Restore(Operation):
    """Make an older version the newest."""

    ARM: ClassVar = "restore"
    MESSAGE: ClassVar[type[Message]] = _TRANSACTION.Restore

    version: int = 0


@dataclass(frozen=True, slots=True)
class ReserveFragments(Operation):
    """Reserve fragment ids for a later commit."""

    ARM: ClassVar = "reserve_fragments"
    MESSAGE: ClassVar[type[Message]] = _TRANSACTION.ReserveFragments

    num_fragments: int = 0


@dataclass(frozen=True, slots=True)
class UpdateMap(Wire):
    """Changes to a map of strings.

    Attributes:
        updates: new value of each key; None to delete the key.
        replace: True to clear the map first.
    """

    MESSAGE: ClassVar[type[Message]] = _TRANSACTION.UpdateMap

    updates: Mapping[str, str | None] = field(default_factory=dict)
    replace: bool = False

    @classmethod
    def from_protobuf(cls, message: Message) -> UpdateMap:
        """Parse a message. If a key occurs twice, its last entry counts.

        Args:
            message: the protobuf message.
        """
        assert isinstance(message, _TRANSACTION.UpdateMap)
        updates = {
            update_entry.key: update_entry.value if update_entry.HasField("value") else None
            for update_entry in message.update_entries
        }
        return cls(updates, message.replace, extra=unknown_fields(message))

    def to_protobuf(self) -> transaction_pb2.Transaction.UpdateMap:
        """Return a new message."""
        message = _TRANSACTION.UpdateMap(replace=self.replace)
        message.MergeFromString(self.extra)
        for key, value in self.updates.items():
            message.update_entries.add(key=key, value=value)
        return message


@dataclass(frozen=True, slots=True)
class UpdateConfig(Operation):
    """Change the configuration and the metadata of the table, its schema and its fields.

    The last four attributes are an old form, which is read but never written.
    """

    ARM: ClassVar = "update_config"
    MESSAGE: ClassVar[type[Message]] = _TRANSACTION.UpdateConfig
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

    ARM: ClassVar = "update_mem_wal_state"
    MESSAGE: ClassVar[type[Message]] = _TRANSACTION.UpdateMemWalState

    compacted_sstables: tuple[transaction_pb2.Transaction.CompactedSstable, ...] = ()


@dataclass(frozen=True, slots=True)
class Clone(Operation):
    """Make the first version of a new table or branch from a version of another table or branch."""

    ARM: ClassVar = "clone"
    MESSAGE: ClassVar[type[Message]] = _TRANSACTION.Clone

    is_shallow: bool = True
    ref_name: str | None = None
    ref_version: int = 0
    ref_path: str = ""
    branch_name: str | None = None


@dataclass(frozen=True, slots=True)
class UpdateBases(Operation):
    """Add base paths; a base path with id 0 gets an id."""

    ARM: ClassVar = "update_bases"
    MESSAGE: ClassVar[type[Message]] = _TRANSACTION.UpdateBases

    new_bases: tuple[table_pb2.BasePath, ...] = ()


@dataclass(frozen=True, slots=True)
class DataOverlay(Operation):
    """Overlay values of single rows of fragments; retained and compared, but not applied."""

    ARM: ClassVar = "data_overlay"
    MESSAGE: ClassVar[type[Message]] = _TRANSACTION.DataOverlay

    groups: tuple[transaction_pb2.Transaction.DataOverlay.Group, ...] = ()


@dataclass(frozen=True, slots=True)
class Unknown(Operation):
    """Operation that this alance does not know. It is retained, and conflicts with all others."""

    MESSAGE: ClassVar[type[Message]] = transaction_pb2.Transaction


OPERATION_BY_ARM: Final[Mapping[str, type[Operation]]] = {
    kind.ARM: kind
    for kind in (
        Append,
        Delete,
        Overwrite,
        CreateIndex,
        Rewrite,
        Merge,
        Restore,
        ReserveFragments,
        Update,
        Project,
        UpdateConfig,
        DataReplacement,
        UpdateMemWalState,
        Clone,
        UpdateBases,
        DataOverlay,
    )
}
