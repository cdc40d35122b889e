"""Create, drop and describe indices."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, cast

from alance.errors import InvalidInputError, UnsupportedError
from alance.format.table.changes.apply_indices import SYSTEM
from alance.format.table.indices import VECTOR_KIND, Index, index_type
from alance.format.table.operations import CreateIndex
from alance.ops.index.new import check_new, commit_segments
from alance.ops.index.values.build import SegmentBuilder
from alance.ops.index.vectors import partitions
from alance.ops.lookup.files import IndexFiles
from alance.ops.lookup.kinds import KINDS
from alance.ops.version.commits import PreparedChange, with_retries

if TYPE_CHECKING:
    import pyarrow as pa

    from alance.format.proto import table_pb2
    from alance.ops.index.listing import IndexStatistics, SegmentStatistics
    from alance.ops.index.new import NewIndex
    from alance.ops.version.options import CommitOptions
    from alance.ops.version.snapshot import Snapshot


async def create_index(snapshot: Snapshot, new: NewIndex, options: CommitOptions) -> Snapshot:
    """Commit a new index; see `Dataset.create_scalar_index`."""

    async def attempt(base: Snapshot) -> Snapshot:
        checked = check_new(base, new)
        covered = base.handles.ids if new.train else []
        builder = SegmentBuilder(
            base, checked.column, checked.leaf, checked.name, checked.kind, checked.options
        )
        return await commit_segments(base, {builder: covered}, checked.old, options)

    return await with_retries(snapshot, attempt, options.max_retries)


async def drop_index(snapshot: Snapshot, name: str, options: CommitOptions) -> Snapshot:
    """Commit the removal of an index; see `Dataset.drop_index`."""

    async def attempt(base: Snapshot) -> Snapshot:
        old = segments_of_name(base, name)
        return await PreparedChange(base, CreateIndex(removed_indices=tuple(old)), options).commit()

    return await with_retries(snapshot, attempt, options.max_retries)


async def index_statistics(snapshot: Snapshot, name: str) -> IndexStatistics:
    """Return counts of an index; see `Dataset.index_statistics`."""
    segments = [Index.from_protobuf(message) for message in segments_of_name(snapshot, name)]
    counts = await snapshot.live_counts()
    rows = {handle.id: int(count) for handle, count in zip(snapshot.handles, counts, strict=True)}
    covered = [rows.keys() & (segment.fragment_ids or frozenset()) for segment in segments]
    indexed = set[int]().union(*covered)
    details = [await _details(snapshot, segment) for segment in segments]
    created = [segment.created_at for segment in segments if segment.created_at is not None]
    return {
        "index_type": index_type(segments[0].message),
        "name": name,
        "num_indices": len(segments),
        "num_segments": len(segments),
        "indices": details,
        "segments": details,
        "num_indexed_fragments": len(indexed),
        "num_indexed_rows": sum(rows[fragment] for fragment in indexed),
        "num_unindexed_fragments": len(rows) - len(indexed),
        "num_unindexed_rows": sum(rows[fragment] for fragment in rows.keys() - indexed),
        "num_indexed_rows_per_delta": [sum(rows[fragment] for fragment in ids) for ids in covered],
        "updated_at_timestamp_ms": max(
            (round(time.timestamp() * 1000) for time in created), default=None
        ),
    }


async def centroids(snapshot: Snapshot, name: str | None, column: str | None) -> pa.Array:
    """Return the partition centroids of an index; see `Dataset.centroids`."""
    if name is None:
        if column is None:
            raise InvalidInputError("expected index_name= or column=")
        name = partitions.name_on(snapshot, column)
    return await partitions.centroids(snapshot, segments_of_name(snapshot, name))


async def _details(snapshot: Snapshot, index: Index) -> SegmentStatistics:
    kind = KINDS.get(index.files_kind)
    if kind is not None:
        details = await kind.statistics(snapshot, IndexFiles(snapshot, index))
    else:
        details = {"index_type": index_type(index.message), "uuid": str(index.uuid)}
        if index.kind == VECTOR_KIND and index.fragment_ids:
            with suppress(UnsupportedError):  # a kind that alance cannot read
                details |= await partitions.partition_details(snapshot, index)
    return cast("SegmentStatistics", details)


def segments_of_name(snapshot: Snapshot, name: str) -> list[table_pb2.IndexMetadata]:
    """Return the manifest entries of the segments of a user's index.

    Raises:
        NotFoundError: no index has that name.
    """
    segments = [
        message
        for message in snapshot.manifest.indices
        if message.name == name and name not in SYSTEM
    ]
    if not segments:
        raise snapshot.lacks_index(name)
    return segments
