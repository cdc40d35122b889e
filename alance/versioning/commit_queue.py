"""Many appends of one process as few versions: those that wait together are committed together.

Alone, eight appenders in turn make a version each, in two rounds of requests at best, and every
one disturbs the others. In a queue, whatever came while one version was being made is the next.

    queue = CommitQueue(commit_to_the_table)
    manifest = await queue.append(transaction, base)

A merged transaction notes the uuids of those it consists of, so that an append whose outcome is
not known can be given to the queue, or committed by itself, once more: it is not done twice.
"""

from __future__ import annotations

import asyncio
import copy
import uuid
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from alance.errors import InvalidInputError, RetryableConflictError
from alance.format.proto import transaction_pb2
from alance.format.table.transaction import Transaction
from alance.versioning.manifest_store import MERGED, is_made_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.table.manifest import Manifest
    from alance.versioning.manifest_store import ManifestStore
    from alance.versioning.rules import Rules

MAX_WAITING: Final = 1024  # more wait outside of the queue
MAX_GROUP: Final = 256  # appends of one version
KEPT: Final = 16  # versions kept for appends that were made from older ones
ATTEMPTS: Final = 3  # to make a version of a group


class Commit(Protocol):
    """Commits a transaction on a base, as `commit` does."""

    async def __call__(self, transaction: Transaction, base: Manifest) -> Manifest: ...


@dataclass(eq=False, slots=True)
class _Waiter:
    transaction: Transaction
    base: Manifest
    made: asyncio.Future[Manifest]


class CommitQueue:
    """Appends to one table or branch, in one event loop.

    Args:
        commit: makes a version of the table.
        manifests: of the table; asked for versions that an append was not made from.
        rules: of the table.
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
        self._waiting: deque[_Waiter] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._known: list[Manifest] = []  # without a gap, oldest first

    async def append(self, transaction: Transaction, base: Manifest) -> Manifest:
        """Commit an append together with those that wait; gives the manifest of its version.

        Its data must be there already. Cost: two rounds, shared by all of a version; before them
        the rest of those of the version before.

        A call that is cancelled before its turn leaves the queue; later, the version is made all
        the same.

        Raises:
            InvalidInputError: the transaction is no append, or not made from `base`.
            AlanceError: as of `commit`; all of a version fail alike.
        """
        is_append = transaction.operation == "Append" and not base.version >> 63
        if not is_append or transaction.read_version != base.version:
            raise InvalidInputError(
                f"transaction {transaction.uuid}: {transaction.operation} from version "
                f"{transaction.read_version}; expected an Append from version {base.version}"
            )
        async with self._room:
            waiter = _Waiter(transaction, base, asyncio.get_running_loop().create_future())
            self._waiting.append(waiter)
            if self._worker is None:
                self._worker = asyncio.create_task(self._work())
            return await waiter.made

    async def aclose(self) -> None:
        """Wait until everything that waits is committed or has failed."""
        while self._worker is not None:
            await asyncio.wait([self._worker])

    async def _work(self) -> None:
        group: list[_Waiter] = []
        try:
            while self._waiting:
                group = self._next_group()
                await self._commit_group(group)
        finally:
            self._worker = None
            for waiter in (*group, *self._waiting):  # some are left only if this was cancelled
                waiter.made.cancel()
            self._waiting.clear()

    def _next_group(self) -> list[_Waiter]:
        """Those that wait and note the same, from the first on."""
        group: list[_Waiter] = []
        left: list[_Waiter] = []
        for waiter in self._waiting:
            if waiter.made.done():
                continue
            fits = not group or group[0].transaction.properties == waiter.transaction.properties
            (group if fits and len(group) < self._max_group else left).append(waiter)
        self._waiting = deque(left)
        return group

    async def _commit_group(self, group: Sequence[_Waiter]) -> None:
        try:
            await self._make(group)
        except Exception as error:
            self._known.clear()
            for waiter in group:
                if not waiter.made.done():
                    waiter.made.set_exception(copy.copy(error))

    async def _make(self, group: Sequence[_Waiter]) -> None:
        """Make a version of a group; those that conflict or are committed already are told."""
        attempts = 0
        while ready := await self._on_one_base([one for one in group if not one.made.done()]):
            base = self._known[-1]
            attempts += 1
            try:
                made = await self._commit(_merged([one.transaction for one in ready], base), base)
            except RetryableConflictError:
                # Some are perhaps committed already, or conflict each by itself: look again.
                self._known.clear()
                if attempts == ATTEMPTS:
                    raise
                continue
            self._learn(made)
            for waiter in ready:
                if not waiter.made.done():
                    waiter.made.set_result(made)
            return

    async def _on_one_base(self, group: Sequence[_Waiter]) -> list[_Waiter]:
        """Rebase each onto the newest version known; those that cannot follow are told."""
        if not group:
            return []
        oldest = min(group, key=lambda one: one.base.version).base
        newest = max(one.base.version for one in group)
        known = self._known
        if not known or not known[0].version <= oldest.version <= known[-1].version:
            known = [oldest, *await self._manifests.versions_after(oldest.version)]
        elif newest > known[-1].version:
            known = [*known, *await self._manifests.versions_after(known[-1].version)]
        self._known = known
        ready = []
        for waiter in group:
            try:
                if await self._follow(waiter):
                    ready.append(waiter)
            except Exception as error:
                if not waiter.made.done():
                    waiter.made.set_exception(error)
        return ready

    async def _follow(self, waiter: _Waiter) -> bool:
        """Rebase one onto the newest version known; False where it is committed already."""
        newer = [one for one in self._known if one.version > waiter.base.version]
        for manifest in newer:
            if is_made_by(manifest, waiter.transaction.uuid):
                if not waiter.made.done():
                    waiter.made.set_result(manifest)
                return False
        for manifest in newer:
            rebased = await self._rules.rebase(waiter.transaction, manifest, waiter.base)
            waiter.transaction, waiter.base = rebased.transaction, manifest
        return True

    def _learn(self, made: Manifest) -> None:
        """Keep a version that was made, if none is missing before it."""
        is_next = made.version == self._known[-1].version + 1
        self._known = [*(self._known[1 - KEPT :] if is_next else ()), made]


def _merged(transactions: Sequence[Transaction], base: Manifest) -> Transaction:
    """One append of all, from one base."""
    first = transactions[0]
    if len(transactions) == 1 and first.read_version == base.version:
        return first
    message = transaction_pb2.Transaction(
        read_version=base.version,
        uuid=str(uuid.uuid4()),
        transaction_properties=dict(first.properties),
    )
    message.transaction_properties[MERGED] = " ".join(one.uuid for one in transactions)
    message.append.SetInParent()
    for one in transactions:
        message.append.fragments.extend(one.message.append.fragments)
    return Transaction.from_protobuf(message)
