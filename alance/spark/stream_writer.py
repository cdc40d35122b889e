"""Writing a streaming query: one version a micro-batch, and each batch once.

Spark runs a batch again after a failure, also when the version was made and only its success was
not noted. So the transaction names the query and the number of the batch (`versioning/tokens`):
before a commit the driver looks for them in the table's history, and the commit itself refuses to
follow a version that has them.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from alance import InvalidInputError
from alance.distributed import may_be_visible
from alance.spark.committing import (
    Written,
    commit_rows,
    remove_files,
    write_rows,
)
from alance.spark.marks import begin_commit, committed, may_be_committed, not_committed
from alance.spark.types import new_table_schema
from alance.spark.worker import release, run
from alance.spark.writer import target_of, written

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from alance.spark.committing import Target
    from alance.spark.options import WriteOptions

QUERY: Final = "sql.streaming.queryId"  # stays the same for a checkpoint, over restarts


class AlanceStreamWriter(DataSourceStreamArrowWriter):
    """The sink of a streaming query. Made anew for each batch, and for each commit."""

    def __init__(self, schema: StructType, options: WriteOptions, *, overwrite: bool) -> None:
        if options.if_exists != "append":
            raise InvalidInputError("if_exists: a stream appends, or overwrites in complete mode")
        if options.txn_version is not None:
            raise InvalidInputError("txn_version: batches of a stream have numbers of their own")
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
        """Make one version of what all tasks of a batch wrote, unless it was made before."""
        found = written(messages)
        if not found or self.target is None:
            return
        query = self.options.txn_app or found[0].query
        if query is None:
            raise InvalidInputError(
                "the streaming query has no id that its tasks can see; name it by option txn_app"
            )
        job = _job(query, batch_id)
        begin_commit(job)
        try:
            target, appends = self._as_written(found[0]), found[0].appends
            run(commit_rows(target, found, (query, batch_id), appends=appends))
        except BaseException as error:
            if not may_be_visible(error) and isinstance(error, Exception):
                not_committed(job)
            raise
        committed(job)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """Remove what the tasks wrote, unless a version may name it."""
        found = written(messages)
        query = self.options.txn_app or (found[0].query if found else None)
        if found and not (query and may_be_committed(_job(query, batch_id))):
            run(remove_files(self.options, found))

    def _as_written(self, message: Written) -> Target:
        """What the tasks wrote for: the table may have come into being, or moved, since."""
        assert self.target is not None
        schema = new_table_schema(self.schema, self.options.vector_lengths())
        return replace(
            self.target,
            base_version=message.base_version,
            uri=message.uri,
            schema=self.target.schema if message.appends else schema,
        )


def _job(query: str, batch_id: int) -> str:
    return uuid.uuid5(uuid.NAMESPACE_URL, f"{query}/{batch_id}").hex
