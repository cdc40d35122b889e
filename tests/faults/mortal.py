"""Processes that are killed between two requests, or at a turn of their tasks, inside of a test.

A `Process` has a store and a session of its own. Its requests go to the objects of a `World`, which
outlive it. From its death on nothing that it still does reaches them.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import alance
from alance.io.stores.memory import MemoryStore
from alance.io.stores.profile import GCS
from tests.faults.killed import Turns

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
    from pathlib import Path

    from alance.io.stores.store import Body, Names, ObjectMeta, Span

T = TypeVar("T")
_numbers = itertools.count()


class World(MemoryStore):
    """Objects of a bucket, which processes share."""

    def copy_of(self) -> World:
        """Return a bucket with the same objects."""
        other = World()
        other._objects = dict(self._objects)
        return other

    def expire_leases(self) -> None:
        """Let the time pass for which a process that was killed has the right to maintain."""
        for path in [path for path in self._objects if "/_maintenance/" in path]:
            record = json.loads(bytes(self._objects[path].body))
            if record["expires_at"] is not None:
                record["expires_at"] = datetime(2020, 1, 1, tzinfo=UTC).isoformat()
            body = memoryview(json.dumps(record).encode())
            self._objects[path] = self._objects[path]._replace(body=body)

    def write_to(self, folder: Path) -> None:
        """Write the objects to files, for pylance."""
        for path, stored in self._objects.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(stored.body)


class MortalStore(MemoryStore):
    """A bucket as a process sees it.

    Args:
        ways: ways to the server and back again, of all requests, after which the process is dead;
            None: it lives.
    """

    def __init__(self, world: World, ways: int | None) -> None:
        super().__init__(f"s3://mortal-{next(_numbers)}/", GCS)
        self._objects, self._tags, self._lock = world._objects, world._tags, world._lock
        self.ways = ways
        self.num_ways = 0
        self.death = asyncio.Event()

    async def _go(self) -> None:
        self.num_ways += 1
        if self.ways is not None and self.num_ways > self.ways:
            self.death.set()
        if self.death.is_set():
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(0)

    async def _request(self, call: Callable[[], Awaitable[T]]) -> T:
        await self._go()
        try:
            return await call()
        finally:
            await self._go()

    def read_now(self, path: str, ranges: Sequence[Span]) -> None:  # type: ignore[override]
        """None: it must travel."""

    def get_ranges(self, path: str, ranges: Sequence[Span]) -> asyncio.Future[Sequence[memoryview]]:
        """Ranges of an object."""

        async def read() -> Sequence[memoryview]:
            body = await self.get(path)
            return [body[start:stop] for start, stop in ranges]

        return asyncio.ensure_future(read())

    async def get(self, path: str, *, e_tag: str | None = None) -> memoryview:
        """An object."""
        return await self._request(lambda: super(MortalStore, self).get(path, e_tag=e_tag))

    async def get_tail(
        self, path: str, num_bytes: int, *, size: int | None = None
    ) -> tuple[memoryview, int]:
        """The last bytes."""
        body = await self.get(path)
        return body[max(0, len(body) - num_bytes) :], len(body)

    async def size(self, path: str) -> int:
        """Bytes of the object."""
        return len(await self.get(path))

    async def put(self, path: str, body: Body, *, if_absent: bool = False) -> str | None:
        """Write an object."""
        return await self._request(
            lambda: super(MortalStore, self).put(path, body, if_absent=if_absent)
        )

    async def delete(self, paths: Sequence[str]) -> None:
        """Delete objects."""
        await self._request(lambda: super(MortalStore, self).delete(paths))

    async def list_level(self, prefix: str) -> tuple[Names, Names]:
        """Folders and objects."""
        return await self._request(lambda: super(MortalStore, self).list_level(prefix))

    async def list(
        self, prefix: str, *, start_after: str | None = None
    ) -> AsyncIterator[ObjectMeta]:
        """Objects under a folder, as they are when the request arrives."""

        async def read() -> list[ObjectMeta]:
            return [
                meta
                async for meta in super(MortalStore, self).list(prefix, start_after=start_after)
            ]

        for meta in await self._request(read):
            yield meta


class Process:
    """A process with the table `t` in a bucket of its own store object.

    Args:
        ways: as for `MortalStore`.
    """

    def __init__(self, world: World, ways: int | None = None) -> None:
        self.store = MortalStore(world, ways)
        self.session = alance.Session()
        self.place: dict[str, Any] = {"store": self.store, "session": self.session}

    async def dataset(self) -> alance.Dataset:
        """Open the table."""
        return await alance.dataset("t", **self.place)

    async def run(self, work: Coroutine[Any, Any, object]) -> bool:
        """Run some work to its end, or until the process is dead; return True if it has ended.

        Then nothing of the process goes on.
        """
        task, death = asyncio.ensure_future(work), asyncio.ensure_future(self.store.death.wait())
        await asyncio.wait([task, death], return_when=asyncio.FIRST_COMPLETED)
        is_done = not self.store.death.is_set()
        if is_done:
            await task
            await self.session.aclose()
        self.store.death.set()
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for other in tasks:
                other.cancel()
            await asyncio.wait(tasks, timeout=0.1)
            await asyncio.gather(
                *(other for other in tasks if other.done()), return_exceptions=True
            )
        return is_done


async def cancelled_at(turn: int, work: Coroutine[Any, Any, object]) -> bool:
    """Cancel some work before the n-th turn of any task; return False if it ended before."""
    loop = asyncio.get_running_loop()
    main: asyncio.Task[object] | None = None
    is_cancelled = False

    def cancel() -> None:
        nonlocal is_cancelled
        assert main is not None
        is_cancelled = main.cancel()

    Turns.remaining, Turns.end = turn, cancel
    loop.set_task_factory(
        lambda on, coroutine, **more: asyncio.Task(Turns(coroutine), loop=on, **more)  # type: ignore[arg-type]
    )
    try:
        main = loop.create_task(work)
        outcome = (await asyncio.gather(main, return_exceptions=True))[0]
    finally:
        loop.set_task_factory(None)
        Turns.remaining = 0
    if isinstance(outcome, BaseException) and not is_cancelled:
        raise outcome
    return is_cancelled
