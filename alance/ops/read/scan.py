"""Scans: fragments are cut into splits, which are fetched ahead and decoded in the pool.

A *split* is decoded by one pool job: rows of one fragment, or all rows of consecutive small
fragments. A *span* is fetched at once: one split of small fragments, or splits of one fragment with
as many bytes as suit the store. Splits and spans are in row order. Fragments are opened in
*windows*, with a round for footers and a round for page tables. The next window is opened while the
current one is read.

A scan with a filter reads all rows of a span, or takes the rows from indices. A compaction scans
without a filter, and reads files of small fragments whole, without opening them.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections import deque
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from alance.file.batches import one_batch
from alance.file.open.columns import SMALL_BYTES, ScanStates
from alance.file.open.tracing import describe
from alance.file.rows.fragment import open_fragments
from alance.file.rows.leaves import LeafSet
from alance.format.plans import joined_spans, together
from alance.io.loop.readahead import Job, grouped, in_turn, readahead
from alance.io.loop.tasks import all_of
from alance.ops.read.groups import (
    FragmentGroup,
    Split,
    file_bytes,
    fixed_row_bytes,
    is_small,
    small_groups,
    with_neighbours,
)
from alance.ops.read.late import SplitReader
from alance.ops.read.physical_rows import PhysicalRows, opened_fragments, prepare_take, prepared
from alance.ops.read.plan import at_once, in_large_batches, plan_scan, restricted, without

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Iterable, Iterator, Sequence

    from alance.file.rows.fragment import OpenFragment
    from alance.io.reading.engine import Engine
    from alance.ops.read.late import Rest, Rows
    from alance.ops.read.options import ScanOptions
    from alance.ops.read.rows import ChosenRows, ScanPlan
    from alance.ops.version.projection import Columns
    from alance.ops.version.snapshot import FragmentHandle, Snapshot

    Window: TypeAlias = tuple[SplitReader, Sequence[FragmentHandle]]


_SCAN_ROW_BYTES = attrgetter("row_bytes")
WINDOW: Final = 64  # fragments opened at once: their footers fit in one wave of requests
SCAN_PART_BYTES: Final = 16 << 20  # encoded; 10 to 20 ms of decoding, so calls cost little
PART_DECODED_BYTES: Final = 32 << 20
# Minimum encoded bytes of a split, for a scan with a small read-ahead.
LEAST_SCAN_PART_BYTES: Final = 1 << 20
PART_ROWS: Final = 128 << 10
MIN_SCAN_PART_ROWS: Final = 1024
# Limits of a take of picked rows.
PICKED_ROWS: Final = 8192
PICKED_BYTES: Final = 8 << 20
NARROW_PARTS: Final = 4  # factor for `PART_ROWS` if late columns are narrow
NARROW_BYTES: Final = 64  # maximum bytes per row of narrow late columns
# Maximum bytes of page tables that a scan caches, so that the next one saves a round. More would
# evict those of takes.
SHARED_PAGE_TABLE_BYTES: Final = 32 << 20
# Work per check and fragment, as bytes to decode; six fragments take 0.15 ms, as long as a hop.
PRUNING_BYTES: Final = 8 << 10


async def scanned(
    snapshot: Snapshot,
    columns: Columns,
    options: ScanOptions,
    *,
    rows: ChosenRows | None = None,
    flat: bool = True,
    is_large: bool = False,
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Plan a scan and yield its batches; cost and errors are those of `plan_scan` and `scan`.

    Args:
        rows: physical rows to scan; None: all rows.
        flat: see `plan_scan`.
        is_large: True to return large batches of narrow rows; see `in_large_batches`.
    """
    # An offset and a limit are of the chosen rows, so the plan of all rows must not apply them.
    whole = options if rows is None else replace(options, limit=None, offset=None)
    plan = await plan_scan(snapshot, columns, whole, flat=flat)
    if rows is not None:
        plan = replace(restricted(plan, rows), options=options)
    async with aclosing(scan(snapshot, in_large_batches(plan) if is_large else plan)) as batches:
        async for batch in batches:
            yield batch


async def scan(snapshot: Snapshot, plan: ScanPlan) -> AsyncGenerator[pa.RecordBatch, None]:
    """Yield the batches of a scan, in row order unless the options allow any order.

    Cost: a round for footers and a round for page tables per 64 fragments; then the bytes of pages,
    in requests of up to 16 MiB that run ahead of the consumer within the budget. Rows from indices
    need no page tables. Late columns take another round, unless all columns are read at once.
    """
    output, windows = RowWindow(plan.options, is_cut=plan.is_cut), await _windows(snapshot, plan)
    opening: asyncio.Task[AsyncGenerator[Rows, None]] | None = None
    try:
        window = next(windows, None)
        while window is not None and not output.is_full:
            outputs = await (opening or _open(*window))
            opening, following = None, next(windows, None)
            if following is not None:
                opening = asyncio.ensure_future(_open(*following))
            async with aclosing(outputs):
                async for rows in outputs:
                    # Several steps if the rows do not fit into one batch.
                    steps: deque[Rows | Rest] = deque([rows])
                    while steps and not output.is_full:
                        step = steps.popleft()
                        if isinstance(step, list):
                            steps.extendleft(reversed(step))
                        elif callable(step):
                            steps.appendleft(await step())
                        elif step is not None:
                            for piece in output.cut(step):
                                yield piece
                    if output.is_full:
                        break
            window = following
        for piece in output.rest():
            yield piece
    finally:
        if opening is not None:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)


async def _windows(snapshot: Snapshot, plan: ScanPlan) -> Iterator[Window]:
    """Return the windows of a scan, in order: groups of fragments to open together.

    Three kinds of fragments are in separate windows: scanned ones, those with rows from an index,
    and small ones whose files are read completely. Windows of the last kind have no size limit,
    because their fragments are not opened.
    """
    at_a_time = _ahead(snapshot, plan) + 1
    reader = SplitReader(snapshot, plan, at_a_time)
    if plan.reads_files_whole:
        row_bytes = fixed_row_bytes(plan.first_schema)

        def runs() -> list[tuple[bool, list[FragmentHandle]]]:
            by_size = itertools.groupby(plan.handles, lambda handle: is_small(handle, row_bytes))
            return [(small, list(run)) for small, run in by_size]

        return _cut([(reader, run, small) for small, run in await snapshot.engine.pool.run(runs)])
    if len(plan.picked) in (0, len(plan.handles)):
        return _cut([(reader, plan.handles, False)])
    is_sure = plan.picked_by is not None
    first, late = at_once(plan.first_schema, plan.late_schema, plan.picked, is_sure=is_sure)
    taker = SplitReader(snapshot, replace(plan, first_schema=first, late_schema=late), at_a_time)
    by_index = itertools.groupby(plan.handles, lambda handle: handle.id in plan.picked)
    return _cut((taker if picked else reader, list(run), False) for picked, run in by_index)


def _cut(runs: Iterable[tuple[SplitReader, Sequence[FragmentHandle], bool]]) -> Iterator[Window]:
    """Cut runs of fragments into windows, except runs whose files are read completely."""
    for reader, handles, is_whole in runs:
        step = len(handles) if is_whole else WINDOW
        for start in range(0, len(handles), step):
            yield reader, handles[start : start + step]


async def _open(
    reader: SplitReader, handles: Sequence[FragmentHandle]
) -> AsyncGenerator[Rows, None]:
    """Open the fragments of a window, and return its output rows, which are read when iterated.

    Spans are fetched ahead, and splits are decoded ahead. Picked rows are taken ahead.
    """
    ahead = partial(
        readahead,
        budget_bytes=reader.ahead_bytes,
        max_jobs=64,
        ordered=reader.plan.options.scan_in_order,
    )
    if handles[0].id in reader.plan.picked:
        return ahead(await _takes(reader, handles))
    spans = ahead(_jobs(reader, await _groups(reader, handles)))
    return in_turn(_finishing(reader, spans), _ahead(reader.snapshot, reader.plan))


async def _groups(reader: SplitReader, handles: Sequence[FragmentHandle]) -> list[FragmentGroup]:
    """Open fragments together: first footers and deletion vectors, then page tables."""
    snapshot, plan = reader.snapshot, reader.plan
    engine, row_bytes = snapshot.engine, fixed_row_bytes(plan.first_schema)
    if plan.reads_files_whole and is_small(handles[0], row_bytes):
        sizes = [*map(file_bytes, handles)]
        return await engine.pool.run(lambda: [*small_groups(handles, [], sizes, engine.cache)])
    shared = SHARED_PAGE_TABLE_BYTES // len(plan.handles) if snapshot.is_remote else 0
    all_states = [ScanStates(engine.cache, shared_bytes=shared) for _ in handles]
    await snapshot.resolve_sizes(handles)
    await snapshot.recall(handles)
    to_open = [handle.to_open(states) for handle, states in zip(handles, all_states, strict=True)]
    opened = await prepared(snapshot, handles, open_fragments(plan.first_schema, to_open))
    describe(opened)
    spans = await needed_spans(engine, plan, handles, opened)
    single = [
        FragmentGroup([handle], [fragment], states, needed)
        for handle, fragment, states, needed in zip(handles, opened, all_states, spans, strict=True)
        if needed
    ]
    groups = await reader.open_late(list(with_neighbours(single, row_bytes)))
    if snapshot.is_remote:  # because for open local files, decode jobs load the page tables
        loads = [
            load
            for group in groups
            if not group.is_small
            for load in group.page_states(
                [*itertools.chain.from_iterable(map(joined_spans, _parts(reader, group)))]
            )
        ]
        await engine.drive_all(loads, "page tables")
    return groups


async def _takes(reader: SplitReader, handles: Sequence[FragmentHandle]) -> list[Job[Rows]]:
    """Return takes of the live rows that are picked; a job returns the output rows."""
    snapshot, columns, picked = reader.snapshot, reader.first_columns, reader.plan.picked
    await snapshot.recall(handles)
    await prepare_take(snapshot, handles, columns.schema)
    live = [handle.live_of(picked[handle.id]) for handle in handles]
    rows = PhysicalRows(handles, np.concatenate(live), [*itertools.accumulate(map(len, live))])
    sizes = [file_bytes(own) / max(1, own.num_physical_rows) for own in handles]
    row_bytes = max(fixed_row_bytes(columns.schema), *sizes)
    if rows.num_rows * row_bytes > PICKED_BYTES:  # the files may have many other columns
        plan = opened_fragments(snapshot.engine.cache, handles, columns)
        row_bytes = max(map(_SCAN_ROW_BYTES, await snapshot.engine.drive(plan, "open files")))
    step = max(1, min(PICKED_ROWS, int(PICKED_BYTES / max(1.0, row_bytes))))
    jobs = []
    for part in rows.ranges(max(1, -(-rows.num_rows // step))):
        rest: Rest = partial(reader.take, part)
        if reader.plan.projection.is_computed:
            rest = partial(reader.computed, rest)
        jobs.append(Job(int(row_bytes * part.num_rows), rest))
    return jobs


async def needed_spans(
    engine: Engine,
    plan: ScanPlan,
    handles: Sequence[FragmentHandle],
    opened: Sequence[OpenFragment],
) -> Sequence[Sequence[tuple[int, int]]]:
    """Return the spans of rows of open fragments that statistics do not rule out."""
    spans = [plan.spans_of(handle) for handle in handles]
    pruner = plan.pruner
    if pruner is None:
        return spans
    if all(handle.id in pruner.needed for handle in handles):
        return [pruner.needed[handle.id] for handle in handles]
    pairs = zip(handles, opened, strict=True)
    plans = [pruner.read(handle, fragment, engine.cache) for handle, fragment in pairs]
    zones = await engine.drive(together(plans), "statistics")
    num_asked = pruner.num_checks * sum(zone is not None for zone in zones)
    needed = await engine.decode(lambda: pruner.spans(zones, spans), PRUNING_BYTES * num_asked)
    pruner.needed.update(zip((handle.id for handle in handles), needed, strict=True))
    return needed


async def with_statistics(snapshot: Snapshot, plan: ScanPlan) -> ScanPlan:
    """Restrict a plan with a pruner to the rows that statistics of files do not rule out.

    Cost: a round for footers, and a round for statistics, of all fragments whose rows are not from
    indices.
    """
    engine = snapshot.engine
    handles = [handle for handle in plan.handles if handle.id not in plan.picked]

    async def needed(window: Sequence[FragmentHandle]) -> Sequence[Sequence[tuple[int, int]]]:
        await snapshot.resolve_sizes(window)
        opening = [handle.to_open(ScanStates(engine.cache)) for handle in window]
        opened = await engine.drive(open_fragments(plan.first_schema, opening), "open files")
        return await needed_spans(engine, plan, window, opened)

    windows = [handles[start : start + WINDOW] for start in range(0, len(handles), WINDOW)]
    read = itertools.chain.from_iterable(await all_of(map(needed, windows)))
    spans = {**plan.spans, **dict(zip((handle.id for handle in handles), read, strict=True))}
    empty = {number for number, own in spans.items() if not own}
    rest = {number: own for number, own in spans.items() if own}
    return replace(plan, handles=without(plan.handles, empty), spans=rest)


async def _finishing(
    reader: SplitReader, spans: AsyncGenerator[Sequence[Rest], None]
) -> AsyncGenerator[Awaitable[Rows], None]:
    """Yield the remaining steps of each split."""
    is_computed = reader.plan.projection.is_computed
    async with aclosing(spans):
        async for splits in spans:
            pending = deque(splits)
            del splits  # so that their bytes do not stay in memory until the next span arrives
            while pending:
                rest = pending.popleft()
                yield reader.computed(rest) if is_computed else rest()


def _ahead(snapshot: Snapshot, plan: ScanPlan) -> int:
    """Return the number of splits to decode concurrently."""
    return plan.options.batch_readahead or snapshot.session.decode_threads + 1


def _jobs(reader: SplitReader, groups: Sequence[FragmentGroup]) -> Iterator[Job[Sequence[Rest]]]:
    """Yield a job for each span, which does the steps that may run before the span's turn."""
    for group in groups:
        if group.is_small:
            yield reader.job([Split(group, *group.spans[0])], group.num_bytes)
            continue
        row_bytes = _row_bytes(group)
        for parts in _parts(reader, group):
            num_rows = sum(stop - start for start, stop in parts)
            yield reader.job([Split(group, *part) for part in parts], int(row_bytes * num_rows))


def _row_bytes(group: FragmentGroup) -> float:
    (fragment,) = group.opened
    return fragment.encoded_bytes / max(1, fragment.num_rows)


def _parts(reader: SplitReader, group: FragmentGroup) -> Iterator[list[tuple[int, int]]]:
    """Yield the spans to fetch from an open fragment; a span is a list of parts to decode."""
    part_rows = _part_rows(reader, group)
    return _cut_spans(group.spans, part_rows, _fetched_rows(reader, group, part_rows))


def _fetched_rows(reader: SplitReader, group: FragmentGroup, part_rows: int) -> int:
    """Return the number of rows to fetch at once: a multiple of `part_rows`, or whole pages.

    A part with many columns has few bytes of each column. So that requests are worth their cost,
    more rows are fetched then: up to half of the read-ahead, or complete pages if they are small.
    """
    (fragment,), profile = group.opened, reader.snapshot.table.store.profile
    row_bytes, ahead_bytes = max(_row_bytes(group), 1e-9), reader.ahead_bytes
    num_columns = len(fragment.containers)
    if not profile.is_remote or num_columns * profile.take_gap <= profile.span_bytes:
        return part_rows * int(min(64, max(1, profile.span_bytes // (row_bytes * part_rows))))
    most_bytes = min(num_columns * profile.take_gap, ahead_bytes // 2)
    num_rows = max(part_rows, int(most_bytes / row_bytes) // part_rows * part_rows)
    page_rows = fragment.page_rows
    if page_rows <= num_rows:
        return num_rows // page_rows * page_rows
    page_bytes = page_rows * row_bytes
    is_small = page_bytes <= min(ahead_bytes, num_columns * SMALL_BYTES)
    return page_rows if is_small else num_rows


def _has_narrow_late(plan: ScanPlan) -> bool:
    """Return True if late columns have only a few bytes per row."""
    if plan.late_schema is None:
        return False
    widths = LeafSet.of_schema(plan.late_schema).row_bytes
    return min(widths) > 0 and sum(widths) <= NARROW_BYTES


def _part_rows(reader: SplitReader, group: FragmentGroup) -> int:
    """Return the rows per split: some MiB encoded, a multiple of the batch size if possible.

    A split has at most the bytes of the read-ahead, because several splits are decoded
    concurrently.
    """
    (fragment,), options, most = group.opened, reader.plan.options, PART_ROWS
    if not reader.snapshot.is_remote and _has_narrow_late(reader.plan):
        most *= NARROW_PARTS
    batch_size, ahead_bytes = options.batch_size, options.io_buffer_bytes
    part_bytes, part_decoded_bytes = SCAN_PART_BYTES, PART_DECODED_BYTES
    if ahead_bytes is not None:
        part_bytes = min(part_bytes, max(ahead_bytes, LEAST_SCAN_PART_BYTES))
        part_decoded_bytes = min(part_decoded_bytes, part_bytes)
    by_encoded = max(MIN_SCAN_PART_ROWS, part_bytes / max(_row_bytes(group), 1e-9))
    by_decoded = max(1, part_decoded_bytes / max(fragment.row_bytes, 1e-9))
    rows = int(min(most, by_encoded, by_decoded))
    if batch_size is None or batch_size > rows:
        return max(batch_size or 0, 1 << max(0, rows.bit_length() - 1))
    return rows // batch_size * batch_size


def _cut_spans(
    spans: Sequence[tuple[int, int]], part_rows: int, group_rows: int
) -> Iterator[list[tuple[int, int]]]:
    """Cut spans into parts, and yield groups of parts with up to `group_rows` rows."""

    def cut(first: int, last: int, rows: int) -> list[tuple[int, int]]:
        return [(start, min(last, start + rows)) for start in range(first, last, rows)]

    runs = (run for span in spans for run in cut(*span, group_rows))
    parts = (part for run in runs for part in cut(*run, part_rows))
    return grouped(parts, lambda part: part[1] - part[0], group_rows)


class RowWindow:
    """Window over a stream: `limit` rows from `offset` on, in batches of the options' size.

    Args:
        is_cut: True if the stream has only these rows.
    """

    def __init__(self, options: ScanOptions, *, is_cut: bool) -> None:
        self.options = options
        self.skip = 0 if is_cut else options.offset or 0
        self.limit = sys.maxsize if is_cut or options.limit is None else options.limit
        self._short: list[pa.RecordBatch] = []  # pending rows, if batches need an exact size

    @property
    def is_full(self) -> bool:
        """True if no more rows are needed."""
        return self.limit == 0

    def cut(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the needed rows of the next batch in pieces, as views unless the size is strict."""
        skipped = min(self.skip, batch.num_rows)
        self.skip -= skipped
        num_rows = min(batch.num_rows - skipped, self.limit)
        self.limit -= num_rows
        if num_rows == 0:
            return
        if skipped or num_rows < batch.num_rows:
            batch = batch.slice(skipped, num_rows)
        if self.options.strict_batch_size:
            yield from self._fill(batch)
            return
        step = self.options.batch_size or num_rows
        most = self.options.batch_size_bytes
        if most is not None and (num_bytes := batch.nbytes) > most:
            step = min(step, max(1, num_rows * most // num_bytes))
        if step >= num_rows:
            yield batch
            return
        for start in range(0, num_rows, step):
            yield batch.slice(start, step)

    def _fill(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield batches of exactly the requested size; remaining rows wait for the next batch."""
        size = self.options.batch_size or 0
        self._short.append(batch)
        num_rows = sum(part.num_rows for part in self._short)
        if num_rows < size:
            return
        table, whole = pa.Table.from_batches(self._short), num_rows // size * size
        self._short = table.slice(whole).to_batches() if whole < num_rows else []
        for start in range(0, whole, size):
            yield one_batch(table.slice(start, size).to_batches())

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the pending rows as the last batch; nothing if there are none."""
        parts, self._short = self._short, []
        if parts:
            yield one_batch(parts)


def cut_table(table: pa.Table, options: ScanOptions) -> Iterator[pa.RecordBatch]:
    """Yield a table in batches of the options' size, without applying offset and limit."""
    window = RowWindow(options, is_cut=True)
    for batch in table.to_batches():
        yield from window.cut(batch)
    yield from window.rest()
