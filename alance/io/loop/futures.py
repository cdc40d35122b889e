"""Futures of requests, retried or joined, and of jobs in threads, with callbacks instead of tasks.

A task costs 6 to 13 microseconds and a tick of the loop; these futures cost one callback.
Cancelling one drops its requests at once, not in the next tick.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from alance.base.cancellation import cancelled_when
from alance.io.loop import lifecycle
from alance.io.loop.limits import outlasted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor

    from alance.io.cloud.resilience import Retries

T = TypeVar("T")
R = TypeVar("R")


def failed(error: Exception, loop: asyncio.AbstractEventLoop) -> asyncio.Future[T]:
    """Return a future that has already failed."""
    future: asyncio.Future[T] = loop.create_future()
    future.set_exception(error)
    return future


def seen(ended: asyncio.Future[Any]) -> None:
    """Mark the failure of `ended` as retrieved, so that the loop does not report it.

    For futures whose caller may have been cancelled.
    """
    if not ended.cancelled():
        ended.exception()


def done(result: T, loop: asyncio.AbstractEventLoop) -> asyncio.Future[T]:
    """Return a future that already has its result."""
    future: asyncio.Future[T] = loop.create_future()
    future.set_result(result)
    return future


class Retried(asyncio.Future[T], Generic[T, R]):
    """Future of a call that is repeated while its failures are transient.

    Args:
        start: begins one attempt; may raise.
        finish: converts the value of an attempt to the result; may raise.
        translate: converts the failure of an attempt to the error for the caller.
        retries: decides after each failure on another attempt and the pause before it.
        limit_s: seconds after which the call fails, even during an attempt or a pause.
    """

    def __init__(
        self,
        start: Callable[[], asyncio.Future[R]],
        finish: Callable[[R], T],
        translate: Callable[[BaseException], Exception],
        retries: Retries,
        limit_s: float,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(loop=loop)
        self._start = start
        self._finish = finish
        self._translate = translate
        self._retries = retries
        self._count = 0
        self._attempt: asyncio.Future[R] | asyncio.TimerHandle | None = None
        self._failure: Exception | None = None
        self._limit_s = limit_s
        self._timer = loop.call_later(limit_s, self._is_over)
        self._begin()

    def cancel(self, msg: object = None) -> bool:
        """Drop the attempt that is under way, or the pause before the next one."""
        if self.done():
            return False
        self._drop()
        return super().cancel(msg)

    def _drop(self) -> None:
        self._timer.cancel()
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.cancel()

    def _is_over(self) -> None:
        self._fail(self._translate(outlasted(self._limit_s, self._failure)))

    def _fail(self, error: Exception) -> None:
        if not self.done():
            # Set first: `_drop` cancels the attempt, whose callback would cancel this future.
            self.set_exception(error)
            self._drop()

    @property
    def retries(self) -> int:
        """Number of attempts after the first."""
        return self._count

    def _begin(self) -> None:
        try:
            attempt = self._start()
        except Exception as error:  # an argument that the store refuses
            self._attempt = None
            self._fail(self._translate(error))
            return
        self._attempt = attempt
        attempt.add_done_callback(self._ended)

    def _ended(self, attempt: asyncio.Future[R]) -> None:
        if attempt.cancelled():
            self.cancel()
            return
        error = attempt.exception()
        if self.done():
            return
        self._attempt = None
        if error is None:
            try:
                result = self._finish(attempt.result())
            except Exception as failed:
                failure: Exception = failed
            else:
                self._retries.succeeded()
                self._timer.cancel()
                self.set_result(result)
                return
        else:
            failure = self._translate(error)
        pause = self._retries.pause(failure, self._count)
        if pause is None:
            self._fail(failure)
        else:
            self._failure = failure
            self._count += 1
            self._attempt = self.get_loop().call_later(pause, self._begin)


class JoinedFutures(asyncio.Future["Sequence[T]"], Generic[T]):
    """Future of the concatenated items of several futures. The first failure cancels the others."""

    def __init__(
        self, parts: Sequence[asyncio.Future[Sequence[T]]], loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(loop=loop)
        self._parts = parts
        self._missing = len(parts)
        if not parts:
            self.set_result([])
        for part in parts:
            part.add_done_callback(self._ended)

    def cancel(self, msg: object = None) -> bool:
        """Cancel all parts."""
        if self.done():
            return False
        self._drop()
        return super().cancel(msg)

    def _drop(self) -> None:
        parts, self._parts = self._parts, ()
        for part in parts:
            part.cancel()

    def _ended(self, part: asyncio.Future[Sequence[T]]) -> None:
        if part.cancelled():
            self.cancel()
            return
        error = part.exception()
        if self.done():
            return
        if error is not None:
            self.set_exception(error)
            self._drop()
            return
        self._missing -= 1
        if not self._missing:
            parts, self._parts = self._parts, ()
            self.set_result([item for part in parts for item in part.result()])


class ThreadJob(asyncio.Future[T]):
    """Future of an executor's job. `cancel` drops a job that has not begun."""

    work: concurrent.futures.Future[None]

    def cancel(self, msg: object = None) -> bool:
        """Stop waiting for the job, and drop the job if it has not begun."""
        self.work.cancel()
        return super().cancel(msg)

    def withdraw(self) -> bool:
        """Cancel the job and this future if the job has not begun; return True if so."""
        return self.work.cancel() and super().cancel()


def in_thread(
    executor: Executor, job: Callable[[], T], loop: asyncio.AbstractEventLoop
) -> ThreadJob[T]:
    """Run a job in an executor, and return a future of its result.

    Unlike `loop.run_in_executor`, this makes no reference cycle that holds the result until garbage
    is collected. A job that calls `check_cancelled` ends soon after its future is cancelled.
    Executors accept no jobs after the main thread has ended, but other threads or a `__del__` may
    still run. Then the job runs in the calling thread, before this function returns.
    """
    future: ThreadJob[T] = ThreadJob(loop=loop)

    def run() -> None:
        try:
            with cancelled_when(future.cancelled):
                answer = partial(_settle, future, job(), None)
        except BaseException as error:
            answer = partial(_settle, future, None, error)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any longer
            loop.call_soon_threadsafe(answer)

    try:
        future.work = executor.submit(run)
    except RuntimeError as error:
        if "shutdown" not in str(error):
            raise
        future.work = concurrent.futures.Future()
        future.work.set_running_or_notify_cancel()
        run()
    return future


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        try:
            future.set_exception(error)
        except TypeError:  # the end of an iterator, which no future can have
            future.set_exception(RuntimeError(f"the job raised {error!r}"))
    else:
        future.set_result(result)


THREADS: Final = 16  # threads for local reads and writes; 32 read no faster


class Threads:
    """Thread pool that all stores of a kind share, because starting threads blocks the loop."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.after_fork()

    def after_fork(self) -> None:
        """Forget the pool: the parent's threads do not exist in a forked child."""
        self._executor: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def executor(self) -> ThreadPoolExecutor:
        """Return the pool, which is created at the first call."""
        with self._lock:
            if self._executor is None:
                lifecycle.on_fork(self)
                self._executor = ThreadPoolExecutor(THREADS, self._name)
            return self._executor


threads: Final = Threads("alance-io")  # of local stores
