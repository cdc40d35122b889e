"""Reading a table: the driver plans from the manifest, tasks read Arrow batches.

Spark plans a DataFrame once and keeps the reader, with the filters that it was told of, for all
later queries of the DataFrame (4.1 to 4.3): a filter taken over for one query would drop the rows
of the next. So filters are taken over only where `pushdown` says that there will be one query.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader

from alance import ScanOptions
from alance.distributed import ROW_ADDRESS, ROW_ID, field_ids, fragments_of, read_split
from alance.spark.filters import as_sql
from alance.spark.planning import Rows, plan
from alance.spark.types import arrow_schema, converted
from alance.spark.versions import access
from alance.spark.worker import stream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import Filter, InputPartition
    from pyspark.sql.types import StructType

    from alance import Dataset
    from alance.distributed import Piece
    from alance.spark.options import ReadOptions
    from alance.spark.versions import Version


def columns_of(dataset: Dataset, options: ReadOptions) -> list[str]:
    """The columns that a read gives, in its order."""
    names = options.columns
    found = list(dataset.schema.names if names is None else names)
    for asked, name in ((options.with_row_id, ROW_ID), (options.with_row_address, ROW_ADDRESS)):
        if asked and name not in found:
            found.append(name)
    return found


def planned(
    dataset: Dataset,
    names: Sequence[str],
    options: ReadOptions,
    ids: Collection[int] | None = None,
) -> list[Rows]:
    """The partitions of a read of some columns of a version, or of some of its fragments."""
    fragments = [one for one in fragments_of(dataset) if ids is None or one.id in ids]
    return plan(fragments, field_ids(dataset, names), options)


class AlanceReader(DataSourceReader):
    """Reads one version. Pickled into each task."""

    def __init__(
        self,
        schema: StructType,
        options: ReadOptions,
        version: Version,
        dataset: Dataset | None = None,
    ) -> None:
        self.schema = schema
        self.options = options
        self.version = version
        self._dataset = dataset

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_dataset": None}

    def __repr__(self) -> str:
        return f"AlanceReader({self.options.path!r})"

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the tasks. Spark has pickled the reader before: what is set here is not seen there.

        Cost: no request, the manifest has been read; about 10 us a fragment.
        """
        assert self._dataset is not None
        return planned(self._dataset, self.schema.names, self.options)

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
    chosen = ScanOptions(
        filter=options.filter,
        limit=options.limit,
        batch_size=options.batch_size,
        io_buffer_bytes=options.memory_bytes,
        blob_handling="all_binary" if options.blobs == "bytes" else "blobs_descriptions",
    )
    batches = read_split(
        version.record, version.options.path, pieces, names, chosen, **access(version.options)
    )
    async with aclosing(batches):
        async for batch in batches:
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
