"""Centroids and sizes of the partitions of a vector index."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from alance.errors import InvalidInputError, NotFoundError
from alance.format.index import ivf
from alance.format.table.indices import VECTOR_KIND, Index
from alance.ops.index.new import indexed_column
from alance.ops.lookup.stored import StoredFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.proto import table_pb2
    from alance.ops.version.snapshot import Snapshot


def name_on(snapshot: Snapshot, column: str) -> str:
    """Return the name of the first vector index on a column.

    Raises:
        NotFoundError: the column has no vector index.
    """
    for message in snapshot.manifest.indices:
        index = Index.from_protobuf(message)
        if index.kind == VECTOR_KIND and indexed_column(snapshot, index) == column:
            return index.name
    raise NotFoundError(f"column {column!r}: no index of vectors in version {snapshot.version}")


async def centroids(
    snapshot: Snapshot, segments: Sequence[table_pb2.IndexMetadata]
) -> pa.FixedSizeListArray:
    """Return the centroids of an index's first segment; see `Dataset.centroids`.

    Raises:
        InvalidInputError: the index is no vector index.
    """
    index = Index.from_protobuf(segments[0])
    if index.kind != VECTOR_KIND:
        raise InvalidInputError(f"index {index.name!r}: not of vectors")
    _, message = await _opened(snapshot, index, ivf.INDEX_FILE)
    values = ivf.parse_centroids(message)
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])


async def partition_details(snapshot: Snapshot, index: Index) -> dict[str, Any]:
    """Return the metric of a segment and the size of each partition, deleted rows included."""
    (head, content), (rows, message) = await asyncio.gather(
        _opened(snapshot, index, ivf.INDEX_FILE), _opened(snapshot, index, ivf.STORAGE_FILE)
    )
    centroids = ivf.Centroids.parse(head.metadata, content)
    offsets = ivf.partition_offsets(message, len(centroids.values), rows.num_rows)
    sizes = (offsets[1:] - offsets[:-1]).tolist()
    return {
        "metric_type": centroids.metric,
        "num_partitions": len(sizes),
        "partitions": [{"size": size} for size in sizes],
    }


async def _opened(snapshot: Snapshot, index: Index, name: str) -> tuple[StoredFile, memoryview]:
    """Open a file of a segment and return it with the bytes of its `IVF` message."""
    file = await StoredFile.open(snapshot, index, name)
    return file, memoryview(await file.buffer(ivf.buffer_number(file.metadata)))
