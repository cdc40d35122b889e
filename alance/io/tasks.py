"""Several awaitables as one, and jobs of threads that a cancellation does not stop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from alance.io.futures import Job

T = TypeVar("T")


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
    job.cancelled() or job.exception()  # seen, so that the loop does not report it
    raise cancelled
