"""How long an event loop was kept from its work.

async with Stalls() as stalls:
    ...
assert stalls.longest < 0.010
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import TracebackType

TICK: Final = 0.001  # seconds


class Stalls:
    """Wakes the loop each millisecond and notes how late it comes.

    Attributes:
        longest: seconds by which the latest wake-up was late; a busy machine adds to it.
        longest_cpu: the most processor seconds that the loop's thread spent between two wake-ups;
            what other programs and threads do does not count.
    """

    def __init__(self) -> None:
        self.longest = 0.0
        self.longest_cpu = 0.0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Stalls:
        self._task = asyncio.ensure_future(self._watch())
        await asyncio.sleep(2 * TICK)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            wall, processor = time.perf_counter(), time.thread_time()
            await asyncio.sleep(TICK)
            self.longest = max(self.longest, time.perf_counter() - wall - TICK)
            self.longest_cpu = max(self.longest_cpu, time.thread_time() - processor)
