"""How long an event loop is kept by single callbacks, and how late it comes to its timers.

async with Stalls() as stalls:
    ...
assert stalls.longest_callback < 0.010
"""

from __future__ import annotations

import asyncio
import gc
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import TracebackType

TICK: Final = 0.001  # seconds


class Stalls:
    """Times every callback of the running loop, and wakes it each millisecond.

    Attributes:
        longest_callback: seconds that one callback kept the loop: the lesser of wall and processor
            time, so that what a busy machine or other threads take away does not count, nor
            does the cycle collector, whose pauses are as long as the program has objects.
        slowest: what that callback was.
        longest_delay: seconds by which a timer came late at most: all callbacks of a turn, other
            threads and programs add to it.
    """

    def __init__(self) -> None:
        self.longest_callback = 0.0
        self.slowest = ""
        self.longest_delay = 0.0
        self._task: asyncio.Task[None] | None = None
        self._run: Any = asyncio.Handle._run
        self._collecting_since = 0.0
        self._collected = 0.0

    async def __aenter__(self) -> Stalls:
        stalls, run = self, self._run

        def timed(handle: Any) -> None:
            wall, processor = time.perf_counter(), time.thread_time()
            collected = stalls._collected
            try:
                run(handle)
            finally:
                spent = min(time.perf_counter() - wall, time.thread_time() - processor)
                spent -= stalls._collected - collected
                if spent > stalls.longest_callback:
                    stalls.longest_callback = spent
                    stalls.slowest = repr(handle)

        asyncio.Handle._run = timed  # type: ignore[assignment,method-assign]
        gc.callbacks.append(self._collector)
        self._task = asyncio.ensure_future(self._watch())
        await asyncio.sleep(2 * TICK)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.Handle._run = self._run  # type: ignore[method-assign]
        gc.callbacks.remove(self._collector)
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def _collector(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._collecting_since = time.thread_time()
        else:
            self._collected += max(0.0, time.thread_time() - self._collecting_since)

    async def _watch(self) -> None:
        while True:
            begun = time.perf_counter()
            await asyncio.sleep(TICK)
            self.longest_delay = max(self.longest_delay, time.perf_counter() - begun - TICK)
