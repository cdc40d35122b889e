"""Writing a DataFrame or a streaming query: tasks write data files, the driver commits them.

A DataFrame becomes one version, and so does each micro-batch of a query, exactly once. After a
failure Spark runs a batch again, even if the version was created and only its success was not
recorded. So the transaction names the query and the number of the batch (`versioning/tokens`). The
driver searches the table's history for them before a commit, and the commit fails if a newer
version has them.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from alance import InvalidInputError, NotFoundError
from alance.distributed import append_schema, conform
from alance.spark.committing import (
    WriteTarget,
    WrittenFiles,
    commit_rows,
    may_be_committed,
    noted_commit,
    producer_of,
    refuse_columns,
    refuse_existing,
    remove_files,
    write_rows,
)
from alance.spark.connector.keeping import descriptions
from alance.spark.types import arrow_schema, new_table_schema
from alance.spark.versions import Version, open_if_there
from alance.spark.worker import release, run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql.types import StructType

    from alance import Dataset
    from alance.spark.options import SparkWriteOptions


async def target_of(
    schema: StructType,
    options: SparkWriteOptions,
    *,
    overwrite: bool,
    keeps_required: bool = False,
) -> WriteTarget | None:
    """Return the target of a write; None if the table exists and `if_exists` is `ignore`.

    Cost: one LIST and one GET.

    Args:
        overwrite: True if the rows replace the existing rows; with `keep_schema` they are cast to
            the table's columns.
        keeps_required: True to make columns of a new table required if they are required in the
            rows.

    Raises:
        AlreadyExistsError: the table exists, and the options refuse an existing table.
        NotFoundError: there is no such branch.
        InvalidInputError: columns that do not fit the table.
    """
    dataset = await open_if_there(options)
    if dataset is None and options.branch is not None:
        raise NotFoundError(f"no branch {options.branch!r}: there is no table at {options.path!r}")
    vectors = options.vector_lengths()
    base: Version | None = None
    if dataset is not None and (options.keep_schema or not overwrite):
        if not overwrite:
            refuse_existing(options, dataset.version)
            if options.if_exists == "ignore":
                return None
        if options.merge_schema:
            dataset = await _grown(dataset, schema, vectors)
        if not overwrite:
            base = Version.of(dataset, options)
        table_schema, row_schema = append_schema(dataset), arrow_schema(schema)
        described = descriptions(row_schema, table_schema)
        row_schema = pa.schema([field for field in row_schema if field.name not in described])
        refuse_columns(row_schema, table_schema)
        conform(pa.RecordBatch.from_pylist([], schema=row_schema), table_schema)
    else:
        table_schema = new_table_schema(schema, vectors, keeps_required=keeps_required)
    if dataset is None:
        return WriteTarget(options, base, 0, options.path, table_schema, overwrite)
    return WriteTarget(options, base, dataset.version, dataset.uri, table_schema, overwrite)


async def _grown(dataset: Dataset, schema: StructType, vectors: Mapping[str, int]) -> Dataset:
    """Add the columns that a table lacks, with nulls in its rows; return the new version."""
    names = dataset.schema.names
    fields = [field for field in new_table_schema(schema, vectors) if field.name not in names]
    return await dataset.add_columns(fields) if fields else dataset


class AlanceWriter(DataSourceArrowWriter):
    """One write. Pickled into each task, and into the processes that commit or abort."""

    def __init__(self, schema: StructType, options: SparkWriteOptions, *, overwrite: bool) -> None:
        self.options = options
        self.job = uuid.uuid4().hex
        self.target = run(target_of(schema, options, overwrite=overwrite))

    def __repr__(self) -> str:
        return f"AlanceWriter({self.options.path!r})"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task."""
        if self.target is None:
            return WrittenFiles((), 0, 0, 0, self.options.path)
        try:
            return run(write_rows(self.target, iterator))
        finally:
            release()

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the rows that all tasks wrote as one version."""
        if self.target is None:
            return
        producer, appends = producer_of(self.options), self.target.base is not None
        with noted_commit(self.job):
            run(commit_rows(self.target, written(messages), producer, appends=appends))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove the files that the tasks wrote, unless a version may name them."""
        if not may_be_committed(self.job):
            run(remove_files(self.options, written(messages)))


def written(messages: Sequence[WriterCommitMessage | None]) -> list[WrittenFiles]:
    """Return the messages of the tasks that finished."""
    return [message for message in messages if isinstance(message, WrittenFiles)]


QUERY: Final = "sql.streaming.queryId"  # constant for a checkpoint, across restarts


class AlanceStreamWriter(DataSourceStreamArrowWriter):
    """Sink of a streaming query. Created separately for each batch and for each commit."""

    def __init__(self, schema: StructType, options: SparkWriteOptions, *, overwrite: bool) -> None:
        check_sink(options)
        self.options = options
        self.schema = schema
        self.overwrite = overwrite
        self.target = run(target_of(schema, options, overwrite=overwrite))

    def __repr__(self) -> str:
        return f"AlanceStreamWriter({self.options.path!r})"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task."""
        assert self.target is not None
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(QUERY)
        try:
            return run(write_rows(self.target, iterator, query))
        finally:
            release()

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """Commit a batch's rows as one version, unless the batch is already committed."""
        parts = written(messages)
        if not parts or self.target is None:
            return
        query = self.options.txn_app or parts[0].query
        if query is None:
            raise InvalidInputError(
                "the streaming query has no id that its tasks can see; name it by option txn_app"
            )
        with noted_commit(job_of(query, batch_id)):
            target, appends = self._as_written(parts[0]), parts[0].schema is None
            run(commit_rows(target, parts, (query, batch_id), appends=appends))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """Remove the files that the tasks wrote, unless a version may name them."""
        parts = written(messages)
        query = self.options.txn_app or (parts[0].query if parts else None)
        if parts and not (query and may_be_committed(job_of(query, batch_id))):
            run(remove_files(self.options, parts))

    def _as_written(self, message: WrittenFiles) -> WriteTarget:
        """Return the target as the tasks saw it; the table may have changed after the plan."""
        assert self.target is not None
        return replace(
            self.target,
            base_version=message.base_version,
            uri=message.uri,
            schema=message.schema or self.target.schema,
        )


def check_sink(options: SparkWriteOptions) -> None:
    """Raise `InvalidInputError` if options are not valid for a stream."""
    if options.if_exists != "append":
        raise InvalidInputError("if_exists: a stream appends, or overwrites in complete mode")
    if options.txn_version is not None:
        raise InvalidInputError("txn_version: batches of a stream have numbers of their own")


def job_of(query: str, batch_id: int) -> str:
    """Return the name of a batch's commit."""
    return uuid.uuid5(uuid.NAMESPACE_URL, f"{query}/{batch_id}").hex
