"""Lists and descriptions of indices, from the loaded manifest."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, TypedDict

from alance.base.records import dataclass
from alance.format.table.changes.apply_indices import MEM_WAL, SYSTEM
from alance.format.table.indices import Index, details_of, index_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from alance.format.proto import table_pb2
    from alance.ops.version.snapshot import Snapshot


class ListedIndex(TypedDict):
    """Entry of `Dataset.list_indices`: a segment of an index, under pylance's keys.

    Attributes:
        type: name of the kind, such as `BTree` or `IVF_PQ`.
        fields: paths of the indexed columns.
        version: version from which the segment was built.
        fragment_ids: covered fragments; some may no longer exist.
        base_id: id of the base path of its files; None for the table's folder.
    """

    name: str
    type: str
    uuid: str
    fields: list[str]
    version: int
    fragment_ids: set[int]
    base_id: int | None


class PartitionStatistics(TypedDict):
    """Size of a partition of a vector index, in rows; deleted rows count."""

    size: int


class SegmentStatistics(TypedDict, total=False):
    """Entry of `IndexStatistics.segments`; each kind of index has keys of its own.

    Attributes:
        index_type, uuid: of vectors and texts.
        metric_type, num_partitions, partitions: of vectors.
        num_pages, min, max: of B-trees.
        num_bitmaps: of bitmaps and label lists. num_ngrams: of n-grams.
        num_zones, rows_per_zone: of zone maps.
        num_blocks, number_of_items, probability: of bloom filters.
        total_docs, total_bwt_len: of FM indices, with `num_partitions`.
        type: name of the kind, of bloom filters and FM indices.
    """

    index_type: str
    uuid: str
    metric_type: str
    num_partitions: int
    partitions: list[PartitionStatistics]
    num_pages: int
    min: Any
    max: Any
    num_bitmaps: int
    num_ngrams: int
    num_zones: int
    rows_per_zone: int
    num_blocks: int
    number_of_items: int
    probability: float
    total_docs: int
    total_bwt_len: int
    type: str


class IndexStatistics(TypedDict):
    """Result of `Dataset.index_statistics`, under pylance's keys.

    Attributes:
        num_indices, num_segments: number of segments, under two names as in pylance.
        indices, segments: an entry for each segment, under two names.
        num_indexed_rows_per_delta: live rows that each segment covers.
        updated_at_timestamp_ms: time of the latest segment in Unix milliseconds; None: unknown.
    """

    index_type: str
    name: str
    num_indices: int
    num_segments: int
    indices: list[SegmentStatistics]
    segments: list[SegmentStatistics]
    num_indexed_fragments: int
    num_indexed_rows: int
    num_unindexed_fragments: int
    num_unindexed_rows: int
    num_indexed_rows_per_delta: list[int]
    updated_at_timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class IndexSegmentDescription:
    """Description of an index segment.

    Attributes:
        dataset_version_at_last_update: version from which the segment was built.
        fragment_ids: covered fragments; some may no longer exist.
        covering_fields: ids of further fields whose values the segment stores.
        index_version: version of the index kind.
        created_at: time of creation; None if unknown.
        size_bytes: size of its files; None if unknown.
        base_id: id of the base path of its files; None for the table's folder.
    """

    uuid: str
    dataset_version_at_last_update: int
    fragment_ids: frozenset[int]
    index_version: int
    covering_fields: tuple[int, ...]
    created_at: datetime | None
    size_bytes: int | None
    base_id: int | None


@dataclass(frozen=True, slots=True)
class IndexDescription:
    """Description of an index and its segments.

    Attributes:
        index_type: name of the kind, such as `BTree` or `IVF_PQ`.
        type_url: type of the details message.
        num_rows_indexed: number of live rows in the covered fragments.
        fields: ids of the indexed fields; `field_names` are their paths.
        details: settings of the index, under pylance's names.
        total_size_bytes: size of all files; None if unknown.
    """

    name: str
    index_type: str
    type_url: str
    num_rows_indexed: int
    fields: tuple[int, ...]
    field_names: tuple[str, ...]
    segments: tuple[IndexSegmentDescription, ...]
    details: Mapping[str, Any]
    total_size_bytes: int | None


def list_indices(snapshot: Snapshot) -> list[ListedIndex]:
    """List all index segments, ordered by index name; see `Dataset.list_indices`."""
    paths = snapshot.schema.paths
    listed: list[ListedIndex] = []
    for message in _messages(snapshot):
        index = Index.from_protobuf(message)
        listed.append(
            {
                "name": index.name,
                "type": index_type(message),
                "uuid": str(index.uuid),
                "fields": [paths.get(number, str(number)) for number in index.fields],
                "version": index.dataset_version,
                "fragment_ids": set(index.fragment_ids or ()),
                "base_id": message.base_id if message.HasField("base_id") else None,
            }
        )
    return listed


async def describe_indices(snapshot: Snapshot) -> list[IndexDescription]:
    """Describe all indices, ordered by name; see `Dataset.describe_indices`."""
    groups: dict[str, list[table_pb2.IndexMetadata]] = {}
    for message in _messages(snapshot):
        groups.setdefault(message.name, []).append(message)
    if not groups:
        return []
    counts = await snapshot.live_counts()
    rows = {handle.id: int(count) for handle, count in zip(snapshot.handles, counts, strict=True)}
    paths = snapshot.schema.paths
    described = []
    for name, messages in groups.items():
        segments = tuple(map(_segment, messages))
        covered = frozenset[int]().union(*(segment.fragment_ids for segment in segments))
        first = messages[0]
        described.append(
            IndexDescription(
                name,
                index_type(first),
                first.index_details.type_url,
                sum(rows[fragment] for fragment in rows.keys() & covered),
                tuple(first.fields),
                tuple(paths.get(number, str(number)) for number in first.fields),
                segments,
                details_of(first),
                _total(segments),
            )
        )
    return described


def _segment(message: table_pb2.IndexMetadata) -> IndexSegmentDescription:
    index = Index.from_protobuf(message)
    return IndexSegmentDescription(
        str(uuid.UUID(bytes=message.uuid.uuid)),
        index.dataset_version,
        index.fragment_ids or frozenset(),
        message.index_version,
        tuple(message.covering_fields),
        index.created_at,
        sum(file.size_bytes for file in message.files) if message.files else None,
        message.base_id if message.HasField("base_id") else None,
    )


def _total(segments: Sequence[IndexSegmentDescription]) -> int | None:
    sizes = [segment.size_bytes for segment in segments if segment.size_bytes is not None]
    return sum(sizes) if len(sizes) == len(segments) else None


def _messages(snapshot: Snapshot) -> list[table_pb2.IndexMetadata]:
    messages = sorted(snapshot.manifest.indices, key=lambda message: message.name)
    # pylance lists a MemWAL, too; it tells users that the newest rows may still be in its log.
    return [
        message for message in messages if message.name not in SYSTEM or message.name == MEM_WAL
    ]
