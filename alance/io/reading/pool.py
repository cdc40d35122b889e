"""The decode pool: threads for CPU work, and for importing the modules of rare verbs.

Modules that every reader needs are imported with the package. Others are imported when a verb first
needs them, which takes some milliseconds for a group of modules and a tenth of a second for the SQL
parser. On the loop that would be a stall. So such a verb first awaits `DecodePool.load`, and its
own `import` then finds the module loaded.
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

from alance import _kernels
from alance.errors import InvalidInputError
from alance.io.events import trace
from alance.io.loop import lifecycle, system
from alance.io.loop.futures import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future
    from types import ModuleType

T = TypeVar("T")

LOOP_TURN_S: Final = 0.002  # seconds of work on the loop before others run; a turn costs 30 us
MAX_CALLERS_PER_TURN: Final = 16  # callers that continue in one turn
# Memory that decoding on the loop may take, in a millisecond or two. Compressed and repeated values
# may be any number of times larger than their encoded bytes.
INLINE_OUTPUT_BYTES: Final = 2 << 20
CROWD_CALLERS: Final = 8  # waiting callers that make a crowd; fewer gain little from a batch

# Held while a thread of a pool imports. A fork waits for it: otherwise the child would inherit the
# locks of half-imported modules, without the thread that finishes the imports.
_importing: Final = threading.RLock()
system.at_fork(
    before=_importing.acquire,
    after_in_parent=_importing.release,
    after_in_child=_importing.release,
)


class _Idle:
    """Idle threads of the last closed pool, for the next pool of the same size.

    Starting and ending a thread takes 0.15 ms, a tenth of a short session.

    Attributes:
        spare: number of threads and their executor, or empty. A forked child has its own deque;
            pools from the parent return their threads to the parent's deque, which is unused.
    """

    def __init__(self) -> None:
        self.after_fork()
        lifecycle.on_fork(self)

    def after_fork(self) -> None:
        """Forget the threads: the parent's threads do not exist in a forked child."""
        self.spare: deque[tuple[int, ThreadPoolExecutor]] = deque(maxlen=1)


_idle: Final = _Idle()


class DecodePool:
    """A few threads for CPU work that mostly runs without the GIL.

    Args:
        threads: number of threads; they are started when first needed.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._executor: ThreadPoolExecutor | None = None
        self._spare = _idle.spare
        self._works: set[Future[None]] = set()  # jobs that have not ended
        self._closed = False
        self._turn_since: float | None = None
        self._at_once = 1
        self._turns: deque[asyncio.Future[None]] = deque()  # callers that wait for a turn

    async def share_turn(self) -> None:
        """Let other callers run if small jobs on the loop have used `LOOP_TURN_S` of this turn.

        Await it before each job that does not wait. Otherwise a caller that repeats such jobs, or
        many callers that begin in one turn, would block the loop until they end.
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
        """Let the next waiting callers continue, after a turn of the event loop.

        After a short turn, the number of callers that continue doubles; after a long one, it is 1.
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
        """True if so many callers wait for a turn that batching them is worthwhile."""
        return len(self._turns) >= CROWD_CALLERS

    async def run(
        self, work: Callable[[], T], *, inline: bool = False, is_decoding: bool = False
    ) -> T:
        """Run `work` in a thread and return its result. Cancellation drops work that has not begun.

        Args:
            inline: True to run the work on the loop, because it takes less time than a hop to a
                thread.
            is_decoding: True if the work decodes values of pages, so that its result may be large.
                With `inline`, it must be repeatable: it is repeated in a thread if it needs more
                than `INLINE_OUTPUT_BYTES` on the loop.

        Raises:
            InvalidInputError: the pool is closed, and the work needs a thread.
        """
        recorder = trace.current()
        if recorder is not None:
            work = trace.timed(work, recorder)
        if inline:
            await self.share_turn()
            if not is_decoding:
                return work()
            _kernels.set_allowance(INLINE_OUTPUT_BYTES)
            try:
                return work()
            except _kernels.OverAllowance:
                pass
            finally:
                _kernels.set_allowance(-1)
        return await self._in_thread(work)

    async def load(self, *modules: str | ModuleType) -> None:
        """Import modules in a thread, so that a later `import` does not block the loop.

        Costs nothing if they are already imported. Safe to call from several threads.

        Args:
            modules: full names, or deferred modules; see `Deferred`.

        Raises:
            InvalidInputError: the pool is closed.
        """
        names = [module if isinstance(module, str) else module.__name__ for module in modules]
        missing = [name for name in names if not is_imported(name)]
        if missing:
            await self._in_thread(partial(_import_all, missing))

    @property
    def num_threads(self) -> int:
        """Number of threads."""
        return self._threads

    @property
    def num_waiting(self) -> int:
        """Number of jobs that wait for a thread."""
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
            if job.cancelled():  # its thread may still be running
                job.work.add_done_callback(self._works.discard)
            else:
                self._works.discard(job.work)

    def _begin(self) -> ThreadPoolExecutor:
        self._spare = _idle.spare
        with suppress(IndexError):
            threads, executor = self._spare.pop()
            if threads == self._threads:
                return executor
        return ThreadPoolExecutor(self._threads, "alance-decode")

    async def aclose(self) -> None:
        """Drop jobs that have not begun, and wait for the others."""
        self._closed = True
        executor, self._executor = self._executor, None
        if executor is None:
            return
        if not self._works:
            self._spare.append((self._threads, executor))
            return
        executor.shutdown(wait=False, cancel_futures=True)
        await asyncio.get_running_loop().run_in_executor(None, executor.shutdown)


def is_imported(name: str) -> bool:
    """Return True if a module is fully imported, not still being imported by another thread."""
    module = sys.modules.get(name)
    return module is not None and not getattr(module.__spec__, "_initializing", False)


def _import_all(names: Sequence[str]) -> None:
    with _importing:
        for name in names:
            import_module(name)
