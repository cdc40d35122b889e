"""The scheduler where reads fail, are cancelled or refused: nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import TYPE_CHECKING

import pytest

from alance.errors import CorruptFileError, InvalidInputError, NotFoundError, StoreError
from alance.format.plans import ByteRange
from alance.io.reading.reads import Landed
from tests.io.slow_store import PROFILE, Slow, check, ranges, turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.io.reading.scheduler import Scheduler


async def test_a_location_of_no_store_fails_its_reader(store: Slow, scheduler: Scheduler) -> None:
    good = scheduler.read(ranges((0, 10)))
    with pytest.raises(InvalidInputError, match="no store"):
        await scheduler.read([ByteRange("nowhere://x", 0, 1)])
    await turn()
    await store.land_all()
    check(await good, (0, 10))


async def test_a_failure_reaches_everybody_who_waits_for_it(
    store: Slow, scheduler: Scheduler
) -> None:
    content = scheduler.read(ranges((0, 10), (500, 600)))
    other = scheduler.read(ranges((3, 5)))
    third = scheduler.read(ranges((500, 600)))
    await turn()
    number = next(n for n, call in enumerate(store.calls) if call[1] == [(0, 10)])
    store.calls.pop(number)[2].set_exception(NotFoundError("gone"))
    await turn()
    for read in (content, other):
        with pytest.raises(NotFoundError, match="gone"):
            await read
    await store.land_all()
    check(await third, (500, 600))


async def test_no_memory_for_one_read_fails_it_alone(
    store: Slow, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Landed.cut

    def cut(landed: Landed, start: int, stop: int) -> memoryview:
        if stop == 10:
            raise MemoryError
        return whole(landed, start, stop)

    monkeypatch.setattr(Landed, "cut", cut)
    content = scheduler.read(ranges((0, 10)))
    other = scheduler.read(ranges((0, 5)))
    await turn()
    await store.land_all()
    async with asyncio.timeout(60):  # a reader that is forgotten waits for ever
        with pytest.raises(MemoryError):
            await content
        check(await other, (0, 5))


async def test_a_cancelled_reader_leaves_the_others_alone(
    store: Slow, scheduler: Scheduler
) -> None:
    content = scheduler.read(ranges((0, 10), (700, 800)))
    other = scheduler.read(ranges((0, 10)))
    await turn()
    futures = {tuple(spans): future for _, spans, future in store.calls}
    content.cancel()
    assert futures[(700, 800),].cancelled()
    assert not futures[(0, 10),].cancelled()
    store.calls[0][2].done() or store.land(0)
    await turn()
    check(await other, (0, 10))


async def test_cancelled_before_it_was_planned(store: Slow, scheduler: Scheduler) -> None:
    read = scheduler.read(ranges((0, 10)))
    read.cancel()
    await turn()
    assert store.calls == []


async def test_cancelled_in_the_queue(store: Slow, scheduler: Scheduler) -> None:
    busy = scheduler.read(ranges(*[(n * 500, n * 500 + 100) for n in range(4)]))
    await turn()
    waiting = scheduler.read(ranges((5000, 5100)))
    last = scheduler.read(ranges((6000, 6100)))
    await turn()
    waiting.cancel()
    await store.land_all()
    check(await last, (6000, 6100))
    assert (await busy)[0] is not None


async def test_nothing_is_left_after_any_cancellation(store: Slow, scheduler: Scheduler) -> None:
    """A caller cancelled after each number of turns: no slot is lost."""
    for turns in range(6):
        task = asyncio.ensure_future(_read(scheduler, (0, 100), (3000, 3100), (6000, 6100)))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        for _, _, future in store.calls:
            assert future.cancelled()
        store.calls.clear()
        await turn()
    spans = [(n * 500, n * 500 + 100) for n in range(4)]
    read = scheduler.read(ranges(*spans))
    await turn()
    assert len(store.calls) == 4, "all slots are free again"
    await store.land_all()
    check(await read, *spans)


async def _read(scheduler: Scheduler, *spans: tuple[int, int]) -> None:
    await scheduler.read(ranges(*spans))


async def test_closing_cancels_everything(store: Slow, scheduler: Scheduler) -> None:
    flying = scheduler.read(ranges((0, 10)))
    await turn()
    pending = scheduler.read(ranges((900, 910)))
    await scheduler.aclose()
    assert flying.cancelled()
    assert pending.cancelled()
    assert all(future.cancelled() for _, _, future in store.calls)
    with pytest.raises(InvalidInputError, match="closed"):
        scheduler.read(ranges((0, 10)))
    del flying, pending
    gc.collect()


async def test_a_store_that_raises_takes_no_slot(
    store: Slow, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, spans: Sequence[tuple[int, int]]) -> asyncio.Future:
        raise StoreError("no thread")

    with monkeypatch.context() as patched:
        patched.setattr(store, "get_ranges", refuse)
        for number in range(PROFILE.max_requests + 2):
            reads = [
                scheduler.read(ranges((number, number + 100), path=path)) for path in ("a", "b")
            ]
            await turn()
            for read in reads:
                assert read.done()
                with pytest.raises(StoreError, match="no thread"):
                    await read
    spans = [(n * 500, n * 500 + 100) for n in range(4)]
    read = scheduler.read(ranges(*spans))
    await turn()
    assert len(store.calls) == 4
    await store.land_all()
    check(await read, *spans)


@pytest.mark.parametrize("bulk", [False, True])
@pytest.mark.parametrize(
    "span", [(1 << 63, (1 << 63) + 5), ((1 << 64) - 9, (1 << 64) - 1), (0, 1 << 61)]
)
async def test_a_range_that_no_object_has_fails_its_reader_only(
    store: Slow, scheduler: Scheduler, span: tuple[int, int], bulk: bool
) -> None:
    good = scheduler.read(ranges((0, 10)), bulk=bulk)
    bad = scheduler.read(ranges((0, 10), span), bulk=bulk)
    with pytest.raises(CorruptFileError, match="no range"):
        await bad
    await turn()
    await store.land_all()
    check(await good, (0, 10))


async def test_a_refused_read_leaves_nothing_to_plan(store: Slow, scheduler: Scheduler) -> None:
    read = scheduler.read([*ranges((0, 10)), ByteRange("nowhere://x", 0, 1)])
    gone = weakref.ref(read)
    with pytest.raises(InvalidInputError, match="no store"):
        await read
    del read
    await turn()
    gc.collect()
    assert gone() is None
    assert store.calls == []
