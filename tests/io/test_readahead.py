"""Work ahead of the consumer: in order, under its budgets, and gone when the consumer is."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import StoreError
from alance.io.loop.readahead import Job, in_turn, readahead

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Iterator


class Work:
    """Jobs that note how much of them is under way or not yet consumed."""

    def __init__(self) -> None:
        self.begun = 0
        self.held = 0
        self.most = 0
        self.cancelled = 0

    def jobs(self, sizes: list[int], fail_at: int | None = None) -> Iterator[Job[int]]:
        for number, num_bytes in enumerate(sizes):
            yield Job(num_bytes, lambda n=number, b=num_bytes: self._run(n, b, fail_at))  # type: ignore[misc]

    async def _run(self, number: int, num_bytes: int, fail_at: int | None) -> int:
        self.begun += 1
        self.held += num_bytes
        self.most = max(self.most, self.held)
        try:
            for _ in range(number * 7 % 5):
                await asyncio.sleep(0)
            if number == fail_at:
                raise StoreError(f"job {number}")
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return number


@given(
    st.lists(st.integers(0, 50), max_size=20),
    st.integers(1, 120),
    st.integers(1, 6),
    st.booleans(),
)
def test_budgets_and_order(sizes: list[int], budget: int, most: int, ordered: bool) -> None:
    async def run() -> None:
        work, result = Work(), []
        async for number in readahead(
            work.jobs(sizes), budget_bytes=budget, max_jobs=most, ordered=ordered
        ):
            result.append(number)
            work.held -= sizes[number]
            assert work.begun <= len(result) + most
        assert sorted(result) == list(range(len(sizes)))
        if ordered:
            assert result == sorted(result)
        assert work.most <= max([budget, *sizes]) + max([0, *sizes])

    asyncio.run(run())


@pytest.mark.parametrize("ordered", [True, False])
async def test_a_failure_ends_the_others(ordered: bool) -> None:
    work = Work()
    with pytest.raises(StoreError, match="job 3"):
        async for _ in readahead(
            work.jobs([1] * 10, fail_at=3), budget_bytes=100, max_jobs=5, ordered=ordered
        ):
            pass
    assert len(asyncio.all_tasks()) == 1


async def test_leaving_early_cancels_what_is_ahead() -> None:
    work = Work()
    async with aclosing(readahead(work.jobs([1] * 50), budget_bytes=100, max_jobs=8)) as result:
        async for number in result:
            if number == 2:
                break
    assert work.begun <= 12
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize("ahead", [0, 2, 50])
@pytest.mark.parametrize("taken", [0, 1, 7, 20])
async def test_works_in_turn(ahead: int, taken: int) -> None:
    under_way, most, cancelled, closed = 0, 0, 0, False

    async def work(number: int) -> int:
        nonlocal under_way, most, cancelled
        under_way += 1
        most = max(most, under_way)
        try:
            await asyncio.sleep(0 if number % 3 else 0.001)
        except asyncio.CancelledError:
            cancelled += 1
            raise
        finally:
            under_way -= 1
        return number

    async def works() -> AsyncGenerator[Awaitable[int], None]:
        nonlocal closed
        try:
            for number in range(20):
                yield work(number)
        finally:
            closed = True

    result = []
    async with aclosing(in_turn(works(), ahead)) as results:
        async for item in results:
            result.append(item)
            if len(result) >= taken:
                break
    assert result == list(range(max(1, taken)))
    assert closed
    assert under_way == 0
    assert most <= ahead + 1
    assert cancelled <= ahead + 1


async def test_a_work_that_fails_ends_the_others() -> None:
    async def work(number: int) -> int:
        if number == 2:
            raise StoreError("no")
        await asyncio.sleep(0 if number < 2 else 60)
        return number

    async def works() -> AsyncGenerator[Awaitable[int], None]:
        for number in range(9):
            yield work(number)

    numbers: list[int] = []

    async def take_all() -> None:
        async for item in in_turn(works(), 3):
            numbers.append(item)  # noqa: PERF401  # those before the failure count

    with pytest.raises(StoreError):
        await take_all()
    assert numbers == [0, 1]
