"""Reading many small fragments: whole files, one request each, decoded many to a job.

A scan looks at the end of a file, then at its page tables, then at its pages. Of a small file that
is read as a whole anyway one request does; its plan is then driven over the bytes by a thread, so
that neither the store nor the event loop is asked again.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from alance.errors import AlanceError
from alance.file.fragment import FragmentTask, open_fragment
from alance.file.grouped import group_key, read_together
from alance.file.older import holds_packed_lists
from alance.file.states import OwnStates
from alance.file.whole import leaves_of, pages_of
from alance.format.plans import ByteRange, cut
from alance.io.readahead import Job, in_turn, readahead
from alance.ops.read.groups import (
    GROUP_BYTES,
    GROUP_FRAGMENTS,
    SMALL_ROWS,
    file_bytes,
    fixed_row_bytes,
    is_small,
)
from alance.ops.read.rows import select
from alance.ops.read.scan import AHEAD_LOCAL, AHEAD_REMOTE, scan

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Iterator, Mapping, Sequence

    from alance.file.fragment import Found, OpenFragment
    from alance.format.plans import Plan, T
    from alance.format.schema import Schema
    from alance.ops.read.rows import ScanPlan
    from alance.ops.version.handle import FragmentHandle
    from alance.ops.version.snapshot import Snapshot


async def rows_in_order(snapshot: Snapshot, plan: ScanPlan) -> AsyncGenerator[pa.RecordBatch, None]:
    """The batches of a scan without a filter: runs of small fragments as above, others scanned.

    Args:
        plan: its handles are prepared.
    """
    cut = await snapshot.engine.pool.run(lambda: _runs(plan))
    for small, groups in cut:
        if small:
            batches = _small(snapshot, plan, groups)
        else:
            handles = [handle for group in groups for handle in group]
            batches = scan(snapshot, replace(plan, handles=handles))
        async with aclosing(batches):
            async for batch in batches:
                yield batch


def _runs(plan: ScanPlan) -> list[tuple[bool, list[Sequence[FragmentHandle]]]]:
    """Runs of small and of other fragments, those of small ones in groups; CPU work."""
    row_bytes = fixed_row_bytes(plan.first_schema)
    runs: list[tuple[bool, list[Sequence[FragmentHandle]]]] = []
    for small, run in groupby(plan.handles, lambda handle: is_small(handle, row_bytes)):
        runs.append((small, list(_groups(list(run)))))
    return runs


@dataclass(frozen=True, slots=True)
class _Group:
    """Neighbours that are read and decoded together, and the bytes of their files by location."""

    handles: Sequence[FragmentHandle]
    contents: Mapping[str, memoryview]


async def _small(
    snapshot: Snapshot, plan: ScanPlan, groups: Sequence[Sequence[FragmentHandle]]
) -> AsyncGenerator[pa.RecordBatch, None]:
    """The batches of small fragments, fetched ahead by bytes, decoded ahead by number."""
    engine, options = snapshot.engine, plan.options
    budget = options.io_buffer_bytes or min(
        snapshot.session.io_buffer_bytes, AHEAD_REMOTE if snapshot.is_remote else AHEAD_LOCAL
    )
    jobs = (
        Job(sum(map(file_bytes, handles)), partial(_fetch, snapshot, handles)) for handles in groups
    )
    fetched = readahead(jobs, budget_bytes=budget, max_jobs=64)

    async def decodes() -> AsyncGenerator[Awaitable[pa.RecordBatch | None], None]:
        async with aclosing(fetched):
            async for group in fetched:
                yield engine.pool.run(partial(_decode, plan, group))

    ahead = snapshot.session.decode_threads
    async with aclosing(in_turn(decodes(), ahead)) as found:
        async for batch in found:
            if batch is not None:
                yield batch


def _groups(handles: Sequence[FragmentHandle]) -> Iterator[Sequence[FragmentHandle]]:
    """Neighbours of some MiB together."""
    group: list[FragmentHandle] = []
    num_bytes = rows = 0
    for handle in handles:
        group.append(handle)
        num_bytes += file_bytes(handle)
        rows += handle.num_physical_rows
        if num_bytes >= GROUP_BYTES or rows >= SMALL_ROWS or len(group) == GROUP_FRAGMENTS:
            yield group
            group, num_bytes, rows = [], 0, 0
    if group:
        yield group


async def _fetch(snapshot: Snapshot, handles: Sequence[FragmentHandle]) -> _Group:
    sources = [source for handle in handles for source in handle.sources]
    wanted = [ByteRange(one.location, 0, one.file_bytes) for one in sources]
    contents = await snapshot.engine.scheduler.read(wanted, reason="compaction", bulk=True)
    places = [one.location for one in sources]
    return _Group(handles, dict(zip(places, contents, strict=True)))


def _decode(plan: ScanPlan, group: _Group) -> pa.RecordBatch | None:
    """The live rows of a group; CPU work.

    Pages of one field are decoded one after the other, and assembled once for all fragments.
    """
    batches = [
        task.decode()
        for handles in _alike(group.handles)
        for task in _together(plan.first_schema, handles, group) or _each(plan, handles, group)
    ]
    batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    handles = group.handles
    masks = [handle.live_mask(0, handle.num_physical_rows) for handle in handles]
    if any(mask is not None for mask in masks):
        live = [
            np.ones(handle.num_physical_rows, np.bool_) if mask is None else mask
            for handle, mask in zip(handles, masks, strict=True)
        ]
        mask = np.concatenate(live)
        batch = select(batch, mask, np.flatnonzero(mask))
    return plan.projection.apply(batch) if batch.num_rows else None


def _alike(handles: Sequence[FragmentHandle]) -> Iterator[list[FragmentHandle]]:
    """Runs of fragments whose files have the same columns."""
    run: list[FragmentHandle] = []
    columns: list[dict[int, int]] = []
    for handle in handles:
        mine = [source.columns for source in handle.sources]
        if run and mine != columns:
            yield run
            run = []
        run.append(handle)
        columns = mine
    yield run


def _together(
    schema: Schema, handles: Sequence[FragmentHandle], group: _Group
) -> list[FragmentTask] | None:
    """The rows of fragments whose files have the same columns, as one; None: one by one."""
    rows = np.array([handle.num_physical_rows for handle in handles], np.int64)
    leaves: dict[int, Found] = {}
    for number, first in enumerate(handles[0].sources):
        mine = leaves_of(schema, first.columns)
        if holds_packed_lists(schema.fields, first.columns):
            return None
        if not mine:
            continue
        sources = [handle.sources[number] for handle in handles]
        contents = [group.contents[source.location] for source in sources]
        found = pages_of(mine, sources, contents, rows)
        if found is None or not leaves.keys().isdisjoint(found):
            return None
        leaves |= found
    return [FragmentTask(schema, int(rows.sum()), leaves)]


def _each(
    plan: ScanPlan, handles: Sequence[FragmentHandle], group: _Group
) -> Iterator[FragmentTask]:
    """The rows of fragments of any kind, opened one by one."""
    opened: list[OpenFragment] = []
    for handle in handles:
        rows = handle.num_physical_rows
        try:
            opening = open_fragment(plan.first_schema, handle.sources, rows, OwnStates())
            opened.append(_run(opening, group.contents))
        except AlanceError as error:
            error.add_note(f"in fragment {handle.id}")
            raise
    for key, run in groupby(opened, group_key):
        if key is not None:
            yield _run(read_together(list(run)), group.contents)
        else:
            for one in run:
                yield _run(one.read(0, one.num_rows, OwnStates()), group.contents)


def _run(plan: Plan[T], contents: Mapping[str, memoryview]) -> T:
    """The result of a plan over whole files."""
    try:
        wanted = next(plan)
        while True:
            wanted = plan.send([cut(one, contents[one.path]) for one in wanted])
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        plan.close()
