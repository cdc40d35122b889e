"""A run of maintenance: executes the steps that are due, one after another, within a budget."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from alance.base.checks import check_counts, check_type
from alance.base.records import dataclass
from alance.errors import (
    AlanceError,
    CommitConflictError,
    RetryableConflictError,
)
from alance.io.events.observing import MaintenanceStepUnderWay
from alance.io.loop.tasks import all_of
from alance.ops.maintain.health import TableHealth, look
from alance.ops.maintain.lease import Lease, acquire
from alance.ops.maintain.policy import MaintenancePolicy
from alance.ops.maintain.steps import SLICE_BYTES, Due, due
from alance.ops.version.opening import checkout_listed
from alance.versioning.load import list_manifests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.ops.maintain.steps import RunTasks
    from alance.ops.version.snapshot import Snapshot
    from alance.versioning.load import ManifestLocation

    Outcome: TypeAlias = Literal["planned", "done", "overtaken", "failed", "over budget", "leased"]

MOST_STEPS: Final = 1000  # steps of a run, so that it ends even if other writers never stop
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MaintenanceStep:
    """A step of a run of maintenance.

    Attributes:
        kind: `remap` (indices get the row addresses of a compaction with a deferred remap),
            `expire` (expired rows are deleted), `compact`, `index` (an index is extended, or its
            segments are merged) or `cleanup`.
        target: name of the index; None: the table.
        reason: measured value, and the rule that it exceeds.
        num_bytes: estimated bytes that are read and written.
        num_requests: estimated requests to a remote store.
        outcome: `planned` by a dry run; `done`; `overtaken` by other writers, so that the next run
            tries again; `failed`, see `error`; `over budget`; or `leased`: another run holds the
            lease.
        version: number of the version after the step; None if the step was not done.
        seconds: duration of the step.
        error: text of the error; None without an error.
    """

    kind: str
    target: str | None
    reason: str
    num_bytes: int
    num_requests: int
    outcome: Outcome
    version: int | None = None
    seconds: float = 0.0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class MaintenanceReport:
    """Result of a run of maintenance, or the plan of a dry run.

    Attributes:
        steps: finished or planned steps, in order.
        version: latest version of the table at the end.
        health: state of the table before the run.
        policy: rules of the run.
        holder: other run that holds the lease, so that this run did nothing; None without
            such a run.
    """

    steps: tuple[MaintenanceStep, ...]
    version: int
    health: TableHealth
    policy: MaintenancePolicy
    holder: str | None = None

    def __str__(self) -> str:
        if not self.steps:
            return f"{self.health.uri}: nothing is due in version {self.version}"
        return "\n".join(
            f"{step.outcome:11} {step.kind} {step.target or ''}".rstrip()
            + f": {step.reason}; about {step.num_bytes:,} bytes, {step.num_requests:,} requests"
            + (f"; {step.error}" if step.error else "")
            for step in self.steps
        )


@dataclass(frozen=True, slots=True)
class Workers:
    """Processes that run the tasks of compactions and of extensions of indices.

    Attributes:
        run_tasks: runs tasks, each by its method `execute`, and returns their results in order. It
            may be called again before a call ends.
        num_workers: number of tasks that run at once.
    """

    run_tasks: RunTasks
    num_workers: int = 1

    def __post_init__(self) -> None:
        check_counts(self, "num_workers")


async def maintain(
    snapshot: Snapshot,
    policy: MaintenancePolicy | None,
    *,
    dry_run: bool,
    workers: Workers | None = None,
) -> tuple[Snapshot, MaintenanceReport]:
    """Execute the steps that are due; return the version and a report. See `Dataset.maintain`.

    Args:
        workers: run the tasks of the steps; None: this process does.
    """
    if policy is not None:
        check_type("policy", policy, MaintenancePolicy, "an alance.MaintenancePolicy")
    # The versions are listed once for the latest one and for its state.
    versions = await list_manifests(snapshot.engine, snapshot.table)
    snapshot = await checkout_listed(snapshot, versions[-1])
    if policy is None:
        policy = MaintenancePolicy.from_config(snapshot.manifest.config)
    run = _Run(snapshot, policy, workers, versions)
    if dry_run:
        await run.plan()
    else:
        await run.work()
    return run.snapshot, run.report()


class _Run:
    """A run on one table."""

    def __init__(
        self,
        snapshot: Snapshot,
        policy: MaintenancePolicy,
        workers: Workers | None,
        versions: Sequence[ManifestLocation],
    ) -> None:
        self.snapshot = snapshot
        self._versions: Sequence[ManifestLocation] | None = versions  # None: they may have changed
        self._policy = policy
        self._workers = workers
        self._steps: list[MaintenanceStep] = []
        self._health: TableHealth | None = None
        self._holder: str | None = None
        self._passed: set[tuple[str, str | None]] = set()  # steps that this run skips
        self._num_bytes = 0
        self._num_requests = 0
        self._started = asyncio.get_running_loop().time()

    def report(self) -> MaintenanceReport:
        assert self._health is not None
        return MaintenanceReport(
            tuple(self._steps), self.snapshot.version, self._health, self._policy, self._holder
        )

    async def plan(self) -> None:
        """Report the steps that are due, without executing them."""
        for step in await self._due():
            if self._fits([step]):
                self._spend(step)
                self._note(step, "planned")
            else:
                self._note(step, "over budget")

    async def work(self) -> None:
        """Execute steps until none is due or the budget is spent."""
        lease: Lease | None = None
        try:
            while len(self._steps) < MOST_STEPS and (steps := await self._next()):
                if lease is None:
                    holds = await acquire(self.snapshot)
                    if isinstance(holds, str):
                        self._holder = holds
                        self._note(steps[0], "leased")
                        return
                    lease = holds
                    continue  # the holder before may have done this step: look again
                if lease.is_lost:
                    self._note(steps[0], "leased")
                    return
                await all_of(map(self._do, steps))
        finally:
            if lease is not None:
                done = [step.kind for step in self._steps if step.outcome == "done"]
                await lease.release(done, self.snapshot.version)

    async def _due(self) -> list[Due]:
        """Return the steps that are due in the latest version."""
        versions, self._versions = self._versions, None
        if versions is None:
            versions = await list_manifests(self.snapshot.engine, self.snapshot.table)
            self.snapshot = await checkout_listed(self.snapshot, versions[-1])
        state = await look(self.snapshot, versions)
        if self._health is None:
            self._health = state.health()
        workers, most = self._workers, self._policy.max_bytes
        slice_bytes: float = SLICE_BYTES * (1 if workers is None else workers.num_workers)
        if most is not None:  # the slice is read and written
            slice_bytes = min(slice_bytes, max(0, most - self._num_bytes) / 2)
        return await due(state, self._policy, slice_bytes)

    async def _next(self) -> list[Due]:
        """Return the first due step that fits the budget and was not passed over; else none.

        With workers, if this step extends an index, all other such steps that fit are returned too.
        """
        steps: list[Due] = []
        for step in await self._due():
            if (step.kind, step.target) in self._passed:
                continue
            if steps and (self._workers is None or not step.kind == steps[0].kind == "index"):
                break
            if self._fits([*steps, step]):
                steps.append(step)
            elif not steps:
                self._pass(step, "over budget")
        return steps

    def _fits(self, steps: Sequence[Due]) -> bool:
        """Return True if the budget has room for steps."""
        policy = self._policy
        seconds = asyncio.get_running_loop().time() - self._started
        num_bytes = self._num_bytes + sum(step.num_bytes for step in steps)
        num_requests = self._num_requests + sum(step.num_requests for step in steps)
        return (
            (policy.max_bytes is None or num_bytes <= policy.max_bytes)
            and (policy.max_requests is None or num_requests <= policy.max_requests)
            and (policy.max_seconds is None or seconds < policy.max_seconds)
        )

    def _spend(self, step: Due) -> None:
        """Count a step against the budget."""
        self._num_bytes += step.num_bytes
        self._num_requests += step.num_requests

    async def _do(self, step: Due) -> None:
        clock = asyncio.get_running_loop().time
        before, started = self.snapshot, clock()
        run_tasks = None if self._workers is None else self._workers.run_tasks
        estimates = step.num_bytes, step.num_requests
        try:
            with MaintenanceStepUnderWay(
                before.uri, step.kind, step.target, step.reason, estimates
            ) as event:
                after = await step.work(before, run_tasks)
                event.version = after.version
        except (RetryableConflictError, CommitConflictError) as error:
            self._pass(step, "overtaken", str(error))
        except AlanceError as error:
            _log.warning("%s: maintenance: %s failed: %s", before.uri, step.kind, error)
            self._pass(step, "failed", str(error))
        else:
            self.snapshot = after
            self._spend(step)
            seconds = clock() - started
            self._note(step, "done", version=after.version, seconds=seconds)
            _log.info(
                "%s: maintenance: %s in %.1f s: %s", before.uri, step.kind, seconds, step.reason
            )
            if after.version == before.version:  # a cleanup, or nothing could be done
                self._passed.add((step.kind, step.target))

    def _pass(self, step: Due, outcome: Outcome, error: str | None = None) -> None:
        """Report a step that is left to the next run."""
        self._passed.add((step.kind, step.target))
        self._note(step, outcome, error=error)

    def _note(
        self,
        step: Due,
        outcome: Outcome,
        *,
        version: int | None = None,
        seconds: float = 0.0,
        error: str | None = None,
    ) -> None:
        estimates = step.num_bytes, step.num_requests
        self._steps.append(
            MaintenanceStep(
                step.kind, step.target, step.reason, *estimates, outcome, version, seconds, error
            )
        )
