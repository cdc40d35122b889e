"""Appends by URI: to the latest version, if possible without waiting for its manifest.

    at first          1  LIST   2  the latest manifest, data, the transaction's file   3  manifest
    a moment later    1  data, the transaction's file, LIST   2  manifest

At first the field ids are unknown and are guessed: a new table numbers its fields in order, and
retains these ids unless columns are added or dropped. After a wrong guess the data is written
again.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa

from alance.errors import (
    CommitConflictError,
    InvalidInputError,
    RetryableConflictError,
    UnsupportedError,
)
from alance.file_version import FileVersion
from alance.format.schema import Schema
from alance.format.table.operations import Append
from alance.format.table.transaction import Transaction
from alance.ops.blobs.arrow import may_be_blobs
from alance.ops.cleanup.after import clean_after
from alance.ops.version.commits import manifests_of
from alance.ops.version.snapshot import Snapshot
from alance.ops.write.append import (
    SMALL_APPEND_BYTES,
    append_to,
    commit_append,
    queue_of,
    summary_of,
)
from alance.ops.write.files import DataFiles
from alance.ops.write.sources import open_source
from alance.versioning.commit import PendingCommit, commit
from alance.versioning.load import load_manifest
from alance.versioning.outcome import may_be_visible
from alance.versioning.rules import TableRules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.proto import file_pb2, table_pb2
    from alance.format.table.manifest import Manifest
    from alance.ops.write.options import WriteOptions
    from alance.ops.write.sources import Data
    from alance.session import Session
    from alance.versioning.load import ManifestLocation
    from alance.versioning.table import Table


async def append_by_uri(
    session: Session, table: Table, data: Data, options: WriteOptions
) -> Snapshot | Manifest | None:
    """Append, if possible without waiting for the table's schema.

    Returns:
        A Snapshot: the new version. A Manifest: nothing was written, this is the latest version to
        append to. None: there is no table.
    """
    queue = queue_of(session, table)
    fresh = queue.fresh()
    if fresh is not None and isinstance(data, pa.Table | pa.RecordBatch):
        with suppress(CommitConflictError, InvalidInputError):
            return await append_to(session, table, fresh, data, options)
        queue.known.forget()  # other writers changed the columns, so versions are listed again
    manifests = manifests_of(session, table)
    where = await manifests.latest()
    if where is None:
        return None
    if queue.is_opening or not can_guess(data, options):
        return await load_manifest(session.engine, where)
    queue.is_opening = True
    try:
        assert isinstance(data, pa.Table | pa.RecordBatch)
        return await Guess(session, table, where, options).write(data)
    finally:
        queue.is_opening = False


def can_guess(data: Data, options: WriteOptions) -> bool:
    """True if the rows are few, and in memory, so that they can be written again.

    A wrong guess of the field ids makes that necessary.
    """
    return (
        isinstance(data, pa.Table | pa.RecordBatch)
        and data.nbytes <= SMALL_APPEND_BYTES
        and data.num_rows <= options.limits.max_rows_per_file
        and not options.bases.has_targets
        and not options.bases.initial_bases
        and not any(may_be_blobs(field) for field in data.schema)  # URIs need base paths
    )


class Guess:
    """Append by URI that guesses the field ids instead of waiting for the table's schema.

    Args:
        where: location of the latest version's manifest, just listed.
    """

    def __init__(
        self,
        session: Session,
        table: Table,
        where: ManifestLocation,
        options: WriteOptions,
    ) -> None:
        self._session = session
        self._table = table
        self._where = where
        self._options = options

    async def write(self, data: pa.Table | pa.RecordBatch) -> Snapshot | Manifest:
        """Write and commit the rows; return the latest manifest instead if the guess was wrong.

        Raises:
            InvalidInputError: rows do not fit the table's schema, or the format cannot hold them.
            CommitConflictError, CommitStateUnknownError, StoreError: the version was not committed,
                or it is unknown whether it was.
        """
        session = self._session
        version = self._options.data_storage_version or FileVersion.V2_2
        try:
            schema = Schema.from_arrow(data.schema)
        except UnsupportedError:  # a cast to the table's type may still be possible
            return await load_manifest(session.engine, self._where)
        files = DataFiles(
            session, self._table, schema, version, self._options.limits, self._options.hooks
        )
        loading = asyncio.ensure_future(load_manifest(session.engine, self._where))
        try:
            source = await open_source(data, None, session.engine.pool)
            fragments = await files.write_all(source.batches, source.num_rows)
            return await self._commit(loading, files, fragments)
        except _WrongGuessError:
            await files.discard()
            return loading.result()
        except BaseException as error:
            loading.cancel()
            if not may_be_visible(error):
                await files.discard()
            raise
        finally:
            await asyncio.gather(loading, return_exceptions=True)

    async def _commit(
        self,
        loading: asyncio.Future[Manifest],
        files: DataFiles,
        fragments: Sequence[table_pb2.DataFragment],
    ) -> Snapshot:
        session, table = self._session, self._table

        async def base() -> Manifest:
            manifest = await loading
            if not _fits(manifest, files):
                raise _WrongGuessError("the table has other columns than were guessed")
            return manifest

        if loading.done():  # served from a cache
            latest = await base()
            return await commit_append(session, table, latest, files, fragments, self._options)
        data, named = files.before()
        transaction = Transaction.of(
            Append(tuple(fragments)),
            read_version=self._where.version,
            properties=self._options.commit.noted(),
        )
        pending = PendingCommit(
            table=table,
            transaction=transaction,
            base=None,
            loading=base(),
            rules=TableRules(session.engine, table),
            manifests=manifests_of(session, table, self._where.scheme),
            data=data,
            named=named,
            max_retries=self._options.commit.max_retries,
        )
        manifest = await commit(session.engine, pending)
        queue_of(session, table).learn(manifest)
        await clean_after(session, table, manifest)
        return Snapshot(session, table, manifest, summary_of(fragments))


class _WrongGuessError(RetryableConflictError):
    """Raised if the table's columns have other ids, names or types than guessed."""


def _fits(base: Manifest, files: DataFiles) -> bool:
    if base.data_storage_version is not files.version or files.version is FileVersion.V0_1:
        return False  # 0.1 files share the table's dictionaries
    ours, theirs = files.schema.walk(), base.schema.walk()
    return [_key(field.message) for field in ours] == [_key(field.message) for field in theirs]


def _key(field: file_pb2.Field) -> tuple[object, ...]:
    """Return the properties of a field on which its encoded data depends."""
    named = (field.id, field.parent_id, field.name, field.logical_type, field.nullable)
    return (*named, dict(field.metadata))
