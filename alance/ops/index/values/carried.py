"""Rows of existing segments, carried over into a new scalar index segment.

Stored values and keys are already sorted: they are merged with those of uncovered rows, and only
uncovered rows are scanned and sorted. Zones are copied unchanged. Rows that are deleted, or in a
fragment that the segment does not cover, are dropped. The bounds of a zone with deleted rows may be
too wide.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, aclosing
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.format.index.bitmap import parse_rows
from alance.format.table.indices import Index, holds_row_ids
from alance.ops.index.values.build import SegmentBuilder, run_rows
from alance.ops.index.values.column_values import ColumnValues, OtherTypeError
from alance.ops.index.values.merge import RunMerger
from alance.ops.index.values.sort import SORT_MEMORY_BYTES
from alance.ops.index.vectors.carried import live_rows
from alance.ops.lookup.files import IndexFiles, check_order
from alance.ops.lookup.stored import StoredFile

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Sequence

    from alance.base.arrays import Int64s
    from alance.format.proto import table_pb2
    from alance.format.row_set import RowSet
    from alance.ops.lookup.kinds.kind import IndexKind
    from alance.ops.version.snapshot import Snapshot

# Scanning and sorting these takes less time than opening the files.
RESCANNED_ROWS: Final = 32 << 10


@dataclass(frozen=True, slots=True)
class CarriedValues:
    """A segment whose rows go into a new one.

    Attributes:
        covered: ids of the fragments whose rows are carried over.
    """

    index: Index
    kind: IndexKind
    covered: frozenset[int]

    async def rows(self, snapshot: Snapshot, source: Any) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the live rows as a run of `source`, and add the null rows to `source`.

        Raises:
            CorruptFileError, NotFoundError: files cannot be read.
        """
        has_ids = snapshot.has_stable_row_ids and holds_row_ids(self.index.message)
        live = await live_rows(snapshot, self.covered, has_row_ids=has_ids)
        kind = self.kind
        if kind.null_rows is not None:
            source.null_rows.append(await self._null_rows(snapshot, kind.null_rows, live))
        order = None
        if kind.is_sorted:
            is_distinct = kind.form is not None
            order = OrderCheck(f"segment {self.index.uuid}", is_distinct=is_distinct)
        carried = kind.live_rows(snapshot, self.index, source, live, self.covered)
        async with aclosing(carried) as batches:
            async for batch in batches:
                if order is not None:
                    await snapshot.engine.pool.run(partial(order.check, batch.column(0)))
                yield batch

    async def _null_rows(self, snapshot: Snapshot, key: str, live: RowSet) -> Int64s:
        stored = await StoredFile.open(snapshot, self.index, self.kind.file)
        content = await stored.buffer_by_key(key)
        return await snapshot.engine.pool.run(lambda: (parse_rows(content) & live).to_numpy())


@dataclass(slots=True)
class OrderCheck:
    """Check that the values of an index ascend, across consecutive arrays."""

    what: str
    is_distinct: bool
    _last: tuple[pa.Array, ...] = ()

    def check(self, values: pa.Array) -> None:
        check_order(pa.concat_arrays([*self._last, values]), self.what, distinct=self.is_distinct)
        self._last = (values.slice(len(values) - 1),)


@dataclass(slots=True, eq=False)
class CarryingBuilder(SegmentBuilder):
    """Builder of a segment from the rows of other segments and from uncovered fragments.

    Attributes:
        carried: the other segments.
        type: type of the values in these segments.
    """

    carried: Sequence[CarriedValues] = ()
    type: pa.DataType = field(default_factory=pa.null)

    async def build(self, fragment_ids: Collection[int]) -> table_pb2.IndexMetadata:
        """Write the files of the segment and return its record.

        Cost: a scan of the column in the other fragments; a read of the carried files; the PUTs. If
        JSON values do not have the carried type, all fragments are scanned.

        Raises:
            InvalidInputError: JSON values of several types, or of a type that the kind cannot
                index.
            CorruptFileError, NotFoundError: files of a segment cannot be read.
            StoreError: the store failed.
            OSError: the local disk is full.
        """
        covered = frozenset[int]().union(*(values.covered for values in self.carried))
        others = [number for number in fragment_ids if number not in covered]
        source = self.kind.source(self.type, self.options.zones, SORT_MEMORY_BYTES)
        is_wide = self.type == pa.float64()  # float64 also holds JSON integers
        values = ColumnValues(self.column, self.type, self.options.path, has_type=is_wide)
        streams = [segment.rows(self.snapshot, source) for segment in self.carried]
        streams.append(run_rows(self.snapshot, self.kind, values, source, others))
        try:
            async with AsyncExitStack() as stack:
                for stream in streams:
                    await stack.enter_async_context(aclosing(stream))
                merger = RunMerger(self.snapshot, source.run_schema, SORT_MEMORY_BYTES)
                is_sorted = self.kind.is_sorted
                merged = merger.merged_streams(streams) if is_sorted else _chained(streams)
                return await self.build_from(merged, source, fragment_ids)
        except (OtherTypeError, InvalidInputError):  # the current values decide the type
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
    """Return a builder that copies rows from the files of replaced segments where possible.

    The fragments of these segments are scanned again: small segments; segments whose zone size,
    value type or row numbers differ from those of the new segment; and segments with covering
    columns, which alance does not write.
    """
    snapshot, kind, options = builder.snapshot, builder.kind, builder.options
    counts = (await snapshot.live_counts()).tolist()
    rows = {handle.id: count for handle, count in zip(snapshot.handles, counts, strict=True)}
    type_ = builder.leaf.arrow_type if options.path is None else None
    seen, carried = set(rows), []
    for message in replaced:
        index = Index.from_protobuf(message)
        values = CarriedValues(index, kind, (index.fragment_ids or frozenset()) & seen)
        seen -= values.covered
        is_small = sum(rows[fragment] for fragment in values.covered) <= RESCANNED_ROWS
        if is_small or message.covering_fields or not _has_reusable_numbers(snapshot, kind, index):
            continue
        files = IndexFiles(snapshot, index)
        if await kind.zone_options(files, files.name) != options.zones:
            continue
        stored = await kind.stored_type(snapshot, index)
        if type_ is None and stored is not None:
            type_ = kind.value_type(stored)
        if type_ is None:
            continue
        source = kind.source(type_, options.zones, SORT_MEMORY_BYTES)
        if source.run_schema.field(0).type == stored:
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


def _has_reusable_numbers(snapshot: Snapshot, kind: IndexKind, index: Index) -> bool:
    """True if a segment stores row ids or addresses as a new segment would."""
    message = index.message
    has_ids = snapshot.has_stable_row_ids and holds_row_ids(message)
    return message.index_version in kind.versions and not (kind.has_addresses and has_ids)
