"""Maintenance in the background, beside a table's writers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from alance.base.records import dataclass
from alance.io.events.observing import Reading
from alance.ops.maintain.run import maintain
from alance.ops.upkeep.background import UpkeepTask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alance.ops.maintain.health import TableHealth
    from alance.ops.maintain.policy import MaintenancePolicy
    from alance.ops.maintain.run import MaintenanceReport
    from alance.ops.version.snapshot import Snapshot

RUN_EVERY: Final = 16  # versions; also the default number of small fragments to join


@dataclass(frozen=True, slots=True)
class MaintenanceMetrics:
    """Counters of maintenance in the background.

    Attributes:
        num_runs: runs, most of which find nothing due.
        num_steps: finished steps.
        num_conflicts: steps that lost to commits of other writers; later runs try again.
        num_failures: runs and steps that failed.
        last_error: error of the last failed run; errors of steps are in `last_report`.
        num_bytes: estimated bytes that the steps read and wrote.
        num_requests: estimated number of requests of the steps.
        health: state of the table before the last run; None: no run has begun.
        last_report: report of the last run with steps; None before such a run.
    """

    num_runs: int = 0
    num_steps: int = 0
    num_conflicts: int = 0
    num_failures: int = 0
    last_error: Exception | None = None
    num_bytes: int = 0
    num_requests: int = 0
    health: TableHealth | None = None
    last_report: MaintenanceReport | None = None


class Maintainer(UpkeepTask):
    """Maintains a table periodically, in a task that begins at once. For one event loop.

    Args:
        policy: rules; None for those of the table's configuration, which are read for each run.
        interval: seconds between runs; None: a run after every `RUN_EVERY` versions passed to
            `tell`, and at the end.

    Raises:
        InvalidInputError: `interval` is not positive.
    """

    metrics: MaintenanceMetrics

    def __init__(
        self, snapshot: Snapshot, policy: MaintenancePolicy | None, interval: float | None
    ) -> None:
        self.metrics = MaintenanceMetrics()
        self._policy = policy
        self._seen_version = snapshot.version  # version of the last run
        super().__init__(snapshot, interval)

    def readings(self) -> Iterator[Reading]:
        """Yield the counters, and the state of the table before the last run."""
        metrics, uri = self.metrics, self.last.uri
        yield Reading("maintenance_steps_total", uri, metrics.num_steps)
        failed = metrics.num_failures + metrics.num_conflicts
        yield Reading("maintenance_failed_total", uri, failed)
        yield Reading("maintenance_bytes_total", uri, metrics.num_bytes)
        yield Reading("maintenance_requests_total", uri, metrics.num_requests)
        if (health := metrics.health) is not None:
            yield Reading("maintenance_small_fragments", uri, health.num_small_fragments)
            yield Reading("maintenance_deleted_share", uri, health.deleted_share)
            yield Reading("maintenance_versions", uri, health.num_versions)
            for index in health.indices:
                where = f"{uri}#{index.name}"
                yield Reading("maintenance_unindexed_rows", where, index.num_unindexed_rows)
            if (run := health.last_run) is not None:
                age = (datetime.now(UTC) - run.finished_at).total_seconds()
                yield Reading("maintenance_age_seconds", uri, age)

    async def _once(self) -> None:
        has_news = self.last.version - self._seen_version >= RUN_EVERY
        if self._interval is None and not (has_news or self._is_closing):
            return
        self.last, report = await maintain(self.last, self._policy, dry_run=False)
        metrics, outcomes = self.metrics, [step.outcome for step in report.steps]
        done = [step for step in report.steps if step.outcome == "done"]
        self.metrics = replace(
            metrics,
            num_runs=metrics.num_runs + 1,
            num_steps=metrics.num_steps + len(done),
            num_conflicts=metrics.num_conflicts + outcomes.count("overtaken"),
            num_failures=metrics.num_failures + outcomes.count("failed"),
            num_bytes=metrics.num_bytes + sum(step.num_bytes for step in done),
            num_requests=metrics.num_requests + sum(step.num_requests for step in done),
            health=report.health,
            last_report=report if report.steps else metrics.last_report,
        )
        self._seen_version = self.last.version
