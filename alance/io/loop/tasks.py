"""Gathered awaitables, jobs that survive a cancellation, and coroutines that begin at once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from alance.io.loop.futures import done, failed, seen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable

    from alance.io.loop.futures import ThreadJob

T = TypeVar("T")
X = TypeVar("X")


ITEMS_A_TURN: Final = 128  # items handled in one turn of the loop, at some 10 us each


async def in_turns(items: Iterable[X]) -> AsyncIterator[list[X]]:
    """Yield the items in parts of a turn each; between two parts other callers of the loop run."""
    rest = iter(items)
    while part := list(islice(rest, ITEMS_A_TURN)):
        yield part
        if len(part) < ITEMS_A_TURN:
            return
        await asyncio.sleep(0)


async def all_of(awaitables: Iterable[Awaitable[T]]) -> list[T]:
    """Return all results in order; after the first failure, cancel and await the others.

    The awaitables are begun in parts, between which other callers of the loop run.
    """
    rest = iter(awaitables)
    part = list(islice(rest, ITEMS_A_TURN))
    if len(part) == 1:  # a task would only cost turns of the loop
        return [await part[0]]
    tasks: list[asyncio.Future[T]] = []
    groups: list[asyncio.Future[list[T]]] = []
    try:
        while part:
            begun = [asyncio.ensure_future(awaitable) for awaitable in part]
            tasks += begun
            groups.append(asyncio.gather(*begun))
            if len(part) < ITEMS_A_TURN:
                break
            await asyncio.sleep(0)
            part = list(islice(rest, ITEMS_A_TURN))
        return [result for results in await asyncio.gather(*groups) for result in results]
    except BaseException:
        for awaitable in rest:
            if isinstance(awaitable, Coroutine):
                awaitable.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *groups, return_exceptions=True)
        raise


async def each(work: Callable[[X], Awaitable[T]], items: Iterable[X], *, at_once: int) -> list[T]:
    """Return the results of `work` on each item, in order, with up to `at_once` under way."""
    limit = asyncio.Semaphore(at_once)

    async def limited(item: X) -> T:
        async with limit:
            return await work(item)

    return await all_of(map(limited, items))


async def whole(job: ThreadJob[T], *, is_needed: bool = False) -> T:
    """Return the result of a thread's job; a job that has begun runs to its end.

    Args:
        is_needed: True if the job also runs if it has not begun when the task is cancelled.

    Raises:
        CancelledError: the current task was cancelled; raised when the job has ended. A job that
            has not begun is dropped, unless `is_needed`.
    """
    cancelled: asyncio.CancelledError | None = None
    while not job.done():
        try:
            await asyncio.wait([job])
        except asyncio.CancelledError as error:
            cancelled = error
            if not is_needed:
                job.withdraw()
    if cancelled is None:
        return job.result()
    seen(job)
    raise cancelled


class Begun(Coroutine[Any, Any, T]):
    """A coroutine that begins when this object is created; it needs no task if it never waits.

    If the coroutine waits, a task continues it. Until the task begins, the future that the
    coroutine waits for must not be cancelled.

    Attributes:
        ended: the coroutine's StopIteration, with the result in `value`; None if the coroutine
            waits.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self._first: list[Any] = []  # the future that it waits for, until a task receives it
        self.ended: StopIteration | None = None
        try:
            self._first.append(coroutine.send(None))
        except StopIteration as end:
            self.ended = end.with_traceback(None)  # no cycle through the frames

    def send(self, value: Any) -> Any:
        """Run the next step."""
        return self._first.pop() if self._first else self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an error in the coroutine: a task does so if cancelled before its first step."""
        if self._first and (waits := self._first[0]) is not None and waits.cancel():
            return self._first.pop()
        self._first.clear()  # nothing to wait for, or it is done: its result would undo the error
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """End the coroutine where it waits."""
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, T]:
        raise TypeError("for a task")


def begin(work: Awaitable[T]) -> asyncio.Future[T]:
    """Begin a coroutine at once, and return a future of its result.

    A task continues the coroutine if it waits; otherwise the future is done.
    """
    if not isinstance(work, Coroutine):
        return asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    try:
        begun = Begun(work)
    except Exception as error:
        return failed(error, loop)
    return loop.create_task(begun) if begun.ended is None else done(begun.ended.value, loop)
