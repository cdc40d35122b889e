"""Many appends of one process as few versions: those that wait together are committed together.

Alone, eight appenders in turn make a version each, in two rounds of requests at best, and every
one disturbs the others. In a queue, whatever came while one version was being made is the next.

    queue = CommitQueue(commit_to_the_table)
    manifest = await queue.append(transaction, base)

A merged transaction notes the uuids of those it consists of, so that an append whose outcome is
not known can be given to the queue, or committed by itself, once more: it is not done twice. It
also has the notes of all producers.
"""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from alance.errors import CommitConflictError, InvalidInputError, RetryableConflictError
from alance.versioning.known_versions import KnownVersions
from alance.versioning.manifest_store import is_made_by
from alance.versioning.outcome import clash_with, mark_as_open
from alance.versioning.waiting_append import LostDataError, WaitingAppend, data_of, merged

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from alance.format.table.manifest import Manifest
    from alance.format.table.transaction import Transaction
    from alance.versioning.manifest_store import ManifestStore
    from alance.versioning.rules import Rules

MAX_WAITING: Final = 1024  # more wait outside of the queue
MAX_GROUP: Final = 256  # appends of one version
ATTEMPTS: Final = 3  # to make a version of a group
MAX_LINGER_S: Final = 0.02  # for those that were in the version before


class Commit(Protocol):
    """Commits a transaction on a base, as `commit` does."""

    async def __call__(
        self, transaction: Transaction, base: Manifest, data: Awaitable[object] | None
    ) -> Manifest: ...


class CommitQueue:
    """Appends to one table or branch, in one event loop.

    Args:
        commit: makes a version of the table.
        manifests: of the table; asked for versions that an append was not made from.
        rules: of the table.

    Attributes:
        known: the versions that were made or seen.
        num_versions: made by the queue.
    """

    def __init__(
        self,
        commit: Commit,
        manifests: ManifestStore,
        rules: Rules,
        *,
        max_waiting: int = MAX_WAITING,
        max_group: int = MAX_GROUP,
    ) -> None:
        self._commit = commit
        self._manifests = manifests
        self._rules = rules
        self._room = asyncio.Semaphore(max_waiting)
        self._max_group = max_group
        self._waiting: deque[WaitingAppend] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._last_group = 1
        self._last_s = 0.0
        self.known = KnownVersions()
        self.num_versions = 0

    async def append(
        self,
        transaction: Transaction,
        base: Manifest,
        data: Awaitable[object] | None = None,
    ) -> Manifest:
        """Commit an append together with those that wait; gives the manifest of its version.

        Cost: two rounds, shared by all of a version; before them the rest of those of the version
        before.

        A call that is cancelled before its turn leaves the queue; later, the version is made all
        the same (see `outcome.may_be_visible`).

        Args:
            data: what must be done before the version may be seen; begun at once. All of a
                version wait for it: large uploads come before the call.

        Raises:
            InvalidInputError: the transaction is no append, or not made from `base`.
            AlanceError: as of `commit`; all of a version fail alike. Or what `data` raised.
        """
        is_append = transaction.operation == "Append" and not base.version >> 63
        if not is_append or transaction.read_version != base.version:
            raise InvalidInputError(
                f"transaction {transaction.uuid}: {transaction.operation} from version "
                f"{transaction.read_version}; expected an Append from version {base.version}"
            )
        waiter = WaitingAppend(transaction, base, data)
        try:
            async with self._room:
                self._waiting.append(waiter)
                if self._worker is None:
                    self._worker = asyncio.create_task(self._work())
                return await waiter.made
        except asyncio.CancelledError as error:
            if waiter.is_begun:
                mark_as_open(error)
            raise
        finally:
            if not waiter.is_begun:
                waiter.drop_data()

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits, and no version is being made."""
        return self._worker is None

    async def aclose(self) -> None:
        """Wait until everything that waits is committed or has failed."""
        while self._worker is not None:
            await asyncio.wait([self._worker])

    async def _work(self) -> None:
        group: list[WaitingAppend] = []
        clock = asyncio.get_running_loop().time
        try:
            while self._waiting:
                if len(self._waiting) < self._last_group:
                    await asyncio.sleep(min(MAX_LINGER_S, self._last_s / 10))
                group = self._next_group()
                begun = clock()
                await self._commit_group(group)
                self._last_group, self._last_s = len(group), clock() - begun
        finally:
            self._worker = None
            for waiter in (*group, *self._waiting):  # some are left only if this was cancelled
                waiter.made.cancel()
            self._waiting.clear()

    def _next_group(self) -> list[WaitingAppend]:
        """Those that wait and may be one transaction, from the first on."""
        group: list[WaitingAppend] = []
        left: list[WaitingAppend] = []
        for waiter in self._waiting:
            if waiter.made.done():
                continue
            fits = len(group) < self._max_group and all(map(waiter.goes_with, group))
            (group if fits else left).append(waiter)
        self._waiting = deque(left)
        for waiter in group:
            waiter.is_begun = True
        return group

    async def _commit_group(self, group: Sequence[WaitingAppend]) -> None:
        try:
            await self._make(group)
        except Exception as error:
            self.known.forget()
            for waiter in group:
                waiter.fail(copy.copy(error))

    async def _make(self, group: Sequence[WaitingAppend]) -> None:
        """Make a version of a group; those that conflict or are committed already are told."""
        attempts = 0
        while ready := await self._on_one_base(
            [one for one in group if not one.made.done()], looks=attempts > 0
        ):
            base = self.known.newest
            assert base is not None
            try:
                made = await self._commit(merged(ready, base), base, data_of(ready))
            except LostDataError:
                continue  # those whose data is lost have been told
            except CommitConflictError as error:
                # Some are perhaps committed already, or conflict each by itself: look again.
                attempts += 1
                is_final = len(ready) == 1 and not isinstance(error, RetryableConflictError)
                if attempts == ATTEMPTS or is_final:
                    raise
                self.known.forget()
                continue
            self.num_versions += 1
            self.known.add(made)
            for waiter in ready:
                waiter.succeed(made)
            return

    async def _on_one_base(
        self, group: Sequence[WaitingAppend], *, looks: bool
    ) -> list[WaitingAppend]:
        """Rebase each onto the newest version known; those that cannot follow are told.

        Args:
            looks: for newer versions, even where the commit itself would.
        """
        if not group:
            return []
        oldest = min(group, key=lambda one: one.base.version).base
        last = max(one.base.version for one in group)
        known = self.known
        if any(known.contradicts(one.base) for one in group):
            known.forget()
        newest = known.newest
        if newest is None or not known.covers(oldest.version) or newest.version < last:
            if not looks and last == oldest.version:
                known.begin([oldest])
            else:
                later = await self._manifests.versions_after(oldest.version)
                known.begin([oldest, *later])
        ready = []
        for waiter in group:
            try:
                if await self._follow(waiter):
                    ready.append(waiter)
            except Exception as error:
                waiter.fail(error)
        return ready

    async def _follow(self, waiter: WaitingAppend) -> bool:
        """Rebase one onto the newest version known; False where it is committed already."""
        transaction = waiter.transaction
        appends, first = self.known.appends_after(waiter.base.version)
        for seen in appends:
            if transaction.uuid in seen.makers:
                made = await self._manifests.version(seen.version)
                waiter.succeed(made or first)
                return False
            if clash := waiter.notes.clash(seen.notes):
                raise CommitConflictError(f"version {seen.version} has {clash} already")
        newer = self.known.after(waiter.base.version)
        for manifest in newer:
            if is_made_by(manifest, transaction.uuid):
                waiter.succeed(manifest)
                return False
            if text := clash_with(manifest, waiter.notes):
                raise CommitConflictError(text)
        if appends:
            waiter.base = first  # nothing but appends up to there, which an append can follow
            newer = newer[1:]
        for manifest in newer:
            rebased = await self._rules.rebase(waiter.transaction, manifest, waiter.base)
            waiter.transaction, waiter.base = rebased.transaction, manifest
        return True
