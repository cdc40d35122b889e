"""An append that waits for its turn in a commit queue, and several of them as one."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

from alance.errors import RetryableConflictError
from alance.format.proto import transaction_pb2
from alance.format.table.transaction import Transaction
from alance.versioning.manifest_store import MERGED
from alance.versioning.tokens import Notes, merged_notes, without_notes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from alance.format.table.manifest import Manifest


class LostDataError(RetryableConflictError):
    """The data of some of a group did not get there; they have been told."""


class WaitingAppend:
    """An append and who waits for it.

    Attributes:
        base: the version that the transaction stands on.
        made: the version that it made.
        is_begun: it is part of a version that is being made.
        notes: what it notes of producers.
    """

    __slots__ = ("_data", "_other", "base", "is_begun", "made", "notes", "transaction")

    def __init__(
        self, transaction: Transaction, base: Manifest, data: Awaitable[object] | None
    ) -> None:
        self.transaction = transaction
        self.base = base
        self.made: asyncio.Future[Manifest] = asyncio.get_running_loop().create_future()
        self.is_begun = False
        self.notes = Notes.of(transaction.properties)
        self._other = without_notes(transaction.properties)
        self._data = None if data is None else asyncio.ensure_future(data)

    @property
    def has_data(self) -> bool:
        """Whether something must be done before the version."""
        return self._data is not None

    def goes_with(self, other: WaitingAppend) -> bool:
        """Whether this one, which came later, can be one transaction with another."""
        if self._other != other._other or other.notes.tokens & self.notes.tokens:
            return False
        return all(
            self.notes.producers[name][0] == last
            for name, (_, last) in other.notes.producers.items()
            if name in self.notes.producers
        )

    def succeed(self, made: Manifest) -> None:
        """Tell who waits."""
        if not self.made.done():
            self.made.set_result(made)

    def fail(self, error: Exception) -> None:
        """Tell who waits."""
        if not self.made.done():
            self.made.set_exception(error)

    def drop_data(self) -> None:
        """Stop what was to be done before the version."""
        if self._data is not None:
            self._data.cancel()

    async def data(self) -> bool:
        """Wait for what must be done before; False where it failed, which is told."""
        if self._data is None:
            return True
        await asyncio.wait([self._data])
        if self._data.cancelled():
            self.made.cancel()
            return False
        error = self._data.exception()
        if error is None:
            return True
        if not isinstance(error, Exception):
            raise error
        self.fail(error)
        return False


def data_of(group: Sequence[WaitingAppend]) -> Awaitable[object] | None:
    """What must be done before a version of a group may be seen."""
    return _all_there(group) if any(one.has_data for one in group) else None


async def _all_there(group: Sequence[WaitingAppend]) -> None:
    found = [await one.data() for one in group]
    if not all(found):
        raise LostDataError("some data did not get to the store")


def merged(group: Sequence[WaitingAppend], base: Manifest) -> Transaction:
    """One append of all, from one base."""
    first = group[0].transaction
    if len(group) == 1 and first.read_version == base.version:
        return first
    message = transaction_pb2.Transaction(
        read_version=base.version,
        uuid=str(uuid.uuid4()),
        transaction_properties=without_notes(first.properties),
    )
    notes = merged_notes(one.notes for one in group)
    message.transaction_properties.update(notes.properties())
    uuids = " ".join(one.transaction.uuid for one in group)
    message.transaction_properties[MERGED] = uuids
    message.append.SetInParent()
    for one in group:
        message.append.fragments.extend(one.transaction.message.append.fragments)
    return Transaction.from_protobuf(message)
