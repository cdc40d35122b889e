"""The data source `alance`: entry point of Spark for readers and writers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import DataSource

from alance.distributed import check_filter
from alance.spark.options import ReadOptions, SparkWriteOptions, StreamOptions
from alance.spark.reader import AlanceReader, PushingReader, columns_of
from alance.spark.stream_reader import AlanceStreamReader
from alance.spark.types import spark_schema
from alance.spark.versions import Version, open_for_read, pinned
from alance.spark.worker import run
from alance.spark.writer import AlanceStreamWriter, AlanceWriter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

    from alance import Dataset


class AlanceSource(DataSource):
    """Data source of Lance tables for Spark. `alance.spark.options` describes the options."""

    defaults: ClassVar[Mapping[str, str]] = {}
    pinned_options: ReadOptions | None = None

    @classmethod
    def name(cls) -> str:
        """Name of the source in `.format(...)`."""
        return "alance"

    def _read_options(self) -> ReadOptions:
        return self.pinned_options or ReadOptions.parse(self.options, self.defaults)

    def schema(self) -> StructType:
        """Return the columns of the version that the options name, for the DataFrame.

        Cost: as `opened`.
        """
        return run(self.opened())[2]

    async def opened(self) -> tuple[ReadOptions, Dataset, StructType]:
        """Open the version that the options name; return pinned options, version and columns.

        Cost: as `open_version`; for a time, as `alance.dataset` with `asof`.
        """
        streams = any(name.lower().replace("_", "") in STREAM_ONLY for name in self.options)
        kind = StreamOptions if streams else ReadOptions
        options = kind.parse(self.options, self.defaults)
        dataset = await open_for_read(options)
        check_filter(dataset, options.filter)
        if not streams:
            self.pinned_options = options = pinned(options, dataset)
        columns, blobs = columns_of(dataset, options), options.blob_handling
        scanner = dataset.scanner(columns, filter=options.filter, blob_handling=blobs)
        return options, dataset, spark_schema(scanner.projected_schema)

    def reader(self, schema: StructType) -> AlanceReader:
        """Return a reader of the columns of a schema, which the user may have given.

        Cost: one GET of the manifest; for the latest version also a LIST.
        """
        options = self._read_options()
        kind = PushingReader if options.pushdown else AlanceReader
        dataset = run(open_for_read(options))
        return kind(schema, options, Version.of(dataset, options), dataset)

    def streamReader(self, schema: StructType) -> AlanceStreamReader:
        """Return a reader that follows the versions of the table."""
        return AlanceStreamReader(schema, self.stream_options())

    def stream_options(self) -> StreamOptions:
        """Parse the options for following the table."""
        return StreamOptions.parse(self.options, self.defaults)

    def writer(self, schema: StructType, overwrite: bool) -> AlanceWriter:
        """Return a writer of rows with a schema. Cost: one LIST and one GET."""
        options = SparkWriteOptions.parse(self.options, self.defaults)
        return AlanceWriter(schema, options, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> AlanceStreamWriter:
        """Return the sink of a streaming query. Cost: one LIST and one GET."""
        options = SparkWriteOptions.parse(self.options, self.defaults)
        return AlanceStreamWriter(schema, options, overwrite=overwrite)


STREAM_ONLY = frozenset(
    name.replace("_", "")
    for name in StreamOptions.__dataclass_fields__
    if name not in ReadOptions.__dataclass_fields__
)


def with_defaults(storage_options: Mapping[str, str]) -> type[AlanceSource]:
    """Return a data source class with default storage options, which no plan or log shows."""

    class SourceWithDefaults(AlanceSource):
        defaults: ClassVar[Mapping[str, str]] = dict(storage_options)

    return SourceWithDefaults
