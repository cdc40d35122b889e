"""Commits under a user's lock, for stores without put-if-absent.

    @contextlib.asynccontextmanager
    async def lock(version: int) -> AsyncIterator[None]:
        async with my_service.lease(f"table/{version}"):
            yield

A lock only protects while it is held. A PUT that the client has given up on may take effect after
the lock was released, and replace the next holder's manifest. So on stores with put-if-absent, the
PUT under the lock is conditional, too.
"""

from __future__ import annotations

import asyncio
import math
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from alance.errors import CommitConflictError, InvalidInputError, NotFoundError, UnsupportedError
from alance.versioning.manifest_store import (
    ConditionalManifests,
    Created,
    is_commit_of,
    manifest_at,
    paths_of,
    settle_manifest,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from alance.format.table.naming import NamingScheme
    from alance.io.reading.engine import Engine
    from alance.versioning.manifest_store import Objects
    from alance.versioning.settle import Patience
    from alance.versioning.table import Table

Held: TypeAlias = AbstractContextManager[object] | AbstractAsyncContextManager[object]
CommitLock: TypeAlias = "Callable[[int], Held]"


class LockedManifests(ConditionalManifests):
    """Manifests that are written under a lock.

    Args:
        lock: called with the number of the version to create; returns a context manager, either
            async or not. A synchronous one is entered and left in a separate thread. If entering it
            raises `CommitConflictError`, another committer was first.
    """

    def __init__(
        self,
        engine: Engine,
        table: Table,
        lock: CommitLock,
        *,
        scheme: NamingScheme | None = None,
        patience: Patience | None = None,
    ) -> None:
        # Not probed, because the user guarantees that the lock works.
        super().__init__(engine, table, scheme=scheme, patience=patience, is_safe=True)
        self._lock = lock

    async def create(
        self,
        version: int,
        content: bytes,
        transaction_uuid: str,
        *,
        named: Objects = (),
        peeks: bool = False,
    ) -> Created:
        """Write a version's manifest if it is absent. Cost: a GET and a PUT under the lock."""
        location = self.location(version)
        store, path = self._engine.registry.resolve(location)

        before = paths_of(named, store)

        async def put() -> str | None:
            try:
                return await store.put_in_order([*before, (path, content)], if_absent=True)
            except UnsupportedError:
                return await store.put(path, content)

        try:
            async with hold(self._lock, version):
                try:
                    manifest = await manifest_at(self._engine, location)
                except NotFoundError:
                    # Send a single put at a time, because on a store without conditions, the last
                    # put would win.
                    patience = replace(self.patience, quiet_s=math.inf)
                    return await settle_manifest(
                        self._engine, store, path, put, transaction_uuid, patience
                    )
        except CommitConflictError:
            return Created(is_ours=False)
        return Created(manifest is not None and is_commit_of(manifest, transaction_uuid), manifest)


@asynccontextmanager
async def hold(lock: CommitLock, version: int) -> AsyncIterator[None]:
    """Hold a lock, async or not, without blocking the event loop.

    Raises:
        InvalidInputError: `lock` did not return a context manager.
    """
    held = lock(version)
    if isinstance(held, AbstractAsyncContextManager):
        async with held:
            yield
        return
    if not isinstance(held, AbstractContextManager):
        raise InvalidInputError(
            f"commit_lock: expected a function that gives a context manager, found {held!r}"
        )
    async with _in_thread(held):
        yield


@asynccontextmanager
async def _in_thread(held: AbstractContextManager[object]) -> AsyncIterator[None]:
    """Enter and leave a context manager in the same thread; some locks belong to a thread."""
    thread = ThreadPoolExecutor(1, "alance-lock")
    entering = thread.submit(held.__enter__)
    failure: BaseException | None = None

    def leave() -> None:
        kind, trace = (type(failure), failure.__traceback__) if failure else (None, None)
        held.__exit__(kind, failure, trace)

    def leave_if_entered(done: Future[object]) -> None:
        if not done.cancelled() and done.exception() is None:
            thread.submit(leave)
        thread.shutdown(wait=False)

    try:
        await asyncio.wrap_future(entering)
        yield
    except BaseException as error:
        failure = error
        raise
    finally:
        if entering.done() and not entering.cancelled() and entering.exception() is None:
            leaving = asyncio.wrap_future(thread.submit(leave))
            thread.shutdown(wait=False)
            await asyncio.shield(leaving)
        else:
            # The callback runs in the lock's thread, because the lock may be acquired after the end
            # of the event loop.
            entering.add_done_callback(leave_if_entered)
