"""Values of segments that are there, carried over into a new segment of a B-tree or bitmap index.

They are in order already: they are merged with the rows that no segment has, and only these are
scanned and sorted. Rows that are deleted, or in a fragment that the segment does not cover, are
left out.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from alance.format.index.addresses import parse_rows, rows_bytes
from alance.format.index.build import RowSetBuilder
from alance.format.table.indices import Index
from alance.ops.index.build import SegmentBuilder, set_batches, sorted_rows
from alance.ops.index.carried import LiveRows
from alance.ops.index.keyed import ColumnValues, RowKeys
from alance.ops.index.merge import RunMerger
from alance.ops.index.remap_scalar import set_rows, tree_rows
from alance.ops.index.runs import run_schema
from alance.ops.index.sort import MEMORY
from alance.ops.lookup.files import IndexFiles, check_order, sort_key
from alance.ops.lookup.segments import BITMAP, BTREE

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Sequence

    from alance.arrays import Int64s, Mask
    from alance.format.proto import table_pb2
    from alance.ops.version.snapshot import Snapshot

CARRIED: Final = (BTREE, BITMAP)
FEW_ROWS: Final = 32 << 10  # are scanned and sorted in less time than the files are opened in


@dataclass(frozen=True, slots=True)
class CarriedValues:
    """A segment whose values go into another one.

    Attributes:
        covered: ids of the fragments of which rows are carried over.
    """

    index: Index
    covered: frozenset[int]

    async def has_type(self, snapshot: Snapshot, type_: pa.DataType) -> bool:
        """Whether its values have a type. Cost: a round, once."""
        files = IndexFiles(snapshot, self.index)
        if self.index.kind == BTREE:
            return bool((await files.page_table()).low.type == type_)
        return bool((await files.keys()).type == type_)

    async def rows(self, snapshot: Snapshot) -> AsyncGenerator[pa.RecordBatch, None]:
        """Its live rows, as the columns of `run_schema`.

        Raises:
            CorruptFileError, NotFoundError: files that cannot be read.
        """
        live = await LiveRows.of(snapshot, self.covered)
        is_tree = self.index.kind == BTREE

        def live_ids(ids: Int64s) -> tuple[Int64s, Mask]:
            mask = live.mask_of(ids)
            return (ids if mask.all() else ids[mask]), mask

        def live_set(content: memoryview) -> bytes | None:
            rows = parse_rows(content)
            kept = rows & live.addresses
            if len(kept) == len(rows):
                return bytes(content)
            return rows_bytes(kept.to_numpy()) if len(kept) else None

        kept = (
            tree_rows(snapshot, self.index, live_ids)
            if is_tree
            else set_rows(snapshot, self.index, live_set)
        )
        order = OrderCheck(f"segment {self.index.uuid}", is_distinct=not is_tree)
        async with aclosing(kept) as batches:
            async for batch in batches:
                await snapshot.engine.pool.run(partial(order.check, batch.column(0)))
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
    """Builds a segment of others, and of the fragments that none of them covers."""

    carried: Sequence[CarriedValues] = ()

    async def build(self, fragment_ids: Collection[int]) -> table_pb2.IndexMetadata:
        """The record of the segment, whose files are then there.

        Cost: a scan of the column in the other fragments; reading the carried files; the PUTs.

        Raises:
            CorruptFileError, NotFoundError: files of a segment that cannot be read.
            StoreError: the store failed.
            OSError: the local disk is full.
        """
        covered = frozenset[int]().union(*(values.covered for values in self.carried))
        schema = run_schema(self.kind, self.leaf.arrow_type)
        streams = [values.rows(self.snapshot) for values in self.carried]
        streams.append(self._others([number for number in fragment_ids if number not in covered]))
        async with AsyncExitStack() as stack:
            for stream in streams:
                await stack.enter_async_context(aclosing(stream))
            merger = RunMerger(self.snapshot, schema, MEMORY)
            return await self.build_from(merger.merged_streams(streams), (), fragment_ids)

    async def _others(self, fragment_ids: Collection[int]) -> AsyncGenerator[pa.RecordBatch, None]:
        """The values of fragments that were not covered, as `CarriedValues.rows` gives them."""
        type_ = self.leaf.arrow_type
        keys, values = RowKeys.of(self.kind, type_), ColumnValues(self.column, type_)
        async with aclosing(sorted_rows(self.snapshot, values, keys, fragment_ids)) as rows:
            if self.kind == BTREE:
                async for batch in rows:
                    yield batch
                return
            sets = set_batches(self.snapshot.engine.pool, rows, RowSetBuilder(type_, sort_key))
            async with aclosing(sets) as batches:
                async for batch in batches:
                    yield batch


async def carrying(
    builder: SegmentBuilder, replaced: Sequence[table_pb2.IndexMetadata]
) -> SegmentBuilder:
    """A builder that carries over the values of segments, where it can: else all are read again.

    Rows with stable ids move, and JSON values may be of another type than before. Segments that
    hold other columns as well are not written here.
    """
    snapshot = builder.snapshot
    if builder.kind not in CARRIED or builder.options.path or snapshot.has_stable_row_ids:
        return builder
    counts = (await snapshot.live_counts()).tolist()
    rows = {handle.id: count for handle, count in zip(snapshot.handles, counts, strict=True)}
    seen, carried = set(rows), []
    for message in replaced:
        index = Index.from_protobuf(message)
        values = CarriedValues(index, (index.fragment_ids or frozenset()) & seen)
        seen -= values.covered
        is_small = sum(rows[fragment] for fragment in values.covered) <= FEW_ROWS
        if message.covering_fields or is_small:
            continue
        if values.covered and await values.has_type(snapshot, builder.leaf.arrow_type):
            carried.append(values)
    if not carried:
        return builder
    return CarryingBuilder(
        snapshot,
        builder.column,
        builder.leaf,
        builder.name,
        builder.kind,
        builder.options,
        carried=carried,
    )
