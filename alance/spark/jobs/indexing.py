"""Job `build_index`: executors sort and merge a column's values; the driver commits."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from alance import IndexBuild, RetryableConflictError
from alance.distributed import fragments_of
from alance.indexing import MAX_TASKS, RANGE_BYTES, TASK_BYTES
from alance.spark.jobs.base import Watch, executed, place, spread
from alance.spark.versions import Version, open_version
from alance.spark.worker import run

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from typing import Any

    from pyspark.sql import SparkSession

    from alance import Dataset
    from alance.indexing import (
        IndexPages,
        IndexPart,
        IndexPlan,
        IndexRange,
        IndexSegment,
    )
    from alance.spark.jobs.base import OnProgress, Summary
    from alance.spark.options import SparkWriteOptions
    from alance.types import (
        Metric,
        ScalarIndexKind,
        TextIndexArguments,
        TextIndexKind,
        ValueIndexArguments,
        VectorIndexArguments,
        VectorIndexKind,
    )

SORT_BYTES: Final = 128 << 20
INDEX_MERGE_BYTES: Final = 256 << 20


def build_index(
    spark: SparkSession,
    uri: str,
    column: str,
    index_type: VectorIndexKind | ScalarIndexKind | TextIndexKind = "BTREE",
    name: str | None = None,
    *,
    replace: bool = True,
    task_bytes: int = TASK_BYTES,
    max_tasks: int = MAX_TASKS,
    sort_bytes: int = SORT_BYTES,
    merge_bytes: int = INDEX_MERGE_BYTES,
    range_bytes: int = RANGE_BYTES,
    max_rounds: int = 5,
    metric: Metric = "l2",
    vectors: VectorIndexArguments | None = None,
    texts: TextIndexArguments | None = None,
    values: ValueIndexArguments | None = None,
    storage_options: Mapping[str, str] | None = None,
    on_progress: OnProgress | None = None,
) -> Summary:
    """Build an index of a column over all rows of the latest version.

    1. Each task writes a sorted file into a folder that no version names; for texts it writes
    finished partitions.
    2. Further tasks each merge a range of values: for a B-tree into pages, for a bitmap index into
    one row set per value. For vectors with graphs, each task links a range of partitions.
    3. A last task merges the rest as a stream: codes and graphs of vectors, small indices, the
    single file of a bitmap index's row sets, the page table of a B-tree.
    4. The driver makes one commit.

    For vectors, the driver first trains centroids on a sample of the rows. If another commit
    rewrites fragments meanwhile, these are read again, and all parts are merged again.

    Args:
        index_type: as for `Dataset.create_index`.
        name: default: `{column}_idx`.
        replace: True to replace an index of that name on that column; False to raise an error.
        task_bytes: approximate bytes of values and row numbers per task.
        max_tasks: maximum number of tasks; if needed, tasks become larger.
        sort_bytes: bytes that a task sorts in memory; more spill to the executor's local disk.
        merge_bytes: approximate memory of a merge, at least 512 KiB per task.
        range_bytes: approximate bytes of sorted values that are merged together.
        max_rounds: maximum number of rounds; a round fails if another commit was first.
        metric, vectors: for a vector index, as for `IndexBuild.plan`.
        texts: options of an inverted index. A partition is written when it takes `sort_bytes` of
            memory, or the `memory_bytes` of these options.
        values: options of an index of values, as for `Dataset.create_scalar_index`.

    Raises:
        InvalidInputError: an unknown column, values without an order, or options that do not fit
            the vectors.
        AlreadyExistsError: the name is in use.
        RetryableConflictError: other commits were first in every round.
        PythonException: (of Spark) around an error of a task.
    """
    planning = partial(
        IndexBuild.plan,
        column=column,
        index_type=index_type,
        name=name,
        replace=replace,
        task_bytes=task_bytes,
        max_tasks=max_tasks,
        memory_bytes=sort_bytes,
        metric=metric,
        vectors=vectors,
        texts=texts,
        values=values,
    )
    with Watch(spark, "build_index", on_progress) as watch:
        build = _Build(spark, place(spark, uri, storage_options), watch)
        while True:
            try:
                version, segment = build.run_round(planning, range_bytes, merge_bytes)
                break
            except RetryableConflictError:
                if build.rounds >= max_rounds:
                    run(IndexBuild.discard(build.dataset, build.parts))
                    raise
        return watch.summary(
            uri,
            version,
            rows=sum(part.num_rows for part in build.parts),
            fragments=len(fragments_of(build.dataset)),
            tasks=build.tasks,
            rounds=build.rounds,
            sorted_bytes=sum(part.num_bytes for part in build.parts),
            index_bytes=sum(file.size_bytes for file in segment.record.files),
        )


@dataclass(slots=True)
class _Build:
    """The rounds of a build. A round reuses the parts of earlier rounds that are still valid."""

    spark: SparkSession
    where: SparkWriteOptions
    watch: Watch
    parts: list[IndexPart] = field(default_factory=list)
    tasks: int = 0
    rounds: int = 0
    dataset: Dataset = field(init=False)

    def run_round(
        self,
        planning: Callable[..., Coroutine[Any, Any, IndexPlan]],
        range_bytes: int,
        merge_bytes: int,
    ) -> tuple[int, IndexSegment]:
        """Sort, merge and commit. Returns the number of the new version, and the index's files.

        Raises:
            RetryableConflictError: another commit was first.
        """
        spark, watch = self.spark, self.watch
        dataset = self.dataset = run(open_version(self.where))
        plan = run(planning(dataset, done=self.parts))
        self.rounds, self.tasks = self.rounds + 1, self.tasks + plan.num_tasks()
        watch.step = f"round {self.rounds}: {plan.num_tasks()} tasks"
        stale = [part for part in self.parts if part not in plan.parts]
        version = Version.of(dataset, self.where)
        sorted_parts = spread(spark, plan.tasks, partial(executed, version))
        run(IndexBuild.discard(dataset, stale))
        self.parts = [*plan.parts, *sorted_parts]
        planning_ranges = IndexBuild.ranges(
            dataset, plan, sorted_parts, range_bytes=range_bytes, memory_bytes=merge_bytes
        )
        ranges = run(planning_ranges)
        watch.step = f"merge: {len(ranges)} ranges"
        pages = spread(spark, ranges, partial(_merged, version))
        self.tasks += len(pages)
        watch.step = "merge: to the files of the index"
        last = partial(_finished, self.where, plan, sorted_parts, merge_bytes)
        (segment,) = spread(spark, [pages], last)
        self.tasks += 1
        watch.step = "commit"
        return run(IndexBuild.commit(dataset, plan, segment)).version, segment


def _merged(version: Version, part: IndexRange) -> IndexPages:
    async def merge() -> IndexPages:
        return await part.execute(version.dataset())

    return run(merge())


def _finished(
    where: SparkWriteOptions,
    plan: IndexPlan,
    parts: Sequence[IndexPart],
    memory: int,
    pages: Sequence[IndexPages],
) -> IndexSegment:
    """Write the final files of the index. Files of a killed attempt remain until a cleanup."""

    async def finish() -> IndexSegment:
        dataset = await open_version(where, plan.read_version)
        return await IndexBuild.merge(dataset, plan, parts, pages, memory_bytes=memory)

    return run(finish())
