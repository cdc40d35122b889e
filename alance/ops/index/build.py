"""The files of a new segment of a scalar index, from a column of some fragments."""

from __future__ import annotations

import json
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from google.protobuf import wrappers_pb2

from alance.format.index import bitmap, btree
from alance.format.index.bitmap import ROW_SETS
from alance.format.index.build import PageTableBuilder, RowSetBuilder
from alance.format.index.zone_build import ZoneBuilder
from alance.format.table.indices import ADDRESSES_FROM, json_details
from alance.ops.index.keyed import ColumnValues, OtherTypeError, RowKeys
from alance.ops.index.runs import run_schema
from alance.ops.index.segment_files import NewSegment
from alance.ops.index.sort import AHEAD_SHARE, LEAST_AHEAD, MEMORY, RowSorter
from alance.ops.index.value_options import PLAIN, ValueOptions, check_suits
from alance.ops.lookup.files import sort_key
from alance.ops.lookup.segments import BITMAP, BLOOM, BTREE, LABELS, NGRAMS, ZONES
from alance.ops.lookup.stored import NO_END, SegmentEnd
from alance.ops.read.options import ScanOptions
from alance.ops.read.scan import scanned
from alance.ops.version.projection import ROW_ADDRESS, ROW_ID
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterable,
        Awaitable,
        Callable,
        Collection,
        Mapping,
    )

    import pyarrow as pa

    from alance.format.index.bitmap import KeyedSets
    from alance.format.proto import table_pb2
    from alance.io.pool import DecodePool
    from alance.ops.index.segment_files import SegmentFiles
    from alance.ops.version.snapshot import Snapshot

# Of each kind the version, the type of the details' message, and its bytes.
DETAILS: Final = {
    BTREE: (0, "/lance.table.BTreeIndexDetails", b""),
    BITMAP: (0, "/lance.table.BitmapIndexDetails", b""),
    LABELS: (1, "/lance.table.LabelListIndexDetails", b""),
    NGRAMS: (0, "/lance.table.NGramIndexDetails", b""),
    ZONES: (0, "/lance.table.ZoneMapIndexDetails", b"\x10\x00\x18\x01"),
    BLOOM: (0, "/lance.index.pb.BloomFilterIndexDetails", b""),
}

T = TypeVar("T")
# Of texts whose n-grams are made at once: of each byte 12 bytes, and as many again on the way.
TEXT_BYTES: Final = 512 << 10
JSON_DETAILS: Final = "/lance.index.pb.JsonIndexDetails"


@dataclass(slots=True, eq=False)
class SegmentBuilder(NewSegment):
    """Builds one segment.

    Attributes:
        kind: as for `DETAILS`; of a JSON index that of its target.
    """

    kind: str
    options: ValueOptions = PLAIN

    async def build(self, fragment_ids: Collection[int]) -> table_pb2.IndexMetadata:
        """The record of the segment, whose files are then there.

        Cost: a scan of the column in these fragments; the files' PUTs.

        Raises:
            UnsupportedError: files of the table's version do not hold the type.
            InvalidInputError: JSON values of several types, or of one that such an index is not of.
            StoreError: the store failed.
            OSError: the local disk is full.
        """
        values = ColumnValues.at(self.column, self.leaf.arrow_type, self.options.path)
        await of_one_type(self.kind, values, partial(self._build_of, fragment_ids))
        return self.of_files(fragment_ids)

    async def _build_of(self, fragment_ids: Collection[int], values: ColumnValues) -> None:
        source = source_of(self.kind, values.type, self.options)
        if isinstance(source, ZoneBuilder):
            zones = zone_batches(self.snapshot, values, source, fragment_ids)
            await write_zones(self.files, source, zones)
            return
        memory = self.options.memory_bytes
        in_order = sorted_rows(self.snapshot, values, source, fragment_ids, memory)
        async with aclosing(in_order) as rows:
            await self._write(source, rows)

    async def build_from(
        self,
        merged: AsyncGenerator[pa.RecordBatch, None],
        source: RowKeys | ZoneBuilder,
        fragment_ids: Collection[int],
    ) -> table_pb2.IndexMetadata:
        """The same from the runs of all these fragments, merged: nothing is scanned.

        Args:
            source: of the runs; knows the rows that are null, when all batches have passed.
        """
        if isinstance(source, ZoneBuilder):
            await write_zones(self.files, source, merged)
            return self.of_files(fragment_ids)
        async with aclosing(merged):
            await self._write(source, merged, of_sets=self.kind != BTREE)
        return self.of_files(fragment_ids)

    async def _write(
        self, keys: RowKeys, rows: AsyncIterable[pa.RecordBatch], *, of_sets: bool = False
    ) -> None:
        if self.kind == BTREE:
            await write_tree(self.files, keys.type, rows)
        else:
            await write_row_sets(
                self.files, keys.type, rows, keys.form, of_sets=of_sets, end=keys.end
            )

    def of_files(self, fragment_ids: Collection[int]) -> table_pb2.IndexMetadata:
        """The record of the segment, of the files that are there."""
        version, type_url, content = DETAILS[self.kind]
        if self.kind == BTREE and self.snapshot.has_stable_row_ids:
            version = ADDRESSES_FROM
        if self.kind == ZONES:
            # Field 1 is the rows of a zone.
            rows = wrappers_pb2.UInt64Value(value=self.options.zones.rows)
            content = rows.SerializeToString() + content
        if self.options.path is not None:
            content = json_details(self.options.path, type_url, content)
            type_url = JSON_DETAILS
        return self.record(fragment_ids, version=version, details=(type_url, content))


async def of_one_type(
    kind: str, values: ColumnValues, make: Callable[[ColumnValues], Awaitable[T]]
) -> T:
    """What is made of all values for an index of a kind; again where JSON values tell their type.

    Raises:
        InvalidInputError: JSON values of several types, or of one that such an index is not of.
    """
    while True:
        try:
            return await make(values)
        except OtherTypeError as other:
            values = other.values
            check_suits(values.column, kind, values.type)


async def write_tree(
    files: SegmentFiles, type_: pa.DataType, rows: AsyncIterable[pa.RecordBatch]
) -> None:
    """Write the files of a B-tree.

    Args:
        rows: values of `type_` in the order of an index, and row numbers (uint64).
    """
    table = await write_pages(files, btree.DATA_FILE, type_, rows)
    await write_lookup(files, table, {btree.RANGE_PARTITIONED: "false"})


async def write_pages(
    files: SegmentFiles, name: str, type_: pa.DataType, rows: AsyncIterable[pa.RecordBatch]
) -> pa.RecordBatch:
    """Write a file of pages of a B-tree; gives the rows of its page table."""
    pool = files.snapshot.engine.pool
    pages = PageTableBuilder(type_)

    async def noted() -> AsyncGenerator[pa.RecordBatch, None]:
        async for batch in rows:
            await pool.run(lambda batch=batch: pages.add(batch))  # type: ignore[misc]
            yield batch

    await files.write(name, run_schema(BTREE, type_), noted())
    return await pool.run(pages.finish)


async def write_lookup(
    files: SegmentFiles, table: pa.RecordBatch, metadata: Mapping[str, str]
) -> None:
    """Write the page table of a B-tree."""

    async def rows() -> AsyncGenerator[pa.RecordBatch, None]:
        yield table

    schema = table.schema.with_metadata({btree.BATCH_SIZE: str(btree.PAGE_ROWS), **metadata})
    await files.write(btree.LOOKUP_FILE, schema, rows())


async def write_row_sets(
    files: SegmentFiles,
    type_: pa.DataType,
    rows: AsyncIterable[pa.RecordBatch],
    form: KeyedSets = ROW_SETS,
    *,
    of_sets: bool = False,
    end: Callable[[], SegmentEnd] = lambda: NO_END,
) -> None:
    """Write the file of a bitmap index, or of another one that has keys with row sets.

    Args:
        rows: values of `type_` in the order of an index, and row numbers.
        form: how keys and row sets are stored.
        of_sets: the second column has row sets instead.
        end: gives what else the file's end has, when all rows have passed.
    """
    sets = RowSetBuilder(type_, sort_key, form, of_sets=of_sets)

    def whole_end() -> SegmentEnd:
        others = end()
        if form is not ROW_SETS:
            return others
        counts = json.dumps({"num_bitmaps": sets.num_keys}, separators=(",", ":"))
        return SegmentEnd({bitmap.STATS: counts, **others.metadata}, others.buffers)

    batches = set_batches(files.snapshot.engine.pool, rows, sets)
    await files.write(form.file, sets.schema, batches, whole_end)


async def set_batches(
    pool: DecodePool, rows: AsyncIterable[pa.RecordBatch], sets: RowSetBuilder
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Keys with their row sets, as these are ready."""
    async for batch in rows:
        for ready in await pool.run(partial(sets.add, batch)):
            yield ready
    for ready in await pool.run(sets.finish):
        yield ready


def source_of(kind: str, type_: pa.DataType, options: ValueOptions) -> RowKeys | ZoneBuilder:
    """What makes the rows of an index of values of a type."""
    if kind in (ZONES, BLOOM):
        return ZoneBuilder(type_, options.zones, has_filters=kind == BLOOM)
    return RowKeys.of(kind, type_)


def run_schema_of(source: RowKeys | ZoneBuilder) -> pa.Schema:
    """The columns of a run of its rows."""
    return source.schema if isinstance(source, ZoneBuilder) else source.run_schema


async def run_rows(
    snapshot: Snapshot,
    values: ColumnValues,
    source: RowKeys | ZoneBuilder,
    fragment_ids: Collection[int],
    memory: int = MEMORY,
) -> AsyncGenerator[pa.RecordBatch, None]:
    """The rows of a run of some fragments. Cost: a scan of the column.

    Args:
        memory: bytes that are sorted at once.
    """
    if isinstance(source, ZoneBuilder):
        rows = zone_batches(snapshot, values, source, fragment_ids)
    else:
        rows = sorted_rows(snapshot, values, source, fragment_ids, memory)
    async with aclosing(rows):
        batches = rows
        if isinstance(source, RowKeys) and source.kind != BTREE:
            sets = RowSetBuilder(source.type, sort_key, source.form)
            batches = set_batches(snapshot.engine.pool, rows, sets)
        async with aclosing(batches):
            async for batch in batches:
                yield batch


async def write_zones(
    files: SegmentFiles, zones: ZoneBuilder, batches: AsyncGenerator[pa.RecordBatch, None]
) -> None:
    """Write the file of a zone map, or of bloom filters.

    Args:
        zones: knows the rows that are null, when all batches have passed.
        batches: of zones, as it makes them.
    """

    def end() -> SegmentEnd:
        metadata, null_rows = zones.end()
        return SegmentEnd(metadata, [null_rows])

    await files.write(zones.file, zones.schema, batches, end)


async def zone_batches(
    snapshot: Snapshot, values: ColumnValues, zones: ZoneBuilder, fragment_ids: Collection[int]
) -> AsyncGenerator[pa.RecordBatch, None]:
    """The zones of some fragments, batch by batch. Cost: a scan of the column.

    Memory: 8 MiB of filters, or a filter where that is more, and a bit for each null.
    """
    pool = snapshot.engine.pool

    def summed(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        return zones.add(values.of(batch.column(0)), batch.column(1))

    rows = _scanned(snapshot, values.column, ROW_ADDRESS, fragment_ids)
    async with aclosing(rows) as batches:
        async for batch in batches:
            for ready in await pool.run(partial(summed, batch)):
                yield ready
    for ready in await pool.run(zones.finish):
        yield ready


async def sorted_rows(
    snapshot: Snapshot,
    values: ColumnValues,
    keys: RowKeys,
    fragment_ids: Collection[int],
    memory: int = MEMORY,
) -> AsyncGenerator[pa.RecordBatch, None]:
    """The keys of a column and the row numbers of live rows, in the order of an index.

    Args:
        keys: of an index, whose kind tells which numbers: row sets are of row ids where these are
            stable.
        memory: bytes that are sorted at once.
    """
    has_ids = snapshot.has_stable_row_ids and keys.kind != BTREE
    pool = snapshot.engine.pool

    def keyed(batch: pa.RecordBatch) -> pa.RecordBatch:
        return keys.add(values.of(batch.column(0)), batch.column(1))

    async def read() -> AsyncGenerator[pa.RecordBatch, None]:
        numbers = ROW_ID if has_ids else ROW_ADDRESS
        most = TEXT_BYTES if keys.kind == NGRAMS else None
        ahead = max(LEAST_AHEAD, memory // AHEAD_SHARE)
        read_rows = _scanned(snapshot, values.column, numbers, fragment_ids, most, ahead)
        async with aclosing(read_rows) as batches:
            async for batch in batches:
                rows = await pool.run(partial(keyed, batch))
                if rows.num_rows:
                    yield rows

    async with aclosing(read()) as batches:
        sorting = RowSorter(pool, memory).sorted(batches, keys.schema)
        async with aclosing(sorting) as in_order:
            async for batch in in_order:
                yield batch


async def _scanned(
    snapshot: Snapshot,
    column: str,
    numbers: str,
    fragment_ids: Collection[int],
    batch_bytes: int | None = None,
    ahead_bytes: int | None = None,
) -> AsyncGenerator[pa.RecordBatch, None]:
    """The values of a column and the numbers of live rows."""
    if not fragment_ids:
        return
    options = ScanOptions(
        fragments=fragment_ids, batch_size_bytes=batch_bytes, io_buffer_bytes=ahead_bytes
    )
    async with aclosing(scanned(snapshot, [column, numbers], options)) as batches:
        async for batch in batches:
            yield batch
