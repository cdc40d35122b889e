"""Steps of a table's maintenance: conditions, estimated cost and execution of each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import InvalidInputError, VersionNotFoundError
from alance.format.paths import quoted
from alance.format.table.changes.apply_indices import covered, reuse_index
from alance.ops.cleanup import cleanup
from alance.ops.index.extend import num_small, optimize_indices
from alance.ops.index.late import catch_up
from alance.ops.maintain.policy import cleanup_of
from alance.ops.read.aggregates.count import count_scanned
from alance.ops.read.managed import ObjectReader
from alance.ops.read.options import ScanOptions
from alance.ops.rows.delete import delete
from alance.ops.upkeep import compact
from alance.ops.upkeep.auto_compact import REWRITE_GROWTH, joinable
from alance.ops.upkeep.compact_plan import CompactionOptions
from alance.ops.version.opening import at_version
from alance.ops.version.options import CommitOptions
from alance.versioning import refs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from alance.format.proto import table_pb2
    from alance.ops.cleanup.policy import CleanupPolicy
    from alance.ops.maintain.health import TableState
    from alance.ops.maintain.policy import MaintenancePolicy
    from alance.ops.version.snapshot import Snapshot

    RunTasks: TypeAlias = Callable[[Sequence[Any]], Awaitable[Sequence[Any]]]
    Work: TypeAlias = Callable[[Snapshot, RunTasks | None], Awaitable[Snapshot]]
    Judge: TypeAlias = Callable[[TableState, MaintenancePolicy, float], Awaitable[list["Due"]]]

COMMIT_REQUESTS: Final = 3  # a LIST, a PUT of the transaction, a PUT of the manifest
SLICE_BYTES: Final = 4 << 30  # bytes of data files per compaction, after which its rows are visible
# Maximum number of manifests that a cleanup reads for each one that it removes. A table with a
# commit every five seconds has 120 000 versions in a week; without this limit, all of them would be
# read every four minutes.
VERSIONS_READ: Final = 16
ALWAYS: Final = float("inf")


@dataclass(frozen=True, slots=True)
class Due:
    """A step that is due.

    Attributes:
        kind: `remap`, `expire`, `compact`, `index` or `cleanup`.
        target: name of the index; None: the table.
        reason: measured value, and the rule that it exceeds, as text for people.
        num_bytes: estimate of the bytes that are read and written.
        num_requests: estimate of the requests of a remote store.
        work: executes the step, and returns the version after it. The second argument runs the
            tasks of the step; if it is None, they run in this process.
    """

    kind: str
    target: str | None
    reason: str
    num_bytes: int
    num_requests: int
    work: Work


async def due(state: TableState, policy: MaintenancePolicy, slice_bytes: float) -> list[Due]:
    """Return the steps that are due, in the order of `MAINTENANCE_STEPS`; the stalest index first.

    Expired rows are deleted first, so that they are not rewritten. Fragments are joined before
    indices cover them, because fragments of different segments cannot be joined. A cleanup comes
    last, because it removes files that the other steps make obsolete.

    Cost: no request if no rule is exceeded; with `ttl_column`, a count of the expired rows; if a
    cleanup may be due, two LISTs, a GET for each tag and branch, and a GET of a manifest.

    Args:
        state: state of the latest version.
        slice_bytes: bytes of data files to which a compaction is cut.

    Raises:
        InvalidInputError: `ttl_column` is not a timestamp or date column of the table.
        StoreError: the store failed.
    """
    return [step for judge in MAINTENANCE_STEPS for step in await judge(state, policy, slice_bytes)]


async def _remap(state: TableState, policy: MaintenancePolicy, slice_bytes: float) -> list[Due]:
    """Return the step that rewrites indices after a compaction with `defer_index_remap`."""
    if reuse_index(state.snapshot.manifest.indices) is None:
        return []
    segments = [part for parts in state.segments.values() for part in parts]
    return [
        Due(
            "remap",
            None,
            "indices have the addresses of before a compaction",
            2 * _file_bytes(segments),
            4 * len(segments) + COMMIT_REQUESTS,
            lambda snapshot, _: catch_up(snapshot, CommitOptions()),
        )
    ]


async def _expire(state: TableState, policy: MaintenancePolicy, slice_bytes: float) -> list[Due]:
    """Return the step that deletes rows older than their time to live."""
    if policy.ttl_column is None or policy.ttl is None or not state.num_rows:
        return []
    where = _expired(state.snapshot, policy.ttl_column, _ago(policy.ttl))
    count = await count_scanned(state.snapshot, where)
    least = max(1.0, policy.min_expired_share * state.num_rows)
    if count < least:
        return []
    num_fragments = len(state.counts)
    return [
        Due(
            "expire",
            None,
            f"{count:,} rows are older than {policy.ttl} by {policy.ttl_column!r}",
            9 * state.num_rows,
            2 * num_fragments + COMMIT_REQUESTS,
            lambda snapshot, _: delete(snapshot, where, CommitOptions()),
        )
    ]


def _expired(snapshot: Snapshot, column: str, before: datetime) -> ScanOptions:
    """Return a scan of the rows whose time is before `before`.

    Raises:
        InvalidInputError: there is no such column, or it is not of timestamps or dates.
    """
    arrow_type = snapshot.schema.field(column).arrow_type
    value: Any
    if pa.types.is_timestamp(arrow_type):
        value = before if arrow_type.tz is not None else before.replace(tzinfo=None)
    elif pa.types.is_date(arrow_type):
        value = before.date()
    else:
        raise InvalidInputError(
            f"ttl_column {column!r} of {snapshot.uri!r} is {arrow_type}: expected a timestamp or "
            "date column"
        )
    name = quoted(snapshot.schema.names_of(column))
    return ScanOptions(filter=f"{name} < ?", params=[value])


async def _compact(state: TableState, policy: MaintenancePolicy, slice_bytes: float) -> list[Due]:
    """Return the step that joins small fragments and rewrites those with many deleted rows."""
    target = state.target_rows(policy)
    share = policy.max_deleted_share
    deleted = (state.stored - state.counts) / np.maximum(state.stored, 1)
    is_deleted = deleted > (ALWAYS if share is None else share)
    least = policy.min_small_fragments
    is_joined = joinable(state.counts, target, least or REWRITE_GROWTH)
    num_joined = int(is_joined.sum())
    joins = least is not None and num_joined >= least
    if not joins and not is_deleted.any():
        return []
    stays = ~(is_deleted | (is_joined & joins))
    snapshot = state.snapshot
    plan = await compact.plan(
        snapshot,
        options := CompactionOptions(
            target_rows_per_fragment=target,
            materialize_deletions=share is not None,
            materialize_deletions_threshold=share,
            excluded_fragment_ids=snapshot.manifest.fragments.ids[stays].tolist(),
        ),
    )
    num_fragments = sum(len(task.fragments) for task in plan.tasks)
    if not num_fragments or (not is_deleted.any() and least and num_fragments < least):
        return []

    def measure() -> tuple[list[int], set[int]]:
        sizes: list[int] = []
        ids: set[int] = set()
        for task in plan.tasks:
            fragments = list(task.fragments)
            sizes.append(sum(file.file_size_bytes for part in fragments for file in part.files))
            ids.update(part.id for part in fragments)
        return sizes, ids

    # The indices of these fragments are remapped, so their files are read and written as well.
    sizes, ids = await snapshot.engine.pool.run(measure)
    moved = [
        segment
        for segments in state.segments.values()
        for segment in segments
        if not ids.isdisjoint(covered(segment) or ())
    ]
    count = max(1, int(np.searchsorted(np.cumsum(sizes), slice_bytes, side="right")))
    part = compact.CompactionPlan(plan.read_version, plan.tasks[:count], plan.warnings)
    reasons = []
    if joins:
        reasons.append(f"{num_joined:,} small fragments can be joined")
    if is_deleted.any():
        reasons.append(f"{int(is_deleted.sum()):,} fragments have more deleted rows than {share:g}")
    return [
        Due(
            "compact",
            None,
            ", ".join(reasons),
            2 * sum(sizes[:count]) + 2 * _file_bytes(moved),
            sum(len(task.fragments) for task in part.tasks)
            + 2 * count
            + 4 * len(moved)
            + 2 * COMMIT_REQUESTS,
            lambda snapshot, run_tasks: compact.carry_out(
                snapshot, part, options, CommitOptions(), run_tasks
            ),
        )
    ]


async def _indices(state: TableState, policy: MaintenancePolicy, slice_bytes: float) -> list[Due]:
    """Return the steps that extend indices over uncovered fragments and merge segments."""
    steps: list[tuple[float, Due]] = []
    fields = max(1, len(state.snapshot.schema.fields))
    for name, segments in sorted(state.segments.items()):
        unindexed = state.unindexed(name)
        num_rows = int(state.counts[unindexed].sum())
        measures = [
            (num_rows, policy.max_unindexed_rows, "rows are not indexed"),
            (
                num_rows / max(1, state.num_rows),
                policy.max_unindexed_share,
                "of the rows are not indexed",
            ),
            (len(segments), policy.max_index_segments, "segments are searched one by one"),
        ]
        excesses = [
            (value / limit if limit else ALWAYS, f"{value:,.4g} {what}, more than {limit:,g}")
            for value, limit, what in measures
            if limit is not None and value > limit
        ]
        if not excesses:
            continue
        excess, reason = max(excesses)
        num_merged = await _num_merged(state.snapshot, segments, policy)
        merged = segments[len(segments) - num_merged :]
        step = Due(
            "index",
            name,
            reason,
            2 * _file_bytes(merged) + int(2 * num_rows * state.row_bytes / fields),
            4 * len(merged) + len(unindexed) + 4 + COMMIT_REQUESTS,
            partial(_extend, name=name, num_merged=num_merged),
        )
        steps.append((excess, step))
    return [step for _, step in sorted(steps, key=lambda item: -item[0])]


async def _extend(
    snapshot: Snapshot, run_tasks: RunTasks | None, *, name: str, num_merged: int
) -> Snapshot:
    return await optimize_indices(
        snapshot,
        num_indices_to_merge=num_merged,
        index_names=[name],
        retrain=False,
        options=CommitOptions(),
        run_tasks=run_tasks,
    )


async def _num_merged(
    snapshot: Snapshot, segments: list[table_pb2.IndexMetadata], policy: MaintenancePolicy
) -> int:
    """Return the number of latest segments to merge with the rows that no segment covers."""
    # The segment of the new rows counts as well.
    most = policy.max_index_segments
    surplus = 0 if most is None else max(0, len(segments) + 1 - most)
    return max(await num_small(snapshot, segments), surplus)


async def _cleanup(state: TableState, policy: MaintenancePolicy, slice_bytes: float) -> list[Due]:
    """Return the step that removes old versions, and files that no version needs."""
    age, choice = policy.older_than, cleanup_of(policy)
    if age is None or choice is None:
        return []
    before = _ago(age)
    old = {
        place.version
        for place in state.versions[: -policy.retain_versions]
        if place.last_modified is not None and place.last_modified < before
    }
    least = max(policy.min_old_versions, len(state.versions) // VERSIONS_READ)
    if len(old) < least:
        return []
    old -= await _referenced(state.snapshot)
    if len(old) < least:
        return []
    # The store's clock may differ from the writers' clock, which a cleanup uses.
    try:
        last = await at_version(state.snapshot, sorted(old)[least - 1])
    except VersionNotFoundError:  # another cleanup has begun
        return []
    if last.manifest.timestamp is not None and last.manifest.timestamp >= before:
        return []
    num_bytes = sum(place.num_bytes or 0 for place in state.versions)
    return [
        Due(
            "cleanup",
            None,
            f"{len(old):,} versions are older than {age}",
            num_bytes,
            len(state.versions) + 8 + len(old) // 100,
            lambda snapshot, _: _clean(snapshot, choice),
        )
    ]


def _ago(age: timedelta) -> datetime:
    """Return the time `age` ago, but not before the earliest `datetime`."""
    now = datetime.now(UTC)
    return now - min(age, now - datetime.min.replace(tzinfo=UTC))


async def _referenced(snapshot: Snapshot) -> set[int]:
    """Return the versions that tags and branches retain.

    Cost: two LISTs, and a GET for each tag and branch.
    """
    engine, table = snapshot.engine, snapshot.table
    tags = await refs.list_tags(engine, table)
    branches = await refs.list_branches(engine, table)
    return {tag.version for tag in tags.values() if tag.branch == table.branch} | {
        branch.parent_version
        for branch in branches.values()
        if branch.parent_branch == table.branch
    }


async def _clean(snapshot: Snapshot, choice: CleanupPolicy) -> Snapshot:
    """Clean up; return the same version."""
    objects = ObjectReader(snapshot.session, snapshot.table)
    await cleanup.cleanup(snapshot.engine, snapshot.table, choice, objects=objects)
    return snapshot


def _file_bytes(segments: Iterable[table_pb2.IndexMetadata]) -> int:
    """Return the bytes of the segments' files, as far as their records have sizes."""
    return sum(file.size_bytes for segment in segments for file in segment.files)


MAINTENANCE_STEPS: Final[tuple[Judge, ...]] = (_remap, _expire, _compact, _indices, _cleanup)
