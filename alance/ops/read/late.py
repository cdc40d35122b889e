"""Late columns of filtered scans of remote stores: many spans at once, some of them unasked.

On a store where a request takes tens of milliseconds, a scan that first reads the filter's columns
and then, part by part, the others would wait for most of its time. So a span is a job from its
first bytes to its output rows: while one waits for late columns, others are read and filtered. Of
the first rows all columns are read at once: as much as arrives in the time of the round that this
saves. What the filter keeps of them says how to go on.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from alance.file.columns import OpenColumn
from alance.file.fragment import open_fragment
from alance.file.tracing import describe
from alance.format.plans import together
from alance.io.readahead import Job
from alance.io.tasks import all_of
from alance.ops.read.rows import CHUNK_BYTES, LateRows, RowFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from alance.file.fragment import FragmentTask, OpenFragment
    from alance.format.plans import Plan, T
    from alance.ops.read.groups import AnyPart
    from alance.ops.read.rows import ScanPlan
    from alance.ops.read.scan import OpenSource
    from alance.ops.version.snapshot import Snapshot

LEAST_GUESS: Final = 1 << 20  # bytes of late columns that are always worth a round
MOST_GUESS: Final = 64 << 20
KEPT_SHARE: Final = 0.01  # of rows, by a filter that nothing is known of
RESERVED: Final = 32 << 20  # bytes of late columns that a job may hold
GROUPS: Final = 8  # of small fragments, that are decoded or wait for late columns


@dataclass(frozen=True, slots=True)
class Ready:
    """The output rows of some parts."""

    batch: pa.RecordBatch | None

    async def decode(self, snapshot: Snapshot, plan: ScanPlan) -> pa.RecordBatch | None:
        """What is there already."""
        return self.batch


@dataclass(frozen=True, slots=True)
class Filtered:
    """A part whose late columns are read when it is its turn: they are too many to be ahead."""

    late: LateRows

    async def decode(self, snapshot: Snapshot, plan: ScanPlan) -> pa.RecordBatch | None:
        """The output rows: one round, one pool job."""
        late, engine = self.late, snapshot.engine
        is_sparse = late.is_sparse
        reading = late.reading(engine.cache, guess=True)
        task = await engine.drive(reading, "late columns", bulk=not is_sparse)
        return await engine.pool.run(lambda: late.merge(task, is_whole=not is_sparse))


class LateScan:
    """The late columns of one scan of a remote store.

    Args:
        at_once: pool jobs that it may have at once.
    """

    def __init__(self, snapshot: Snapshot, plan: ScanPlan, at_once: int) -> None:
        self._snapshot = snapshot
        self._plan = plan
        self._turns = asyncio.Semaphore(at_once)
        self._may_guess = not plan.options.late_materialization
        self._left = self._guess_bytes() if self._may_guess else 0
        self._seen = self._kept = 0  # rows
        self._dense = asyncio.Event()  # most late columns are needed, as far as was seen
        self._groups = asyncio.Semaphore(GROUPS)

    @classmethod
    def of(cls, snapshot: Snapshot, plan: ScanPlan, at_once: int) -> LateScan | None:
        """None where there are no late columns, where latency is microseconds, or where a few
        rows are enough.
        """
        is_needed = snapshot.is_remote and plan.late_schema is not None
        is_needed = is_needed and plan.options.limit is None
        return cls(snapshot, plan, at_once) if is_needed else None

    def _guess_bytes(self) -> int:
        """What arrives in twice the time of the round that it saves."""
        snapshot = self._snapshot
        speed = snapshot.engine.scheduler.speed(snapshot.table.root)
        return max(LEAST_GUESS, min(MOST_GUESS, int(2 * speed.latency * speed.bandwidth)))

    async def open(
        self, sources: Sequence[OpenSource]
    ) -> tuple[list[OpenSource], list[Plan[None]]]:
        """Fragments with their late columns, and the page tables that are to be read of those.

        Cost: a round where these columns are in files of their own that are not known.
        """
        schema, engine = self._plan.late_schema, self._snapshot.engine
        assert schema is not None
        large = [source for source in sources if not source.is_small]
        plans: list[Plan[OpenFragment]] = [
            open_fragment(schema, one.handle.sources, one.handle.num_physical_rows, one.states)
            for one in large
        ]
        opened = dict(
            zip(map(id, large), await engine.drive(together(plans), "open files"), strict=True)
        )
        found, loads = [], []
        for source in sources:
            late = opened.get(id(source))
            if late is not None:
                describe(late)
                stop = self._guess(source.spans, late) if self._left > 0 else 0
                for first, last in source.spans:
                    if first < min(stop, last):
                        loads.append(late.load(first, min(stop, last), source.states))
                source = replace(source, late=late, eager_stop=stop)
            found.append(source)
        return found, loads

    def _guess(self, spans: Sequence[tuple[int, int]], late: OpenFragment) -> int:
        """Of the spans, the rows before this one are read with all columns at once."""
        if not is_dense(late, KEPT_SHARE):
            self._left = 0
        per_row = late.encoded_bytes / max(1, late.num_rows)
        stop = 0
        for first, last in spans:
            rows = int(min(last - first, self._left / max(per_row, 1e-9)))
            self._left -= int(per_row * rows)
            stop = first + rows
            if stop < last:
                self._left = 0
                break
        return stop

    def job(
        self, source: OpenSource, parts: Sequence[tuple[int, int]], num_bytes: int
    ) -> Job[Sequence[AnyPart]]:
        """A span from its first bytes to its output rows; `num_bytes` of its first columns."""
        late = source.late
        assert late is not None
        late_bytes = _share_of(late, parts)
        is_eager = parts[-1][1] <= source.eager_stop or self._dense.is_set()
        reserved = late_bytes
        if not is_eager:
            num_rows = sum(stop - start for start, stop in parts)
            reserved = min(RESERVED, late_bytes, self._expected(num_rows, len(late.leaves)))
        return Job(num_bytes + reserved, lambda: self._read(source, parts, reserved, is_eager))

    def _expected(self, num_rows: int, num_leaves: int) -> int:
        """Bytes of late columns that so many rows will need, twice what was seen so far."""
        if not self._seen:
            return RESERVED
        kept = num_rows * self._kept / self._seen
        return max(LEAST_GUESS, int(2 * kept * num_leaves * CHUNK_BYTES))

    def finished(self, jobs: Iterable[Job[Sequence[AnyPart]]]) -> Iterator[Job[Sequence[AnyPart]]]:
        """Jobs that fetch groups of small fragments, each with all that comes after."""
        for job in jobs:
            yield Job(job.num_bytes, partial(self._finished, job))

    async def _finished(self, job: Job[Sequence[AnyPart]]) -> Sequence[AnyPart]:
        parts = await job.start()
        async with self._groups:
            return [Ready(await part.decode(self._snapshot, self._plan)) for part in parts]

    async def _read(
        self,
        source: OpenSource,
        parts: Sequence[tuple[int, int]],
        reserved: int,
        is_eager: bool,
    ) -> Sequence[AnyPart]:
        """Parts from their first bytes to their output rows. Two rounds; one if `is_eager`, or
        if meanwhile other parts show that most of the late columns will be needed.
        """
        late, states, drive = source.late, source.states, self._snapshot.engine.drive
        assert late is not None
        plans = [source.fragment.read(*part, states) for part in parts]
        reading = [asyncio.ensure_future(drive(together(plans), "scan", bulk=True))]
        try:
            if not is_eager and reserved >= _share_of(late, parts):
                await self._wait_for(reading[0])
                is_eager = self._dense.is_set()
            if is_eager:
                plans = [late.read(*part, states) for part in parts]
                reading.append(asyncio.ensure_future(drive(together(plans), "scan", bulk=True)))
            kept = await all_of(
                self._filter(source, late, part, task)
                for part, task in zip(parts, await reading[0], strict=True)
            )
            found = [one for one in kept if one is not None]
            if not found or not is_eager:
                return await self._finish(source, found, reserved)
            merged = await all_of(
                self._run(partial(one.merge, task, is_whole=True))
                for one, task in zip(kept, await reading[1], strict=True)
                if one is not None
            )
            return [Ready(batch) for batch in merged]
        finally:
            for one in reading:
                one.cancel()
            await asyncio.gather(*reading, return_exceptions=True)

    async def _wait_for(self, reading: asyncio.Future[list[FragmentTask]]) -> None:
        """Until bytes are there, or until it is known that all columns are needed."""
        known: asyncio.Future[Any] = asyncio.ensure_future(self._dense.wait())
        waiting: list[asyncio.Future[Any]] = [reading, known]
        try:
            await asyncio.wait(waiting, return_when="FIRST_COMPLETED")
        finally:
            known.cancel()

    async def _filter(
        self,
        source: OpenSource,
        late: OpenFragment,
        part: tuple[int, int],
        task: FragmentTask,
    ) -> LateRows | None:
        """The rows of a part that the filter keeps; None if there are none."""
        first = RowFilter(self._plan, source.handle, part[0])
        batch, rows = await self._run(lambda: first.run(task.decode()))
        self._seen += part[1] - part[0]
        self._kept += 0 if batch is None else batch.num_rows
        self._left = 0
        if self._may_guess and is_dense(late, self._kept / self._seen):
            self._dense.set()
        else:
            self._dense.clear()
        if batch is None:
            return None
        if rows is None:
            rows = np.arange(*part, dtype=np.int64)
        return LateRows(self._plan, late, batch, rows, part, {})

    async def _finish(
        self, source: OpenSource, found: Sequence[LateRows], reserved: int
    ) -> Sequence[AnyPart]:
        """The parts of a job that the filter kept rows of: as many read now as have room."""
        needed = [one.taken_bytes if one.is_sparse else int(one.all_bytes) for one in found]
        fits = np.cumsum(needed) <= reserved
        now = [one for one, is_now in zip(found, fits, strict=True) if is_now]
        states, drive = source.states, self._snapshot.engine.drive
        sparse = [one for one in now if one.is_sparse]
        dense = [one for one in now if not one.is_sparse]
        taking = [one.reading(states, guess=True) for one in sparse]
        reading = [one.reading(states, guess=True) for one in dense]
        taken, read = await all_of(
            [
                drive(together(taking), "late columns"),
                drive(together(reading), "late columns", bulk=True),
            ]
        )
        tasks = iter(taken), iter(read)
        merged = await all_of(
            self._run(partial(one.merge, next(tasks[is_whole]), is_whole=is_whole))
            for one in now
            for is_whole in [not one.is_sparse]
        )
        return [*(Ready(batch) for batch in merged), *(Filtered(one) for one in found[len(now) :])]

    async def _run(self, work: Callable[[], T]) -> T:
        async with self._turns:
            return await self._snapshot.engine.pool.run(work)


def _share_of(late: OpenFragment, parts: Sequence[tuple[int, int]]) -> int:
    """Encoded bytes of late columns in parts."""
    num_rows = sum(stop - start for start, stop in parts)
    return int(num_rows * late.encoded_bytes / max(1, late.num_rows))


def is_dense(late: OpenFragment, kept_share: float) -> bool:
    """Whether so many rows, anywhere, need half of the bytes of late columns or more.

    A chunk is read for any of its rows. Files of version 2.0 and before have no chunks.
    """
    if not all(isinstance(one.column, OpenColumn) for one in late.leaves):
        return False
    sizes = [one.column.encoded_bytes for one in late.leaves]
    needed = sum(min(size, kept_share * late.num_rows * CHUNK_BYTES) for size in sizes)
    return 2 * needed >= sum(sizes)
