"""Plans driven together: rounds are shared, results in order, others run in between."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from alance.errors import CorruptFileError
from alance.format.plans import ByteRange
from alance.io import drive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.plans import Plan, Wanted

CONTENT = bytes(range(200))


class Reads:
    """Answers ranges, and notes how many a round asks for."""

    def __init__(self) -> None:
        self.rounds: list[int] = []

    async def __call__(self, wanted: Sequence[Wanted]) -> Sequence[memoryview]:
        self.rounds.append(len(wanted))
        await asyncio.sleep(0)
        return [memoryview(CONTENT)[one.start : one.stop] for one in wanted]


def plan(number: int, rounds: int, closed: list[int], fail_at: int = -1) -> Plan[tuple[int, bytes]]:
    """Asks for as many ranges as its number, round by round; once for none."""
    found = b""
    try:
        for turn in range(rounds):
            if turn == fail_at:
                raise CorruptFileError("no")
            ranges = [ByteRange("f", turn + n, turn + n + 2) for n in range(number)]
            found += b"".join((yield ranges))
        return number, found
    finally:
        closed.append(number)


async def test_rounds_are_shared() -> None:
    reads, closed = Reads(), list[int]()
    plans = [plan(n, turns, closed) for n, turns in enumerate([2, 0, 3, 1])]
    found = await drive.drive_all(plans, reads)
    alone = [
        await drive.drive(plan(n, turns, closed), reads) for n, turns in enumerate([2, 0, 3, 1])
    ]
    assert found == alone
    assert reads.rounds[:3] == [5, 2, 2]
    assert await drive.drive_all([], reads) == []


async def test_all_are_closed_where_one_fails() -> None:
    closed = list[int]()
    with pytest.raises(CorruptFileError):
        await drive.drive_all([plan(1, 3, closed), plan(2, 3, closed, fail_at=1)], Reads())
    assert sorted(closed) == [1, 2]


async def test_others_run_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drive, "TURN_S", 0.0)
    turns, done = 0, False

    async def count() -> None:
        nonlocal turns
        while not done:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.ensure_future(count())
    await drive.drive_all([plan(1, 1, []) for _ in range(50)], Reads())
    done = True
    await other
    assert turns >= 100
