"""Coroutines for blocking code: an event loop in a thread, which ends with the program.

    loop = OwnLoop("reader")
    dataset = loop.run(alance.dataset(uri))
    for batch in loop.iterate(dataset.to_batches()):
        ...

`alance.sync` uses it, and so do the workers of engines (`alance.distributed.WorkerLoop`).
"""

from __future__ import annotations

import asyncio
import sys
import threading
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from alance.base.calls import not_constructed as not_constructed
from alance.base.calls import public as public
from alance.base.checks import did_you_mean as did_you_mean
from alance.base.hints import Hinted as Hinted
from alance.base.hints import Uncalled as Uncalled
from alance.base.hints import no_name as no_name
from alance.base.hints import no_use as no_use
from alance.errors import InvalidInputError
from alance.io.loop import lifecycle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Iterator
    from concurrent.futures import Future

T = TypeVar("T")

END_S: Final = 2.0  # seconds for the cancellation of running work at the end of a program


__all__ = ["OwnLoop"]


class OwnLoop:
    """Event loop in its own daemon thread, started at the first call; a fork starts another.

    At the end of the program the loop's work is cancelled, and the thread ends. Later calls, as
    from a `__del__`, run in the calling thread; those of other daemon threads wait for the end.

    Args:
        name: name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.after_fork()
        lifecycle.on_fork(self)

    def after_fork(self) -> None:
        """Reset the state: threads do not exist in a forked child."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._has_ended = False
        self._closing: set[asyncio.Task[None]] = set()

    def run(self, awaitable: Awaitable[T]) -> T:
        """Run an awaitable to its end in the loop; an interrupt cancels it there.

        Args:
            awaitable: the work.

        Raises:
            InvalidInputError: called from the loop's own thread.
        """

        loop = self._started()
        if self._is_here(loop):
            raise InvalidInputError(f"{self._name}: called from its own event loop, use `await`")
        if self._is_last():
            self._halt_daemon()
            return loop.run_until_complete(_result(awaitable))
        future = self.begin(awaitable)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            if self._is_last():
                self._halt_daemon()
            raise

    def begin(self, awaitable: Awaitable[T]) -> Future[T]:
        """Begin an awaitable in the loop, and return the future of its result.

        Args:
            awaitable: the work, which the cancellation of the future cancels.
        """
        return asyncio.run_coroutine_threadsafe(_result(awaitable), self._started())

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Return a blocking iterator over an async one; closing it closes the async one, too.

        Args:
            items: the async iterator.
        """
        try:
            while True:
                try:
                    yield self.run(_next(items))
                except StopAsyncIteration:
                    return
        finally:
            self.close(items)

    def close(self, items: AsyncIterator[object]) -> None:
        """Close an async iterator, if it can be closed.

        Args:
            items: the iterator.
        """
        close = getattr(items, "aclose", None)
        if close is None or self._is_last():  # the loop has closed the iterator
            return
        loop = self._started()
        if self._is_here(loop):  # the cycle collector may run in the loop's thread
            task = loop.create_task(close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        else:
            self.run(close())

    def _is_here(self, loop: asyncio.AbstractEventLoop) -> bool:
        try:
            return asyncio.get_running_loop() is loop
        except RuntimeError:
            return False

    def _is_last(self) -> bool:
        """True if the program has ended, and only finalizers of objects still run."""
        return self._has_ended or sys.is_finalizing()

    def _halt_daemon(self) -> None:
        """Block a daemon thread until the interpreter ends it, so that it raises no error."""
        thread = threading.current_thread()
        if thread.daemon and thread is not threading.main_thread():
            threading.Event().wait()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                if sys.is_finalizing():  # no thread can be started any more
                    return self._loop
                lifecycle.at_exit(self._end)
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name=self._name, daemon=True
                )
                self._thread.start()
            return self._loop

    def _end(self) -> None:
        """Cancel the loop's tasks, close its iterators, and stop it."""
        loop, thread = self._loop, self._thread
        assert loop is not None
        assert thread is not None
        self._has_ended = True
        ending = asyncio.run_coroutine_threadsafe(_wind_up(), loop)
        with suppress(TimeoutError, CancelledError):
            ending.result(END_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(END_S)


async def _result(awaitable: Awaitable[T]) -> T:
    return await awaitable


async def _next(items: AsyncIterator[T]) -> T:
    # Called in the loop, so that the loop knows the iterator and closes it at its end.
    return await anext(items)


async def _wind_up() -> None:
    """Cancel all tasks of the loop and wait for them, then close its iterators."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
