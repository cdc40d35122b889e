"""Commits under a user's lock, on stores that ignore the condition of a put."""

from __future__ import annotations

import asyncio
import itertools
import threading
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from alance.errors import AlreadyExistsError, RetryableConflictError, UnsupportedError
from alance.io.stores.memory import MemoryStore
from alance.versioning.lock import LockedManifests, hold
from tests.reference.waiting import until
from tests.simulation.append_rules import append
from tests.versioning.conftest import Committer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


_numbers = itertools.count()  # an `id` is given again


class Overwriting(MemoryStore):
    """Ignores the condition of a put, or refuses it."""

    refuses = False

    async def put(self, path: str, body: Any, *, if_absent: bool = False) -> str | None:
        if if_absent and self.refuses:
            raise UnsupportedError("no conditions here")
        await asyncio.sleep(0)
        return await super().put(path, body)


class AsyncLocks:
    """A lock a version."""

    def __init__(self) -> None:
        self.held: list[int] = []
        self._locks: dict[int, asyncio.Lock] = {}

    @asynccontextmanager
    async def __call__(self, version: int) -> AsyncIterator[None]:
        async with self._locks.setdefault(version, asyncio.Lock()):
            self.held.append(version)
            yield


class ThreadLock:
    """One lock that belongs to the thread that took it."""

    def __init__(self) -> None:
        self.held: list[int] = []
        self.lock = threading.RLock()
        self.is_requested = False

    @contextmanager
    def __call__(self, version: int) -> Iterator[None]:
        self.is_requested = True
        with self.lock:
            self.held.append(version)
            yield


def locked(lock: Any, *, refuses: bool = False) -> Committer:
    store = Overwriting(f"memory://locked{next(_numbers)}/")
    store.refuses = refuses
    built = Committer.of("table", store=store)
    return replace(built, manifests=LockedManifests(built.engine, built.table, lock))


@pytest.mark.parametrize("refuses", [False, True])
@pytest.mark.parametrize("kind", [AsyncLocks, ThreadLock])
async def test_commits_under_a_lock_all_land(kind: type, *, refuses: bool) -> None:
    lock = kind()
    committer = locked(lock, refuses=refuses)
    first = await committer.create()
    names = [f"n{number}" for number in range(8)]
    await asyncio.gather(*(committer.commit(first, name) for name in names))
    assert sorted(await committer.paths()) == names
    assert set(lock.held) >= set(range(1, 10))
    await committer.aclose()


async def test_a_lock_may_say_that_another_was_first() -> None:
    inner = AsyncLocks()
    losses = 2

    @asynccontextmanager
    async def lock(version: int) -> AsyncIterator[None]:
        nonlocal losses
        async with inner(version):
            if version == 2 and losses:
                losses -= 1
                raise RetryableConflictError("taken")
            yield

    committer = locked(lock)
    assert (await committer.commit(await committer.create(), "a")).version == 2
    await committer.aclose()


async def test_a_lock_is_left_when_the_commit_fails() -> None:
    lock = ThreadLock()
    with pytest.raises(AlreadyExistsError):
        async with hold(lock, 1):
            raise AlreadyExistsError
    async with hold(lock, 2):
        pass
    assert lock.held == [1, 2]


async def test_a_lock_is_left_when_its_waiter_is_cancelled() -> None:
    lock = ThreadLock()
    remaining = asyncio.Event()

    with lock.lock:
        task = asyncio.create_task(_enter(lock))
        await until(lambda: lock.is_requested)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    async with hold(lock, 2):
        remaining.set()
    assert remaining.is_set()


def test_a_lock_that_is_got_after_the_loops_end_is_left() -> None:
    lock = ThreadLock()

    async def give_up() -> None:
        task = asyncio.create_task(_enter(lock))
        await until(lambda: lock.is_requested)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with lock.lock:
        asyncio.run(give_up())
    while threads := [thread for thread in threading.enumerate() if "alance-lock" in thread.name]:
        threads[0].join()
    assert lock.held == [1]
    assert lock.lock.acquire(blocking=False)


async def _enter(lock: ThreadLock) -> None:
    async with hold(lock, 1):
        raise AssertionError


async def test_what_is_no_lock_is_refused() -> None:
    with pytest.raises(ValueError, match="context manager"):
        async with hold(lambda version: version, 1):  # type: ignore[arg-type,return-value]
            pass


async def test_the_same_transaction_is_committed_once_under_a_lock() -> None:
    committer = locked(AsyncLocks())
    first = await committer.create()
    transaction = append(1, ["a"])
    await committer.run(first, transaction)
    created = await committer.store().create(2, b"", transaction.uuid)
    assert created.is_ours
    assert not (await committer.store().create(2, b"", "another")).is_ours
    await committer.aclose()
