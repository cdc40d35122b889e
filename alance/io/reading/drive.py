"""Drives a plan over a store: asks for the bytes of each round and sends them in."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Final

from alance.format.plans import TURN, Done, step

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from alance.format.plans import Extent, Plan, T

PLAN_TURN_S: Final = 0.004  # of work that the loop does for one caller at a time


async def drive(
    plan: Plan[T],
    read: Callable[[Sequence[Extent]], Awaitable[Sequence[memoryview]]],
    at_hand: Callable[[Sequence[Extent]], Sequence[memoryview] | None] = lambda _: None,
) -> T:
    """Run a plan to its end; one `read` a round, none for a round that asks for nothing.

    What a plan of many parts does with their bytes does not hold the loop up: at its turns others
    run. The plan is closed however this ends.

    Args:
        at_hand: asked first: the bytes of a round that need not be waited for, or None.
    """
    begun = monotonic()
    try:
        asked = step(plan)
        while not isinstance(asked, Done):
            if asked:
                buffers = at_hand(asked)
                if buffers is None:
                    buffers = await read(asked)
                begun = monotonic()
                asked = step(plan, buffers)
            else:
                begun = await _pause(begun)
                asked = step(plan, ())
        return asked.result
    finally:
        plan.close()


async def drive_all(
    plans: Sequence[Plan[T]], read: Callable[[Sequence[Extent]], Awaitable[Sequence[memoryview]]]
) -> list[T]:
    """Run plans to their ends in lockstep, as `together` does; results in the order of the plans.

    What many plans do with their bytes does not hold the loop up: others run in between.
    """
    asked: list[Sequence[Extent] | Done[T]] = []
    begun = monotonic()
    try:
        for plan in plans:
            ranges, begun = await _to_next_round(plan, None, begun)
            asked.append(ranges)
        while waiting := [
            (number, ranges) for number, ranges in enumerate(asked) if not isinstance(ranges, Done)
        ]:
            all_ranges = [extent for _, ranges in waiting for extent in ranges]
            buffers = (await read(all_ranges)) if all_ranges else ()
            sent = 0
            begun = monotonic()
            for number, ranges in waiting:
                stop = sent + len(ranges)
                part = buffers[sent:stop]
                asked[number], begun = await _to_next_round(plans[number], part, begun)
                sent = stop
        return [end.result for end in asked if isinstance(end, Done)]
    finally:
        for plan in plans:
            plan.close()


async def _to_next_round(
    plan: Plan[T], buffers: Sequence[memoryview] | None, begun: float
) -> tuple[Sequence[Extent] | Done[T], float]:
    """Like `step`, with the plan's turns; gives also when the loop was taken last."""
    asked = step(plan, buffers)
    begun = await _pause(begun)
    while asked is TURN:
        asked = step(plan, ())
        begun = await _pause(begun)
    return asked, begun


async def _pause(begun: float) -> float:
    """Let others run, if the loop has been held since `begun`; gives when it was taken again."""
    if monotonic() - begun < PLAN_TURN_S:
        return begun
    await asyncio.sleep(0)
    return monotonic()
