"""State of a table to which maintenance rules apply: fragments, indices, versions, the last run."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.format.table.changes.apply_indices import SYSTEM, covered, reuse_index
from alance.format.table.indices import index_type
from alance.ops.cleanup import cleanup
from alance.ops.maintain.lease import last_run
from alance.ops.maintain.policy import MaintenancePolicy, cleanup_of
from alance.ops.read.managed import ObjectReader
from alance.ops.upkeep.compact_plan import TARGET_ROWS, CompactionOptions
from alance.versioning.load import list_manifests

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from alance.base.arrays import Int64s
    from alance.format.proto import table_pb2
    from alance.ops.maintain.lease import LastRun
    from alance.ops.version.snapshot import Snapshot
    from alance.versioning.load import ManifestLocation

__all__ = ["IndexHealth", "TableHealth", "TableState", "look", "reclaimable"]


@dataclass(frozen=True, slots=True)
class IndexHealth:
    """Coverage of an index.

    Attributes:
        index_type: name of the kind, such as `BTree` or `IVF_PQ`.
        num_segments: number of segments, each of which a query searches.
        num_unindexed_rows: number of live rows in fragments that no segment covers; queries scan
            these.
        num_unindexed_fragments: number of these fragments.
    """

    name: str
    index_type: str
    num_segments: int
    num_unindexed_rows: int
    num_unindexed_fragments: int


@dataclass(frozen=True, slots=True)
class TableHealth:
    """State of a table's files, indices and versions.

    Attributes:
        uri: URI of the table, without credentials.
        num_rows: live rows.
        num_deleted_rows: deleted rows that are still in data files.
        num_bytes: bytes of the data files whose size the manifest records.
        num_small_fragments: fragments with fewer rows than the target of compaction.
        num_versions: number of versions, without detached ones.
        oldest_version_at: time of the oldest version's manifest, by the store's clock; None:
            unknown.
        has_deferred_remap: True if a compaction has deferred the remap of indices.
        indices: coverage of the indices, by name.
        last_run: the last run of `maintain` that finished a step; None: none is recorded.
        num_reclaimable_bytes: bytes that a cleanup by the table's policy would free now; None: not
            counted.
        num_reclaimable_files: number of files that it would remove; None: not counted.
    """

    uri: str
    version: int
    num_rows: int
    num_deleted_rows: int
    num_bytes: int
    num_fragments: int
    num_small_fragments: int
    num_versions: int
    oldest_version_at: datetime | None
    has_deferred_remap: bool
    indices: tuple[IndexHealth, ...]
    last_run: LastRun | None
    num_reclaimable_bytes: int | None = None
    num_reclaimable_files: int | None = None

    @property
    def deleted_share(self) -> float:
        """Share of the stored rows that are deleted."""
        return self.num_deleted_rows / max(1, self.num_rows + self.num_deleted_rows)


@dataclass(frozen=True, slots=True)
class TableState:
    """A version, and the measurements that decide which steps are due.

    Attributes:
        counts: number of live rows of each fragment; shape (fragments,).
        stored: number of rows of each fragment, with deleted ones; shape (fragments,).
        versions: manifests of versions that are not detached, oldest first.
        segments: records of the segments of each index, by name.
        last_run: as in `TableHealth`.
    """

    snapshot: Snapshot
    counts: Int64s
    stored: Int64s
    versions: Sequence[ManifestLocation]
    segments: dict[str, list[table_pb2.IndexMetadata]]
    last_run: LastRun | None

    @property
    def num_rows(self) -> int:
        """Live rows."""
        return int(self.counts.sum())

    def target_rows(self, policy: MaintenancePolicy) -> int:
        """Return the number of rows from which a fragment is not small.

        The number is that of the policy, of the table's configuration, or the default. It is
        smaller if so many rows would exceed the policy's `target_bytes_per_fragment`.
        """
        manifest = self.snapshot.manifest
        options = CompactionOptions(target_rows_per_fragment=policy.target_rows_per_fragment)
        resolved = options.resolved(manifest.config, manifest.data_storage_version)
        most = resolved.target_rows_per_fragment or TARGET_ROWS
        if policy.target_bytes_per_fragment is None:
            return most
        rows = int(policy.target_bytes_per_fragment / max(self.row_bytes, 1e-9))
        # A power of two: else all fragments would be small again as soon as rows get shorter.
        return min(most, 1 << max(0, rows.bit_length() - 1))

    @property
    def row_bytes(self) -> float:
        """Mean bytes of a stored row in data files, as far as the manifest has their sizes."""
        num_bytes = int(self.snapshot.manifest.fragments.records.file_bytes.sum())
        return num_bytes / max(1, int(self.stored.sum()))

    def unindexed(self, name: str) -> Int64s:
        """Return the positions of the fragments that no segment of an index covers.

        Args:
            name: name of the index.
        """
        ids = frozenset[int]().union(*(covered(part) or () for part in self.segments[name]))
        numbers = np.fromiter(ids, np.int64, len(ids))
        return np.flatnonzero(~np.isin(self.snapshot.manifest.fragments.ids, numbers))

    def health(self) -> TableHealth:
        """Return the state as a value for users.

        Small fragments are counted by the policy in the table's configuration, or by the default
        policy if that configuration cannot be parsed.
        """
        policy = MaintenancePolicy()
        with suppress(InvalidInputError):
            policy = MaintenancePolicy.from_config(self.snapshot.manifest.config)
        target = self.target_rows(policy)
        records = self.snapshot.manifest.fragments.records
        return TableHealth(
            uri=self.snapshot.uri,
            version=self.snapshot.version,
            num_rows=self.num_rows,
            num_deleted_rows=int((self.stored - self.counts).sum()),
            num_bytes=int(records.file_bytes.sum()),
            num_fragments=len(records),
            num_small_fragments=int((self.stored < target).sum()),
            num_versions=len(self.versions),
            oldest_version_at=self.versions[0].last_modified,
            has_deferred_remap=reuse_index(self.snapshot.manifest.indices) is not None,
            indices=tuple(map(self._index_health, sorted(self.segments))),
            last_run=self.last_run,
        )

    def _index_health(self, name: str) -> IndexHealth:
        segments, places = self.segments[name], self.unindexed(name)
        rows = int(self.counts[places].sum())
        return IndexHealth(name, index_type(segments[0]), len(segments), rows, len(places))


async def look(
    snapshot: Snapshot, versions: Sequence[ManifestLocation] | None = None
) -> TableState:
    """Return the state of a version.

    Cost: a LIST of the versions; a LIST of the records of maintenance, and a GET if there are any;
    as for `Dataset.stats` if the manifest lacks counts.

    Args:
        versions: manifests that are not detached, oldest first; None: they are listed.

    Raises:
        NotFoundError: the table does not exist any more.
        CorruptFileError: the manifests' names mix the two naming schemes.
        StoreError: the store failed.
    """
    if versions is None:
        versions = await list_manifests(snapshot.engine, snapshot.table)
    run = await last_run(snapshot)
    segments: dict[str, list[table_pb2.IndexMetadata]] = {}
    for message in snapshot.manifest.indices:
        if message.name not in SYSTEM:
            segments.setdefault(message.name, []).append(message)
    counts, stored = await snapshot.live_counts(), await snapshot.physical_counts()
    return TableState(snapshot, counts, stored, versions, segments, run)


async def reclaimable(snapshot: Snapshot) -> tuple[int, int]:
    """Return the bytes and the number of the files that a cleanup by the table's policy would free.

    Cost: the requests of a cleanup before its deletions; none if the policy removes no versions.

    Raises:
        InvalidInputError: the policy in the table's configuration cannot be parsed.
        CorruptFileError, UnsupportedError: a manifest cannot be read.
        StoreError: the store failed.
    """
    choice = cleanup_of(MaintenancePolicy.from_config(snapshot.manifest.config))
    if choice is None:
        return 0, 0
    objects = ObjectReader(snapshot.session, snapshot.table)
    explained = await cleanup.explain(
        snapshot.engine,
        snapshot.table,
        choice,
        objects=objects,
        include_files=True,
        max_files=sys.maxsize,
    )
    return explained.stats.bytes_removed, len(explained.candidate_files)
