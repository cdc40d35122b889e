"""Work started ahead of the consumer, under a budget of bytes.

Whole jobs are admitted, in their order, and never single requests. So an admitted job has all the
memory that it needs and can finish: jobs that wait for each other's memory would never end.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from itertools import chain, islice
from typing import TYPE_CHECKING, Generic, TypeVar

from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Job(Generic[T]):
    """Something to fetch: the memory it will hold, and how to begin."""

    num_bytes: int
    start: Callable[[], Awaitable[T]]


def grouped(
    items: Iterable[T], size: Callable[[T], int], most: int, count: int = sys.maxsize
) -> Iterator[list[T]]:
    """Neighbours that are together up to so large, and up to so many; or one that is larger."""
    group: list[T] = []
    filled = 0
    for item in items:
        own = size(item)
        if group and (filled + own > most or len(group) == count):
            yield group
            group, filled = [], 0
        group.append(item)
        filled += own
    if group:
        yield group


async def readahead(
    jobs: Iterable[Job[T]], *, budget_bytes: int, max_jobs: int, ordered: bool = True
) -> AsyncGenerator[T, None]:
    """The results of jobs, which are begun before they are asked for.

    Jobs are admitted whole and in their order, one at least, so that admission cannot deadlock. A
    result is charged to the budget until the consumer asks for the one after it. Closing the
    generator, or a failure, cancels what was begun and waits for it.

    Args:
        jobs: consumed as they are admitted.
        budget_bytes: sum of `num_bytes` of the jobs begun and not yet consumed.
        max_jobs: jobs begun and not yet consumed.
        ordered: False gives results as they are ready.
    """
    source = iter(jobs)
    first = [*islice(source, 2)]
    if len(first) == 1:  # a task would only cost turns of the loop
        yield await first[0].start()
        return
    source = chain(first, source)
    waiting: Job[T] | None = next(source, None)
    begun: deque[tuple[asyncio.Future[T], int]] = deque()
    held = 0
    try:
        while waiting is not None or begun:
            while waiting is not None and (
                not begun or (held + waiting.num_bytes <= budget_bytes and len(begun) < max_jobs)
            ):
                begun.append((asyncio.ensure_future(waiting.start()), waiting.num_bytes))
                held += waiting.num_bytes
                waiting = next(source, None)
            position = 0
            if not ordered:
                await asyncio.wait([future for future, _ in begun], return_when="FIRST_COMPLETED")
                position = next(n for n, (future, _) in enumerate(begun) if future.done())
            future, num_bytes = begun[position]
            result = await future
            del begun[position]
            yield result
            del result, future
            held -= num_bytes
    finally:
        for future, _ in begun:
            future.cancel()
        await asyncio.gather(*(future for future, _ in begun), return_exceptions=True)


async def in_turn(works: AsyncGenerator[Awaitable[T], None], ahead: int) -> AsyncGenerator[T, None]:
    """The results of works, in their order; so many more are begun before one is asked for.

    A work that is a future and done already is not waited behind: nothing of it is to be begun.

    Closing the generator, or a failure, cancels what was begun and waits for it.

    Args:
        works: consumed as they are begun, and closed.
    """
    begun: deque[asyncio.Future[T]] = deque()
    try:
        async for work in works:
            begun.append(asyncio.ensure_future(work))
            if len(begun) > ahead or begun[-1].done():
                yield await begun.popleft()
        while begun:
            yield await begun.popleft()
    finally:
        for future in begun:
            future.cancel()
        await asyncio.gather(*begun, return_exceptions=True)
        await works.aclose()
