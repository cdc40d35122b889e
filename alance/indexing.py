"""Index builds that several processes or machines share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from alance.base.calls import public
from alance.base.deferred import Deferred, lazy
from alance.ops.version.options import CommitOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Unpack

    from alance.datasets import Dataset
    from alance.ops.index import new as index_new
    from alance.ops.index import parts as index_parts
    from alance.ops.index.parts import IndexPlan, IndexSegment, IndexTask
    from alance.ops.index.texts import new as index_new_text
    from alance.ops.index.texts.new import TextIndexArguments, TextIndexKind
    from alance.ops.index.values.options import ScalarIndexKind, ValueIndexArguments
    from alance.ops.index.values.ranges import IndexPages, IndexRange
    from alance.ops.index.values.runs import IndexPart
    from alance.ops.index.vectors import new as index_new_vector
    from alance.ops.index.vectors.new import VectorIndexArguments, VectorIndexKind
    from alance.ops.search.options import Metric
    from alance.ops.version.options import CommitArguments
else:
    index_new = Deferred("alance.ops.index.new")
    index_new_text = Deferred("alance.ops.index.texts.new")
    index_new_vector = Deferred("alance.ops.index.vectors.new")
    index_parts = Deferred("alance.ops.index.parts")

__all__ = [
    "IndexBuild",
    "IndexPages",
    "IndexPart",
    "IndexPlan",
    "IndexRange",
    "IndexSegment",
    "IndexTask",
]

TASK_BYTES: Final = 64 << 20
MAX_TASKS: Final = 512  # maximum number of runs that are merged at once
RANGE_BYTES: Final = 256 << 20
INDEX_MEMORY_BYTES: Final = 256 << 20

_INDEXING_PLACES: Final = {
    "IndexPages": "alance.ops.index.values.ranges",
    "IndexPart": "alance.ops.index.values.runs",
    "IndexPlan": "alance.ops.index.parts",
    "IndexRange": "alance.ops.index.values.ranges",
    "IndexSegment": "alance.ops.index.parts",
    "IndexTask": "alance.ops.index.parts",
}

if not TYPE_CHECKING:  # otherwise any name would type-check
    __getattr__, __dir__ = lazy(__name__, _INDEXING_PLACES)


@public
class IndexBuild:
    """Index build by several processes, for values, vectors or texts.

        plan = await IndexBuild.plan(dataset, "user", "BTREE")
        parts = [await task.execute(dataset) for task in plan.tasks]
        segment = await IndexBuild.merge(dataset, plan, parts)
        dataset = await IndexBuild.commit(dataset, plan, segment)

    One process plans, any number of processes execute tasks, and one merges and commits. Plans,
    tasks, parts and segments can be pickled. A build that is never committed leaves files that a
    cleanup removes.
    """

    __slots__ = ()

    @classmethod
    async def plan(
        cls,
        dataset: Dataset,
        column: str,
        index_type: VectorIndexKind | ScalarIndexKind | TextIndexKind,
        name: str | None = None,
        *,
        replace: bool = True,
        task_bytes: int = TASK_BYTES,
        max_tasks: int = MAX_TASKS,
        memory_bytes: int = INDEX_MEMORY_BYTES,
        done: Sequence[IndexPart] = (),
        metric: Metric = "l2",
        vectors: VectorIndexArguments | None = None,
        texts: TextIndexArguments | None = None,
        values: ValueIndexArguments | None = None,
    ) -> IndexPlan:
        """Plan tasks over all fragments of a version, with about equal bytes.

        Cost: no request, and some 10 us per fragment. For vectors also the training: a take of the
        sample, k-means, two PUTs; or with `done` a read of the earlier training.

        Args:
            dataset: the version.
            column: name or dotted path.
            index_type: as for `Dataset.create_index`.
            name: default: `{column}_idx`.
            replace: True to replace an index of that name on that column; False to raise an error.
            task_bytes: approximate bytes of values and row numbers per task; a fragment is never
                split.
            max_tasks: maximum number of tasks, which get more bytes each if needed.
            memory_bytes: bytes that a task sorts at once; more are spilled to its local disk.
            done: parts of an earlier plan, for a new plan after other commits rewrote fragments.
                Parts that are still valid are reused, and the tasks are for the other fragments.
                For vectors the earlier training is reused, and options are ignored.
            metric: metric of vectors, as for `Dataset.create_index`.
            vectors: options of a vector index; see `VectorIndexOptions`.
            texts: options of an inverted index, as for `Dataset.create_index`.
            values: options of an index of values, as for `Dataset.create_scalar_index`.

        Raises:
            InvalidInputError: an unknown column, a column that this kind cannot index, or options
                that do not fit the column.
            UnsupportedError: an unknown type of index, or a table with a deferred remap of indices.
            AlreadyExistsError: the name is in use.
        """
        await dataset._load(index_parts)
        new: index_parts.New
        if str(index_type).upper() == index_new_text.INVERTED:
            new = index_new_text.NewTextIndex.of(column, name, texts or {}, replace=replace)
        elif str(index_type).upper() in index_new_vector.INDEX_TYPES:
            chosen = index_new_vector.VectorIndexOptions(**vectors or {})
            new = index_new_vector.NewVectorIndex(column, index_type, name, metric, replace, chosen)
        else:
            new = index_new.NewIndex(column, index_type, name, replace, arguments=values or {})
        return await index_parts.plan(
            dataset._snapshot,
            new,
            task_bytes=task_bytes,
            max_tasks=max_tasks,
            memory_bytes=memory_bytes,
            done=done,
        )

    @classmethod
    async def ranges(
        cls,
        dataset: Dataset,
        plan: IndexPlan,
        parts: Sequence[IndexPart],
        *,
        range_bytes: int = RANGE_BYTES,
        memory_bytes: int = INDEX_MEMORY_BYTES,
    ) -> list[IndexRange]:
        """Split the merge into ranges of about equal bytes, which can be merged on any machine:

            ranges = await IndexBuild.ranges(dataset, plan, parts)
            pages = [await each.execute(dataset) for each in ranges]
            segment = await IndexBuild.merge(dataset, plan, parts, pages)

        Cost: a GET if `dataset` is at another version than the plan, else no request; some 10 us
        per MiB of the parts.

        Args:
            dataset: any version of the table.
            plan: from `plan`.
            parts: the parts of all tasks of the plan, in any order.
            range_bytes: approximate bytes per range; there are at most 128 ranges. All rows of a
                value, or of a partition of vectors, are in the same range. Ranges of vectors get a
                sixteenth of these bytes, because linking takes longer than merging.
            memory_bytes: memory for merging a range, but at least 512 KiB per part.

        Returns:
            The ranges: of values of a B-tree or bitmap index, or of partitions of vectors with
            graphs. Empty if one range is enough, and for other kinds of indices; `merge` then does
            all the work.

        Raises:
            InvalidInputError: the parts do not cover each fragment of the plan's version exactly
                once.
        """
        await dataset._load(index_parts)
        return await index_parts.ranges(
            dataset._snapshot, plan, parts, range_bytes=range_bytes, memory_bytes=memory_bytes
        )

    @classmethod
    async def merge(
        cls,
        dataset: Dataset,
        plan: IndexPlan,
        parts: Sequence[IndexPart],
        pages: Sequence[IndexPages] = (),
        *,
        memory_bytes: int = INDEX_MEMORY_BYTES,
        on_rows: Callable[[int], Any] | None = None,
    ) -> IndexSegment:
        """Merge the parts of all tasks into the files of the index.

        Cost: a read of the parts, in GETs of `memory_bytes / 4 / parts` bytes, but at least 256 KiB
        and at most 8 MiB; for vectors also a read of the training; the files' PUTs. For texts only
        one PUT. A GET more if `dataset` is at another version than the plan. Memory: about
        `memory_bytes`, but at least 512 KiB per part, and the pages being written; for a bitmap
        index also the rows of one value, for vectors those of one partition.

        Args:
            dataset: any version of the table.
            plan: from `plan`.
            parts: the parts of all tasks of the plan, in any order.
            pages: results of all `ranges` of these parts, in any order. Then the merge only writes
                the page table of a B-tree (one PUT), the file of a bitmap index, or the codes and
                graphs of vectors. Empty: the merge does all the work.
            memory_bytes: approximate memory of the merge.
            on_rows: called with the number of rows of each merged batch, or of row sets for a
                bitmap index that was merged by ranges; None: not called.

        Raises:
            InvalidInputError: the parts do not cover each fragment, or the pages each range,
                exactly once.
            NotFoundError: a part or the version has been removed.
            CorruptFileError: the bytes of a part have changed since it was written.
            StoreError: the store failed; the index's files are removed, the parts remain.
        """
        await dataset._load(index_parts)
        return await index_parts.merge(
            dataset._snapshot, plan, parts, pages, memory_bytes=memory_bytes, on_rows=on_rows
        )

    @classmethod
    async def commit(
        cls,
        dataset: Dataset,
        plan: IndexPlan,
        segment: IndexSegment,
        **commit: Unpack[CommitArguments],
    ) -> Dataset:
        """Commit the index as part of the next version, and remove its parts.

        Rows that were appended after the plan are scanned until `optimize.optimize_indices()`.

        Cost: a commit, and a DELETE per thousand parts; for vectors another DELETE, of the
        training; for texts no DELETE. If tasks wrote files of the index, also a LIST of its folder,
        and a DELETE if killed attempts left files there. A GET more if `dataset` is at another
        version than the plan.

        Args:
            dataset: any version of the table.
            plan: from `plan`.
            segment: from `merge`.
            commit: see `alance.types.CommitArguments`.

        Raises:
            RetryableConflictError: other commits rewrote fragments of the plan, or created such an
                index. The index's files are removed, but the parts remain: plan again with them as
                `done`.
            CommitConflictError: a newer version rules the index out.
        """
        await dataset._load(index_parts)
        options = CommitOptions(**commit)
        snapshot = await index_parts.commit(dataset._snapshot, plan, segment, options)
        return dataset._on(snapshot)

    @classmethod
    async def discard(cls, dataset: Dataset, parts: Sequence[IndexPart]) -> None:
        """Remove the files of parts that are not needed. Errors of the store are ignored.

        Cost: one DELETE per thousand files; none without parts. Raises no error.

        Args:
            dataset: any version of the table.
            parts: results of tasks.
        """
        await dataset._load(index_parts)
        await index_parts.discard(dataset._snapshot, parts)
