"""Commits of verbs: an operation becomes the next version; conflicts are retried."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from alance.base.records import dataclass
from alance.errors import RetryableConflictError
from alance.format.table.naming import NamingScheme
from alance.ops.cleanup.after import clean_after
from alance.ops.version.options import DEFAULT_COMMIT, CommitOptions
from alance.ops.version.snapshot import Snapshot
from alance.versioning import load
from alance.versioning.commit import PendingCommit, commit
from alance.versioning.manifest_store import ConditionalManifests
from alance.versioning.rules import TableRules, transaction_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from alance.format.table.operations import Operation
    from alance.ops.version.summary import ChangeSummary
    from alance.session import Session
    from alance.versioning.manifest_store import ManifestStore, Objects
    from alance.versioning.table import Table

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PreparedChange:
    """An operation computed from a version, and everything that its commit needs.

    Attributes:
        snapshot: version from which the operation was computed.
        options: options of the commit: properties of the transaction, number of retries.
        rules: rules of the commit; None: `TableRules` with its defaults, by which a concurrent
            delete in the same fragment is a conflict.
        upload: uploads the files that the version will name.
        handed: returns the files of `upload`, for the commit to write, if they are small and few;
            None if they have to be uploaded.
        discard: removes the files that were written for the version; see `PendingCommit`.
        summary: counts for `Dataset.summary`.
    """

    snapshot: Snapshot
    operation: Operation
    options: CommitOptions = DEFAULT_COMMIT
    rules: TableRules | None = None
    upload: Callable[[], Awaitable[object]] | None = None
    handed: Callable[[], Objects | None] = lambda: None
    discard: Callable[[], Awaitable[object]] | None = None
    summary: ChangeSummary | None = None

    async def commit(self) -> Snapshot:
        """Commit the operation as the next version.

        Cost: two rounds if there is no concurrent commit.

        Raises:
            RetryableConflictError: run the operation again on the latest version.
            CommitConflictError: a newer version rules this one out.
            CommitStateUnknownError: it is unknown whether the version was committed.
        """
        base, named = self.snapshot, self.handed()
        try:
            transaction = await transaction_of(
                base.engine, self.operation, base.version, self.options.noted()
            )
        except BaseException:
            if self.discard is not None:
                await self.discard()
            raise
        pending = PendingCommit(
            table=base.table,
            transaction=transaction,
            base=base.manifest,
            rules=self.rules or TableRules(base.engine, base.table),
            manifests=manifests_of(base.session, base.table),
            data=None if self.upload is None or named is not None else self.upload(),
            named=named or (),
            discard=self.discard,
            max_retries=self.options.max_retries,
        )
        return await commit_on(base.session, pending, self.summary)

    async def give(self) -> Operation:
        """Upload the files and return the operation, without a commit."""
        try:
            if self.upload is not None:
                await self.upload()
        except BaseException:
            if self.discard is not None:
                await self.discard()
            raise
        return self.operation


async def commit_on(
    session: Session, pending: PendingCommit, summary: ChangeSummary | None = None
) -> Snapshot:
    """Commit a transaction as the next version; clean up if the configuration requests it.

    Raises: as `versioning.commit.commit`.
    """
    manifest = await commit(session.engine, pending)
    if not pending.detached:
        await clean_after(session, pending.table, manifest)
    return Snapshot(session, pending.table, manifest, summary)


def manifests_of(
    session: Session, table: Table, scheme: NamingScheme = NamingScheme.V2
) -> ManifestStore:
    """Return the manifest store of a table: the external one, or one with conditional puts.

    Args:
        scheme: naming scheme of the manifests if the table does not exist yet.
    """
    if table.keeper is not None:
        return table.keeper.manifests(session.engine, table, scheme)
    return ConditionalManifests(session.engine, table, scheme=scheme)


async def latest(snapshot: Snapshot) -> Snapshot:
    """Return the latest version of the snapshot's branch; the snapshot itself if it is that.

    Cost: a LIST; a GET if the version is another one, or the tag of this one is unknown, and the
    listed manifest is not cached.
    """
    where = await load.latest(snapshot.engine, snapshot.table)
    if where.version == snapshot.version and await load.is_still(
        snapshot.engine, snapshot.manifest, where
    ):
        return snapshot
    manifest = await load.load_manifest(snapshot.engine, where)
    return Snapshot(snapshot.session, snapshot.table, manifest)


async def with_retries(
    snapshot: Snapshot,
    attempt: Callable[[Snapshot], Awaitable[T]],
    max_retries: int,
    *,
    rebase: Callable[[Snapshot], Awaitable[Snapshot | None]] = latest,
    deadline: float | None = None,
) -> T:
    """Run a verb on a version; after a retryable conflict, run it again on a newer version.

    Args:
        attempt: computes an operation from a version and commits it.
        max_retries: maximum number of attempts after the first one.
        rebase: returns the version for the next attempt, given that of the last one; None if
            another attempt cannot succeed, so that the conflict is raised.
        deadline: event loop time after which no attempt begins; None: no deadline.

    Raises:
        RetryableConflictError: raised by the last attempt.
    """
    clock = asyncio.get_running_loop().time
    retries = 0
    while True:
        try:
            return await attempt(snapshot)
        except RetryableConflictError:
            if retries >= max_retries or (deadline is not None and clock() >= deadline):
                raise
            retries += 1
            newer = await rebase(snapshot)
            if newer is None:
                raise
            snapshot = newer
