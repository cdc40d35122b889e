"""Update of indices: new segments for uncovered rows, built alone or merged with older segments."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from alance.checks import check_count
from alance.format.table.apply_indices import SYSTEM
from alance.format.table.indices import JSON, Index, json_target
from alance.ops.index.late import catch_up
from alance.ops.index.manage import segments_of_name
from alance.ops.index.new import commit_segments, indexed_column
from alance.ops.index.texts.build import texts_like
from alance.ops.index.values.build import SegmentBuilder
from alance.ops.index.values.carried import carrying
from alance.ops.index.values.options import ValueOptions
from alance.ops.index.vectors.build import vectors_like
from alance.ops.lookup.files import IndexFiles
from alance.ops.lookup.kinds import KINDS
from alance.ops.version.commits import with_retries
from alance.ops.version.summary import ChangeSummary

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from alance.format.proto import table_pb2
    from alance.ops.index.segment_files import NewSegment
    from alance.ops.version.options import CommitOptions
    from alance.ops.version.snapshot import Snapshot


async def optimize_indices(
    snapshot: Snapshot,
    *,
    num_indices_to_merge: int | None,
    index_names: Collection[str] | None,
    retrain: bool,
    options: CommitOptions,
) -> Snapshot:
    """Commit segments for all uncovered fragments; see `Optimize.optimize_indices`."""
    merged = num_indices_to_merge
    if merged is not None:
        check_count("num_indices_to_merge", merged, 0)

    async def attempt(base: Snapshot) -> Snapshot:
        base = await catch_up(base, options)
        groups: dict[str, list[table_pb2.IndexMetadata]] = defaultdict(list)
        for message in base.manifest.indices:
            if message.name not in SYSTEM and (index_names is None or message.name in index_names):
                groups[message.name].append(message)
        for name in index_names or ():
            segments_of_name(base, name)
        new: dict[NewSegment, list[int]] = {}
        old: list[table_pb2.IndexMetadata] = []
        warnings = []
        for name, segments in groups.items():
            builder: NewSegment | None
            builder = of_values = await _builder_like(base, segments)
            of_vectors = builder is None
            least = merged if merged is not None else 1
            if merged is None and of_vectors:
                least = await num_small(base, segments)
            replaced, fragments = _extension(base, segments, least, retrain=retrain)
            if of_vectors:
                # Open it even if there is nothing to do: an unsupported kind gets a warning.
                builder = await vectors_like(
                    base, segments, replaced, fragments or (), retrain=retrain
                )
            if builder is None:
                # The texts of replaced segments are read again.
                builder = await texts_like(base, segments)
            if builder is None:
                warnings.append(
                    f"index {name!r} is of a kind that is not written here, or there are too few "
                    "vectors to train by: as it was"
                )
            elif fragments is not None:
                if of_values is not None and not retrain:
                    builder = await carrying(of_values, replaced)
                new[builder] = fragments
                old += replaced
        summary = ChangeSummary(segments_added=len(new), warnings=warnings)
        if not new:
            return base
        return await commit_segments(base, new, old, options, summary)

    return await with_retries(snapshot, attempt, options.max_retries)


async def _builder_like(
    base: Snapshot, segments: Sequence[table_pb2.IndexMetadata]
) -> SegmentBuilder | None:
    """Return a builder of a segment like existing ones; None if the kind cannot be written here."""
    indices = [Index.from_protobuf(message) for message in segments]
    targets = [json_target(index.message) for index in indices if index.kind == JSON]
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
    """Return the number of latest segments to merge with the rows that no segment covers.

    A segment is merged if it has no more rows than all newer rows together. So a row is rewritten
    only a few times, however often rows are appended, and there are few segments. Zero if all rows
    are covered.
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
    live = [handle.id for handle in base.handles]
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
