"""Writing a DataFrame: tasks write data files, the driver commits them as one version."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from alance.distributed import append_schema, conform, may_be_visible
from alance.spark.committing import (
    Target,
    Written,
    commit_rows,
    refuse_columns,
    refuse_existing,
    remove_files,
    write_rows,
)
from alance.spark.marks import begin_commit, committed, may_be_committed, not_committed
from alance.spark.types import arrow_schema, new_table_schema
from alance.spark.versions import Version, open_if_there
from alance.spark.worker import release, run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

    from alance.spark.options import WriteOptions


async def target_of(schema: StructType, options: WriteOptions, *, overwrite: bool) -> Target | None:
    """What a write of such rows will do; None: nothing, as the table is there.

    Cost: one LIST and one GET.

    Raises:
        AlreadyExistsError: the table is there, and the options refuse one.
        InvalidInputError: columns that do not fit the table.
    """
    found = await open_if_there(options)
    vectors = options.vector_lengths()
    if found is not None and not overwrite:
        refuse_existing(options, found.version)
        if options.if_exists == "ignore":
            return None
        wanted, given = append_schema(found), arrow_schema(schema)
        refuse_columns(given, wanted)
        conform(pa.RecordBatch.from_pylist([], schema=given), wanted)
        base: Version | None = Version.of(found, options)
    else:
        wanted, base = new_table_schema(schema, vectors), None
    if found is None:
        return Target(options, base, 0, options.path, wanted, overwrite)
    return Target(options, base, found.version, found.uri, wanted, overwrite)


class AlanceWriter(DataSourceArrowWriter):
    """One write. Pickled into each task, and into the processes that commit or abort."""

    def __init__(self, schema: StructType, options: WriteOptions, *, overwrite: bool) -> None:
        self.options = options
        self.job = uuid.uuid4().hex
        self.target = run(target_of(schema, options, overwrite=overwrite))

    def __repr__(self) -> str:
        return f"AlanceWriter({self.options.path!r})"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task."""
        if self.target is None:
            return Written((), 0, 0, 0, self.options.path, appends=True)
        try:
            return run(write_rows(self.target, iterator))
        finally:
            release()

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make one version of what all tasks wrote."""
        if self.target is None:
            return
        options = self.options
        producer = None
        if options.txn_app is not None and options.txn_version is not None:
            producer = (options.txn_app, options.txn_version)
        begin_commit(self.job)
        try:
            appends = self.target.base is not None
            run(commit_rows(self.target, written(messages), producer, appends=appends))
        except BaseException as error:
            if not may_be_visible(error) and isinstance(error, Exception):
                not_committed(self.job)
            raise
        committed(self.job)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove what the tasks wrote, unless a version may name it."""
        if not may_be_committed(self.job):
            run(remove_files(self.options, written(messages)))


def written(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    """The messages of tasks that came to their end."""
    return [one for one in messages if isinstance(one, Written)]
