"""One append that comes to no end keeps no other one of its session."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import alance
from alance.versioning import group_queue
from tests.lifecycle.test_cancelled_writes import FREE_S
from tests.reference.waiting import stuck
from tests.simulation.append_rules import append
from tests.versioning.test_commit_queue import Queue

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from alance.format.table.manifest import Manifest
    from alance.format.table.transaction import Transaction
    from alance.testing.lab import Lab
    from alance.versioning.manifest_store import Objects
    from tests.versioning.conftest import Committer

_numbers = itertools.count(1)


def rows(number: int) -> pa.Table:
    return pa.table({"x": [number]})


async def test_data_that_does_not_come_keeps_nobody(committer: Committer) -> None:
    first = await committer.create()
    queue = Queue(committer)
    never, late = asyncio.Event(), asyncio.Event()
    adds = [
        asyncio.create_task(queue.append(append(1, [name]), first, event.wait()))
        for name, event in (("never", never), ("late", late))
    ]
    async with asyncio.timeout(FREE_S):
        beside = [queue.add(first, "a"), queue.add(first, "b")]
        results = await asyncio.gather(*beside)
        assert {item.version for item in results} == {2}
        assert (await queue.add(first, "c")).version == 3
        assert not any(add.done() for add in adds)
        late.set()
        assert (await adds[1]).version == 4
        adds[0].cancel()
        await asyncio.wait([adds[0]])
        await queue.aclose()
    assert await committer.paths() == ["a", "b", "c", "late"]


async def test_one_alone_whose_data_does_not_come(committer: Committer) -> None:
    """It is a group by itself already when others come."""
    first = await committer.create()
    queue = Queue(committer)
    never = asyncio.Event()
    alone = asyncio.create_task(queue.append(append(1, ["never"]), first, never.wait()))
    while not queue.commits:  # noqa: ASYNC110 - its version is being prepared
        await asyncio.sleep(0)
    async with asyncio.timeout(FREE_S):
        assert (await queue.add(first, "a")).version == 2
        never.set()
        assert (await alone).version == 3


async def test_a_version_that_comes_to_no_end_keeps_nobody(
    committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_queue, "STUCK_S", 0.05)
    first = await committer.create()
    queue = Queue(committer)
    inner, goes_on = queue._commit, asyncio.Event()

    async def commit(
        transaction: Transaction,
        base: Manifest,
        data: Awaitable[object] | None,
        named: Objects,
    ) -> Manifest:
        if queue.commits == 0:
            queue.commits += 1
            await goes_on.wait()
        return await inner(transaction, base, data, named)

    queue._commit = commit
    held = asyncio.create_task(queue.add(first, "stuck"))
    while not queue.commits:  # noqa: ASYNC110 - its version is being made
        await asyncio.sleep(0)
    async with asyncio.timeout(FREE_S):
        for number, name in enumerate("abc", 2):
            assert (await queue.add(first, name)).version == number
        assert not held.done()
        goes_on.set()
        assert (await held).version == 5
        assert (await queue.add(first, "d")).version == 6
    assert await committer.paths() == ["a", "b", "c", "stuck", "d"]


@pytest.mark.parametrize("count", [1, 2])
async def test_those_who_are_cancelled_leave_while_data_is_awaited(
    committer: Committer, count: int
) -> None:
    first = await committer.create()
    queue = Queue(committer)
    never = asyncio.Event()
    adds = [
        asyncio.create_task(queue.append(append(1, [str(number)]), first, never.wait()))
        for number in range(count)
    ]
    while not queue.commits:  # noqa: ASYNC110 - their version is being prepared
        await asyncio.sleep(0)
    for add in adds:
        add.cancel()
    async with asyncio.timeout(FREE_S):
        ended = await asyncio.gather(*adds, return_exceptions=True)
        assert [type(item) for item in ended] == [asyncio.CancelledError] * count
        await queue.aclose()
    assert (await committer.latest()).version == 1


@pytest.mark.parametrize("step", ["data", "_transactions", "_versions"])
@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_one_put_that_is_not_answered(lab: Lab, step: str, is_cancelled: bool) -> None:
    name = f"stuck-appends-{next(_numbers)}"
    uri, options = f"s3://lab/{name}", lab.lance_options()
    async with alance.Session() as session:
        dataset = await alance.write_dataset(rows(0), uri, storage_options=options, session=session)
        # Of this table: a PUT of an earlier test may still be on its way.
        key = f"{name}/{step}/"
        lab.config(faults=[{"op": "PUT", "key": key, "action": "stall", "times": 1}])
        since = lab.stats()["requests"]
        first = asyncio.create_task(dataset.insert(rows(1)))
        await stuck(lab, since)
        async with asyncio.timeout(FREE_S):
            for number in range(2, 5):
                await dataset.insert(rows(number))
            assert step != "data" or not first.done()
            if is_cancelled:
                first.cancel()
                await asyncio.wait([first])
        if not first.done():
            first.cancel()
            await asyncio.wait([first])
    reopened = await alance.dataset(uri, storage_options=options)
    values = sorted((await reopened.to_table()).column("x").to_pylist())
    assert values in ([0, 2, 3, 4], [0, 1, 2, 3, 4])
    assert not first.done() or first.cancelled() or values == [0, 1, 2, 3, 4]
    assert not (step == "data" and is_cancelled and 1 in values)


async def test_a_manifest_whose_put_is_not_answered_is_put_again(lab: Lab) -> None:
    uri = f"s3://lab/stuck-appends-{next(_numbers)}"
    options = lab.lance_options()
    for action in ("stall", "apply_stall"):
        lab.calm()
        dataset = await alance.write_dataset(
            rows(0), uri, mode="overwrite", storage_options=options
        )
        lab.config(faults=[{"op": "PUT", "key": "/_versions/", "action": action, "times": 1}])
        async with asyncio.timeout(FREE_S):
            inserted = await dataset.insert(rows(1))
        assert inserted.version == dataset.version + 1
        assert await inserted.count_rows() == 2
