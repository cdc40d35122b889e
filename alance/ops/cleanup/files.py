"""Which files of a table belong to which version, by their names below its folder. Pure.

A name stands for the same file wherever its folder is: names of files are random, so that files
that branches read from the folder of their parent are known by name alone.
"""

from __future__ import annotations

import itertools
import posixpath
import threading
import uuid
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import numpy as np

from alance.format.table.flags import MANAGED_BLOBS
from alance.format.table.fragment import DeletionFile
from alance.format.table.naming import BLOBS, DATA, DELETIONS, INDICES, TRANSACTIONS, VERSIONS
from alance.ops.cleanup.policy import CleanupCandidateFile
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence, Set

    from alance.arrays import Int32s
    from alance.format.proto import table_pb2
    from alance.format.table.fragments import Records
    from alance.ops.cleanup.policy import Kind

UNVERIFIED_AGE: Final = timedelta(days=7)
FOLDERS: Final = (DATA, DELETIONS, TRANSACTIONS, INDICES, VERSIONS)
TEMPORARY: Final = ".tmp"
PROBE: Final = ".probe-"
NONE: Final = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class Listed:
    """A file of a table: its path below the table's folder."""

    path: str
    num_bytes: int
    last_modified: datetime | None


def has_managed_blobs(head: table_pb2.Manifest) -> bool:
    """Whether rows of a version may name objects that the table keeps."""
    return bool(head.reader_feature_flags & MANAGED_BLOBS)


def object_names(locations: Iterable[str]) -> Iterator[str]:
    """The names of objects that the table keeps, whatever way their base path is spelled.

    In doubt it is one name more: a part of a location that looks like one.
    """
    for location in locations:
        parts = location.split("/")
        for place, part in enumerate(parts):
            if part == BLOBS:
                yield "/".join(parts[place:])


def names_of_fragment(message: table_pb2.DataFragment) -> Iterator[str]:
    """Names of all files that a fragment's record lists."""
    for file in message.files:
        yield f"{DATA}/{file.path}"
        if file.HasField("base_id"):
            yield file.path
    for overlay in message.overlays:
        if overlay.HasField("data_file"):
            yield f"{DATA}/{overlay.data_file.path}"
    for external in (
        message.external_row_ids,
        message.external_last_updated_at_versions,
        message.external_created_at_versions,
    ):
        if external.path:
            yield external.path
    if message.HasField("deletion_file"):
        deletion = DeletionFile.from_protobuf(message.deletion_file)
        yield f"{DELETIONS}/{deletion.name(message.id)}"


def names_beside_fragments(
    head: table_pb2.Manifest, indices: Iterable[table_pb2.IndexMetadata]
) -> Iterator[str]:
    """Names of a manifest's transaction file and of the folders of its indices."""
    if head.transaction_file:
        yield f"{TRANSACTIONS}/{head.transaction_file}"
    for index in indices:
        yield index_folder(index.uuid.uuid)


class NameIndex:
    """Numbers of names: versions share most files, so that each of them takes 4 bytes a file."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._of_fragments: dict[bytes, list[int]] = {}  # by their records
        self._lock = threading.Lock()

    def numbers_of(
        self,
        head: table_pb2.Manifest,
        records: Records,
        indices: Iterable[table_pb2.IndexMetadata],
        objects: Iterable[str] = (),
    ) -> Int32s:
        """Numbers of the files that a version needs; CPU work, in any thread.

        The record of a fragment is parsed once, even if many versions have the fragment.

        Args:
            head, records, indices: of the version's manifest.
            objects: locations of the objects that its managed blobs are in.
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
        """The names of some versions together."""
        chosen = np.unique(np.concatenate([NONE, *parts])).tolist()
        with self._lock:
            names = list(self._numbers)
        return {names[number] for number in chosen}


def index_folder(content: bytes) -> str:
    """The folder of an index segment, from its UUID's bytes."""
    return f"{INDICES}/{uuid.UUID(bytes=content) if len(content) == 16 else content.hex()}"


def staged_for(path: str) -> str | None:
    """The manifest that a staged one of an external manifest store is for; None: it is none."""
    final, mark, tail = path[:-37], path[-37:-36], path[-36:]
    is_one = path.startswith(f"{VERSIONS}/") and mark == "-" and tail.count("-") == 4
    return final if is_one and final.endswith(".manifest") else None


def owner_of(path: str) -> tuple[Kind, str] | None:
    """The kind of a file and the name that versions know it by; None: no file of the format."""
    folder, _, name = path.partition("/")
    base = posixpath.basename(path)
    if folder == BLOBS:  # whose other files are nobody's, as in pylance
        return ("data", path) if name.endswith(".blob") else None
    if staged_for(path) is not None:
        return "temporary_manifest", path
    if base.startswith((TEMPORARY, PROBE)) or "#" in base:
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
    listed: Sequence[Listed], kept: Set[str], expired: Set[str], unverified_before: datetime | None
) -> list[CleanupCandidateFile]:
    """The files that may go; see `candidate`."""
    paths = {None, *(file.path for file in listed)}
    chosen = (
        candidate(file, kept, expired, unverified_before)
        for file in listed
        if staged_for(file.path) in paths  # else it may be all that there is of a version
    )
    return [chosen_file for chosen_file in chosen if chosen_file is not None]


def candidate(
    file: Listed, kept: Set[str], expired: Set[str], unverified_before: datetime | None
) -> CleanupCandidateFile | None:
    """A file that goes; None: it stays.

    Args:
        kept: names of what versions that stay need.
        expired: names of what versions that go need.
        unverified_before: files of no version go if they are older; None: all of them.
    """
    owner = owner_of(file.path)
    if owner is None:
        return None
    kind, name = owner
    if name in kept or f"{DATA}/{posixpath.basename(name)}" in kept:  # of a base path within `data`
        return None
    verified = name in expired
    if not verified and unverified_before is not None:
        modified = file.last_modified
        if modified is None or modified >= unverified_before:
            return None
    return CleanupCandidateFile(file.path, kind, not verified, file.num_bytes)
