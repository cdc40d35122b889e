"""Group commit of appends in a process: appends that wait become one version.

Without a queue, eight appenders make eight versions, each in two rounds or more, and all of them
compete. In a queue, all appends that arrive while a version is being made become the next version.
A version only contains appends whose data has been written. The data is written during the group's
first round. An append that is late, has failed or was cancelled at the end of that round leaves the
group.

  queue = CommitQueue(commit_to_the_table)
  manifest = await queue.append(transaction, base)

A merged transaction records the uuids of its parts. So an append whose outcome is unknown can be
added to the queue again, or committed by itself, and never takes effect twice. A merged transaction
also has the notes of all producers.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Final, Protocol

from alance.errors import CommitConflictError, InvalidInputError, RetryableConflictError
from alance.io.loop.background import CANCEL_GRACE_S
from alance.versioning.group_queue import MAX_GROUP, MAX_WAITING, GroupQueue, keep
from alance.versioning.known_versions import KnownVersions
from alance.versioning.manifest_store import VersionsGoneError, is_commit_of, newest_for
from alance.versioning.outcome import clash_with
from alance.versioning.waiting_append import ChangedGroupError, WaitingAppend, all_there, merged

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Sequence

    from alance.format.table.manifest import Manifest
    from alance.format.table.transaction import Transaction
    from alance.versioning.manifest_store import ManifestStore, Objects
    from alance.versioning.rules import Rules

ATTEMPTS: Final = 3  # maximum attempts to make the version of a group


class Commit(Protocol):
    """Function that commits a transaction on a base, as `commit` does."""

    async def __call__(
        self,
        transaction: Transaction,
        base: Manifest,
        data: Awaitable[object] | None,
        named: Objects,
    ) -> Manifest: ...


class CommitQueue(GroupQueue[WaitingAppend]):
    """Queue of appends to one table or branch, in one event loop.

    Args:
        commit: makes a version of the table.
        manifests: manifests of the table, to look up versions after an append's base.
        rules: rules of the table.
        grace_s: seconds that a cancelled append waits for a version that contains it.

    Attributes:
        known: the newest versions that this queue has made or loaded.
    """

    def __init__(
        self,
        commit: Commit,
        manifests: ManifestStore,
        rules: Rules,
        *,
        max_waiting: int = MAX_WAITING,
        max_group: int = MAX_GROUP,
        grace_s: float = CANCEL_GRACE_S,
    ) -> None:
        super().__init__(max_waiting=max_waiting, max_group=max_group, grace_s=grace_s)
        self._commit = commit
        self._manifests = manifests
        self._rules = rules
        self.known = KnownVersions()

    async def append(
        self,
        transaction: Transaction,
        base: Manifest,
        data: Awaitable[object] | None = None,
        named: Objects = (),
    ) -> Manifest:
        """Commit an append together with the waiting appends; return the manifest of its version.

        Cost: two rounds, shared by all appends of a version, after the remaining rounds of the
        version that is being made. A cancelled call leaves the queue. If its version is already
        being made, the call first waits up to `grace_s` for it. The version is still made if it has
        other appends; see `outcome.may_be_visible`.

        Args:
            data: work that must end before the version is visible; it is started immediately.
                Appends that are ready earlier wait for `data` as long as their own data took, at
                least `LAG_S`. After that, this append moves to a later version. None if there is no
                such work.
            named: small objects to write before the manifest; see `PendingCommit`.

        Raises:
            InvalidInputError: the transaction is not an append, or was not made from `base`.
            AlanceError: `commit` failed, for all appends of the version; or `data` failed.
        """
        is_append = transaction.operation == "Append" and not base.version >> 63
        if not is_append or transaction.read_version != base.version:
            raise InvalidInputError(
                f"transaction {transaction.uuid}: {transaction.operation} from version "
                f"{transaction.read_version}; expected an Append from version {base.version}"
            )
        waiter = WaitingAppend(transaction, base, data, named, self._tell)
        try:
            manifest: Manifest = await self._version_of(waiter)
        finally:
            waiter.drop_data()
        return manifest

    async def _make(self, group: list[WaitingAppend], task: asyncio.Task[None]) -> None:
        try:
            await self._make_known(group, task)
        except BaseException:
            self.known.forget()
            raise

    async def _make_known(self, group: list[WaitingAppend], task: asyncio.Task[None]) -> None:
        """Make a version of a group, and record it in `known`.

        Appends that conflict get their own error; appends that are already committed get their
        version.
        """
        attempts = 0
        versions, manifests, rules = self.known, self._manifests, self._rules
        while ready := await on_newest(group, versions, manifests, rules, looks=attempts > 0):
            base = ready[0].base
            if any(waiter.base.version != base.version for waiter in ready):
                # Another version was made meanwhile, and not all appends have been rebased onto it.
                continue
            data = None
            if any(waiter.has_data for waiter in ready):
                data = all_there(ready, task, self._has_ready, self._change)
            else:
                keep(ready, task)
            try:
                whole = merged([waiter.transaction for waiter in ready], base.version)
                named = [place for waiter in ready for place in waiter.named]
                manifest = await self._commit(whole, base, data, named)
            except ChangedGroupError:
                late = [waiter for waiter in group if waiter.is_late and not waiter.is_ready]
                self._return(late, group)
                continue
            except CommitConflictError as error:
                # Some appends may be committed already, or conflict by themselves, so check them
                # again.
                attempts += 1
                is_final = len(ready) == 1 and not isinstance(error, RetryableConflictError)
                if attempts == ATTEMPTS or is_final:
                    raise
                self.known.forget()
                continue
            self.known.add(manifest)
            for waiter in ready:
                waiter.may_be_visible = True
                waiter.succeed(manifest)
            return

    async def _follow(self, group: Sequence[WaitingAppend], *, looks: bool) -> list[WaitingAppend]:
        return await on_newest(group, self.known, self._manifests, self._rules, looks=looks)

    def _has_ready(self) -> bool:
        return any(waiter.is_ready and not waiter.version.done() for waiter in self._waiting)


async def on_newest(
    group: Sequence[WaitingAppend],
    versions: KnownVersions,
    manifests: ManifestStore,
    rules: Rules,
    *,
    looks: bool,
) -> list[WaitingAppend]:
    """Rebase each append onto the newest known version; return the appends that can follow it.

    The other appends get their version or an error.

    Args:
        looks: True to list newer versions even if the commit itself would do so.
    """
    group = [waiter for waiter in group if not waiter.version.done()]
    if not group:
        return []
    oldest = min(group, key=lambda waiter: waiter.base.version).base
    last = max(waiter.base.version for waiter in group)
    if any(versions.contradicts(waiter.base) for waiter in group):
        versions.forget()
    newest = versions.newest
    if newest is None or not versions.covers(oldest.version) or newest.version < last:
        if not looks and last == oldest.version:
            versions.begin([oldest])
        else:
            try:
                later = await manifests.versions_after(oldest)
                versions.begin([oldest, *later])
            except VersionsGoneError as error:
                group = await _stepped_over(group, versions, manifests, error)
    ready = []
    for waiter in group:
        try:
            if await _follow(waiter, versions, manifests, rules):
                ready.append(waiter)
        except Exception as error:
            waiter.fail(error)
    return ready


async def _stepped_over(
    group: Sequence[WaitingAppend],
    versions: KnownVersions,
    manifests: ManifestStore,
    error: VersionsGoneError,
) -> list[WaitingAppend]:
    """Return the appends that can follow the latest version although versions before it are gone.

    The other appends get `error`.
    """
    able = []
    for waiter in group:
        newest = None
        if not waiter.notes:
            newest = await newest_for(manifests, waiter.transaction, waiter.base)
        if newest is None:
            waiter.fail(copy.copy(error))
            continue
        versions.begin([newest])
        waiter.base = newest
        able.append(waiter)
    return able


async def _follow(
    waiter: WaitingAppend, versions: KnownVersions, manifests: ManifestStore, rules: Rules
) -> bool:
    """Rebase an append onto the newest known version. Returns False if it is already committed."""
    transaction = waiter.transaction
    appends, first = versions.appends_after(waiter.base.version)
    for seen in appends:
        if transaction.uuid in seen.makers:
            committed = await manifests.version(seen.version)
            waiter.succeed(committed or first)
            return False
        if clash := waiter.notes.clash(seen.notes):
            raise CommitConflictError(f"version {seen.version} has {clash} already")
    newer = versions.after(waiter.base.version)
    for manifest in newer:
        if is_commit_of(manifest, transaction.uuid):
            waiter.succeed(manifest)
            return False
        if text := clash_with(manifest, waiter.notes):
            raise CommitConflictError(text)
    if appends:
        # The versions up to `first` are appends, and any append can follow appends.
        waiter.base = first
        newer = newer[1:]
    for manifest in newer:
        rebased = await rules.rebase(waiter.transaction, manifest, waiter.base)
        waiter.transaction, waiter.base = rebased.transaction, manifest
    return True
