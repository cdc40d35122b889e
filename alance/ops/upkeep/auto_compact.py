"""Compaction in the background: a task beside a table's writers that joins small fragments.

It rewrites the end of the table only, from where no fragment has more rows than all others
together. So a row is written again only where its fragment at least doubles: some log2(n) times
for a table of n rows that come in small commits; and the fragments are about `min_fragments` for
each doubling at most.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from alance.checks import check_count
from alance.errors import (
    AlanceError,
    CommitConflictError,
    InvalidInputError,
    RetryableConflictError,
)
from alance.io.events import observing
from alance.io.events.observing import Reading
from alance.ops.upkeep import compact
from alance.ops.version.opening import checkout
from alance.ops.version.options import CommitOptions
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alance.arrays import Int64s
    from alance.ops.upkeep.compact_plan import CompactionOptions
    from alance.ops.version.snapshot import Snapshot

FIRST_PAUSE_S: Final = 1.0  # after a failure; twice as long after each one that follows
LONGEST_PAUSE_S: Final = 300.0

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AutoCompactionMetrics:
    """Counters of a compaction in the background.

    Attributes:
        num_compactions: committed compactions.
        fragments_removed, fragments_added: by committed compactions.
        num_conflicts: attempts that failed because others changed rows of the same fragments.
        num_failures: attempts that failed for other reasons.
        last_error: error of the last failed attempt.
        last_version: version of the last committed compaction.
    """

    num_compactions: int = 0
    fragments_removed: int = 0
    fragments_added: int = 0
    num_conflicts: int = 0
    num_failures: int = 0
    last_error: AlanceError | None = None
    last_version: int | None = None


class Compactor:
    """Compacts a table now and then, in a task that begins at once. For one event loop.

    What fails is counted and logged, and tried again later: writers never see it.

    Args:
        min_fragments: compact as soon as so many can be joined.
        interval: seconds between looks for new versions, a LIST each; None: only what `tell`
            tells is looked at.

    Raises:
        InvalidInputError: a number below 2, or a time that is not above 0.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        options: CompactionOptions,
        min_fragments: int,
        interval: float | None = None,
    ) -> None:
        check(min_fragments, interval)
        self.last = snapshot
        self.metrics = AutoCompactionMetrics()
        self._options = options
        self._min_fragments = min_fragments
        self._interval = interval
        self._news = asyncio.Event()
        self._news.set()
        self._is_closing = False
        self._pause = FIRST_PAUSE_S
        self._task = asyncio.create_task(self._work())
        observing.show(self)

    def tell(self, snapshot: Snapshot) -> None:
        """There is a new version."""
        if snapshot.version > self.last.version:
            self.last = snapshot
            self._news.set()

    def readings(self) -> Iterator[Reading]:
        """What was done, for metrics."""
        metrics, uri = self.metrics, self.last.uri
        yield Reading("auto_compactions_total", uri, metrics.num_compactions)
        failed = metrics.num_failures + metrics.num_conflicts
        yield Reading("auto_compactions_failed_total", uri, failed)

    async def close(self) -> None:
        """Look a last time, and end. Cancelled: as `abort`.

        Raises:
            Exception: what has ended the task, where it was none of our errors.
        """
        self._is_closing = True
        self._news.set()
        try:
            await asyncio.shield(self._task)
        finally:
            await self.abort()

    async def abort(self) -> None:
        """End at once; of a compaction under way no file stays. May be called twice."""
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
            await self._compact()
        except (RetryableConflictError, CommitConflictError) as error:
            metrics = self.metrics
            self.metrics = replace(metrics, num_conflicts=metrics.num_conflicts + 1)
            _log.debug("%s: compaction was overtaken: %s", self.last.uri, error)
        except AlanceError as error:
            metrics = self.metrics
            failures = metrics.num_failures + 1
            self.metrics = replace(metrics, num_failures=failures, last_error=error)
            _log.warning("%s: compaction in the background failed: %s", self.last.uri, error)
            await self._rest()
        else:
            self._pause = FIRST_PAUSE_S

    async def _rest(self) -> None:
        """Wait after a failure, unless it all ends meanwhile."""
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE_S)
        until = asyncio.get_running_loop().time() + pause
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                while not self._is_closing:
                    self._news.clear()
                    await self._news.wait()
        self._news.set()  # the same version is looked at again

    async def _compact(self) -> None:
        """Join the small fragments at the end of the table, if there are enough of them."""
        if self._interval is not None:
            self.last = await checkout(self.last, None)
        snapshot = self.last
        counts = await snapshot.live_counts()
        target = self._options.resolved(
            snapshot.manifest.config, snapshot.manifest.data_storage_version
        ).target_rows_per_fragment
        start = tail(counts, target)
        if len(counts) - start < self._min_fragments:
            return
        stays = snapshot.manifest.fragments.ids[:start].tolist()
        excluded = frozenset(self._options.excluded_fragment_ids).union(stays)
        options = replace(self._options, excluded_fragment_ids=excluded)
        todo = await compact.plan(snapshot, options)
        if sum(len(task.fragments) for task in todo.tasks) < self._min_fragments:
            return
        after = await compact.carry_out(snapshot, todo, options, CommitOptions())
        self.tell(after)
        summary, metrics = after.summary, self.metrics
        self.metrics = replace(
            metrics,
            num_compactions=metrics.num_compactions + 1,
            fragments_removed=metrics.fragments_removed + summary.fragments_removed,
            fragments_added=metrics.fragments_added + summary.fragments_added,
            last_version=after.version,
        )


def tail(num_rows: Int64s, target: int) -> int:
    """The position from which fragments are joined, as far from the end as it can be: behind the
    last one that has `target` rows, and so that none has more rows than all others together.

    Args:
        num_rows: of each fragment; shape (n,).
    """
    full = np.flatnonzero(num_rows >= target)
    behind = num_rows[full[-1] + 1 if len(full) else 0 :][::-1]
    is_even = 2 * np.maximum.accumulate(behind) <= np.cumsum(behind)
    starts = np.flatnonzero(is_even)
    return len(num_rows) - int(starts[-1] + 1 if len(starts) else 0)


def check(min_fragments: int, interval: float | None) -> None:
    """Check when to compact.

    Raises:
        InvalidInputError: a number below 2, or a time that is not above 0.
    """
    check_count("min_fragments", min_fragments, 2)
    if interval is not None and not (isinstance(interval, int | float) and interval > 0):
        raise InvalidInputError(f"interval={interval!r}: expected a time above 0 s")
