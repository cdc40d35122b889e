"""Append that waits in a commit queue, and the merging of appends into one transaction."""

from __future__ import annotations

import asyncio
import math
import uuid
from typing import TYPE_CHECKING, Final

from alance.errors import RetryableConflictError
from alance.format.proto import transaction_pb2
from alance.format.table.transaction import Transaction
from alance.versioning.group_queue import WaitingCommit, keep
from alance.versioning.manifest_store import MERGED
from alance.versioning.tokens import Notes, merged_notes, without_notes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from alance.format.table.manifest import Manifest
    from alance.versioning.manifest_store import Objects

# Minimum wait for late data; longer if the data of the other appends took longer.
LAG_S: Final = 0.5


class ChangedGroupError(RetryableConflictError):
    """Error: an append has left the group, or its data is late."""


class WaitingAppend(WaitingCommit["Manifest"]):
    """Append in the queue, with its waiting caller.

    Args:
        moved: called when `data` has ended, and when `version` is done or cancelled.

    Attributes:
        base: version that the transaction was computed from or rebased onto.
        is_late: True if other appends have waited for its data long enough.
        named: objects to write with the manifest.
    """

    __slots__ = ("_data", "base", "is_late", "named", "transaction")

    def __init__(
        self,
        transaction: Transaction,
        base: Manifest,
        data: Awaitable[object] | None,
        named: Objects,
        moved: Callable[[object], object],
    ) -> None:
        properties = transaction.properties
        super().__init__(Notes.of(properties), without_notes(properties), moved)
        self.transaction = transaction
        self.base = base
        self.named = named
        self.is_late = False
        self._data = None if data is None else asyncio.ensure_future(data)
        if self._data is not None:
            self._data.add_done_callback(self._data_done)
            self._data.add_done_callback(moved)

    @property
    def has_data(self) -> bool:
        """True if data has to be written before the version."""
        return self._data is not None

    @property
    def is_ready(self) -> bool:
        """True if the data has been written, or there is none to write."""
        data = self._data
        if data is None:
            return True
        return data.done() and not data.cancelled() and data.exception() is None

    @property
    def can_go(self) -> bool:
        return self.is_ready or not self.is_late

    def drop_data(self) -> None:
        """Cancel the writing of the data."""
        if self._data is not None:
            self._data.cancel()

    def _data_done(self, data: asyncio.Future[object]) -> None:
        """Pass a failure or cancellation of the data on to the waiting caller."""
        if data.cancelled():
            self.version.cancel()
        elif (error := data.exception()) is not None and not self.version.done():
            self.version.set_exception(error)


async def all_there(
    group: Sequence[WaitingAppend],
    making: asyncio.Task[None],
    has_others: Callable[[], bool],
    change: Callable[[float | None], Awaitable[None]],
) -> None:
    """Wait for the data of all appends. After this, no append can leave the group.

    Args:
        making: task that makes the group's version.
        has_others: returns True if appends outside of the group are ready to be committed.
        change: waits until the queue changes or a timeout passes.

    Raises:
        ChangedGroupError: an append has left or failed, or its data is late.
    """
    clock = asyncio.get_running_loop().time
    begun, until = clock(), math.inf
    while True:
        if any(waiter.version.done() for waiter in group):
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


def merged(appends: Sequence[Transaction], version: int) -> Transaction:
    """Merge appends into a single Append transaction that reads `version`."""
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
