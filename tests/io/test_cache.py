"""Memos and the search cache: bytes bounded, the oldest dropped, one load for all who ask."""

from __future__ import annotations

import asyncio
import traceback
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import NotFoundError, StoreError
from alance.io.caches.cache import Memo, SearchCache
from alance.io.loop.tasks import Begun

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence


def size(value: object) -> int:
    return 10


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 120)), max_size=60))
def test_a_memo_drops_what_was_used_longest_ago(steps: list[tuple[int, int]]) -> None:
    memo, model = Memo[int, int](100), OrderedDict[int, int]()
    for key, num_bytes in steps:
        if num_bytes % 3 == 0:
            assert memo.peek(key) == (key if key in model else None)
            if key in model:
                model.move_to_end(key)
            continue
        memo.put(key, key, num_bytes)
        model.pop(key, None)
        if num_bytes <= 100:
            model[key] = num_bytes
        while sum(model.values()) > 100:
            model.popitem(last=False)
        assert [*memo._entries] == [*model]
        assert memo._sizes == model
        assert memo._num_bytes == sum(model.values())


def test_threads_share_a_memo_and_its_bytes_add_up() -> None:
    memo = Memo[int, int](50)

    def work(start: int) -> None:
        for number in range(start, start + 3000):
            memo.put(number % 11, number, number % 7)
            memo.peek(number % 13)

    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(work, range(4))] == [None] * 4
    assert memo._num_bytes == sum(memo._sizes.values()) <= 50
    assert memo._sizes.keys() == memo._entries.keys()


def test_a_memo_can_be_used_after_a_fork_that_met_another_thread_in_it() -> None:
    memo = Memo[str, int](50)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(memo._lock.acquire).result()
    memo.after_fork()
    memo.put("key", 1, 1)
    assert memo.peek("key") == 1


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), max_size=60))
def test_it_is_a_bounded_lru(steps: list[tuple[int, int]]) -> None:
    cache, model, budget = SearchCache(100), OrderedDict[int, int](), 100
    for key, num_bytes in steps:
        if num_bytes % 3 == 0:
            result = cache.peek(key)
            assert result == (key if key in model else None)
            if key in model:
                model.move_to_end(key)
            continue
        cache.put(key, key, num_bytes)
        model.pop(key, None)
        if num_bytes <= budget // 4:
            model[key] = num_bytes
        while sum(model.values()) > budget:
            model.popitem(last=False)
        stats = cache.stats
        assert (stats.num_entries, stats.num_bytes) == (len(model), sum(model.values()))


async def test_concurrent_askers_share_a_load() -> None:
    cache, loads = SearchCache(1000), 0

    async def load() -> str:
        nonlocal loads
        loads += 1
        await asyncio.sleep(0)
        return "value"

    results = await asyncio.gather(*(cache.get("key", load, size) for _ in range(9)))
    assert results == ["value"] * 9
    assert loads == 1
    assert await cache.get("key", load, size) == "value"
    assert loads == 1
    assert cache.stats.hits == 1


async def test_a_cancelled_asker_leaves_the_load_to_the_others() -> None:
    cache, gate = SearchCache(1000), asyncio.Event()

    async def load() -> str:
        await gate.wait()
        return "value"

    item, other = (asyncio.ensure_future(cache.get("key", load, size)) for _ in range(2))
    await asyncio.sleep(0)
    item.cancel()
    await asyncio.sleep(0)
    gate.set()
    assert await other == "value"


async def test_the_last_asker_cancels_the_load() -> None:
    cache, ended = SearchCache(1000), []

    async def load() -> str:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return "value"

    asker = asyncio.ensure_future(cache.get("key", load, size))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    asker.cancel()
    await asyncio.gather(asker, return_exceptions=True)
    await asyncio.sleep(0)
    assert ended == ["cancelled"]


async def test_a_failed_load_is_not_kept() -> None:
    cache, answers = SearchCache(1000), [StoreError("down"), "value"]

    async def load() -> object:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with pytest.raises(StoreError, match="down"):
        await cache.get("key", load, size)
    assert await cache.get("key", load, size) == "value"


def test_a_budget_of_nothing_keeps_nothing() -> None:
    cache = SearchCache(0)
    cache.put("key", "value", 1)
    assert cache.peek("key") is None


async def test_many_keys_are_loaded_by_one_call_and_once() -> None:
    cache, calls, go = SearchCache(1000), [], asyncio.Event()

    async def load(keys: Sequence[Hashable]) -> list[Hashable]:
        calls.append(list(keys))
        await go.wait()
        return [key * 2 for key in keys]

    cache.put(1, 2, 10)
    first = asyncio.ensure_future(cache.get_many([1, 2, 3], load, size))
    second = asyncio.ensure_future(cache.get_many([3, 4], load, size))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    go.set()
    assert await first == [2, 4, 6]
    assert await second == [6, 8]
    assert calls == [[2, 3], [4]]
    assert await cache.get_many([4, 1], load, size) == [8, 2]
    assert len(calls) == 2


async def test_a_failed_load_of_many_is_that_of_who_began_it() -> None:
    cache = SearchCache(1000)

    async def fail(keys: Sequence[Hashable]) -> list[Hashable]:
        await asyncio.sleep(0)
        raise StoreError("gone")

    async def load(keys: Sequence[Hashable]) -> list[Hashable]:
        return list(keys)

    outcomes = await asyncio.gather(
        cache.get_many([1, 2], fail, size),
        cache.get_many([2, 3], load, size),
        return_exceptions=True,
    )
    assert isinstance(outcomes[0], StoreError)
    assert outcomes[1] == [2, 3]


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_who_asks_in_the_turn_in_which_a_load_of_many_fails_loads_for_itself(
    is_cancelled: bool,
) -> None:
    """The callbacks of the task that failed have not run by then."""
    cache, gate = SearchCache(1000), asyncio.Event()

    async def fail(keys: Sequence[Hashable]) -> list[Hashable]:
        await gate.wait()
        raise StoreError("gone")

    async def load(keys: Sequence[Hashable]) -> list[Hashable]:
        return list(keys)

    first = asyncio.ensure_future(cache.get_many([1, 2], fail, size))
    for _ in range(3):
        await asyncio.sleep(0)
    if is_cancelled:
        first.cancel()
    else:
        gate.set()
    later = [asyncio.ensure_future(cache.get_many([2], load, size)) for _ in range(2)]
    outcomes = await asyncio.gather(first, *later, return_exceptions=True)
    assert isinstance(outcomes[0], asyncio.CancelledError if is_cancelled else StoreError)
    assert outcomes[1:] == [[2], [2]]


async def test_a_load_of_many_ends_with_the_last_who_asks() -> None:
    cache, cancelled = SearchCache(1000), []

    async def load(keys: Sequence[Hashable]) -> list[Hashable]:
        try:
            await asyncio.sleep(9)
        except asyncio.CancelledError:
            cancelled.append(list(keys))
            raise
        return list(keys)

    before = asyncio.all_tasks()
    first = asyncio.ensure_future(cache.get_many([1, 2], load, size))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(cache.get_many([2, 3], load, size))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert cancelled == []
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    assert sorted(cancelled) == [[1, 2], [3]]
    assert asyncio.all_tasks() == before
    third = asyncio.ensure_future(cache.get_many([1], load, size))
    third.cancel()
    await asyncio.gather(third, return_exceptions=True)
    assert asyncio.all_tasks() == before


async def test_a_key_asked_alone_and_one_of_many_share_a_load() -> None:
    cache, calls, gate = SearchCache(1000), [], asyncio.Event()

    async def load(keys: Sequence[Hashable]) -> list[Hashable]:
        calls.append(list(keys))
        await gate.wait()
        return list(keys)

    async def load_entry() -> Hashable:
        return (await load([1]))[0]

    askers = [
        asyncio.ensure_future(cache.get(1, load_entry, size)),
        asyncio.ensure_future(cache.get_many([1, 2], load, size)),
        asyncio.ensure_future(cache.get(2, load_entry, size)),
    ]
    for _ in range(3):
        await asyncio.sleep(0)
    gate.set()
    assert await asyncio.gather(*askers) == [1, [1, 2], 2]
    assert calls == [[1], [2]]


async def test_who_asks_for_a_key_whose_load_was_cancelled_by_others_loads_it() -> None:
    cache = SearchCache(1000)

    async def load() -> str:
        await asyncio.sleep(0)
        return "value"

    before = asyncio.all_tasks()
    asker = asyncio.ensure_future(cache.get("key", load, size))
    await asyncio.sleep(0)
    for task in asyncio.all_tasks() - before:  # as at the end of a loop: the load has not begun
        task.cancel()
    await asyncio.gather(asker, return_exceptions=True)
    assert await cache.get("key", load, size) == "value"


async def test_a_load_that_waits_for_nothing_makes_no_task() -> None:
    cache = SearchCache(1000)
    objects: list[object] = []
    loop = asyncio.get_running_loop()
    create = loop.create_task

    def noting(coroutine: Any, **options: Any) -> Any:
        objects.append(coroutine)
        return create(coroutine, **options)

    async def load() -> str:
        return "a"

    async def none() -> str:
        raise NotFoundError("no")

    loop.create_task = noting  # type: ignore[method-assign]
    try:
        assert await cache.get("a", load, size, is_near=True) == "a"
        with pytest.raises(NotFoundError):
            await cache.get("d", none, size, is_near=True)
    finally:
        del loop.create_task  # type: ignore[method-assign]
    assert not objects
    assert cache.stats.num_entries == 1
    assert await cache.get("d", load, size) == "a"  # the failure is not kept


async def test_a_failed_load_can_be_reported_with_what_its_frames_hold() -> None:
    """As reporters of errors do: they show every local name of every frame."""

    async def none() -> str:
        raise NotFoundError("no such thing")

    with pytest.raises(NotFoundError) as failed:
        await SearchCache(1000).get("a", none, size, is_near=True)
    frames = [frame for frame, _ in traceback.walk_tb(failed.tb)]
    held = [repr(value) for frame in frames for value in frame.f_locals.values()]
    assert any("_Load" in text for text in held)


async def test_work_that_has_begun_is_cancelled_before_its_task_goes_on() -> None:
    waits: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    seen: list[bool] = []

    async def load() -> str:
        try:
            return await waits
        finally:
            await asyncio.sleep(0)
            seen.append(waits.cancelled())

    begun = Begun(load())
    assert begun.ended is None
    task = asyncio.ensure_future(begun)
    task.cancel()  # it has had no step
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == [True]


async def test_a_begun_load_is_cancelled_even_if_its_future_is_done() -> None:
    ready = asyncio.get_running_loop().create_future()
    steps: list[str] = []

    async def load() -> None:
        await ready
        steps.append("went on")

    begun = Begun(load())
    ready.set_result(None)
    task = asyncio.get_running_loop().create_task(begun)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps == []
