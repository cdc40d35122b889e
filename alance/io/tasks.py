"""Several awaitables as one, and work that a cancellation does not stop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Iterable

T = TypeVar("T")


async def all_of(awaitables: Iterable[Awaitable[T]]) -> list[T]:
    """The results of all, in order; at the first failure the others are cancelled and awaited."""
    tasks = [asyncio.ensure_future(one) for one in awaitables]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def whole(job: asyncio.Future[T]) -> T:
    """The result of a thread's job. Cancellations follow at its end, when all is there."""
    cancelled: asyncio.CancelledError | None = None
    while not job.done():
        try:
            await asyncio.wait([job])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        job.cancelled() or job.exception()  # seen, so that the loop does not report it
        raise cancelled
    return job.result()


async def to_the_end(work: Coroutine[object, object, T], limit_s: float) -> T:
    """The result of `work`, which goes on when this task is cancelled; that follows at its end.

    Args:
        limit_s: seconds after which `work` itself is cancelled.

    Raises:
        CancelledError: this task was cancelled meanwhile.
        TimeoutError: the limit was reached.
    """
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limit_s
    cancelled: asyncio.CancelledError | None = None
    while not task.done() and loop.time() < deadline:
        try:
            await asyncio.wait([task], timeout=max(0.0, deadline - loop.time()))
        except asyncio.CancelledError as error:
            cancelled = error
    late = task.cancel()
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        task.cancelled() or task.exception()  # seen, so that the loop does not report it
        raise cancelled
    if late and task.cancelled():
        raise TimeoutError(f"did not end within {limit_s:g} s")
    return task.result()
