"""An append that waits for its turn in a commit queue, and several of them as one."""

from __future__ import annotations

import asyncio
import math
import uuid
from typing import TYPE_CHECKING, Final

from alance.errors import RetryableConflictError
from alance.format.proto import transaction_pb2
from alance.format.table.transaction import Transaction
from alance.versioning.manifest_store import MERGED
from alance.versioning.tokens import Notes, merged_notes, without_notes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from alance.format.table.manifest import Manifest
    from alance.versioning.manifest_store import Objects

LAG_S: Final = 0.5  # or as long as it took so far: those whose data is there wait for the others


class ChangedGroupError(RetryableConflictError):
    """Some of a group are no part of it any more."""


class WaitingAppend:
    """An append and who waits for it.

    Args:
        moved: called when the data is there, or lost, and when nobody waits any more.

    Attributes:
        base: the version that the transaction stands on.
        made: the version that it made; cancelled where nobody waits any more.
        is_late: others have waited for its data long enough.
        making: what makes a version of it, once that cannot be made without it.
        may_be_visible: the version was made, or may be.
        named: what is to be written with the manifest.
        notes: what it notes of producers.
    """

    __slots__ = (
        "_data",
        "_other",
        "base",
        "is_late",
        "made",
        "making",
        "may_be_visible",
        "named",
        "notes",
        "transaction",
    )

    def __init__(
        self,
        transaction: Transaction,
        base: Manifest,
        data: Awaitable[object] | None,
        named: Objects,
        moved: Callable[[object], object],
    ) -> None:
        self.transaction = transaction
        self.base = base
        self.named = named
        self.made: asyncio.Future[Manifest] = asyncio.get_running_loop().create_future()
        self.made.add_done_callback(moved)
        self.is_late = False
        self.making: asyncio.Task[None] | None = None
        self.may_be_visible = False
        self.notes = Notes.of(transaction.properties)
        self._other = without_notes(transaction.properties)
        self._data = None if data is None else asyncio.ensure_future(data)
        if self._data is not None:
            self._data.add_done_callback(self._told)
            self._data.add_done_callback(moved)

    @property
    def has_data(self) -> bool:
        """Whether something must be done before the version."""
        return self._data is not None

    @property
    def is_ready(self) -> bool:
        """Whether its data is there."""
        data = self._data
        if data is None:
            return True
        return data.done() and not data.cancelled() and data.exception() is None

    def follows(self, other: WaitingAppend) -> bool:
        """Whether an earlier one, if it has a version of its own, has to have it before."""
        ours, theirs = self.notes, other.notes
        return bool(ours.tokens & theirs.tokens or ours.producers.keys() & theirs.producers.keys())

    def goes_with(self, other: WaitingAppend) -> bool:
        """Whether this one, which came later, can be one transaction with another."""
        if self._other != other._other or other.notes.tokens & self.notes.tokens:
            return False
        return all(
            self.notes.producers[name][0] == last
            for name, (_, last) in other.notes.producers.items()
            if name in self.notes.producers
        )

    def succeed(self, manifest: Manifest) -> None:
        """Tell who waits."""
        if not self.made.done():
            self.made.set_result(manifest)

    def fail(self, error: Exception) -> None:
        """Tell who waits."""
        if not self.made.done():
            self.made.set_exception(error)

    def drop_data(self) -> None:
        """Stop what was to be done before the version."""
        if self._data is not None:
            self._data.cancel()

    def _told(self, data: asyncio.Future[object]) -> None:
        """Tell who waits, where the data did not get to the store."""
        if data.cancelled():
            self.made.cancel()
        elif (error := data.exception()) is not None and not self.made.done():
            self.made.set_exception(error)


async def all_there(
    group: Sequence[WaitingAppend],
    making: asyncio.Task[None],
    has_others: Callable[[], bool],
    change: Callable[[float | None], Awaitable[None]],
) -> None:
    """Wait for the data of all; then none can leave any more.

    Args:
        making: what makes their version.
        has_others: whether others could be committed, that are not of the group.
        change: waits until something has changed, or for so long.

    Raises:
        ChangedGroupError: some have left or failed, or are late.
    """
    clock = asyncio.get_running_loop().time
    begun, until = clock(), math.inf
    while True:
        if any(waiter.made.done() for waiter in group):
            raise ChangedGroupError("some data did not get to the store")
        missing = [waiter for waiter in group if not waiter.is_ready]
        if not missing:
            keep(group, making)
            return
        now = clock()
        if now >= until:
            for waiter in missing:
                waiter.is_late = True
            raise ChangedGroupError("some data is late")
        if until == math.inf and (has_others() or len(missing) < len(group)):
            until = now + max(LAG_S, now - begun)
        await change(None if until == math.inf else until - now)


def keep(group: Sequence[WaitingAppend], making: asyncio.Task[None]) -> None:
    """From now on the version is not made without these."""
    for waiter in group:
        waiter.making = making


def merged(appends: Sequence[Transaction], version: int) -> Transaction:
    """One append of all, from one version."""
    first = appends[0]
    if len(appends) == 1 and first.read_version == version:
        return first
    message = transaction_pb2.Transaction(
        read_version=version,
        uuid=str(uuid.uuid4()),
    )
    for append in appends:
        message.transaction_properties.update(without_notes(append.properties))
    notes = merged_notes(Notes.of(append.properties) for append in appends)
    message.transaction_properties.update(notes.properties())
    message.transaction_properties[MERGED] = " ".join(append.uuid for append in appends)
    message.append.SetInParent()
    for append in appends:
        message.append.fragments.extend(append.message.append.fragments)
    return Transaction.from_protobuf(message)
