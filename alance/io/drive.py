"""Drives a plan over a store: asks for the bytes of each round and sends them in."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from alance.format.plans import Plan, T, Wanted

TURN_S: Final = 0.004  # of work that the loop does for one caller at a time


async def drive(
    plan: Plan[T], read: Callable[[Sequence[Wanted]], Awaitable[Sequence[memoryview]]]
) -> T:
    """Run a plan to its end; one `read` a round, none for a round that asks for nothing.

    The plan is closed however this ends.
    """
    try:
        wanted = next(plan)
        while True:
            wanted = plan.send((await read(wanted)) if wanted else ())
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        plan.close()


async def drive_all(
    plans: Sequence[Plan[T]], read: Callable[[Sequence[Wanted]], Awaitable[Sequence[memoryview]]]
) -> list[T]:
    """Run plans to their ends in lockstep, as `together` does; results in the order of the plans.

    What many plans do with their bytes does not hold the loop up: others run in between.
    """
    results: list[T | None] = [None] * len(plans)
    waiting: list[tuple[int, Sequence[Wanted]]] = []
    begun = monotonic()
    try:
        for number, plan in enumerate(plans):
            try:
                waiting.append((number, next(plan)))
            except StopIteration as done:
                results[number] = done.value
            begun = await _pause(begun)
        while waiting:
            ranges = [one for _, wanted in waiting for one in wanted]
            buffers = (await read(ranges)) if ranges else ()
            sent, left = 0, []
            begun = monotonic()
            for number, wanted in waiting:
                mine = buffers[sent : sent + len(wanted)]
                sent += len(wanted)
                try:
                    left.append((number, plans[number].send(mine)))
                except StopIteration as done:
                    results[number] = done.value
                begun = await _pause(begun)
            waiting = left
    finally:
        for plan in plans:
            plan.close()
    return results  # type: ignore[return-value]  # every plan has returned by now


async def _pause(begun: float) -> float:
    """Let others run, if the loop has been held since `begun`; gives when it was taken again."""
    if monotonic() - begun < TURN_S:
        return begun
    await asyncio.sleep(0)
    return monotonic()
