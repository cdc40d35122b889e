"""Futures that stand for requests."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest

from alance.errors import StoreError
from alance.io.cloud.resilience import Retries
from alance.io.loop.futures import JoinedFutures, Retried
from alance.io.loop.tasks import ITEMS_A_TURN, all_of


def fast(max_retries: int = 3) -> Retries:
    return Retries(max_retries=max_retries, first_pause_s=0.001)


class Calls:
    """Attempts that end as told."""

    def __init__(self, *outcomes: object) -> None:
        self.outcomes = outcomes
        self.started: list[asyncio.Future[object]] = []

    def __call__(self) -> asyncio.Future[object]:
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        outcome = self.outcomes[len(self.started)]
        self.started.append(future)
        if isinstance(outcome, Exception):
            future.get_loop().call_soon(future.set_exception, outcome)
        elif outcome is not None:
            future.get_loop().call_soon(future.set_result, outcome)
        return future

    def retried(
        self, retries: Retries | None = None, limit_s: float = 60.0
    ) -> Retried[object, object]:
        def translate(error: BaseException) -> Exception:
            return StoreError(str(error), retryable=isinstance(error, ConnectionError))

        def finish(result: object) -> object:
            if result == "short":
                raise StoreError("short")
            return result

        loop = asyncio.get_running_loop()
        return Retried(self, finish, translate, retries or fast(), limit_s, loop)


async def test_it_gives_the_result_of_the_first_attempt_that_succeeds() -> None:
    calls = Calls(ConnectionError(), ConnectionError(), "body")
    assert await calls.retried() == "body"
    assert len(calls.started) == 3


async def test_it_gives_up_after_the_last_retry() -> None:
    calls = Calls(*[ConnectionError(f"{n}") for n in range(3)])
    with pytest.raises(StoreError, match="2"):
        await calls.retried(fast(2))


async def test_a_lasting_failure_is_not_tried_again() -> None:
    calls = Calls(ValueError("no"), "never")
    with pytest.raises(StoreError, match="no"):
        await calls.retried()
    assert len(calls.started) == 1


async def test_a_result_may_be_refused() -> None:
    with pytest.raises(StoreError, match="short"):
        await Calls("short").retried()


async def test_a_start_that_raises_fails_the_future() -> None:
    def start() -> asyncio.Future[object]:
        raise ValueError("bad path")

    future: Retried[object, object] = Retried(
        start, lambda x: x, lambda e: StoreError(str(e)), fast(), 60, asyncio.get_running_loop()
    )
    with pytest.raises(StoreError, match="bad path"):
        await future


async def test_cancelling_drops_the_attempt_at_once() -> None:
    calls = Calls(None)
    future = calls.retried()
    assert future.cancel()
    assert calls.started[0].cancelled()
    assert not future.cancel()
    with pytest.raises(asyncio.CancelledError):
        await future


async def test_cancelling_in_the_pause_begins_no_further_attempt() -> None:
    calls, was_cancelled = Calls(ConnectionError(), "never"), list[bool]()

    def pause(low: float, high: float) -> float:
        loop.call_soon(lambda: was_cancelled.append(future.cancel()))  # before any timer
        return high

    loop = asyncio.get_running_loop()
    future = calls.retried(Retries(first_pause_s=0.02, uniform=pause))
    await asyncio.sleep(0.06)
    assert was_cancelled == [True]
    assert len(calls.started) == 1


async def test_a_cancelled_task_cancels_the_attempt() -> None:
    calls = Calls(None)

    async def wait() -> object:
        return await calls.retried()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert calls.started[0].cancelled()


def parts(number: int) -> list[asyncio.Future[list[int]]]:
    loop = asyncio.get_running_loop()
    return [loop.create_future() for _ in range(number)]


async def test_joined_items_keep_their_order() -> None:
    futures = parts(3)
    joined = JoinedFutures(futures, asyncio.get_running_loop())
    for future, items in zip(reversed(futures), count(), strict=False):
        future.set_result([items, items])
    assert await joined == [2, 2, 1, 1, 0, 0]
    assert await JoinedFutures([], asyncio.get_running_loop()) == []


async def test_the_first_failure_drops_the_other_parts() -> None:
    futures = parts(3)
    joined = JoinedFutures(futures, asyncio.get_running_loop())
    futures[0].set_result([1])
    futures[1].set_exception(StoreError("broken"))
    with pytest.raises(StoreError, match="broken"):
        await joined
    assert futures[2].cancelled()


async def test_two_failures_are_both_looked_at() -> None:
    futures = parts(2)
    joined = JoinedFutures(futures, asyncio.get_running_loop())
    futures[0].set_exception(StoreError("first"))
    futures[1].set_exception(StoreError("second"))
    with pytest.raises(StoreError, match="first"):
        await joined


async def test_cancelling_drops_all_parts() -> None:
    futures = parts(3)
    joined = JoinedFutures(futures, asyncio.get_running_loop())
    joined.cancel()
    assert all(future.cancelled() for future in futures)
    with pytest.raises(asyncio.CancelledError):
        await joined


async def test_a_part_cancelled_elsewhere_cancels_the_whole() -> None:
    futures = parts(2)
    joined = JoinedFutures(futures, asyncio.get_running_loop())
    futures[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await joined
    assert futures[1].cancelled()


async def test_its_time_is_over_whatever_the_attempt_does() -> None:
    calls = Calls(ConnectionError("busy"), None)
    with pytest.raises(StoreError, match=r"no complete answer within 0.05 s.*busy"):
        await calls.retried(limit_s=0.05)
    assert calls.started[-1].cancelled()


async def test_its_time_is_over_in_a_pause() -> None:
    retries = Retries(first_pause_s=1e6, max_pause_s=1e6, uniform=lambda _, most: most)
    with pytest.raises(StoreError, match=r"no complete answer.*busy"):
        await Calls(ConnectionError("busy")).retried(retries, limit_s=0.05)


async def test_many_awaitables_are_begun_in_several_turns() -> None:
    begun = 0

    async def work(number: int) -> int:
        nonlocal begun
        begun += 1
        await asyncio.sleep(0)
        return number

    most = before = 0

    async def watch() -> None:
        nonlocal most, before
        while True:
            most, before = max(most, begun - before), begun
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    num_works = 5 * ITEMS_A_TURN + 3
    assert await all_of(map(work, range(num_works))) == list(range(num_works))
    watching.cancel()
    assert 0 < most <= ITEMS_A_TURN


async def test_one_awaitable_needs_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, calls = asyncio.get_running_loop(), list[object]()
    with monkeypatch.context() as patched:
        patched.setattr(loop, "call_soon_threadsafe", lambda *call: calls.append(call))
        assert await all_of([asyncio.sleep(0, 7)]) == [7]
    assert not calls  # an iterator of parts that is left behind would be closed by a task


async def test_after_a_failure_many_awaitables_are_cancelled_or_closed() -> None:
    states: list[str] = []

    async def work(number: int) -> None:
        if number == 1:
            raise StoreError("no")
        try:
            await asyncio.sleep(60)
        finally:
            states.append("ended")

    works = [work(number) for number in range(3 * ITEMS_A_TURN)]
    with pytest.raises(StoreError, match="no"):
        await all_of(works)
    assert len(states) == 3 * ITEMS_A_TURN - 1

    waiting = asyncio.create_task(all_of(work(number) for number in range(2, 3 * ITEMS_A_TURN)))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
