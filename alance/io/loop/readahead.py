"""Read-ahead: work started ahead of the consumer, under a budget of bytes.

Whole jobs are admitted, in order, and never single requests. So an admitted job has all the memory
that it needs and can finish. Partly admitted jobs could deadlock, each waiting for the other's
memory.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from itertools import chain, islice
from typing import TYPE_CHECKING, Generic, TypeVar

from alance.base.records import dataclass
from alance.io.loop.tasks import begin

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Job(Generic[T]):
    """A unit of read-ahead."""

    num_bytes: int  # memory that the job will use
    start: Callable[[], Awaitable[T]]


def grouped(
    items: Iterable[T], size: Callable[[T], int], most: int, count: int = sys.maxsize
) -> Iterator[list[T]]:
    """Group adjacent items, up to a total size of `most` and a number of `count`.

    An item larger than `most` is a group of its own.
    """
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
    """Yield the results of jobs, which start ahead of the consumer.

    Jobs are admitted whole and in order, at least one at a time, so that admission cannot deadlock.
    A result counts against the budget until the consumer requests the next result. If the
    generator is closed or a job fails, the jobs under way are cancelled and awaited.

    Args:
        jobs: iterated as jobs are admitted.
        budget_bytes: upper bound of the total `num_bytes` of jobs begun and not yet consumed; a
            larger job runs alone.
        max_jobs: upper bound of jobs begun and not yet consumed.
        ordered: True to yield results in the order of `jobs`, False to yield them as they are
            ready.
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
    """Yield the results of jobs in order, with up to `ahead` more jobs begun in advance.

    If a new job is already done, the oldest result is yielded at once, without beginning more jobs.
    If the generator is closed or a job fails, the jobs under way are cancelled and awaited.

    Args:
        works: the jobs; iterated as jobs are begun, and closed at the end.
    """
    begun: deque[asyncio.Future[T]] = deque()
    try:
        async for work in works:
            begun.append(begin(work))
            if len(begun) > ahead or begun[-1].done():
                yield await begun.popleft()
        while begun:
            yield await begun.popleft()
    finally:
        for future in begun:
            future.cancel()
        await asyncio.gather(*begun, return_exceptions=True)
        await works.aclose()
