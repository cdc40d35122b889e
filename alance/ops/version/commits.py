"""From an operation to the next version: what all verbs that change a table end with."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from alance.errors import RetryableConflictError
from alance.format.table.naming import NamingScheme
from alance.format.table.transaction import Transaction
from alance.ops.cleanup.after import clean_after
from alance.ops.version.options import CommitOptions
from alance.ops.version.snapshot import Snapshot
from alance.records import dataclass
from alance.versioning import load
from alance.versioning.backoff import MAX_RETRIES
from alance.versioning.commit import commit
from alance.versioning.manifest_store import ConditionalManifests
from alance.versioning.outcome import may_be_visible
from alance.versioning.rules import TableRules

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any

    from alance.format.table.manifest import Manifest
    from alance.format.table.operations import Operation
    from alance.session import Session
    from alance.versioning.manifest_store import ManifestStore, Objects
    from alance.versioning.table import Table

T = TypeVar("T")


async def commit_change(
    snapshot: Snapshot,
    operation: Operation,
    options: CommitOptions | None = None,
    *,
    rules: TableRules | None = None,
    data: Awaitable[object] | None = None,
    named: Objects = (),
    discard: Callable[[], Awaitable[object]] | None = None,
    detached: bool = False,
    summary: Mapping[str, Any] | None = None,
) -> Snapshot:
    """Make an operation that was computed from a version the next one.

    Cost: two rounds where nobody else commits.

    Args:
        rules: None: those of Lance tables without more knowledge; see `TableRules` for what
            lets two deletes in one fragment both succeed.
        data: uploads that must be there before the version.
        named: see `versioning.commit`.
        discard: removes what was written for the version; called where it was not made, for
            certain. An interrupted commit that may yet take effect keeps its files.
        summary: counts of what was done, for `Dataset.summary`.

    Raises:
        RetryableConflictError: run the operation again on the latest version.
        CommitConflictError: a newer version rules this one out.
        CommitStateUnknownError: whether the version was made could not be found out.
    """
    options = options or CommitOptions()
    transaction = Transaction.of(
        operation, read_version=snapshot.version, properties=options.noted()
    )
    return await commit_on(
        snapshot.session,
        snapshot.table,
        snapshot.manifest,
        transaction,
        rules=rules,
        data=data,
        named=named,
        discard=discard,
        detached=detached,
        max_retries=options.max_retries,
        summary=summary,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedChange:
    """An operation whose files are written or wait for it: to be committed, or given to a driver.

    Attributes:
        rules, discard, summary: see `commit_change`.
        upload: what must be there before the version.
        handed: hands over what `upload` would write, where it is little; None: it is not.
    """

    snapshot: Snapshot
    operation: Operation
    options: CommitOptions | None = None
    rules: TableRules | None = None
    upload: Callable[[], Awaitable[object]] | None = None
    handed: Callable[[], Objects | None] = lambda: None
    discard: Callable[[], Awaitable[object]]
    summary: Mapping[str, Any] | None = None

    async def commit(self) -> Snapshot:
        """Make it the next version; see `commit_change`."""
        named = self.handed()
        return await commit_change(
            self.snapshot,
            self.operation,
            self.options,
            rules=self.rules,
            data=None if self.upload is None or named is not None else self.upload(),
            named=named or (),
            discard=self.discard,
            summary=self.summary,
        )

    async def give(self) -> Operation:
        """Upload what waits, and make no version."""
        try:
            if self.upload is not None:
                await self.upload()
        except BaseException:
            await self.discard()
            raise
        return self.operation


async def commit_on(
    session: Session,
    table: Table,
    base: Manifest | None,
    transaction: Transaction,
    *,
    rules: TableRules | None = None,
    scheme: NamingScheme = NamingScheme.V2,
    data: Awaitable[object] | None = None,
    named: Objects = (),
    discard: Callable[[], Awaitable[object]] | None = None,
    detached: bool = False,
    max_retries: int = MAX_RETRIES,
    summary: Mapping[str, Any] | None = None,
) -> Snapshot:
    """Make a transaction the next version; see `versioning.commit`.

    Args:
        base: the version that it was computed from; None: create the table.
        scheme: of the manifests' names, where there is no table.
    """
    engine = session.engine
    try:
        manifest = await commit(
            engine,
            table,
            transaction,
            base=base,
            rules=rules or TableRules(engine, table),
            manifests=manifests_of(session, table, scheme),
            data=data,
            named=named,
            detached=detached,
            max_retries=max_retries,
        )
    except BaseException as error:
        if discard is not None and not may_be_visible(error):
            await discard()
        raise
    if not detached:
        await clean_after(session, table, manifest)
    return Snapshot(session, table, manifest, summary)


def manifests_of(
    session: Session, table: Table, scheme: NamingScheme = NamingScheme.V2
) -> ManifestStore:
    """How versions of a table are found and created: its own way, or by conditional puts."""
    if table.keeper is not None:
        return table.keeper.manifests(session.engine, table, scheme)
    return ConditionalManifests(session.engine, table, scheme=scheme)


async def latest(snapshot: Snapshot) -> Snapshot:
    """The latest version of the table (of the snapshot's branch)."""
    manifest = await load.load_latest(snapshot.engine, snapshot.table)
    return Snapshot(snapshot.session, snapshot.table, manifest)


async def with_retries(
    snapshot: Snapshot, attempt: Callable[[Snapshot], Awaitable[T]], max_retries: int
) -> T:
    """Run an operation on a version, again on the latest one where others came in between.

    Args:
        attempt: computes from a version and commits.

    Raises:
        RetryableConflictError: of the last attempt.
    """
    retries = 0
    while True:
        try:
            return await attempt(snapshot)
        except RetryableConflictError:
            if retries >= max_retries:
                raise
            retries += 1
            snapshot = await latest(snapshot)
