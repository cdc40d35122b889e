"""Drives a plan over a store: asks for the bytes of each round and sends them in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from alance.format.plans import Plan, T, Wanted


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
