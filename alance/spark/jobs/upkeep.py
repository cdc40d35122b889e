"""Jobs `compact`, `maintain`, `cleanup` and `validate`: maintenance and checks of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from alance import Compaction, CorruptFileError, MaintenancePolicy, RetryableConflictError
from alance.distributed import Workers, fragments_of, remove_data_files
from alance.distributed import maintain as maintain_by
from alance.optimize import CompactionMetrics
from alance.spark import read
from alance.spark.jobs.base import Executors, Watch, executed, place, quoted, spread
from alance.spark.session import parallelism_of
from alance.spark.versions import Version, access, open_version
from alance.spark.worker import run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from pyspark.sql import SparkSession

    from alance import Dataset
    from alance.distributed import ExtensionTask
    from alance.optimize import CompactionTask, RewriteResult
    from alance.spark.jobs.base import OnProgress, Summary
    from alance.spark.options import SelectArguments, SparkWriteOptions
    from alance.types import (
        CleanupArguments,
        CleanupStats,
        CompactionArguments,
        MaintenanceReport,
    )


def compact(
    spark: SparkSession,
    uri: str,
    *,
    storage_options: Mapping[str, str] | None = None,
    max_rounds: int = 3,
    on_progress: OnProgress | None = None,
    **options: Unpack[CompactionArguments],
) -> Summary:
    """Rewrite small fragments, and fragments with many deleted rows, on the executors.

    The driver plans and commits. If another commit changes some of the fragments meanwhile, the
    other rewrites are committed, and the changed fragments are planned again.

    Args:
        max_rounds: maximum number of plans.
        options: arguments of `Dataset.optimize.compact_files`, such as `target_rows_per_fragment`.

    Raises:
        RetryableConflictError: in every round, other commits changed all planned fragments.
    """
    where = place(spark, uri, storage_options)
    removed = added = tasks = dropped = 0
    with Watch(spark, "compact", on_progress) as watch:
        for number in range(max_rounds):
            watch.step = f"round {number + 1}"
            version, todo = run(_plan(where, options))
            if not todo:
                break
            tasks += len(todo)
            results = spread(spark, todo, partial(executed, version))
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
    where: SparkWriteOptions, options: CompactionArguments
) -> tuple[Version, Sequence[CompactionTask]]:
    dataset = await open_version(where)
    return Version.of(dataset, where), (await Compaction.plan(dataset, **options)).tasks


async def _commit(
    where: SparkWriteOptions, results: Sequence[RewriteResult]
) -> tuple[CompactionMetrics, int]:
    """Commit the results whose fragments are unchanged; also return the number of the others."""
    lost: list[RewriteResult] = []
    remaining = list(results)
    while remaining:
        dataset = await open_version(where)
        unchanged = [result for result in remaining if _is_unchanged(dataset, result)]
        lost += [result for result in remaining if result not in unchanged]
        remaining = unchanged
        try:
            await Compaction.commit(dataset, unchanged)
            break
        except RetryableConflictError:
            now = await open_version(where)
            if all(_is_unchanged(now, result) for result in unchanged):
                raise
    for result in lost:
        await remove_data_files(dataset.uri, result.new_fragments, **access(where))
    metrics = sum((result.metrics for result in remaining), CompactionMetrics())
    return metrics, len(lost)


def _is_unchanged(dataset: Dataset, result: RewriteResult) -> bool:
    records = {current.id: current.message for current in fragments_of(dataset)}
    return all(records.get(original.id) == original for original in result.original_fragments)


def maintain(
    spark: SparkSession,
    uri: str,
    *,
    policy: MaintenancePolicy | Mapping[str, str] | None = None,
    dry_run: bool = False,
    storage_options: Mapping[str, str] | None = None,
    on_progress: OnProgress | None = None,
) -> Summary:
    """Do the upkeep that is due, as `Dataset.maintain`, with the large work on the executors.

    The driver takes the lease of the table, plans steps, and commits each. Executors rewrite groups
    of fragments, one task per group, and write new segments of indices, one task per index; all
    indices that are due are extended at once. The driver deletes expired rows and removes versions.

    Args:
        policy: rules and budget; None for those of the table's configuration. A mapping has texts
            of rules by name; they take precedence over the table's rules.
        dry_run: only report which steps are due, and their cost.

    Returns:
        The numbers of steps by outcome (see `alance.types.MaintenanceStep`) and of Spark tasks, and
        a line per step.

    Raises:
        InvalidInputError: the policy in the configuration cannot be parsed, or `ttl_column` is no
            timestamp or date column.
        PythonException: (of Spark) around an error of a task that is no `AlanceError`.
    """
    where = place(spark, uri, storage_options)

    async def work() -> MaintenanceReport:
        dataset = await open_version(where)
        rules = policy
        if isinstance(rules, Mapping):
            rules = MaintenancePolicy.from_config(dataset.config, rules)
        return await maintain_by(dataset, workers, rules, dry_run=dry_run)

    with Watch(spark, "maintain", on_progress) as watch:
        watch.step = "steps that are due"
        executors = Executors(spark, partial(_maintained, where))
        workers = Workers(executors.run_tasks, parallelism_of(spark))
        report = executors.run(work())
        outcomes = Counter(step.outcome.replace(" ", "_") for step in report.steps)
        summary = watch.summary(uri, report.version, **outcomes, tasks=executors.num_tasks)
        return replace(summary, lines=str(report).splitlines())


def _maintained(where: SparkWriteOptions, task: CompactionTask | ExtensionTask) -> object:
    async def execute() -> object:
        return await task.execute(await open_version(where, task.read_version))

    return run(execute())


def cleanup(
    spark: SparkSession,
    uri: str,
    *,
    older_than_hours: float | None = None,
    storage_options: Mapping[str, str] | None = None,
    on_progress: OnProgress | None = None,
    **options: Unpack[CleanupArguments],
) -> Summary:
    """Remove old versions and unneeded files, from the driver.

    The work is listing, and deletion of up to a thousand files per request, which more machines do
    not speed up. Also removes files of failed and retried Spark tasks that are seven days old.

    Args:
        older_than_hours: minimum age of removed versions; None: two weeks.
        options: arguments of `Dataset.cleanup_old_versions`.
    """
    where = place(spark, uri, storage_options)
    if older_than_hours is not None:
        options["older_than"] = timedelta(hours=older_than_hours)

    async def clean() -> tuple[int, CleanupStats]:
        dataset = await open_version(where)
        return dataset.version, await dataset.cleanup_old_versions(**options)

    with Watch(spark, "cleanup", on_progress) as watch:
        version, stats = run(clean())
        counts = {
            name: value
            for name in dir(stats)
            if not name.startswith("_") and isinstance(value := getattr(stats, name), int)
        }
        return watch.summary(uri, version, **counts)


def validate(
    spark: SparkSession,
    uri: str,
    *,
    checks: Mapping[str, str] | None = None,
    nulls: Sequence[str] | None = None,
    unique: Sequence[str] = (),
    files: bool = True,
    storage_options: Mapping[str, str] | None = None,
    on_progress: OnProgress | None = None,
    **options: Unpack[SelectArguments],
) -> Summary:
    """Check one version of a table: its files on the driver, its rows on the executors.

    `counts` of the summary has `rows`; `rows_in_manifest` for comparison; `nulls.<column>`;
    `violations.<name>` of checks and unique columns; and `findings`, the text of the error of
    `Dataset.validate`, or None if it raised none.

    Args:
        checks: conditions in Spark SQL by name, which each row should meet; null counts as a
            violation.
        nulls: columns whose nulls are counted; None: all.
        unique: columns that should have no repeated value.
        files: True to check the files, too.
        options: options of the reader, such as `version`.

    Raises:
        AnalysisException: a check that is not SQL, or an unknown column.
    """
    from pyspark.sql import functions as f

    with Watch(spark, "validate", on_progress) as watch:
        where = place(spark, uri, storage_options)
        pinned = options.get("version") or options.get("tag")
        dataset = run(open_version(where, pinned))
        findings = run(_findings(dataset)) if files else None
        watch.step = "rows"
        options["version"] = dataset.version
        options.pop("tag", None)
        frame = read(spark, uri, storage_options=storage_options, **options)
        counted = list(frame.columns if nulls is None else nulls)
        totals = [f.count(f.lit(1)).alias("rows")]
        totals += [f.count_if(f.isnull(quoted(name))).alias(f"nulls.{name}") for name in counted]
        totals += [
            f.count_if(~f.coalesce(f.expr(text).cast("boolean"), f.lit(False))).alias(
                f"violations.{name}"
            )
            for name, text in (checks or {}).items()
        ]
        row = frame.agg(*totals).collect()[0]
        counts: dict[str, Any] = dict(zip(row.__fields__, row, strict=True))
        counts["rows_in_manifest"] = run(_num_rows(dataset))
        for name in unique:
            groups = frame.groupBy(quoted(name)).count().where("count > 1")
            counts[f"violations.unique {name}"] = groups.count()
        counts["findings"] = findings
        return watch.summary(uri, dataset.version, **counts)


async def _findings(dataset: Dataset) -> str | None:
    try:
        await dataset.validate()
    except CorruptFileError as error:
        return str(error)
    return None


async def _num_rows(dataset: Dataset) -> int:
    return await dataset.count_rows()
