"""Callers that are answered together: what befalls one is not the matter of the others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import alance
from alance.io.reading.joined import CALLERS_A_TURN, Joint
from tests.reference.waiting import turns

if TYPE_CHECKING:
    from collections.abc import Sequence


class Answers:
    """Answers that wait for a word."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.groups: list[list[int]] = []
        self.cancelled = 0

    async def __call__(self, questions: Sequence[int]) -> list[int]:
        self.groups.append([*questions])
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return [-question for question in questions]


def ask(joint: Joint[int, int], answers: Any, *questions: int) -> list[asyncio.Future[int]]:
    return [asyncio.ensure_future(joint.ask(question, 1, answers)) for question in questions]


async def test_those_that_come_meanwhile_go_together_when_an_answer_is_there() -> None:
    joint, answers = Joint[int, int](4, 1), Answers()
    first = ask(joint, answers, 1)
    await turns()
    others = ask(joint, answers, *range(2, 8))
    await turns()
    assert answers.groups == [[1]]
    answers.go.set()
    assert await asyncio.gather(*first, *others) == [-n for n in range(1, 8)]
    assert answers.groups == [[1], [2, 3, 4, 5], [6, 7]]


async def test_a_cancelled_caller_leaves_the_answer_to_the_others() -> None:
    joint, answers = Joint[int, int](8, 1), Answers()
    before = asyncio.all_tasks()
    callers = ask(joint, answers, 0, 1, 2)
    await turns()
    callers[0].cancel()
    await asyncio.gather(callers[0], return_exceptions=True)
    assert answers.cancelled == 0
    answers.go.set()
    assert [await caller for caller in callers[1:]] == [-1, -2]
    answers.go.clear()
    callers = ask(joint, answers, 0, 1, 2)
    await turns()
    callers += ask(joint, answers, 9)
    await turns()
    for caller in callers:
        caller.cancel()
    await asyncio.gather(*callers, return_exceptions=True)
    assert answers.cancelled == 1
    assert asyncio.all_tasks() == before
    answers.go.set()
    assert await asyncio.gather(*ask(joint, answers, 5)) == [-5]


async def test_a_failure_is_the_matter_of_who_asked_for_it() -> None:
    joint, request = Joint[int, int](8, 1), []

    async def answer(questions: Sequence[int]) -> list[int]:
        request.append(len(questions))
        await asyncio.sleep(0)
        if 2 in questions:
            raise alance.CorruptFileError("two")
        return [*questions]

    outcomes = await asyncio.gather(*ask(joint, answer, *range(8)), return_exceptions=True)
    assert [outcome for outcome in outcomes if isinstance(outcome, int)] == [0, 1, 3, 4, 5, 6, 7]
    assert isinstance(outcomes[2], alance.CorruptFileError)
    assert sorted(request) == [1, 1, 2, 2, 4, 4, 8], "halves of halves, not each caller"


async def test_a_crowd_goes_on_in_several_turns_and_asks_again_together() -> None:
    joint, answers = Joint[int, int](1 << 20, 8), Answers()
    answers.go.set()
    count, going_on = 3 * CALLERS_A_TURN, []
    turn = 0

    async def caller(number: int) -> None:
        await joint.ask(number, 1, answers)
        going_on.append(turn)
        await joint.ask(-number, 1, answers)

    callers = [asyncio.ensure_future(caller(number)) for number in range(count)]
    while not all(item.done() for item in callers):
        await asyncio.sleep(0)
        turn += 1
    assert max(going_on.count(turn) for turn in going_on) == CALLERS_A_TURN
    assert [len(questions) for questions in answers.groups] == [count, count]


async def test_callers_of_two_traces_do_not_go_together() -> None:
    joint, answers = Joint[int, int](8, 8), Answers()
    answers.go.set()

    async def traced(*questions: int) -> list[int]:
        with alance.trace():
            return await asyncio.gather(*ask(joint, answers, *questions))

    assert await asyncio.gather(traced(1, 2), traced(3), *ask(joint, answers, 4)) == [
        [-1, -2],
        [-3],
        -4,
    ]
    assert sorted(answers.groups) == [[1, 2], [3], [4]]


@pytest.mark.parametrize("count", [1, 5])
async def test_a_call_cancelled_at_any_turn_leaves_nothing(count: int) -> None:
    before = asyncio.all_tasks()
    for number in range(8):
        joint, answers = Joint[int, int](8, 1), Answers()
        callers = ask(joint, answers, *range(count))
        for turn in range(number):
            await asyncio.sleep(0)
            if turn == 4:
                answers.go.set()
        for caller in callers:
            caller.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
        assert asyncio.all_tasks() == before
