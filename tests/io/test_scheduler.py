"""The scheduler: one plan a turn, shared flights, limits, what is recorded."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from alance.errors import CorruptFileError, InvalidInputError, NotFoundError, StoreError
from alance.format.plans import ByteRange, Pieces
from alance.io.events.trace import trace
from alance.io.opening.registry import StoreRegistry
from alance.io.reading import reads
from alance.io.reading.scheduler import Scheduler
from alance.io.stores.store import ObjectMeta
from tests.io.slow_store import CONTENT, Registry, Slow, check, ranges, turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Sequence
    from pathlib import Path

    from alance.format.plans import Extent


async def test_callers_of_one_turn_share_requests(store: Slow, scheduler: Scheduler) -> None:
    content = scheduler.read(ranges((0, 10), (300, 310)))
    other = scheduler.read(ranges((15, 20), (0, 10)))
    await turn()
    assert store.spans == [(0, 20), (300, 310)]
    await store.land_all()
    check(await content, (0, 10), (300, 310))
    check(await other, (15, 20), (0, 10))


async def test_a_range_joins_the_flight_that_covers_it(store: Slow, scheduler: Scheduler) -> None:
    first = scheduler.read(ranges((100, 200)))
    await turn()
    second = scheduler.read(ranges((120, 130), (500, 510)))
    await turn()
    assert store.spans == [(100, 200), (500, 510)]
    await store.land_all()
    check(await first, (100, 200))
    check(await second, (120, 130), (500, 510))
    third = scheduler.read(ranges((120, 130)))
    await turn()
    assert store.spans == [(120, 130)], "what has landed is not kept"
    await store.land_all()
    check(await third, (120, 130))


def pieces_of(*spans: tuple[int, int]) -> Pieces:
    starts, stops = np.array(spans).T
    return Pieces.of("slow://1/a", starts, stops)


async def test_many_bytes_of_pieces_are_copied_beside_the_loop(
    store: Slow, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[int] = []

    def cut(extent: Extent, objects: dict[str, reads.Landed]) -> memoryview:
        copied.append(threading.get_ident())
        return reads._gathered(extent, objects)  # type: ignore[arg-type]

    monkeypatch.setattr(reads, "_cut", cut)
    monkeypatch.setattr(reads, "GATHERED_BYTES", 100)
    spans = [(0, 40), (300, 340), (500, 540)]
    few = scheduler.read([pieces_of(*spans[:2])])
    many = scheduler.read([pieces_of(*spans)])
    await turn()
    await store.land_all()
    assert [bytes(buffer) for buffer in await few] == [CONTENT[0:40] + CONTENT[300:340]]
    assert bytes((await many)[0]) == b"".join(CONTENT[start:stop] for start, stop in spans)
    assert sorted(own == threading.get_ident() for own in copied) == [False, True]


async def test_a_read_that_is_cancelled_while_it_is_copied_frees_its_caller(
    store: Slow, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def cut(extent: Extent, objects: dict[str, reads.Landed]) -> memoryview:
        begun.set()
        assert may_end.wait(60)
        raise MemoryError

    monkeypatch.setattr(reads, "_cut", cut)
    monkeypatch.setattr(reads, "GATHERED_BYTES", 100)
    read = scheduler.read([pieces_of((0, 100), (300, 340))])
    failing = scheduler.read([pieces_of((0, 100), (300, 341))])
    await turn()
    await store.land_all()
    assert await asyncio.to_thread(begun.wait, 60)
    read.cancel()
    with pytest.raises(asyncio.CancelledError):
        await read
    may_end.set()
    with pytest.raises(MemoryError):
        await failing
    assert not scheduler._reads


def clipped(pieces: Pieces, start: int, stop: int) -> Pieces:
    """The parts of pieces of one object that are inside a span of it."""
    starts, stops = pieces.starts.clip(start, stop), pieces.stops.clip(start, stop)
    return Pieces.of(pieces.path, starts[starts < stops], stops[starts < stops])


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 300), st.integers(1, 300)), min_size=1, max_size=5),
        min_size=1,
        max_size=4,
    )
)
@example([[(194, 296)], [(105, 296), (300, 300)], [(0, 191), (300, 300)]])  # overlapping requests
async def test_of_a_shared_request_a_part_holds_little_that_is_for_others(
    parts: list[list[tuple[int, int]]],
) -> None:
    store = Slow()
    scheduler = Scheduler(Registry(store))  # type: ignore[arg-type]
    request = []
    for part in parts:  # each of some gaps and sizes
        bounds = np.cumsum(part).reshape(-1, 2)
        request.append(Pieces.of("slow://1/a", bounds[:, 0], bounds[:, 1]))
    reads = [scheduler.hold([pieces], is_part=True) for pieces in request]
    await turn()
    await store.land_all()
    for pieces, read in zip(request, reads, strict=True):
        landed = (await read)._objects[pieces.path]
        for start, stop in zip(pieces.starts.tolist(), pieces.stops.tolist(), strict=True):
            assert landed.cut(start, stop) == CONTENT[start:stop]
        # Bytes in the overlap of two requests may be held twice.
        inside = [clipped(pieces, *span) for span in store.landed]
        most = sum(own.bytes_over(store.profile.take_gap) for own in inside)
        assert sum(map(len, landed._buffers)) <= most * 8 / 7
    await scheduler.aclose()


async def test_scans_merge_over_wider_gaps(store: Slow, scheduler: Scheduler) -> None:
    spans = [(0, 10), (60, 70)]
    reads = [scheduler.read(ranges(*spans, path="t")), scheduler.read(ranges(*spans), bulk=True)]
    await turn()
    assert {path: spans for path, spans, _ in store.calls} == {"t": spans, "a": [(0, 70)]}
    await store.land_all()
    for read in reads:
        check(await read, *spans)


async def test_large_ranges_are_split_and_joined(store: Slow, scheduler: Scheduler) -> None:
    read = scheduler.read(ranges((10, 2510), (2400, 2450)))
    await turn()
    assert len(store.spans) == 3
    assert all(stop - start <= 1000 for start, stop in store.spans)
    await store.land_all()
    check(await read, (10, 2510), (2400, 2450))


async def test_small_ranges_go_in_groups(store: Slow, scheduler: Scheduler) -> None:
    spans = [(n * 100, n * 100 + 10) for n in range(4)] + [(1000, 1900)]
    read = scheduler.read(ranges(*spans))
    await turn()
    assert [len(spans) for _, spans, _ in store.calls] == [3, 1]
    await store.land_all()
    check(await read, *spans)


async def test_no_more_requests_at_once_than_allowed(store: Slow, scheduler: Scheduler) -> None:
    spans = [(n * 500, n * 500 + 100) for n in range(10)]
    read = scheduler.read(ranges(*spans))
    await turn()
    assert len(store.calls) == 4
    store.land(2)
    await turn()
    assert len(store.calls) == 4
    assert store.calls[-1][1] == [spans[4]], "first come, first served"
    await store.land_all()
    check(await read, *spans)


async def test_bytes_at_once_are_bounded(store: Slow) -> None:
    scheduler = Scheduler(Registry(store), io_buffer_bytes=250)  # type: ignore[arg-type]
    spans = [(n * 500, n * 500 + 100) for n in range(3)] + [(4000, 4900)]
    read = scheduler.read(ranges(*spans))
    await turn()
    assert len(store.calls) == 2
    await store.land_all()
    check(await read, *spans)


async def test_what_is_in_memory_is_answered_at_once(store: Slow, scheduler: Scheduler) -> None:
    store.now = True
    read = scheduler.read(ranges((0, 10), (5, 30), (7, 7)))
    assert read.done()
    check(read.result(), (0, 10), (5, 30), (7, 7))
    assert store.calls == []


@pytest.mark.parametrize("span", [(5, 4), (-1, 4)])
async def test_a_range_that_is_none(scheduler: Scheduler, span: tuple[int, int]) -> None:
    with pytest.raises(CorruptFileError, match="no range"):
        await scheduler.read(ranges(span))


async def test_requests_are_recorded_by_those_who_asked(store: Slow, scheduler: Scheduler) -> None:
    async def ask(reason: str) -> Sequence[memoryview]:
        return await scheduler.read(ranges((0, 10)), reason=reason)

    with trace() as outer:
        first = asyncio.ensure_future(ask("one"))
        await asyncio.sleep(0)
    with trace() as other:
        second = asyncio.ensure_future(ask("two"))
        await asyncio.sleep(0)
    third = asyncio.ensure_future(ask("three"))
    await turn()
    await store.land_all()
    await asyncio.gather(first, second, third)
    assert [event.reasons for event in outer.events] == [event.reasons for event in other.events]
    (event,) = outer.events
    assert set(event.reasons) == {"one", "two", "three"}
    assert (event.kind, event.start, event.stop, event.num_bytes) == ("get", 0, 10, 10)
    assert outer.rounds == 1


async def test_a_plan_of_many_objects_is_made_in_slices(store: Slow) -> None:
    scheduler = Scheduler(Registry(store))  # type: ignore[arg-type]
    items = [item for n in range(300) for item in ranges((n, n + 50), path=f"object-{n}")]
    read = scheduler.read(items)
    while not read.done():
        await asyncio.sleep(0)
        await store.land_all()
    check(await read, *[(n, n + 50) for n in range(300)])


async def test_a_listing_is_recorded_as_it_ended(store: Slow, scheduler: Scheduler) -> None:
    async def names(prefix: str, *, start_after: str | None = None) -> AsyncIterator[ObjectMeta]:
        for number in range(3):
            yield ObjectMeta(f"{prefix}/{number}", number, None, None)
        if prefix == "bad":
            raise StoreError("down")

    store.list = names  # type: ignore[attr-defined]
    with trace() as recorder:
        paths = [meta.path async for meta in scheduler.list("slow://1/good", reason="versions")]
        with pytest.raises(StoreError, match="down"):
            async for _ in scheduler.list("slow://1/bad"):
                pass
        async with aclosing(scheduler.list("slow://1/bad")) as sample:  # type: ignore[type-var]
            await anext(sample)
    assert paths == [f"slow://1/good/{number}" for number in range(3)]
    assert [(event.kind, event.ok) for event in recorder.events] == [
        ("list", True),
        ("list", False),
        ("list", True),
    ]
    assert recorder.events[0].reasons == ("versions",)


async def test_a_listing_ends_with_the_scheduler(store: Slow, scheduler: Scheduler) -> None:
    async def names(prefix: str, *, start_after: str | None = None) -> AsyncIterator[ObjectMeta]:
        for number in range(3):
            yield ObjectMeta(str(number), number, None, None)

    store.list = names  # type: ignore[attr-defined]
    async with aclosing(scheduler.list("slow://1/a")) as result:  # type: ignore[type-var]
        await anext(result)
        await scheduler.aclose()
        with pytest.raises(InvalidInputError, match="closed"):
            await anext(result)


@pytest.mark.parametrize("kind", ["memory", "local"])
async def test_what_is_asked_of_whole_objects(kind: str, tmp_path: Path) -> None:
    registry = StoreRegistry()
    result, folder = registry.open("memory://whole/objects" if kind == "memory" else tmp_path)
    location = f"{result.root}{folder}"
    for name in ("sub/a", "sub/b", "other/c"):
        await result.put(f"{folder}/{name}", CONTENT)
    scheduler = Scheduler(registry)
    with trace() as recorder:
        tail, size = await scheduler.read_tail(f"{location}/sub/a", 100, reason="tail")
        assert (bytes(tail), size) == (CONTENT[-100:], len(CONTENT))
        assert await scheduler.read_all(f"{location}/sub/a") == CONTENT
        assert await scheduler.size(f"{location}/sub/a") == len(CONTENT)
        folders, objects = await scheduler.list_level(location)
        assert (folders, objects) == ([f"{location}/other", f"{location}/sub"], [])
        names = [meta.path async for meta in scheduler.list(f"{location}/sub")]
        assert names == [f"{location}/sub/a", f"{location}/sub/b"]
        after = scheduler.list(f"{location}/sub", start_after=f"{location}/sub/a")
        assert [meta.path async for meta in after] == [f"{location}/sub/b"]
        with pytest.raises(NotFoundError):
            await scheduler.read_all(f"{location}/missing")
    kinds = [event.kind for event in recorder.events]
    assert kinds == ["tail", "get", "head", "list", "list", "list", "get"]
    assert [event.ok for event in recorder.events] == [True] * 6 + [False]
    assert recorder.num_bytes == 100 + len(CONTENT)
    await scheduler.aclose()


@pytest.mark.parametrize("bulk", [False, True])
@pytest.mark.parametrize("kind", ["memory", "local"])
async def test_buffers_of_real_stores_are_right_and_read_only(
    kind: str, bulk: bool, tmp_path: Path
) -> None:
    registry = StoreRegistry()
    result, folder = registry.open("memory://real/objects" if kind == "memory" else tmp_path)
    await result.put(f"{folder}/a", CONTENT)
    scheduler = Scheduler(registry)
    spans = [(19_000, 20_000), (0, 10), (5, 300), (7, 7), (0, 20_000)]
    values = [ByteRange(f"{result.root}{folder}/a", *span) for span in spans]
    with trace() as recorder:
        buffers = await scheduler.read(values, bulk=bulk)
    check(buffers, *spans)
    assert all(buffer.readonly for buffer in buffers)
    assert recorder.num_requests == 1
    with pytest.raises(CorruptFileError, match="object ends"):
        await scheduler.read([ByteRange(values[0].path, 19_999, 20_001)], bulk=bulk)
    await scheduler.aclose()


SPANS = st.lists(
    st.tuples(st.integers(0, 15_000), st.integers(0, 3000)).map(lambda span: (span[0], sum(span))),
    max_size=12,
)


@settings(max_examples=60)
@given(callers=st.lists(st.tuples(SPANS, st.booleans(), st.integers(0, 3)), max_size=6))
def test_any_callers_get_their_bytes(
    callers: list[tuple[list[tuple[int, int]], bool, int]],
) -> None:
    async def run() -> None:
        store = Slow()
        scheduler = Scheduler(Registry(store), io_buffer_bytes=2500)  # type: ignore[arg-type]

        async def call(spans: list[tuple[int, int]], bulk: bool, wait: int) -> None:
            for _ in range(wait):
                await asyncio.sleep(0)
            check(await scheduler.read(ranges(*spans), bulk=bulk), *spans)

        tasks = [asyncio.ensure_future(call(*caller)) for caller in callers]
        everything: Awaitable = asyncio.gather(*tasks)
        while not everything.done():  # type: ignore[attr-defined]
            await asyncio.sleep(0)
            if store.calls:
                store.land(len(store.calls) // 2)
        await everything
        await scheduler.aclose()

    asyncio.run(run())
