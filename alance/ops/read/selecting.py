"""Selection of rows by statistics before a scan, for callers that distribute the scan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from alance.file.open.recall import ScanStates
from alance.file.rows.fragment import open_fragments
from alance.io.loop.tasks import all_of
from alance.ops.read.plan import without
from alance.ops.read.scan import WINDOW, needed_spans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.ops.read.rows import ScanPlan
    from alance.ops.version.snapshot import FragmentHandle, Snapshot


async def with_statistics(snapshot: Snapshot, plan: ScanPlan) -> ScanPlan:
    """Restrict a plan with a pruner to the rows that statistics of files do not rule out.

    Cost: a round for footers, and a round for statistics, of all fragments whose rows are not from
    indices.
    """
    handles = [handle for handle in plan.handles if handle.id not in plan.picked]
    windows = [handles[start : start + WINDOW] for start in range(0, len(handles), WINDOW)]
    needed = await all_of(_needed(snapshot, plan, window) for window in windows)
    spans = dict(plan.spans)
    for window, of_window in zip(windows, needed, strict=True):
        spans.update(zip((handle.id for handle in window), of_window, strict=True))
    empty = {number for number, own in spans.items() if not own}
    rest = {number: own for number, own in spans.items() if own}
    return replace(plan, handles=without(plan.handles, empty), spans=rest)


async def _needed(
    snapshot: Snapshot, plan: ScanPlan, handles: Sequence[FragmentHandle]
) -> Sequence[Sequence[tuple[int, int]]]:
    engine = snapshot.engine
    await snapshot.resolve_sizes(handles)
    opening = [handle.to_open(ScanStates(engine.cache, shared_bytes=0)) for handle in handles]
    opened = await engine.drive(open_fragments(plan.first_schema, opening), "open files")
    return await needed_spans(engine, plan, handles, opened)
