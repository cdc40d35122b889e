"""Maintenance whose tasks other processes run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.ops.maintain import run

if TYPE_CHECKING:
    from alance.datasets import Dataset
    from alance.ops.maintain.policy import MaintenancePolicy
    from alance.ops.maintain.run import MaintenanceReport, Workers


async def maintain(
    dataset: Dataset,
    workers: Workers,
    policy: MaintenancePolicy | None = None,
    *,
    dry_run: bool = False,
) -> MaintenanceReport:
    """Do the upkeep that is due, as `Dataset.maintain`, with the tasks of its steps elsewhere.

    Tasks rewrite groups of fragments and write new segments of indices; all extensions of indices
    that are due run at once. This process takes the lease, plans, commits, deletes expired rows,
    and removes versions.

    Cost: as of `Dataset.maintain`, without the bytes of the tasks. A step of compaction rewrites up
    to 4 GiB of data files for each task that the workers run at once.

    Args:
        dataset: any version of the table.
        workers: run the tasks.
        policy: as for `Dataset.maintain`.
        dry_run: only report which steps are due, and their cost.

    Raises:
        InvalidInputError, NotFoundError, CorruptFileError, StoreError: as of `Dataset.maintain`. A
            task that fails with an error of alance makes its step `failed` or `overtaken`; other
            errors end the run.
    """
    _, report = await run.maintain(dataset._snapshot, policy, dry_run=dry_run, workers=workers)
    return report
