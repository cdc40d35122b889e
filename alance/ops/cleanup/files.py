"""Files of a table and the versions that need them, by their names below its folder. Pure.

Files are compared by name, without their folder: names are random, and a branch also reads files in
the folder of its parent.
"""

from __future__ import annotations

import itertools
import posixpath
import threading
import uuid
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import numpy as np

from alance.base.records import dataclass
from alance.format.table.flags import MANAGED_BLOBS
from alance.format.table.fragment import DeletionFile, lineage_paths
from alance.format.table.naming import BLOBS, DATA, DELETIONS, INDICES, TRANSACTIONS, VERSIONS
from alance.ops.cleanup.policy import CleanupCandidateFile
from alance.versioning.manifest_store import PROBE_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence, Set

    from alance.base.arrays import Int32s
    from alance.format.proto import table_pb2
    from alance.format.table.fragment import Records
    from alance.ops.cleanup.policy import Kind

UNVERIFIED_AGE: Final = timedelta(days=7)
FOLDERS: Final = (DATA, DELETIONS, TRANSACTIONS, INDICES, VERSIONS)
TEMPORARY: Final = ".tmp"
NONE: Final = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class Listed:
    """A listed file of a table, with its path below the table's folder."""

    path: str
    num_bytes: int
    last_modified: datetime | None


def has_managed_blobs(head: table_pb2.Manifest) -> bool:
    """True if rows of a version may name objects that the table owns."""
    return bool(head.reader_feature_flags & MANAGED_BLOBS)


def object_names(locations: Iterable[str]) -> Iterator[str]:
    """Yield the names of objects that the table owns, from their locations.

    A base path may be spelled in several ways, so each part of a location that looks like a name is
    yielded.
    """
    for location in locations:
        parts = location.split("/")
        for place, part in enumerate(parts):
            if part == BLOBS:
                yield "/".join(parts[place:])


def names_of_fragment(message: table_pb2.DataFragment) -> Iterator[str]:
    """Yield the names of all files that a fragment's record lists."""
    for file in message.files:
        yield f"{DATA}/{file.path}"
        if file.HasField("base_id"):
            yield file.path
    for overlay in message.overlays:
        if overlay.HasField("data_file"):
            yield f"{DATA}/{overlay.data_file.path}"
    yield from lineage_paths(message)
    if message.HasField("deletion_file"):
        deletion = DeletionFile.from_protobuf(message.deletion_file)
        yield f"{DELETIONS}/{deletion.name(message.id)}"


def names_beside_fragments(
    head: table_pb2.Manifest, indices: Iterable[table_pb2.IndexMetadata]
) -> Iterator[str]:
    """Yield the names of a manifest's transaction file and of its index folders."""
    if head.transaction_file:
        yield f"{TRANSACTIONS}/{head.transaction_file}"
    for index in indices:
        yield index_folder(index.uuid.uuid)


class NameIndex:
    """Numbering of file names. Versions share most files, so a version takes 4 bytes per file."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._of_fragments: dict[bytes, list[int]] = {}  # by serialized record
        self._lock = threading.Lock()

    def numbers_of(
        self,
        head: table_pb2.Manifest,
        records: Records,
        indices: Iterable[table_pb2.IndexMetadata],
        objects: Iterable[str] = (),
    ) -> Int32s:
        """Return the numbers of the files that a version needs; CPU work, in any thread.

        The record of a fragment is parsed once, even if many versions have the fragment.

        Args:
            head, records, indices: parts of the version's manifest.
            objects: locations of the objects of its managed blobs.
        """
        places = zip(records.stops.tolist(), records.sizes.tolist(), strict=True)
        with self._lock:
            numbers = self._numbered(
                itertools.chain(names_beside_fragments(head, indices), object_names(objects))
            )
            for place, (stop, size) in enumerate(places):
                record = records.content[stop - size : stop]
                of_fragment = self._of_fragments.get(record)
                if of_fragment is None:
                    of_fragment = self._numbered(names_of_fragment(records[place]))
                    self._of_fragments[record] = of_fragment
                numbers += of_fragment
        return np.array(numbers, np.int32)

    def _numbered(self, names: Iterable[str]) -> list[int]:
        numbers = self._numbers
        return [numbers.setdefault(name, len(numbers)) for name in names]

    def names(self, parts: Iterable[Int32s]) -> set[str]:
        """Return the names of all files of several versions."""
        chosen = np.unique(np.concatenate([NONE, *parts])).tolist()
        with self._lock:
            names = list(self._numbers)
        return {names[number] for number in chosen}


def index_folder(content: bytes) -> str:
    """Return the folder of an index segment, from the bytes of its UUID."""
    return f"{INDICES}/{uuid.UUID(bytes=content) if len(content) == 16 else content.hex()}"


def staged_for(path: str) -> str | None:
    """Return the final path of a manifest that an external manifest store has staged at `path`.

    Returns None if the file is not a staged manifest.
    """
    final, mark, tail = path[:-37], path[-37:-36], path[-36:]
    is_staged = path.startswith(f"{VERSIONS}/") and mark == "-" and tail.count("-") == 4
    return final if is_staged and final.endswith(".manifest") else None


def owner_of(path: str) -> tuple[Kind, str] | None:
    """Return the kind of a file, and the name by which versions refer to it.

    Returns None if the file is not part of the format.
    """
    folder, _, name = path.partition("/")
    base = posixpath.basename(path)
    if folder == BLOBS:  # files of other kinds in this folder are never removed, as in pylance
        return ("data", path) if name.endswith(".blob") else None
    if staged_for(path) is not None:
        return "temporary_manifest", path
    if base.startswith((TEMPORARY, PROBE_PREFIX)) or "#" in base:
        return ("temporary_manifest" if folder == VERSIONS else "temporary"), path
    if folder == DATA and name.endswith(".lance"):
        return "data", path
    if folder == DATA and name.endswith(".blob"):
        return "data", f"{posixpath.dirname(path)}.lance"
    if folder == DELETIONS and name.endswith((".arrow", ".bin")):
        return "deletion", path
    if folder == TRANSACTIONS and name.endswith(".txn"):
        return "transaction", path
    if folder == INDICES and "/" in name:
        return "index", f"{INDICES}/{name.partition('/')[0]}"
    return None


def candidates(
    listed: Sequence[Listed],
    needed: Set[str],
    expired: Set[str],
    unverified_before: datetime | None,
) -> list[CleanupCandidateFile]:
    """Return the files to remove; see `candidate`."""
    paths = {None, *(file.path for file in listed)}
    chosen = (
        candidate(file, needed, expired, unverified_before)
        for file in listed
        if staged_for(file.path) in paths  # otherwise it may be the only manifest of its version
    )
    return [chosen_file for chosen_file in chosen if chosen_file is not None]


def candidate(
    file: Listed, needed: Set[str], expired: Set[str], unverified_before: datetime | None
) -> CleanupCandidateFile | None:
    """Return a file as a candidate for removal; None if it is retained.

    Args:
        needed: names of the files that remaining versions need.
        expired: names of the files that removed versions need.
        unverified_before: files of no version are removed if they are older than this; None: in any
            case.
    """
    owner = owner_of(file.path)
    if owner is None:
        return None
    kind, name = owner
    # The second name is for a file of a base path within `data`.
    if name in needed or f"{DATA}/{posixpath.basename(name)}" in needed:
        return None
    verified = name in expired
    if not verified and unverified_before is not None:
        modified = file.last_modified
        if modified is None or modified >= unverified_before:
            return None
    return CleanupCandidateFile(file.path, kind, not verified, file.num_bytes)
