"""Background compaction: a task that joins small fragments while other tasks write to the table.

Only the end of the table is rewritten: the longest run of fragments that together have
`REWRITE_GROWTH` times the rows of the largest of them. So each rewrite makes a row's fragment at
least `REWRITE_GROWTH` times larger. In a table of n rows from small commits, a row is written about
log4(n) times, and there are at most about `min_fragments` fragments per doubling.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from alance.base.checks import check_count
from alance.base.records import dataclass
from alance.io.events.observing import Reading
from alance.ops.upkeep import compact
from alance.ops.upkeep.background import UpkeepTask
from alance.ops.version.options import CommitOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alance.base.arrays import Int64s, Mask
    from alance.ops.upkeep.compact_plan import CompactionOptions
    from alance.ops.version.snapshot import Snapshot


# Minimum growth of a row's fragment by a rewrite. With 100 000 commits of 10 rows, joined from 16
# fragments on, a row is rewritten 5.2 times and the table has 9 fragments on average. With a growth
# of 2 it is 6.8 times and 6 fragments, with 8 it is 4.2 times and 14.
REWRITE_GROWTH: Final = 4


@dataclass(frozen=True, slots=True)
class AutoCompactionMetrics:
    """Counters of a background compaction.

    Attributes:
        num_compactions: committed compactions.
        fragments_removed, fragments_added: fragments of committed compactions.
        num_conflicts: attempts that failed because other commits changed the same fragments.
        num_failures: attempts that failed for other reasons.
        last_error: error of the last failed attempt.
        last_version: version of the last committed compaction.
    """

    num_compactions: int = 0
    fragments_removed: int = 0
    fragments_added: int = 0
    num_conflicts: int = 0
    num_failures: int = 0
    last_error: Exception | None = None
    last_version: int | None = None


class Compactor(UpkeepTask):
    """Background task that compacts a table; it starts at once. For one event loop.

    Args:
        min_fragments: number of joinable fragments at which a compaction begins.
        interval: seconds between checks for new versions, one LIST each; None: only versions passed
            to `tell` are checked.

    Raises:
        InvalidInputError: `min_fragments` is below 2, or `interval` is not positive.
    """

    metrics: AutoCompactionMetrics

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
        super().__init__(snapshot, interval)

    def readings(self) -> Iterator[Reading]:
        """Yield the counters as readings."""
        metrics, uri = self.metrics, self.last.uri
        yield Reading("auto_compactions_total", uri, metrics.num_compactions)
        failed = metrics.num_failures + metrics.num_conflicts
        yield Reading("auto_compactions_failed_total", uri, failed)

    async def _once(self) -> None:
        """Join the small fragments at the end of the table, if there are enough of them."""
        snapshot = self.last
        counts = await snapshot.live_counts()
        target = self._options.resolved(
            snapshot.manifest.config, snapshot.manifest.data_storage_version
        ).target_rows_per_fragment
        start = tail(counts, target, self._min_fragments)
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


def tail(num_rows: Int64s, target: int, least: int) -> int:
    """Return the start of the run of fragments to join at the table's end.

    The run lies after the last fragment with `target` rows. It is the longest run whose fragments
    together have `REWRITE_GROWTH` times the rows of the largest one. So a row is rewritten log4(n)
    times.

    Args:
        num_rows: rows of each fragment; shape (n,).
        target: rows of a fragment that is large enough.
        least: minimum number of fragments to join; that many of the same size are joined even if
            they are fewer than `REWRITE_GROWTH`.
    """
    growth = min(REWRITE_GROWTH, least)
    full = np.flatnonzero(num_rows >= target)
    behind = num_rows[full[-1] + 1 if len(full) else 0 :][::-1]
    is_even = growth * np.maximum.accumulate(behind) <= np.cumsum(behind)
    starts = np.flatnonzero(is_even)
    return len(num_rows) - int(starts[-1] + 1 if len(starts) else 0)


def joinable(num_rows: Int64s, target: int, least: int) -> Mask:
    """Return the mask of small fragments that are worth joining; shape (n,).

    At the table's end, where fragments are added, these are the fragments from `tail` on. A run of
    small fragments before a fragment with `target` rows no longer grows, so the whole run is
    joined.

    Args:
        num_rows: rows of each fragment; shape (n,).
        least: as for `tail`.
    """
    is_small = num_rows < target
    after = np.append(is_small[1:], False)
    before = np.append(False, is_small[:-1])
    joins: Mask = is_small & (after | before)
    full = np.flatnonzero(~is_small)
    joins[full[-1] + 1 if len(full) else 0 : tail(num_rows, target, least)] = False
    return joins
