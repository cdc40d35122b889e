"""Threads that decode, so that the loop stays free."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from alance.errors import InvalidInputError
from alance.io import trace

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class DecodePool:
    """A few threads for CPU work that holds no GIL most of the time.

    Args:
        threads: how many run at once; they are started when first needed.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._executor: ThreadPoolExecutor | None = None
        self._closed = False

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work`, done in a thread. Cancelling drops work that has not begun.

        Raises:
            InvalidInputError: the pool is closed.
        """
        if self._closed:
            raise InvalidInputError("the session is closed")
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._threads, "alance-decode")
        recorder = trace.current()
        if recorder is not None:
            work = trace.timed(work, recorder)
        return await asyncio.wrap_future(self._executor.submit(work))

    async def aclose(self) -> None:
        """Drop work that has not begun, wait for what has, and end the threads."""
        self._closed = True
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, executor.shutdown)
