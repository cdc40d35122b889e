"""Upkeep of a table's files: compaction, at once or in parts that several processes share."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from alance.ops.version.commit_options import CommitOptions
from alance.versioning.retries import MAX_RETRIES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from alance.datasets import Dataset
    from alance.ops.upkeep.compact import CompactionPlan, CompactionTask
    from alance.ops.upkeep.compact_plan import CompactionMode, CompactionOptions
    from alance.ops.upkeep.compact_results import CompactionMetrics, RewriteResult

__all__ = [
    "Compaction",
    "CompactionMetrics",
    "CompactionOptions",
    "CompactionPlan",
    "CompactionTask",
    "Optimize",
    "RewriteResult",
]

_PLACES: Final = {
    "CompactionMetrics": "alance.ops.upkeep.compact_results",
    "CompactionOptions": "alance.ops.upkeep.compact_plan",
    "CompactionPlan": "alance.ops.upkeep.compact",
    "CompactionTask": "alance.ops.upkeep.compact",
    "RewriteResult": "alance.ops.upkeep.compact_results",
}


def __getattr__(name: str) -> Any:
    """The other names, imported when first asked for: what they need is what writes files."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_PLACES[name]), name)
    return found


class Optimize:
    """The upkeep of a dataset's files; `Dataset.optimize`."""

    __slots__ = ("_dataset",)

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    async def compact_files(
        self,
        *,
        target_rows_per_fragment: int | None = None,
        max_rows_per_group: int | None = None,
        max_bytes_per_file: int | None = None,
        materialize_deletions: bool | None = None,
        materialize_deletions_threshold: float | None = None,
        num_threads: int | None = None,
        batch_size: int | None = None,
        io_buffer_bytes: int | None = None,
        max_source_fragments: int | None = None,
        max_source_rows: int | None = None,
        max_source_bytes: int | None = None,
        excluded_fragment_ids: Collection[int] = (),
        data_storage_version: str | None = None,
        compaction_mode: CompactionMode | None = None,
        defer_index_remap: bool | None = None,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = MAX_RETRIES,
    ) -> Dataset:
        """Rewrite small fragments, and those of which many rows are deleted, to larger ones.

        Rows keep their order, their row ids where these are stable, and their versions. Deleted
        rows and dropped columns are gone after it. Two versions are made, none where there is
        nothing to do. An index no longer covers what was rewritten: filters find these rows by
        scanning, and `summary["warnings"]` says so; the other keys of `summary` are
        `fragments_removed`, `fragments_added`, `files_removed`, `files_added`.

        Cost: a scan of the fragments, many at a time; the writing of their rows; two commits.
        Memory: what is read ahead and what fills the next pages, of each task done at once;
        24 bytes a row with stable row ids.

        Args: see `CompactionOptions`. Appends go on meanwhile.

        Raises:
            RetryableConflictError: others deleted or changed rows of these fragments; no file of
                the attempt stays.
            UnsupportedError: files of a version that is not written, or an index that translates
                addresses late.
            InvalidInputError: an option out of its range.
        """
        await self._dataset._load("alance.ops.upkeep.compact", "alance.ops.upkeep.compact_plan")
        from alance.ops.upkeep import compact
        from alance.ops.upkeep.compact_plan import CompactionOptions

        options = CompactionOptions(
            target_rows_per_fragment=target_rows_per_fragment,
            max_rows_per_group=max_rows_per_group,
            max_bytes_per_file=max_bytes_per_file,
            materialize_deletions=materialize_deletions,
            materialize_deletions_threshold=materialize_deletions_threshold,
            num_threads=num_threads,
            batch_size=batch_size,
            io_buffer_bytes=io_buffer_bytes,
            max_source_fragments=max_source_fragments,
            max_source_rows=max_source_rows,
            max_source_bytes=max_source_bytes,
            excluded_fragment_ids=excluded_fragment_ids,
            data_storage_version=data_storage_version,
            compaction_mode=compaction_mode,
            defer_index_remap=defer_index_remap,
        )
        made = await compact.compact_files(
            self._dataset._snapshot, options, CommitOptions(properties, message, max_retries)
        )
        return type(self._dataset)(made)

    async def optimize_indices(
        self,
        *,
        num_indices_to_merge: int | None = None,
        index_names: Collection[str] | None = None,
        retrain: bool = False,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = MAX_RETRIES,
    ) -> Dataset:
        """Bring B-tree and bitmap indices to all fragments; others stay as they are.

        The new segment of an index takes the place of its latest one: it is built again, from the
        fragments of that and those that were not covered. Where all are, no version is made.
        `summary` has `indices`, the number of new segments, and `warnings`.

        Cost: a scan of each indexed column in these fragments; the files' PUTs; one commit.

        Args:
            num_indices_to_merge: segments whose place the new one takes, 1 by default; 0: it is
                of the fragments that were not covered, beside the others.
            index_names: only these.
            retrain: one new segment of all fragments, in the place of all.

        Raises:
            NotFoundError: no such index.
            RetryableConflictError: others rewrote the fragments at every attempt.
        """
        await self._dataset._load("alance.ops.index.manage")
        from alance.ops.index import manage as index_manage

        made = await index_manage.optimize_indices(
            self._dataset._snapshot,
            num_indices_to_merge=num_indices_to_merge,
            index_names=index_names,
            retrain=retrain,
            options=CommitOptions(properties, message, max_retries),
        )
        return type(self._dataset)(made)


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
    async def plan(cls, dataset: Dataset, **options: Any) -> CompactionPlan:
        """What is to be rewritten; options are the fields of `CompactionOptions`.

        Cost: nothing, where the manifest tells how many rows are deleted.

        Raises:
            InvalidInputError: an unknown option, or one out of its range.
            UnsupportedError: as of `Optimize.compact_files`.
        """
        await dataset._load("alance.ops.upkeep.compact", "alance.ops.upkeep.compact_plan")
        from alance.ops.upkeep import compact
        from alance.ops.upkeep.compact_plan import CompactionOptions

        return await compact.plan(dataset._snapshot, CompactionOptions.of(options))

    @classmethod
    async def execute(cls, dataset: Dataset, **options: Any) -> Dataset:
        """All three at once: `Optimize.compact_files`."""
        await dataset._load("alance.ops.upkeep.compact", "alance.ops.upkeep.compact_plan")
        from alance.ops.upkeep import compact
        from alance.ops.upkeep.compact_plan import CompactionOptions

        made = await compact.compact_files(
            dataset._snapshot, CompactionOptions.of(options), CommitOptions()
        )
        return type(dataset)(made)

    @classmethod
    async def commit(
        cls,
        dataset: Dataset,
        results: Sequence[RewriteResult],
        *,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = MAX_RETRIES,
    ) -> Dataset:
        """Put what was rewritten in the place of the fragments before; some results, or all.

        Cost: two commits.

        Raises:
            RetryableConflictError: others deleted or changed rows of these fragments. The files
                stay: the other results can still be committed.
            CommitConflictError: a newer version rules the rewrite out.
            InvalidInputError: two results for one fragment.
        """
        await dataset._load("alance.ops.upkeep.compact")
        from alance.ops.upkeep import compact

        options = CommitOptions(properties, message, max_retries)
        return type(dataset)(await compact.commit(dataset._snapshot, results, options))
