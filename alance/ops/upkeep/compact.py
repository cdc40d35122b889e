"""Compaction: plan, execute, commit; or all three at once.

Tasks and results can be pickled: tasks of one plan may be executed by several processes, and one
of them commits all results.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from alance.errors import InvalidInputError
from alance.format.proto import table_pb2
from alance.format.table.apply_indices import SYSTEM, covered
from alance.format.table.operations import Rewrite, RewriteGroup
from alance.format.table.operations_meta import ReserveFragments
from alance.io.tasks import all_of
from alance.ops.upkeep import compact_plan
from alance.ops.upkeep.compact_results import CompactionMetrics, RewriteResult, discard
from alance.ops.upkeep.rewrite import rewrite, shared
from alance.ops.version.commits import commit_change
from alance.ops.version.opening import at_version
from alance.ops.version.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from alance.datasets import Dataset
    from alance.ops.upkeep.compact_plan import CompactionOptions
    from alance.ops.upkeep.compact_plan import Resolved as ResolvedCompactionOptions
    from alance.ops.version.commit_options import CommitOptions

__all__ = [
    "CompactionMetrics",
    "CompactionPlan",
    "CompactionTask",
    "RewriteResult",
    "commit",
    "compact_files",
    "discard",
    "execute",
    "plan",
]

TASKS_AT_ONCE: Final = 2  # one reads while the other one's last bytes are under way


@dataclass(frozen=True, slots=True)
class CompactionTask:
    """Fragments to be rewritten together. Can be pickled.

    Attributes:
        read_version: the version that they are in.
        fragments: as the manifest has them, in order.
        options: those of the plan, decided.
    """

    read_version: int
    fragments: tuple[table_pb2.DataFragment, ...]
    options: ResolvedCompactionOptions

    async def execute(self, dataset: Dataset) -> RewriteResult:
        """Write the rows of the fragments to new files.

        Cost: a scan of the fragments, and writing their rows; one GET where the dataset
        is at another version. Memory: what is read ahead, and what fills the next pages.

        Args:
            dataset: any version of the table that the plan is of.

        Raises:
            NotFoundError: the version has been cleaned up.
            InvalidInputError: the dataset is another one.
            CorruptFileError, StoreError: reading or writing failed; no new file stays.
        """
        return await execute(await at_version(dataset._snapshot, self.read_version), self)


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """What is to be rewritten; each task can be done by itself. Can be pickled."""

    read_version: int
    tasks: tuple[CompactionTask, ...]

    def num_tasks(self) -> int:
        """How many tasks there are."""
        return len(self.tasks)


async def plan(snapshot: Snapshot, options: CompactionOptions) -> CompactionPlan:
    """The tasks that compaction of a version consists of; oldest fragments first.

    Cost: nothing, where the manifest tells how many rows are deleted.

    Raises:
        UnsupportedError: a table that this alance cannot rewrite.
        InvalidInputError: an option of the table's configuration that has no such value.
    """
    manifest = snapshot.manifest
    resolved = options.resolved(manifest.config, manifest.data_storage_version)
    compact_plan.check_compactable(snapshot)
    counts = await snapshot.live_counts()

    def build() -> list[CompactionTask]:
        excluded = options.excluded_fragment_ids
        runs = compact_plan.candidates(snapshot, counts.tolist(), resolved, excluded)
        groups = compact_plan.grouped(runs, resolved.target_rows_per_fragment)
        return [
            CompactionTask(
                snapshot.version,
                tuple(snapshot.handle(one.id).fragment.message for one in group),
                resolved,
            )
            for group in compact_plan.within(groups, resolved)
        ]

    tasks = await snapshot.engine.pool.run(build)
    return CompactionPlan(snapshot.version, tuple(tasks))


async def execute(snapshot: Snapshot, task: CompactionTask) -> RewriteResult:
    """Do a task on the version that it is of; see `CompactionTask.execute`."""

    def check() -> list[int]:
        for one in task.fragments:
            known = snapshot.handle(one.id).fragment.message
            if [file.path for file in known.files] != [file.path for file in one.files]:
                raise InvalidInputError(
                    f"compaction task: fragment {one.id} has other files in version "
                    f"{snapshot.version} of {snapshot.uri!r}; the task is of another dataset"
                )
        return [one.id for one in task.fragments]

    fragment_ids = await snapshot.engine.pool.run(check)
    made = await rewrite(snapshot, fragment_ids, task.options)
    return RewriteResult(task.read_version, task.fragments, tuple(made))


async def commit(
    snapshot: Snapshot,
    results: Sequence[RewriteResult],
    options: CommitOptions,
    *,
    discard: Callable[[], Awaitable[object]] | None = None,
) -> Snapshot:
    """Put new fragments in the place of those that they were made from: two versions, of which
    the first one reserves the fragments' ids. Without results the version stays.

    Cost: two commits.

    Args:
        discard: called where the version was not made, for certain.

    Raises:
        RetryableConflictError: others changed rows of these fragments; plan anew.
        CommitConflictError: a newer version rules the rewrite out.
        InvalidInputError: two results for one fragment.
    """
    metrics = sum((one.metrics for one in results), CompactionMetrics())
    ids = [one.id for result in results for one in result.original_fragments]
    if len(set(ids)) < len(ids):
        twice = sorted({one for one in ids if ids.count(one) > 1})
        raise InvalidInputError(f"compaction: fragments {twice} are in two results")
    if not results:
        return Snapshot(
            snapshot.session, snapshot.table, snapshot.manifest, _summary(snapshot, metrics, [])
        )
    try:
        base = await at_version(snapshot, min(one.read_version for one in results))
        groups = await _reserved(base, results, options)
    except BaseException:
        if discard is not None:
            await discard()
        raise
    summary = _summary(base, metrics, ids)
    return await commit_change(base, Rewrite(groups), options, discard=discard, summary=summary)


async def _reserved(
    base: Snapshot, results: Sequence[RewriteResult], options: CommitOptions
) -> tuple[RewriteGroup, ...]:
    """The groups of a rewrite, the new fragments with ids that nobody else will use."""
    count = sum(len(one.new_fragments) for one in results)
    next_id = 0
    if count:
        reserved = await commit_change(base, ReserveFragments(count), options)
        next_id = reserved.manifest.head.max_fragment_id - count + 1
    groups = []
    for result in results:
        new = []
        for one in result.new_fragments:
            made = table_pb2.DataFragment()
            made.CopyFrom(one)
            made.id = next_id
            next_id += 1
            new.append(made)
        groups.append(RewriteGroup(result.original_fragments, tuple(new)))
    return tuple(groups)


def _summary(
    snapshot: Snapshot, metrics: CompactionMetrics, rewritten: Sequence[int]
) -> Mapping[str, Any]:
    """Counts, and a warning for each index that no longer covers rows that it covered."""
    lost: dict[str, set[int]] = {}
    for index in snapshot.manifest.indices:
        stale = (covered(index) or frozenset()) & set(rewritten)
        if stale and index.name not in SYSTEM:
            lost.setdefault(index.name, set()).update(stale)
    warnings = [
        f"index {name!r} no longer covers {len(ids)} fragments, which were rewritten: their rows "
        "are found by scanning until the index is built anew"
        for name, ids in sorted(lost.items())
    ]
    return {
        "fragments_removed": metrics.fragments_removed,
        "fragments_added": metrics.fragments_added,
        "files_removed": metrics.files_removed,
        "files_added": metrics.files_added,
        "warnings": warnings,
    }


async def compact_files(
    snapshot: Snapshot, options: CompactionOptions, commit_options: CommitOptions
) -> Snapshot:
    """Plan, execute and commit. Where no version comes of it, no file stays."""
    todo = await plan(snapshot, options)
    at_once = min(options.num_threads or TASKS_AT_ONCE, max(1, len(todo.tasks)))
    limit = asyncio.Semaphore(at_once)
    done: list[RewriteResult] = []

    async def run(task: CompactionTask) -> RewriteResult:
        async with limit:
            resolved = shared(task.options, at_once, snapshot.read_ahead_bytes)
            ids = [one.id for one in task.fragments]
            made = await rewrite(snapshot, ids, resolved)
            result = RewriteResult(task.read_version, task.fragments, tuple(made))
            done.append(result)
            return result

    async def forget() -> None:
        await discard(snapshot, done)

    try:
        results = await all_of(run(task) for task in todo.tasks)
    except BaseException:
        await forget()
        raise
    return await commit(snapshot, results, commit_options, discard=forget)
