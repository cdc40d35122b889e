"""Jobs `delete` and `update`: rows selected by condition or key, and written on the executors."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

from alance import InvalidInputError
from alance.distributed import ROW_ADDRESS, RowUpdate, check_filter, delete_rows
from alance.spark.connector.changes import RowMoves, commit_changes, merged, offsets_of, write_moved
from alance.spark.jobs.base import Watch, place, spread
from alance.spark.jobs.changing import (
    MAX_CHANGE_ROUNDS,
    collected,
    num_rows,
    places,
    removed_on_failure,
    rounds,
    table_of,
    target_in_place,
)
from alance.spark.options import SPARK_PARTITION_BYTES, ReadOptions
from alance.spark.reader import planned, selected_rows
from alance.spark.session import parallelism_of
from alance.spark.versions import access
from alance.spark.worker import run

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from alance import Dataset
    from alance.distributed import Piece
    from alance.spark.committing import WriteTarget
    from alance.spark.connector.changes import RowChange
    from alance.spark.jobs.base import OnProgress, Summary


def delete(
    spark: SparkSession,
    uri: str,
    predicate: str | None = None,
    *,
    keys: DataFrame | None = None,
    on: Sequence[str] = (),
    max_rounds: int = MAX_CHANGE_ROUNDS,
    storage_options: Mapping[str, str] | None = None,
    on_progress: OnProgress | None = None,
) -> Summary:
    """Delete the rows that meet a condition, or whose key is in a DataFrame.

    Args:
        predicate: alance's SQL.
        keys: rows with the columns `on`; Spark chooses between broadcast and shuffle.
        on: key columns; a null key matches no row.

    Raises:
        InvalidInputError: neither predicate nor keys, or both; bad SQL or an unknown column.
        RetryableConflictError: other commits changed the same rows in every round.
    """
    if (predicate is None) == (keys is None) or (keys is not None and not on):
        raise InvalidInputError("expected a predicate, or keys with the columns `on`")
    where = place(spark, uri, storage_options)
    table = partial(table_of, spark, uri, storage_options)
    with Watch(spark, "delete", on_progress) as watch:

        def attempt(base: Dataset) -> tuple[Dataset, dict[str, int]]:
            check_filter(base, predicate)
            if keys is None:
                rows = table(base, [ROW_ADDRESS], filter=predicate)
            else:
                rows = table(base, [*on, ROW_ADDRESS])
                rows = rows.join(keys.select(*on).distinct(), list(on), "left_semi")
            gone = merged(collected(rows.select(ROW_ADDRESS), places))
            count = sum(len(rows) for rows in gone.values())
            if not count:
                return base, {"rows": 0}
            noted = predicate or f"key of {', '.join(on)}"
            return run(delete_rows(base, offsets_of(gone), noted)), {"rows": count}

        after, counts = rounds(where, attempt, max_rounds)
        return watch.summary(uri, after.version, **counts)


def update(
    spark: SparkSession,
    uri: str,
    updates: Mapping[str, str],
    where: str | None = None,
    *,
    partition_bytes: int = SPARK_PARTITION_BYTES,
    max_rounds: int = MAX_CHANGE_ROUNDS,
    storage_options: Mapping[str, str] | None = None,
    on_progress: OnProgress | None = None,
) -> Summary:
    """Give rows new values, each computed from the row's old values, like `Dataset.update`.

    Rows are moved to new files in the table's own types, without the JVM; with stable row ids they
    keep their `_rowid`. If no row meets the condition, no version is created.

    Cost: the executors scan the columns of `where`, then all columns of the rows that meet it.

    Args:
        updates: alance's SQL by column, cast to the columns' types.
        where: alance's SQL; None: all rows.
        partition_bytes: approximate encoded bytes that a task scans.

    Raises:
        InvalidInputError: before any task runs: an unknown column or bad SQL; during the tasks: a
            value that does not fit its column. The table is unchanged.
        UnsupportedError: an update of a field inside a column.
        RetryableConflictError: other commits changed the same rows in every round.
    """
    table = place(spark, uri, storage_options)
    work = RowUpdate(dict(updates), where)
    reading = ReadOptions(
        path=uri, filter=where, partition_bytes=partition_bytes, parallelism=parallelism_of(spark)
    )
    with Watch(spark, "update", on_progress) as watch:

        def attempt(base: Dataset) -> tuple[Dataset, dict[str, int]]:
            names = run(_checked(work, base))
            selected = run(selected_rows(base, names, reading))
            plan = planned(base, names, reading, selected=selected)
            splits = [rows.pieces for rows in plan]
            target = target_in_place(table, base)
            task = partial(_updated, target, work)
            moved = spread(spark, splits, task)
            count = num_rows(moved)
            if not count:
                return base, {"rows": 0}
            with removed_on_failure(table, moved):
                after = run(commit_changes(base, moved, [], merged(moved), list(updates)))
            return after, {"rows": count}

        after, counts = rounds(table, attempt, max_rounds)
        return watch.summary(uri, after.version, **counts)


async def _checked(work: RowUpdate, base: Dataset) -> list[str]:
    return work.check(base)


def _updated(target: WriteTarget, work: RowUpdate, pieces: Sequence[Piece]) -> RowChange:
    """Write the updated rows of a split on an executor, without reading a manifest."""
    moves, base = RowMoves(), target.base
    assert base is not None

    async def rows() -> AsyncGenerator[pa.RecordBatch, None]:
        options = access(base.options)
        batches = work.rows(base.record, base.options.path, pieces, **options)
        async with aclosing(batches):
            async for batch in batches:
                yield moves.note(batch)

    return run(write_moved(target, moves, rows()))
