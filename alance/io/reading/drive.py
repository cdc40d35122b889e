"""Drivers of plans: they read the bytes of each round and send them to the plan."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Final

from alance.format.plans import TURN, Done, step

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from alance.format.plans import Extent, Plan, T

PLAN_TURN_S: Final = 0.004  # seconds that one caller may use the loop before others run


async def drive(
    plan: Plan[T],
    read: Callable[[Sequence[Extent]], Awaitable[Sequence[memoryview]]],
    at_hand: Callable[[Sequence[Extent]], Sequence[memoryview] | None] = lambda _: None,
) -> T:
    """Run a plan to its end, and return its result.

    Each round that requests bytes costs one `read`. A plan with much CPU work yields rounds without
    ranges, in which the loop runs other callers. The plan is always closed.

    Args:
        at_hand: tried before `read`; returns the bytes of a round, or None if reading them would
            block.
    """
    begun = monotonic()
    try:
        outcome = step(plan)
        while not isinstance(outcome, Done):
            if outcome:
                buffers = at_hand(outcome)
                if buffers is None:
                    buffers = await read(outcome)
                begun = monotonic()
                outcome = step(plan, buffers)
            else:
                begun = await _pause(begun)
                outcome = step(plan, ())
        return outcome.result
    finally:
        plan.close()


async def drive_all(
    plans: Sequence[Plan[T]], read: Callable[[Sequence[Extent]], Awaitable[Sequence[memoryview]]]
) -> list[T]:
    """Run plans in lockstep, as `together` does; return their results in order.

    Each round costs one `read` for all plans. Other callers of the loop run in between.
    """
    outcomes: list[Sequence[Extent] | Done[T]] = []
    begun = monotonic()
    try:
        for plan in plans:
            ranges, begun = await _to_next_round(plan, None, begun)
            outcomes.append(ranges)
        while waiting := [
            (number, ranges)
            for number, ranges in enumerate(outcomes)
            if not isinstance(ranges, Done)
        ]:
            all_ranges = [extent for _, ranges in waiting for extent in ranges]
            buffers = (await read(all_ranges)) if all_ranges else ()
            sent = 0
            begun = monotonic()
            for number, ranges in waiting:
                stop = sent + len(ranges)
                part = buffers[sent:stop]
                outcomes[number], begun = await _to_next_round(plans[number], part, begun)
                sent = stop
        return [end.result for end in outcomes if isinstance(end, Done)]
    finally:
        for plan in plans:
            plan.close()


async def _to_next_round(
    plan: Plan[T], buffers: Sequence[memoryview] | None, begun: float
) -> tuple[Sequence[Extent] | Done[T], float]:
    """Run a plan until it requests extents or ends. Lets other callers run at the plan's `TURN`s.

    Args:
        begun: time of the last pause.

    Returns:
        The requested extents or the end of the plan, and the new time of the last pause.
    """
    outcome = step(plan, buffers)
    begun = await _pause(begun)
    while outcome is TURN:
        outcome = step(plan, ())
        begun = await _pause(begun)
    return outcome, begun


async def _pause(begun: float) -> float:
    """Let other callers run if `PLAN_TURN_S` have passed since `begun`; return the new start."""
    if monotonic() - begun < PLAN_TURN_S:
        return begun
    await asyncio.sleep(0)
    return monotonic()
