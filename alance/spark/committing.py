"""The two ends of a write: a task streams rows into data files, the driver makes one version.

What a driver remembers over its processes of a commit that it has begun is a mark: an empty file in
a folder of this user, in a subfolder named by when it lapses, in steps of ten minutes. Making one
costs a listing of the subfolders, of which there are no more than a day has steps; those that have
lapsed go as a whole.
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
    from alance.spark.options import WriteOptions
    from alance.spark.versions import Version
    from alance.types import Data

FOLDER: Final = "alance-spark-commits"
STEP_S: Final = 600
BEGUN_STEPS: Final = 144  # a day: no commit takes longer
DONE_STEPS: Final = 2  # Spark aborts within seconds of a commit that it thinks has failed


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The fragments that one task wrote.

    Attributes:
        fragments: their records, serialized; in no version yet.
        base_version: the version that was there; 0: there was no table.
        uri: of the table, or of its branch.
        schema: of rows that make a table or take the place of others; None: they are appended.
        query: id of the streaming query, where there is one.
    """

    fragments: tuple[bytes, ...]
    num_rows: int
    num_bytes: int
    base_version: int
    uri: str
    schema: pa.Schema | None = None
    query: str | None = None


@dataclass(frozen=True)
class Target:
    """The table that rows are written for.

    Attributes:
        base: the version to append to; None if the rows make a new table or replace all rows.
        base_version: the number of the version before the write; 0 if there is no table.
        uri: the URI of the table, or of the branch of the version.
        schema: the rows are cast to it.
        config: keys that are set in a new table, or in one whose rows are replaced.
    """

    options: WriteOptions
    base: Version | None
    base_version: int
    uri: str
    schema: pa.Schema
    overwrite: bool
    config: Mapping[str, str] = field(default_factory=dict)


async def write_rows(target: Target, batches: Data, query: str | None = None) -> Written:
    """Stream rows into data files of the table; one task's share.

    Memory: of the pages that are being filled, and two ends of files under way.

    Raises:
        InvalidInputError: rows that do not fit the schema; the files written are removed.
        StoreError: the store failed.
    """
    options = target.options
    limits: Limits = {
        "max_rows_per_file": options.max_rows_per_file,
        "max_bytes_per_file": options.max_bytes_per_file,
        "data_storage_version": check_version(options.data_storage_version),
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
    return Written(
        tuple(fragment.SerializeToString() for fragment in fragments),
        sum(fragment.physical_rows for fragment in fragments),
        sum(file.file_size_bytes for fragment in fragments for file in fragment.files),
        target.base_version,
        target.uri,
        target.schema if target.base is None else None,
        query,
    )


async def commit_rows(
    target: Target,
    messages: Sequence[Written],
    producer: tuple[str, int] | None = None,
    *,
    appends: bool,
) -> Dataset | None:
    """Make a version of the rows that the tasks wrote. Returns None if there was nothing to commit.

    Cost: two rounds if nobody else commits; with a producer also the manifests back to its last
    batch.

    Args:
        appends: add the rows to the table; if False, they replace its rows, or make a new table.
        producer: name of the producer and number of the batch, which is committed once, however
            often this is called.

    Raises:
        AlreadyExistsError: another writer has made the table meanwhile, and the options refuse
            this.
        CommitConflictError: a concurrent commit rules this commit out.
        CommitStateUnknownError: it is unknown whether the version was made.
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
        await remove_files(options, messages)  # another run of the same batch was first
        return None


async def _replace(
    target: Target, fragments: tuple[DataFragment, ...], properties: dict[str, str]
) -> Dataset | None:
    """Create the table, or put the rows in place of its own."""
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
    target: Target, operation: Operation, base_version: int, properties: dict[str, str]
) -> Dataset:
    options = target.options
    return await alance.commit(
        target.uri,
        operation,
        read_version=base_version,
        data_storage_version=check_version(options.data_storage_version),
        stable_row_ids=options.stable_row_ids,
        properties=properties,
        message=options.message,
        max_retries=options.max_retries,
        **access(options),
    )


async def _is_done(options: WriteOptions, producer: tuple[str, int]) -> bool:
    name, number = producer
    last = await last_sequence(options.path, name, **access(options))
    return last is not None and last >= number


async def remove_files(options: WriteOptions, messages: Sequence[Written | None]) -> None:
    """Remove data files that no version names, as far as the store can be reached."""
    for message in messages:
        if message is not None:
            await remove_data_files(message.uri, message.fragments, **access(options))


def check_version(text: str | None) -> FileVersion | None:
    """The file version of an option."""
    return None if text is None else FileVersion.parse(text)


class Limits(TypedDict):
    """When a file is full, and its version, as keyword arguments of `write_fragments`."""

    max_rows_per_file: int
    max_bytes_per_file: int
    data_storage_version: FileVersion | None


def refuse_existing(options: WriteOptions, version: int) -> None:
    """Raise where a table is there and the options refuse one."""
    if options.if_exists == "error":
        raise AlreadyExistsError(
            f"dataset {options.path!r}: exists already, its latest version is {version}"
        )


def refuse_columns(schema: pa.Schema, target: pa.Schema) -> None:
    """Raise `InvalidInputError` where columns of rows cannot be those of a table.

    Casts that depend on values are seen by the tasks.
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
    """Returns whether values are text, also in a dictionary. Text is not parsed."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def producer_of(options: WriteOptions) -> tuple[str, int] | None:
    """The name and number under which rows are committed once; None: there are none."""
    if options.txn_app is None or options.txn_version is None:
        return None
    return options.txn_app, options.txn_version


@contextmanager
def noted_commit(job: str) -> Iterator[None]:
    """Mark a commit, so that later aborts in other processes know whether it may have been made."""
    begin_commit(job)
    try:
        yield
    except BaseException as error:
        if not may_be_visible(error) and isinstance(error, Exception):
            not_committed(job)
        raise
    committed(job)


def begin_commit(job: str) -> None:
    """Note on the driver that a commit is begun, until `not_committed` takes the note away.

    Spark aborts a write whose commit did not come to an end, in another process. What may be in a
    version must then stay, also where the process was killed after the version was made.
    """
    now = _step()
    for name in _names():
        if name.isdecimal() and int(name) < now:
            shutil.rmtree(_marks() / name, ignore_errors=True)
    _mark(job, BEGUN_STEPS).touch()


def committed(job: str) -> None:
    """Note that the version was made: let the mark of the commit lapse after a while.

    The mark stays until then, because this process may die before Spark learns of the success.
    """
    target = _mark(job, DONE_STEPS)
    for mark in _marks_of(job):
        mark.replace(target)


def not_committed(job: str) -> None:
    """Note that the version was not made, and never will be."""
    for mark in _marks_of(job):
        mark.unlink(missing_ok=True)


def may_be_committed(job: str) -> bool:
    """Returns whether a commit may have begun: there is a mark of it that has not lapsed."""
    return bool(_marks_of(job))


def _step() -> int:
    return int(time.time() // STEP_S)


def _marks() -> Path:
    return Path(tempfile.gettempdir()) / f"{FOLDER}-{os.getuid()}"


def _names() -> list[str]:
    try:
        return os.listdir(_marks())
    except FileNotFoundError:
        return []


def _mark(job: str, steps: int) -> Path:
    """Returns the path for a mark that lapses after some steps. Makes its folder."""
    _marks().mkdir(mode=0o700, exist_ok=True)
    folder = _marks() / str(_step() + steps)
    folder.mkdir(exist_ok=True)
    return folder / job


def _marks_of(job: str) -> list[Path]:
    """The marks of a commit that have not lapsed."""
    now = _step()
    marks = [_marks() / name / job for name in _names() if name.isdecimal() and int(name) >= now]
    return [mark for mark in marks if mark.exists()]
