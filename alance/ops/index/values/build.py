"""Build of the files of a scalar index segment from a column of some fragments."""

from __future__ import annotations

from contextlib import AsyncExitStack, aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from alance.base.progress import Stage
from alance.base.records import dataclass
from alance.format.table.indices import json_details
from alance.ops.index.segment_files import NewSegment
from alance.ops.index.values.column_values import ColumnValues, OtherTypeError
from alance.ops.index.values.options import DEFAULT_VALUE_OPTIONS, ValueOptions, check_suits
from alance.ops.index.values.sort import LEAST_AHEAD, SORT_AHEAD_SHARE, SORT_MEMORY_BYTES, RowSorter
from alance.ops.read.options import ScanOptions
from alance.ops.read.scan import scanned
from alance.ops.version.projection import ROW_ADDRESS, ROW_ID

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Collection

    import pyarrow as pa

    from alance.format.proto import table_pb2
    from alance.ops.lookup.kinds.keys import RowKeys
    from alance.ops.lookup.kinds.kind import IndexKind, KindSource
    from alance.ops.version.snapshot import Snapshot

T = TypeVar("T")
JSON_DETAILS: Final = "/lance.index.pb.JsonIndexDetails"


@dataclass(slots=True, eq=False)
class SegmentBuilder(NewSegment):
    """Builder of a scalar index segment.

    Attributes:
        kind: kind of index; for a JSON index the target's kind.
    """

    kind: IndexKind
    options: ValueOptions = DEFAULT_VALUE_OPTIONS

    async def build(self, fragment_ids: Collection[int]) -> table_pb2.IndexMetadata:
        """Write the files of the segment and return its record.

        Cost: a scan of the column in these fragments; the files' PUTs.

        Raises:
            UnsupportedError: files of the table's version cannot hold the type.
            InvalidInputError: JSON values of several types, or of a type that the kind cannot
                index.
            StoreError: the store failed.
            OSError: the local disk is full.
        """
        values = ColumnValues.at(self.column, self.leaf.arrow_type, self.options.path)
        await with_detected_type(self.kind, values, partial(self._build_of, fragment_ids))
        return self.of_files(fragment_ids)

    async def _build_of(self, fragment_ids: Collection[int], values: ColumnValues) -> None:
        memory = self.options.memory_bytes
        source = self.kind.source(values.type, self.options.zones, memory)
        rows = source_rows(self.snapshot, self.kind, values, source, fragment_ids, memory)
        async with aclosing(rows):
            await self.kind.write(self.files, source, rows)

    async def build_from(
        self,
        merged: AsyncGenerator[pa.RecordBatch, None],
        source: KindSource,
        covered: Collection[int],
    ) -> table_pb2.IndexMetadata:
        """Build the segment from merged runs of all covered fragments, without a scan.

        Args:
            source: source of the runs; it has collected all null rows when the last batch has
                passed.
        """
        async with aclosing(merged):
            await self.kind.write(self.files, source, merged, of_runs=True)
        return self.of_files(covered)

    def of_files(self, fragment_ids: Collection[int]) -> table_pb2.IndexMetadata:
        """Return the record of the segment with the files written so far."""
        kind, has_ids = self.kind, self.snapshot.has_stable_row_ids
        version = kind.written_version(has_stable_row_ids=has_ids)
        type_url, content = kind.type_url, kind.details(self.options.zones)
        if self.options.path is not None:
            content = json_details(self.options.path, type_url, content)
            type_url = JSON_DETAILS
        return self.record(fragment_ids, version=version, details=(type_url, content))


async def with_detected_type(
    kind: IndexKind, values: ColumnValues, make: Callable[[ColumnValues], Awaitable[T]]
) -> T:
    """Run `make` on the values; if JSON values have another type, run it again with that type.

    Raises:
        InvalidInputError: JSON values of several types, or of a type that the kind cannot index.
    """
    while True:
        try:
            return await make(values)
        except OtherTypeError as other:
            values = other.values
            check_suits(values.column, kind, values.type)


async def run_rows(
    snapshot: Snapshot,
    kind: IndexKind,
    values: ColumnValues,
    source: Any,
    fragment_ids: Collection[int],
    memory: int = SORT_MEMORY_BYTES,
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Yield the rows of a sorted run of some fragments. Cost: a scan of the column.

    Args:
        memory: bytes that are sorted at once.
    """
    rows = source_rows(snapshot, kind, values, source, fragment_ids, memory)
    async with aclosing(rows), aclosing(kind.run_rows(snapshot.engine.pool, source, rows)) as run:
        async for batch in run:
            yield batch


def source_rows(
    snapshot: Snapshot,
    kind: IndexKind,
    values: ColumnValues,
    source: Any,
    fragment_ids: Collection[int],
    memory: int = SORT_MEMORY_BYTES,
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Scan a column of some fragments and yield the batches that `IndexKind.write` takes."""
    if kind.is_sorted:
        return _sorted_rows(snapshot, kind, values, source, fragment_ids, memory)
    return _rows_in_turn(snapshot, values, source, fragment_ids)


async def _rows_in_turn(
    snapshot: Snapshot, values: ColumnValues, source: Any, fragment_ids: Collection[int]
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Yield a source's summaries of the rows, in scan order. Cost: a scan of the column.

    Memory: the state of the source; for zones, 8 MiB of filters or one larger filter.
    """
    pool = snapshot.engine.pool

    def summed(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        ready: list[pa.RecordBatch] = source.add(values.of(batch.column(0)), batch.column(1))
        return ready

    rows = _scanned(snapshot, values.column, ROW_ADDRESS, fragment_ids)
    async with aclosing(rows) as batches:
        async for batch in batches:
            for ready in await pool.run(partial(summed, batch)):
                yield ready
    for ready in await pool.run(source.finish):
        yield ready


async def _sorted_rows(
    snapshot: Snapshot,
    kind: IndexKind,
    values: ColumnValues,
    keys: RowKeys,
    fragment_ids: Collection[int],
    memory: int = SORT_MEMORY_BYTES,
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Yield the key and the row id or address of each live row, in index order.

    Args:
        memory: bytes that are sorted at once.
    """
    has_ids = snapshot.has_stable_row_ids and not kind.has_addresses
    pool, num_keys = snapshot.engine.pool, 0

    def keyed(batch: pa.RecordBatch) -> pa.RecordBatch:
        return keys.add(values.of(batch.column(0)), batch.column(1))

    async def read() -> AsyncGenerator[pa.RecordBatch, None]:
        nonlocal num_keys
        numbers = ROW_ID if has_ids else ROW_ADDRESS
        ahead = max(LEAST_AHEAD, memory // SORT_AHEAD_SHARE)
        read_rows = _scanned(
            snapshot, values.column, numbers, fragment_ids, kind.batch_bytes, ahead
        )
        async with aclosing(read_rows) as batches:
            async for batch in batches:
                rows = await pool.run(partial(keyed, batch))
                if rows.num_rows:
                    num_keys += rows.num_rows
                    yield rows

    stage: Stage | None = None
    async with AsyncExitStack() as stack:
        batches = await stack.enter_async_context(aclosing(read()))
        sorting = RowSorter(pool, memory).sorted(batches, keys.schema)
        async for batch in await stack.enter_async_context(aclosing(sorting)):
            stage = stage or stack.enter_context(Stage("write", num_keys, "keys"))
            yield batch
            stage.add(batch.num_rows)


async def _scanned(
    snapshot: Snapshot,
    column: str,
    numbers: str,
    fragment_ids: Collection[int],
    batch_bytes: int | None = None,
    ahead_bytes: int | None = None,
) -> AsyncGenerator[pa.RecordBatch, None]:
    if not fragment_ids:
        return
    options = ScanOptions(
        fragments=fragment_ids, batch_size_bytes=batch_bytes, io_buffer_bytes=ahead_bytes
    )
    num_rows = await snapshot.watched_rows(fragment_ids)
    with Stage("scan", num_rows, "rows") as stage:
        async with aclosing(scanned(snapshot, [column, numbers], options)) as batches:
            async for batch in batches:
                yield batch
                stage.add(batch.num_rows)
