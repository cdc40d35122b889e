"""The two ends of a write: a task streams rows into data files, the driver makes one version."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from alance.errors import AlanceError, AlreadyExistsError, CommitConflictError, InvalidInputError
from alance.file_version import FileVersion
from alance.format.proto import table_pb2
from alance.format.schema import Schema
from alance.format.table.fragment import DataFile
from alance.operations import Append, Overwrite
from alance.ops.version.commit_options import CommitOptions
from alance.ops.write import write
from alance.ops.write.options import Limits
from alance.ops.write.options import WriteOptions as TableOptions
from alance.spark.history import last_batch
from alance.spark.versions import open_if_there, table_of
from alance.spark.worker import session_for
from alance.versioning.outcome import may_be_visible
from alance.versioning.tokens import Notes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.operations import Operation
    from alance.ops.version.snapshot import Snapshot
    from alance.ops.write.sources import Data
    from alance.spark.options import WriteOptions
    from alance.spark.versions import Version


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The fragments that one task wrote.

    Attributes:
        fragments: their records, serialized; in no version yet.
        base_version: the version that was there; 0: there was no table.
        appends: whether the rows were cast to its schema, to be put behind its own.
        query: id of the streaming query, where there is one.
    """

    fragments: tuple[bytes, ...]
    num_rows: int
    num_bytes: int
    base_version: int
    appends: bool
    branch: str | None = None
    query: str | None = None


@dataclass(frozen=True)
class Target:
    """What a write makes of the rows.

    Attributes:
        base: the version that is appended to; None: rows of a new table, or in place of all.
        base_version: the version that was there; 0: none.
        schema: that the rows are cast to.
    """

    options: WriteOptions
    base: Version | None
    base_version: int
    branch: str | None
    schema: pa.Schema
    overwrite: bool


async def write_rows(target: Target, batches: Data, query: str | None = None) -> Written:
    """Stream rows into data files of the table; one task's share.

    Memory: of the pages that are being filled, and two ends of files under way.

    Raises:
        InvalidInputError: rows that do not fit the schema; the files written are removed.
        StoreError: the store failed.
    """
    options = target.options
    base = None if target.base is None else target.base.snapshot().manifest
    fragments = await write.write_fragments(
        session_for(options),
        table_of(options, target.branch),
        base,
        batches,
        schema=target.schema,
        options=_write_options(options),
    )
    return Written(
        tuple(one.SerializeToString() for one in fragments),
        sum(one.physical_rows for one in fragments),
        sum(file.file_size_bytes for one in fragments for file in one.files),
        target.base_version,
        target.base is not None,
        target.branch,
        query,
    )


async def commit_rows(
    target: Target,
    messages: Sequence[Written],
    producer: tuple[str, int] | None = None,
    *,
    appends: bool,
) -> Snapshot | None:
    """Make what the tasks wrote one version. None: nothing was to be committed.

    Cost: as of `alance.commit`; with a producer also the manifests back to its last batch.

    Args:
        appends: behind the rows that are there; else in their place, or as a new table.
        producer: a name and the number of its batch: committed once, however often it is called.

    Raises:
        AlreadyExistsError: a table came into being meanwhile, and the options refuse one.
        CommitConflictError: a concurrent commit rules this one out.
        CommitStateUnknownError: whether the version was made could not be found out.
    """
    fragments = tuple(
        table_pb2.DataFragment.FromString(one) for each in messages for one in each.fragments
    )
    options, properties = target.options, {}
    if producer is not None:
        name, number = producer
        if await _is_done(options, producer):
            await remove_files(options, messages)
            return None
        properties = Notes(producers={name: (number - 1, number)}).properties()
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
    target: Target, fragments: tuple[table_pb2.DataFragment, ...], properties: dict[str, str]
) -> Snapshot | None:
    """Create the table, or put the rows in place of its own."""
    fields = Schema.from_arrow(target.schema)
    operation = Overwrite(
        new_schema=write.messages_of(fields),
        fragments=fragments,
        schema_metadata={key: text.encode() for key, text in fields.metadata.items()},
    )
    try:
        return await _commit(target, operation, target.base_version, properties)
    except AlreadyExistsError:
        if target.options.if_exists != "append" or target.base_version:
            raise
        found = await open_if_there(target.options)
        if found is None or not _same(found.schema, fields):
            raise
        if not fragments:
            return found
        return await _commit(target, Append(fragments), found.version, properties)


async def _commit(
    target: Target, operation: Operation, base_version: int, properties: dict[str, str]
) -> Snapshot:
    options = target.options
    return await write.commit_operation(
        session_for(options),
        table_of(options, target.branch),
        operation,
        read_version=base_version,
        detached=False,
        options=_write_options(options, properties),
    )


async def _is_done(options: WriteOptions, producer: tuple[str, int]) -> bool:
    name, number = producer
    found = await last_batch(options, name)
    return found is not None and found >= number


async def remove_files(options: WriteOptions, messages: Sequence[Written | None]) -> None:
    """Remove data files that no version names, as far as the store can be reached."""
    for message in messages:
        if message is None:
            continue
        table = table_of(options, message.branch)
        paths = []
        for one in message.fragments:
            for file in table_pb2.DataFragment.FromString(one).files:
                location = table.new_data_file(DataFile.from_protobuf(file).path)
                paths.append(table.registry.resolve(location))
        for store, path in paths:
            with suppress(AlanceError):  # an orphan, which cleanup finds
                await store.delete([path])


def check_version(text: str | None) -> FileVersion | None:
    """The file version of an option."""
    return None if text is None else FileVersion.parse(text)


def _same(ours: Schema, theirs: Schema) -> bool:
    """Whether rows written for one schema fit a table that has the other."""

    def shape(schema: Schema) -> list[tuple[int, str, str, bool]]:
        return [
            (one.message.id, one.message.name, one.message.logical_type, one.message.nullable)
            for one in schema.walk()
        ]

    return shape(ours) == shape(theirs)


def _write_options(options: WriteOptions, properties: dict[str, str] | None = None) -> TableOptions:
    return TableOptions(
        limits=Limits(options.max_rows_per_file, options.max_bytes_per_file),
        data_storage_version=check_version(options.data_storage_version),
        stable_row_ids=options.stable_row_ids,
        commit=CommitOptions(properties, options.message, options.max_retries),
    )


def refuse_existing(options: WriteOptions, version: int) -> None:
    """Raise where a table is there and the options refuse one."""
    if options.if_exists == "error":
        raise AlreadyExistsError(
            f"dataset {options.path!r}: exists already, its latest version is {version}"
        )


def refuse_columns(schema: pa.Schema, wanted: pa.Schema) -> None:
    """Raise `InvalidInputError` where columns of rows cannot be those of a table.

    Casts that depend on values are seen by the tasks.
    """
    missing = [one for one in schema.names if one not in wanted.names]
    if missing:
        raise InvalidInputError(
            f"column {missing[0]!r}: not among the columns of the table, {', '.join(wanted.names)}"
        )
    for field in wanted:
        if field.name not in schema.names:
            if not field.nullable:
                raise InvalidInputError(f"column {field.name!r}: missing, and it is not nullable")
            continue
        given = schema.field(field.name).type
        if _is_text(given) != _is_text(field.type) and not pa.types.is_null(given):
            raise InvalidInputError(
                f"column {field.name!r}: the rows have {given}, the table {field.type}; cast it"
            )


def _is_text(kind: pa.DataType) -> bool:
    """Whether values are text, which is parsed as nothing else."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )
