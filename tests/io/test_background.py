"""Cleanups of cancelled calls: bounded in time and number; their callers do not wait."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from alance.errors import StoreError
from alance.io.loop import background
from alance.io.loop.background import Background
from tests.reference.waiting import turns

if TYPE_CHECKING:
    from collections.abc import Coroutine

BOUND_S = 30.0


async def free(task: asyncio.Task[object]) -> None:
    """Wait for a task that was cancelled."""
    async with asyncio.timeout(BOUND_S):
        await asyncio.wait([task])


async def test_who_is_not_cancelled_waits_to_the_end() -> None:
    remaining = Background()
    assert await remaining.to_the_end(asyncio.sleep(0.01, "done"), BOUND_S) == "done"
    await remaining.finish(asyncio.sleep(0.01), BOUND_S)
    assert len(remaining) == 0
    with pytest.raises(StoreError, match="did not end in time"):
        await remaining.to_the_end(asyncio.Event().wait(), 0.01)
    with pytest.raises(StoreError, match="did not end in time"):
        await remaining.finish(asyncio.Event().wait(), 0.01)


async def test_what_ends_soon_has_ended_when_the_caller_is_free() -> None:
    remaining, steps = Background(), list[str]()

    async def work() -> None:
        await asyncio.sleep(0.01)
        steps.append("ended")

    task = asyncio.create_task(remaining.to_the_end(work(), BOUND_S, BOUND_S))
    await turns()
    task.cancel()
    await free(task)
    assert task.cancelled()
    assert steps == ["ended"]


async def test_work_that_takes_long_is_cancelled_and_cleaning_goes_on() -> None:
    remaining, goes_on, steps = Background(), asyncio.Event(), list[str]()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            steps.append("cancelled")
            raise

    async def clean() -> None:
        await goes_on.wait()
        steps.append("cleaned")

    async def call() -> None:
        try:
            await remaining.to_the_end(work(), BOUND_S)
        finally:
            await remaining.finish(clean(), BOUND_S)

    task = asyncio.create_task(call())
    await turns()
    task.cancel()
    await free(task)
    assert task.cancelled()
    assert steps == ["cancelled"]
    assert len(remaining) == 1
    goes_on.set()
    assert await remaining.settled(BOUND_S) == 0
    assert steps == ["cancelled", "cleaned"]


async def cancelled_in(remaining: Background, work: Coroutine[object, object, object]) -> None:
    task = asyncio.create_task(remaining.finish(work, BOUND_S, 0.0))
    await turns()
    task.cancel()
    await free(task)


async def test_the_oldest_goes_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "MAX_CLEANUPS", 3)
    remaining, ended = Background(), list[int]()

    async def work(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    for number in range(5):
        await cancelled_in(remaining, work(number))
    await turns()
    assert len(remaining) == 3
    assert ended == [0, 1]
    await remaining.aclose(0.01)
    assert len(remaining) == 0
    assert sorted(ended) == [0, 1, 2, 3, 4]


async def test_nothing_goes_on_after_the_end() -> None:
    remaining = Background()
    await remaining.aclose()
    await cancelled_in(remaining, asyncio.Event().wait())
    await turns()
    assert len(remaining) == 0


async def test_a_failure_that_nobody_waits_for_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    remaining, goes_on = Background(), asyncio.Event()

    async def work() -> None:
        await goes_on.wait()
        raise OSError("the disk is full")

    await cancelled_in(remaining, work())
    goes_on.set()
    assert await remaining.settled(BOUND_S) == 0
    assert "the disk is full" in caplog.text


async def test_cleanups_that_others_begin_are_awaited_as_well() -> None:
    remaining, goes_on, ended = Background(), asyncio.Event(), list[str]()

    async def last() -> None:
        await asyncio.sleep(0.01)
        ended.append("last")

    async def work() -> None:
        await goes_on.wait()
        await cancelled_in(remaining, last())
        ended.append("first")

    await cancelled_in(remaining, work())
    goes_on.set()
    assert await remaining.settled(BOUND_S) == 0
    assert ended == ["first", "last"]
