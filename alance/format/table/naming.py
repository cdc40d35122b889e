"""File names of manifests (V1, V2, detached), deletion files and transactions.

  V2        {2^64 - 1 - version, 20 digits}.manifest     newest sorts first
  V1        {version}.manifest
  detached  d{version}.manifest                          version has its top bit set

Source: docs/format/table.md, "Names, detached versions, hint".
"""

from __future__ import annotations

import re
import uuid
from enum import Enum
from typing import Final, NamedTuple

from alance.errors import InvalidInputError

VERSIONS: Final = "_versions"
TRANSACTIONS: Final = "_transactions"
DELETIONS: Final = "_deletions"
INDICES: Final = "_indices"
DATA: Final = "data"
BLOBS: Final = "_blobs"  # default folder of the objects of managed blobs
TAGS: Final = "_refs/tags"
BRANCHES: Final = "_refs/branches"
TREE: Final = "tree"
MESSAGE_PROPERTY: Final = "__lance_commit_message"  # transaction property with the commit message

_MAX: Final = (1 << 64) - 1
_V2: Final = re.compile(r"([0-9]{20})\.manifest")
_V1: Final = re.compile(r"(0|[1-9][0-9]{0,19})\.manifest")
_DETACHED: Final = re.compile(r"d([0-9]{19,20})\.manifest")


class NamingScheme(Enum):
    """Naming scheme of a dataset's manifests; it never changes."""

    V1 = 1
    V2 = 2


class ManifestName(NamedTuple):
    """Version and scheme, as parsed from a manifest's file name."""

    version: int
    scheme: NamingScheme
    is_detached: bool = False


def manifest_name(version: int, scheme: NamingScheme) -> str:
    """Return the file name of a version's manifest inside `_versions/`."""
    if not 0 <= version <= _MAX:
        raise InvalidInputError(f"version {version}: expected 0 to {_MAX}")
    if version >> 63:
        return f"d{version}.manifest"
    if scheme is NamingScheme.V2:
        return f"{_MAX - version:020d}.manifest"
    return f"{version}.manifest"


def parse_manifest_name(name: str) -> ManifestName | None:
    """Parse a file name in `_versions/`. Returns None if it is not the name of a manifest."""
    if match := _V2.fullmatch(name):
        version = _MAX - int(match[1])
        return ManifestName(version, NamingScheme.V2) if 0 <= version < 1 << 63 else None
    if match := _DETACHED.fullmatch(name):
        version = int(match[1])
        if version >> 63 == 1:
            return ManifestName(version, NamingScheme.V2, is_detached=True)
        return None
    if match := _V1.fullmatch(name):
        version = int(match[1])
        return ManifestName(version, NamingScheme.V1) if version < 1 << 63 else None
    return None


def transaction_name(read_version: int, transaction_uuid: str) -> str:
    """Return the file name of a transaction inside `_transactions/`."""
    return f"{read_version}-{transaction_uuid}.txn"


def deletion_name(fragment_id: int, read_version: int, file_id: int, *, is_bitmap: bool) -> str:
    """Return the file name of a deletion vector inside `_deletions/`."""
    return f"{fragment_id}-{read_version}-{file_id}.{'bin' if is_bitmap else 'arrow'}"


def data_file_name(unique: uuid.UUID | None = None) -> str:
    """Return a name for a new data file.

    Its leading binary digits spread files over store partitions.
    """
    content = (unique or uuid.uuid4()).bytes
    return f"{int.from_bytes(content[:3]):024b}{content[3:].hex()}.lance"
