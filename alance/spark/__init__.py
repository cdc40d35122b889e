"""Lance tables in PySpark 4: a data source `alance`, and the jobs of a pipeline.

    alance.spark.register(spark)
    frame = spark.read.format("alance").option("columns", "id,text").load("s3://bucket/table")
    frame.write.format("alance").mode("append").save("s3://bucket/other")

Importing this module does not import pyspark, and starts no Java. See docs/spark.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alance.spark.session import parallelism_of, register, register_once, storage_of
from alance.spark.worker import once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Literal, TypeAlias, Unpack

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from alance.spark.options import ReadArguments, WriteArguments

    Mode: TypeAlias = Literal["create", "error", "ignore", "append", "overwrite"]

__all__ = ["map_batches", "once", "read", "register", "write"]

FORMAT = "alance"


def read(
    spark: SparkSession,
    uri: str | Sequence[str],
    *,
    columns: Sequence[str] | None = None,
    filter: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    **options: Unpack[ReadArguments],
) -> DataFrame:
    """Return a table as a DataFrame, reading only the columns and rows named here.

    With the connector (docs/spark.md), Spark prunes columns and pushes filters down by itself, and
    nothing has to be named. Without it, name them here: Spark does not pass the columns of a query
    to Python sources, and a filter that it pushed would also apply to later queries of the
    DataFrame.

    Args:
        uri: URI of a table, or several URIs, whose rows follow each other. All tables must have the
            columns of the first.
        columns: names of columns; None: all.
        filter: SQL text, see `Dataset.to_table`.
        storage_options: options of the store, in addition to those of `register`.
        options: options of the source, such as `version`, `branch` or `with_row_id`. `parallelism`
            defaults to the session's.

    Raises:
        InvalidInputError: tables with different columns, or no URI.
        AnalysisException: (of Spark) around alance's own error.
    """
    register_once(spark)
    options.setdefault("parallelism", parallelism_of(spark))
    reader = spark.read.format(FORMAT)
    if columns is not None:
        reader = reader.option("columns", _json(list(columns)))
    if filter is not None:
        reader = reader.option("filter", filter)
    texts = _texts({**options, "storage_options": storage_options})
    reader = reader.options(**texts)
    return reader.load(uri) if isinstance(uri, str) else _union([*map(reader.load, uri)], uri)


def _union(frames: Sequence[DataFrame], uris: Sequence[str]) -> DataFrame:
    from alance import InvalidInputError

    if not frames:
        raise InvalidInputError("no table: expected a URI, or a list of some")
    whole = frames[0]
    for frame, uri in zip(frames[1:], uris[1:], strict=True):
        if {*frame.dtypes} != {*whole.dtypes}:
            raise InvalidInputError(
                f"{uri!r} has columns {frame.dtypes}, {uris[0]!r} has {whole.dtypes}; name those "
                "that all have by `columns`"
            )
        whole = whole.unionByName(frame)
    return whole


def map_batches(
    spark: SparkSession,
    uri: str,
    function: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]],
    schema: str | StructType | pa.Schema,
    *,
    columns: Sequence[str] | None = None,
    filter: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    **options: Unpack[ReadArguments],
) -> DataFrame:
    """Return a DataFrame of a function's results over the Arrow batches of a table.

    This is `read(...).mapInArrow(function, schema)`, but the batches are read in the process that
    runs the function. They do not pass through the JVM, which would cost several times as much as
    reading them. The results pass through it, so they should be smaller: counts, sums, selected
    rows, file names.

    Cost: one LIST and one GET on the driver. Each task gets the records of all fragments, 130 bytes
    each.

    Args:
        function: called once per partition with an iterator of its batches, in row order, in the
            table's own Arrow types (vectors, dictionaries); returns batches with the columns of
            `schema`. It is pickled into the tasks, and runs again if a task is retried.
        schema: schema of the results: a schema of Spark or Arrow, or text such as `"day date, total
            double"`.
        columns: columns to read; None: all.
        filter: SQL text, see `Dataset.to_table`.
        storage_options: options of the store, in addition to those of `register`.
        options: options of the source, such as `version` or `with_row_id`. `partition_bytes`
            defaults to 256 MiB, or less if there would be fewer partitions than cores.

    Raises:
        InvalidInputError, NotFoundError: an unknown column or option, bad SQL, no such table.
        PythonException: (of Spark) around an error of the function, when the frame is used.
    """
    from alance.spark.mapping import mapped

    options.setdefault("parallelism", parallelism_of(spark))
    options.setdefault("partition_bytes", 256 << 20)
    texts = _texts({**options, "columns": columns, "filter": filter, "path": uri})
    return mapped(spark, function, schema, texts, storage_of(spark, storage_options))


def write(
    frame: DataFrame,
    uri: str,
    *,
    mode: Mode = "create",
    storage_options: Mapping[str, str] | None = None,
    **options: Unpack[WriteArguments],
) -> None:
    """Write a DataFrame in one commit.

    Args:
        mode: `create`: the table must not exist; `ignore`: do nothing if the table exists; `append`
            or `overwrite`: create the table if it does not exist. Spark's own `.mode(...)` accepts
            only `append` and `overwrite` for Python sources.
        storage_options: options of the store, in addition to those of `register`.
        options: options of the source, such as `stable_row_ids`.

    Raises:
        AnalysisException, Py4JJavaError: (of Spark) around alance's own error.
    """
    register_once(frame.sparkSession)
    texts = _texts({**options, "storage_options": storage_options})
    if mode in ("create", "error", "ignore"):
        texts["if_exists"] = "ignore" if mode == "ignore" else "error"
        mode = "append"
    frame.write.format(FORMAT).mode(mode).options(**texts).save(uri)


def _texts(options: Mapping[str, Any]) -> dict[str, str]:
    texts = {}
    for name, value in options.items():
        if value is None:
            continue
        if isinstance(value, bool):
            texts[name] = str(value).lower()
        elif isinstance(value, str | int):
            texts[name] = str(value)
        else:
            texts[name] = _json(dict(value) if hasattr(value, "items") else list(value))
    return texts


def _json(value: object) -> str:
    import json

    return json.dumps(value)
