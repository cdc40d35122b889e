"""Upkeep of a table's files: compaction, at once or in parts that several processes share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final

from alance.deferred import Deferred, lazy
from alance.errors import InvalidInputError
from alance.ops.version.options import CommitOptions
from alance.versioning.backoff import MAX_RETRIES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from types import TracebackType
    from typing import Self, Unpack

    from alance.datasets import Dataset
    from alance.ops.cleanup import after as cleanup_after
    from alance.ops.cleanup import policy as cleanup_policy
    from alance.ops.cleanup.policy import AutoCleanupConfig, parse_duration
    from alance.ops.index import extend as index_extend
    from alance.ops.upkeep import auto_compact, compact, compact_plan
    from alance.ops.upkeep.auto_compact import AutoCompactionMetrics, Compactor
    from alance.ops.upkeep.background import UpkeepTask
    from alance.ops.upkeep.compact import (
        CompactionMetrics,
        CompactionPlan,
        CompactionTask,
        RewriteResult,
    )
    from alance.ops.upkeep.compact_plan import CompactionArguments, CompactionOptions
    from alance.ops.version.options import CommitArguments
else:
    auto_compact = Deferred("alance.ops.upkeep.auto_compact")
    cleanup_after = Deferred("alance.ops.cleanup.after")
    cleanup_policy = Deferred("alance.ops.cleanup.policy")
    compact = Deferred("alance.ops.upkeep.compact")
    compact_plan = Deferred("alance.ops.upkeep.compact_plan")
    index_extend = Deferred("alance.ops.index.extend")

__all__ = [
    "AutoCompaction",
    "AutoCompactionMetrics",
    "Compaction",
    "CompactionMetrics",
    "CompactionOptions",
    "CompactionPlan",
    "CompactionTask",
    "Optimize",
    "RewriteResult",
    "parse_duration",
]

_PLACES: Final = {
    "AutoCompactionMetrics": "alance.ops.upkeep.auto_compact",
    "CompactionMetrics": "alance.ops.upkeep.compact",
    "CompactionOptions": "alance.ops.upkeep.compact_plan",
    "CompactionPlan": "alance.ops.upkeep.compact",
    "CompactionTask": "alance.ops.upkeep.compact",
    "RewriteResult": "alance.ops.upkeep.compact",
    "parse_duration": "alance.ops.cleanup.policy",
}

if not TYPE_CHECKING:  # else any name would check
    __getattr__, __dir__ = lazy(__name__, _PLACES)


class Optimize:
    """Upkeep of a dataset's files and indices; see `Dataset.optimize`."""

    __slots__ = ("_dataset",)

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    async def compact_files(
        self,
        *,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = MAX_RETRIES,
        **options: Unpack[CompactionArguments],
    ) -> Dataset:
        """Rewrite small fragments, and fragments with many deleted rows, into larger fragments.

        Rows keep their order, their versions, and their row ids if these are stable. Deleted rows
        and dropped columns are removed from the new files. Two versions are made, or none if there
        is nothing to do. Indices follow the rows to their new addresses, or later with
        `defer_index_remap`. The fragments of an index that cannot follow stay as they are, unless
        `uncover_indices`; `summary["warnings"]` then names the index. The other keys of `summary`
        are `fragments_removed`, `fragments_added`, `files_removed`, `files_added`. Others may
        append meanwhile.

        Cost: a scan of the fragments, many at a time; the writing of their rows; two commits;
        reading and writing the segments of indices that cover them, without `defer_index_remap`.
        Memory: for each concurrent task, the batches read ahead and the rows of the next pages; 24
        bytes per row with stable row ids, 8 bytes per deleted row.

        Example:

            dataset = await dataset.insert({"id": [100], "price": [10.0]})
            dataset = await dataset.optimize.compact_files()
            assert len(dataset.fragments) == 1

        Args:
            properties: recorded in the transaction.
            message: a commit message, recorded in the transaction.
            max_retries: attempts after the first, if others committed first.
            options: see `CompactionOptions`.

        Raises:
            RetryableConflictError: others deleted or changed rows of these fragments; no file of
                the attempt stays.
            UnsupportedError: files of a version that alance does not write; an index that has to
                be rewritten after `defer_index_remap` (see `optimize_indices`), of a kind that
                alance does not write; `defer_index_remap` on a table with stable row ids.
            InvalidInputError: an option out of its range.
            CorruptFileError, NotFoundError: an index that cannot be read, without
                `uncover_indices`.
        """
        await self._dataset._load(compact, compact_plan)
        after = await compact.compact_files(
            self._dataset._snapshot,
            compact_plan.CompactionOptions(**options),
            CommitOptions(properties, message, max_retries),
        )
        return self._dataset._on(after)

    def auto_compact(
        self,
        *,
        min_fragments: int = 32,
        interval: float = 60.0,
        **options: Unpack[CompactionArguments],
    ) -> AutoCompaction:
        """Return a block during which the table is compacted in the background, for tables with
        many small commits.

            async with dataset.optimize.auto_compact(interval=300):
                await serve()

        A task looks for new versions at intervals. It joins the longest run of fragments at the end
        of the table in which all fragments together have four times the rows of the largest one, so
        that rows are rewritten only into a fragment that is four times larger (with a smaller
        `min_fragments`, so many times). Appends are never disturbed. A delete or
        update of rows that are being joined wins over the compaction; if the compaction committed
        first, the delete or update runs again, as beside any other writer.

        Failures are logged, counted in `metrics`, and tried again later. At the end of the block
        the task looks a last time. If the block ends with an error, or is cancelled, a running
        compaction is dropped, and none of its files stays.

        Old versions keep the small files until a cleanup. Fragments that an index covers are joined
        only with others that it covers.

        Cost: a LIST per `interval`; a GET for a new version; compactions as by `compact_files`.

        Args:
            min_fragments: compact as soon as so many fragments can be joined; an integer of 2 or
                more.
            interval: seconds between looks.
            options: see `CompactionOptions`.

        Raises:
            InvalidInputError: an option out of its range; raised when the block begins.
        """
        return AutoCompaction(self._dataset, min_fragments, interval, options)

    async def enable_auto_cleanup(
        self, auto_cleanup_config: AutoCleanupConfig, **commit: Unpack[CommitArguments]
    ) -> Dataset:
        """Configure cleanup after commits, which all writers of the table do from then on.

        Cost: a commit.

        Args:
            auto_cleanup_config: `interval`, with `older_than_seconds`, `retain_versions` or both.
                It replaces all earlier settings of `lance.auto_cleanup`. See docs/upkeep.md.
            commit: see `alance.types.CommitArguments`.

        Raises:
            InvalidInputError: an unknown key; a value that is not an integer or too small; no
                `interval`; or neither of the other two.
            CommitConflictError: another commit has changed one of the settings.
        """
        await self._dataset._load(cleanup_policy)
        keys = dict.fromkeys(self._auto_cleanup_keys())
        values = keys | cleanup_policy.configured(auto_cleanup_config)
        return await self._dataset.update_config(values, **commit)

    async def disable_auto_cleanup(self, **commit: Unpack[CommitArguments]) -> Dataset:
        """Remove the settings of `enable_auto_cleanup`.

        Cost: a commit; without such settings no request, and no version is made.

        Args:
            commit: see `alance.types.CommitArguments`.

        Raises:
            CommitConflictError: another commit has changed one of the settings.
        """
        await self._dataset._load(cleanup_after)
        keys = self._auto_cleanup_keys()
        if not keys:
            return self._dataset
        return await self._dataset.update_config(dict.fromkeys(keys), **commit)

    def _auto_cleanup_keys(self) -> list[str]:
        return [key for key in self._dataset.config if key.startswith(cleanup_after.AUTO)]

    async def optimize_indices(
        self,
        *,
        num_indices_to_merge: int | None = None,
        index_names: Collection[str] | None = None,
        retrain: bool = False,
        **commit: Unpack[CommitArguments],
    ) -> Dataset:
        """Extend indices to all fragments; indices of kinds that alance does not write stay.

        A new segment replaces the latest segment of each index. It covers the fragments of the
        latest segment and the fragments that were not covered. If all fragments were covered, no
        version is made.

        - B-trees and bitmap indices: the files of the latest segment are merged with the rows that
          were not covered. Small segments are built again from the column, as are other scalar
          indices, indices of JSON values, and indices of tables with stable row ids.
        - Vector indices: the new segment replaces the latest segments that are not larger than
          those after them, so that an index has few segments, and a row is rewritten a few times at
          most. Codes are reused, and only vectors that were not covered are read. If partitions
          would grow to more than four times the rows for which centroids were computed, centroids
          and codes are computed again, and all vectors of the segment are read.

        `summary` has `segments_added`, the number of new segments, and `warnings`.

        If the table was compacted with `defer_index_remap`, all indices are first rewritten with
        the new addresses of their rows, even those that `index_names` lacks. This makes a version
        of its own.

        Cost: a scan of each indexed column in the fragments of the new segment; if files are
        merged, only in the fragments that were not covered, and a read of the files; the new files'
        PUTs; one commit.

        Example:

            dataset = await dataset.create_scalar_index("id", "BTREE")
            dataset = await dataset.insert({"id": [100], "price": [10.0]})
            dataset = await dataset.optimize.optimize_indices()
            assert (await dataset.index_statistics("id_idx"))["num_unindexed_rows"] == 0

        Args:
            num_indices_to_merge: number of latest segments that the new segment replaces; 0: it
                covers only fragments that were not covered, and replaces none. None: as above.
            index_names: extend only these indices; None: all.
            retrain: replace all segments by one new segment of all fragments.
            commit: see `alance.types.CommitArguments`.

        Raises:
            NotFoundError: no such index.
            InvalidInputError: a negative number of segments.
            UnsupportedError: an index has to be rewritten after `defer_index_remap`, and alance
                does not write its kind.
            CorruptFileError: a segment that cannot be read; `retrain` does not read segments.
            RetryableConflictError: others rewrote the fragments at every attempt.
        """
        await self._dataset._load(index_extend)
        after = await index_extend.optimize_indices(
            self._dataset._snapshot,
            num_indices_to_merge=num_indices_to_merge,
            index_names=index_names,
            retrain=retrain,
            options=CommitOptions(**commit),
        )
        return self._dataset._on(after)


class UpkeepBlock(ABC):
    """Upkeep of a dataset in the background, within an `async with` block."""

    __slots__ = ("_dataset", "_task")
    _NAME: ClassVar[str]  # for messages

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._task: UpkeepTask | None = None

    @abstractmethod
    async def _begin(self) -> UpkeepTask:
        """Return the task of the block."""

    @property
    def dataset(self) -> Dataset:
        """Dataset of the last version that was seen or made."""
        return self._dataset if self._task is None else self._dataset._on(self._task.last)

    async def __aenter__(self) -> Self:
        if self._task is not None:
            raise InvalidInputError(f"{self._dataset.uri!r}: {self._NAME} has one block")
        self._task = await self._begin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._task is not None
        if error is None:
            await self._task.close()
        else:
            await self._task.abort()


class AutoCompaction(UpkeepBlock):
    """Compaction in the background, within an `async with` block; see `Optimize.auto_compact`."""

    __slots__ = ("_interval", "_min_fragments", "_options")
    _NAME = "a background compaction"

    def __init__(
        self, dataset: Dataset, min_fragments: int, interval: float, options: CompactionArguments
    ) -> None:
        super().__init__(dataset)
        self._min_fragments = min_fragments
        self._interval = interval
        self._options = options

    @property
    def metrics(self) -> AutoCompactionMetrics | None:
        """Counters of the compactions so far. None before the block has begun."""
        return None if self._task is None else self._task.metrics

    async def _begin(self) -> Compactor:
        await self._dataset._load(auto_compact, compact_plan)
        return auto_compact.Compactor(
            self._dataset._snapshot,
            compact_plan.CompactionOptions(**self._options),
            self._min_fragments,
            self._interval,
        )


class Compaction:
    """Compaction in parts: one process plans, any number execute tasks, one commits.

        plan = await Compaction.plan(dataset, target_rows_per_fragment=1_000_000)
        results = [await task.execute(dataset) for task in plan.tasks]
        dataset = await Compaction.commit(dataset, results)

    Tasks and results can be pickled. Results that are never committed leave files that a cleanup
    removes.
    """

    __slots__ = ()

    @classmethod
    async def plan(cls, dataset: Dataset, **options: Unpack[CompactionArguments]) -> CompactionPlan:
        """Plan which fragments to rewrite together.

        Cost: no request if the manifest records how many rows are deleted; else a GET for each
        deletion file of unknown count.

        Args:
            dataset: the version.
            options: the fields of `CompactionOptions`.

        Raises:
            InvalidInputError: an option out of its range.
            UnsupportedError: files of a version that alance does not write, or a fragment-reuse
                index, without `defer_index_remap`.
        """
        await dataset._load(compact, compact_plan)
        return await compact.plan(dataset._snapshot, compact_plan.CompactionOptions(**options))

    @classmethod
    async def execute(cls, dataset: Dataset, **options: Unpack[CompactionArguments]) -> Dataset:
        """Plan, execute and commit at once.

        Cost: as `Optimize.compact_files`.

        Args:
            dataset: the version.
            options: the fields of `CompactionOptions`.

        Raises:
            RetryableConflictError, UnsupportedError, InvalidInputError: as from
                `Optimize.compact_files`.
            CorruptFileError, NotFoundError: as from `Optimize.compact_files`.
        """
        await dataset._load(compact, compact_plan)
        after = await compact.compact_files(
            dataset._snapshot, compact_plan.CompactionOptions(**options), CommitOptions()
        )
        return dataset._on(after)

    @classmethod
    async def commit(
        cls,
        dataset: Dataset,
        results: Sequence[RewriteResult],
        *,
        uncover_indices: bool = False,
        **commit: Unpack[CommitArguments],
    ) -> Dataset:
        """Replace fragments by the rewritten fragments of some or all results.

        Indices follow, or follow later if the plan had `defer_index_remap`.

        Cost: two commits; reading and writing the segments of indices that cover the fragments.

        Args:
            dataset: any version of the table.
            results: results of tasks.
            uncover_indices: an index that cannot be read loses these fragments; False: raise an
                error.
            commit: see `alance.types.CommitArguments`.

        Raises:
            RetryableConflictError: others deleted or changed rows of these fragments. The new files
                stay: the other results can still be committed.
            CommitConflictError: a newer version rules the rewrite out.
            InvalidInputError: two results for one fragment.
            CorruptFileError, NotFoundError, UnsupportedError: an index that cannot be read.
        """
        await dataset._load(compact)
        snapshot = await compact.commit(
            dataset._snapshot, results, CommitOptions(**commit), uncover_indices=uncover_indices
        )
        return dataset._on(snapshot)
