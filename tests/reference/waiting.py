"""Waiting for what a loop does by itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.testing.lab import Lab


async def turns(count: int = 5) -> None:
    """Let the loop do what is ready."""
    for _ in range(count):
        await asyncio.sleep(0)


class Turns:
    """Counts the turns that the loop has while something else is done, as long as the block lasts.

    Attributes:
        count: of turns so far.
    """

    def __init__(self) -> None:
        self.count = 0

    async def __aenter__(self) -> Turns:
        self._counting = asyncio.create_task(self._count())
        await asyncio.sleep(0)
        self.count = 0
        return self

    async def __aexit__(self, *_: object) -> None:
        self._counting.cancel()

    async def _count(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0)


async def until(check: Callable[[], object]) -> None:
    """Wait for something that comes with time.

    Raises:
        AssertionError: it has not come in a minute.
    """
    for _ in range(12_000):
        if check():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it has not come in a minute")


async def stuck(lab: Lab, since: int) -> None:
    """Until a request has no answer to come: one from this number on, of those with a fault if
    there are faults.
    """
    has_faults = bool(lab.config()["faults"])
    while not any(  # noqa: ASYNC110 - the server tells nobody
        "t2" not in request and ("fault" in request or not has_faults) for request in lab.log(since)
    ):
        await asyncio.sleep(0.01)


async def landed(lab: Lab) -> None:
    """Until no request is under way, those among them whose caller has gone."""
    while lab.stats()["in_flight"]:  # noqa: ASYNC110 - the server tells nobody
        await asyncio.sleep(0.01)
