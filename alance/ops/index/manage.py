"""Indices made, dropped, described."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from alance.errors import CorruptFileError, InvalidInputError, NotFoundError, UnsupportedError
from alance.format.index import bloom
from alance.format.index.details import index_type
from alance.format.index.ngram import POSTING_LISTS
from alance.format.index.zones import MAP_FILE, MAP_ROWS, ZONE_ROWS, ZoneOptions
from alance.format.numbers import python_value
from alance.format.table.apply_indices import SYSTEM
from alance.format.table.indices import Index
from alance.format.table.operations_meta import CreateIndex
from alance.ops.index import partitions
from alance.ops.index.build import SegmentBuilder
from alance.ops.index.new import check_new, commit_segments
from alance.ops.lookup.files import IndexFiles
from alance.ops.lookup.segments import (
    BITMAP,
    BLOOM,
    BTREE,
    LABELS,
    NGRAMS,
    ZONES,
)
from alance.ops.version.commits import commit_change, with_retries

if TYPE_CHECKING:
    import pyarrow as pa

    from alance.format.proto import table_pb2
    from alance.ops.index.new import NewIndex
    from alance.ops.version.options import CommitOptions
    from alance.ops.version.snapshot import Snapshot


async def create_index(snapshot: Snapshot, new: NewIndex, options: CommitOptions) -> Snapshot:
    """The version with a new index. See `Dataset.create_scalar_index`."""

    async def attempt(base: Snapshot) -> Snapshot:
        checked = check_new(base, new)
        covered = [handle.id for handle in base.handles] if new.train else []
        builder = SegmentBuilder(
            base, checked.column, checked.leaf, checked.name, checked.kind, checked.options
        )
        return await commit_segments(base, {builder: covered}, checked.old, options)

    return await with_retries(snapshot, attempt, options.max_retries)


async def drop_index(snapshot: Snapshot, name: str, options: CommitOptions) -> Snapshot:
    """The version without an index. See `Dataset.drop_index`."""

    async def attempt(base: Snapshot) -> Snapshot:
        old = segments_of_name(base, name)
        return await commit_change(base, CreateIndex(removed_indices=tuple(old)), options)

    return await with_retries(snapshot, attempt, options.max_retries)


async def index_statistics(snapshot: Snapshot, name: str) -> dict[str, Any]:
    """Counts of an index. See `Dataset.index_statistics`."""
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
    """Where the partitions of an index are. See `Dataset.centroids`."""
    if name is None:
        if column is None:
            raise InvalidInputError("expected index_name= or column=")
        name = partitions.name_on(snapshot, column)
    return await partitions.centroids(snapshot, segments_of_name(snapshot, name))


async def _details(snapshot: Snapshot, index: Index) -> dict[str, Any]:
    files, kind = IndexFiles(snapshot, index), index.files_kind
    if kind in (BITMAP, LABELS):
        return {"num_bitmaps": len(await files.keys())}
    if kind == NGRAMS:
        return {"num_ngrams": len(await files.keys(POSTING_LISTS))}
    if kind in (ZONES, BLOOM):
        options = await zone_options(snapshot, index)
        num_zones, _ = await files.head(MAP_FILE if kind == ZONES else bloom.FILE)
        if kind == ZONES:
            return {"num_zones": num_zones, "rows_per_zone": options.rows}
        return {
            "type": kind,
            "num_blocks": num_zones,
            "number_of_items": options.rows,
            "probability": options.wrong,
        }
    if kind != BTREE:
        told = {"index_type": index_type(index.message), "uuid": str(index.uuid)}
        if kind == partitions.KIND and index.fragment_ids:
            with suppress(UnsupportedError):  # of a kind that is not read
                told |= await partitions.partition_details(snapshot, index)
        return told
    table = await files.page_table()
    if not table.num_pages:
        return {"min": None, "max": None, "num_pages": 0}
    ends = table.low[0], table.high[table.num_pages - 1]
    low, high = map(python_value, ends)
    return {"min": low, "max": high, "num_pages": table.num_pages}


def segments_of_name(snapshot: Snapshot, name: str) -> list[table_pb2.IndexMetadata]:
    """The segments of a user's index.

    Raises:
        NotFoundError: no index has that name.
    """
    segments = [
        message
        for message in snapshot.manifest.indices
        if message.name == name and name not in SYSTEM
    ]
    if not segments:
        raise NotFoundError(f"index {name!r}: not in version {snapshot.version}")
    return segments


async def zone_options(snapshot: Snapshot, index: Index) -> ZoneOptions:
    """How the rows of an index of zones were summed up; of others what is usual.

    Raises:
        CorruptFileError: numbers that are none.
    """
    files, kind = IndexFiles(snapshot, index), index.files_kind
    if kind not in (ZONES, BLOOM):
        return ZoneOptions()
    _, metadata = await files.head(MAP_FILE if kind == ZONES else bloom.FILE)
    rows = metadata.get(MAP_ROWS if kind == ZONES else bloom.ITEMS, str(ZONE_ROWS))
    wrong = metadata.get(bloom.PROBABILITY, str(bloom.WRONG))
    try:
        options = ZoneOptions(int(rows), float(wrong))
    except ValueError as error:
        raise CorruptFileError(f"index {index.name}: {error}") from error
    if options.rows < 1 or not 0 < options.wrong < 1:
        raise CorruptFileError(f"index {index.name}: zones of {rows} rows, wrong by {wrong}")
    return options
