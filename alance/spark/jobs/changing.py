"""Rounds, task results and cleanup after failures, for jobs that change rows."""

from __future__ import annotations

import pickle
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from alance import RetryableConflictError
from alance.distributed import append_schema, may_be_visible
from alance.spark import read
from alance.spark.committing import WriteTarget, remove_files
from alance.spark.connector.changes import RowMoves
from alance.spark.jobs.base import RESULT, result_batch
from alance.spark.versions import Version, open_version
from alance.spark.worker import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from alance import Dataset
    from alance.spark.connector.changes import RowChange
    from alance.spark.options import SparkWriteOptions

# Attempts; a new one, on a newer version, if a commit changed the same rows.
MAX_CHANGE_ROUNDS: Final = 5


def target_in_place(where: SparkWriteOptions, base: Dataset) -> WriteTarget:
    """Return the target for rows that replace rows of a version."""
    version = Version.of(base, where)
    return WriteTarget(where, version, base.version, base.uri, append_schema(base), overwrite=False)


@contextmanager
def removed_on_failure(where: SparkWriteOptions, changes: Sequence[RowChange]) -> Iterator[None]:
    """Remove the written files after an error, unless a version may name them."""
    try:
        yield
    except BaseException as error:
        if not may_be_visible(error):
            run(remove_files(where, [change.written for change in changes]))
        raise


def num_rows(changes: Sequence[RowChange]) -> int:
    """Return the number of written rows."""
    return sum(change.written.num_rows for change in changes if change.written is not None)


def rounds(
    where: SparkWriteOptions,
    attempt: Callable[[Dataset], tuple[Dataset, dict[str, int]]],
    max_rounds: int,
) -> tuple[Dataset, dict[str, int]]:
    """Run `attempt` on the latest version, and again after a conflict, up to `max_rounds` times.

    Returns the new version, and the counts of `attempt` with the number of `rounds`.
    """
    number = 1
    while True:
        try:
            after, counts = attempt(run(open_version(where)))
            return after, {**counts, "rounds": number}
        except RetryableConflictError:
            if number >= max_rounds:
                raise
            number += 1


def table_of(
    spark: SparkSession,
    uri: str,
    storage_options: Mapping[str, str] | None,
    base: Dataset,
    columns: list[str],
    filter: str | None = None,
) -> DataFrame:
    """Return columns of a version as a DataFrame."""
    return read(
        spark,
        uri,
        columns=columns,
        filter=filter,
        version=base.version,
        storage_options=storage_options,
    )


def collected(frame: DataFrame, work: Callable[[Iterator[pa.RecordBatch]], Any]) -> list[Any]:
    """Return the results of a function for each partition of a frame."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield result_batch(0, pickle.dumps(work(batches)))

    return [pickle.loads(bytes(row.result)) for row in frame.mapInArrow(task, RESULT).collect()]


def places(batches: Iterator[pa.RecordBatch]) -> RowChange:
    """Collect the addresses of rows to remove."""
    moves = RowMoves()
    for batch in batches:
        moves.note(batch)
    return moves.change()
