"""Background cleanup: finishes the work that a cancelled call leaves behind.

A cancelled call may leave things that take requests to remove: parts of an upload, or files that no
version will name. It removes them itself, but its caller waits only `GRACE_S` for that in all.
Work that takes longer, as on a store that does not answer, continues here. The caller bounds its
time, `MAX_CLEANUPS` bounds the number of such works, and a session owns them: at its end it waits
for them briefly and then drops them. No work that continues here makes a version, a tag or a
branch.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar
from weakref import WeakKeyDictionary

from alance.errors import AlanceError, StoreError
from alance.io.loop.futures import seen

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from alance.io.stores.store import Store

T = TypeVar("T")

_log: Final = logging.getLogger(__name__)

GRACE_S: Final = 0.4  # a caller that was cancelled is to be free within a second
# A file that is being synced and named cannot be called back; a busy disk may take seconds.
LOCAL_GRACE_S: Final = 30.0
DISCARD_S: Final = 120.0  # for the removal of what nobody needs; what stays, cleanup finds
MAX_CLEANUPS: Final = 64  # of what goes on at once; the oldest is dropped for one more
CLOSE_S: Final = 2.0  # for what goes on when the session ends

# When the cancelled tasks of all loops began to wait for what they leave.
_since: Final[WeakKeyDictionary[asyncio.Task[Any], float]] = WeakKeyDictionary()


class Background:
    """What the cancelled calls of one session have left. For one event loop."""

    def __init__(self) -> None:
        self._left: dict[asyncio.Task[Any], None] = {}  # oldest first
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._left)

    async def to_the_end(
        self,
        work: Coroutine[object, object, T],
        limit_s: float,
        grace_s: float = GRACE_S,
        what: str = "the work",
    ) -> T:
        """The result of `work`. When this task is cancelled, `work` goes on for a moment.

        Args:
            limit_s: seconds after which `work` is cancelled.
            grace_s: seconds after the cancellation of this task in which `work` may end by
                itself; it is cancelled then, and awaited for as long again.
            what: it is, and where, for the message.

        Raises:
            CancelledError: this task was cancelled meanwhile.
            StoreError: the limit was reached.
        """
        task = _begun(work, limit_s)
        cancelled = None
        while not task.done():
            try:
                await asyncio.wait([task], timeout=_patience(grace_s) if cancelled else None)
            except asyncio.CancelledError as error:
                cancelled = error
            if cancelled is not None and not task.done() and not _patience(grace_s):
                task.cancel()
                await _ended(task, grace_s)
                if not task.done():
                    self._leave(task)
                    raise cancelled
        return _result(task, cancelled, what)

    async def finish(
        self,
        work: Coroutine[object, object, object],
        limit_s: float,
        grace_s: float = GRACE_S,
        what: str = "the work",
    ) -> None:
        """Clean up: `work` goes on here where a task that was cancelled waits for it too long.

        Args:
            limit_s: seconds after which `work` is cancelled.
            grace_s: seconds for which a cancelled task waits, for all that it leaves together.
            what: it is, and where, for the message.

        Raises:
            CancelledError: this task was cancelled meanwhile.
            StoreError: the limit was reached.
            Exception: what `work` raises, unless it goes on here; then it is logged.
        """
        task = _begun(work, limit_s)
        cancelled = await ended_in_time(task, grace_s)
        if task.done():
            _result(task, cancelled, what)
            return
        self._leave(task)
        if cancelled is not None:
            raise cancelled

    async def discard(self, work: Coroutine[object, object, object], store: Store) -> None:
        """Remove what nobody needs from a store, as `finish`; what fails is left to a cleanup."""
        with suppress(AlanceError):
            await self.finish(work, DISCARD_S, grace_of(store))

    @property
    def num_left(self) -> int:
        """What goes on of calls that were cancelled."""
        return len(self._left)

    def _leave(self, task: asyncio.Task[Any]) -> None:
        if len(self._left) >= MAX_CLEANUPS:
            oldest = next(iter(self._left))
            del self._left[oldest]
            oldest.cancel()
        self._left[task] = None
        task.add_done_callback(self._ended)
        if self._is_closed:
            task.cancel()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._left.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("what a cancelled call left to be done has failed: %s", error)

    async def settled(self, timeout_s: float) -> int:
        """Wait for what goes on, so long at most; gives how much of it still does."""
        if self._left:
            await asyncio.wait([*self._left], timeout=timeout_s)
        return len(self._left)

    async def aclose(self, limit_s: float = CLOSE_S) -> None:
        """Wait for what goes on, so long at most, and drop the rest."""
        self._is_closed = True
        if await self.settled(limit_s):
            _log.warning("%d calls that were cancelled could not clean up", len(self._left))
            for task in self._left:
                task.cancel()
            await asyncio.wait([*self._left], timeout=GRACE_S)


def grace_of(store: Store) -> float:
    """Seconds for which a cancelled call waits for what it has begun on a store."""
    return GRACE_S if store.profile.is_remote else LOCAL_GRACE_S


_NO_LIMIT: Final = float("inf")


async def ended_in_time(task: asyncio.Future[Any], grace_s: float) -> asyncio.CancelledError | None:
    """Wait for the end of a task; where this one is cancelled, `grace_s` more at most. Gives the
    last cancellation meanwhile.
    """
    cancelled: asyncio.CancelledError | None = None
    while not task.done() and (patience := _patience(grace_s)):
        try:
            await asyncio.wait([task], timeout=None if patience == _NO_LIMIT else patience)
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled


def _patience(grace_s: float) -> float:
    """Seconds for which this task still waits; 0: it was cancelled, and has waited enough."""
    task = asyncio.current_task()
    assert task is not None
    if not task.cancelling():
        _since.pop(task, None)
        return _NO_LIMIT
    now = asyncio.get_running_loop().time()
    return max(0.0, _since.setdefault(task, now) + grace_s - now)


def _begun(work: Coroutine[object, object, T], limit_s: float) -> asyncio.Task[T]:
    """A task of `work` that is cancelled after so many seconds."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    timer = loop.call_later(limit_s, task.cancel)
    task.add_done_callback(lambda _: timer.cancel())
    return task


async def _ended(task: asyncio.Task[Any], timeout_s: float) -> None:
    """Wait for a task that was cancelled; further cancellations of this one change nothing."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    while not task.done() and (left := deadline - asyncio.get_running_loop().time()) > 0:
        try:
            await asyncio.wait([task], timeout=left)
        except asyncio.CancelledError:
            continue


def _result(task: asyncio.Task[T], cancelled: asyncio.CancelledError | None, what: str) -> T:
    """The result of a task that has ended; raises the cancellation instead, if there was one."""
    if cancelled is None:
        if task.cancelled():
            raise StoreError(f"{what}: did not end in time", retryable=True)
        return task.result()
    seen(task)
    raise cancelled
