"""The memory budget that all large takes of a session share."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Budget:
    """A budget of bytes in one event loop: first come, first served.

    A caller must request all its bytes at once. If a caller could hold bytes and request more, two
    callers could deadlock.

    Args:
        num_bytes: the budget; a single caller may exceed it.

    Attributes:
        num_taken: bytes that are held now.
    """

    def __init__(self, num_bytes: int) -> None:
        self.num_bytes = num_bytes
        self.num_taken = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def taken(self, num_bytes: int) -> AsyncIterator[None]:
        """Wait until there is room, then hold `num_bytes` inside the block."""
        entered = asyncio.get_running_loop().create_future()
        self._waiting.append((num_bytes, entered))
        self._let_in()
        try:
            await entered
            yield
        finally:
            if entered.done() and not entered.cancelled():
                self.num_taken -= num_bytes
            entered.cancel()
            self._let_in()

    def _let_in(self) -> None:
        while self._waiting:
            num_bytes, entered = self._waiting[0]
            if not entered.cancelled():
                if self.num_taken and self.num_taken + num_bytes > self.num_bytes:
                    return
                self.num_taken += num_bytes
                entered.set_result(None)
            self._waiting.popleft()
