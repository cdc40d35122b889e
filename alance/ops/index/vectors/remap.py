"""Remap of vector indices to new row addresses after a compaction."""

from __future__ import annotations

from contextlib import aclosing
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.index import hnsw, ivf
from alance.format.index.codes import BYTE_ORDERS, ByteOrder, bytes_of_list
from alance.format.index.quantizers import quantizer_of
from alance.format.index.values import VectorType
from alance.format.numbers import as_numbers, to_arrow
from alance.ops.index.vectors.graphs import NewGraphs
from alance.ops.lookup.stored import SegmentEnd, StoredFile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from alance.base.arrays import Bytes, Int64s, Mask
    from alance.format.index.remap import Moves
    from alance.format.table.indices import Index
    from alance.ops.index.segment_files import SegmentFiles
    from alance.ops.index.vectors.graphs import Graph
    from alance.ops.version.snapshot import Snapshot

_BUFFERS: Final = ("codebook_position", "rotate_mat_position")


async def moved_vectors(snapshot: Snapshot, index: Index, moves: Moves, new: SegmentFiles) -> None:
    """Rewrite a vector index with new row addresses, without the codes of deleted rows.

    Graphs of partitions without deleted rows are reused; the others are built again. Memory: some
    partitions; see `NewGraphs.passed`.

    Raises:
        CorruptFileError: the files contradict each other.
        UnsupportedError: the graphs are over codes that alance does not write.
    """
    head = await StoredFile.open(snapshot, index, ivf.INDEX_FILE)
    content = await head.buffer(ivf.buffer_number(head.metadata))
    centroids = ivf.Centroids.parse(head.metadata, memoryview(content))
    stored = await StoredFile.open(snapshot, index, ivf.STORAGE_FILE)
    rows = await stored.buffer(ivf.buffer_number(stored.metadata))
    num_partitions, num_rows = len(centroids.values), stored.num_rows
    offsets = ivf.partition_offsets(memoryview(rows), num_partitions, num_rows)
    metadata = dict(ivf.storage_metadata(stored.metadata))
    partitions = _MovedPartitions(moves, offsets[1:], reordered_columns(stored.schema, metadata))
    buffers = []
    for key in _BUFFERS:
        if metadata.get(key) is not None:
            buffer = await stored.buffer(ivf.integer(metadata, key))
            buffers.append(np.frombuffer(buffer, np.uint8))
            metadata[key] = 1 + len(buffers)

    def end() -> SegmentEnd:
        first = np.frombuffer(ivf.ivf_bytes(partitions.lengths), np.uint8)
        of_file = {
            ivf.BUFFER: "1",
            ivf.STORAGE: ivf.storage_text(metadata),
        }
        return SegmentEnd(of_file, [first, *buffers])

    moved = stored.by_partition(partitions.ends, partitions.moved)
    if not centroids.has_graphs:
        await new.write(ivf.STORAGE_FILE, stored.schema, moved, end)
        await new.copy(ivf.INDEX_FILE, head)
        return
    old = _OldGraphs(head, centroids, memoryview(content), np.diff(offsets))
    book = memoryview(buffers[0].tobytes()) if buffers else None
    graphs = old.anew(index, stored.schema, metadata, new, book)
    passed = graphs.passed(moved, partitions.lengths)
    await graphs.write(new.write(ivf.STORAGE_FILE, stored.schema, passed, end))


class _OldGraphs:
    """Graphs of a segment, reused for partitions that lose no row."""

    def __init__(
        self, head: StoredFile, centroids: ivf.Centroids, content: memoryview, sizes: Int64s
    ) -> None:
        self._head = head
        self._centroids = centroids
        self._content = content
        self._graphs = hnsw.Graphs.parse(head.metadata, content, sizes, head.num_rows)

    def anew(
        self,
        index: Index,
        schema: pa.Schema,
        storage: Mapping[str, Any],
        new: SegmentFiles,
        book: memoryview | None,
    ) -> NewGraphs:
        """Return the graphs of the rewritten segment.

        Args:
            schema, storage: schema of the rows, and metadata of their quantizer.
            book: buffer of the quantizer, such as a codebook; None if it needs none.

        Raises:
            UnsupportedError: the graphs are over codes that alance does not write.
        """
        centroids, type_ = self._centroids, VectorType.of(schema.types[-1])
        if type_ is None:
            raise UnsupportedError(f"vector index {index.name!r}: graphs over {schema.types[-1]}")
        quantizer = quantizer_of(centroids, storage, book, type_)
        quantizer.check(schema)
        links = hnsw.described(index.message.index_details.value)
        if links is None or centroids.metric == "hamming":
            raise UnsupportedError(f"vector index {index.name!r}: graphs of another kind")
        values = ivf.parse_centroids(self._content)
        aimed = self._head.metadata.get(ivf.AIMED, "0")
        return NewGraphs(new, quantizer, values, links, aimed, self._stored_graph)

    async def _stored_graph(self, number: int, num_rows: int) -> Graph | None:
        shape = self._graphs.shapes[number]
        if shape is None or num_rows != int(self._graphs.sizes[number]):
            return None
        async with aclosing(self._head.batches([self._graphs.span(number)])) as batches:
            (batch,) = [batch async for batch in batches]
        await self._head.snapshot.engine.pool.run(lambda: self._graphs.graph(number, batch))
        return number, shape, batch


def with_codes(
    column: pa.Array,
    ends: Int64s,
    rows_of: Callable[[Bytes], Bytes],
    change: Callable[[Bytes, slice], Bytes] = lambda rows, _: rows,
) -> pa.Array:
    """Change a column of codes, one partition at a time.

    Args:
        ends: end row of each partition.
        rows_of: converts a partition's stored codes to row order.
        change: receives the codes of a partition in row order, and the slice of its rows.
    """
    codes = bytes_of_list(column)
    spans = [slice(*span) for span in pairwise([0, *ends.tolist()])]
    parts = [change(rows_of(codes[span]), span).ravel() for span in spans]
    return pa.FixedSizeListArray.from_arrays(to_arrow(np.concatenate(parts)), type=column.type)


class _MovedPartitions:
    """Remap of partitions, some at a time.

    Args:
        ends: end row of each partition.
        reordered: columns not stored row by row, with their orders.

    Attributes:
        lengths: number of retained rows of each partition; 0 for partitions not remapped yet.
    """

    def __init__(
        self,
        moves: Moves,
        ends: Int64s,
        reordered: Mapping[str, ByteOrder],
    ) -> None:
        self._moves = moves
        self._reordered = reordered
        self.ends = ends
        self.lengths = np.zeros(len(ends), np.int64)

    def moved(self, batch: pa.RecordBatch, start: int, ends: Int64s) -> pa.RecordBatch:
        """Return the retained rows of some partitions, with their new addresses."""
        ids = batch.column(0)
        if ids.null_count:
            raise CorruptFileError("vector index: a row number is null")
        rows, is_retained = self._moves.moved(as_numbers(ids).astype(np.int64))
        counts = np.concatenate([[0], np.cumsum(is_retained)])[np.concatenate([[0], ends])]
        self.lengths[start : start + len(ends)] = np.diff(counts)
        columns = [to_arrow(rows.view(np.uint64))]
        keep = to_arrow(is_retained)
        for name, column in zip(batch.schema.names[1:], batch.columns[1:], strict=True):
            if is_retained.all():
                columns.append(column)
            elif name in self._reordered:
                columns.append(self._retained_codes(name, column, ends, is_retained))
            else:
                columns.append(column.filter(keep))
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def _retained_codes(
        self, name: str, column: pa.Array, ends: Int64s, is_retained: Mask
    ) -> pa.Array:
        order = self._reordered[name]
        return with_codes(
            column, ends, order.rows_of, lambda rows, span: order.stored_of(rows[is_retained[span]])
        )


def reordered_columns(schema: pa.Schema, storage: Mapping[str, Any]) -> dict[str, ByteOrder]:
    """Return the columns that are not stored row by row, with their orders.

    Raises:
        CorruptFileError: the columns are not those of a vector index.
    """
    names = schema.names
    if names[:1] != [ivf.VECTOR_ROW_IDS] or schema.field(0).type != pa.uint64():
        raise CorruptFileError(f"vector index: columns {names}")
    reordered: dict[str, ByteOrder] = {}
    for name, order in BYTE_ORDERS.items():
        if name in names and storage.get(order.key):
            type_ = schema.field(name).type
            if not pa.types.is_fixed_size_list(type_) or type_.value_type != pa.uint8():
                raise CorruptFileError(f"vector index: {name} of type {type_}")
            reordered[name] = order
    return reordered
