"""Calls from blocking threads into the event loop of a dataset."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from alance.errors import AlanceError, InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    import pyarrow as pa

    from alance.scanner import Scanner

T = TypeVar("T")

# If a loop does not begin a call within this number of seconds, it waits for the engine itself: a
# deadlock. A loop that is merely busy begins within milliseconds.
STALL_S: Final = 10.0

BLOCKED: Final = (
    "an engine was called on the event loop, which has to go on while it reads: call it by "
    "`asyncio.to_thread`, use `await dataset.sql(...)`, or use `alance.sync`"
)
ENDED: Final = "the query was stopped, or the event loop of its dataset has ended"


class Bridge:
    """Bridge from blocking threads into the event loop in which it is created.

    Calls run with the context variables of the creator, so that they appear in the creator's trace.

    Args:
        is_off_loop: True if the engine runs in threads of alance, so that the loop never waits for
            it.

    Attributes:
        error: first error of alance, for engines that replace its text.
    """

    def __init__(self, *, is_off_loop: bool = False) -> None:
        self._is_off_loop = is_off_loop
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._pending: set[Future[Any]] = set()
        self._closing: set[asyncio.Future[None]] = set()
        self._is_stopped = False
        self.error: AlanceError | None = None

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run work in the loop to its end; an interrupt cancels it there.

        Raises:
            InvalidInputError: the call came from the loop's own thread, or while the loop waits for
                the engine; or the loop has ended, or the call was stopped.
        """
        try:
            return self._run(work)
        except AlanceError as error:
            self.error = self.error or error
            raise

    def _run(self, work: Callable[[], Awaitable[T]]) -> T:
        begun = threading.Event()

        async def call() -> T:
            return await work()

        async def start() -> T:
            begun.set()
            return await self._loop.create_task(call(), context=self._context)

        if self._is_here():
            raise InvalidInputError(BLOCKED)
        started = start()
        try:
            future = asyncio.run_coroutine_threadsafe(started, self._loop)
        except RuntimeError:
            started.close()
            raise InvalidInputError(ENDED) from None
        self._pending.add(future)
        try:
            if self._is_stopped:
                future.cancel()
            while not wait([future], STALL_S).done:
                if self._loop.is_closed():
                    started.close()
                    raise InvalidInputError(ENDED)
                if not self._is_off_loop and not begun.is_set():
                    raise InvalidInputError(BLOCKED)
            return future.result()
        except CancelledError:
            raise InvalidInputError(ENDED) from None
        finally:
            future.cancel()
            self._pending.discard(future)

    def iterate(self, scanner: Scanner) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a scan, which is closed together with this iterator."""
        batches = scanner.to_batches()

        async def following() -> pa.RecordBatch | None:
            return await anext(batches, None)

        def close() -> None:
            task = asyncio.ensure_future(batches.aclose(), loop=self._loop)
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

        try:
            while (batch := self.run(following)) is not None:
                yield batch
        finally:
            # The cycle collector may run this in any thread, even the loop's, so it must not wait.
            with suppress(RuntimeError):  # the loop has ended, and the scan with it
                self._loop.call_soon_threadsafe(close)

    def stop(self) -> None:
        """Cancel all calls, including later ones."""
        self._is_stopped = True
        for future in tuple(self._pending):
            future.cancel()

    def _is_here(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False
