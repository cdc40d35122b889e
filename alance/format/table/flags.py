"""Feature flags: features that a table requires of its readers and writers.

Source: docs/format/table.md, "Feature flags".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alance.errors import CorruptFileError, InvalidInputError, UnsupportedError
from alance.file_version import FOOTERS, FileVersion

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from alance.format.proto import table_pb2

DELETION_FILES: Final = 1
STABLE_ROW_IDS: Final = 2
V2_FILES: Final = 4
TABLE_CONFIG: Final = 8
BASE_PATHS: Final = 16
NO_TRANSACTION_FILE: Final = 32
COVERING_INDEX: Final = 128
MIXED_FILE_VERSIONS: Final = 256
FRAGMENT_REUSE_TAGGED: Final = 1024
SPILLED_LINEAGE: Final = 2048
MANAGED_BLOBS: Final = 16384
FIELD_IDS_NOT_REUSED: Final = 32768
ZONE_WRITE_SEEDS: Final = 65536

NAMES: Final = (  # of all bits, from the lowest
    *("deletion files", "stable row ids", "v2 files", "table config", "base paths"),
    *("no transaction file", "data overlays", "covering index columns", "mixed file versions"),
    *("fragment-reuse index on stable row ids", "tagged fragment-reuse index"),
    *("spilled row lineage", "clustering", "fragment tree", "managed blobs"),
    *("field ids that are not reused", "zone write seeds"),
)

# Features that alance's writer preserves.
WRITABLE: Final = (
    DELETION_FILES
    | STABLE_ROW_IDS
    | V2_FILES
    | TABLE_CONFIG
    | BASE_PATHS
    | NO_TRANSACTION_FILE
    | COVERING_INDEX
    | MIXED_FILE_VERSIONS
    | SPILLED_LINEAGE
    | MANAGED_BLOBS
    | FIELD_IDS_NOT_REUSED
)
# A reader may ignore features that only concern indices.
READABLE_FLAGS: Final = WRITABLE | FRAGMENT_REUSE_TAGGED
# Once set, a flag stays set in all later versions.
STICKY: Final = MIXED_FILE_VERSIONS | MANAGED_BLOBS
# Key of the schema's metadata; its value "true" sets the flag.
MANAGED_KEY: Final = "lance.blob.managed"
PAIRED: Final = MIXED_FILE_VERSIONS | FRAGMENT_REUSE_TAGGED | MANAGED_BLOBS | ZONE_WRITE_SEEDS


SEQUENCE_ONEOFS: Final = (
    "row_id_sequence",
    "created_at_version_sequence",
    "last_updated_at_version_sequence",
)


def names_of(flags: int) -> str:
    """Describe the features of a flag word for an error message."""
    names = enumerate((*NAMES, *["unknown"] * flags.bit_length()))
    return ", ".join(f"{1 << bit} ({name})" for bit, name in names if flags >> bit & 1)


def check_readable(reader_flags: int, writer_flags: int, *, has_max_field_id: bool) -> None:
    """Check that this alance can read a table."""
    half = (reader_flags ^ writer_flags) & PAIRED
    if half:
        raise CorruptFileError(f"feature flags {names_of(half)}: set in one of two words only")
    if reader_flags & FIELD_IDS_NOT_REUSED:
        raise CorruptFileError(f"feature flag {names_of(FIELD_IDS_NOT_REUSED)} in the reader word")
    if bool(writer_flags & FIELD_IDS_NOT_REUSED) != has_max_field_id:
        raise CorruptFileError(
            f"feature flag {names_of(FIELD_IDS_NOT_REUSED)} and the highest field id disagree"
        )
    unknown = reader_flags & ~READABLE_FLAGS
    if unknown:
        raise UnsupportedError(
            f"the table needs features that this alance does not know: {names_of(unknown)}"
        )


def check_writable(reader_flags: int, writer_flags: int) -> None:
    """Check that this alance can write the next version of a table with these flags."""
    unknown = (reader_flags | writer_flags) & ~WRITABLE
    if unknown:
        raise UnsupportedError(
            f"the table needs features that this alance does not write: {names_of(unknown)}"
        )


def flags_of(
    message: table_pb2.Manifest,
    forms: Sequence[table_pb2.DataFragment],
    indices: Iterable[table_pb2.IndexMetadata],
    *,
    stable_row_ids: bool,
    writes_transaction_file: bool,
) -> tuple[int, int]:
    """Compute the reader and writer flags of a version to write.

    Only `STICKY` flags are taken from the message; all others are computed from the version's
    content.

    Args:
        forms: records of all fragments, or the distinct forms of records; see `fragments.Records`.
    """
    flags = (message.reader_feature_flags | message.writer_feature_flags) & STICKY
    content = {
        DELETION_FILES: any(form.HasField("deletion_file") for form in forms),
        STABLE_ROW_IDS: stable_row_ids,
        BASE_PATHS: message.base_paths,
        MANAGED_BLOBS: message.schema_metadata.get(MANAGED_KEY) == b"true",
        COVERING_INDEX: any(index.covering_fields for index in indices),
        SPILLED_LINEAGE: any(
            (form.WhichOneof(name) or "").startswith("column_")
            for form in forms
            for name in SEQUENCE_ONEOFS
        ),
    }
    flags |= sum(flag for flag, is_set in content.items() if is_set)
    if not flags & MIXED_FILE_VERSIONS and _is_mixed(message, forms):
        flags |= MIXED_FILE_VERSIONS
    writer = flags
    if message.config:
        writer |= TABLE_CONFIG
    if not writes_transaction_file:
        writer |= NO_TRANSACTION_FILE
    if message.HasField("max_allocated_field_id"):
        writer |= FIELD_IDS_NOT_REUSED
    return flags, writer


def correct_file_version(
    message: table_pb2.Manifest, forms: Iterable[table_pb2.DataFragment]
) -> None:
    """Correct a default file version of 0.1 that an old release recorded for newer files."""
    if not is_perhaps_wrong(message):
        return
    numbers = _file_numbers(forms)
    if numbers and all(pair in FOOTERS for pair in numbers):
        versions = {FOOTERS[pair] for pair in numbers}
        if FileVersion.V0_1 not in versions:
            message.data_format.file_format = "lance"
            message.data_format.version = max(version.value for version in versions)


def is_perhaps_wrong(message: table_pb2.Manifest) -> bool:
    """True if `correct_file_version` may change the version's default."""
    return _default_version(message) is FileVersion.V0_1


def settle_file_version(
    message: table_pb2.Manifest, forms: Sequence[table_pb2.DataFragment]
) -> None:
    """Correct a version's default file version, and that 0.1 is not mixed with others."""
    correct_file_version(message, forms)
    versions = {FileVersion.from_footer(*pair) for pair in _file_numbers(forms)}
    versions.add(_default_version(message))
    if FileVersion.V0_1 in versions and len(versions) > 1:
        texts = sorted(version.value for version in versions)
        raise InvalidInputError(f"files of versions {texts} in one table: 0.1 is not mixed")


def _is_mixed(message: table_pb2.Manifest, forms: Iterable[table_pb2.DataFragment]) -> bool:
    default = _default_version(message)
    return any(FileVersion.from_footer(*pair) is not default for pair in _file_numbers(forms))


def _file_numbers(forms: Iterable[table_pb2.DataFragment]) -> set[tuple[int, int]]:
    return {
        (file.file_major_version, file.file_minor_version) for form in forms for file in form.files
    }


def _default_version(message: table_pb2.Manifest) -> FileVersion:
    text = message.data_format.version
    return FileVersion.parse(text) if text else FileVersion.V0_1
