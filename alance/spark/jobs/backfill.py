"""Job `backfill`: new columns, one task per fragment, one commit; resumes after an interruption."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from alance import BatchUdf, InvalidInputError, RetryableConflictError
from alance.distributed import BackfillNotes, ColumnBackfill, fragments_of
from alance.spark.jobs.base import Watch, place, spread
from alance.spark.types import arrow_schema, nullable
from alance.spark.versions import Version, access, open_version
from alance.spark.worker import run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from alance.spark.jobs.base import OnProgress, Summary


def backfill(
    spark: SparkSession,
    uri: str,
    columns: Mapping[str, str] | Callable[[pa.RecordBatch], Any],
    *,
    schema: str | pa.Schema | None = None,
    read_columns: Sequence[str] | None = None,
    batch_size: int | None = None,
    checkpoint: str | None = None,
    max_rounds: int = 5,
    storage_options: Mapping[str, str] | None = None,
    on_progress: OnProgress | None = None,
) -> Summary:
    """Add columns to all fragments: each gets one more file, its other files are unchanged.

    Fragments that other commits add meanwhile are computed in another round, before the commit.

    Args:
        columns: alance's SQL by new column; or a function that is called with batches of live rows,
            and returns a RecordBatch, Table or pandas frame with as many rows.
        schema: schema of a function's results: a pyarrow schema, or text such as `"v
            array<float>"`.
        read_columns: columns passed to a function; None: all.
        checkpoint: URI of a folder. An interrupted job that runs again with it computes only the
            missing files. The folder is never removed; its notes of other expressions are ignored.
        max_rounds: maximum number of rounds; a round fails if another commit was first.

    Raises:
        InvalidInputError: a column that exists, bad SQL, values that do not fit.
        RetryableConflictError: other commits were first in every round.
        PythonException: (of Spark) around an error of a task.
    """
    where = place(spark, uri, storage_options)
    read = None if read_columns is None else tuple(read_columns)
    new = ColumnBackfill(_transforms(columns, schema), read, batch_size)
    notes = BackfillNotes(new, checkpoint)
    done: dict[int, tuple[str, bytes]] = {}
    resumed = rounds = 0
    with Watch(spark, "backfill", on_progress) as watch:
        while True:
            dataset = run(open_version(where))
            run(new.check(dataset))
            resumed += run(notes.recall(dataset, done, **access(where)))
            todo = notes.remaining(dataset, done)
            watch.step, rounds = f"round {rounds + 1}: {len(todo)} fragments", rounds + 1
            items = [fragment.metadata.message.SerializeToString() for fragment in todo]
            version = Version.of(dataset, where)
            for number, source, record in spread(spark, items, partial(_execute, notes, version)):
                done[number] = (source, record)
            try:
                files = {number: record for number, (_, record) in done.items()}
                after = run(new.commit(dataset, files))
                break
            except RetryableConflictError:
                if rounds >= max_rounds:
                    raise
        return watch.summary(
            uri,
            after.version,
            fragments=len(fragments_of(after)),
            computed=len(done) - resumed,
            resumed=resumed,
            rounds=rounds,
        )


def _transforms(columns: Any, schema: str | pa.Schema | None) -> Any:
    if isinstance(columns, Mapping):
        if schema is not None:
            raise InvalidInputError("schema: only of a function; SQL tells its types")
        return dict(columns)
    if schema is None and not isinstance(columns, BatchUdf):
        raise InvalidInputError("schema: expected with a function, such as 'v array<float>'")
    if isinstance(schema, str):
        from pyspark.sql.types import StructType

        parsed = StructType.fromDDL(schema)
        if not isinstance(parsed, StructType):
            raise InvalidInputError(f"schema {schema!r}: expected columns, as 'v array<float>'")
        arrow = arrow_schema(parsed)
        schema = pa.schema([pa.field(column.name, nullable(column.type)) for column in arrow])
    return columns if schema is None else BatchUdf(columns, schema)


def _execute(notes: BackfillNotes, version: Version, item: bytes) -> tuple[int, str, bytes]:
    """Compute the new file of one fragment, on an executor."""

    async def compute() -> tuple[int, str, bytes]:
        (fragment,) = version.dataset([item]).fragments
        return await notes.execute(fragment, **access(version.options))

    return run(compute())
