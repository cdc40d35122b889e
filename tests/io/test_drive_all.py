"""Plans driven together: rounds are shared, results in order, others run in between."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from alance.errors import CorruptFileError
from alance.format.plans import TURN, ByteRange, answered, run, step, through, together
from alance.io.reading import drive

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from alance.format.plans import Extent, Plan

CONTENT = bytes(range(200))


class Reads:
    """Answers ranges, and notes how many a round asks for."""

    def __init__(self) -> None:
        self.rounds: list[int] = []

    async def __call__(self, extents: Sequence[Extent]) -> Sequence[memoryview]:
        self.rounds.append(len(extents))
        await asyncio.sleep(0)
        return [memoryview(CONTENT)[item.start : item.stop] for item in extents]


def plan(number: int, rounds: int, closed: list[int], fail_at: int = -1) -> Plan[tuple[int, bytes]]:
    """Asks for as many ranges as its number, round by round; once for none."""
    result = b""
    try:
        for turn in range(rounds):
            if turn == fail_at:
                raise CorruptFileError("no")
            ranges = [ByteRange("f", turn + n, turn + n + 2) for n in range(number)]
            result += b"".join((yield ranges))
        return number, result
    finally:
        closed.append(number)


async def test_rounds_are_shared() -> None:
    reads, closed = Reads(), list[int]()
    plans = [plan(n, turns, closed) for n, turns in enumerate([2, 0, 3, 1])]
    result = await drive.drive_all(plans, reads)
    alone = [
        await drive.drive(plan(n, turns, closed), reads) for n, turns in enumerate([2, 0, 3, 1])
    ]
    assert result == alone
    assert reads.rounds[:3] == [5, 2, 2]
    assert await drive.drive_all([], reads) == []


async def test_all_are_closed_where_one_fails() -> None:
    closed = list[int]()
    with pytest.raises(CorruptFileError):
        await drive.drive_all([plan(1, 3, closed), plan(2, 3, closed, fail_at=1)], Reads())
    assert sorted(closed) == [1, 2]


async def turns_during(work: Awaitable[object]) -> int:
    """Return the number of turns of another task during the work."""
    turns, done = 0, False

    async def count() -> None:
        nonlocal turns
        while not done:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.ensure_future(count())
    await work
    done = True
    await other
    return turns


async def test_others_run_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drive, "PLAN_TURN_S", 0.0)
    plans = [plan(1, 1, []) for _ in range(50)]
    assert await turns_during(drive.drive_all(plans, Reads())) >= 100


@pytest.mark.parametrize("is_nested", [False, True])
async def test_others_run_in_between_the_parts_of_one_plan(
    monkeypatch: pytest.MonkeyPatch, is_nested: bool
) -> None:
    def parts() -> Plan[list[tuple[int, bytes]]]:
        plans = [plan(number % 3, number % 4, []) for number in range(200)]
        if is_nested:
            sample = yield from together([together(plans[:150]), together(plans[150:])])
            return [result for results in sample for result in results]
        return (yield from together(plans))

    monkeypatch.setattr(drive, "PLAN_TURN_S", 0.0)
    expected = await drive.drive_all([plan(n % 3, n % 4, []) for n in range(200)], Reads())
    reads = Reads()
    driven: list[object] = []

    async def work() -> None:
        driven.append(await drive.drive(parts(), reads))

    assert await turns_during(work()) >= 20
    assert driven == [expected]
    assert run(parts(), CONTENT)[0] == expected
    rounds = [sum(n % 3 for n in range(200) if n % 4 > turn) for turn in range(3)]
    assert reads.rounds == rounds
    reads = Reads()
    assert await drive.drive_all([parts(), parts()], reads) == [expected, expected]
    assert reads.rounds == [2 * count for count in rounds]


async def test_a_plan_of_few_parts_is_not_left() -> None:
    assert await turns_during(drive.drive(together([plan(0, 0, [])] * 1), Reads())) <= 1
    request = step(together([plan(1, 1, []) for _ in range(8)]))
    assert request is not TURN


def test_turns_within_plans_that_are_answered_stay_turns() -> None:
    def answer(ranges: Sequence[Extent]) -> Plan[Sequence[memoryview]]:
        assert ranges is not TURN
        return (yield ranges)

    inner = through(together([plan(1, 1, []) for _ in range(40)]), answer)
    request = [step(inner)]
    while request[-1] is TURN:
        request.append(step(inner, ()))
    assert len(request) == 3
    inner.close()

    def buffers(ranges: Sequence[Extent]) -> list[memoryview]:
        assert ranges is not TURN
        return [memoryview(CONTENT)[item.start : item.stop] for item in ranges]

    assert len(answered(together([plan(1, 1, []) for _ in range(40)]), buffers)) == 40
