"""A cancelled read leaves nothing behind, at whichever await it is cancelled."""

from __future__ import annotations

import asyncio
import gc
import warnings
from typing import TYPE_CHECKING

import pytest

import alance

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from alance.testing.lab import Lab

CONDITION = "l_shipmode = 'AIR' and l_quantity > 40"


async def scan(dataset: alance.Dataset) -> None:
    async for _ in dataset.to_batches(batch_size=500):
        pass


READS: dict[str, Callable[[alance.Dataset], Awaitable[object]]] = {
    "take": lambda dataset: dataset.take([1, 6000, 12_000]),
    "take rows": lambda dataset: dataset.take_rows([1, (1 << 32) + 5]),
    "scan": scan,
    "filter": lambda dataset: dataset.to_table(["l_comment"], filter=CONDITION),
    "count": lambda dataset: dataset.count_rows(CONDITION),
    "versions": lambda dataset: dataset.versions(),
}


@pytest.mark.parametrize("name", list(READS))
async def test_a_read_cancelled_after_any_number_of_turns(lineitem_lab: Lab, name: str) -> None:
    lineitem_lab.config(latency_ms=1)
    options = lineitem_lab.lance_options()
    others = asyncio.all_tasks()
    finished = False
    turns = 0
    while not finished:
        async with alance.Session() as session:
            dataset = await alance.dataset(
                "s3://lab/lineitem.lance", storage_options=options, session=session
            )
            task = asyncio.ensure_future(READS[name](dataset))
            for _ in range(turns):
                if task.done():
                    break
                await asyncio.sleep(0.0005 if turns > 20 else 0)
            finished = task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            for _ in range(20):  # turns in which what was cancelled ends
                await asyncio.sleep(0)
            assert asyncio.all_tasks() == others, asyncio.all_tasks() - others
            assert (await dataset.take([3])).num_rows == 1, "the session goes on"
        turns += 1 if turns < 20 else 10
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gc.collect()


async def test_one_of_many_callers_cancelled(lineitem_lab: Lab) -> None:
    lineitem_lab.config(latency_ms=20)
    async with alance.Session() as session:
        dataset = await alance.dataset(
            "s3://lab/lineitem.lance",
            storage_options=lineitem_lab.lance_options(),
            session=session,
        )
        tasks = [asyncio.ensure_future(dataset.take([n, 7000 + n])) for n in range(20)]
        await asyncio.sleep(0.03)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert [(await task).num_rows for task in tasks[1::2]] == [2] * 10


async def test_closing_a_session_ends_its_reads(lineitem_lab: Lab) -> None:
    lineitem_lab.config(latency_ms=50)
    session = alance.Session()
    dataset = await alance.dataset(
        "s3://lab/lineitem.lance", storage_options=lineitem_lab.lance_options(), session=session
    )
    reads = [asyncio.ensure_future(dataset.take([n])) for n in range(5)]
    scan_task = asyncio.ensure_future(dataset.to_table())
    await asyncio.sleep(0.02)
    await session.aclose()
    ended = await asyncio.gather(*reads, scan_task, return_exceptions=True)
    assert all(isinstance(item, asyncio.CancelledError | alance.AlanceError) for item in ended), (
        ended
    )
    with pytest.raises(alance.InvalidInputError, match="closed"):
        await dataset.take([1])


def test_a_session_belongs_to_one_loop(golden: object) -> None:
    session = alance.Session()

    async def open_and_close(close: bool) -> None:
        await alance.dataset(f"{golden}/lineitem.lance", session=session)
        if close:
            await session.aclose()

    asyncio.run(open_and_close(False))
    with pytest.raises(alance.InvalidInputError, match="another event loop"):
        asyncio.run(open_and_close(False))
