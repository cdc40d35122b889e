"""Lease of a table's maintenance: a record that lets one of several replicas do the work.

The records of a table are numbered objects below `_maintenance`; only the newest one is valid. A
new record is a conditional put of the next number, in which only one replica succeeds. Correctness
does not depend on the lease: each step is a separate commit, and if two steps do the same work the
later one conflicts. A wrong clock, or a store without conditional puts, only leads to repeated
work.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import uuid
from contextlib import aclosing, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from alance.base.records import dataclass
from alance.errors import (
    AlanceError,
    AlreadyExistsError,
    CorruptFileError,
    NotFoundError,
    StoreError,
    UnsupportedError,
)
from alance.versioning.load import latest, read_object

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.ops.version.snapshot import Snapshot

LEASE_FOLDER: Final = "_maintenance"
DURATION: Final = timedelta(seconds=120)  # longer than a renewal takes on a slow store
RENEWALS: Final = 3  # renewals within the duration of a lease


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last run of `maintain` that finished a step.

    Attributes:
        finished_at: end of the run, by the clock of its process.
        holder: host and process of the run.
        version: version of the table at the end of the run.
        steps: kinds of the finished steps, in order.
    """

    finished_at: datetime
    holder: str
    version: int
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Record:
    """Contents of the newest record.

    Attributes:
        number: number of the object; 0 if there is no record.
        token: token of the run that holds the lease.
        expires_at: end of the lease; None if no run holds it.
    """

    number: int = 0
    token: str = ""
    holder: str = ""
    expires_at: datetime | None = None
    last_run: LastRun | None = None

    def to_json(self) -> bytes:
        run = self.last_run
        values = {
            "token": self.token,
            "holder": self.holder,
            "expires_at": self.expires_at and self.expires_at.isoformat(),
            "last_run": run
            and {
                "finished_at": run.finished_at.isoformat(),
                "holder": run.holder,
                "version": run.version,
                "steps": list(run.steps),
            },
        }
        return json.dumps(values).encode()

    @classmethod
    def parse(cls, number: int, location: str, content: memoryview) -> _Record:
        try:
            values: dict[str, Any] = json.loads(bytes(content))
            expires, run = values["expires_at"], values["last_run"]
            return cls(
                number,
                str(values["token"]),
                str(values["holder"]),
                None if expires is None else _time(expires),
                None
                if run is None
                else LastRun(
                    _time(run["finished_at"]),
                    str(run["holder"]),
                    int(run["version"]),
                    tuple(map(str, run["steps"])),
                ),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFileError(
                f"{location}: no record of maintenance ({error!r}); delete the object: maintenance "
                "goes on without it"
            ) from error


def _time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


class Lease:
    """The right to maintain a table, renewed by a task until `release`. See `acquire`."""

    def __init__(self, snapshot: Snapshot, record: _Record) -> None:
        self._snapshot = snapshot
        self._record = record
        self.is_lost = False  # True if another run holds the lease
        self._renewing = asyncio.create_task(self._renew())

    async def _renew(self) -> None:
        while not self.is_lost:
            await asyncio.sleep(DURATION.total_seconds() / RENEWALS)
            with suppress(AlanceError):  # tried again; at worst the lease expires
                await self._replace(expires_at=datetime.now(UTC) + DURATION)

    async def _replace(
        self, *, expires_at: datetime | None = None, last_run: LastRun | None = None
    ) -> None:
        """Write the next record."""
        while not self.is_lost:
            old = self._record
            run = last_run or old.last_run
            new = _Record(old.number + 1, old.token, old.holder, expires_at, run)
            if await _put(self._snapshot, new):
                self._record = new
                await _remove(self._snapshot, [old.number])
                return
            newest, _ = await _newest(self._snapshot)
            # Our own renewal whose answer was lost: the next record follows it.
            self.is_lost = newest.token != old.token or newest.number <= old.number
            self._record = newest

    async def release(self, steps: Sequence[str], version: int) -> None:
        """Release the lease, and record the run. If the table was dropped, all records are removed.

        Args:
            steps: kinds of the finished steps; empty: the recorded last run is unchanged.
            version: latest version of the table.
        """
        self._renewing.cancel()
        await asyncio.gather(self._renewing, return_exceptions=True)
        if self.is_lost:
            return
        run = LastRun(datetime.now(UTC), self._record.holder, version, tuple(steps))
        with suppress(AlanceError):  # the lease expires
            await self._replace(last_run=run if steps else None)
            # A dropped table has no version, but the drop may have missed the record that was just
            # written.
            try:
                await latest(self._snapshot.engine, self._snapshot.table)
            except NotFoundError:
                await self._forget()

    async def _forget(self) -> None:
        """Remove the records of a dropped table, and folders that are then empty."""
        _, numbers = await _newest(self._snapshot)
        await _remove(self._snapshot, numbers)
        folder = self._snapshot.table.folder(LEASE_FOLDER)
        store, path = self._snapshot.engine.registry.resolve(folder)
        await store.remove_folders(path.removesuffix(f"/{LEASE_FOLDER}"))


async def acquire(snapshot: Snapshot) -> Lease | str:
    """Acquire the lease of a table; if another run holds it, return that holder's name.

    On a store without conditional puts, several runs may acquire it.

    Cost: a LIST and a PUT; if there are older records, also a GET of the newest one, and a DELETE.
    If another run holds the lease, only the LIST and the GET.

    Raises:
        CorruptFileError: the newest record cannot be parsed.
        StoreError: the store failed.
    """
    newest, numbers = await _newest(snapshot)
    now = datetime.now(UTC)
    if newest.expires_at is not None and now < newest.expires_at <= now + 2 * DURATION:
        return newest.holder
    holder = f"{socket.gethostname()}:{os.getpid()}"
    record = _Record(newest.number + 1, uuid.uuid4().hex, holder, now + DURATION, newest.last_run)
    if not await _put(snapshot, record):
        return "another run that has just begun"
    await _remove(snapshot, numbers)
    return Lease(snapshot, record)


async def last_run(snapshot: Snapshot) -> LastRun | None:
    """Return the last run of a table's maintenance that finished a step.

    Returns None if no run is recorded, or if the record is damaged.

    Cost: a LIST; a GET of the newest record, if there is one.

    Raises:
        StoreError: the store failed.
    """
    try:
        newest, _ = await _newest(snapshot)
    except CorruptFileError:
        return None
    return newest.last_run


async def _newest(snapshot: Snapshot) -> tuple[_Record, list[int]]:
    """Return the newest record, and the numbers of all records."""
    numbers = []
    engine, folder = snapshot.engine, snapshot.table.folder(LEASE_FOLDER)
    with suppress(NotFoundError):
        listing = engine.scheduler.list(folder, reason="maintenance")
        async with aclosing(listing) as entries:  # type: ignore[type-var]  # a generator
            async for entry in entries:
                name = entry.path.rpartition("/")[2].removesuffix(".json")
                if name.isdecimal():
                    numbers.append(int(name))
    while numbers:
        newest = max(numbers)
        location = _location(snapshot, newest)
        try:
            content = await read_object(engine, location, None, "maintenance")
        except NotFoundError:  # replaced by a later record, which the next call reads
            numbers.remove(newest)
            continue
        return _Record.parse(newest, location, content), numbers
    return _Record(), []


async def _put(snapshot: Snapshot, record: _Record) -> bool:
    """Write a record; return False if another run has written its number.

    Raises:
        StoreError: the store failed, and there is no such record.
    """
    location = _location(snapshot, record.number)
    store, path = snapshot.engine.registry.resolve(location)
    content = record.to_json()
    try:
        await store.put(path, content, if_absent=True)
    except UnsupportedError:
        await store.put(path, content)
    except (AlreadyExistsError, StoreError) as error:
        try:  # our own record, if the answer to the put was lost
            stored = await read_object(snapshot.engine, location, None, "maintenance")
        except NotFoundError:
            if isinstance(error, AlreadyExistsError):
                return False
            raise error from None
        return bytes(stored) == content
    return True


async def _remove(snapshot: Snapshot, numbers: Sequence[int]) -> None:
    """Delete records that newer ones replace. Errors are ignored; the next run deletes the rest."""
    if numbers:
        store, _ = snapshot.engine.registry.resolve(snapshot.table.folder(LEASE_FOLDER))
        paths = [
            snapshot.engine.registry.resolve(_location(snapshot, number))[1] for number in numbers
        ]
        with suppress(AlanceError):
            await store.delete(paths)


def _location(snapshot: Snapshot, number: int) -> str:
    return f"{snapshot.table.folder(LEASE_FOLDER)}/{number:020}.json"
