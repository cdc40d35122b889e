"""Reading many small fragments: whole files, one request each, decoded many to a job.

A scan looks at the end of a file, then at its page tables, then at its pages. Of a small file that
is read as a whole anyway one request does; its plan is then driven over the bytes by a thread, so
that neither the store nor the event loop is asked again.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from alance.errors import AlanceError
from alance.file.fragment import open_fragment
from alance.file.grouped import group_key, read_together
from alance.format.plans import ByteRange, cut
from alance.io.readahead import Job, readahead
from alance.ops.rows import select
from alance.ops.scan import AHEAD_LOCAL, AHEAD_REMOTE, scan
from alance.ops.scan_small import (
    GROUP_BYTES,
    GROUP_FRAGMENTS,
    SMALL_ROWS,
    file_bytes,
    fixed_row_bytes,
    is_small,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Hashable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from alance.file.fragment import FragmentTask, OpenFragment
    from alance.format.plans import Plan, T
    from alance.ops.handle import FragmentHandle
    from alance.ops.rows import ScanPlan
    from alance.ops.snapshot import Snapshot


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
    pending: list[asyncio.Task[pa.RecordBatch | None]] = []
    try:
        fetched = readahead(jobs, budget_bytes=budget, max_jobs=64)
        async with aclosing(fetched):
            async for group in fetched:
                work = partial(_decode, plan, group)
                pending.append(asyncio.ensure_future(engine.pool.run(work)))
                if len(pending) > snapshot.session.decode_threads:
                    batch = await pending.pop(0)
                    if batch is not None:
                        yield batch
        while pending:
            batch = await pending.pop(0)
            if batch is not None:
                yield batch
    finally:
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)


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
    tasks: list[FragmentTask] = []
    masks: list[npt.NDArray[np.bool_] | None] = []
    opened: list[OpenFragment] = []
    for handle in group.handles:
        rows = handle.num_physical_rows
        try:
            opening = open_fragment(plan.first_schema, handle.sources, rows, _Own())
            opened.append(_run(opening, group.contents))
        except AlanceError as error:
            error.add_note(f"in fragment {handle.id}")
            raise
        masks.append(handle.live_mask(0, rows))
    for key, run in groupby(opened, group_key):
        if key is not None:
            tasks.append(_run(read_together(list(run)), group.contents))
        else:
            tasks += [_run(one.read(0, one.num_rows, _Own()), group.contents) for one in run]
    batches = [task.decode() for task in tasks]
    batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    if any(mask is not None for mask in masks):
        live = [
            np.ones(one.num_rows, np.bool_) if mask is None else mask
            for one, mask in zip(opened, masks, strict=True)
        ]
        mask = np.concatenate(live)
        batch = select(batch, mask, np.flatnonzero(mask))
    return plan.projection.apply(batch) if batch.num_rows else None


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


class _Own:
    """What a plan learns of the files of one fragment; the caches are left alone."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}

    def peek(self, key: Hashable) -> Any | None:
        return self._known.get(key)

    def put(self, key: Hashable, value: Any, num_bytes: int) -> None:
        self._known[key] = value
