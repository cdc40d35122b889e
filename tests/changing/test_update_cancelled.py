"""Deletes and updates of local tables that are cancelled: the old version or the new one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import alance
from tests.changing.both_ways import Twins, files_of, latest, read

if TYPE_CHECKING:
    from pathlib import Path


async def cancelled_after(task: asyncio.Task[alance.Dataset], turns: int) -> bool:
    """Cancel a task after some turns of the loop and a while; tells whether it was done."""
    for _ in range(turns % 3):
        await asyncio.sleep(0)
    await asyncio.sleep(0.0005 * (turns // 3))
    done = task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return done


@pytest.mark.parametrize("name", ["delete", "update"])
async def test_after_any_number_of_turns(tmp_path: Path, name: str) -> None:
    twins = Twins.make(tmp_path, enable_stable_row_ids=True)
    done, turns = False, 0
    while not done:
        twins.again()
        before = files_of(twins.ours)
        async with alance.Session() as session:
            dataset = await alance.dataset(str(twins.ours), session=session)
            if name == "delete":
                change = dataset.delete("id in (1, 7, 8)")
            else:
                change = dataset.update({"v": "-1"}, "id in (1, 7, 8)")
            done = await cancelled_after(asyncio.ensure_future(change), turns)
            version = latest(twins.ours).version  # what a thread had begun has ended
        rows = read(twins.ours).to_pylist()
        if version == 2 and name == "delete":
            assert [row["id"] for row in rows] == [n for n in range(20) if n not in (1, 7, 8)]
        else:
            changed = [row["id"] for row in rows if row["v"] == -1]
            assert changed == ([] if version == 1 else [1, 7, 8])
            assert sorted(row["id"] for row in rows) == list(range(20))
        values = {path.partition("/")[0] for path in files_of(twins.ours) - before}
        if version == 1 and "_transactions" not in values:
            assert not values, "nothing was near its end"
        turns += 1 if turns < 12 else 4
    assert version == 2
