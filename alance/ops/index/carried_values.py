"""What segments that are there hold, carried over into a new segment of an index of values.

Values and keys are in order already: they are merged with those of the rows that no segment has,
and only these rows are scanned and sorted. Zones stay as they are. Rows that are deleted, or in a
fragment that the segment does not cover, are left out; zones of deleted rows may say too much.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, aclosing
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.errors import CorruptFileError, InvalidInputError
from alance.format.index import bitmap, bloom
from alance.format.index.addresses import parse_rows
from alance.format.index.ngram import POSTING_LISTS
from alance.format.index.zone_build import BATCH_BYTES, ZoneBuilder
from alance.format.index.zones import MAP_FILE, NULLS, ZoneRows
from alance.format.numbers import to_arrow
from alance.format.row_set import HALF
from alance.format.table.indices import Index, holds_row_ids
from alance.ops.index.build import SegmentBuilder, run_rows, run_schema_of, source_of
from alance.ops.index.carried import live_rows
from alance.ops.index.keyed import ColumnValues, OtherTypeError, RowKeys
from alance.ops.index.manage import zone_options
from alance.ops.index.merge import RunMerger
from alance.ops.index.remap_scalar import set_rows, tree_rows
from alance.ops.index.sort import MEMORY
from alance.ops.lookup.files import IndexFiles, check_order
from alance.ops.lookup.segments import BITMAP, BLOOM, BTREE, LABELS, NGRAMS, VERSIONS, ZONES
from alance.ops.lookup.stored import StoredFile, spans_of
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Sequence

    from alance.arrays import Int64s, Mask
    from alance.format.proto import table_pb2
    from alance.format.row_set import RowSet
    from alance.ops.version.snapshot import Snapshot

FEW_ROWS: Final = 32 << 10  # are scanned and sorted in less time than the files are opened in
FILES: Final = {
    BITMAP: bitmap.FILE,
    LABELS: bitmap.FILE,
    NGRAMS: POSTING_LISTS.file,
    ZONES: MAP_FILE,
    BLOOM: bloom.FILE,
}
# Where the rows that are null are told, of kinds that tell them beside their columns.
NULL_ROWS: Final = {LABELS: bitmap.LABEL_NULLS, ZONES: NULLS, BLOOM: NULLS}


@dataclass(frozen=True, slots=True)
class CarriedValues:
    """A segment that goes into another one.

    Attributes:
        covered: ids of the fragments of which rows are carried over.
    """

    index: Index
    covered: frozenset[int]

    async def type(self, snapshot: Snapshot) -> pa.DataType | None:
        """Of the first column of its rows; None: it does not tell all. Cost: a round, once."""
        kind = self.index.files_kind
        if kind == BTREE:
            return (await IndexFiles(snapshot, self.index).page_table()).low.type
        stored = await StoredFile.open(snapshot, self.index, FILES[kind])
        is_whole = kind not in NULL_ROWS or NULL_ROWS[kind] in stored.metadata
        return stored.schema.field(0).type if is_whole else None

    async def rows(
        self, snapshot: Snapshot, source: RowKeys | ZoneBuilder
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Its live rows, as a run of a source has them, which also notes those that are null.

        Raises:
            CorruptFileError, NotFoundError: files that cannot be read.
        """
        has_ids = snapshot.has_stable_row_ids and holds_row_ids(self.index.message)
        live = await live_rows(snapshot, self.covered, has_row_ids=has_ids)
        if self.index.files_kind in NULL_ROWS:
            source.null_rows.append(await self._null_rows(snapshot, live))
        if isinstance(source, ZoneBuilder):
            kept = self._zones(snapshot, source)
        else:
            kept = self._in_order(snapshot, source, live)
        async with aclosing(kept) as batches:
            async for batch in batches:
                yield batch

    async def _null_rows(self, snapshot: Snapshot, live: RowSet) -> Int64s:
        kind = self.index.files_kind
        stored = await StoredFile.open(snapshot, self.index, FILES[kind])
        content = await stored.told_buffer(NULL_ROWS[kind])
        return await snapshot.engine.pool.run(lambda: (parse_rows(content) & live).to_numpy())

    async def _in_order(
        self, snapshot: Snapshot, keys: RowKeys, live: RowSet
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Values with rows, or keys with row sets."""

        def live_ids(ids: Int64s) -> tuple[Int64s, Mask]:
            mask = live.mask_of(ids)
            return (ids if mask.all() else ids[mask]), mask

        def live_set(content: memoryview) -> bytes | None:
            rows = keys.form.parse(content)
            kept = rows & live
            if len(kept) == len(rows):
                return bytes(content)
            return keys.form.to_bytes(kept.to_numpy()) if len(kept) else None

        is_tree = keys.kind == BTREE
        rows = (
            tree_rows(snapshot, self.index, live_ids)
            if is_tree
            else set_rows(snapshot, self.index, live_set, keys.form)
        )
        order = OrderCheck(f"segment {self.index.uuid}", is_distinct=not is_tree)
        async with aclosing(rows) as batches:
            async for batch in batches:
                await snapshot.engine.pool.run(partial(order.check, batch.column(0)))
                yield batch

    async def _zones(
        self, snapshot: Snapshot, zones: ZoneBuilder
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        stored = await StoredFile.open(snapshot, self.index, zones.file)
        columns = [(column.name, column.type) for column in stored.schema]
        if columns != [(column.name, column.type) for column in zones.schema]:
            raise CorruptFileError(f"{zones.file} with columns {stored.schema.names} of a segment")
        handles = [snapshot.handle(fragment) for fragment in self.covered]
        await snapshot.resolve_sizes(handles)
        ids = np.array([handle.id for handle in handles], np.int64)
        sizes = np.array([handle.num_physical_rows for handle in handles], np.int64)

        def kept(batch: pa.RecordBatch) -> pa.RecordBatch:
            places = ZoneRows.of(batch)
            places.check(ids, sizes)
            is_covered = np.isin(places.starts >> HALF, ids)
            whole = pa.RecordBatch.from_arrays(batch.columns, schema=zones.schema)
            return whole if is_covered.all() else whole.filter(to_arrow(is_covered))

        spans = spans_of(stored.num_rows, max(1, BATCH_BYTES // stored.bytes_per_row))
        async with aclosing(stored.batches(spans, kept)) as batches:
            async for batch in batches:
                yield batch


@dataclass(slots=True)
class OrderCheck:
    """Checks that values that pass by are in the order of an index."""

    what: str
    is_distinct: bool
    _last: tuple[pa.Array, ...] = ()

    def check(self, values: pa.Array) -> None:
        check_order(pa.concat_arrays([*self._last, values]), self.what, distinct=self.is_distinct)
        self._last = (values.slice(len(values) - 1),)


@dataclass(slots=True, eq=False)
class CarryingBuilder(SegmentBuilder):
    """Builds a segment of others, and of the fragments that none of them covers.

    Attributes:
        type: of the values that the others hold.
    """

    carried: Sequence[CarriedValues] = ()
    type: pa.DataType = field(default_factory=pa.null)

    async def build(self, fragment_ids: Collection[int]) -> table_pb2.IndexMetadata:
        """The record of the segment, whose files are then there.

        Cost: a scan of the column in the other fragments; reading the carried files; the PUTs.
        Where JSON values are of another type than those carried, all are scanned.

        Raises:
            InvalidInputError: JSON values of several types, or of one that such an index is not of.
            CorruptFileError, NotFoundError: files of a segment that cannot be read.
            StoreError: the store failed.
            OSError: the local disk is full.
        """
        covered = frozenset[int]().union(*(values.covered for values in self.carried))
        others = [number for number in fragment_ids if number not in covered]
        source = source_of(self.kind, self.type, self.options)
        is_wide = self.type == pa.float64()  # whole numbers are among them
        values = ColumnValues(self.column, self.type, self.options.path, is_told=is_wide)
        streams = [segment.rows(self.snapshot, source) for segment in self.carried]
        streams.append(run_rows(self.snapshot, values, source, others))
        try:
            async with AsyncExitStack() as stack:
                for stream in streams:
                    await stack.enter_async_context(aclosing(stream))
                merger = RunMerger(self.snapshot, run_schema_of(source), MEMORY)
                is_zones = isinstance(source, ZoneBuilder)
                merged = _chained(streams) if is_zones else merger.merged_streams(streams)
                return await self.build_from(merged, source, fragment_ids)
        except (OtherTypeError, InvalidInputError):  # what is there now decides
            return await SegmentBuilder.build(self, fragment_ids)


async def _chained(
    streams: Sequence[AsyncGenerator[pa.RecordBatch, None]],
) -> AsyncGenerator[pa.RecordBatch, None]:
    for stream in streams:
        async for batch in stream:
            yield batch


async def carrying(
    builder: SegmentBuilder, replaced: Sequence[table_pb2.IndexMetadata]
) -> SegmentBuilder:
    """A builder that carries over what segments hold, where it can: else their rows are read again.

    These are segments of few rows, of zones of another size, and such as hold other columns as
    well, which are not written here.
    """
    snapshot, kind, options = builder.snapshot, builder.kind, builder.options
    counts = (await snapshot.live_counts()).tolist()
    rows = {handle.id: count for handle, count in zip(snapshot.handles, counts, strict=True)}
    type_ = builder.leaf.arrow_type if options.path is None else None
    seen, carried = set(rows), []
    for message in replaced:
        index = Index.from_protobuf(message)
        values = CarriedValues(index, (index.fragment_ids or frozenset()) & seen)
        seen -= values.covered
        is_small = sum(rows[fragment] for fragment in values.covered) <= FEW_ROWS
        if is_small or message.covering_fields or not _is_told(snapshot, index):
            continue
        if await zone_options(snapshot, index) != options.zones:
            continue
        stored = await values.type(snapshot)
        if type_ is None:
            type_ = pa.string() if kind == NGRAMS else stored
        if run_schema_of(source_of(kind, type_, options)).field(0).type == stored:
            carried.append(values)
    if not carried:
        return builder
    return CarryingBuilder(
        snapshot,
        builder.column,
        builder.leaf,
        builder.name,
        kind,
        options,
        carried=carried,
        type=type_,
    )


def _is_told(snapshot: Snapshot, index: Index) -> bool:
    """Whether a segment says of which rows it is in the numbers that a new one has."""
    kind, version = index.files_kind, index.message.index_version
    has_other_ids = kind == BTREE and snapshot.has_stable_row_ids and holds_row_ids(index.message)
    return version in VERSIONS[kind] and not has_other_ids
