"""Manifests: each describes one version of a table.

    [u32 length | IndexSection]     optional
    [u32 length | Transaction]      optional
     u32 length | Manifest
     footer, 16 bytes: i64 position of the manifest's length | u16 0 | u16 2 | `LANC`

Source: docs/format/table.md, "Manifest files".
"""

from __future__ import annotations

import contextlib
import struct
from collections import OrderedDict
from dataclasses import field, replace
from datetime import UTC, datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from weakref import WeakValueDictionary

import numpy as np
from google.protobuf.message import DecodeError, Message

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import AlanceError, CorruptFileError
from alance.file_version import FileVersion
from alance.format.proto import table_pb2, transaction_pb2
from alance.format.schema import Remembered, Schema
from alance.format.table.dictionaries import attach_values
from alance.format.table.flags import (
    STABLE_ROW_IDS,
    check_readable,
    correct_file_version,
    is_perhaps_wrong,
)
from alance.format.table.fragment import DatasetBasePath, Fragments, Records

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

M = TypeVar("M", bound=Message)

MANIFEST_FOOTER: Final = struct.Struct("<qHH4s")
SECTION_LENGTH: Final = struct.Struct("<I")
MANIFEST_MAGIC: Final = b"LANC"
MET_BYTES: Final = 2 << 20  # bytes; budget of the process's memo of parsed manifests, approximate
PARTS_BYTES: Final = 16 << 10  # bytes; approximate memory of the parts of the smallest manifest
# Bytes; the memo keeps no larger manifest, because it usually has many fragments.
LARGE: Final = 256 << 10
_PICKLED: Final = ("transaction", "indices", "doubted", "repaired", "tag")

# Memo of the schemas of versions in use, by their serialized fields.
_schemas: Final[WeakValueDictionary[bytes, Schema]] = WeakValueDictionary()


@dataclass(frozen=True, slots=True)
class Manifest:
    """Version of a table. Immutable.

    Attributes:
        head: the original protobuf message without its fragments; includes unknown fields.
        transaction: the transaction, if the manifest's file holds it.
        indices: entries of the index section.
        doubted: recorded row counts that are ignored as unreliable, by fragment id.
        repaired: field ids that a fragment had twice, and that were replaced.
        stored_bytes: size of the file; 0 if not read from a file.
        remember: memo of values derived from this version, shared by its handles in all sessions.
        tag: entity tag of the file when it was listed or written, without quotes; None if unknown.
    """

    version: int
    schema: Schema
    fragments: Fragments
    base_paths: Mapping[int, DatasetBasePath]
    head: table_pb2.Manifest
    transaction: transaction_pb2.Transaction | None = None
    indices: tuple[table_pb2.IndexMetadata, ...] = ()
    doubted: Mapping[int, int] = field(default_factory=dict)
    repaired: tuple[int, ...] = ()
    stored_bytes: int = field(default=0, compare=False)
    remember: Remembered = field(default_factory=Remembered, compare=False, repr=False)
    tag: str | None = field(default=None, compare=False, repr=False)
    _whole: list[table_pb2.Manifest] = field(default_factory=list, compare=False, repr=False)

    @classmethod
    def of(
        cls, head: table_pb2.Manifest, schema: Schema, records: Records, **others: Any
    ) -> Manifest:
        """Build a version from its messages; `others` are further attributes."""
        bases = {
            base.id: DatasetBasePath(
                base.path,
                base.name if base.HasField("name") else None,
                base.is_dataset_root,
                base.id,
            )
            for base in head.base_paths
        }
        return cls(head.version, schema, Fragments(records), bases, head, **others)

    def shared(self, tag: str | None) -> Manifest:
        """Return this version for another session, with its memo, and with no parsed fragment."""
        return replace(self, fragments=self.fragments.unparsed(), tag=tag, _whole=[])

    def __reduce__(self) -> tuple[Any, ...]:
        others = {name: getattr(self, name) for name in _PICKLED}
        return _unpickled, (self.head, self.fragments.records, others)

    @property
    def message(self) -> table_pb2.Manifest:
        """Protobuf message with all fragments.

        CPU work at the first access: about a millisecond for 3 000 fragments.
        """
        if not self._whole:
            self._whole.append(whole_message(self.head, self.fragments.records.content))
        return self._whole[0]

    def same_as(self, other: Manifest) -> bool:
        """True if both manifests are equal and their fragments are equal byte by byte."""
        ours, theirs = self.fragments.records, other.fragments.records
        return ours.content == theirs.content and self.head == other.head

    @property
    def timestamp(self) -> datetime | None:
        """Time of the commit in UTC, to the microsecond; None if the manifest has no valid time."""
        if not self.head.HasField("timestamp"):
            return None
        return commit_time(self.head.timestamp.seconds, self.head.timestamp.nanos)

    @property
    def data_storage_version(self) -> FileVersion:
        """File version of new data; 0.1 for old tables that do not record it."""
        text = self.head.data_format.version
        return FileVersion.parse(text) if text else FileVersion.V0_1

    @property
    def has_stable_row_ids(self) -> bool:
        return bool(self.head.reader_feature_flags & STABLE_ROW_IDS)

    @property
    def config(self) -> Mapping[str, str]:
        return self.head.config

    @property
    def table_metadata(self) -> Mapping[str, str]:
        return self.head.table_metadata

    @property
    def branch(self) -> str | None:
        """Name of the version's branch; None for main."""
        return self.head.branch if self.head.HasField("branch") else None

    @property
    def num_bytes(self) -> int:
        """Estimate of the memory in bytes, for a cache's budget."""
        size = (self.stored_bytes or self.head.ByteSize()) + len(self.fragments.records.content)
        return 2000 + 400 * len(self.fragments) + 2 * size


def whole_message(head: table_pb2.Manifest, fragments: bytes) -> table_pb2.Manifest:
    """Parse a manifest from its message without fragments and the serialized fragment fields."""
    return table_pb2.Manifest.FromString(head.SerializeToString() + fragments)


def commit_time(seconds: int, nanos: int) -> datetime | None:
    """Convert a timestamp to UTC, to the microsecond; None if its year is not within 1 to 9999."""
    try:
        return datetime.fromtimestamp(seconds, UTC).replace(
            microsecond=min(999_999, max(0, nanos // 1000))
        )
    except (OverflowError, ValueError, OSError):
        return None


class _Met(OrderedDict[bytes, Manifest]):
    """Memo of recently parsed manifests, by content, for all sessions. Thread-safe."""

    def keep(self, content: memoryview, manifest: Manifest) -> None:
        """Add a manifest of at most `LARGE` bytes; evict the oldest entries."""
        if len(content) > LARGE:
            return
        self[bytes(content)] = manifest
        while PARTS_BYTES * len(self) + 4 * sum(map(len, [*self])) > MET_BYTES:
            with contextlib.suppress(KeyError):  # another thread evicted it first
                self.popitem(last=False)


_met: Final = _Met()


def met_manifest(content: memoryview, tag: str | None = None) -> Manifest | None:
    """Return a manifest from the memo; None if it is not there. CPU: at most 1 us per KiB."""
    manifest = None if len(content) > LARGE else _met.get(bytes(content))
    return None if manifest is None else manifest.shared(tag)


def parse_manifest(
    content: memoryview, where: str, tag: str | None = None, *, keep: bool = True
) -> Manifest:
    """Parse a manifest from the content of its file.

    Args:
        content: bytes of the file.
        where: name of the file in error messages.
        tag: entity tag of the file, without quotes; None if unknown.
        keep: True to add the manifest to the memo.

    Raises:
        UnsupportedError: this alance does not know a table feature.
    """
    try:
        manifest = _parse(content)
    except AlanceError as error:
        error.add_note(f"in manifest {where}")
        if isinstance(error, CorruptFileError):
            error.add_note("`alance repair URI` goes back to the last version that can be read")
        raise
    if keep:
        _met.keep(content, manifest)
    return manifest.shared(tag)


def _parse(content: memoryview) -> Manifest:
    if len(content) < MANIFEST_FOOTER.size + SECTION_LENGTH.size:
        raise CorruptFileError(f"manifest of {len(content)} bytes: too short")
    position, _, _, magic = MANIFEST_FOOTER.unpack(content[-MANIFEST_FOOTER.size :])
    if magic != MANIFEST_MAGIC:
        raise CorruptFileError(f"manifest ends in {magic!r}, expected {MANIFEST_MAGIC!r}")
    length = _length(content, position)
    if position + SECTION_LENGTH.size + length != len(content) - MANIFEST_FOOTER.size:
        raise CorruptFileError(f"manifest at {position} does not end at the footer")
    message, records, fields = _apart(content, position)
    check_readable(
        message.reader_feature_flags,
        message.writer_feature_flags,
        has_max_field_id=message.HasField("max_allocated_field_id"),
    )
    doubted: Mapping[int, int] = {}
    repaired: tuple[int, ...] = ()
    if records is None:
        correct_file_version(message, message.fragments)
        repaired = repair_field_ids(message)
        if not message.HasField("writer_version"):
            doubted = _forget_wrong_counts(message)
        records = Records.of(message.fragments)
        message.ClearField("fragments")
        schema = Schema.from_protobuf(message.fields, message.schema_metadata)
        attach_values(message.fields, content)
    else:
        schema = _shared_schema(message, fields)
    return Manifest.of(
        message,
        schema,
        records,
        transaction=_transaction(content, message),
        indices=_indices(content, message),
        doubted=doubted,
        repaired=repaired,
        stored_bytes=len(content),
    )


def _unpickled(head: table_pb2.Manifest, records: Records, others: dict[str, Any]) -> Manifest:
    """Rebuild a manifest from the arguments that `Manifest.__reduce__` returns."""
    return Manifest.of(head, _shared_schema(head, None), records, **others)


def _apart(
    content: memoryview, position: int
) -> tuple[table_pb2.Manifest, Records | None, _kernels.SchemaFields | None]:
    """Split a manifest into its message without fragments, its records, and its schema fields.

    If the records are None, the message has all fragments: its form is unusual, or it is of an old
    release, and has to be repaired. If the schema fields are None, the form of the schema is
    unusual.
    """
    parts = _kernels.manifest_fragments(
        bytes(content[position + SECTION_LENGTH.size : -MANIFEST_FOOTER.size])
    )
    if parts is not None and parts[1]:
        with contextlib.suppress(DecodeError):
            head = table_pb2.Manifest.FromString(parts[0])
            is_usual = head.HasField("writer_version") and not is_perhaps_wrong(head)
            fields = _kernels.schema_fields(parts[0])
            has_values = fields is None and any(
                field.HasField("dictionary") for field in head.fields
            )
            if is_usual and not has_values:
                return head, Records(*parts[2:]), fields
    return _section(content, position, table_pb2.Manifest), None, None


def _shared_schema(message: table_pb2.Manifest, fields: _kernels.SchemaFields | None) -> Schema:
    """Return the schema of a manifest; versions with equal fields share one object.

    CPU work: some microseconds per field that is accessed.
    """
    if fields is None:
        alone = table_pb2.Manifest(fields=message.fields, schema_metadata=message.schema_metadata)
        key = alone.SerializeToString(deterministic=True)
    else:
        key = fields.key
    schema = _schemas.get(key)
    if schema is None:
        schema = Schema.of_manifest(message.fields, message.schema_metadata, fields)
        _schemas[key] = schema
    return schema


def _forget_wrong_counts(message: table_pb2.Manifest) -> dict[int, int]:
    """Clear the row counts that may exclude deleted rows, as release 0.8.0 wrote them.

    Returns the cleared counts by fragment id. Only fragments of 0.1 files with deletions are
    affected.
    """
    reported = {}
    for fragment in message.fragments:
        is_old = all(file.file_major_version == 0 for file in fragment.files)
        if is_old and fragment.HasField("deletion_file"):
            if fragment.physical_rows:
                reported[fragment.id] = fragment.physical_rows
            fragment.ClearField("physical_rows")
    return reported


def _transaction(
    content: memoryview, message: table_pb2.Manifest
) -> transaction_pb2.Transaction | None:
    # Field 21 up to release 13.x, field 23 since.
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
    if not 0 <= position <= len(content) - MANIFEST_FOOTER.size - SECTION_LENGTH.size:
        raise CorruptFileError(
            f"section at {position}: outside of the manifest's {len(content)} bytes"
        )
    return int(SECTION_LENGTH.unpack_from(content, position)[0])


def _section(content: memoryview, position: int, kind: type[M]) -> M:
    length = _length(content, position)
    start = position + SECTION_LENGTH.size
    if length > len(content) - MANIFEST_FOOTER.size - start:
        raise CorruptFileError(
            f"section of {length} bytes at {position}: outside of the manifest's "
            f"{len(content)} bytes"
        )
    try:
        return kind.FromString(bytes(content[start : start + length]))
    except DecodeError as error:
        name = kind.DESCRIPTOR.name
        raise CorruptFileError(f"{name} of {length} bytes at {position}: {error}") from error


def repair_field_ids(message: table_pb2.Manifest) -> tuple[int, ...]:
    """Make the field ids of each fragment unique, in place, and return the ids that were repeated.

    Releases up to 0.10 gave new columns the ids of dropped columns whose files stayed, so a
    fragment may have an id twice. The last file with the id has the values of the new column.
    There, and in the schema, a new id replaces it. pylance does the same before its next commit, so
    both assign the same ids. CPU work.
    """
    changes = _changes(message)
    if not changes:
        return ()
    for column in message.fields:
        column.id = changes.get(column.id, column.id)
        column.parent_id = changes.get(column.parent_id, column.parent_id)
    for fragment in message.fragments:
        pending = dict(changes)
        for file in reversed(fragment.files):
            file.fields[:] = [pending.pop(number, number) for number in file.fields]
    return tuple(changes)


def _changes(message: table_pb2.Manifest) -> Mapping[int, int]:
    """Map each field id that a fragment has twice to a new id."""
    twice: set[int] = set()
    for fragment in message.fragments:
        if len(fragment.files) < 2:
            continue
        seen: set[int] = set()
        for file in fragment.files:
            ids = {field for field in file.fields if field >= 0}
            twice |= ids & seen
            seen |= ids
    if not twice:
        return {}
    fields = [field.id for field in message.fields]
    stored = [field for part in message.fragments for file in part.files for field in file.fields]
    first = max([*fields, *stored]) + 1
    return {old: first + n for n, old in enumerate(sorted(twice.intersection(fields)))}


class VersionTotals(NamedTuple):
    """Number and time of a version, with totals of its fragments."""

    version: int
    timestamp: datetime | None  # UTC; None if the manifest has no time
    num_fragments: int
    num_files: int
    file_bytes: int  # total size of data files, as far as recorded
    num_deletion_files: int
    num_deleted_rows: int
    num_rows: int  # including deleted rows

    @classmethod
    def of(cls, manifest: Manifest) -> VersionTotals:
        """Compute the totals of a parsed manifest."""
        records = manifest.fragments.records
        num_files = np.array([len(form.files) for form in manifest.fragments.forms], np.int64)
        return cls(
            manifest.version,
            manifest.timestamp,
            len(records),
            int(num_files[records.form_of].sum()),
            int(records.file_bytes.sum()),
            int(np.count_nonzero(records.deleted >= 0)),
            int(np.maximum(records.deleted, 0).sum()),
            int(records.rows.sum()),
        )


def parse_totals(contents: Sequence[memoryview], places: Sequence[str]) -> list[VersionTotals]:
    """Read the totals of manifests. CPU work."""
    stops = np.array(list(accumulate(map(len, contents))), np.int64)
    numbers = _kernels.manifest_totals(b"".join(contents), stops).reshape(len(contents), -1)
    totals = []
    for row, content, place in zip(numbers.tolist(), contents, places, strict=True):
        is_usual, version, has_time, seconds, nanos, reader, writer, has_max_id, *counts = row
        if not is_usual:
            totals.append(VersionTotals.of(parse_manifest(content, place)))
            continue
        check_readable(reader, writer, has_max_field_id=bool(has_max_id))
        time = commit_time(seconds, nanos) if has_time else None
        totals.append(VersionTotals(version, time, *counts))
    return totals
