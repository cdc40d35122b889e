"""Scans of rows that indices gave: taken by place, and asked the filter again."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from alance.errors import CorruptFileError
from alance.file.fragment import open_fragment
from alance.file.tracing import describe
from alance.format.numbers import as_mask
from alance.format.plans import together
from alance.io.readahead import Job, readahead
from alance.io.tasks import all_of
from alance.ops.read.rows import TAKEN_SHARE, finish, select, with_meta
from alance.ops.version.handle import local_files

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from alance.file.fragment import FragmentTask, OpenFragment
    from alance.format.plans import Plan
    from alance.ops.lookup.look_up import IndexUse
    from alance.ops.read.options import ScanOptions
    from alance.ops.read.rows import ScanPlan
    from alance.ops.version.snapshot import FragmentHandle, Snapshot

    Rows = npt.NDArray[np.int64]

FEW_ROWS: Final = 128  # of a fragment, taken by place however small it is
AT_ONCE_ROWS: Final = 4096  # up to here late columns are read together with the filter's
PART_ROWS: Final = 8192
PART_BYTES: Final = 8 << 20
AHEAD_BYTES: Final = 64 << 20


async def with_indices(snapshot: Snapshot, plan: ScanPlan) -> ScanPlan:
    """The plan with the rows that indices give for its filter, where there are some.

    Cost: as of `look_up`.
    """
    if plan.predicate is None or not may_ask(snapshot, plan.options):
        return plan
    from alance.ops.read.filtering import look_up

    use = await look_up(snapshot, plan.predicate, plan.handles)
    return plan if use is None else picking(plan, use)


def may_ask(snapshot: Snapshot, options: ScanOptions) -> bool:
    """Whether a scan with a filter asks indices."""
    return (
        bool(snapshot.manifest.indices)
        and options.use_scalar_index
        and not options.include_deleted_rows
    )


def picking(plan: ScanPlan, use: IndexUse) -> ScanPlan:
    """The plan without the rows that indices rule out.

    Fragments of which many rows are left are scanned, between the first and the last of these.
    """
    rows_of = use.by_fragment()
    handles, picked, spans = [], {}, dict(plan.spans)
    for handle in plan.handles:
        if handle.id in use.covered:
            rows = rows_of.get(handle.id)
            if rows is None:
                continue
            if len(rows) <= max(FEW_ROWS, handle.num_physical_rows // TAKEN_SHARE):
                picked[handle.id] = rows
            else:
                spans[handle.id] = (int(rows[0]), int(rows[-1]) + 1)
        handles.append(handle)
    plan = replace(
        plan,
        handles=handles,
        spans=spans,
        picked=picked,
        picked_by=use.told,
        index_lines=tuple(use.lines),
    )
    return _at_once(plan) if len(picked) == len(handles) else plan


async def read_picked(
    snapshot: Snapshot, plan: ScanPlan, handles: Sequence[FragmentHandle]
) -> AsyncGenerator[pa.RecordBatch, None]:
    """The batches of fragments of which single rows are read.

    Cost: cold a round of footers and deletion vectors, then one of rows; another for late columns
    of many rows.
    """
    plan = _at_once(plan)
    opened = await _open(snapshot, plan, handles)
    jobs = readahead(
        _jobs(snapshot, plan, handles, opened),
        budget_bytes=min(snapshot.session.io_buffer_bytes, AHEAD_BYTES),
        max_jobs=64,
        ordered=plan.options.scan_in_order,
    )
    async with aclosing(jobs):
        async for batch in jobs:
            if batch is not None:
                yield batch


def _at_once(plan: ScanPlan) -> ScanPlan:
    """The plan with all columns read first, where that is for few rows."""
    num_rows = sum(len(rows) for rows in plan.picked.values())
    if plan.late_schema is None or num_rows > AT_ONCE_ROWS:
        return plan
    first = plan.first_schema
    fields = (*first.fields, *plan.late_schema.fields)
    return replace(plan, first_schema=replace(first, fields=fields), late_schema=None)


async def _open(
    snapshot: Snapshot, plan: ScanPlan, handles: Sequence[FragmentHandle]
) -> list[OpenFragment]:
    engine = snapshot.engine
    await snapshot.resolve_sizes(handles)
    await snapshot.recall(handles)
    plans: list[Plan[OpenFragment]] = [
        open_fragment(plan.first_schema, handle.sources, handle.num_physical_rows, engine.cache)
        for handle in handles
    ]
    opening = asyncio.ensure_future(engine.drive(together(plans), "open files"))
    await all_of([opening, *(handle.deletions() for handle in handles)])
    opened = opening.result()
    for one in opened:
        describe(one)
    return opened


def _jobs(
    snapshot: Snapshot,
    plan: ScanPlan,
    handles: Sequence[FragmentHandle],
    opened: Sequence[OpenFragment],
) -> Iterator[Job[pa.RecordBatch | None]]:
    for handle, fragment in zip(handles, opened, strict=True):
        rows = plan.picked[handle.id]
        rows = rows[handle.is_live(rows)]
        step = max(1, min(PART_ROWS, int(PART_BYTES / max(1.0, fragment.row_bytes))))
        for at in range(0, len(rows), step):
            part = rows[at : at + step]
            yield Job(
                int(fragment.row_bytes * len(part)),
                lambda handle=handle, fragment=fragment, part=part: _read(  # type: ignore[misc]
                    snapshot, plan, handle, fragment, part
                ),
            )


async def _read(
    snapshot: Snapshot,
    plan: ScanPlan,
    handle: FragmentHandle,
    fragment: OpenFragment,
    rows: Rows,
) -> pa.RecordBatch | None:
    engine = snapshot.engine
    taking: Plan[FragmentTask] = fragment.take(
        rows, engine.cache, guess=snapshot.is_remote, files=local_files([handle])
    )
    task = await engine.drive(taking, "index rows")
    batch, kept = await engine.pool.run(lambda: _filter(plan, handle, task, rows))
    if batch is None or plan.late_schema is None:
        return batch
    return await finish(snapshot, plan, handle, batch, kept, (int(rows[0]), int(rows[-1]) + 1))


def _filter(
    plan: ScanPlan, handle: FragmentHandle, task: FragmentTask, rows: Rows
) -> tuple[pa.RecordBatch | None, Rows]:
    """The rows for which the filter is true, and their offsets; runs in the pool."""
    assert plan.predicate is not None
    batch = with_meta(task.decode(), handle, rows, plan.meta)
    _check_index(plan, handle, batch, rows)
    mask = as_mask(plan.predicate.mask(batch))
    offsets = np.flatnonzero(mask)
    if len(offsets) < len(rows):
        batch, rows = select(batch, mask, offsets), rows[offsets]
    if not len(rows):
        return None, rows
    return plan.projection.apply(batch) if plan.late_schema is None else batch, rows


def _check_index(plan: ScanPlan, handle: FragmentHandle, batch: pa.RecordBatch, rows: Rows) -> None:
    """Where a row is not what the index says, another one may be missing.

    Raises:
        CorruptFileError: there is such a row.
    """
    if plan.picked_by is None:
        return
    from alance.expr.tree import broadcast

    wrong = np.flatnonzero(~as_mask(broadcast(plan.picked_by.evaluate(batch), len(rows))))
    if len(wrong):
        raise CorruptFileError(
            f"row {rows[wrong[0]]} of fragment {handle.id} is not what an index says of it "
            f"({'; '.join(plan.index_lines)}): make the index again, or scan with "
            "use_scalar_index=False"
        )
