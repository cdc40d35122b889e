"""Source of streaming queries in the Python data source, for sessions without the connector.

Spark gives the source's process ten seconds to start; the connector has no such limit.
"""

from __future__ import annotations

from dataclasses import replace
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

from alance.spark.following import (
    BYTES_UNIT,
    FILES_UNIT,
    ROWS_UNIT,
    Limit,
    Offset,
    StreamFollower,
    filtered,
)
from alance.spark.reader import PartitionRows, read_pieces
from alance.spark.types import arrow_schema, converted
from alance.spark.worker import run, stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from alance.spark.following import StreamPart
    from alance.spark.options import StreamOptions

_LIMITS: Final[Mapping[str, Callable[[int], ReadLimit]]] = {
    ROWS_UNIT: ReadMaxRows,
    BYTES_UNIT: ReadMaxBytes,
    FILES_UNIT: ReadMaxFiles,
}


class StreamRows(PartitionRows):
    """Partition of a stream: rows of fragments, their version, a filter and the columns."""

    def __init__(self, rows: PartitionRows, part: StreamPart) -> None:
        super().__init__(rows.pieces)
        self.version = part.version
        self.condition = part.condition
        self.columns = part.columns


class AlanceStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader of a streaming query. Lives in one process for the whole query."""

    def __init__(self, schema: StructType, options: StreamOptions) -> None:
        self.schema = schema
        self.options = options
        self._follower: StreamFollower | None = StreamFollower(options)
        self._target: int | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_follower": None}

    @property
    def _following(self) -> StreamFollower:
        if self._follower is None:
            self._follower = StreamFollower(self.options)
        return self._follower

    def initialOffset(self) -> dict[str, int]:
        """Return the first offset of a new query.

        Cost: one GET, and one LIST unless `start` is a number.
        """
        return run(self._following.initial()).dict()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the rate limit of the options; without one, all rows that are available."""
        limit = Limit.of(self.options)
        return ReadAllAvailable() if limit is None else _LIMITS[limit.unit](limit.most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Record the latest version, which is the last that this run reads."""
        self._target = run(self._following.latest())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, int]:
        """Return the end of the next batch. Cost: as `StreamFollower.next`."""
        ours = None if isinstance(limit, ReadAllAvailable) else Limit.of(self.options)
        return run(self._following.next(Offset.of(start), ours, self._target)).dict()

    def reportLatestOffset(self) -> dict[str, int] | None:
        """Return None: an answer would cost requests, and nothing needs it."""
        return None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Plan the tasks of a batch. Cost: two GETs for each version of the batch."""
        names = self.schema.names
        parts = run(self._following.parts(Offset.of(start), Offset.of(end), names))
        return [StreamRows(rows, part) for part in parts for rows in part.rows]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of a partition."""
        if not isinstance(partition, StreamRows):
            return iter(())
        options = replace(self.options, filter=filtered(self.options, partition.condition))
        schema, columns = arrow_schema(self.schema), partition.columns
        batches = stream(read_pieces(partition.version, columns.names, options, partition.pieces))
        return (converted(columns.rows(batch), schema) for batch in batches)
