"""Retries and their budget, with a clock and a die of our own."""

from __future__ import annotations

import pytest

from alance.errors import NotFoundError, StoreError
from alance.io.cloud.resilience import Retries, RetryBudget

TRANSIENT = StoreError("503", retryable=True, status=503)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_budget_empties_and_is_filled_by_successes_and_time() -> None:
    clock = Clock()
    budget = RetryBudget(capacity=3, per_success=0.5, per_second=0.1, clock=clock)
    assert [budget.spend() for _ in range(4)] == [True, True, True, False]
    budget.succeeded()
    assert not budget.spend()
    budget.succeeded()
    assert budget.spend()
    clock.now += 10
    assert budget.spend()
    clock.now += 1e6
    assert budget.tokens == 3
    for _ in range(100):
        budget.succeeded()
    assert budget.tokens == 3


def test_pauses_grow_up_to_a_bound_and_are_jittered() -> None:
    tuples: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        tuples.append((low, high))
        return high / 2

    rule = Retries(max_retries=6, first_pause_s=0.1, max_pause_s=1.0, uniform=uniform)
    pauses = [rule.pause(TRANSIENT, n) for n in range(7)]
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.5, 0.5, None]
    assert tuples == [(0, 0.1), (0, 0.2), (0, 0.4), (0, 0.8), (0, 1.0), (0, 1.0)]


@pytest.mark.parametrize(
    "failure", [StoreError("400", status=400), NotFoundError("x"), ValueError(), KeyError()]
)
def test_only_transient_failures_are_tried_again(failure: Exception) -> None:
    assert Retries().pause(failure, 0) is None


def test_an_empty_budget_ends_retries() -> None:
    rule = Retries(budget=RetryBudget(capacity=2, clock=Clock()))
    assert rule.pause(TRANSIENT, 0) is not None
    assert rule.pause(TRANSIENT, 0) is not None
    assert rule.pause(TRANSIENT, 0) is None


async def test_run_waits_and_tries_again() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    outcomes: list[object] = [OSError(), OSError(), "done"]

    async def attempt() -> object:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    rule = Retries(uniform=lambda low, high: high, sleep=sleep)
    assert await rule.run(attempt, lambda error: TRANSIENT) == "done"
    assert slept == [0.1, 0.2]


async def test_run_raises_the_last_failure_as_translated() -> None:
    async def attempt() -> None:
        raise OSError("raw")

    async def sleep(seconds: float) -> None: ...

    rule = Retries(max_retries=2, sleep=sleep)
    with pytest.raises(StoreError, match="503"):
        await rule.run(attempt, lambda error: StoreError("503", retryable=True))
