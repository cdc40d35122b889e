"""Memory for bytes that are read and not decoded yet, shared by all who read much at once."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Room:
    """A budget of bytes in one event loop.

    Args:
        num_bytes: the budget; one caller gets in whatever it needs.
    """

    def __init__(self, num_bytes: int) -> None:
        self._num_bytes = num_bytes
        self._taken = 0
        self._numbers = count()
        self._waiting: list[tuple[int, int, int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def taken(self, num_bytes: int, rank: int = 0) -> AsyncIterator[None]:
        """Hold some bytes, as soon as there is room.

        Args:
            rank: who has a lower one goes first; of equal ones who came first.
        """
        entered = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (rank, next(self._numbers), num_bytes, entered))
        self._let_in()
        try:
            await entered
            yield
        finally:
            if entered.done() and not entered.cancelled():
                self._taken -= num_bytes
            entered.cancel()
            self._let_in()

    def _let_in(self) -> None:
        while self._waiting:
            _, _, num_bytes, entered = self._waiting[0]
            if not entered.cancelled():
                if self._taken and self._taken + num_bytes > self._num_bytes:
                    return
                self._taken += num_bytes
                entered.set_result(None)
            heappop(self._waiting)
