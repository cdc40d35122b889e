"""Methods that maintain a table by a policy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from alance.base.calls import public
from alance.base.deferred import Deferred
from alance.base.progress import Reporting
from alance.optimize import UpkeepBlock
from alance.verbs.base import Handle

if TYPE_CHECKING:
    from alance.base.progress import OnProgress
    from alance.datasets import Dataset
    from alance.ops.maintain import background, health, run
    from alance.ops.maintain.background import Maintainer, MaintenanceMetrics
    from alance.ops.maintain.health import TableHealth
    from alance.ops.maintain.policy import MaintenancePolicy
    from alance.ops.maintain.run import MaintenanceReport
else:
    background = Deferred("alance.ops.maintain.background")
    health = Deferred("alance.ops.maintain.health")
    run = Deferred("alance.ops.maintain.run")

MAINTENANCE_INTERVAL_S: Final = 60.0  # default seconds between runs in the background


class MaintenanceVerbs(Handle):
    """Maintain a table, and report its state."""

    __slots__ = ()

    async def maintain(
        self,
        policy: MaintenancePolicy | None = None,
        *,
        dry_run: bool = False,
        progress: OnProgress | None = None,
    ) -> MaintenanceReport:
        """Do the maintenance that is due: compact, extend indices, delete expired rows, clean up.

        The run executes a step on the latest version, reads the state of the table again, and ends
        when nothing is due or its budget is spent. Each step is a separate commit, and other
        writers may commit meanwhile; a step that loses to them is left to the next run. Runs of
        several processes share a lease: one works, the others report its holder.

        Cost: two LISTs if nothing is due, and a GET once a run has been recorded; else the steps,
        as the report estimates them, and some nine requests for the lease.

        Example:

            report = await dataset.maintain(dry_run=True)
            assert [step.kind for step in report.steps] == []

        Args:
            policy: rules; None for those of the table's configuration, with defaults for missing
                rules; see `MaintenancePolicy.to_config`.
            dry_run: only report which steps are due, and their cost. Nothing is written.
            progress: called with a `Progress` of each stage of the steps; True: a bar
                (docs/progress.md).

        Returns:
            The steps with their reasons and outcomes. `checkout_latest` opens the version after
            them.

        Raises:
            InvalidInputError: the policy in the configuration cannot be parsed, or `ttl_column` is
                not a timestamp or date column.
            NotFoundError: the table has been removed.
            CorruptFileError: a manifest cannot be read.
            StoreError: the store failed. The version of the last completed step is the latest.
        """
        await self._load(run)
        with Reporting(progress):
            _, report = await run.maintain(self._snapshot, policy, dry_run=dry_run)
        return report

    def maintaining(
        self, policy: MaintenancePolicy | None = None, *, interval: float = MAINTENANCE_INTERVAL_S
    ) -> Maintenance:
        """Return an `async with` block in which `maintain` runs in the background.

            async with dataset.maintaining(interval=300):
                await serve()

        Failures are logged, counted in `metrics`, and tried again later. At the end of the block
        the task runs a last time. If the block ends with an error, or is cancelled, a step under
        way is dropped and its files are removed.

        Cost: that of `maintain` for each interval.

        Args:
            policy: as for `maintain`.
            interval: seconds between runs.

        Raises:
            InvalidInputError: `interval` is not positive; raised when the block begins.
        """
        return Maintenance(cast("Dataset", self), policy, interval)

    async def health(self, *, reclaimable: bool = False) -> TableHealth:
        """Return the state on which maintenance decides, such as numbers of deleted rows.

        Cost: two LISTs, and a GET if a run of `maintain` is recorded; as for `stats` if the
        manifest lacks counts. With `reclaimable` nine LISTs in all, one more for each branch, and a
        GET for each version, tag and branch.

        Example:

            health = await dataset.health()
            assert health.num_rows == 100 and health.deleted_share == 0

        Args:
            reclaimable: True to also count the files and bytes that a cleanup by the policy in the
                table's configuration would free now.

        Raises:
            NotFoundError: the table has been removed.
            CorruptFileError: the manifests' names mix the two naming schemes; or, with
                `reclaimable`, a manifest cannot be read.
            InvalidInputError, UnsupportedError: with `reclaimable`: the policy cannot be parsed, or
                a version has an unknown feature.
            StoreError: the store failed.
        """
        await self._load(health)
        state = (await health.look(self._snapshot)).health()
        if not reclaimable:
            return state
        num_bytes, num_files = await health.reclaimable(self._snapshot)
        return replace(state, num_reclaimable_bytes=num_bytes, num_reclaimable_files=num_files)


@public
class Maintenance(UpkeepBlock):
    """Maintenance in the background, within an `async with` block; see `Dataset.maintaining`."""

    __slots__ = ("_interval", "_policy")
    _NAME = "maintaining()"

    def __init__(self, dataset: Dataset, policy: MaintenancePolicy | None, interval: float) -> None:
        super().__init__(dataset)
        self._policy = policy
        self._interval = interval

    @property
    def metrics(self) -> MaintenanceMetrics | None:
        """Counters of the runs so far; None before the block has begun."""
        return None if self._task is None else self._task.metrics

    async def _begin(self) -> Maintainer:
        await self._dataset._load(background)
        return background.Maintainer(self._dataset._snapshot, self._policy, self._interval)
