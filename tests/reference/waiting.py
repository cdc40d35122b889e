"""Waiting for what a loop does by itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


async def turns(count: int = 5) -> None:
    """Let the loop do what is ready."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(check: Callable[[], object]) -> None:
    """Wait for something that comes with time.

    Raises:
        AssertionError: it has not come in 10 s.
    """
    for _ in range(2000):
        if check():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it has not come in 10 s")
