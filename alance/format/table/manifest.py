"""Manifests: one version of a table, from the bytes of its file.

    [u32 length | IndexSection]     optional
    [u32 length | Transaction]      optional
     u32 length | Manifest
     footer, 16 bytes: i64 position of the manifest's length | u16 0 | u16 2 | `LANC`

Source: table format specification, "Manifest files".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeVar

from google.protobuf.message import DecodeError, Message

from alance.errors import AlanceError, CorruptFileError
from alance.file_version import FileVersion
from alance.format.proto import table_pb2, transaction_pb2
from alance.format.schema import Schema
from alance.format.table.dictionaries import attach_values
from alance.format.table.flags import STABLE_ROW_IDS, check_readable, correct_file_version
from alance.format.table.fragment import BasePath
from alance.format.table.fragments import Fragments

if TYPE_CHECKING:
    from collections.abc import Mapping

M = TypeVar("M", bound=Message)

FOOTER: Final = struct.Struct("<qHH4s")
LENGTH: Final = struct.Struct("<I")
MAGIC: Final = b"LANC"


@dataclass(frozen=True, slots=True)
class Manifest:
    """One version of a table. Immutable.

    Attributes:
        message: the protobuf message as it came, with what this alance does not know.
        transaction: the transaction inside the manifest's file, where it is there.
        indices: the index section, where it is there.
    """

    version: int
    schema: Schema
    fragments: Fragments
    base_paths: Mapping[int, BasePath]
    message: table_pb2.Manifest
    transaction: transaction_pb2.Transaction | None
    indices: tuple[table_pb2.IndexMetadata, ...]

    @property
    def timestamp(self) -> datetime | None:
        """When the version was committed, UTC, to the microsecond; None where it is not told."""
        if not self.message.HasField("timestamp"):
            return None
        stamp = self.message.timestamp
        try:
            return datetime.fromtimestamp(stamp.seconds, UTC).replace(
                microsecond=min(999_999, max(0, stamp.nanos // 1000))
            )
        except (OverflowError, ValueError, OSError):
            return None

    @property
    def data_storage_version(self) -> FileVersion:
        """The file version of new data; of old tables without a word on it, 0.1."""
        text = self.message.data_format.version
        return FileVersion.parse(text) if text else FileVersion.V0_1

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether rows have ids of their own."""
        return bool(self.message.reader_feature_flags & STABLE_ROW_IDS)

    @property
    def config(self) -> Mapping[str, str]:
        """The table's configuration."""
        return self.message.config

    @property
    def table_metadata(self) -> Mapping[str, str]:
        """The table's own metadata."""
        return self.message.table_metadata

    @property
    def branch(self) -> str | None:
        """The branch of this version; None on main."""
        return self.message.branch if self.message.HasField("branch") else None

    @property
    def num_bytes(self) -> int:
        """An estimate of the memory held, for a cache's budget."""
        return 2000 + 400 * len(self.fragments) + 2 * self.message.ByteSize()


def parse_manifest(content: memoryview, where: str) -> Manifest:
    """A manifest from the whole content of its file.

    Raises:
        CorruptFileError: bytes that contradict the format.
        UnsupportedError: features of the table that this alance does not know.
    """
    try:
        return _parse(content)
    except AlanceError as error:
        error.add_note(f"in manifest {where}")
        raise


def _parse(content: memoryview) -> Manifest:
    if len(content) < FOOTER.size + LENGTH.size:
        raise CorruptFileError(f"manifest of {len(content)} bytes: too short")
    position, _, _, magic = FOOTER.unpack(content[-FOOTER.size :])
    if magic != MAGIC:
        raise CorruptFileError(f"manifest ends in {magic!r}, expected {MAGIC!r}")
    message = _section(content, position, table_pb2.Manifest)
    if position + LENGTH.size + _length(content, position) != len(content) - FOOTER.size:
        raise CorruptFileError(f"manifest at {position} does not end at the footer")
    check_readable(
        message.reader_feature_flags,
        message.writer_feature_flags,
        has_max_field_id=message.HasField("max_allocated_field_id"),
    )
    correct_file_version(message)
    if not message.HasField("writer_version"):
        _forget_wrong_counts(message)
    fragments = Fragments(message.fragments)
    schema = Schema.from_protobuf(message.fields, message.schema_metadata)
    attach_values(message.fields, content)
    return Manifest(
        message.version,
        schema,
        fragments,
        {
            one.id: BasePath(
                one.id, one.name if one.HasField("name") else None, one.is_dataset_root, one.path
            )
            for one in message.base_paths
        },
        message,
        _transaction(content, message),
        _indices(content, message),
    )


def _forget_wrong_counts(message: table_pb2.Manifest) -> None:
    """Make the row counts of fragments with deleted rows unknown: 0.8.0 has told the live ones."""
    for fragment in message.fragments:
        is_old = all(one.file_major_version == 0 for one in fragment.files)
        if is_old and fragment.HasField("deletion_file"):
            fragment.ClearField("physical_rows")


def _transaction(
    content: memoryview, message: table_pb2.Manifest
) -> transaction_pb2.Transaction | None:
    # Slot 21 up to 13.x, slot 23 since.
    for slot in ("transaction_section", "legacy_transaction_section"):
        if message.HasField(slot):
            return _section(content, getattr(message, slot), transaction_pb2.Transaction)
    return None


def _indices(
    content: memoryview, message: table_pb2.Manifest
) -> tuple[table_pb2.IndexMetadata, ...]:
    if not message.HasField("index_section"):
        return ()
    return tuple(_section(content, message.index_section, table_pb2.IndexSection).indices)


def _length(content: memoryview, position: int) -> int:
    if not 0 <= position <= len(content) - FOOTER.size - LENGTH.size:
        raise CorruptFileError(
            f"section at {position}: outside of the manifest's {len(content)} bytes"
        )
    return int(LENGTH.unpack_from(content, position)[0])


def _section(content: memoryview, position: int, kind: type[M]) -> M:
    length = _length(content, position)
    start = position + LENGTH.size
    if length > len(content) - FOOTER.size - start:
        raise CorruptFileError(
            f"section of {length} bytes at {position}: outside of the manifest's "
            f"{len(content)} bytes"
        )
    try:
        return kind.FromString(bytes(content[start : start + length]))
    except DecodeError as error:
        name = kind.DESCRIPTOR.name
        raise CorruptFileError(f"{name} of {length} bytes at {position}: {error}") from error
