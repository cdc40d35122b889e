"""Job `backfill`: new columns, one task per fragment, one commit; resumes after an interruption."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from alance import BatchUdf, InvalidInputError, RetryableConflictError
from alance.distributed import ColumnBackfill, fragments_of, get_object, put_once
from alance.spark.jobs.base import Watch, place, spread
from alance.spark.types import arrow_schema, nullable
from alance.spark.versions import Version, access, open_version
from alance.spark.worker import run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from alance import Dataset, DatasetFragment
    from alance.spark.jobs.base import OnProgress, Summary
    from alance.spark.options import SparkWriteOptions


@dataclass(frozen=True, slots=True)
class BackfillWork:
    """Work of a backfill that all tasks share. Pickled once.

    Attributes:
        columns: expressions of the new columns.
        checkpoint: folder with a note of each finished file; None: no notes.
    """

    options: SparkWriteOptions
    columns: ColumnBackfill
    checkpoint: str | None

    def note(self, fragment_id: int, source: str) -> str:
        """Return the path of the note about the new file of a fragment."""
        name = hashlib.sha256(f"{source}|{self.key()}".encode()).hexdigest()[:24]
        return f"{(self.checkpoint or '').rstrip('/')}/{fragment_id}-{name}"

    def key(self) -> str:
        """Return a key of the computation: its SQL expressions or its function's result schema."""
        transforms: Any = self.columns.transforms
        if isinstance(transforms, Mapping):
            return repr(sorted(transforms.items()))
        return str(transforms.output_schema)


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
    work = BackfillWork(where, new, checkpoint)
    done: dict[int, tuple[str, bytes]] = {}
    resumed = rounds = 0
    with Watch(spark, "backfill", on_progress) as watch:
        while True:
            dataset = run(open_version(where))
            run(new.check(dataset))
            resumed += run(_recall(dataset, work, done))
            todo = [fragment for fragment in dataset.fragments if not _is_done(fragment, done)]
            watch.step, rounds = f"round {rounds + 1}: {len(todo)} fragments", rounds + 1
            items = [fragment.metadata.message.SerializeToString() for fragment in todo]
            version = Version.of(dataset, where)
            for number, source, record in spread(spark, items, partial(_execute, work, version)):
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


def _is_done(fragment: DatasetFragment, done: Mapping[int, tuple[str, bytes]]) -> bool:
    number = fragment.fragment_id
    return number in done and done[number][0] == ColumnBackfill.source(fragment)


async def _recall(dataset: Dataset, work: BackfillWork, done: dict[int, tuple[str, bytes]]) -> int:
    """Load the checkpoint's notes for a version's fragments; return the number of notes."""
    if work.checkpoint is None:
        return 0
    count = 0
    for fragment in dataset.fragments:
        if _is_done(fragment, done):
            continue
        number, source = fragment.fragment_id, ColumnBackfill.source(fragment)
        record = await get_object(work.note(number, source), **access(work.options))
        if record is not None:
            done[number] = (source, record)
            count += 1
    return count


def _execute(work: BackfillWork, version: Version, item: bytes) -> tuple[int, str, bytes]:
    """Compute the new file of one fragment, on an executor."""

    async def compute() -> tuple[int, str, bytes]:
        (fragment,) = version.dataset([item]).fragments
        source, record = await work.columns.execute(fragment)
        number = fragment.fragment_id
        if work.checkpoint is not None:
            # If another attempt of this task was first, that attempt's file is used.
            note = work.note(number, source)
            record = await put_once(note, record, **access(work.options))
        return number, source, record

    return run(compute())
