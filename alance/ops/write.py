"""Writing a table: create, append, overwrite; and the two halves of it for distributed writers."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

import pyarrow as pa

from alance.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from alance.file_version import FileVersion
from alance.format.schema import Schema
from alance.format.table.apply_state import Settings
from alance.format.table.naming import NamingScheme
from alance.format.table.operations import Append, Overwrite
from alance.format.table.transaction import MESSAGE_PROPERTY, Transaction
from alance.ops.data_files import DataFiles, Limits
from alance.ops.snapshot import Snapshot
from alance.ops.sources import open_source
from alance.session import Session
from alance.versioning import load
from alance.versioning.commit import MAX_RETRIES, commit
from alance.versioning.manifest_store import ConditionalManifests
from alance.versioning.rules import TableRules
from alance.versioning.table import open_table

if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable, Mapping

    from alance.format.proto import file_pb2, table_pb2
    from alance.format.table.manifest import Manifest
    from alance.format.table.operations import Operation
    from alance.ops.data_files import Progress
    from alance.ops.sources import Data, Source
    from alance.versioning.manifest_store import ManifestStore
    from alance.versioning.table import Table

Mode: TypeAlias = Literal["create", "append", "overwrite"]
WRITTEN: Final = (FileVersion.V2_1, FileVersion.V2_2)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How rows are written; the names are those of pylance.

    Attributes:
        limits: when a file is full.
        data_storage_version: None: that of the table, of a new one 2.2.
        stable_row_ids: of a new table: rows have ids of their own.
        v2_manifest_paths: of a new table: names by which one LIST finds the latest version.
        properties: noted in the transaction.
        message: a commit message, noted there too.
        on_progress: called after each batch.
        max_retries: of the commit, where others were first.
    """

    limits: Limits = field(default_factory=Limits)
    data_storage_version: FileVersion | None = None
    stable_row_ids: bool = False
    v2_manifest_paths: bool = True
    properties: Mapping[str, str] | None = None
    message: str | None = None
    on_progress: Callable[[Progress], object] | None = None
    max_retries: int = MAX_RETRIES
    manifest_store: Callable[[Table], ManifestStore] | None = None

    def noted(self) -> dict[str, str]:
        """The properties of the transaction.

        Raises:
            InvalidInputError: one that is no text.
        """
        noted = dict(self.properties or {})
        if self.message is not None:
            noted[MESSAGE_PROPERTY] = self.message
        for key, value in noted.items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise InvalidInputError(f"property {key!r}: {value!r}, expected text for text")
        return noted

    def version_for(self, base: Manifest | None) -> FileVersion:
        """The version of new files.

        Raises:
            UnsupportedError: (by the writer) one that is not written.
        """
        if self.data_storage_version is not None:
            return self.data_storage_version
        return FileVersion.V2_2 if base is None else base.data_storage_version


async def write(
    uri: str | os.PathLike[str],
    data: Data,
    mode: Mode,
    *,
    schema: pa.Schema | None = None,
    options: WriteOptions,
    store: object | None = None,
    storage_options: Mapping[str, object] | None = None,
    session: Session | None = None,
) -> Snapshot:
    """Create, append to, or overwrite the table at a URI. See `alance.write_dataset`."""
    if mode not in get_args(Mode):
        raise InvalidInputError(f"mode={mode!r}: expected one of {', '.join(get_args(Mode))}")
    session = session or Session.of_loop()
    engine = session.engine
    table = open_table(engine.registry, uri, store=store, storage_options=storage_options)
    base: Manifest | None = None
    with suppress(NotFoundError):
        base = await load.load_latest(engine, table)
    if base is not None and mode == "create":
        raise AlreadyExistsError(
            f"dataset {table.uri!r}: exists already, its latest version is {base.version}; "
            "use mode 'append' or 'overwrite'"
        )
    return await write_on(session, table, base, data, mode, schema=schema, options=options)


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
    """Write rows on top of a version; None: as the first one.

    Cost: the data; beside its last object the transaction's file and a LIST; then the manifest.

    Raises:
        InvalidInputError: rows that do not fit the table's schema.
        CommitConflictError: another committer has ruled this one out.
    """
    appends = mode == "append" and base is not None
    noted = options.noted()
    if appends and base is not None:
        schema = table_schema(base)
    source = await open_source(data, schema, session.engine.pool)
    fields = base.schema if appends and base is not None else Schema.from_arrow(source.schema)
    files = DataFiles(
        session,
        table,
        fields,
        options.version_for(base),
        options.limits,
        options.on_progress,
    )
    try:
        fragments = tuple(await _write_all(files, source))
        change: Operation
        if appends:
            change = Append(fragments)
        else:
            change = Overwrite(
                new_schema=messages_of(fields),
                fragments=fragments,
                schema_metadata={key: text.encode() for key, text in fields.metadata.items()},
            )
        transaction = Transaction.of(
            change, read_version=0 if base is None else base.version, properties=noted
        )
        return await commit_on(
            session, table, base, transaction, options=options, data=files.publish()
        )
    except BaseException:
        await files.discard()
        raise


async def _write_all(files: DataFiles, source: Source) -> list[table_pb2.DataFragment]:
    async for batch in source.batches:
        await files.write(batch)
    return await files.seal()


async def commit_on(
    session: Session,
    table: Table,
    base: Manifest | None,
    transaction: Transaction,
    *,
    options: WriteOptions,
    data: Awaitable[object] | None = None,
    rules: TableRules | None = None,
    detached: bool = False,
) -> Snapshot:
    """Make a transaction the next version; see `versioning.commit`."""
    engine = session.engine
    settings = Settings(options.data_storage_version, options.stable_row_ids)
    scheme = NamingScheme.V2 if options.v2_manifest_paths else NamingScheme.V1
    manifests: ManifestStore
    if options.manifest_store is not None:
        manifests = options.manifest_store(table)
    else:
        manifests = ConditionalManifests(engine, table, scheme=scheme)
    manifest = await commit(
        engine,
        table,
        transaction,
        base=base,
        rules=rules or TableRules(engine, table, settings),
        manifests=manifests,
        data=data,
        detached=detached,
        max_retries=options.max_retries,
    )
    return Snapshot(session, table, manifest)


def table_schema(base: Manifest) -> pa.Schema:
    """The Arrow schema of rows that are appended to a version."""
    fields = [one.logical_arrow() for one in base.schema.fields]
    return pa.schema(fields, metadata=dict(base.schema.metadata) or None)


def messages_of(schema: Schema) -> tuple[file_pb2.Field, ...]:
    """The fields of a schema as a manifest lists them: depth-first, with their ids."""
    return tuple(one.message for one in schema.walk())
