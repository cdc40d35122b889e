"""Appends: the appends of a session to a table share versions, and each takes few rounds.

    round 1   data, the transaction's file, LIST
    round 2   manifest

Appends that arrive while a version is being committed all become the next version.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from alance.file.rows.leaves import FEW_FIELDS
from alance.format.encode.small_file import small_files
from alance.format.table.operations import Append
from alance.io.loop.background import grace_of
from alance.ops.cleanup.after import clean_after
from alance.ops.version.commits import commit_on, manifests_of
from alance.ops.version.first_use import of_fields
from alance.ops.version.snapshot import Snapshot
from alance.ops.version.summary import ChangeSummary
from alance.ops.write.bases import places_of, registered
from alance.ops.write.files import DataFiles, rows_of
from alance.ops.write.sources import open_source
from alance.session import queues_of
from alance.versioning.backoff import MAX_RETRIES
from alance.versioning.commit import PendingCommit, commit
from alance.versioning.commit_queue import CommitQueue
from alance.versioning.outcome import may_be_visible
from alance.versioning.rules import TableRules, transaction_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import Any

    from alance.format.proto import table_pb2
    from alance.format.schema import Schema
    from alance.format.table.manifest import Manifest
    from alance.format.table.transaction import Transaction
    from alance.ops.write.options import WriteOptions
    from alance.ops.write.sources import Data
    from alance.session import Session
    from alance.versioning.group_queue import GroupQueue
    from alance.versioning.manifest_store import Objects
    from alance.versioning.table import Table

# Bytes of one PUT; larger uploads would delay the other appends of a version.
SMALL_APPEND_BYTES: Final = 8 << 20
MAX_QUEUES: Final = 64  # queues of a session; those of appends cache the latest versions
FRESH_S: Final = 2.0  # seconds for which a version of this session counts as the latest one


class TableQueue(CommitQueue):
    """Commit queue of one session for one table or branch."""

    def __init__(self, session: Session, table: Table) -> None:
        engine = session.engine
        rules = TableRules(engine, table)
        manifests = manifests_of(session, table)

        async def run(
            transaction: Transaction,
            base: Manifest,
            data: Awaitable[object] | None,
            named: Objects,
        ) -> Manifest:
            pending = PendingCommit(
                table=table,
                transaction=transaction,
                base=base,
                rules=rules,
                manifests=manifests,
                data=data,
                named=named,
            )
            manifest = await commit(engine, pending)
            self._confirmed = asyncio.get_running_loop().time()
            await clean_after(session, table, manifest)
            return manifest

        super().__init__(run, manifests, rules, grace_s=grace_of(table.store))
        self._confirmed = 0.0
        self.is_opening = False

    def learn(self, manifest: Manifest) -> None:
        """Record the latest version."""
        self._confirmed = asyncio.get_running_loop().time()
        self.known.add(manifest)

    def fresh(self) -> Manifest | None:
        """Return the version that was the latest less than `FRESH_S` ago; None if unknown."""
        is_fresh = asyncio.get_running_loop().time() - self._confirmed < FRESH_S
        return self.known.newest if is_fresh else None


def queue_of(session: Session, table: Table) -> TableQueue:
    """Return the queue of a session's appends to a table."""
    queue = queue_at(session, table.queue_key, lambda: TableQueue(session, table))
    assert isinstance(queue, TableQueue)
    return queue


def queue_at(session: Session, key: str, new: Callable[[], GroupQueue[Any]]) -> GroupQueue[Any]:
    """Return a queue of a session.

    Args:
        key: begins with the table's `queue_key`.
        new: creates the queue if there is none.
    """
    queues = queues_of(session)
    queue = queues.get(key)
    if queue is None:
        if len(queues) >= MAX_QUEUES:
            for idle in [key for key, queued in queues.items() if queued.is_idle]:
                del queues[idle]
        queue = queues[key] = new()
    return queue


async def commit_append(
    session: Session,
    table: Table,
    base: Manifest,
    files: DataFiles,
    fragments: Sequence[table_pb2.DataFragment],
    options: WriteOptions,
) -> Snapshot:
    """Commit the fragments of sealed files to the table. Cost: two rounds.

    If it is certain that no version was committed, the caller discards the files.

    Raises:
        RetryableConflictError, CommitConflictError: a newer version rules this one out.
        CommitStateUnknownError: it is unknown whether the version was committed.
    """
    noted = options.commit.noted()
    transaction = await transaction_of(
        session.engine, Append(tuple(fragments)), base.version, noted
    )
    summary = summary_of(fragments)
    if options.commit.max_retries != MAX_RETRIES or base.version >> 63:
        data, named = files.before()
        pending = PendingCommit(
            table=table,
            transaction=transaction,
            base=base,
            rules=TableRules(session.engine, table),
            manifests=manifests_of(session, table),
            data=data,
            named=named,
            max_retries=options.commit.max_retries,
        )
        return await commit_on(session, pending, summary)
    queue = queue_of(session, table)
    if files.num_bytes > SMALL_APPEND_BYTES:
        await files.publish()
    if queue.num_under_way:  # with other appends under way, data is uploaded before the commit
        data, named = files.publish(), ()
    else:
        data, named = files.before()
    manifest = await queue.append(transaction, base, data, named)
    return Snapshot(session, table, manifest, summary)


def summary_of(fragments: Sequence[table_pb2.DataFragment]) -> ChangeSummary:
    """Return the summary of a change that added new fragments."""
    return ChangeSummary(num_inserted_rows=rows_of(fragments), files_added=len(fragments))


async def append_to(
    session: Session, table: Table, base: Manifest, data: Data, options: WriteOptions
) -> Snapshot:
    """Append rows to a version.

    Raises:
        InvalidInputError: rows do not fit the table's schema, or the format cannot hold them.
        CommitConflictError, CommitStateUnknownError, StoreError: the version was not committed, or
            it is unknown whether it was.
    """
    schema = base.schema.to_arrow()
    source = await open_source(data, schema, session.engine.pool)
    files = await files_on(session, table, base, base.schema, options)
    try:
        fragments = await files.write_all(source.batches, source.num_rows)
        return await commit_append(session, table, base, files, fragments, options)
    except BaseException as error:
        if not may_be_visible(error):
            await files.discard()
        raise


async def files_on(
    session: Session, table: Table, base: Manifest | None, schema: Schema, options: WriteOptions
) -> DataFiles:
    """Return a writer of rows that extend a version, or that form the first version.

    Raises:
        InvalidInputError: invalid base paths.
        AccessError: a base path is outside the scope of the table's credentials.
    """
    bases = registered(options.bases, table, base)
    version = options.version_for(base)
    if schema.num_fields > FEW_FIELDS:  # found in advance, and off the event loop
        encoder = partial(small_files, schema, version)
        await of_fields(session.engine, schema.num_fields, encoder)
    return DataFiles(
        session,
        table,
        schema,
        version,
        options.limits,
        options.hooks,
        bases=bases,
        targets=await places_of(options.bases, session.engine, table, bases),
    )
