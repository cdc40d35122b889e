"""Upkeep of a table's files: compaction in one call, or by several processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final

from alance.base.calls import public
from alance.base.deferred import Deferred, lazy
from alance.base.hints import Uncalled
from alance.base.progress import Reporting
from alance.errors import InvalidInputError
from alance.ops.version.options import CommitOptions
from alance.versioning.backoff import MAX_RETRIES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Self, Unpack

    from alance.base.progress import OnProgress
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

_OPTIMIZE_PLACES: Final = {
    "AutoCompactionMetrics": "alance.ops.upkeep.auto_compact",
    "CompactionMetrics": "alance.ops.upkeep.compact",
    "CompactionOptions": "alance.ops.upkeep.compact_plan",
    "CompactionPlan": "alance.ops.upkeep.compact",
    "CompactionTask": "alance.ops.upkeep.compact",
    "RewriteResult": "alance.ops.upkeep.compact",
    "parse_duration": "alance.ops.cleanup.policy",
}

if not TYPE_CHECKING:  # otherwise any name would type-check
    __getattr__, __dir__ = lazy(__name__, _OPTIMIZE_PLACES)


@public
class Optimize(Uncalled):
    """Upkeep of a dataset's files and indices; see `Dataset.optimize`."""

    __slots__ = ("_dataset",)

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def __repr__(self) -> str:
        return f"Optimize({self._dataset.uri!r}, version={self._dataset.version})"

    async def compact_files(
        self,
        *,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = MAX_RETRIES,
        progress: OnProgress | None = None,
        **options: Unpack[CompactionArguments],
    ) -> Dataset:
        """Rewrite small fragments, and fragments with many deleted rows, into larger fragments.

        Rows keep their order, their versions, and their row ids if these are stable. Deleted rows
        and dropped columns are removed from the new files. Two versions are committed, or none if
        there is nothing to do. Indices are remapped to the new addresses, or later with
        `defer_index_remap`. The fragments of an index that cannot be remapped are not rewritten,
        unless `uncover_indices` is set; `summary["warnings"]` then names the index. The other keys
        of `summary` are `fragments_removed`, `fragments_added`, `files_removed`, `files_added`.
        Concurrent appends are allowed.

        Cost: a scan of the fragments, many at a time; a write of their rows; two commits; without
        `defer_index_remap`, a read and a write of the index segments that cover them. Memory: for
        each concurrent task, the batches read ahead and the rows of the pages being filled; 24
        bytes per row with stable row ids; 8 bytes per deleted row.

        Example:

            dataset = await dataset.insert({"id": [100], "price": [10.0]})
            dataset = await dataset.optimize.compact_files()
            assert len(dataset.fragments) == 1

        Args:
            properties: texts by key, recorded in the transaction.
            message: a commit message, recorded in the transaction.
            max_retries: attempts after the first, if others committed first.
            progress: called with a `Progress` of each stage; True: a bar (docs/progress.md).
            options: see `CompactionOptions`.

        Raises:
            RetryableConflictError: other commits deleted or changed rows of these fragments; all
                new files are removed.
            UnsupportedError: alance does not write the file version; an index whose remap was
                deferred (see `optimize_indices`) is of a kind that alance does not write;
                `defer_index_remap` is set for a table with stable row ids; or `compaction_mode` is
                `force_binary_copy`.
            InvalidInputError: an option is out of range.
            CorruptFileError, NotFoundError: an index cannot be read, and `uncover_indices` is not
                set.
        """
        await self._dataset._load(compact, compact_plan)
        with Reporting(progress):
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
        """Return an `async with` block in which the table is compacted in the background.

            async with dataset.optimize.auto_compact(interval=300):
                await serve()

        Use it for tables with many small commits. A task polls for new versions. It joins the
        longest run of fragments at the end of the table that together have four times the rows of
        the largest one. So each rewrite puts a row into a fragment that is at least four times
        larger (or `min_fragments` times, if that is less). Appends are never disturbed. A delete or
        update of rows that are being joined takes precedence over the compaction; if the compaction
        is committed first, the delete or update is retried, as with any other writer.

        Failures are logged, counted in `metrics`, and tried again later. At the end of the block
        the task polls a last time. If the block ends with an error, or is cancelled, a running
        compaction is dropped and its files are removed.

        Old versions retain the small files until a cleanup. Fragments that an index covers are
        joined only with others that it covers.

        Cost: a LIST per `interval`; a GET for a new version; compactions as by `compact_files`.

        Args:
            min_fragments: number of joinable fragments at which a compaction begins; 2 or more.
            interval: seconds between polls.
            options: see `CompactionOptions`.

        Raises:
            InvalidInputError: an option is out of range; raised when the block begins.
        """
        return AutoCompaction(self._dataset, min_fragments, interval, options)

    async def enable_auto_cleanup(
        self, auto_cleanup_config: AutoCleanupConfig, **commit: Unpack[CommitArguments]
    ) -> Dataset:
        """Configure the cleanup that each writer of the table then makes after some of its commits.

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

        Cost: a commit; without such settings no request, and no version is committed.

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
        progress: OnProgress | None = None,
        **commit: Unpack[CommitArguments],
    ) -> Dataset:
        """Extend indices to all fragments, except indices of kinds that alance does not write.

        In each index, a new segment replaces the latest segment (in a vector index, perhaps several
        of the latest). The new segment covers the fragments of the replaced segments, and the
        fragments that no segment covered. An index that covered all fragments stays as it is,
        unless `retrain` is set or `num_indices_to_merge` joins several of its segments. If all
        indices stay, no version is committed.

        - Scalar indices: the files of the latest segment are merged with the rows that were not
          covered. A segment of at most 32,768 rows is built again from the column, as is one whose
          value type, size of zones or kind of row numbers is not that of a new segment.
        - Indices of texts: the texts of the replaced segment are read again.
        - Vector indices: the new segment replaces the latest segments that are not larger than
          those after them, so that an index has few segments, and a row is rewritten only a few
          times. Codes are reused, and only vectors that were not covered are read. If partitions
          would grow to more than four times the rows for which centroids were computed, centroids
          and codes are computed again, and all vectors of the segment are read.

        If a version is committed, `summary` has `segments_added`, the number of new segments, and
        `warnings` about indices that could not be extended.

        If the table was compacted with `defer_index_remap`, all indices are first rewritten with
        the new addresses of their rows, in a separate version, even those that are not in
        `index_names`.

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
            progress: called with a `Progress` of each stage; True: a bar (docs/progress.md).
            commit: see `alance.types.CommitArguments`.

        Raises:
            NotFoundError: no such index.
            InvalidInputError: a negative number of segments.
            UnsupportedError: an index with a deferred remap is of a kind that alance does not
                write.
            CorruptFileError: a segment cannot be read; `retrain` does not read segments.
            RetryableConflictError: other commits rewrote the fragments at every attempt.
        """
        await self._dataset._load(index_extend)
        with Reporting(progress):
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
        """Start the background task of the block, and return it."""

    @property
    def dataset(self) -> Dataset:
        """Dataset of the last version that the task has seen or committed."""
        return self._dataset if self._task is None else self._dataset._on(self._task.last)

    async def __aenter__(self) -> Self:
        if self._task is not None:
            raise InvalidInputError(f"{self._dataset.uri!r}: {self._NAME} has one block")
        self._task = await self._begin()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        assert self._task is not None
        if error is None:
            await self._task.close()
        else:
            await self._task.abort()


@public
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
        """Counters of the compactions so far; None before the block has begun."""
        return None if self._task is None else self._task.metrics

    async def _begin(self) -> Compactor:
        await self._dataset._load(auto_compact, compact_plan)
        return auto_compact.Compactor(
            self._dataset._snapshot,
            compact_plan.CompactionOptions(**self._options),
            self._min_fragments,
            self._interval,
        )


@public
class Compaction:
    """Compaction by several processes: one plans, any number execute tasks, one commits.

        plan = await Compaction.plan(dataset, target_rows_per_fragment=1_000_000)
        results = [await task.execute(dataset) for task in plan.tasks]
        dataset = await Compaction.commit(dataset, results)

    Tasks and results can be pickled. Results that are never committed leave files that a cleanup
    removes.
    """

    __slots__ = ()

    @classmethod
    async def plan(cls, dataset: Dataset, **options: Unpack[CompactionArguments]) -> CompactionPlan:
        """Plan a compaction: groups of fragments to rewrite together.

        Cost: no request, unless the manifest lacks counts, as for `Dataset.stats`.

        Args:
            dataset: the version.
            options: the fields of `CompactionOptions`.

        Raises:
            InvalidInputError: an option is out of range.
            UnsupportedError: alance does not write the file version; or the table has a
                fragment-reuse index, and `defer_index_remap` is not set.
        """
        await dataset._load(compact, compact_plan)
        return await compact.plan(dataset._snapshot, compact_plan.CompactionOptions(**options))

    @classmethod
    async def execute(cls, dataset: Dataset, **options: Unpack[CompactionArguments]) -> Dataset:
        """Plan, execute and commit a compaction.

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

        Indices are remapped; if the plan had `defer_index_remap`, a later `optimize_indices` does
        it.

        Cost: two commits; a read and a write of the index segments that cover the fragments, unless
        the plan had `defer_index_remap`; a GET if `dataset` is at another version than the plan.

        Args:
            dataset: any version of the table.
            results: results of tasks.
            uncover_indices: True to let an index that cannot be read lose these fragments; False to
                raise an error.
            commit: see `alance.types.CommitArguments`.

        Raises:
            RetryableConflictError: other commits deleted or changed rows of these fragments. The
                new files remain, so that the other results can still be committed.
            CommitConflictError: a newer version rules the rewrite out.
            InvalidInputError: two results for one fragment.
            CorruptFileError, NotFoundError, UnsupportedError: an index cannot be read.
        """
        await dataset._load(compact)
        snapshot = await compact.commit(
            dataset._snapshot, results, CommitOptions(**commit), uncover_indices=uncover_indices
        )
        return dataset._on(snapshot)
