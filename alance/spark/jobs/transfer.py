"""Jobs `ingest` and `export`: from any source that Spark reads to a table, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from alance import InvalidInputError
from alance.distributed import fragments_of
from alance.spark import read, write
from alance.spark.jobs.base import Watch, place
from alance.spark.versions import open_if_there
from alance.spark.worker import run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from pyspark.sql import DataFrame, SparkSession

    from alance import Dataset
    from alance.spark.jobs.base import OnProgress, Summary
    from alance.spark.options import SelectArguments, WriteArguments

TARGET_BYTES: Final = 512 << 20  # bytes of a data file: some thousand files per terabyte
UNKNOWN_SIZE_BYTES: Final = 1 << 50  # bytes; Spark reports larger sizes if it has no estimate


def ingest(
    spark: SparkSession,
    source: str | DataFrame,
    uri: str,
    *,
    format: str = "parquet",
    source_options: Mapping[str, str] | None = None,
    schema: str | None = None,
    columns: Sequence[str] | None = None,
    mode: Literal["create", "append", "overwrite", "ignore"] = "append",
    sort_by: Sequence[str] = (),
    target_bytes: int = TARGET_BYTES,
    storage_options: Mapping[str, str] | None = None,
    on_progress: OnProgress | None = None,
    **options: Unpack[WriteArguments],
) -> Summary:
    """Write any source that Spark reads to a table, in one commit.

    Data files get about `target_bytes`. Without `sort_by` nothing is shuffled: small Spark
    partitions are combined, and a task begins a new file when one is full.

    Args:
        source: a DataFrame, or a path of files of `format` (parquet, json, csv, delta, ...).
        schema: schema of the source as Spark DDL; None: inferred by Spark.
        columns: SQL expressions to select; None: all columns.
        mode: `create`, `append`, `overwrite` or `ignore`; see `alance.spark.write`.
        sort_by: order of the table's rows; `-name` for descending.
        target_bytes: approximate bytes of a data file, estimated from the size of the source.
        options: options of the writer, such as `stable_row_ids` or `vectors`. With `txn_app` and
            `txn_version`, a repeated job writes nothing.

    Raises:
        InvalidInputError: `source` is neither a path nor a DataFrame.
        AlreadyExistsError, InvalidInputError: the write failed; inside Spark's AnalysisException.
    """
    with Watch(spark, "ingest", on_progress) as watch:
        frame = source if not isinstance(source, str) else None
        if isinstance(source, str):
            reader = spark.read.format(format).options(**(source_options or {}))
            frame = (reader.schema(schema) if schema else reader).load(source)
        if frame is None:
            raise InvalidInputError(f"source {source!r}: expected a path or a DataFrame")
        if columns is not None:
            frame = frame.selectExpr(*columns)
        frame = _laid_out(frame, sort_by, target_bytes)
        watch.step = "write"
        where = place(spark, uri, storage_options)
        before = run(open_if_there(where))
        options.setdefault("max_bytes_per_file", target_bytes)
        write(frame, uri, mode=mode, storage_options=storage_options, **options)
        after = run(open_if_there(where))
        rows, files = _size(after)
        old_rows, old_files = (0, 0) if mode == "overwrite" else _size(before)
        version = None if after is None else after.version
        return watch.summary(uri, version, rows=rows - old_rows, fragments=files - old_files)


def export(
    spark: SparkSession,
    uri: str,
    target: str,
    *,
    format: str = "parquet",
    mode: str = "error",
    target_options: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    on_progress: OnProgress | None = None,
    **options: Unpack[SelectArguments],
) -> Summary:
    """Write a table to files of a Spark format.

    Args:
        mode: mode of Spark's writer: `error`, `append`, `overwrite` or `ignore`.
        options: options of the reader: `version`, `columns`, `filter`, ...
    """
    with Watch(spark, "export", on_progress) as watch:
        watch.step = "write"
        frame = read(spark, uri, storage_options=storage_options, **options)
        writer = frame.write.format(format).mode(mode).options(**(target_options or {}))
        writer.save(target)
        return watch.summary(uri, None, target=target)


def _laid_out(frame: DataFrame, sort_by: Sequence[str], target_bytes: int) -> DataFrame:
    """Repartition rows into about one partition per file of `target_bytes`, sorted by `sort_by`.

    Without an estimate of the size, Spark chooses the number of partitions.
    """
    size = _estimate(frame)
    num_files = None if size is None else max(1, -(-size // target_bytes))
    if sort_by:
        from pyspark.sql import functions as f

        keys = [
            f.col(name.lstrip("-")).desc() if name[0] == "-" else f.col(name) for name in sort_by
        ]
        ranged = frame.repartitionByRange(*([num_files, *keys] if num_files else keys))
        return ranged.sortWithinPartitions(*keys)
    return frame if num_files is None else frame.coalesce(num_files)


def _estimate(frame: DataFrame) -> int | None:
    """Return Spark's estimate of the bytes of a frame; None if unknown, or with Spark Connect."""
    plan = getattr(frame, "_jdf", None)
    if plan is None:
        return None
    size = int(str(plan.queryExecution().optimizedPlan().stats().sizeInBytes()))
    return size if size < UNKNOWN_SIZE_BYTES else None


def _size(dataset: Dataset | None) -> tuple[int, int]:
    """Return the numbers of rows and fragments, without the rows of fragments of unknown size."""
    if dataset is None:
        return 0, 0
    fragments = fragments_of(dataset)
    return sum(fragment.num_rows or 0 for fragment in fragments), len(fragments)
