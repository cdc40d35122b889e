"""The files of a new segment of a B-tree or bitmap index, from a column of some fragments."""

from __future__ import annotations

import json
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from alance.expr.tree import plain
from alance.format.index import bitmap, btree
from alance.format.index.build import PageTableBuilder, RowSetBuilder
from alance.format.table.indices import ADDRESSES_FROM
from alance.ops.index.runs import run_schema
from alance.ops.index.segment_files import NO_END, FileEnd, NewSegment
from alance.ops.index.sort import MEMORY, RowSorter
from alance.ops.lookup.files import sort_key
from alance.ops.lookup.segments import BITMAP, BTREE
from alance.ops.read.options import ScanOptions
from alance.ops.read.plan import plan_scan
from alance.ops.read.scan import scan
from alance.ops.version.projection import ROW_ADDRESS, ROW_ID

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterable,
        Collection,
    )

    from alance.format.field import Field
    from alance.format.proto import table_pb2
    from alance.ops.index.segment_files import SegmentFiles
    from alance.ops.version.snapshot import Snapshot

DETAILS: Final = "/lance.table.{}IndexDetails"


@dataclass(slots=True, eq=False)
class SegmentBuilder(NewSegment):
    """Builds one segment.

    Attributes:
        kind: `BTree` or `Bitmap`.
    """

    kind: str

    async def build(self, fragment_ids: Collection[int]) -> table_pb2.IndexMetadata:
        """The record of the segment, whose files are then there.

        Cost: a scan of the column in these fragments; the files' PUTs.

        Raises:
            UnsupportedError: files of the table's version do not hold the type.
            StoreError: the store failed.
            OSError: the local disk is full.
        """
        rows = sorted_rows(self.snapshot, self.column, self.leaf, self.kind, fragment_ids)
        async with aclosing(rows):
            await self._write(rows)
        return self._record(fragment_ids)

    async def build_from(
        self, merged: AsyncGenerator[pa.RecordBatch, None], fragment_ids: Collection[int]
    ) -> table_pb2.IndexMetadata:
        """The same from the runs of all these fragments, merged: nothing is scanned."""
        async with aclosing(merged):
            await self._write(merged, of_sets=self.kind == BITMAP)
        return self._record(fragment_ids)

    async def _write(self, rows: AsyncIterable[pa.RecordBatch], *, of_sets: bool = False) -> None:
        type_ = self.leaf.arrow_type
        if self.kind == BTREE:
            await write_tree(self.files, type_, rows)
        else:
            await write_row_sets(self.files, type_, rows, of_sets=of_sets)

    def _record(self, fragment_ids: Collection[int]) -> table_pb2.IndexMetadata:
        has_addresses = self.snapshot.has_stable_row_ids and self.kind == BTREE
        return self.record(
            fragment_ids,
            version=ADDRESSES_FROM if has_addresses else 0,
            details=(DETAILS.format(self.kind), b""),
        )


async def write_tree(
    files: SegmentFiles, type_: pa.DataType, rows: AsyncIterable[pa.RecordBatch]
) -> None:
    """Write the files of a B-tree.

    Args:
        rows: values of `type_` in the order of an index, and row numbers (uint64).
    """
    pool = files.snapshot.engine.pool
    pages = PageTableBuilder(type_)

    async def noted() -> AsyncGenerator[pa.RecordBatch, None]:
        async for batch in rows:
            await pool.run(lambda batch=batch: pages.add(batch))  # type: ignore[misc]
            yield batch

    async def table() -> AsyncGenerator[pa.RecordBatch, None]:
        yield await pool.run(pages.finish)

    data = [
        pa.field(btree.VALUES, type_),
        pa.field(btree.IDS, pa.uint64(), nullable=False),
    ]
    await files.write(btree.DATA_FILE, pa.schema(data), noted())
    metadata = {btree.BATCH_SIZE: str(btree.PAGE_ROWS), btree.RANGE_PARTITIONED: "false"}
    schema = pages.schema.with_metadata(metadata)
    await files.write(btree.LOOKUP_FILE, schema, table())


async def write_row_sets(
    files: SegmentFiles,
    type_: pa.DataType,
    rows: AsyncIterable[pa.RecordBatch],
    *,
    of_sets: bool = False,
    ends: FileEnd = NO_END,
) -> None:
    """Write the file of a bitmap index, or of another one that has keys with row sets.

    Args:
        rows: values of `type_` in the order of an index, and row numbers.
        of_sets: the second column has row sets instead.
        ends: what else the file's end has.
    """
    pool = files.snapshot.engine.pool
    sets = RowSetBuilder(type_, sort_key, of_sets=of_sets)

    async def set_batches() -> AsyncGenerator[pa.RecordBatch, None]:
        async for batch in rows:
            for ready in await pool.run(lambda batch=batch: sets.add(batch)):  # type: ignore[misc]
                yield ready
        for ready in await pool.run(sets.finish):
            yield ready

    def end() -> FileEnd:
        counts = json.dumps({"num_bitmaps": sets.num_keys}, separators=(",", ":"))
        return FileEnd({bitmap.STATS: counts, **ends.metadata}, ends.buffers)

    await files.write(bitmap.FILE, sets.schema, set_batches(), end)


async def sorted_rows(
    snapshot: Snapshot,
    column: str,
    leaf: Field,
    kind: str,
    fragment_ids: Collection[int],
    memory: int = MEMORY,
) -> AsyncGenerator[pa.RecordBatch, None]:
    """The values of a column and the row numbers of live rows, in the order of an index.

    Args:
        kind: tells which numbers: bitmap indices have row ids where these are stable.
        memory: bytes that are sorted at once.
    """
    numbers = ROW_ID if snapshot.has_stable_row_ids and kind == BITMAP else ROW_ADDRESS
    schema = run_schema(BTREE, leaf.arrow_type)

    async def read() -> AsyncGenerator[pa.RecordBatch, None]:
        options = ScanOptions(fragments=fragment_ids)
        plan = await plan_scan(snapshot, [column, numbers], options)
        async with aclosing(scan(snapshot, plan)) as batches:
            async for batch in batches:
                arrays = [plain(batch.column(0)), batch.column(1)]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    if not fragment_ids:
        return
    async with aclosing(read()) as batches:
        sorting = RowSorter(snapshot.engine.pool, memory).sorted(batches, schema)
        async with aclosing(sorting) as in_order:
            async for batch in in_order:
                yield batch
