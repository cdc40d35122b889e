"""Background compaction: a task beside a table's writers that joins small fragments.

Only the end of the table is rewritten: the longest run of fragments in which no fragment has more
rows than all others together. So each rewrite at least doubles the fragment of a row. In a table of
n rows that come in small commits, a row is written about log2(n) times, and there are at most about
`min_fragments` fragments per doubling.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from alance.checks import check_count
from alance.io.events.observing import Reading
from alance.ops.upkeep import compact
from alance.ops.upkeep.background import UpkeepTask
from alance.ops.version.options import CommitOptions
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alance.arrays import Int64s, Mask
    from alance.errors import AlanceError
    from alance.ops.upkeep.compact_plan import CompactionOptions
    from alance.ops.version.snapshot import Snapshot

FIRST_PAUSE_S: Final = 1.0  # after a failure; doubled after each further failure
LONGEST_PAUSE_S: Final = 300.0

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AutoCompactionMetrics:
    """Counters of a background compaction.

    Attributes:
        num_compactions: committed compactions.
        fragments_removed, fragments_added: fragments of committed compactions.
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
    """Background task that compacts a table; it starts at once. For one event loop.

    Failures are counted, logged and retried later: writers never see them.

    Args:
        min_fragments: compact as soon as this many fragments can be joined.
        interval: seconds between checks for new versions, one LIST each; None: only versions given
            to `tell` are looked at.

    Raises:
        InvalidInputError: `min_fragments` below 2, or an `interval` that is not above 0.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        options: CompactionOptions,
        min_fragments: int,
        interval: float | None = None,
    ) -> None:
        check_count("min_fragments", min_fragments, 2)
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
        """Report a new version."""
        if snapshot.version > self.last.version:
            self.last = snapshot
            self._news.set()

    def readings(self) -> Iterator[Reading]:
        """Yield the counters as metrics."""
        metrics, uri = self.metrics, self.last.uri
        yield Reading("auto_compactions_total", uri, metrics.num_compactions)
        failed = metrics.num_failures + metrics.num_conflicts
        yield Reading("auto_compactions_failed_total", uri, failed)

    async def close(self) -> None:
        """Compact a last time, then stop. If cancelled, stop as `abort` does.

        Raises:
            Exception: an error that ended the task and is not an alance error.
        """
        self._is_closing = True
        self._news.set()
        try:
            await asyncio.shield(self._task)
        finally:
            await self.abort()

    async def abort(self) -> None:
        """Stop at once and remove the files of a compaction under way. May be called twice."""
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
        """Wait after a failure, or until `close`."""
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE_S)
        until = asyncio.get_running_loop().time() + pause
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                while not self._is_closing:
                    self._news.clear()
                    await self._news.wait()
        self._news.set()  # look at the same version again

    async def _compact(self) -> None:
        """Join the small fragments at the end of the table, if there are enough of them."""
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
    """Return the first position of the run of fragments to join at the table's end.

    It is the longest run after the last fragment with `target` rows in which no fragment has more
    rows than all others together.

    Args:
        num_rows: rows of each fragment; shape (n,).
        target: rows of a fragment that is large enough.
    """
    full = np.flatnonzero(num_rows >= target)
    behind = num_rows[full[-1] + 1 if len(full) else 0 :][::-1]
    is_even = 2 * np.maximum.accumulate(behind) <= np.cumsum(behind)
    starts = np.flatnonzero(is_even)
    return len(num_rows) - int(starts[-1] + 1 if len(starts) else 0)


def joinable(num_rows: Int64s, target: int) -> Mask:
    """Return which fragments of fewer than `target` rows are worth joining; shape (n,).

    Of the last ones, to which new fragments come, these are the ones behind `tail`. Neighbours
    before a fragment of `target` rows do not grow any more, and are all joined.

    Args:
        num_rows: of each fragment; shape (n,).
    """
    is_small = num_rows < target
    after = np.append(is_small[1:], False)
    before = np.append(False, is_small[:-1])
    joins: Mask = is_small & (after | before)
    full = np.flatnonzero(~is_small)
    joins[full[-1] + 1 if len(full) else 0 : tail(num_rows, target)] = False
    return joins
