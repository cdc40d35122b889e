"""Update of indices: new segments for uncovered rows, built alone or merged with older segments."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, TypeAlias

from alance.base.checks import check_count
from alance.base.records import dataclass
from alance.format.table.changes.apply_indices import SYSTEM
from alance.format.table.indices import JSON_KIND, Index, json_target
from alance.format.table.operations import CreateIndex
from alance.ops.index.late import catch_up
from alance.ops.index.manage import segments_of_name
from alance.ops.index.new import indexed_column, refuse_reuse
from alance.ops.index.segment_files import discard_files
from alance.ops.index.texts.build import texts_like
from alance.ops.index.values.build import SegmentBuilder
from alance.ops.index.values.carried import carrying
from alance.ops.index.values.options import ValueOptions
from alance.ops.index.vectors.build import vectors_like
from alance.ops.lookup.files import IndexFiles
from alance.ops.lookup.kinds import KINDS
from alance.ops.version.commits import PreparedChange, with_retries
from alance.ops.version.opening import at_version
from alance.ops.version.summary import ChangeSummary

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from alance.datasets import Dataset
    from alance.format.proto import table_pb2
    from alance.ops.index.segment_files import NewSegment
    from alance.ops.version.options import CommitOptions
    from alance.ops.version.snapshot import Snapshot

    RunExtensions: TypeAlias = Callable[
        [Sequence["ExtensionTask"]], Awaitable[Sequence["ExtensionResult"]]
    ]


@dataclass(frozen=True, slots=True)
class ExtensionTask:
    """An index to extend by a new segment. Can be pickled.

    Attributes:
        read_version: version whose rows the segment covers.
        name: name of the index.
        num_merged: number of latest segments that the new one replaces; None: as
            `Optimize.optimize_indices` chooses it.
        retrain: True to replace all segments.
    """

    read_version: int
    name: str
    num_merged: int | None
    retrain: bool

    async def execute(self, dataset: Dataset) -> ExtensionResult:
        """Write the files of the segment.

        Cost: as of `Optimize.optimize_indices`, without a commit; one GET if the dataset is at
        another version.

        Args:
            dataset: any version of the table.

        Raises:
            NotFoundError: the version has been cleaned up.
            CorruptFileError, StoreError: reading or writing failed; no new file stays.
        """
        return await _extended(await at_version(dataset._snapshot, self.read_version), self)


@dataclass(frozen=True, slots=True)
class ExtensionResult:
    """Result of an `ExtensionTask`, not committed yet. Can be pickled.

    Attributes:
        added: record of the new segment; None: there was nothing to do.
        replaced: records of the segments that the new segment replaces.
        warning: reason why the index cannot be extended; None if it can.
    """

    added: table_pb2.IndexMetadata | None = None
    replaced: tuple[table_pb2.IndexMetadata, ...] = ()
    warning: str | None = None


async def optimize_indices(
    snapshot: Snapshot,
    *,
    num_indices_to_merge: int | None,
    index_names: Collection[str] | None,
    retrain: bool,
    options: CommitOptions,
    run_tasks: RunExtensions | None = None,
) -> Snapshot:
    """Commit segments for all uncovered fragments; see `Optimize.optimize_indices`.

    Args:
        run_tasks: runs the tasks elsewhere, and returns their results in order; None: here.
    """
    merged = num_indices_to_merge
    if merged is not None:
        check_count("num_indices_to_merge", merged, 0)

    async def attempt(base: Snapshot) -> Snapshot:
        base = await catch_up(base, options)
        for name in index_names or ():
            segments_of_name(base, name)
        names = dict.fromkeys(message.name for message in base.manifest.indices)
        tasks = [
            ExtensionTask(base.version, name, merged, retrain)
            for name in names
            if name not in SYSTEM and (index_names is None or name in index_names)
        ]
        results: list[ExtensionResult] = []

        async def discard() -> None:
            for record in _added(results):
                await discard_files(base, uuid.UUID(bytes=record.uuid.uuid), record.files)

        if run_tasks is not None:
            results += await run_tasks(tasks)
        else:
            try:
                for task in tasks:
                    results.append(await _extended(base, task))
            except BaseException:
                await discard()
                raise
        if not (added := _added(results)):
            return base
        change = CreateIndex(
            new_indices=tuple(added),
            removed_indices=tuple(old for result in results for old in result.replaced),
        )
        summary = ChangeSummary(
            segments_added=len(added),
            warnings=[result.warning for result in results if result.warning is not None],
        )
        return await PreparedChange(
            base, change, options, discard=discard, summary=summary
        ).commit()

    return await with_retries(snapshot, attempt, options.max_retries)


def _added(results: Sequence[ExtensionResult]) -> list[table_pb2.IndexMetadata]:
    return [result.added for result in results if result.added is not None]


async def _extended(base: Snapshot, task: ExtensionTask) -> ExtensionResult:
    """Write the files of an index's new segment.

    The result is empty if the index covers all fragments, and has a warning if alance does not
    write indices of this kind.
    """
    refuse_reuse(base)
    segments = segments_of_name(base, task.name)
    builder: NewSegment | None
    builder = of_values = await _builder_like(base, segments)
    of_vectors = builder is None
    least = task.num_merged if task.num_merged is not None else 1
    if task.num_merged is None and of_vectors:
        least = await num_small(base, segments)
    replaced, fragments = _extension(base, segments, least, retrain=task.retrain)
    if of_vectors:
        # Open it even if there is nothing to do: an unsupported kind gets a warning.
        builder = await vectors_like(
            base, segments, replaced, fragments or (), retrain=task.retrain
        )
    if builder is None:
        # The texts of replaced segments are read again.
        builder = await texts_like(base, segments)
    if builder is None:
        return ExtensionResult(
            warning=f"index {task.name!r} is of a kind that is not written here, or there are too "
            "few vectors to train by: as it was"
        )
    if fragments is None:
        return ExtensionResult()
    if of_values is not None and not task.retrain:
        builder = await carrying(of_values, replaced)
    try:
        return ExtensionResult(await builder.build(fragments), tuple(replaced))
    except BaseException:
        await builder.discard()
        raise


async def _builder_like(
    base: Snapshot, segments: Sequence[table_pb2.IndexMetadata]
) -> SegmentBuilder | None:
    """Return a builder of a segment like existing ones; None if there can be none.

    There is none if alance cannot write the kind, if the segments differ in kind, columns or JSON
    path, or if the indexed column is gone.
    """
    indices = [Index.from_protobuf(message) for message in segments]
    targets = [json_target(index.message) for index in indices if index.kind == JSON_KIND]
    kinds = {(index.kind, index.files_kind, index.fields) for index in indices}
    column = indexed_column(base, indices[0])
    kind, path = KINDS.get(indices[0].files_kind), targets[0].path if targets else None
    is_alike = len(kinds) == 1 and len({target.path for target in targets}) <= 1
    if not is_alike or kind is None or column is None:
        return None
    has_ids = base.has_stable_row_ids
    if path is not None and (
        not kind.of_json or kind.json_refusal(has_stable_row_ids=has_ids) is not None
    ):
        return None
    files = IndexFiles(base, indices[-1])
    options = ValueOptions(path, await kind.zone_options(files, files.name))
    return SegmentBuilder(base, column, base.schema.field(column), indices[0].name, kind, options)


async def num_small(base: Snapshot, segments: Sequence[table_pb2.IndexMetadata]) -> int:
    """Count the latest segments to merge with the rows that no segment covers.

    A segment is merged if it has no more rows than all newer rows together. So a row is rewritten
    only a few times, however often rows are appended, and the number of segments stays small.
    Returns 0 if all rows are covered.
    """
    counts = await base.live_counts()
    rows = {handle.id: int(count) for handle, count in zip(base.handles, counts, strict=True)}
    parts = [Index.from_protobuf(message).fragment_ids or frozenset() for message in segments]
    num_rows = sum(rows[fragment] for fragment in rows.keys() - frozenset[int]().union(*parts))
    number = 0
    for part in reversed(parts):
        size = sum(rows[fragment] for fragment in part & rows.keys())
        if not num_rows or size > num_rows:
            break
        num_rows += size
        number += 1
    return number


def _extension(
    base: Snapshot, segments: Sequence[table_pb2.IndexMetadata], merged: int, *, retrain: bool
) -> tuple[list[table_pb2.IndexMetadata], list[int] | None]:
    """Return the segments to replace and the fragments of the new segment.

    The fragments are None if there is nothing to do.
    """
    live = base.handles.ids
    parts = [Index.from_protobuf(message).fragment_ids for message in segments]
    covered = frozenset[int]().union(*(numbers or frozenset() for numbers in parts))
    missing = set(live) - covered
    if retrain:
        return list(segments), live
    if not missing and (merged < 2 or len(segments) < 2):
        return [], None
    replaced = list(segments[len(segments) - merged :]) if merged else []
    # A segment that covers no fragment is useless beside the new one.
    replaced += [
        segment
        for segment, ids in zip(segments, parts, strict=True)
        if not ids and segment not in replaced
    ]
    added = missing.union(
        *(
            ids or frozenset()
            for segment, ids in zip(segments, parts, strict=True)
            if segment in replaced
        )
    )
    return replaced, [fragment for fragment in live if fragment in added]
