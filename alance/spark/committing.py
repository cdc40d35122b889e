"""Both ends of a write: tasks write rows into data files, and the driver commits one version.

The processes of the driver share a mark for each commit that has begun: an empty file in a folder
of this user. Marks that expire within the same ten minutes share a subfolder, so a day has at most
144 of them. Creating a mark deletes the subfolders that have expired.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

import alance
from alance import AlreadyExistsError, CommitConflictError, FileVersion, InvalidInputError
from alance.distributed import (
    has_fields_of,
    last_sequence,
    may_be_visible,
    new_table,
    producer_properties,
    remove_data_files,
)
from alance.operations import Append
from alance.spark.versions import access, open_if_there
from alance.types import DataFragment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from alance import Dataset
    from alance.operations import Operation
    from alance.spark.options import SparkWriteOptions
    from alance.spark.versions import Version
    from alance.types import Data

COMMITS_FOLDER: Final = "alance-spark-commits"
STEP_S: Final = 600
BEGUN_STEPS: Final = 144  # steps: a day, the upper bound of a commit's duration
DONE_STEPS: Final = 2  # steps; Spark aborts a commit that it considers failed within seconds


@dataclass(frozen=True)
class WrittenFiles(WriterCommitMessage):
    """Fragments that one task wrote.

    Attributes:
        fragments: serialized records of the fragments, which no version contains yet.
        base_version: number of the version before the write; 0 if there was no table.
        uri: URI of the table, or of its branch.
        schema: schema of the rows if they create a table or replace its rows; None if they are
            appended.
        query: id of the streaming query; None for a batch write.
    """

    fragments: tuple[bytes, ...]
    num_rows: int
    num_bytes: int
    base_version: int
    uri: str
    schema: pa.Schema | None = None
    query: str | None = None


@dataclass(frozen=True)
class WriteTarget:
    """Table to which rows are written.

    Attributes:
        base: version to append to; None if the rows create a table or replace all rows.
        base_version: number of the version before the write; 0 if there is no table.
        uri: URI of the table, or of the version's branch.
        schema: the rows are cast to it.
        config: keys to set in a new table, or in a table whose rows are replaced.
    """

    options: SparkWriteOptions
    base: Version | None
    base_version: int
    uri: str
    schema: pa.Schema
    overwrite: bool
    config: Mapping[str, str] = field(default_factory=dict)


async def write_rows(target: WriteTarget, batches: Data, query: str | None = None) -> WrittenFiles:
    """Write a task's rows into data files of the table.

    Memory: the pages being filled, and the ends of two files being uploaded.

    Raises:
        InvalidInputError: rows that do not fit the schema; the written files are removed.
        StoreError: the store failed.
    """
    options = target.options
    limits: FileLimits = {
        "max_rows_per_file": options.max_rows_per_file,
        "max_bytes_per_file": options.max_bytes_per_file,
        "data_storage_version": FileVersion.of(options.data_storage_version),
    }
    if target.base is not None:
        fragments = await alance.write_fragments(batches, target.base.dataset(), **limits)
    else:
        fragments = await alance.write_fragments(
            batches,
            target.uri,
            mode="overwrite",
            schema=target.schema,
            **limits,
            **access(options),
        )
    return WrittenFiles(
        tuple(fragment.SerializeToString() for fragment in fragments),
        sum(fragment.physical_rows for fragment in fragments),
        sum(file.file_size_bytes for fragment in fragments for file in fragment.files),
        target.base_version,
        target.uri,
        target.schema if target.base is None else None,
        query,
    )


async def commit_rows(
    target: WriteTarget,
    messages: Sequence[WrittenFiles],
    producer: tuple[str, int] | None = None,
    *,
    appends: bool,
) -> Dataset | None:
    """Commit the rows that the tasks wrote as one version.

    Returns None if there are no rows to append, or if the producer's batch is already committed;
    then the rows' files are removed.

    Cost: two rounds if nobody else commits; with a producer, also the manifests back to its last
    batch.

    Args:
        appends: True to add the rows to the table; False to replace its rows or create a table.
        producer: name of the producer and number of its batch, which is committed only once.

    Raises:
        AlreadyExistsError: another writer has created the table meanwhile, and the options refuse
            an existing table.
        CommitConflictError: a concurrent commit rules this commit out.
        CommitStateUnknownError: it is unknown whether the version was created.
    """
    fragments = tuple(
        DataFragment.FromString(record) for message in messages for record in message.fragments
    )
    options, properties = target.options, {}
    if producer is not None:
        name, number = producer
        if await _is_done(options, producer):
            await remove_files(options, messages)
            return None
        properties = producer_properties(name, number)
    try:
        if not appends:
            return await _replace(target, fragments, properties)
        if not fragments:
            return None
        return await _commit(target, Append(fragments), target.base_version, properties)
    except CommitConflictError as error:
        if producer is None or may_be_visible(error) or not await _is_done(options, producer):
            raise
        await remove_files(options, messages)  # another run has committed the same batch
        return None


async def _replace(
    target: WriteTarget, fragments: tuple[DataFragment, ...], properties: dict[str, str]
) -> Dataset:
    """Create the table, or replace its rows; append if another writer has created it meanwhile.

    Raises:
        AlreadyExistsError: another writer has created it, and the rows cannot be appended.
    """
    operation = replace(new_table(target.schema, fragments), config_upsert_values=target.config)
    try:
        return await _commit(target, operation, target.base_version, properties)
    except AlreadyExistsError:
        if target.options.if_exists != "append" or target.base_version:
            raise
        dataset = await open_if_there(target.options)
        if dataset is None or not has_fields_of(dataset, target.schema):
            raise
        if not fragments:
            return dataset
        return await _commit(target, Append(fragments), dataset.version, properties)


async def _commit(
    target: WriteTarget, operation: Operation, base_version: int, properties: dict[str, str]
) -> Dataset:
    options = target.options
    return await alance.commit(
        target.uri,
        operation,
        read_version=base_version,
        data_storage_version=FileVersion.of(options.data_storage_version),
        stable_row_ids=options.stable_row_ids,
        properties=properties,
        message=options.message,
        max_retries=options.max_retries,
        **access(options),
    )


async def _is_done(options: SparkWriteOptions, producer: tuple[str, int]) -> bool:
    name, number = producer
    last = await last_sequence(options.path, name, **access(options))
    return last is not None and last >= number


async def remove_files(options: SparkWriteOptions, messages: Sequence[WrittenFiles | None]) -> None:
    """Remove data files that no version names; store errors are ignored."""
    for message in messages:
        if message is not None:
            await remove_data_files(message.uri, message.fragments, **access(options))


class FileLimits(TypedDict):
    """Keyword arguments of `write_fragments`: size limits of a file, and its version."""

    max_rows_per_file: int
    max_bytes_per_file: int
    data_storage_version: FileVersion | None


def refuse_existing(options: SparkWriteOptions, version: int) -> None:
    """Raise `AlreadyExistsError` if the options refuse an existing table."""
    if options.if_exists == "error":
        raise AlreadyExistsError(
            f"dataset {options.path!r}: exists already, its latest version is {version}"
        )


def refuse_columns(schema: pa.Schema, target: pa.Schema) -> None:
    """Raise `InvalidInputError` if columns of rows do not fit the columns of a table.

    Casts that depend on values are checked by the tasks.
    """
    missing = [name for name in schema.names if name not in target.names]
    if missing:
        raise InvalidInputError(
            f"column {missing[0]!r}: not among the columns of the table, {', '.join(target.names)}"
        )
    for column in target:
        if column.name not in schema.names:
            if not column.nullable:
                raise InvalidInputError(f"column {column.name!r}: missing, and it is not nullable")
            continue
        type_ = schema.field(column.name).type
        if _is_text(type_) != _is_text(column.type) and not pa.types.is_null(type_):
            raise InvalidInputError(
                f"column {column.name!r}: the rows have {type_}, the table {column.type}; cast it"
            )


def _is_text(kind: pa.DataType) -> bool:
    """True if the values are text, also in a dictionary. Text is never parsed."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def producer_of(options: SparkWriteOptions) -> tuple[str, int] | None:
    """Return the producer's name and batch number, or None if the options name none."""
    if options.txn_app is None or options.txn_version is None:
        return None
    return options.txn_app, options.txn_version


@contextmanager
def noted_commit(job: str) -> Iterator[None]:
    """Mark the commit in this block, so that another process does not abort it later."""
    begin_commit(job)
    try:
        yield
    except BaseException as error:
        if not may_be_visible(error) and isinstance(error, Exception):
            not_committed(job)
        raise
    committed(job)


def begin_commit(job: str) -> None:
    """Create the mark of a commit on the driver; it remains until `not_committed` or its expiry.

    Spark aborts an unfinished commit in another process. Files that a version may name must then
    remain, even if this process was killed after it created the version.
    """
    now = _step()
    for name in _names():
        if name.isdecimal() and int(name) < now:
            shutil.rmtree(_marks() / name, ignore_errors=True)
    _mark(job, BEGUN_STEPS).touch()


def committed(job: str) -> None:
    """Let the mark of a successful commit expire soon.

    The mark remains until then, because this process may die before Spark learns of the success.
    """
    target = _mark(job, DONE_STEPS)
    for mark in _marks_of(job):
        mark.replace(target)


def not_committed(job: str) -> None:
    """Remove the mark of a commit that has failed for good."""
    for mark in _marks_of(job):
        mark.unlink(missing_ok=True)


def may_be_committed(job: str) -> bool:
    """True if the commit has a mark that has not expired, so that it may have succeeded."""
    return bool(_marks_of(job))


def _step() -> int:
    return int(time.time() // STEP_S)


def _marks() -> Path:
    return Path(tempfile.gettempdir()) / f"{COMMITS_FOLDER}-{os.getuid()}"


def _names() -> list[str]:
    try:
        return os.listdir(_marks())
    except FileNotFoundError:
        return []


def _mark(job: str, steps: int) -> Path:
    """Return the path of a mark that expires in `steps` steps of ten minutes; create its folder."""
    _marks().mkdir(mode=0o700, exist_ok=True)
    folder = _marks() / str(_step() + steps)
    folder.mkdir(exist_ok=True)
    return folder / job


def _marks_of(job: str) -> list[Path]:
    """Return the marks of a commit that have not expired."""
    now = _step()
    marks = [_marks() / name / job for name in _names() if name.isdecimal() and int(name) >= now]
    return [mark for mark in marks if mark.exists()]
