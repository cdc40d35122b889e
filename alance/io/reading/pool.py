"""Threads that decode, so that the loop stays free; modules of rare verbs are imported there, too.

What reads a table is imported with the package. What few programs need is imported when a verb
first needs it: some milliseconds a group of modules, a tenth of a second for the parser of SQL. On
the loop that would be a stall, so such a verb first awaits `DecodePool.load`, and its own `import`
then finds the module there.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeVar

from alance.errors import InvalidInputError
from alance.io.events import trace
from alance.io.loop import lifecycle, system
from alance.io.loop.futures import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future
    from types import ModuleType

T = TypeVar("T")

LOOP_TURN_S: Final = 0.001  # of work on the loop, before others get a turn: that costs microseconds
MAX_CALLERS_PER_TURN: Final = 16  # callers that go on in one turn
CROWD_CALLERS: Final = 8  # callers that wait for a turn; fewer gain little by going together

# Held while a thread of a pool imports. A fork waits for it: the child would have the locks of
# modules that are half imported, and no thread that finishes them.
_importing: Final = threading.RLock()
system.at_fork(
    before=_importing.acquire,
    after_in_parent=_importing.release,
    after_in_child=_importing.release,
)


class _Idle:
    """The threads of the pool that was closed last, for the next one of as many.

    To start and end a thread takes 0.15 ms, a tenth of a short session.

    Attributes:
        kept: how many, and they themselves. Pools that a parent made give theirs back to another
            one, which nobody looks at.
    """

    def __init__(self) -> None:
        self.after_fork()
        lifecycle.on_fork(self)

    def after_fork(self) -> None:
        """Begin anew: a parent's threads are not in its child."""
        self.kept: deque[tuple[int, ThreadPoolExecutor]] = deque(maxlen=1)


_idle: Final = _Idle()


class DecodePool:
    """A few threads for CPU work that holds no GIL most of the time.

    Args:
        threads: how many run at once; they are started when first needed.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._executor: ThreadPoolExecutor | None = None
        self._kept = _idle.kept
        self._works: set[Future[None]] = set()  # that have not ended
        self._closed = False
        self._turn_since: float | None = None
        self._at_once = 1
        self._turns: deque[asyncio.Future[None]] = deque()  # of those who wait for one

    async def share_turn(self) -> None:
        """Give others a turn, if small work on the loop itself has taken long in this one.

        To be awaited before work that is done without waiting: a caller that does such work again
        and again, or many that begin in one turn, would keep the loop until they end. Of many that
        do so, each turn has few.
        """
        now = time.perf_counter()
        if self._turn_since is None:
            self._turn_since = now
            asyncio.get_running_loop().call_soon(self._turn_ends)
        elif now - self._turn_since >= LOOP_TURN_S:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._turns.append(turn)
            await turn

    def _turn_ends(self) -> None:
        """The next of those who wait for a turn have the one that comes now: as many as have
        little to do, to judge by those of the last one.
        """
        now = time.perf_counter()
        if self._turn_since is not None:
            is_short = now - self._turn_since < LOOP_TURN_S
            self._at_once = min(2 * self._at_once, MAX_CALLERS_PER_TURN) if is_short else 1
        self._turn_since = now if self._turns else None
        for _ in range(min(self._at_once, len(self._turns))):
            turn = self._turns.popleft()
            if not turn.done():
                turn.set_result(None)
        if self._turn_since is not None:
            asyncio.get_running_loop().call_soon(self._turn_ends)

    @property
    def is_crowded(self) -> bool:
        """Whether so many wait for a turn that they had better go together."""
        return len(self._turns) >= CROWD_CALLERS

    async def run(self, work: Callable[[], T], *, inline: bool = False) -> T:
        """The result of `work`, done in a thread. Cancelling drops work that has not begun.

        Args:
            inline: it takes less time than a hop to a thread, and is done here.

        Raises:
            InvalidInputError: the pool is closed.
        """
        recorder = trace.current()
        if recorder is not None:
            work = trace.timed(work, recorder)
        if inline:
            await self.share_turn()
            return work()
        return await self._in_thread(work)

    async def load(self, *modules: str | ModuleType) -> None:
        """Import modules in a thread, so that an `import` of them does not keep the loop.

        Costs nothing where they are imported. Any number of threads may do so at once.

        Args:
            modules: full names, or what stands for them; see `Deferred`.

        Raises:
            InvalidInputError: the pool is closed.
        """
        names = [module if isinstance(module, str) else module.__name__ for module in modules]
        missing = [name for name in names if not is_imported(name)]
        if missing:
            await self._in_thread(partial(_import_all, missing))

    @property
    def num_threads(self) -> int:
        """How many run at once."""
        return self._threads

    @property
    def num_waiting(self) -> int:
        """Pieces of work that wait for a thread."""
        return 0 if self._executor is None else self._executor._work_queue.qsize()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise InvalidInputError("the session is closed")
        if self._executor is None:
            self._executor = self._begin()
        job = in_thread(self._executor, work, asyncio.get_running_loop())
        self._works.add(job.work)
        try:
            return await job
        finally:
            if job.cancelled():  # its thread may go on
                job.work.add_done_callback(self._works.discard)
            else:
                self._works.discard(job.work)

    def _begin(self) -> ThreadPoolExecutor:
        self._kept = _idle.kept
        with suppress(IndexError):
            threads, executor = self._kept.pop()
            if threads == self._threads:
                return executor
        return ThreadPoolExecutor(self._threads, "alance-decode")

    async def aclose(self) -> None:
        """Drop work that has not begun, and wait for what has. Idle threads are left for others."""
        self._closed = True
        executor, self._executor = self._executor, None
        if executor is None:
            return
        if not self._works:
            self._kept.append((self._threads, executor))
            return
        executor.shutdown(wait=False, cancel_futures=True)
        await asyncio.get_running_loop().run_in_executor(None, executor.shutdown)


def is_imported(name: str) -> bool:
    """Whether a module is there as a whole: none that another thread is just importing."""
    module = sys.modules.get(name)
    return module is not None and not getattr(module.__spec__, "_initializing", False)


def _import_all(names: Sequence[str]) -> None:
    with _importing:
        for name in names:
            import_module(name)
