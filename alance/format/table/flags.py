"""Feature flags: what a table needs its readers and writers to know.

Source: table format specification, "Feature flags".
"""

from __future__ import annotations

from typing import Final

from alance.errors import CorruptFileError, UnsupportedError

DELETIONS: Final = 1
STABLE_ROW_IDS: Final = 2
V2_FILES: Final = 4  # obsolete, never set now
CONFIG: Final = 8
BASE_PATHS: Final = 16
NO_TRANSACTION_FILE: Final = 32
OVERLAYS: Final = 64
COVERING_INDEX: Final = 128
MIXED_FILE_VERSIONS: Final = 256
FRAGMENT_REUSE_ROW_IDS: Final = 512
FRAGMENT_REUSE_TAGGED: Final = 1024
SPILLED_LINEAGE: Final = 2048
CLUSTERING: Final = 4096
FRAGMENT_TREE: Final = 8192
MANAGED_BLOBS: Final = 16384
FIELD_IDS_NOT_REUSED: Final = 32768
ZONE_WRITE_SEEDS: Final = 65536

NAMES: Final = {
    DELETIONS: "deletion files",
    STABLE_ROW_IDS: "stable row ids",
    V2_FILES: "v2 files",
    CONFIG: "table config",
    BASE_PATHS: "base paths",
    NO_TRANSACTION_FILE: "no transaction file",
    OVERLAYS: "data overlays",
    COVERING_INDEX: "covering index columns",
    MIXED_FILE_VERSIONS: "mixed file versions",
    FRAGMENT_REUSE_ROW_IDS: "fragment-reuse index on stable row ids",
    FRAGMENT_REUSE_TAGGED: "tagged fragment-reuse index",
    SPILLED_LINEAGE: "spilled row lineage",
    CLUSTERING: "clustering",
    FRAGMENT_TREE: "fragment tree",
    MANAGED_BLOBS: "managed blobs",
    FIELD_IDS_NOT_REUSED: "field ids that are not reused",
    ZONE_WRITE_SEEDS: "zone write seeds",
}

# An index is not used for reading here, so what only concerns indices is safe to read past.
READABLE: Final = (
    DELETIONS
    | STABLE_ROW_IDS
    | V2_FILES
    | CONFIG
    | BASE_PATHS
    | NO_TRANSACTION_FILE
    | COVERING_INDEX
    | MIXED_FILE_VERSIONS
    | FRAGMENT_REUSE_TAGGED
    | SPILLED_LINEAGE
    | FIELD_IDS_NOT_REUSED
)
PAIRED: Final = MIXED_FILE_VERSIONS | FRAGMENT_REUSE_TAGGED | MANAGED_BLOBS | ZONE_WRITE_SEEDS


def names_of(flags: int) -> str:
    """The features of some bits, for a message."""
    bits = [1 << bit for bit in range(flags.bit_length()) if flags >> bit & 1]
    return ", ".join(f"{bit} ({NAMES.get(bit, 'unknown')})" for bit in bits)


def check_readable(reader_flags: int, writer_flags: int, *, has_max_field_id: bool) -> None:
    """Check that this alance may read a table.

    Raises:
        CorruptFileError: flags that contradict each other or the manifest.
        UnsupportedError: a reader flag that this alance does not know; names it.
    """
    half = (reader_flags ^ writer_flags) & PAIRED
    if half:
        raise CorruptFileError(f"feature flags {names_of(half)}: set in one of two words only")
    if reader_flags & FIELD_IDS_NOT_REUSED:
        raise CorruptFileError(f"feature flag {names_of(FIELD_IDS_NOT_REUSED)} in the reader word")
    if bool(writer_flags & FIELD_IDS_NOT_REUSED) != has_max_field_id:
        raise CorruptFileError(
            f"feature flag {names_of(FIELD_IDS_NOT_REUSED)} and the highest field id disagree"
        )
    unknown = reader_flags & ~READABLE
    if unknown:
        raise UnsupportedError(
            f"the table needs features that this alance does not know: {names_of(unknown)}"
        )
