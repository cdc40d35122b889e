"""The objects of tags and branches: read, put and deleted."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from alance.errors import AlreadyExistsError, NotFoundError, StoreError, UnsupportedError
from alance.io.tasks import all_of
from alance.versioning.load import read_object
from alance.versioning.settle import Patience, Settled, put_settled

if TYPE_CHECKING:
    from alance.ops.version.snapshot import Snapshot

AT_ONCE: Final = 1000  # objects that are deleted together


async def content_of(snapshot: Snapshot, location: str, what: str) -> memoryview:
    try:
        return await read_object(snapshot.engine, location, None, what.partition(" ")[0])
    except NotFoundError as error:
        raise snapshot.table.not_found(f"no {what}") from error


async def put_over(snapshot: Snapshot, location: str, content: bytes) -> None:
    store, path = snapshot.engine.registry.resolve(location)
    try:
        await store.put(path, content)
    except (StoreError, AlreadyExistsError):
        found = await snapshot.engine.scheduler.read_all(location, reason="whose ref")
        if bytes(found) != content:
            raise


async def put_new(snapshot: Snapshot, location: str, content: bytes, what: str) -> None:
    """Put an object that must not be there; a lost answer is settled by reading it back."""
    engine, table = snapshot.engine, snapshot.table
    store, path = engine.registry.resolve(location)

    async def whose() -> Settled:
        found = await engine.scheduler.read_all(location, reason="whose ref")
        return Settled.OURS if bytes(found) == content else Settled.THEIRS

    async def put() -> None:
        if table.keeper is None:
            await store.put(path, content, if_absent=True)
            return
        # The store may ignore the condition, or refuse it.
        with suppress(NotFoundError):
            await whose()
            raise AlreadyExistsError(f"{what} is there already")
        try:
            await store.put(path, content, if_absent=True)
        except UnsupportedError:
            await store.put(path, content)

    settled = await put_settled(
        put,
        whose,
        what,
        Patience(quiet_s=2.0 if table.keeper is None else math.inf),
        at_once=not store.profile.is_remote,
    )
    if settled is Settled.THEIRS:
        raise AlreadyExistsError(f"dataset {table.uri!r}: {what} is there already")


async def delete_all(snapshot: Snapshot, locations: list[str]) -> None:
    found = [snapshot.engine.registry.resolve(one) for one in locations]
    if found:
        store = found[0][0]
        paths = [path for _, path in found]
        parts = [paths[start : start + AT_ONCE] for start in range(0, len(paths), AT_ONCE)]
        await all_of(store.delete(part) for part in parts)
