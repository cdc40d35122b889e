"""Jobs `compact` and `cleanup`: the files of a table."""

from __future__ import annotations

import pickle
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from alance.datasets import Dataset
from alance.errors import RetryableConflictError
from alance.format.table.fragment import DataFile
from alance.ops.upkeep import compact as parts
from alance.ops.upkeep.compact_plan import CompactionOptions
from alance.ops.version.commit_options import CommitOptions
from alance.spark.jobs.base import Watch, place, spread
from alance.spark.versions import Version, open_version
from alance.spark.worker import run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from alance.ops.upkeep.compact import CompactionTask, RewriteResult
    from alance.ops.version.snapshot import Snapshot
    from alance.spark.jobs.base import OnProgress, Summary
    from alance.spark.options import WriteOptions


def compact(
    spark: SparkSession,
    uri: str,
    *,
    storage_options: Mapping[str, str] | None = None,
    max_rounds: int = 3,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> Summary:
    """Rewrite small fragments, and those with many deleted rows, on the executors.

    The driver plans and commits; where others changed some of the fragments meanwhile, the others
    are committed, and those are planned anew.

    Args:
        max_rounds: plans at most.
        options: of `Dataset.optimize.compact_files`, such as `target_rows_per_fragment`.

    Raises:
        RetryableConflictError: in every round others changed all the fragments.
    """
    where = place(spark, uri, storage_options)
    chosen = CompactionOptions(**options)
    removed = added = tasks = dropped = 0
    with Watch(spark, "compact", on_progress) as watch:
        for number in range(max_rounds):
            watch.step = f"round {number + 1}"
            version, todo = run(_plan(where, chosen))
            if not todo:
                break
            tasks += len(todo)
            base = run(_slim(where, version))
            work = partial(_execute, base)
            results = [pickle.loads(one) for one in spread(spark, _pickled(todo), work)]
            metrics, lost = run(_commit(where, results))
            removed += metrics.fragments_removed
            added += metrics.fragments_added
            dropped += lost
            if not lost:
                break
        else:
            if not removed:
                raise RetryableConflictError(
                    f"dataset {uri!r}: others changed the fragments in all {max_rounds} rounds"
                )
        after = run(open_version(where))
        return watch.summary(
            uri,
            after.version,
            tasks=tasks,
            fragments_removed=removed,
            fragments_added=added,
            tasks_lost_to_others=dropped,
        )


async def _plan(
    where: WriteOptions, options: CompactionOptions
) -> tuple[int, Sequence[CompactionTask]]:
    snapshot = await open_version(where)
    return snapshot.version, (await parts.plan(snapshot, options)).tasks


async def _slim(where: WriteOptions, version: int) -> Version:
    return Version.of(await open_version(where, version), where)


def _pickled(tasks: Sequence[CompactionTask]) -> list[bytes]:
    return [pickle.dumps(one) for one in tasks]


def _execute(version: Version, item: bytes) -> bytes:
    """One task, on an executor, which reads no manifest."""
    task: CompactionTask = pickle.loads(item)

    async def rewrite() -> RewriteResult:
        snapshot = version.snapshot([one.SerializeToString() for one in task.fragments])
        return await parts.execute(snapshot, task)

    return pickle.dumps(run(rewrite()))


async def _commit(
    where: WriteOptions, results: Sequence[RewriteResult]
) -> tuple[parts.CompactionMetrics, int]:
    """Commit the results whose fragments nobody has changed; gives how many others there are."""
    lost: list[RewriteResult] = []
    left = list(results)
    while left:
        snapshot = await open_version(where)
        kept = [one for one in left if _is_unchanged(snapshot, one)]
        lost += [one for one in left if one not in kept]
        left = kept
        try:
            await parts.commit(snapshot, kept, CommitOptions())
            break
        except RetryableConflictError:
            now = await open_version(where)
            if all(_is_unchanged(now, one) for one in kept):
                raise
    await _remove(where, lost)
    metrics = sum((one.metrics for one in left), parts.CompactionMetrics())
    return metrics, len(lost)


def _is_unchanged(snapshot: Snapshot, result: RewriteResult) -> bool:
    known = {one.id: one.message for one in snapshot.manifest.fragments}
    return all(known.get(one.id) == one for one in result.original_fragments)


async def _remove(where: WriteOptions, results: Sequence[RewriteResult]) -> None:
    """Remove the files of results that are not committed."""
    if not results:
        return
    table = (await open_version(where)).table
    for result in results:
        for fragment in result.new_fragments:
            for file in fragment.files:
                location = table.new_data_file(DataFile.from_protobuf(file).path)
                store, path = table.registry.resolve(location)
                await store.delete([path])


def cleanup(
    spark: SparkSession,
    uri: str,
    *,
    older_than_hours: float | None = None,
    storage_options: Mapping[str, str] | None = None,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> Summary:
    """Remove old versions and files that no version needs, from the driver.

    It lists, and deletes up to a thousand files a request: work that more machines do not speed
    up. What failed and repeated tasks of Spark have left goes here, when it is seven days old.

    Args:
        older_than_hours: None: as of `Dataset.cleanup_old_versions`, two weeks.
        options: of `Dataset.cleanup_old_versions`.
    """
    where = place(spark, uri, storage_options)
    if older_than_hours is not None:
        options["older_than"] = timedelta(hours=older_than_hours)

    async def clean() -> tuple[int, Any]:
        snapshot = await open_version(where)
        return snapshot.version, await Dataset(snapshot).cleanup_old_versions(**options)

    with Watch(spark, "cleanup", on_progress) as watch:
        version, stats = run(clean())
        counts = {
            name: value
            for name in dir(stats)
            if not name.startswith("_") and isinstance(value := getattr(stats, name), int)
        }
        return watch.summary(uri, version, **counts)
