"""Index builds and maintenance, with the large work in tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ray

import alance
from alance import IndexBuild
from alance.distributed import Workers
from alance.distributed import maintain as maintain_by
from alance.ray.worker import Version, access, full_uri, run, run_tasks

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from alance import MaintenancePolicy
    from alance.distributed import ExtensionTask
    from alance.indexing import IndexPages, IndexPart, IndexRange, IndexSegment, IndexTask
    from alance.optimize import CompactionTask
    from alance.types import (
        MaintenanceReport,
        Metric,
        ScalarIndexKind,
        StorageOptions,
        TextIndexArguments,
        TextIndexKind,
        VectorIndexArguments,
        VectorIndexKind,
    )


def build_index(
    uri: str | os.PathLike[str],
    column: str,
    index_type: VectorIndexKind | ScalarIndexKind | TextIndexKind = "BTREE",
    name: str | None = None,
    *,
    replace: bool = True,
    metric: Metric = "l2",
    vectors: VectorIndexArguments | None = None,
    texts: TextIndexArguments | None = None,
    storage_options: StorageOptions | None = None,
    ray_remote_args: Mapping[str, Any] | None = None,
) -> int:
    """Build an index of all rows of the latest version. Returns the number of the new version.

    Tasks read and sort the values of some fragments, then merge ranges of values; a last task
    merges the rest, and the driver commits.

    Cost: see `IndexBuild`.

    Args:
        uri: URI or path of the table.
        column: name or path of the column.
        index_type: as for `Dataset.create_index`.
        name: name of the index; None: `{column}_idx`.
        replace: True to replace an index of that name on that column; False to raise an error.
        metric, vectors, texts: as for `IndexBuild.plan`.
        storage_options: options of the store, which all tasks get.
        ray_remote_args: arguments of `ray.remote` for the tasks.

    Raises:
        NotFoundError: no such table.
        InvalidInputError: the column does not fit the kind of index, or a bad option.
        RetryableConflictError: other commits rewrote fragments meanwhile; call again.
        StoreError: the store failed.
    """

    async def build() -> int:
        dataset = await alance.dataset(full_uri(uri), **access(storage_options))
        version = Version.of(dataset, storage_options)
        plan = await IndexBuild.plan(
            dataset,
            column,
            index_type,
            name,
            replace=replace,
            metric=metric,
            vectors=vectors,
            texts=texts,
        )

        async def sort(task: IndexTask) -> IndexPart:
            records = [fragment.SerializeToString() for fragment in task.fragments]
            return await task.execute(version.dataset(records))

        async def merge(part: IndexRange) -> IndexPages:
            return await part.execute(version.dataset())

        async def finish(pages: Sequence[IndexPages]) -> IndexSegment:
            return await IndexBuild.merge(await version.opened(), plan, parts, pages)

        parts = await run_tasks(sort, plan.tasks, ray_remote_args)
        ranges = await IndexBuild.ranges(dataset, plan, parts)
        pages = await run_tasks(merge, ranges, ray_remote_args)
        (segment,) = await run_tasks(finish, [pages], ray_remote_args)
        return (await IndexBuild.commit(dataset, plan, segment)).version

    return run(build())


def maintain(
    uri: str | os.PathLike[str],
    policy: MaintenancePolicy | None = None,
    *,
    dry_run: bool = False,
    storage_options: StorageOptions | None = None,
    ray_remote_args: Mapping[str, Any] | None = None,
) -> MaintenanceReport:
    """Do the upkeep that is due, as `Dataset.maintain`, with compactions and indices in tasks.

    Cost: see `alance.distributed.maintain`.

    Args:
        uri: URI or path of the table.
        policy: rules and budget; None: those of the table's configuration.
        dry_run: only report which steps are due, and their cost.
        storage_options: options of the store, which all tasks get.
        ray_remote_args: arguments of `ray.remote` for the tasks.

    Raises:
        NotFoundError: no such table.
        InvalidInputError: the policy in the configuration cannot be parsed.
        StoreError: the store failed.
    """

    async def work() -> MaintenanceReport:
        dataset = await alance.dataset(full_uri(uri), **access(storage_options))

        async def execute(task: CompactionTask | ExtensionTask) -> object:
            place = access(storage_options)
            return await task.execute(
                await alance.dataset(dataset_uri, version=task.read_version, **place)
            )

        async def run_each(tasks: Sequence[Any]) -> Sequence[Any]:
            return await run_tasks(execute, tasks, ray_remote_args)

        dataset_uri = dataset.uri
        num_workers = max(1, int(ray.cluster_resources().get("CPU", 1)))
        workers = Workers(run_each, num_workers)
        return await maintain_by(dataset, workers, policy, dry_run=dry_run)

    return run(work())
