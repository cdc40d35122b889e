"""Upkeep in the background: a task that works on new versions, next to a table's writers."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from alance.errors import (
    AlanceError,
    CommitConflictError,
    InvalidInputError,
    RetryableConflictError,
)
from alance.io.events import observing
from alance.ops.version.opening import checkout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alance.io.events.observing import Reading
    from alance.ops.version.snapshot import Snapshot

FIRST_FAILURE_PAUSE_S: Final = 1.0  # pause after a failure; doubled after each further failure
LONGEST_PAUSE_S: Final = 300.0

_log: Final = logging.getLogger(__name__)


class UpkeepTask(ABC):
    """Work on the new versions of a table, in a background task that begins at once.

    Failures of any kind are counted and logged, and the work is tried again later; writers are not
    affected. For one event loop.

    Args:
        interval: seconds between checks for new versions, one LIST each; None: only versions passed
            to `tell` are checked.

    Attributes:
        metrics: counters, among them `num_conflicts`, `num_failures` and `last_error`; set by the
            subclass before it calls `__init__`.

    Raises:
        InvalidInputError: `interval` is not positive.
    """

    metrics: Any  # a dataclass defined by the subclass

    def __init__(self, snapshot: Snapshot, interval: float | None) -> None:
        if interval is not None and not (isinstance(interval, int | float) and interval > 0):
            raise InvalidInputError(f"interval={interval!r}: expected a time above 0 s")
        self.last = snapshot
        self._interval = interval
        self._news = asyncio.Event()
        self._news.set()
        self._is_closing = False
        self._pause = FIRST_FAILURE_PAUSE_S
        self._task = asyncio.create_task(self._work())
        observing.show(self)

    @abstractmethod
    async def _once(self) -> None:
        """Do the work on `last`, the latest known version."""

    def _count(self, error: Exception, *, is_conflict: bool) -> None:
        """Count a failure in the metrics."""
        metrics = self.metrics
        self.metrics = (
            replace(metrics, num_conflicts=metrics.num_conflicts + 1)
            if is_conflict
            else replace(metrics, num_failures=metrics.num_failures + 1, last_error=error)
        )

    @abstractmethod
    def readings(self) -> Iterator[Reading]:
        """Yield the counters as readings."""

    def tell(self, snapshot: Snapshot) -> None:
        """Report a new version, on which the work will be done soon."""
        if snapshot.version > self.last.version:
            self.last = snapshot
            self._news.set()

    async def close(self) -> None:
        """Do the work a last time, and end the task. A cancelled call ends it as `abort` does.

        A failure is counted and logged, not raised.
        """
        self._is_closing = True
        self._news.set()
        try:
            await asyncio.shield(self._task)
        finally:
            await self.abort()

    async def abort(self) -> None:
        """End the task at once, and remove the files of unfinished work. May be called twice."""
        self._is_closing = True
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        is_last = False
        while not is_last:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval):
                    await self._news.wait()
            self._news.clear()
            is_last = self._is_closing
            await self._try()

    async def _try(self) -> None:
        try:
            if self._interval is not None:
                self.last = await checkout(self.last, None)
            await self._once()
        except (RetryableConflictError, CommitConflictError) as error:
            self._count(error, is_conflict=True)
            _log.debug("%s: upkeep was overtaken: %s", self.last.uri, error)
        except AlanceError as error:
            self._count(error, is_conflict=False)
            _log.warning("%s: upkeep in the background failed: %s", self.last.uri, error)
            await self._rest()
        except Exception as error:  # a bug: as above, but logged with its traceback
            self._count(error, is_conflict=False)
            _log.exception("%s: upkeep in the background failed", self.last.uri)
            await self._rest()
        else:
            self._pause = FIRST_FAILURE_PAUSE_S

    async def _rest(self) -> None:
        """Wait after a failure, unless the task has to end."""
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE_S)
        until = asyncio.get_running_loop().time() + pause
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                while not self._is_closing:
                    self._news.clear()
                    await self._news.wait()
        self._news.set()  # the same version is tried again
