"""Explanations: the requests that a read would make, counted in a dry run.

A dry run is the code of a read, run on a store that returns zeros for the values of pages. Metadata
that a read needs before values (manifest parts, footers, page tables, deletions) is read from the
real store, through the session's scheduler. It is not cached. The requests are those of the real
read, because the same code plans and merges them.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import defaultdict
from contextlib import aclosing, suppress
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from alance.base.records import dataclass
from alance.file.open.data_spans import DataSpans
from alance.file.rows.fragment import OpenFragment
from alance.format.container import Container
from alance.format.plans import ByteRange
from alance.io.caches.cache import SearchCache
from alance.io.events import trace
from alance.io.reading.budget import Budget
from alance.io.reading.pool import DecodePool
from alance.io.reading.scheduler import Scheduler
from alance.io.stores.store import without_number
from alance.ops.lookup.look_up import look_up
from alance.ops.read.filters import parsed_predicate
from alance.ops.read.options import condition_of, orderings_of
from alance.ops.read.ordering import scanned_columns, takes_others, unsorted_options
from alance.ops.read.plan import chosen_in_turns, may_ask, picking, plan_scan
from alance.ops.read.rows import num_rows_of
from alance.ops.read.scan import scan
from alance.ops.read.take import as_positions, take
from alance.ops.version.first_use import load_readers, parsed
from alance.ops.version.snapshot import Handles

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Hashable, Sequence
    from typing import Any

    from alance.format.plans import T
    from alance.format.schema import Schema
    from alance.io.events.trace import RequestEvent
    from alance.io.opening.registry import StoreRegistry
    from alance.io.reading.engine import Engine
    from alance.io.reading.speed import Speed
    from alance.io.stores.store import Span, Store
    from alance.ops.lookup.look_up import IndexUse
    from alance.ops.read.options import ScanOptions
    from alance.ops.read.pruning import Skipped
    from alance.ops.read.rows import ScanPlan
    from alance.ops.version.projection import Columns
    from alance.ops.version.snapshot import Snapshot
    from alance.session import Session


@dataclass(frozen=True, slots=True)
class Step:
    """Requests for the same reason."""

    reason: str
    num_requests: int
    num_bytes: int
    num_wasted: int  # bytes in gaps between needed ranges

    def __str__(self) -> str:
        wasted = f", of them {self.num_wasted:,} in gaps" if self.num_wasted else ""
        return (
            f"{self.reason}: {_count(self.num_requests, 'request')}, "
            f"{_count(self.num_bytes, 'byte')}{wasted}"
        )


@dataclass(frozen=True, slots=True)
class Explanation:
    """Estimated cost of a read that would run now; `str` returns it as text.

    The sums do not include late reads of rows that pass a filter or that a merge changes, because
    only their upper bound is known.
    """

    what: tuple[str, ...]  # description of the read: dataset, columns, filter, ...
    steps: tuple[Step, ...]
    rounds: int  # number of waves of requests, one after the other
    num_rows: int  # number of rows to read
    num_rows_skipped: int  # number of other rows in the version
    num_pages: int  # number of pages of which bytes are read
    num_pages_skipped: int
    first: tuple[str, ...]  # columns to read for every row
    late: tuple[str, ...] = ()  # columns to read for some rows; see `late_of`
    skipped: Skipped | None = None  # rows skipped by statistics; None if these are not used
    at_most: tuple[Step, ...] = ()  # requests for the late columns of all rows
    late_of: str = "that the filter keeps"  # which rows need late columns, as text

    @property
    def num_requests(self) -> int:
        """Number of requests, including requests for footers and page tables."""
        return sum(step.num_requests for step in self.steps)

    @property
    def num_bytes(self) -> int:
        """Number of bytes to receive."""
        return sum(step.num_bytes for step in self.steps)

    def __repr__(self) -> str:
        lines = [
            *self.what,
            f"  rows: {self.num_rows:,} read, {self.num_rows_skipped:,} skipped",
            *([] if self.skipped is None else [f"  by statistics: {self.skipped}"]),
            f"  pages: {self.num_pages:,} read, {self.num_pages_skipped:,} skipped",
            f"  in all: {_count(self.num_requests, 'request')}, {_count(self.num_bytes, 'byte')} "
            f"in {_count(self.rounds, 'round')}",
            *(f"    {step}" for step in self.steps),
            f"  read first: {', '.join(self.first) or 'no columns'}",
        ]
        if self.late:
            lines.append(f"  read late, of rows {self.late_of}: {', '.join(self.late)}")
            lines += [f"    at most {step}" for step in self.at_most]
        return "\n".join(lines)


async def explain_scan(
    snapshot: Snapshot, columns: Columns, options: ScanOptions, *, flat: bool = True
) -> Explanation:
    """Estimate the cost of a scan by a dry run.

    Late columns are counted as if every row passed the filter. The early end of a scan with a
    filter and a limit is not taken into account. Indices are read as in the scan; these reads are
    cached, and not in the sums. Local files are read column by column during decoding; adjacent
    reads count as one request.

    Cost: the footers, page tables and deletions that are not cached; they are not cached
    afterwards. CPU time: as for planning the scan.

    Raises:
        InvalidInputError: a column or fragment is unknown, or the filter is invalid.
    """
    unsorted = options
    if options.order_by:
        columns = scanned_columns(snapshot, columns, options)
        unsorted = unsorted_options(options)
    if snapshot.has_stable_row_ids:
        # Load the row ids, which may be in pages of data files.
        await plan_scan(snapshot, columns, unsorted, flat=flat)
    use = await _index_use(snapshot, unsorted)
    unindexed = replace(unsorted, use_scalar_index=False)
    plans: list[ScanPlan] = []

    async def run(dry: Snapshot) -> None:
        """Scan the first columns; if called again, the late columns, as if all rows passed."""
        plan = await plan_scan(dry, columns, unindexed, flat=flat)
        if use is not None:
            plan = picking(plan, use)
        if plans and (late := plans[0].late_schema) is not None:
            plan = replace(plan, first_schema=late, late_schema=None, predicate=None)
            plan = replace(plan, pruner=plans[0].pruner)
        plans.append(plan)
        async with aclosing(scan(dry, replace(plan, is_cut=True))) as batches:
            async for _ in batches:
                pass

    seen = await _dry_run(snapshot, run)
    plan = plans[0]
    steps = () if plan.late_schema is None else (await _dry_run(snapshot, run)).steps
    at_most = tuple(step for step in steps if step.reason not in _SHARED)
    return await snapshot.engine.pool.run(
        lambda: replace(_explanation(snapshot, plan, options, seen), at_most=at_most)
    )


def _explanation(
    snapshot: Snapshot, plan: ScanPlan, options: ScanOptions, seen: Explanation
) -> Explanation:
    """Describe a scan by the dry run of its first columns. CPU work."""
    pruned = None if plan.pruner is None else plan.pruner.skipped
    num_rows = sum(
        num_rows_of(plan.spans_of(own)) if own.id not in plan.picked else len(plan.picked[own.id])
        for own in plan.handles
    )
    num_rows -= pruned.rows if pruned else 0
    # Only the dry run may have learnt the rows of its fragments.
    stored = {own.id: own.num_physical_rows for own in (*snapshot.handles, *plan.handles)}
    return replace(
        seen,
        what=tuple(_scan_lines(snapshot, plan, options)),
        num_rows=num_rows,
        num_rows_skipped=sum(stored.values()) - num_rows,
        first=_names(plan.first_schema),
        late=() if plan.late_schema is None else _names(plan.late_schema),
        skipped=pruned if pruned and pruned.num_zones else None,
    )


async def _index_use(snapshot: Snapshot, options: ScanOptions) -> IndexUse | None:
    await load_readers(snapshot, None, condition_of(options))
    predicate = await parsed_predicate(snapshot, condition_of(options))
    if predicate is None or not may_ask(snapshot, options):
        return None
    return await look_up(snapshot, predicate, await chosen_in_turns(snapshot, options))


async def explain_take(snapshot: Snapshot, indices: object, columns: Columns) -> Explanation:
    """Estimate the cost of a take by position, by a dry run up to the decoding.

    Cost: the footers, page tables and deletions that are not cached; they are not cached
    afterwards.

    Raises:
        InvalidInputError: a position is out of range, or a column is unknown.
    """
    positions = as_positions(indices, "indices")
    await load_readers(snapshot, columns)
    choice = await parsed(snapshot, columns, partial(snapshot.taken_columns, columns))
    if choice.projection.meta:
        await snapshot.load_meta(snapshot.handles, choice.projection.meta)
    seen = await _dry_run(snapshot, lambda dry: take(dry, positions, columns), is_take=True)
    num_rows = len(set(positions.tolist()))
    return replace(
        seen,
        what=(
            f"take from {snapshot.uri}, version {snapshot.version}",
            f"  asked for: {_count(len(positions), 'row')}",
        ),
        num_rows=num_rows,
        num_rows_skipped=sum(own.num_physical_rows for own in snapshot.handles) - num_rows,
        first=_names(choice.schema),
    )


# Reasons of requests that are already counted with the first columns.
_SHARED = frozenset({"open files", "deletions"})


def _steps(events: Sequence[RequestEvent]) -> list[Step]:
    by_reason: dict[str, list[RequestEvent]] = defaultdict(list)
    for event in sorted(events, key=lambda event: event.begun):
        by_reason[" + ".join(event.reasons) or event.kind].append(event)
    return [
        Step(
            reason,
            len(group),
            sum(event.num_bytes for event in group),
            sum(event.num_wasted for event in group),
        )
        for reason, group in by_reason.items()
    ]


def _scan_lines(snapshot: Snapshot, plan: ScanPlan, options: ScanOptions) -> list[str]:
    with_deletions = sum(handle.fragment.deletion_file is not None for handle in plan.handles)
    lines = [
        f"scan of {snapshot.uri}, version {snapshot.version}",
        f"  fragments: {len(plan.handles)} of {len(snapshot.handles)}, "
        f"{with_deletions} with deleted rows",
        f"  output: {', '.join(output.name for output in plan.projection.outputs) or 'no columns'}",
    ]
    if options.filter is not None:
        lines.append(f"  filter: {options.filter}")
    lines += [f"  {line}" for line in plan.index_lines]
    lines += [
        f"  {name}: {value}"
        for name, value in (("offset", options.offset), ("limit", options.limit))
        if value is not None
    ]
    if options.order_by:
        lines.append(
            f"  sorted by: {', '.join(str(key) for key in orderings_of(options.order_by))}"
        )
        if takes_others(options):
            lines.append("  then the output's columns are taken of the rows that are given")
    return lines


def _names(schema: Schema) -> tuple[str, ...]:
    return tuple(field.name for field in schema.fields)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


# Seconds; longer than it takes to send a wave of requests, so that a wave counts as one round.
WAVE_PAUSE_S: Final = 0.002


class _TakePlanned(Exception):
    """Control flow of a dry run: ends a take after its last request, before decoding."""


class _DryStore:
    """Store that returns zeros for the values of pages, and reads other ranges."""

    pieces = None

    def __init__(self, store: Store, dry: _DryRegistry) -> None:
        self._store = store
        self._dry = dry
        self.root = store.root
        self.profile = store.profile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def read_now(self, path: str, ranges: Sequence[Span]) -> None:
        """Return None, so that ranges in memory are requested, too, and counted."""

    def open_file(self, path: str) -> None:
        """Return None, so that local files are requested like others, and counted."""

    def get_ranges(self, path: str, ranges: Sequence[Span]) -> asyncio.Future[Sequence[memoryview]]:
        """Return the contents of ranges, with zeros for the values of pages."""
        loop = asyncio.get_running_loop()
        return loop.create_task(self._answer(path, ranges), context=self._dry.outside.copy())

    async def _answer(self, path: str, ranges: Sequence[Span]) -> Sequence[memoryview]:
        location = self.root + path
        needed = await self._dry.needed_within(location, ranges)
        byte_ranges = [ByteRange(location, *span) for spans in needed for span in spans]
        if not byte_ranges:
            await asyncio.sleep(WAVE_PAUSE_S)
        contents = iter(
            await self._dry.real.scheduler.read(byte_ranges, reason="explain")
            if byte_ranges
            else []
        )
        answers = []
        for (start, stop), spans in zip(ranges, needed, strict=True):
            if spans == [(start, stop)]:
                answers.append(next(contents))
                continue
            blank = np.zeros(stop - start, np.uint8)
            for begin, end in spans:
                blank[begin - start : end - start] = np.frombuffer(next(contents), np.uint8)
            answers.append(blank.data)
        return answers


class _DryRegistry:
    """Registry of dry stores over the stores of a session.

    Attributes:
        real: engine of the session.
        spans: spans of the pages of the files that were opened.
        outside: context with the caller's traces.
    """

    def __init__(self, real: Engine) -> None:
        self.real = real
        self.spans = DataSpans()
        self.outside = contextvars.copy_context()
        self._looking = asyncio.Lock()
        self._stores: dict[str, _DryStore] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real.registry, name)

    def resolve(self, location: str) -> tuple[_DryStore, str]:
        store, path = self.real.registry.resolve(location)
        dry_store = self._stores.get(store.root)
        if dry_store is None:
            dry_store = self._stores[store.root] = _DryStore(store, self)
        return dry_store, path

    async def needed_within(self, location: str, ranges: Sequence[Span]) -> list[list[Span]]:
        """Return the parts of each range that contain no values of pages."""
        if not self.spans.is_open(location):
            return [[span] for span in ranges]
        async with self._looking:  # so that the pages of a file are listed once
            needed = self.spans.needed
            return await self.real.pool.run(lambda: [needed(location, *span) for span in ranges])


class _DryCache(SearchCache):
    """Search cache over another cache: reads from both, and writes only to itself."""

    def __init__(self, real: SearchCache, spans: DataSpans) -> None:
        super().__init__(1 << 62)
        self._real = real
        self._spans = spans

    def peek(self, key: Hashable) -> Any | None:
        value = super().peek(key)
        if value is None:
            value = self._real.peek(key)
            if isinstance(value, OpenFragment):
                return None  # it would be changed, so it is opened again with copied columns
            if isinstance(value, Container):
                value = replace(value, columns=value.columns.copy())
                super().put(key, value, value.num_bytes)
        self._spans.learn(value)
        return value

    def peek_all(self, keys: Sequence[Hashable]) -> list[Any | None]:
        return [*map(self.peek, keys)]

    def put(self, key: Hashable, value: Any, num_bytes: int) -> None:
        self._spans.learn(value)
        super().put(key, value, num_bytes)


class _DryPool(DecodePool):
    """Decode pool of a dry run: a scan's batches are (None, None), a take ends before decoding."""

    def __init__(self, real: DecodePool, *, is_take: bool) -> None:
        super().__init__(1)
        self._real = real
        self._is_take = is_take

    async def run(
        self, work: Callable[[], T], *, inline: bool = False, is_decoding: bool = False
    ) -> T:
        if not is_decoding:
            return await self._real.run(work)
        if self._is_take:
            raise _TakePlanned
        return cast("T", (None, None))


class _DryScheduler(Scheduler):
    """Scheduler of a dry run, which knows how fast the real stores are."""

    def __init__(self, registry: StoreRegistry, real: Scheduler, io_buffer_bytes: int) -> None:
        super().__init__(registry, io_buffer_bytes=io_buffer_bytes)
        self._real = real
        self.budget = Budget(1 << 62)  # so that all parts of a take are requested in one turn
        self.blocks = real.blocks.view()

    def speed(self, location: str) -> Speed:
        return self._real.speed(location)

    def reader(self, locations: Collection[str], reason: str) -> None:
        """Return None, so that values are requested, and counted, before they are decoded."""


def _dry_session(session: Session, registry: _DryRegistry, *, is_take: bool) -> Session:
    """Return a copy of a session with an engine that reads values of pages from dry stores."""
    real = registry.real
    stores = cast("StoreRegistry", registry)
    scheduler = _DryScheduler(stores, real.scheduler, session.io_buffer_bytes)
    cache, pool = _DryCache(real.cache, registry.spans), _DryPool(real.pool, is_take=is_take)
    dry = copy(session)
    dry._engine = replace(real, registry=stores, scheduler=scheduler, cache=cache, pool=pool)
    dry._loop = asyncio.get_running_loop()
    return dry


async def _dry_run(
    snapshot: Snapshot, run: Callable[[Snapshot], Awaitable[Any]], *, is_take: bool = False
) -> Explanation:
    """Run a read with zeros as page values, and count its requests and pages.

    The result has no texts and rows.

    The requests of the dry run itself are in the caller's traces, with the reason "explain".
    """
    recorder, registry = trace.RequestRecorder(), _DryRegistry(snapshot.engine)
    session = _dry_session(snapshot.session, registry, is_take=is_take)
    try:
        copied = await snapshot.engine.pool.run(partial(_copy, snapshot, session))
        with trace.recording(recorder, alone=True), suppress(_TakePlanned):
            await run(copied)
    finally:
        await session.engine.scheduler.aclose()
    held = [recorder, registry.spans, copied]
    del recorder, registry, session, copied  # so that they are freed in a thread
    return await snapshot.engine.pool.run(partial(_counted, held))


def _counted(held: list[Any]) -> Explanation:
    """Count the requests and pages of a dry run, and free it. CPU work.

    Args:
        held: the recorder of its requests, the spans of its pages, and what else to free; emptied.
    """
    recorder, spans, _ = held
    held.clear()
    events = recorder.events
    # The names of stores in events have no numbers.
    paths = {without_number(path): path for path in spans.paths}
    located = [(paths.get(event.location, event.location), event.ranges) for event in events]
    num_pages = spans.pages((path, span) for path, own in located for span in own)
    steps = tuple(_steps(events))
    skipped = spans.num_pages - num_pages
    return Explanation((), steps, recorder.rounds, 0, 0, num_pages, skipped, first=())


def _copy(snapshot: Snapshot, session: Session) -> Snapshot:
    """Copy a snapshot with its memos into another session; memos added later are not shared."""
    copied = copy(snapshot)
    copied.session = session
    copied.handles = Handles(copied, [copy(handle) for handle in snapshot.handles])
    for handle in copied.handles:
        handle._snapshot = copied
        handle.set_apart()  # so that it is opened again, and the spans of its pages are recorded
    return copied
