"""Several awaitables as one, jobs that a cancellation does not stop, and work begun at once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from alance.io.loop.futures import seen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterable

    from alance.io.loop.futures import Job

T = TypeVar("T")
X = TypeVar("X")


async def all_of(awaitables: Iterable[Awaitable[T]]) -> list[T]:
    """The results of all, in order; at the first failure the others are cancelled and awaited."""
    waiting = list(awaitables)
    if len(waiting) == 1:  # a task would only cost turns of the loop
        return [await waiting[0]]
    tasks = [asyncio.ensure_future(awaitable) for awaitable in waiting]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def each(work: Callable[[X], Awaitable[T]], items: Iterable[X], *, at_once: int) -> list[T]:
    """The results of a work on each of some items, of which so many are done at once; in order."""
    limit = asyncio.Semaphore(at_once)

    async def limited(item: X) -> T:
        async with limit:
            return await work(item)

    return await all_of(map(limited, items))


async def whole(job: Job[T]) -> T:
    """The result of a thread's job. Cancellations follow at its end, when all is there; a job that
    has not begun is dropped.
    """
    cancelled: asyncio.CancelledError | None = None
    while not job.done():
        try:
            await asyncio.wait([job])
        except asyncio.CancelledError as error:
            cancelled = error
            job.withdraw()
    if cancelled is None:
        return job.result()
    seen(job)
    raise cancelled


class Begun(Coroutine[Any, Any, T]):
    """A coroutine whose first step is done at once: one that waits for nothing needs no task.

    A task goes on with one that waits. Until then nothing that it waits for may be cancelled.

    Attributes:
        ended: its end, with the result in `value`; None: it waits.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self._first: list[Any] = []  # what it waits for, until a task knows
        self.ended: StopIteration | None = None
        try:
            self._first.append(coroutine.send(None))
        except StopIteration as end:
            self.ended = end.with_traceback(None)  # whose frames know this: garbage in a cycle

    def send(self, value: Any) -> Any:
        """Go on."""
        return self._first.pop() if self._first else self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """Go on with an error; a task that is cancelled before its first step throws one."""
        if self._first and (waits := self._first[0]) is not None:
            waits.cancel()
            return self._first.pop()
        self._first.clear()
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """End it where it waits."""
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, T]:
        raise TypeError("for a task")
