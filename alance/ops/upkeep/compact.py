"""Compaction: plan, execute and commit, or all three in one call.

Tasks and results can be pickled: several processes may execute tasks of one plan, and one of them
commits all results.
"""

from __future__ import annotations

from dataclasses import asdict, astuple, replace
from operator import add
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from alance.base.calls import public
from alance.base.progress import Stage, is_watched
from alance.base.records import dataclass
from alance.errors import AlanceError, InvalidInputError
from alance.format.index.remap import NewFragment, OldFragment, group_of
from alance.format.proto import copied, table_pb2
from alance.format.table.changes.apply_indices import SYSTEM, covered
from alance.format.table.operations import ReserveFragments, Rewrite, RewriteGroup
from alance.io.loop.tasks import each
from alance.ops.blobs.files import remove_blobs
from alance.ops.index.late import catch_up
from alance.ops.index.remap import bound_fragments, move_indices
from alance.ops.index.reuse import ReuseIndex, load_compactions
from alance.ops.upkeep import compact_plan
from alance.ops.upkeep.compact_rewrite import rewrite
from alance.ops.version.commits import PreparedChange, latest, with_retries
from alance.ops.version.opening import at_version
from alance.ops.version.snapshot import Snapshot
from alance.ops.version.summary import ChangeSummary
from alance.versioning.outcome import may_be_visible
from alance.versioning.rules import TableRules

if TYPE_CHECKING:
    from collections.abc import (
        Awaitable,
        Callable,
        Collection,
        Sequence,
    )

    from alance.datasets import Dataset
    from alance.ops.upkeep.compact_plan import CompactionOptions, ResolvedCompactionOptions
    from alance.ops.version.options import CommitOptions

    RunCompactions: TypeAlias = Callable[
        [Sequence["CompactionTask"]], Awaitable[Sequence["RewriteResult"]]
    ]

__all__ = [
    "CompactionMetrics",
    "CompactionPlan",
    "CompactionTask",
    "RewriteResult",
    "carry_out",
    "commit",
    "compact_files",
    "discard",
    "execute",
    "plan",
]

FEW_FRAGMENTS: Final = 64  # planning this many takes less time than a hop to a thread
TASKS_AT_ONCE: Final = 2  # one task reads while the other uploads its last bytes


@public
@dataclass(frozen=True, slots=True)
class CompactionTask:
    """Fragments to be rewritten together. Can be pickled.

    Attributes:
        read_version: version of the fragments.
        fragments: records of the manifest, in order; each is parsed on access.
        options: options of the plan, with all defaults set.
    """

    read_version: int
    fragments: Sequence[table_pb2.DataFragment]
    options: ResolvedCompactionOptions

    async def execute(self, dataset: Dataset) -> RewriteResult:
        """Write the rows of the fragments to new files.

        Cost: a scan of the fragments, and a write of their rows; one GET if the dataset is at
        another version. Memory: the batches read ahead, and the rows of the pages being filled.

        Args:
            dataset: any version of the table.

        Raises:
            NotFoundError: the version has been cleaned up.
            InvalidInputError: `dataset` is of another table.
            CorruptFileError, StoreError: reading or writing failed; all new files are removed.
        """
        return await execute(await at_version(dataset._snapshot, self.read_version), self)


@public
@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """Independent tasks that together compact a table. Can be pickled.

    Attributes:
        read_version: version of the fragments.
        tasks: the tasks, oldest fragments first.
        warnings: fragments that are not rewritten because an index cannot be remapped.
    """

    read_version: int
    tasks: tuple[CompactionTask, ...]
    warnings: tuple[str, ...] = ()

    def num_tasks(self) -> int:
        """Return the number of tasks."""
        return len(self.tasks)


async def plan(snapshot: Snapshot, options: CompactionOptions) -> CompactionPlan:
    """Plan the compaction of a version; oldest fragments first.

    Cost: no request, unless the manifest lacks counts, as for `Dataset.stats`.

    Raises:
        UnsupportedError: this release of alance cannot rewrite the table.
        InvalidInputError: an option in the table's configuration is invalid.
    """
    manifest = snapshot.manifest
    resolved = options.resolved(manifest.config, manifest.data_storage_version)
    compact_plan.check_compactable(snapshot, defers=resolved.defer_index_remap)
    counts = await snapshot.live_counts()
    stored = await snapshot.physical_counts()
    records = manifest.fragments.records
    compactions = await load_compactions(snapshot)
    loses_none = options.uncover_indices or resolved.defer_index_remap
    bound = {} if loses_none else bound_fragments(snapshot)

    def build() -> list[CompactionTask]:
        excluded = frozenset(options.excluded_fragment_ids).union(*bound.values())
        candidates = compact_plan.candidates(
            snapshot, stored, counts, resolved, excluded, compactions
        )
        groups = compact_plan.grouped(candidates, resolved.target_rows_per_fragment)
        return [
            CompactionTask(snapshot.version, records.part(*group), resolved)
            for group in compact_plan.within(groups, candidates, resolved)
        ]

    tasks = await snapshot.engine.pool.run(build, inline=len(records) <= FEW_FRAGMENTS)
    warnings = tuple(
        f"index {name!r} cannot be brought to new addresses by this alance: the {len(ids)} "
        "fragments that it covers stay as they are; uncover_indices=True rewrites them as well"
        for name, ids in sorted(bound.items())
    )
    return CompactionPlan(snapshot.version, tuple(tasks), warnings)


async def execute(snapshot: Snapshot, task: CompactionTask) -> RewriteResult:
    """Execute a task on its version; see `CompactionTask.execute`."""

    def check() -> tuple[table_pb2.DataFragment, ...]:
        originals = tuple(task.fragments)
        for fragment in originals:
            current = snapshot.handle(fragment.id).fragment.message
            if [file.path for file in current.files] != [file.path for file in fragment.files]:
                raise InvalidInputError(
                    f"compaction task: fragment {fragment.id} has other files in version "
                    f"{snapshot.version} of {snapshot.uri!r}; the task is of another dataset"
                )
        return originals

    originals = await snapshot.engine.pool.run(check)
    fragment_ids = [fragment.id for fragment in originals]
    with Stage("compact", await snapshot.watched_rows(fragment_ids), "rows") as stage:
        fragments = await rewrite(snapshot, fragment_ids, task.options, stage)
    return RewriteResult.of(task, originals, fragments)


async def commit(
    snapshot: Snapshot,
    results: Sequence[RewriteResult],
    options: CommitOptions,
    *,
    uncover_indices: bool = False,
    warnings: Sequence[str] = (),
    discard: Callable[[], Awaitable[object]] | None = None,
) -> Snapshot:
    """Replace original fragments by new ones in two commits; the first one reserves ids.

    Without results no version is committed.

    Cost: two commits; a read of the indices that cover the fragments, and PUTs of the same size.

    Args:
        uncover_indices: True to let an index that cannot be read lose the fragments.
        warnings: warnings of the plan, for the summary.
        discard: called if it is certain that no version was committed.

    Raises:
        RetryableConflictError: other commits changed rows of these fragments; plan again.
        CommitConflictError: a newer version rules the rewrite out.
        InvalidInputError: two results for one fragment.
        CorruptFileError, NotFoundError, UnsupportedError: an index that cannot be read.
    """
    metrics = sum((result.metrics for result in results), CompactionMetrics())
    ids = [fragment.id for result in results for fragment in result.original_fragments]
    _check_distinct(ids)
    if not results:
        summary = _summary(metrics, warnings)
        return Snapshot(snapshot.session, snapshot.table, snapshot.manifest, summary)
    defers = any(result.defer_index_remap for result in results)
    compact_plan.check_compactable(snapshot, defers=defers)

    async def attempt(base: Snapshot) -> Snapshot:
        if defers:
            return await _commit_deferred(base, groups, moves, options, _summary(metrics, warnings))
        indices = await move_indices(base, moves, uncover=uncover_indices)
        summary = _summary(metrics, [*warnings, *_losses(base, ids, indices.covering)])
        change = Rewrite(groups, indices.translated)
        return await PreparedChange(
            base, change, options, discard=indices.discard, summary=summary
        ).commit()

    async def rebase(base: Snapshot) -> Snapshot | None:
        newer = await latest(base)
        return newer if _are_there(newer, results) else None

    has_begun = False  # until then no version names the new files, so that they can be removed
    try:
        base = await at_version(snapshot, min(result.read_version for result in results))
        groups = await _reserved(base, results, options)
        moves = await _moves(snapshot, results, groups)
        has_begun = True
        return await with_retries(base, attempt, options.max_retries, rebase=rebase)
    except BaseException as error:
        if discard is not None and not (has_begun and may_be_visible(error)):
            await discard()
        raise


async def _commit_deferred(
    base: Snapshot,
    groups: tuple[RewriteGroup, ...],
    moves: Sequence[tuple[list[OldFragment], list[NewFragment]]],
    options: CommitOptions,
    summary: ChangeSummary,
) -> Snapshot:
    """Commit a rewrite together with a fragment-reuse index of the moved rows."""
    digests = await base.engine.pool.run(lambda: [group_of(old, new) for old, new in moves])
    reuse = ReuseIndex(base, digests)
    return await PreparedChange(
        base,
        Rewrite(groups),
        options,
        rules=TableRules(base.engine, base.table, index_entries=reuse.entries),
        discard=reuse.discard,
        summary=summary,
    ).commit()


def _are_there(snapshot: Snapshot, results: Sequence[RewriteResult]) -> bool:
    """True if a version has the original fragments unchanged, so that only indices can differ."""
    fragments = snapshot.manifest.fragments
    return all(
        fragments.position_of(fragment.id) is not None
        and snapshot.handle(fragment.id).fragment.message == fragment
        for result in results
        for fragment in result.original_fragments
    )


async def _moves(
    snapshot: Snapshot, results: Sequence[RewriteResult], groups: Sequence[RewriteGroup]
) -> list[tuple[list[OldFragment], list[NewFragment]]]:
    """Return the moves of rows from old to new fragments."""
    moves = []
    for result, group in zip(results, groups, strict=True):
        read = await at_version(snapshot, result.read_version)
        handles = await read.handles_of(fragment.id for fragment in result.original_fragments)
        await read.prepare(handles)
        nothing = np.empty(0, np.int64)
        old = [
            OldFragment(
                handle.id,
                handle.num_physical_rows,
                nothing if handle.deleted is None else handle.deleted.rows,
            )
            for handle in handles
        ]
        new = [NewFragment(added.id, added.physical_rows) for added in group.new_fragments]
        moves.append((old, new))
    return moves


async def _reserved(
    base: Snapshot, results: Sequence[RewriteResult], options: CommitOptions
) -> tuple[RewriteGroup, ...]:
    """Reserve ids of new fragments by a commit; return the groups of a rewrite with these ids."""
    count = sum(len(result.new_fragments) for result in results)
    next_id = 0
    if count:
        reserved = await PreparedChange(base, ReserveFragments(count), options).commit()
        next_id = reserved.manifest.head.max_fragment_id - count + 1
    groups = []
    for result in results:
        new = []
        for fragment in result.new_fragments:
            copy = copied(fragment)
            copy.id = next_id
            next_id += 1
            new.append(copy)
        groups.append(RewriteGroup(result.original_fragments, tuple(new)))
    return tuple(groups)


def _check_distinct(ids: list[int]) -> None:
    if len(set(ids)) < len(ids):
        twice = sorted({fragment_id for fragment_id in ids if ids.count(fragment_id) > 1})
        raise InvalidInputError(f"compaction: fragments {twice} are in two results")


def _losses(snapshot: Snapshot, rewritten: Sequence[int], covering: Collection[bytes]) -> list[str]:
    """Return a warning for each index that no longer covers some rewritten fragments."""
    lost: dict[str, set[int]] = {}
    for index in snapshot.manifest.indices:
        stale = (covered(index) or frozenset()) & set(rewritten)
        if stale and index.name not in SYSTEM and index.uuid.uuid not in covering:
            lost.setdefault(index.name, set()).update(stale)
    return [
        f"index {name!r} no longer covers {len(ids)} fragments, which were rewritten: their rows "
        "are found by scanning until the index is built anew"
        for name, ids in sorted(lost.items())
    ]


def _summary(metrics: CompactionMetrics, warnings: Sequence[str]) -> ChangeSummary:
    return ChangeSummary(**asdict(metrics), warnings=list(warnings))


async def compact_files(
    snapshot: Snapshot, options: CompactionOptions, commit_options: CommitOptions
) -> Snapshot:
    """Plan, execute and commit a compaction. After a failure all new files are removed."""
    manifest = snapshot.manifest
    resolved = options.resolved(manifest.config, manifest.data_storage_version)
    if not resolved.defer_index_remap:
        snapshot = await catch_up(snapshot, commit_options)
    return await carry_out(snapshot, await plan(snapshot, options), options, commit_options)


async def carry_out(
    snapshot: Snapshot,
    todo: CompactionPlan,
    options: CompactionOptions,
    commit_options: CommitOptions,
    run_tasks: RunCompactions | None = None,
) -> Snapshot:
    """Execute a plan of a version, and commit. On failure the new files are removed.

    Args:
        run_tasks: runs the tasks elsewhere, and returns their results in order; if it fails, a
            cleanup removes the files of the tasks that succeeded. None: the tasks run here.
    """
    at_once = min(options.num_threads or TASKS_AT_ONCE, max(1, len(todo.tasks)))
    done: list[RewriteResult] = []

    async def run(task: CompactionTask) -> RewriteResult:
        resolved = shared(task.options, at_once, snapshot.read_ahead_bytes)
        originals = await snapshot.engine.pool.run(lambda: tuple(task.fragments))
        fragments = await rewrite(snapshot, [old.id for old in originals], resolved, stage)
        done.append(RewriteResult.of(task, originals, fragments))
        return done[-1]

    async def forget() -> None:
        await discard(snapshot, done)

    num_rows = None
    if run_tasks is None and is_watched():
        num_rows = await snapshot.watched_rows(
            [old.id for task in todo.tasks for old in task.fragments]
        )
    try:
        if run_tasks is None:
            with Stage("compact", num_rows, "rows") as stage:
                results = await each(run, todo.tasks, at_once=at_once)
        else:
            done += await run_tasks(todo.tasks)
            results = done
    except BaseException:
        await forget()
        raise
    return await commit(
        snapshot,
        results,
        commit_options,
        uncover_indices=options.uncover_indices,
        warnings=todo.warnings,
        discard=forget,
    )


@dataclass(frozen=True, slots=True)
class CompactionMetrics:
    """Counts of fragments and files (with deletion files) that a rewrite removes and adds.

    Each field is a key of the summary.
    """

    fragments_removed: int = 0
    fragments_added: int = 0
    files_removed: int = 0
    files_added: int = 0

    @classmethod
    def of(
        cls, old: Sequence[table_pb2.DataFragment], new: Sequence[table_pb2.DataFragment]
    ) -> CompactionMetrics:
        """Count the files of fragments before and after a rewrite.

        Args:
            old: fragments before.
            new: fragments after.
        """
        removed = sum(len(fragment.files) + fragment.HasField("deletion_file") for fragment in old)
        return cls(len(old), len(new), removed, sum(len(fragment.files) for fragment in new))

    def __add__(self, other: CompactionMetrics) -> CompactionMetrics:
        return CompactionMetrics(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class RewriteResult:
    """Uncommitted result of a compaction task. Can be pickled.

    Attributes:
        read_version: version of the original fragments.
        original_fragments: records of the fragments in the manifest.
        new_fragments: fragments with the same rows; the commit assigns their ids.
        defer_index_remap: True if the remap of indices is deferred.
    """

    read_version: int
    original_fragments: tuple[table_pb2.DataFragment, ...]
    new_fragments: tuple[table_pb2.DataFragment, ...]
    defer_index_remap: bool = False

    @classmethod
    def of(
        cls,
        task: CompactionTask,
        originals: tuple[table_pb2.DataFragment, ...],
        new: Sequence[table_pb2.DataFragment],
    ) -> RewriteResult:
        """Return the result of a task.

        Args:
            task: task that was executed.
            originals: fragments before the compaction.
            new: fragments after the compaction.
        """
        return cls(task.read_version, originals, tuple(new), task.options.defer_index_remap)

    @property
    def metrics(self) -> CompactionMetrics:
        """Counts of fragments and files that the result removes and adds."""
        return CompactionMetrics.of(self.original_fragments, self.new_fragments)


async def discard(snapshot: Snapshot, results: Sequence[RewriteResult]) -> None:
    """Remove the files of results that will not be committed."""
    await snapshot.engine.background.discard(_discard(snapshot, results), snapshot.table.store)


async def _discard(snapshot: Snapshot, results: Sequence[RewriteResult]) -> None:
    table = snapshot.table
    has_blobs = any(below.is_blob_v2 for below in snapshot.schema.walk())
    for result in results:
        for fragment in result.new_fragments:
            places = [table.new_data_file(file.path) for file in fragment.files]
            try:
                for location in places:
                    store, path = snapshot.engine.registry.resolve(location)
                    await store.delete([path])
                    if has_blobs:
                        await remove_blobs(snapshot.engine, location)
            except AlanceError:
                return  # the files are orphans, which a cleanup removes


def shared(
    options: ResolvedCompactionOptions, at_once: int, budget_bytes: int
) -> ResolvedCompactionOptions:
    """Return the options for one of several concurrent tasks, which share the read-ahead."""
    if options.io_buffer_bytes is not None or at_once == 1:
        return options
    return replace(options, io_buffer_bytes=max(1 << 20, budget_bytes // at_once))
