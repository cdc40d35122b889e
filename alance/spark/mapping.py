"""`map_batches`: runs a function over Arrow batches of a table inside Spark's Python workers.

The batches never pass through the JVM. The JVM sends one row per partition to the workers, and
receives the function's results.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from alance import InvalidInputError
from alance.distributed import check_filter
from alance.spark.options import ReadOptions
from alance.spark.reader import columns_of, planned, read_pieces, selected_rows
from alance.spark.types import arrow_schema, converted, spark_schema
from alance.spark.versions import Version, open_for_read, pinned
from alance.spark.worker import run, stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from pyspark.sql import DataFrame, SparkSession

    from alance import Dataset
    from alance.distributed import Piece

    Function: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class MapWork:
    """Work that all tasks of a `map_batches` share. Pickled once.

    Attributes:
        names: names of the columns to read.
        partitions: fragments and rows of each task.
        schema: Arrow schema in which Spark takes the results.
    """

    function: Function
    version: Version
    options: ReadOptions
    names: tuple[str, ...]
    partitions: tuple[tuple[Piece, ...], ...]
    schema: pa.Schema


def mapped(
    spark: SparkSession,
    function: Function,
    schema: object,
    texts: Mapping[str, str],
    storage_options: Mapping[str, str] | None,
) -> DataFrame:
    """Return the results of a function as a DataFrame; see `alance.spark.map_batches`."""
    from pyspark.sql.types import StructType

    read_options = ReadOptions.parse(texts, storage_options)
    dataset, options, names = run(_opened(read_options))
    if isinstance(schema, pa.Schema):
        schema = spark_schema(schema)
    elif isinstance(schema, str):
        schema = StructType.fromDDL(schema)
    assert isinstance(schema, StructType)
    selected = run(selected_rows(dataset, names, options))
    plan = planned(dataset, names, options, selected=selected)
    partitions = tuple(rows.pieces for rows in plan)
    version = Version.of(dataset, options)
    work = MapWork(function, version, options, tuple(names), partitions, arrow_schema(schema))
    count = len(partitions)
    frame = spark.range(0, count, 1, max(1, count))
    return frame.mapInArrow(partial(_mapped, work), schema)


async def _opened(wish: ReadOptions) -> tuple[Dataset, ReadOptions, Sequence[str]]:
    """Open the version to read, and check the filter. Returns version, pinned options, columns."""
    dataset = await open_for_read(wish)
    options = pinned(wish, dataset)
    names = columns_of(dataset, options)
    check_filter(dataset, options.filter)
    return dataset, options, names


def _mapped(work: MapWork, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run the function on the partitions with these numbers, on an executor."""
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            pieces = work.partitions[number]
            rows = stream(read_pieces(work.version, work.names, work.options, pieces))
            for result in work.function(rows):
                if not set(work.schema.names) <= set(result.schema.names):
                    raise InvalidInputError(
                        f"map_batches: the function gave columns {result.schema.names}, expected "
                        f"{work.schema.names}"
                    )
                yield converted(result, work.schema)
