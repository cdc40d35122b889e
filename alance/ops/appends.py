"""Appends: those of one session to one table share versions, and each takes few rounds.

    by handle          1  data, the transaction's file, LIST      2  manifest
    by URI, at first   1  LIST   2  the latest manifest, data, the transaction's file   3  manifest
    by URI, later      as by handle

The second row guesses the ids of the columns, which are those of a new table unless columns were
added or dropped; where the guess is wrong, the data is written again.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from alance.errors import CommitConflictError, InvalidInputError, RetryableConflictError
from alance.file_version import FileVersion
from alance.format.schema import Schema
from alance.format.table.operations import Append
from alance.format.table.transaction import Transaction
from alance.ops.cleanup_auto import clean_after
from alance.ops.commits import commit_on, manifests_of
from alance.ops.data_files import DataFiles, rows_of
from alance.ops.snapshot import Snapshot
from alance.ops.sources import open_source
from alance.versioning.commit import MAX_RETRIES, commit
from alance.versioning.commit_queue import CommitQueue
from alance.versioning.load import load_manifest
from alance.versioning.outcome import may_be_visible
from alance.versioning.rules import TableRules

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from alance.format.proto import table_pb2
    from alance.format.table.manifest import Manifest
    from alance.ops.sources import Data
    from alance.ops.write import WriteOptions
    from alance.session import Session
    from alance.versioning.load import ManifestLocation
    from alance.versioning.table import Table

SMALL_BYTES: Final = 8 << 20  # one PUT; larger uploads would hold up the others of a version
FRESH_S: Final = 5.0  # for so long a version that this session made is taken for about the latest


class TableQueue(CommitQueue):
    """The appends of one session to one table or branch."""

    def __init__(self, session: Session, table: Table) -> None:
        engine = session.engine
        rules = TableRules(engine, table)
        manifests = manifests_of(session, table)

        async def run(
            transaction: Transaction, base: Manifest, data: Awaitable[object] | None
        ) -> Manifest:
            made = await commit(
                engine,
                table,
                transaction,
                base=base,
                rules=rules,
                manifests=manifests,
                data=data,
            )
            self._told = asyncio.get_running_loop().time()
            await clean_after(engine, table, made)
            return made

        super().__init__(run, manifests, rules)
        self._told = 0.0
        self.is_opening = False

    def learn(self, manifest: Manifest) -> None:
        """Know the latest version."""
        self._told = asyncio.get_running_loop().time()
        self.known.add(manifest)

    def fresh(self) -> Manifest | None:
        """A version that was the latest a moment ago."""
        is_fresh = asyncio.get_running_loop().time() - self._told < FRESH_S
        return self.known.newest if is_fresh else None


def queue_of(session: Session, table: Table) -> TableQueue:
    """The queue of a table in a session."""
    queue = session.commit_queues.get(table.queue_key)
    if queue is None:
        queue = session.commit_queues[table.queue_key] = TableQueue(session, table)
    assert isinstance(queue, TableQueue)
    return queue


async def commit_append(
    session: Session,
    table: Table,
    base: Manifest,
    files: DataFiles,
    fragments: Sequence[table_pb2.DataFragment],
    options: WriteOptions,
) -> Snapshot:
    """Make the fragments of sealed files part of the table. Cost: two rounds.

    Errors as of `commit`; whoever calls discards the files, where the version is not made.
    """
    noted = options.commit.noted()
    transaction = Transaction.of(
        Append(tuple(fragments)), read_version=base.version, properties=noted
    )
    summary = summary_of(fragments)
    if options.commit.max_retries != MAX_RETRIES or base.version >> 63:
        return await commit_on(
            session,
            table,
            base,
            transaction,
            data=files.publish(),
            max_retries=options.commit.max_retries,
            summary=summary,
        )
    data: Awaitable[object] | None = None
    if files.num_bytes <= SMALL_BYTES:
        data = files.publish()
    else:
        await files.publish()
    made = await queue_of(session, table).append(transaction, base, data)
    return Snapshot(session, table, made, summary)


def summary_of(fragments: Sequence[table_pb2.DataFragment]) -> dict[str, int]:
    """What is told of rows that were added."""
    return {"num_inserted_rows": rows_of(fragments), "num_data_files": len(fragments)}


class Guess:
    """An append by URI that does not wait for the table's schema.

    Args:
        where: the latest version's manifest, as it has just been listed.
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
        """Write the rows; gives the latest manifest where the guess is wrong.

        Errors as of `write_dataset`.
        """
        session = self._session
        version = self._options.data_storage_version or FileVersion.V2_2
        schema = Schema.from_arrow(data.schema)
        files = DataFiles(
            session, self._table, schema, version, self._options.limits, self._options.on_progress
        )
        loading = asyncio.ensure_future(load_manifest(session.engine, self._where))
        try:
            source = await open_source(data, None, session.engine.pool)
            async for batch in source.batches:
                await files.write(batch)
            fragments = await files.seal()
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
            if not _is_same(manifest, files):
                raise _WrongGuessError("the table has other columns than were guessed")
            return manifest

        if loading.done():  # a cache had it
            known = await base()
            return await commit_append(session, table, known, files, fragments, self._options)
        transaction = Transaction.of(
            Append(tuple(fragments)),
            read_version=self._where.version,
            properties=self._options.commit.noted(),
        )
        made = await commit(
            session.engine,
            table,
            transaction,
            base=None,
            loading=base(),
            rules=TableRules(session.engine, table),
            manifests=manifests_of(session, table, self._where.scheme),
            data=files.publish(),
            max_retries=self._options.commit.max_retries,
        )
        queue_of(session, table).learn(made)
        await clean_after(session.engine, table, made)
        return Snapshot(session, table, made, summary_of(fragments))


class _WrongGuessError(RetryableConflictError):
    """The table's columns have other ids, names or types."""


def _is_same(base: Manifest, files: DataFiles) -> bool:
    if base.data_storage_version is not files.version:
        return False
    ours, theirs = ([_key(one.message) for one in schema.walk()] for schema in
                    (files.schema, base.schema))  # fmt: skip
    return ours == theirs


def _key(field: object) -> tuple[object, ...]:
    names = ("id", "parent_id", "name", "logical_type", "nullable", "metadata")
    return tuple(dict(value) if name == "metadata" else value
                 for name in names for value in [getattr(field, name)])  # fmt: skip


def can_guess(data: Data, options: WriteOptions) -> bool:
    """Whether rows are few, and at hand in case that they must be written again."""
    return (
        isinstance(data, pa.Table | pa.RecordBatch)
        and data.nbytes <= SMALL_BYTES
        and data.num_rows <= options.limits.max_rows_per_file
    )


async def append_by_uri(
    session: Session, table: Table, data: Data, options: WriteOptions
) -> Snapshot | Manifest | None:
    """Append without waiting for the table's schema, where that can be.

    Returns:
        The version made; else the latest one, to append to; None: there is no table.
    """
    queue = queue_of(session, table)
    fresh = queue.fresh()
    if fresh is not None and isinstance(data, pa.Table | pa.RecordBatch):
        with suppress(CommitConflictError, InvalidInputError):
            return await append_to(session, table, fresh, data, options)
        queue.known.forget()  # others have changed the columns: look again
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


async def append_to(
    session: Session, table: Table, base: Manifest, data: Data, options: WriteOptions
) -> Snapshot:
    """Write rows behind those of a version. Errors as of `write_dataset`."""
    schema = base.schema.to_arrow()
    source = await open_source(data, schema, session.engine.pool)
    files = DataFiles(
        session,
        table,
        base.schema,
        options.version_for(base),
        options.limits,
        options.on_progress,
    )
    try:
        async for batch in source.batches:
            await files.write(batch)
        fragments = await files.seal()
        return await commit_append(session, table, base, files, fragments, options)
    except BaseException as error:
        if not may_be_visible(error):
            await files.discard()
        raise
