"""Measures how long single callbacks keep an event loop.

async with Stalls() as stalls:
    ...
assert stalls.longest_callback < 0.010
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import time
from array import array
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import TracebackType

TASKS: Final = "/proc/self/task"


class Stalls:
    """Times every callback of the running loop.

    What counts is the time that a callback works or is blocked: by a sleep, a read, a lock. The
    time that this process had to wait for a processor, because others had it, does not, so that a
    busy machine tells the same as an idle one. Nor does the cycle collector, whose pauses are as
    long as the program has objects. Where the system does not tell who waits for a processor
    (`/proc/self/task/*/schedstat`, of Linux), only work counts.

    Attributes:
        longest_callback: seconds that one callback kept the loop.
        slowest: what that callback was.
        spent: seconds of each callback.
    """

    def __init__(self) -> None:
        self.longest_callback = 0.0
        self.slowest = ""
        self.spent = array("d")
        self._run: Any = asyncio.Handle._run
        self._collecting_since = 0.0
        self._collected = 0.0

    async def __aenter__(self) -> Stalls:
        stalls, run = self, self._run
        queues = self._queues = Queues()

        def timed(handle: Any) -> None:
            waited, collected = queues.waited(), stalls._collected
            wall, processor = time.perf_counter(), time.thread_time()
            try:
                run(handle)
            finally:
                worked = time.thread_time() - processor
                spent = time.perf_counter() - wall
                spent -= queues.waited() - waited if queues.are_known else spent
                spent = max(worked, spent) - (stalls._collected - collected)
                stalls.spent.append(spent)
                if spent > stalls.longest_callback:
                    stalls.longest_callback = spent
                    stalls.slowest = repr(handle)

        asyncio.Handle._run = timed  # type: ignore[assignment,method-assign]
        gc.callbacks.append(self._collector)
        await asyncio.sleep(0)  # the callback that goes on here was not timed from its begin
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.Handle._run = self._run  # type: ignore[method-assign]
        gc.callbacks.remove(self._collector)
        self._queues.close()

    def quantile(self, share: float) -> float:
        """Seconds that this share of the callbacks does not exceed; 0.0 where there was none."""
        ordered = sorted(self.spent)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0

    def _collector(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._collecting_since = time.thread_time()
        else:
            self._collected += max(0.0, time.thread_time() - self._collecting_since)


class Queues:
    """Measures how long the threads of this process have waited for a processor.

    All threads count: one that waits for a processor with the interpreter's lock makes the loop
    wait, too.
    """

    def __init__(self) -> None:
        self._files: dict[str, int] = {}  # of each thread
        self._ended = 0.0  # what threads had waited that are no more
        self._last: dict[str, float] = {}
        self.are_known = os.path.exists(f"{TASKS}/{os.getpid()}/schedstat")

    def waited(self) -> float:
        """Returns the seconds of all threads together so far; 0.0 if the system does not tell."""
        if not self.are_known:
            return 0.0
        for thread in os.listdir(TASKS):
            if thread not in self._files:
                with contextlib.suppress(OSError):  # it has ended
                    self._files[thread] = os.open(f"{TASKS}/{thread}/schedstat", os.O_RDONLY)
        for thread, file in list(self._files.items()):
            try:
                self._last[thread] = int(os.pread(file, 96, 0).split()[1]) / 1e9
            except (OSError, IndexError):
                self._ended += self._last.pop(thread, 0.0)
                os.close(self._files.pop(thread))
        return self._ended + sum(self._last.values())

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            os.close(file)
        self._files.clear()
