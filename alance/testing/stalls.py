"""Meter of the time that single callbacks block an event loop.

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
from typing import Any, Final

TASKS: Final = "/proc/self/task"


class Stalls:
    """Context manager that times every callback of the running loop.

    A callback's time is its processor time plus its waits in a sleep, a read or a lock. It excludes
    waits of this process for a processor, so that a busy machine gives the same result as an idle
    one, and the cycle collector, whose pauses grow with the program's objects. If the system does
    not measure waits for a processor (Linux does, in `/proc/self/task/*/schedstat`), only processor
    time counts.

    Attributes:
        longest_callback: seconds of the longest callback.
        slowest: text of that callback's handle.
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
        await asyncio.sleep(0)  # end the current callback, whose start was not timed
        return self

    async def __aexit__(self, *_: object) -> None:
        asyncio.Handle._run = self._run  # type: ignore[method-assign]
        gc.callbacks.remove(self._collector)
        self._queues.close()

    def quantile(self, share: float) -> float:
        """Return the quantile of callback times in seconds, such as 0.99; 0.0 without callbacks."""
        ordered = sorted(self.spent)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0

    def _collector(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._collecting_since = time.thread_time()
        else:
            self._collected += max(0.0, time.thread_time() - self._collecting_since)


class Queues:
    """Meter of the time that the threads of this process have waited for a processor.

    All threads count, because the loop also waits for a thread that holds the interpreter's lock
    while it waits for a processor.
    """

    def __init__(self) -> None:
        self._files: dict[str, int] = {}  # descriptor of each thread's statistics
        self._ended = 0.0  # seconds that ended threads have waited
        self._last: dict[str, float] = {}
        self.are_known = os.path.exists(f"{TASKS}/{os.getpid()}/schedstat")

    def waited(self) -> float:
        """Return the seconds that all threads have waited so far; 0.0 if they are not measured."""
        if not self.are_known:
            return 0.0  # also after `close`: the last callback ends only then
        for thread in os.listdir(TASKS):
            if thread not in self._files:
                with contextlib.suppress(OSError):  # the thread has ended
                    self._files[thread] = os.open(f"{TASKS}/{thread}/schedstat", os.O_RDONLY)
        for thread, file in list(self._files.items()):
            try:
                self._last[thread] = int(os.pread(file, 96, 0).split()[1]) / 1e9
            except (OSError, IndexError):
                self._ended += self._last.pop(thread, 0.0)
                os.close(self._files.pop(thread))
        return self._ended + sum(self._last.values())

    def close(self) -> None:
        self.are_known = False
        for file in self._files.values():
            os.close(file)
        self._files.clear()
