"""Scans: fragments cut into spans of rows, fetched ahead under a budget, decoded in the pool.

A *span* is what is fetched at once; its size suits the store. A *part* of it is what one pool job
decodes. Both are row ranges of one fragment, in order. The fragments are opened in windows, the
next window while the current one is read: footers in one round, page tables in another.
"""

from __future__ import annotations

import asyncio
import itertools
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from alance.file.fragment import open_fragment
from alance.file.states import ScanStates
from alance.file.tracing import describe
from alance.format.plans import together
from alance.io.readahead import Job, in_turn, readahead
from alance.ops.read.groups import group_jobs, grouping
from alance.ops.read.late import LateScan
from alance.ops.read.parts import fetch, parts_at_once
from alance.ops.read.picked import read_picked
from alance.ops.read.window import RowWindow

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Iterator, Sequence

    import pyarrow as pa

    from alance.file.fragment import OpenFragment
    from alance.format.plans import Plan
    from alance.io.engine import Engine
    from alance.ops.read.groups import AnyPart
    from alance.ops.read.pruning import FragmentZones
    from alance.ops.read.rows import ScanPlan
    from alance.ops.version.snapshot import FragmentHandle, Snapshot

WINDOW: Final = 64  # fragments opened at once: as many footers as one wave of requests holds
SPAN_BYTES_REMOTE: Final = 16 << 20  # about 1 MiB a column of 16: bandwidth over latency
SPAN_BYTES_LOCAL: Final = 8 << 20  # latency is microseconds; a part is a span
AHEAD_REMOTE: Final = 128 << 20  # 100 ms at 1.3 GB/s, the most that was seen of a store
AHEAD_LOCAL: Final = 32 << 20  # a disk is never far: more would only hold memory
PART_BYTES: Final = 16 << 20  # encoded; 10 to 20 ms of decoding, in which calls cost little
PART_DECODED_BYTES: Final = 32 << 20
PART_ROWS: Final = 128 << 10
MIN_ROWS: Final = 1024
# Page tables that the search cache gets, so that the next scan saves a round; those of takes stay.
SHARED_BYTES: Final = 32 << 20
PRUNING_BYTES: Final = 64 << 10  # the work of asking statistics, as bytes to decode


@dataclass(frozen=True, slots=True)
class OpenSource:
    """A fragment ready to be scanned."""

    handle: FragmentHandle
    fragment: OpenFragment
    states: ScanStates
    spans: Sequence[tuple[int, int]]  # physical rows to read, ascending
    is_small: bool  # read together with its neighbours
    late: OpenFragment | None = None  # with its late columns, where they are opened beforehand
    eager_stop: int = 0  # of the rows before this one all columns are read at once

    def part_rows(self, batch_size: int | None, most: int = PART_ROWS) -> int:
        """Rows of a part: some MiB encoded, a multiple of the batch size where that fits."""
        encoded = self.fragment.encoded_bytes / max(1, self.fragment.num_rows)
        decoded = self.fragment.row_bytes
        least = min(MIN_ROWS, max(1, int(PART_DECODED_BYTES / max(decoded, 1e-9))))
        rows = int(
            min(
                most,
                max(MIN_ROWS, PART_BYTES / max(encoded, 1e-9)),
                max(least, PART_DECODED_BYTES / max(decoded, 1e-9)),
            )
        )
        if batch_size is None or batch_size > rows:
            return max(batch_size or 0, 1 << max(0, rows.bit_length() - 1))
        return rows // batch_size * batch_size

    def span_parts(self, part_rows: int, *, remote: bool) -> int:
        """How many parts are fetched at once."""
        per_row = self.fragment.encoded_bytes / max(1, self.fragment.num_rows)
        span_bytes = SPAN_BYTES_REMOTE if remote else SPAN_BYTES_LOCAL
        return int(min(64, max(1, span_bytes // max(1.0, per_row * part_rows))))


async def scan(snapshot: Snapshot, plan: ScanPlan) -> AsyncGenerator[pa.RecordBatch, None]:
    """The batches of a scan, in order unless asked otherwise.

    Cost: one round of footers and one of page tables for each 64 fragments, then the pages' bytes
    in requests of up to 16 MiB, ahead of the consumer up to the budget.
    """
    window = RowWindow(plan.options.offset or 0, plan.options.limit)
    async with aclosing(_decoded(snapshot, plan)) as batches:
        async for batch in batches:
            for piece in window.cut(batch, plan.options.batch_size):
                yield piece
            if window.is_full:
                return


async def _decoded(snapshot: Snapshot, plan: ScanPlan) -> AsyncGenerator[pa.RecordBatch, None]:
    windows = _windows(plan)
    late = LateScan.of(snapshot, plan, _ahead(snapshot, plan))
    opening: asyncio.Task[list[OpenSource]] | None = None
    try:
        window = next(windows, None)
        while window is not None:
            opened = await (opening or _open(snapshot, plan, window, late))
            opening, following = None, next(windows, None)
            if following is not None:
                opening = asyncio.ensure_future(_open(snapshot, plan, following, late))
            if window[0].id in plan.picked:
                reading = read_picked(snapshot, plan, window)
            else:
                reading = _read_window(snapshot, plan, opened, late)
            async with aclosing(reading) as batches:
                async for batch in batches:
                    yield batch
            window = following
    finally:
        if opening is not None:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)


def _windows(plan: ScanPlan) -> Iterator[Sequence[FragmentHandle]]:
    """Fragments to open at once, in order: either all of them by an index, or none."""
    if not plan.picked:
        for start in range(0, len(plan.handles), WINDOW):
            yield plan.handles[start : start + WINDOW]
        return
    for _, group in itertools.groupby(plan.handles, lambda handle: handle.id in plan.picked):
        handles = list(group)
        for start in range(0, len(handles), WINDOW):
            yield handles[start : start + WINDOW]


async def _open(
    snapshot: Snapshot,
    plan: ScanPlan,
    handles: Sequence[FragmentHandle],
    late: LateScan | None,
) -> list[OpenSource]:
    """Open fragments together: deletion vectors beside the footers, then the page tables."""
    if handles[0].id in plan.picked:
        return []
    engine = snapshot.engine
    shared = SHARED_BYTES // len(plan.handles) if snapshot.is_remote else 0
    all_states = [ScanStates(engine.cache, shared_bytes=shared) for _ in handles]
    await snapshot.resolve_sizes(handles)
    await snapshot.recall(handles)
    deletions = asyncio.gather(*(handle.deletions() for handle in handles))
    try:
        plans: list[Plan[OpenFragment]] = [
            open_fragment(plan.first_schema, handle.sources, handle.num_physical_rows, states)
            for handle, states in zip(handles, all_states, strict=True)
        ]
        opened: list[OpenFragment] = await engine.drive_all(plans, "open files")
        await deletions
    except BaseException:
        deletions.cancel()
        await asyncio.gather(deletions, return_exceptions=True)
        raise
    small = grouping(plan.first_schema)
    sources = [
        OpenSource(handle, fragment, states, spans, small(handle, fragment, spans))
        for handle, fragment, states, spans in zip(
            handles, opened, all_states, await _spans(engine, plan, handles, opened), strict=True
        )
    ]
    loads = [
        source.fragment.load(*span, source.states)
        for source in sources
        if not source.is_small
        for span in source.spans
    ]
    if late is not None:
        sources, more = await late.open(sources)
        loads += more
    for source in sources:
        describe(source.fragment)
    await engine.drive_all(loads, "page tables")
    return sources


async def _spans(
    engine: Engine,
    plan: ScanPlan,
    handles: Sequence[FragmentHandle],
    opened: Sequence[OpenFragment],
) -> Sequence[Sequence[tuple[int, int]]]:
    """The rows of fragments that may be kept: all, or those that statistics do not rule out."""
    spans = [plan.span_of(handle) for handle in handles]
    pruner = plan.pruner
    if pruner is None:
        return [[span] for span in spans]
    if all(handle.id in pruner.kept for handle in handles):
        return [pruner.kept[handle.id] for handle in handles]
    pairs = zip(handles, opened, strict=True)
    plans: list[Plan[FragmentZones | None]] = [
        pruner.read(handle, fragment, engine.cache) for handle, fragment in pairs
    ]
    zones = await engine.drive(together(plans), "statistics")

    def prune() -> list[Sequence[tuple[int, int]]]:
        return [pruner.spans(*pair) for pair in zip(zones, spans, strict=True)]

    found = await engine.decode(prune, PRUNING_BYTES * sum(one is not None for one in zones))
    pruner.kept.update(zip((handle.id for handle in handles), found, strict=True))
    return found


async def _read_window(
    snapshot: Snapshot, plan: ScanPlan, sources: Sequence[OpenSource], late: LateScan | None
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Two pipelines in a row: spans fetched ahead by bytes, parts decoded ahead by number."""
    budget = plan.options.io_buffer_bytes or min(
        snapshot.session.io_buffer_bytes, AHEAD_REMOTE if snapshot.is_remote else AHEAD_LOCAL
    )
    ahead = _ahead(snapshot, plan)
    ordered = plan.options.scan_in_order
    spans = readahead(
        _span_jobs(snapshot, plan, sources, late), budget_bytes=budget, max_jobs=64, ordered=ordered
    )

    async def decodes() -> AsyncGenerator[Awaitable[pa.RecordBatch | None], None]:
        async with aclosing(spans):
            async for parts in spans:
                for part in parts:
                    yield part.decode(snapshot, plan)

    async with aclosing(in_turn(decodes(), ahead)) as found:
        async for batch in found:
            if batch is not None:
                yield batch


def _ahead(snapshot: Snapshot, plan: ScanPlan) -> int:
    """Parts that are decoded at once."""
    return plan.options.batch_readahead or snapshot.session.decode_threads + 1


def _span_jobs(
    snapshot: Snapshot, plan: ScanPlan, sources: Sequence[OpenSource], late: LateScan | None
) -> Iterator[Job[Sequence[AnyPart]]]:
    for small, run in itertools.groupby(sources, lambda source: source.is_small):
        if small:
            jobs = group_jobs(snapshot, [(source.handle, source.fragment) for source in run])
            yield from jobs if late is None else late.finished(jobs)
        else:
            yield from _part_jobs(snapshot, plan, list(run), late)


def _part_jobs(
    snapshot: Snapshot, plan: ScanPlan, sources: Sequence[OpenSource], late: LateScan | None
) -> Iterator[Job[Sequence[AnyPart]]]:
    for source in sources:
        most = PART_ROWS if snapshot.is_remote else PART_ROWS * parts_at_once(plan)
        part_rows = source.part_rows(plan.options.batch_size, most)
        count = source.span_parts(part_rows, remote=snapshot.is_remote)
        per_row = source.fragment.encoded_bytes / max(1, source.fragment.num_rows)
        for parts in _groups(source.spans, part_rows, part_rows * count):
            num_rows = sum(stop - start for start, stop in parts)
            if late is not None:
                yield late.job(source, parts, int(per_row * num_rows))
                continue
            yield Job(
                int(per_row * num_rows),
                lambda source=source, parts=parts: fetch(snapshot, source, parts),  # type: ignore[misc]
            )


def _groups(
    spans: Sequence[tuple[int, int]], part_rows: int, group_rows: int
) -> Iterator[list[tuple[int, int]]]:
    """Spans cut into parts, and parts together up to so many rows."""
    group: list[tuple[int, int]] = []
    num_rows = 0
    for first, last in spans:
        for start in range(first, last, part_rows):
            stop = min(last, start + part_rows)
            if num_rows + stop - start > group_rows:
                yield group
                group, num_rows = [], 0
            group.append((start, stop))
            num_rows += stop - start
    if group:
        yield group
