"""Reading a table: the driver plans from the manifest, tasks read Arrow batches.

Spark plans a DataFrame once and keeps the reader, with the filters that it was told of, for all
later queries of the DataFrame (4.1 to 4.3): a filter taken over for one query would drop the rows
of the next. So filters are taken over only where `pushdown` says that there will be one query.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader

from alance.ops.read.options import ScanOptions
from alance.ops.read.plan import plan_scan
from alance.ops.read.scan import scan
from alance.ops.version.projection import META, ROW_ADDRESS, ROW_ID
from alance.scanner import Scanner
from alance.spark.filters import as_sql
from alance.spark.planning import Rows, plan
from alance.spark.types import arrow_schema, converted
from alance.spark.worker import stream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import Filter, InputPartition
    from pyspark.sql.types import StructType

    from alance.ops.version.snapshot import Snapshot
    from alance.spark.options import ReadOptions
    from alance.spark.planning import Piece
    from alance.spark.versions import Version


def columns_of(snapshot: Snapshot, options: ReadOptions) -> list[str]:
    """The columns that a read gives, in its order."""
    names = options.columns
    found = list(snapshot.schema.to_arrow().names if names is None else names)
    for asked, name in ((options.with_row_id, ROW_ID), (options.with_row_address, ROW_ADDRESS)):
        if asked and name not in found:
            found.append(name)
    return found


def planned(
    snapshot: Snapshot,
    names: Sequence[str],
    options: ReadOptions,
    ids: Collection[int] | None = None,
) -> list[Rows]:
    """The partitions of a read of some columns of a version, or of some of its fragments."""
    fields = snapshot.schema.project([name for name in names if name not in META])
    read = frozenset(one.id for field in fields.fields for one in field.walk())
    fragments = [one for one in snapshot.manifest.fragments if ids is None or one.id in ids]
    return plan(fragments, read or None, options)


class AlanceReader(DataSourceReader):
    """Reads one version. Pickled into each task."""

    def __init__(
        self,
        schema: StructType,
        options: ReadOptions,
        version: Version,
        snapshot: Snapshot | None = None,
    ) -> None:
        self.schema = schema
        self.options = options
        self.version = version
        self._snapshot = snapshot

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_snapshot": None}

    def __repr__(self) -> str:
        return f"AlanceReader({self.options.path!r})"

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the tasks. Spark has pickled the reader before: what is set here is not seen there.

        Cost: no request, the manifest has been read; about 10 us a fragment.
        """
        assert self._snapshot is not None
        return planned(self._snapshot, self.schema.names, self.options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition, in the very types that Spark asks for."""
        if not isinstance(partition, Rows):  # Spark's own, where no partition was planned
            return iter(())
        schema, names = arrow_schema(self.schema), self.schema.names
        found = stream(lambda: read_pieces(self.version, names, self.options, partition.pieces))
        return (converted(batch, schema) for batch in found)


async def read_pieces(
    version: Version, names: Sequence[str], options: ReadOptions, pieces: Sequence[Piece]
) -> AsyncGenerator[pa.RecordBatch, None]:
    """The rows of one partition, in the types of the table."""
    spans: dict[bytes, tuple[int, int | None]] = {}
    for piece in pieces:  # those of one fragment follow each other
        start = spans[piece.fragment][0] if piece.fragment in spans else piece.start
        spans[piece.fragment] = (start, piece.stop)
    snapshot = version.snapshot(list(spans))
    chosen = ScanOptions(
        filter=options.filter,
        limit=options.limit,
        batch_size=options.batch_size,
        io_buffer_bytes=options.memory_bytes,
        blob_handling="all_binary" if options.blobs == "bytes" else "blobs_descriptions",
    )
    scanner = RangeScanner(snapshot, list(names), chosen)
    scanner.spans = {
        handle.id: (start, stop)
        for handle, (start, stop) in zip(snapshot.handles, spans.values(), strict=True)
        if stop is not None
    }
    async for batch in scanner.to_batches():
        yield batch


class PushingReader(AlanceReader):
    """A reader that takes over filters: for a DataFrame that serves one query."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Keep the filters that alance evaluates as Spark would; give back the others."""
        taken = [] if self.options.filter is None else [f"({self.options.filter})"]
        for one in filters:
            text = as_sql(one, self.schema)
            if text is None or self.options.limit is not None:
                yield one
            else:
                taken.append(text)
        self.options = replace(self.options, filter=" AND ".join(taken) or None)


class RangeScanner(Scanner):
    """A scan of some physical rows of fragments."""

    __slots__ = ("spans",)

    spans: dict[int, tuple[int, int]]

    async def _scan(self, options: ScanOptions) -> AsyncGenerator[pa.RecordBatch, None]:
        plan = await plan_scan(self._snapshot, self._columns, options)
        plan = replace(plan, spans={**plan.spans, **self.spans})
        async for batch in scan(self._snapshot, plan):
            yield batch
