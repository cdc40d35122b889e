"""Large takes hold no more memory than the session's budget."""

from __future__ import annotations

import asyncio
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any, cast

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import alance
from alance.format.plans import Pieces
from alance.io.reading.budget import Budget
from alance.io.reading.pool import DecodePool
from alance.io.reading.scheduler import Scheduler
from alance.ops.read.physical_rows import PhysicalRows
from alance.testing.stalls import Stalls
from tests.reference.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from alance.io.reading.reads import Held
    from alance.testing.lab import Lab

URI = "s3://lab/bounded_takes.lance"
ROWS = 40_000
BUDGET = 6 << 20
CALLERS = 16


@pytest.fixture(scope="module")
def values() -> pa.Table:
    rng = np.random.default_rng(8)
    vectors = pa.FixedSizeListArray.from_arrays(
        pa.array(rng.standard_normal(ROWS * 32, np.float32)), 32
    )
    texts = [rng.bytes(40).hex() for _ in range(ROWS)]
    return pa.table({"id": pa.array(range(ROWS)), "vec": vectors, "text": texts})


@pytest.fixture
def bounded(lab: Lab, values: pa.Table) -> Lab:
    """The lab with the table, of three files."""
    lance.write_dataset(
        values, URI, storage_options=lab.lance_options(), mode="overwrite", max_rows_per_file=15_000
    )
    return lab


class NotedBudget(Budget):
    """A budget that notes how much was held at most."""

    def __init__(self, num_bytes: int) -> None:
        super().__init__(num_bytes)
        self.most = 0
        self._changed = asyncio.Event()

    def _let_in(self) -> None:
        super()._let_in()
        self.most = max(self.most, self.num_taken)
        self._changed.set()

    async def queue(self, count: int) -> None:
        """Until so many wait."""
        while len(self._waiting) < count:
            self._changed.clear()
            await self._changed.wait()


class HeldBytes:
    """Bytes that reads of takes have brought and that are still there; shared ones count once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.most = 0
        self._holders: Counter[tuple[int, int]] = Counter()  # of buffers, by place and size
        hold = Scheduler.hold

        def noted(scheduler: Scheduler, *args: Any, **options: Any) -> asyncio.Future[Held]:
            read = hold(scheduler, *args, **options)
            read.add_done_callback(self._brought)
            return read

        monkeypatch.setattr(Scheduler, "hold", noted)

    def _brought(self, read: asyncio.Future[Held]) -> None:
        held = read.result()
        objects = held._objects.values()
        keys = [(id(own), len(own)) for landed in objects for own in landed._buffers]
        self._count(keys, 1)
        weakref.finalize(held, self._count, keys, -1)

    def _count(self, keys: list[tuple[int, int]], step: int) -> None:
        for key in keys:
            self.now += step * key[1] if self._holders[key] == (step < 0) else 0
            self._holders[key] += step
        self.most = max(self.most, self.now)


def noted_budget(session: alance.Session) -> NotedBudget:
    budget = NotedBudget(session.io_buffer_bytes)
    session.engine.scheduler.budget = budget
    return budget


async def opened(lab: Lab, session: alance.Session) -> alance.Dataset:
    return await alance.dataset(URI, storage_options=lab.lance_options(), session=session)


@pytest.mark.parametrize("is_alike", [True, False])
async def test_takes_at_once_hold_no_more_than_the_budget(
    bounded: Lab, values: pa.Table, monkeypatch: pytest.MonkeyPatch, is_alike: bool
) -> None:
    held = HeldBytes(monkeypatch)
    picks = np.random.default_rng(3).integers(0, ROWS, (CALLERS, 5000))
    orders = [["id", "vec", "text"], ["vec", "text"], ["text", "vec"], ["vec", "id", "text"]]
    async with alance.Session(io_buffer_bytes=BUDGET, block_cache_bytes=0) as session:
        dataset, budget = await opened(bounded, session), noted_budget(session)

        async def take(number: int) -> None:
            columns = orders[0 if is_alike else number % len(orders)]
            rows = await dataset.take(picks[number], columns)
            assert rows.equals(values.select(columns).take(picks[number]))

        await asyncio.gather(*(take(number) for number in range(CALLERS)))
        assert 0 < budget.most <= BUDGET
        assert budget.num_taken == 0
    # Of a request that takes share, each keeps at most an eighth that is for others.
    assert 0 < held.most <= BUDGET * 8 // 7
    await until(lambda: held.now == 0)  # threads outlive the session, and let go of it last


async def test_a_take_larger_than_the_budget_ends(
    bounded: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = HeldBytes(monkeypatch)
    rows = np.random.default_rng(4).permutation(ROWS)
    theirs = lance.dataset(URI, storage_options=bounded.lance_options()).take(rows.tolist())
    async with alance.Session(io_buffer_bytes=1 << 20, block_cache_bytes=0) as session:
        dataset, budget = await opened(bounded, session), noted_budget(session)
        assert await dataset.take(rows) == theirs
        assert budget.num_taken == 0
    assert 0 < held.most < theirs.nbytes / 4, "it went by ranges of rows"


async def test_who_is_cancelled_while_waiting_leaves_at_once(bounded: Lab) -> None:
    rows = np.arange(0, ROWS, 2)
    async with alance.Session(io_buffer_bytes=BUDGET) as session:
        dataset, budget = await opened(bounded, session), noted_budget(session)
        async with budget.taken(BUDGET):
            tasks = [asyncio.ensure_future(dataset.take(rows, [name])) for name in ("vec", "text")]
            await budget.queue(len(tasks))
            tasks[0].cancel()
            await asyncio.wait([tasks[0]])
            assert tasks[0].cancelled()
            assert budget.num_taken == BUDGET
        assert (await tasks[1]).num_rows == len(rows)
        assert budget.num_taken == 0
        assert not budget._waiting


async def test_large_takes_at_once_do_not_keep_the_loop(bounded: Lab) -> None:
    picks = np.random.default_rng(5).integers(0, ROWS, (CALLERS, 5000))
    longest = []
    for _ in range(5):
        async with alance.Session() as session:
            dataset = await opened(bounded, session)
            await dataset.take(picks[0])
            async with Stalls() as stalls:
                await asyncio.gather(*(dataset.take(rows) for rows in picks))
            longest.append(stalls.longest_callback)
            if longest[-1] < 0.010:
                return
    pytest.fail(f"turns of {longest}: {stalls.slowest}")


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 12))
def test_ranges_have_all_rows_in_order(counts: list[int], parts: int) -> None:
    handles = cast("Any", [*range(len(counts))])
    offsets = np.concatenate([np.arange(count) for count in counts])
    rows = PhysicalRows(handles, offsets, np.cumsum(counts).tolist())
    ranges = rows.ranges(parts)
    own = [
        (handle, offset)
        for part in ranges
        for handle, own_offsets in part.by_fragment()
        for offset in own_offsets.tolist()
    ]
    assert own == [(handle, n) for handle, count in enumerate(counts) for n in range(count)]
    assert max(part.num_rows for part in ranges) <= -(-rows.num_rows // parts)


def test_bytes_over_small_gaps_count_and_those_between_objects_do_not() -> None:
    starts, stops = np.array([0, 15, 100, 5]), np.array([10, 20, 130, 9])
    pieces = Pieces(["a", "b"], [3, 4], starts, stops, 49)
    assert [pieces.bytes_over(gap) for gap in (0, 4, 5, 80)] == [49, 49, 54, 134]


GROWING = {
    "zstd": (["ab" * (1 << 19)] * 4, {"compression": "zstd"}, range(4)),
    "lz4": (["ab" * (1 << 18)] * 8, {"compression": "lz4"}, range(8)),
    "few texts": ([("red" * 400, "green" * 300)[n % 2] for n in range(4000)], {}, range(4000)),
    "repeated": (["ab" * 500] * 9, {"compression": "none"}, [0, 4] * 2000),
    "lists": ([[n] * 2_000 for n in range(9)], {}, [2, 8] * 200),
}


@pytest.mark.parametrize("kind", GROWING)
async def test_values_larger_than_their_bytes_leave_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    values, hints, places = GROWING[kind]
    metadata = {f"lance-encoding:{key}": text for key, text in hints.items()}
    rows = pa.array(values)
    table = pa.table([rows], pa.schema([pa.field("x", rows.type, metadata=metadata)]))
    await alance.write_dataset(table, tmp_path / "t", data_storage_version="2.1")
    jobs: list[object] = []
    in_thread = DecodePool._in_thread

    async def noted(self: DecodePool, work: Any) -> Any:
        jobs.append(work)
        return await in_thread(self, work)

    async with alance.Session() as session:
        dataset = await alance.dataset(tmp_path / "t", session=session)
        await dataset.take([0])  # imports, and the pages' states
        monkeypatch.setattr(DecodePool, "_in_thread", noted)
        taken = await dataset.take([*places])
        assert len(jobs) == 1
    assert taken["x"].combine_chunks().equals(rows.take(pa.array(places, pa.int64())))
