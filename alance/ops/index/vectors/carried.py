"""Codes of existing vector segments, carried over into a new segment without reading vectors.

Both segments must have the same centroids and the same quantizer. Rows that are deleted, or in a
fragment that the segment does not cover, are dropped.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.format.index import ivf
from alance.format.numbers import as_numbers, to_arrow
from alance.format.row_set import RowSet
from alance.format.table.indices import Index
from alance.ops.index.vectors.remap import reordered_columns, with_codes
from alance.ops.index.vectors.train import training_of
from alance.ops.lookup.stored import StoredFile

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence

    from alance.base.arrays import Int64s
    from alance.format.field import Field
    from alance.format.index.codes import ByteOrder
    from alance.format.proto import table_pb2
    from alance.io.reading.pool import DecodePool
    from alance.ops.index.vectors.train import Training
    from alance.ops.version.snapshot import Snapshot


async def live_rows(snapshot: Snapshot, fragments: Collection[int], *, has_row_ids: bool) -> RowSet:
    """Return the live rows of some fragments.

    Cost: a GET for each deletion file that is not in memory; with stable row ids, that of
    `Snapshot.row_index`.

    Args:
        has_row_ids: True for stable row ids, False for row addresses.
    """
    pool = snapshot.engine.pool
    if has_row_ids:
        index = await snapshot.row_index()
        return await pool.run(lambda: index.rows_in(np.array(sorted(fragments), np.int64)))
    handles = await snapshot.handles_of(fragments)
    await snapshot.prepare(handles)

    def gather() -> RowSet:
        rows = RowSet.of_fragments((handle.id, handle.num_physical_rows) for handle in handles)
        gone = [
            (handle.id << 32) + handle.deleted.rows.astype(np.int64)
            for handle in handles
            if handle.deleted is not None
        ]
        return rows - RowSet(np.concatenate(gone)) if gone else rows

    return await pool.run(gather)


@dataclass(frozen=True, slots=True)
class CarriedSegment:
    """A segment whose codes go into a new one.

    Attributes:
        covered: ids of the covered fragments that the version still has.
        ends: end row of each partition.
        reordered: columns whose bytes are not stored row by row.
        excluded: rows that are not carried over.
    """

    stored: StoredFile
    covered: frozenset[int]
    ends: Int64s
    reordered: Mapping[str, ByteOrder]
    excluded: RowSet = field(default_factory=RowSet)

    @classmethod
    async def open(
        cls,
        snapshot: Snapshot,
        message: table_pb2.IndexMetadata,
        training: Training,
        leaf: Field,
    ) -> CarriedSegment | None:
        """Open a segment; None if it has another training, or its coverage is unknown.

        Cost: as `training_of`, and at most two rounds for the header of the codes.

        Args:
            leaf: field of the column.

        Raises:
            CorruptFileError, NotFoundError, UnsupportedError: files cannot be read.
        """
        index = Index.from_protobuf(message)
        other = await training_of(snapshot, index, leaf)
        if other is None or index.fragment_ids is None or not other.is_like(training):
            return None
        stored = await StoredFile.open(snapshot, index, ivf.STORAGE_FILE)
        types = {column.name: column.type for column in stored.schema}
        if any(types.get(column.name) != column.type for column in training.quantizer.fields):
            return None
        content = memoryview(await stored.buffer(ivf.buffer_number(stored.metadata)))
        count = len(training.centroids)
        offsets = ivf.partition_offsets(content, count, stored.num_rows)
        covered = index.fragment_ids & {*snapshot.handles.ids}
        reordered = reordered_columns(stored.schema, ivf.storage_metadata(stored.metadata))
        return cls(stored, covered, offsets[1:], reordered)

    async def ids_of(self, partition: int) -> Int64s:
        """Return the ids of a partition's live rows.

        The id of a row with several vectors is repeated for each of its vectors in the partition.
        """
        first = int(self.ends[partition - 1]) if partition else 0
        stop = int(self.ends[partition])
        if first == stop:
            return np.empty(0, np.int64)
        snapshot = self.stored.snapshot
        live = await live_rows(snapshot, self.covered, has_row_ids=snapshot.has_stable_row_ids)
        async with aclosing(self.stored.batches([(first, stop)])) as batches:
            parts = [as_numbers(batch.column(ivf.VECTOR_ROW_IDS)) async for batch in batches]
        ids = np.concatenate(parts).view(np.int64)
        return ids[live.mask_of(ids)]

    async def rows(self, schema: pa.Schema) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the live rows by partition, with codes row by row. Memory: some partitions.

        Args:
            schema: columns of the result: partition number, row ids, codes.
        """
        snapshot = self.stored.snapshot
        live = await live_rows(snapshot, self.covered, has_row_ids=snapshot.has_stable_row_ids)
        work = partial(self._live, live, schema)
        async with aclosing(self.stored.by_partition(self.ends, work)) as batches:
            async for batch in batches:
                yield batch

    def _live(
        self, live: RowSet, schema: pa.Schema, batch: pa.RecordBatch, start: int, ends: Int64s
    ) -> pa.RecordBatch:
        labels = np.repeat(np.arange(start, start + len(ends)), np.diff(ends, prepend=0))
        ids = batch.column(ivf.VECTOR_ROW_IDS)
        if ids.null_count:
            raise CorruptFileError("vector index: a row number is null")
        columns = [to_arrow(labels), ids]
        for name in schema.names[2:]:
            column = batch.column(name)
            if name in self.reordered:
                column = with_codes(column, ends, self.reordered[name].rows_of)
            columns.append(column)
        rows = pa.RecordBatch.from_arrays(columns, schema=schema)
        numbers = as_numbers(ids).view(np.int64)
        keep = live.mask_of(numbers) & ~self.excluded.mask_of(numbers)
        return rows if keep.all() else rows.filter(to_arrow(keep))


async def joined(
    sources: Iterable[AsyncGenerator[pa.RecordBatch, None]], pool: DecodePool
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Merge sources that are sorted by partition.

    Within a partition, rows of earlier sources come first. Memory: a batch of each source, and all
    rows of a partition.
    """
    heads = [_CarriedHead(source) for source in sources]
    for head in heads:
        await head.fill()
    while heads := [head for head in heads if head.batch is not None]:
        if len(heads) == 1:
            assert heads[0].batch is not None
            yield heads[0].batch
            await heads[0].fill()
            continue
        last = min(head.last for head in heads)
        parts: list[pa.RecordBatch] = []
        for head in heads:
            parts += await head.up_to(last)
        yield await pool.run(lambda parts=parts: _sorted(parts))  # type: ignore[misc]


@dataclass(slots=True, eq=False)
class _CarriedHead:
    """Unconsumed rows of a source."""

    source: AsyncGenerator[pa.RecordBatch, None]
    batch: pa.RecordBatch | None = None

    @property
    def labels(self) -> np.ndarray[Any, Any]:
        assert self.batch is not None
        return as_numbers(self.batch.column(0))

    @property
    def last(self) -> int:
        return int(self.labels[-1])

    async def fill(self) -> None:
        self.batch = await anext(self.source, None)

    async def up_to(self, partition: int) -> list[pa.RecordBatch]:
        """Remove and return the rows of all partitions up to `partition`."""
        parts: list[pa.RecordBatch] = []
        while self.batch is not None:
            cut = int(np.searchsorted(self.labels, partition, "right"))
            if cut:
                parts.append(self.batch.slice(0, cut))
            if cut < self.batch.num_rows:
                self.batch = self.batch.slice(cut)
                break
            await self.fill()
        return parts


def _sorted(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    rows = pa.concat_batches(parts)
    order = np.argsort(as_numbers(rows.column(0)), kind="stable")
    return rows.take(to_arrow(order))
