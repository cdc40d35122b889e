"""Background cleanup: finishes the cleanup of cancelled calls.

A cancelled call may have created things whose removal takes requests: parts of an upload, or files
that no version will name. The call removes them itself, but its caller waits only `CANCEL_GRACE_S`
for all of that. Work that takes longer, as on a store that does not answer, continues here. The
caller sets its time limit, and `MAX_CLEANUPS` limits the number of pending cleanups. A session owns
the cleanups: at its end it waits for them briefly and then cancels them. No cleanup makes a
version, a tag or a branch.
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

CANCEL_GRACE_S: Final = 0.4  # a cancelled call must return within a second
# A file that is being synced and renamed cannot be stopped; a busy disk may take seconds.
LOCAL_GRACE_S: Final = 30.0
DISCARD_S: Final = 120.0  # seconds for removing unneeded objects; a later cleanup finds the rest
MAX_CLEANUPS: Final = 64  # pending cleanups; one more cancels the oldest
CLOSE_S: Final = 2.0  # seconds for pending cleanups when the session ends

# Loop time at which each cancelled task, of any loop, began to wait for its cleanups.
_since: Final[WeakKeyDictionary[asyncio.Task[Any], float]] = WeakKeyDictionary()


class Background:
    """The unfinished cleanups of a session's cancelled calls. For one event loop."""

    def __init__(self) -> None:
        self._pending: dict[asyncio.Task[Any], None] = {}  # oldest first
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._pending)

    async def to_the_end(
        self,
        work: Coroutine[object, object, T],
        limit_s: float,
        grace_s: float = CANCEL_GRACE_S,
        what: str = "the work",
    ) -> T:
        """Return the result of `work`, which may continue briefly after a cancellation.

        Args:
            limit_s: seconds after which `work` is cancelled.
            grace_s: seconds that `work` has to end by itself after this task is cancelled. Then
                `work` is cancelled, and awaited for `grace_s` more. If it still has not ended, it
                becomes a pending cleanup.
            what: the subject of the error message, such as a location.

        Raises:
            CancelledError: this task was cancelled meanwhile.
            StoreError: the limit was reached.
            Exception: the failure of `work`.
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
        grace_s: float = CANCEL_GRACE_S,
        what: str = "the work",
    ) -> None:
        """Run a cleanup; if this task is cancelled, `work` may become a pending cleanup.

        Args:
            limit_s: seconds after which `work` is cancelled.
            grace_s: seconds that a cancelled task waits for all its cleanups together.
            what: the subject of the error message, such as a location.

        Raises:
            CancelledError: this task was cancelled meanwhile.
            StoreError: the limit was reached.
            Exception: the failure of `work`. It is logged instead if `work` is pending.
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
        """Remove unneeded objects from a store, like `finish`, but ignore errors of alance.

        A later cleanup of old versions finds objects that could not be removed.
        """
        with suppress(AlanceError):
            await self.finish(work, DISCARD_S, grace_of(store))

    @property
    def num_pending(self) -> int:
        """Number of cleanups that continue after their calls were cancelled."""
        return len(self._pending)

    def _leave(self, task: asyncio.Task[Any]) -> None:
        if len(self._pending) >= MAX_CLEANUPS:
            oldest = next(iter(self._pending))
            del self._pending[oldest]
            oldest.cancel()
        self._pending[task] = None
        task.add_done_callback(self._ended)
        if self._is_closed:
            task.cancel()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._pending.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("the cleanup of a cancelled call has failed: %s", error)

    async def settled(self, timeout_s: float) -> int:
        """Wait at most `timeout_s` for pending cleanups; return the number still pending.

        Cleanups that begin meanwhile, as at the end of others, are awaited as well.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + timeout_s
        while self._pending and (remaining_s := deadline - clock()) > 0:
            await asyncio.wait([*self._pending], timeout=remaining_s)
        return len(self._pending)

    async def aclose(self, limit_s: float = CLOSE_S) -> None:
        """Wait at most `limit_s` for pending cleanups, and cancel those still pending."""
        self._is_closed = True
        if self._pending and await self.settled(limit_s):
            _log.warning("%d calls that were cancelled could not clean up", len(self._pending))
            for task in self._pending:
                task.cancel()
            await asyncio.wait([*self._pending], timeout=CANCEL_GRACE_S)


def grace_of(store: Store) -> float:
    """Return the seconds for which a cancelled call waits for its requests to a store."""
    return CANCEL_GRACE_S if store.profile.is_remote else LOCAL_GRACE_S


_NO_LIMIT: Final = float("inf")


async def ended_in_time(task: asyncio.Future[Any], grace_s: float) -> asyncio.CancelledError | None:
    """Wait for the end of `task`, but at most `grace_s` once the current task is cancelled.

    Returns:
        The last cancellation of the current task meanwhile; None if there was none.
    """
    cancelled: asyncio.CancelledError | None = None
    while not task.done() and (patience := _patience(grace_s)):
        try:
            await asyncio.wait([task], timeout=None if patience == _NO_LIMIT else patience)
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled


def _patience(grace_s: float) -> float:
    """Return the seconds that the current task may still wait: infinite until it is cancelled."""
    task = asyncio.current_task()
    assert task is not None
    if not task.cancelling():
        _since.pop(task, None)
        return _NO_LIMIT
    now = asyncio.get_running_loop().time()
    return max(0.0, _since.setdefault(task, now) + grace_s - now)


def _begun(work: Coroutine[object, object, T], limit_s: float) -> asyncio.Task[T]:
    """Start `work` in a task that is cancelled after `limit_s`."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    timer = loop.call_later(limit_s, task.cancel)
    task.add_done_callback(lambda _: timer.cancel())
    return task


async def _ended(task: asyncio.Task[Any], timeout_s: float) -> None:
    """Wait for a cancelled task; ignore cancellations of the current task meanwhile."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    while not task.done() and (remaining_s := deadline - asyncio.get_running_loop().time()) > 0:
        try:
            await asyncio.wait([task], timeout=remaining_s)
        except asyncio.CancelledError:
            continue


def _result(task: asyncio.Task[T], cancelled: asyncio.CancelledError | None, what: str) -> T:
    """Return the result of an ended task; raise `cancelled` instead if there was a cancellation."""
    if cancelled is None:
        if task.cancelled():
            raise StoreError(f"{what}: did not end in time", retryable=True)
        return task.result()
    seen(task)
    raise cancelled
