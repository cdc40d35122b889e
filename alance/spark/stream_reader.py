"""Following a table: the rows that its versions add, fragment by fragment.

An offset names a version and how many of the fragments that it added have been read:

    {"version": 7, "fragments": 2, "snapshot": 0}

All that earlier versions added has been read. With `snapshot` 1 the fragments are all those of the
version, not only the added ones: where a stream begins with what is there. Fragments are immutable,
and are read as they were in the version that added them: a batch that is run again has the same
rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from alance import NotFoundError, UnsupportedError, distributed
from alance.distributed import Added, fragment_bytes, fragments_of
from alance.spark.reader import AlanceReader, Rows, planned
from alance.spark.versions import Version, open_version
from alance.spark.worker import run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from alance import Dataset
    from alance.spark.options import StreamOptions
    from alance.types import Fragment


async def added_by(dataset: Dataset, version: int, options: StreamOptions) -> Added:
    """What a version added to the one before it. Cost: two GETs at most.

    Raises:
        NotFoundError: the version was cleaned up.
        UnsupportedError: it replaced rows, and the options do not say `skip`.
    """
    try:
        added = await distributed.added_by(dataset, version)
    except NotFoundError as error:
        error.add_note("the stream has to read it: clean up only what all streams have read")
        raise
    if added.replaced_by is not None and options.on_change != "skip":
        raise UnsupportedError(
            f"dataset {dataset.uri!r}: version {version} ({added.replaced_by}) replaces"
            " rows, which a stream of new rows does not show; option on_change=skip passes it"
        )
    return added


MAX_VERSIONS: Final = 1000  # looked at for one batch without a limit of its own


@dataclass(frozen=True, slots=True)
class Offset:
    """How far a stream has read; see above."""

    version: int
    fragments: int
    snapshot: bool = False

    @classmethod
    def of(cls, values: dict[str, Any]) -> Offset:
        """From what Spark keeps in the checkpoint."""
        return cls(int(values["version"]), int(values["fragments"]), bool(values["snapshot"]))

    def dict(self) -> dict[str, int]:
        """For Spark: numbers alone."""
        return {
            "version": self.version,
            "fragments": self.fragments,
            "snapshot": int(self.snapshot),
        }


class StreamRows(Rows):
    """A partition of a stream: rows of fragments, the version that they are read in, a filter."""

    def __init__(self, rows: Rows, version: Version, condition: str | None) -> None:
        super().__init__(rows.pieces)
        self.version = version
        self.condition = condition


class AlanceStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The source of a streaming query. Lives as long as the query does, in one process."""

    def __init__(self, schema: StructType, options: StreamOptions) -> None:
        self.schema = schema
        self.options = options
        self._table: Dataset | None = None
        self._target: int | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_table": None}

    def initialOffset(self) -> dict[str, int]:
        """Where a new query begins. Cost: one LIST and one GET."""
        return run(self._initial()).dict()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The rate limit of the options."""
        options = self.options
        if options.max_rows_per_batch is not None:
            return ReadMaxRows(options.max_rows_per_batch)
        if options.max_bytes_per_batch is not None:
            return ReadMaxBytes(options.max_bytes_per_batch)
        if options.max_fragments_per_batch is not None:
            return ReadMaxFiles(options.max_fragments_per_batch)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Note the version up to which this run reads."""
        self._target = run(self._latest())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, int]:
        """How far the next batch reads. Cost: a LIST, and two GETs a new version."""
        return run(self._next(Offset.of(start), limit)).dict()

    def reportLatestOffset(self) -> dict[str, int] | None:
        """Not told: it would cost requests that nothing needs."""
        return None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a batch. Cost: the manifests between, where they are not cached."""
        return run(self._partitions(Offset.of(start), Offset.of(end)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition."""
        if not isinstance(partition, StreamRows):
            return iter(())
        conditions = [
            condition for condition in (self.options.filter, partition.condition) if condition
        ]
        options = replace(
            self.options, filter=" AND ".join(f"({condition})" for condition in conditions) or None
        )
        reader = AlanceReader(self.schema, options, partition.version)
        return reader.read(partition)

    async def _open(self) -> Dataset:
        if self._table is None:
            self._table = await open_version(self.options)
        return self._table

    async def _latest(self) -> int:
        return await (await self._open()).latest_version()

    async def _initial(self) -> Offset:
        start = self.options.start
        if start.isdecimal():
            dataset = await open_version(self.options, int(start))
            return Offset(dataset.version, len(fragments_of(dataset)), True)
        dataset = await open_version(self.options)
        read = 0 if start == "snapshot" else len(fragments_of(dataset))
        return Offset(dataset.version, read, True)

    async def _next(self, start: Offset, limit: ReadLimit) -> Offset:
        target = await self._latest() if self._target is None else self._target
        room, end = _Room(limit), start
        async for added, first in self._added(start, target):
            if added.version > end.version:
                end = Offset(added.version, 0)
            for fragment in added.fragments[first:]:
                if not room.takes(fragment):
                    return end
                end = Offset(end.version, end.fragments + 1, end.snapshot)
        return end

    async def _partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        partitions: list[InputPartition] = []
        async for added, first in self._added(start, end.version):
            last = end.fragments if added.version == end.version else None
            ids = {fragment.id for fragment in added.fragments[first:last]}
            if ids:
                version = Version.of(added.dataset, self.options)
                rows = planned(added.dataset, self.schema.names, self.options, ids)
                partitions += [StreamRows(part, version, added.filter) for part in rows]
        return partitions

    async def _added(self, start: Offset, target: int) -> AsyncIterator[tuple[Added, int]]:
        """What the versions from an offset on added, and how much of it has been read."""
        table = await self._open()
        if start.snapshot:
            dataset = await open_version(self.options, start.version)
            everything = tuple(fragments_of(dataset))
            if start.fragments < len(everything):
                yield Added(start.version, dataset, everything), start.fragments
        elif start.version <= target:
            added = await added_by(table, start.version, self.options)
            if start.fragments < len(added.fragments):
                yield added, start.fragments
        for version in range(start.version + 1, min(target, start.version + MAX_VERSIONS) + 1):
            yield await added_by(table, version, self.options), 0


class _Room:
    """What is left of a rate limit; the first fragment always fits."""

    def __init__(self, limit: ReadLimit) -> None:
        self._limit = limit
        self._used = 0

    def takes(self, fragment: Fragment) -> bool:
        limit = self._limit
        if isinstance(limit, ReadMaxRows):
            cost, most = fragment.num_rows or fragment.physical_rows, limit.max_rows
        elif isinstance(limit, ReadMaxBytes):
            cost, most = fragment_bytes(fragment), limit.max_bytes
        elif isinstance(limit, ReadMaxFiles):
            cost, most = 1, limit.max_files
        else:
            return True
        if self._used and self._used + cost > most:
            return False
        self._used += max(1, cost)
        return True
