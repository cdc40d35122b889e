"""Writing of a table: create, append, overwrite; and in two steps for distributed writers."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, get_args

from google.protobuf.message import Message

from alance.base.checks import check_choice
from alance.errors import (
    AlreadyExistsError,
    CorruptFileError,
    InvalidInputError,
    NotFoundError,
)
from alance.format.field import check_primary_key
from alance.format.proto import table_pb2
from alance.format.schema import Schema, check_not_reserved
from alance.format.table.changes.apply_state import Settings
from alance.format.table.fragment import DataFile, inside
from alance.format.table.manifest import parse_manifest
from alance.format.table.naming import NamingScheme
from alance.format.table.operations import ARM_OF, Append, Operation, Overwrite, Restore
from alance.format.table.transaction import Transaction
from alance.ops.blobs.arrow import blobs_of_version
from alance.ops.version.commits import commit_on, manifests_of
from alance.ops.version.first_use import of_fields
from alance.ops.version.snapshot import Snapshot
from alance.ops.write.append import append_to, files_on, summary_of
from alance.ops.write.append_by_uri import append_by_uri
from alance.ops.write.bases import message_of
from alance.ops.write.options import Mode, WriteOptions
from alance.ops.write.sources import open_source
from alance.session import Session, table_at
from alance.versioning import load
from alance.versioning.commit import PendingCommit
from alance.versioning.rules import TableRules, transaction_of
from alance.versioning.tokens import Notes, merged_notes
from alance.versioning.waiting_append import merged

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence
    from typing import Unpack

    import pyarrow as pa

    from alance.format.table.manifest import Manifest
    from alance.ops.version.summary import ChangeSummary
    from alance.ops.write.files import DataFiles
    from alance.ops.write.sources import Data
    from alance.session import TableArguments
    from alance.versioning.table import Table


async def write(
    uri: str | os.PathLike[str],
    data: Data,
    mode: Mode,
    *,
    schema: pa.Schema | None = None,
    options: WriteOptions,
    **place: Unpack[TableArguments],
) -> Snapshot:
    """Create, append to, or overwrite the table at a URI. See `alance.write_dataset`."""
    check_choice("mode", mode, get_args(Mode))
    session, table = table_at(uri, **place)
    engine = session.engine
    base: Manifest | None = None
    if mode == "append":
        appended = await append_by_uri(session, table, data, options)
        if isinstance(appended, Snapshot):
            return appended
        base = appended
    else:
        with suppress(NotFoundError):
            base = await load.load_latest(engine, table)
    if base is not None and mode == "create":
        raise _exists(table, base)
    return await write_on(session, table, base, data, mode, schema=schema, options=options)


def _exists(table: Table, latest: Manifest) -> AlreadyExistsError:
    return AlreadyExistsError(
        f"dataset {table.uri!r}: exists already, its latest version is {latest.version}; "
        "use mode 'append' or 'overwrite'"
    )


async def write_fragments(
    session: Session,
    table: Table,
    base: Manifest | None,
    data: Data,
    mode: Mode,
    *,
    schema: pa.Schema | None,
    options: WriteOptions,
    looks: bool,
) -> tuple[Append | Overwrite, int]:
    """Write only data files; return the operation to commit, and its read version.

    Args:
        base: the version on which to write; None: see `looks`.
        looks: if `base` is None: True to read the latest version, if there is a table; False to
            assume that there is none.

    Raises:
        AlreadyExistsError: the mode is `create`, and there is a table.
    """
    check_choice("mode", mode, get_args(Mode))
    if base is None and looks:
        with suppress(NotFoundError):
            base = await load.load_latest(session.engine, table)
    if base is not None and mode == "create":
        raise _exists(table, base)
    grown = base if mode == "append" else None
    schema = schema if grown is None else table_schema(grown)
    source = await open_source(data, schema, session.engine.pool)
    fields = _new_schema(source.schema, base, options) if grown is None else grown.schema
    files = await files_on(session, table, base, fields, options)
    try:
        fragments = tuple(await files.write_all(source.batches, source.num_rows))
        await files.publish()
    except BaseException:
        await files.discard()
        raise
    if grown is not None:
        return Append(fragments), grown.version
    change = _overwrite(fields, fragments, base, files, options)
    return change, 0 if base is None else base.version


async def commit_operation(
    session: Session,
    table: Table,
    operation: Operation | Transaction,
    *,
    read_version: int | None = None,
    usual_version: int | None = None,
    detached: bool,
    options: WriteOptions,
) -> Snapshot:
    """Commit an operation or a transaction as the next version.

    Args:
        read_version: version from which an operation was computed; 0: there was no table; None:
            `usual_version`, or the latest version if that is None as well.

    Raises:
        InvalidInputError: `operation` is not an operation, or cannot be written.
    """
    if isinstance(operation, Transaction):
        if read_version is not None:
            raise InvalidInputError(f"read_version={read_version}: a transaction has its own")
        change = await session.engine.pool.run(lambda: operation.change)
        read_version = operation.read_version
    else:
        change = operation
        read_version = usual_version if read_version is None else read_version
    await session.engine.pool.run(lambda: _check(change))
    base: Manifest | None = None
    if read_version is None:
        with suppress(NotFoundError):
            base = await load.load_latest(session.engine, table)
    elif read_version:
        base = await load.load_version(session.engine, table, read_version)
    source: Manifest | None = None
    if isinstance(change, Restore):
        source = await load.load_version(session.engine, table, change.version)
    return await _commit(session, table, base, operation, options, detached=detached, source=source)


async def commit_batch(
    session: Session,
    table: Table,
    transactions: Sequence[Transaction],
    *,
    detached: bool,
    options: WriteOptions,
) -> tuple[Snapshot, Transaction]:
    """Commit appends as one version; return it and its transaction.

    Raises:
        InvalidInputError: there is no transaction, one is not an append or is repeated, or two have
            the same token or the same batches.
    """
    for transaction in transactions:
        if not isinstance(transaction, Transaction) or transaction.operation != Append.__name__:
            raise InvalidInputError(f"{transaction!r:.100}: expected a transaction that appends")
    if not transactions:
        raise InvalidInputError("transactions: there are none")
    if len({transaction.uuid for transaction in transactions}) < len(transactions):
        raise InvalidInputError("transactions: one of them twice")
    seen = Notes()
    for transaction in transactions:
        notes = Notes.of(transaction.properties)
        if clash := notes.clash(seen):
            raise InvalidInputError(f"transactions: two with {clash}")
        seen = merged_notes([seen, notes])
    version = min(transaction.read_version for transaction in transactions)
    whole = merged(transactions, version)
    snapshot = await commit_operation(session, table, whole, detached=detached, options=options)
    return snapshot, whole


def _check(operation: object) -> None:
    """Check that an operation can be serialized, and that its data files will be readable.

    Raises:
        InvalidInputError: the object is not an operation, the check fails, or a data file has a
            field twice.
    """
    if not isinstance(operation, Operation):
        raise InvalidInputError(f"operation {operation!r:.100}: expected one of alance.operations")
    if type(operation) not in ARM_OF:
        return
    try:
        message = operation.to_protobuf()
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidInputError(f"{operation.name}: {error}") from error
    for record in _files(message):
        try:
            inside(record.path, "data file")
            DataFile.from_protobuf(record)
        except CorruptFileError as error:
            raise InvalidInputError(f"{operation.name}: {error}") from error
        fields = [field for field in record.fields if field >= 0]
        if len(set(fields)) < len(fields):
            raise InvalidInputError(f"{operation.name}: data file {record.path!r}: a field twice")


def _files(message: Message) -> Iterator[table_pb2.DataFile]:
    """Yield the records of data files at any depth."""
    if isinstance(message, table_pb2.DataFile):
        yield message
        return
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None:
            for part in [value] if isinstance(value, Message) else value:
                if isinstance(part, Message):  # else a key of a map, whose values have no files
                    yield from _files(part)


async def write_on(
    session: Session,
    table: Table,
    base: Manifest | None,
    data: Data,
    mode: Mode,
    *,
    schema: pa.Schema | None = None,
    options: WriteOptions,
) -> Snapshot:
    """Write rows on top of version `base`; if it is None, as the first version.

    Cost: PUTs of the data, with the last of them a PUT of the transaction's file and a LIST; then a
    PUT of the manifest.

    Raises:
        InvalidInputError: rows do not fit the table's schema.
        CommitConflictError: another commit rules this one out.
    """
    if mode == "append" and base is not None:
        return await append_to(session, table, base, data, options)
    source = await open_source(data, schema, session.engine.pool)
    make = partial(_new_schema, source.schema, base, options)
    fields = await of_fields(session.engine, len(source.schema), make)
    files = await files_on(session, table, base, fields, options)
    try:
        fragments = tuple(await files.write_all(source.batches, source.num_rows))
    except BaseException:
        await files.discard()
        raise
    change = _overwrite(fields, fragments, base, files, options)
    summary = summary_of(fragments)
    return await _commit(session, table, base, change, options, files=files, summary=summary)


def _overwrite(
    fields: Schema,
    fragments: tuple[table_pb2.DataFragment, ...],
    base: Manifest | None,
    files: DataFiles,
    options: WriteOptions,
) -> Overwrite:
    """Return the operation that replaces all rows or creates a table."""
    return Overwrite(
        new_schema=fields.messages,
        fragments=fragments,
        config_upsert_values=options.config if base is None else {},
        schema_metadata={key: text.encode() for key, text in fields.metadata.items()},
        initial_bases=tuple(map(message_of, files.bases.values())) if base is None else (),
    )


def _new_schema(schema: pa.Schema, base: Manifest | None, options: WriteOptions) -> Schema:
    check_not_reserved(schema.names)
    fields = Schema.from_arrow(blobs_of_version(schema, options.version_for(base)))
    check_primary_key(fields.messages)
    return fields


async def _commit(
    session: Session,
    table: Table,
    base: Manifest | None,
    operation: Operation | Transaction,
    options: WriteOptions,
    *,
    files: DataFiles | None = None,
    detached: bool = False,
    summary: ChangeSummary | None = None,
    source: Manifest | None = None,
) -> Snapshot:
    noted = options.commit.noted()
    if isinstance(operation, Transaction):
        transaction = operation.with_properties(noted)
    else:
        read_version = 0 if base is None else base.version
        try:
            transaction = await transaction_of(session.engine, operation, read_version, noted)
        except BaseException:
            if files is not None:
                await files.discard()
            raise
    settings = Settings(options.data_storage_version, options.stable_row_ids)
    data, named = (None, ()) if files is None else files.before()
    rules = _CheckedWrite if files is None else TableRules
    scheme = NamingScheme.V2 if options.v2_manifest_paths else NamingScheme.V1
    pending = PendingCommit(
        table=table,
        transaction=transaction,
        base=base,
        rules=rules(session.engine, table, settings, source=source),
        manifests=manifests_of(session, table, scheme),
        data=data,
        named=named,
        discard=None if files is None else files.discard,
        detached=detached,
        max_retries=options.commit.max_retries,
    )
    return await commit_on(session, pending, summary)


class _CheckedWrite(TableRules):
    """Commit rules for operations built by callers: no unreadable version is written."""

    async def next_manifest(
        self, previous: Manifest | None, transaction: Transaction, version: int
    ) -> bytes:
        content = await super().next_manifest(previous, transaction, version)
        try:
            await self.engine.decode(
                lambda: parse_manifest(memoryview(content), f"version {version}"), len(content)
            )
        except CorruptFileError as error:
            raise InvalidInputError(f"{transaction.change.name}: {error}") from error
        return content


def table_schema(base: Manifest) -> pa.Schema:
    """Return the Arrow schema of rows to append to a version."""
    return base.schema.to_arrow()
