"""Steps of a split: first columns, filter, late columns, merge; and how far each runs ahead.

The first columns are those of the filter. The other columns are late: they are only read for the
rows that pass the filter. On stores where a request takes microseconds, the first columns of a
split are read before its turn, and all other steps are done in its turn.

On stores where a request takes tens of milliseconds, such a scan would mostly wait. On these stores
a span (the splits that are fetched at once, see `scan`) goes through all steps before its turn:
while a span waits for late columns, other spans are read and filtered. For the first rows of the
scan, all columns are read at once, up to the bytes that arrive in the time of the saved round. If a
large share of these rows passes the filter, the rest of the scan also reads all columns at once.
"""

from __future__ import annotations

import asyncio
from functools import cached_property, partial
from itertools import chain, groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from alance.errors import BatchTooLargeError
from alance.file.open.columns import ScanStates
from alance.file.open.tracing import describe
from alance.file.rows.fragment import open_fragments
from alance.file.rows.in_place import LocalRows
from alance.format.plans import all_read, together
from alance.io.loop.futures import done
from alance.io.loop.readahead import Job
from alance.io.loop.tasks import all_of
from alance.io.reading.inline import Note
from alance.ops.read.groups import read_splits, spans_of
from alance.ops.read.physical_rows import keep_grown, opened_fragments, read_rows
from alance.ops.read.rows import SPARSE_CHUNK_BYTES, LateSplit, check_index, passing, with_late
from alance.ops.version.snapshot import TakenColumns

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    import pyarrow as pa

    from alance.file.rows.fragment import OpenFragment
    from alance.format.plans import T
    from alance.ops.read.groups import FragmentGroup, Split, Task
    from alance.ops.read.physical_rows import PhysicalRows
    from alance.ops.read.rows import ScanPlan
    from alance.ops.version.snapshot import Snapshot

    # Function that does the remaining steps of a split.
    Rest: TypeAlias = "Callable[[], Awaitable[Rows]]"
    # Output rows of a split; None for no rows; or steps for parts, if the rows do not fit into one
    # batch.
    Rows: TypeAlias = "pa.RecordBatch | list[Rest] | None"

# Bytes of computed columns per batch, even with a smaller budget.
LEAST_LATE_PART_BYTES: Final = 1 << 20
LEAST_GUESS: Final = 1 << 20  # minimum estimate, in bytes, of the late columns of a job
MOST_GUESS: Final = 64 << 20
KEPT_SHARE: Final = 0.01  # assumed share of rows that a filter keeps
RESERVED_LATE_BYTES: Final = 32 << 20  # maximum bytes of late columns that a job may reserve
# Maximum groups of small fragments that are decoded or wait for late columns.
LATE_GROUPS_AT_ONCE: Final = 8


class SplitReader:
    """Reader of the splits of a scan.

    Args:
        at_once: maximum number of concurrent pool jobs.
    """

    def __init__(self, snapshot: Snapshot, plan: ScanPlan, at_once: int) -> None:
        self.snapshot = snapshot
        self.plan = plan
        # A scan with a limit needs few rows, so it does not do all steps ahead.
        self._goes_ahead = snapshot.is_remote and (plan.is_cut or plan.options.limit is None)
        self._turns = asyncio.Semaphore(at_once)
        self._may_guess = not plan.options.late_materialization
        self._seen = self._num_kept = 0  # number of rows before and after the filter
        self._dense = asyncio.Event()  # set if most bytes of late columns have been needed so far
        self._groups = asyncio.Semaphore(LATE_GROUPS_AT_ONCE)
        self._guess_left = 0
        if self._may_guess and self._goes_ahead and plan.late_schema is not None:
            # The bytes that arrive in twice the time of the round that the guess saves.
            speed = snapshot.engine.scheduler.speed(snapshot.table.root)
            arrives = int(2 * speed.latency * speed.bandwidth)
            self._guess_left = max(LEAST_GUESS, min(MOST_GUESS, arrives))

    @cached_property
    def _is_quick(self) -> bool:
        """True if filtering a few rows does not need a thread."""
        return self.plan.predicate is None or self.plan.predicate.is_quick

    @property
    def ahead_bytes(self) -> int:
        """Maximum encoded bytes to read ahead."""
        return self.plan.options.io_buffer_bytes or self.snapshot.read_ahead_bytes

    @cached_property
    def first_columns(self) -> TakenColumns:
        """First columns, in the form that a take needs."""
        return TakenColumns.of_fields(
            self.snapshot.schema, self.plan.projection, self.plan.first_schema
        )

    @cached_property
    def late_columns(self) -> TakenColumns:
        """Late columns, in the form that a take needs."""
        late = self.plan.late_schema
        assert late is not None
        return TakenColumns.of_fields(self.snapshot.schema, self.plan.projection, late)

    async def open_late(self, groups: Sequence[FragmentGroup]) -> list[FragmentGroup]:
        """Open the late columns of large fragments if these are read ahead; return all groups.

        Cost: a round if late columns are in files that are not open.
        """
        schema = self.plan.late_schema
        if schema is None or not self._goes_ahead:
            return list(groups)
        # A large fragment is a group of its own.
        large = [group for group in groups if not group.is_small]
        opening = open_fragments(schema, [own.handles[0].to_open(own.states) for own in large])
        opened = iter(await self.snapshot.engine.drive(opening, "open files"))
        return [
            group if group.is_small else self._with_late(group, next(opened)) for group in groups
        ]

    def _with_late(self, group: FragmentGroup, late: OpenFragment) -> FragmentGroup:
        describe([late])
        stop = self._guess(group.spans, late) if self._guess_left > 0 else 0
        return group._replace(late=late, eager_stop=stop)

    def _guess(self, spans: Sequence[tuple[int, int]], late: OpenFragment) -> int:
        """Return the row below which late columns are read together with the first ones."""
        if not _is_dense(late, KEPT_SHARE):  # a guess would waste most of its bytes
            self._guess_left = 0
        per_row = late.encoded_bytes / max(1, late.num_rows)
        stop = 0
        for first, last in spans:
            rows = int(min(last - first, self._guess_left / max(per_row, 1e-9)))
            self._guess_left -= int(per_row * rows)
            stop = first + rows
            if stop < last:
                self._guess_left = 0
                break
        return stop

    def job(self, splits: Sequence[Split], num_bytes: int) -> Job[Sequence[Rest]]:
        """Return a job for splits of a group: the steps before their turn.

        The result of the job is the remaining steps.
        """
        group = splits[0].group
        reserved, is_eager = 0, False
        if group.late is not None:
            reserved = late_bytes = _late_bytes(group.late, splits)
            is_eager = splits[-1].stop <= group.eager_stop or self._dense.is_set()
            is_eager = is_eager and num_bytes + late_bytes <= self.ahead_bytes
            if not is_eager:
                num_rows = sum(split.stop - split.start for split in splits)
                reserved = min(
                    RESERVED_LATE_BYTES, late_bytes, self._expected(num_rows, group.late)
                )
        return Job(num_bytes + reserved, partial(self._begin, splits, reserved, is_eager))

    def _expected(self, num_rows: int, late: OpenFragment) -> int:
        """Estimate the bytes of late columns: two chunks per column and row that will be kept."""
        if not self._seen:
            return RESERVED_LATE_BYTES
        num_kept = num_rows * self._num_kept / self._seen
        return max(LEAST_GUESS, int(2 * num_kept * len(late.containers) * SPARSE_CHUNK_BYTES))

    async def _begin(
        self, splits: Sequence[Split], reserved: int, is_eager: bool
    ) -> Sequence[Rest]:
        group = splits[0].group
        try:
            if group.late is not None:
                return await self._filter_ahead(splits, group.late, reserved, is_eager)
            tasks = await self._first(splits)
            rest = [partial(self._finish, *pair) for pair in zip(splits, tasks, strict=True)]
            if self.plan.late_schema is None or not self._goes_ahead:
                return rest
            async with self._groups:
                return [partial(_ready, await step()) for step in rest]
        except BatchTooLargeError:
            return [partial(self._alone, split) for split in splits]

    async def _alone(self, split: Split) -> Rows:
        """Read a split by itself, from its first columns to its output rows."""
        try:
            if not split.group.is_small:
                loads = split.group.page_states([(split.start, split.stop)])
                await self.snapshot.engine.drive_all(loads, "page tables")
            (task,) = await self._first([split])
        except BatchTooLargeError as error:
            return await self._parts_of(split, error)
        return await self._finish(split, task)

    async def _parts_of(self, split: Split, error: BatchTooLargeError) -> list[Rest]:
        """Divide a split whose rows do not fit into one batch; return steps for its parts.

        Raises:
            BatchTooLargeError: the split is a single row.
        """
        group = split.group
        if not group.opened:
            opening = open_fragments(
                self.plan.first_schema, [handle.to_open(group.states) for handle in group.handles]
            )
            opened = await self.snapshot.engine.drive(opening, "open files")
            split = split._replace(group=group._replace(opened=opened))
        parts = split.halves()
        if not parts:
            raise error
        return [partial(self._alone, part) for part in parts]

    async def computed(self, rest: Rest) -> Rows:
        """Compute the output rows of a split: the first part, and steps for the other parts."""
        batch = await rest()
        if isinstance(batch, list):
            return [partial(self.computed, part) for part in batch]
        if batch is None:
            return None
        ahead_bytes = self.plan.options.io_buffer_bytes
        most_bytes = None if ahead_bytes is None else max(ahead_bytes // 4, LEAST_LATE_PART_BYTES)
        parts = self.plan.projection.in_parts(batch, most_bytes)
        return await self._next_part(parts, batch.num_rows)

    async def _next_part(self, parts: Iterator[pa.RecordBatch], num_rows: int) -> Rows:
        """Compute the next part of the output rows; `num_rows` rows remain."""
        part = await self._run(partial(next, parts))
        num_rows -= part.num_rows
        if not num_rows:
            return part
        return [partial(_ready, part), partial(self._next_part, parts, num_rows)]

    async def _first(self, splits: Sequence[Split]) -> Sequence[Task]:
        """Read the first columns of splits in one round; ranges are merged over the splits.

        Open local files are not read here, but during decoding.
        """
        group = splits[0].group
        states = group.states
        if isinstance(states, ScanStates) and not (group.is_small or states.is_cold):
            locations = [source.location for source in group.handles[0].sources]
            local_file = self.snapshot.engine.local_file
            files = {place: file for place in locations if (file := local_file(place))}
            if files:
                note = Note.of_caller("scan")
                return [
                    LocalRows(group.opened[0], split.start, split.stop, states, files, note)
                    for split in splits
                ]
        reading = read_splits(self.plan.first_schema, splits)
        reason = "scan" if group.opened else "compaction"
        return await self.snapshot.engine.drive(reading, reason, bulk=True)

    async def take(self, rows: PhysicalRows) -> Rows:
        """Take single rows; return the output rows of those that pass the filter.

        Cost: a take of the first columns, and one of the late columns of rows that pass the filter.
        """
        plan, snapshot = self.plan, self.snapshot

        def filtered(batch: pa.RecordBatch) -> tuple[pa.RecordBatch | None, PhysicalRows | None]:
            passed, own = passing(plan, rows, batch)
            if passed is None or passed.num_rows < batch.num_rows:
                check_index(plan, rows, batch)
            return passed, own

        try:
            first, own = await read_rows(
                snapshot,
                rows,
                self.first_columns,
                filtered,
                reason="scan" if plan.predicate is None else "index rows",
                is_quick=self._is_quick,
            )
            if first is None or own is None:
                return first
            finish = partial(with_late, plan, first)
            return await read_rows(snapshot, own, self.late_columns, finish, reason="late columns")
        except BatchTooLargeError:
            if rows.num_rows == 1:
                raise
            return [partial(self.take, part) for part in rows.ranges(2)]

    async def _finish(self, split: Split, task: Task) -> Rows:
        """Return the output rows of a split whose first columns have been read."""
        try:
            passed = await self._filter(split, task)
            if not isinstance(passed, LateSplit):
                return passed
            (merged,) = await self._merge([passed])
        except BatchTooLargeError as error:
            return await self._parts_of(split, error)
        return merged

    async def _filter(self, split: Split, task: Task) -> LateSplit | pa.RecordBatch | None:
        """Return the rows that pass; None if there are none.

        The result is a `LateSplit` if there are late columns. Cost: a round if their file is not
        open.
        """

        def filtered(task: Task) -> tuple[pa.RecordBatch | None, PhysicalRows | None] | None:
            batch = task.decode()
            return None if batch is None else passing(self.plan, split, batch)

        engine, group, late = self.snapshot.engine, split.group, split.group.late
        inline = group.is_little and self._is_quick
        passed = await self._run(partial(filtered, task), inline=inline)
        if passed is None:  # bytes of a local file are not in memory
            reading = read_splits(self.plan.first_schema, [split])
            (read,) = await engine.drive(reading, "scan", bulk=True)
            passed = await self._run(partial(filtered, read))
        assert passed is not None
        batch, rows = passed
        if late is not None:
            self._note(split, late, 0 if batch is None else batch.num_rows)
        if batch is None or rows is None:
            return batch
        states, span = group.states, (split.start, split.stop)
        if late is not None:
            opened = [late]
        else:
            states = engine.cache
            opening = opened_fragments(states, rows.handles, self.late_columns)
            opened = await engine.drive(opening, "open files")
            if len(group.handles) > 1:
                span = 0, sum(fragment.num_rows for fragment in opened)
        return LateSplit(batch, rows, opened, *span, states, is_near=not self.snapshot.is_remote)

    def _note(self, split: Split, late: OpenFragment, num_kept: int) -> None:
        """Count the rows of a split, and those that passed the filter."""
        self._seen += split.stop - split.start
        self._num_kept += num_kept
        self._guess_left = 0
        if self._may_guess and _is_dense(late, self._num_kept / self._seen):
            self._dense.set()
        else:
            self._dense.clear()

    async def _merge(self, splits: Sequence[LateSplit]) -> list[pa.RecordBatch]:
        """Return the output rows of filtered splits, in one round and with a pool job per split."""
        runs = [list(run) for _, run in groupby(splits, attrgetter("is_sparse"))]
        merged = await all_of(map(self._merge_alike, runs))
        return [*chain.from_iterable(merged)]

    async def _merge_alike(self, splits: Sequence[LateSplit]) -> list[pa.RecordBatch]:
        """Merge splits that have the same value of `is_sparse`."""
        engine, reason, is_remote = self.snapshot.engine, "late columns", self.snapshot.is_remote
        plans = [split.reading(guess=is_remote) for split in splits]
        bulk = is_remote and not splits[0].is_sparse
        tasks = await engine.drive(together(plans), reason, bulk=bulk)
        for split in splits:
            if split.states is engine.cache:
                keep_grown(engine.cache, split.rows.handles, split.opened, self.late_columns)
        read = await engine.reader([rows for task in tasks for rows in task.unread], reason)
        return await all_of(
            self._run(partial(split.merge, self.plan, task, read))
            for split, task in zip(splits, tasks, strict=True)
        )

    async def _filter_ahead(
        self, splits: Sequence[Split], late: OpenFragment, reserved: int, is_eager: bool
    ) -> Sequence[Rest]:
        """Take splits through all steps, from their first columns to their output rows.

        Cost: two rounds; one round if `is_eager`, or if other splits show meanwhile that most bytes
        of late columns are needed.
        """
        states, drive = splits[0].group.states, self.snapshot.engine.drive
        first = asyncio.ensure_future(self._first(splits))
        reading: list[asyncio.Future[Any]] = [first]
        try:
            if not is_eager and reserved >= _late_bytes(late, splits):
                await self._wait_for(first)
                is_eager = self._dense.is_set()
            if is_eager:
                plan = late.read_parts(spans_of(splits), states)
                reading.append(asyncio.ensure_future(drive(plan, "scan", bulk=True)))
            filtered = await all_of(map(self._filter, splits, await first))
            passing = [own for own in filtered if isinstance(own, LateSplit)]
            if not passing:
                return []
            if is_eager:
                merged = await all_of(
                    self._run(partial(own.merge, self.plan, task, all_read))
                    for own, task in zip(filtered, await reading[1], strict=True)
                    if isinstance(own, LateSplit)
                )
                return [partial(_ready, batch) for batch in merged]
            upto = np.cumsum([own.num_bytes for own in passing])
            fits = int(np.count_nonzero(upto <= reserved))
            merged = await self._merge(passing[:fits])
            # The other rows have too many bytes to read ahead, so they are read in their turn.
            parts = [part for own in passing[fits:] for part in own.cut(RESERVED_LATE_BYTES)]
            later = [partial(self._merge_one, part) for part in parts]
            return [*(partial(_ready, batch) for batch in merged), *later]
        finally:
            for future in reading:
                future.cancel()
            await asyncio.gather(*reading, return_exceptions=True)

    async def _merge_one(self, split: LateSplit) -> Rows:
        try:
            (batch,) = await self._merge([split])
        except BatchTooLargeError:
            if split.batch.num_rows == 1:
                raise
            return [partial(self._merge_one, part) for part in split.halves()]
        return batch

    async def _wait_for(self, reading: asyncio.Future[Any]) -> None:
        """Wait until the bytes arrive, or until other splits show that all columns are needed."""
        dense = asyncio.ensure_future(self._dense.wait())
        try:
            await asyncio.wait([reading, dense], return_when="FIRST_COMPLETED")
        finally:
            dense.cancel()

    async def _run(self, work: Callable[[], T], *, inline: bool = False) -> T:
        async with self._turns:
            return await self.snapshot.engine.pool.run(work, inline=inline, is_decoding=True)


def _ready(batch: Rows) -> asyncio.Future[Rows]:
    return done(batch, asyncio.get_running_loop())


def _late_bytes(late: OpenFragment, splits: Sequence[Split]) -> int:
    """Return the encoded bytes of late columns in splits."""
    num_rows = sum(split.stop - split.start for split in splits)
    return int(num_rows * late.encoded_bytes / max(1, late.num_rows))


def _is_dense(late: OpenFragment, kept_share: float) -> bool:
    """Return True if scattered rows of this share need at least half of the late columns' bytes.

    A chunk is read if any of its rows is needed. Files of version 2.0 and 0.1 have no chunks.
    """
    if late.older:
        return False
    sizes = late.tables.sizes
    needed = sum(min(size, kept_share * late.num_rows * SPARSE_CHUNK_BYTES) for size in sizes)
    return 2 * needed >= sum(sizes)
