"""Memory for bytes that are read at once."""

from __future__ import annotations

import asyncio

from alance.io.reading.budget import Budget


class Callers:
    """Callers that hold some bytes until they are told to leave."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.inside: list[str] = []
        self.leave: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def enter(self, name: str, num_bytes: int) -> None:
        async def hold() -> None:
            async with self.budget.taken(num_bytes):
                self.inside.append(name)
                try:
                    await self.leave[name].wait()
                finally:
                    self.inside.remove(name)

        self.leave[name] = asyncio.Event()
        self.tasks[name] = asyncio.ensure_future(hold())
        await self.turns()

    async def turns(self) -> None:
        for _ in range(4):
            await asyncio.sleep(0)

    async def end(self, name: str) -> None:
        self.leave[name].set()
        await self.tasks[name]
        await self.turns()


async def test_no_more_is_held_than_there_is_room_for() -> None:
    callers = Callers(Budget(10))
    await callers.enter("a", 6)
    await callers.enter("b", 5)
    await callers.enter("c", 4)
    assert callers.inside == ["a"], "first come, first served"
    await callers.end("a")
    assert callers.inside == ["b", "c"]
    await callers.enter("huge", 100)
    await callers.end("b")
    assert callers.inside == ["c"]
    await callers.end("c")
    assert callers.inside == ["huge"], "alone it is let in"
    await callers.end("huge")


async def test_who_came_first_goes_first_whatever_would_fit() -> None:
    callers = Callers(Budget(10))
    await callers.enter("a", 6)
    await callers.enter("large", 10)
    await callers.enter("small", 1)
    assert callers.inside == ["a"]
    await callers.end("a")
    assert callers.inside == ["large"]
    await callers.end("large")
    assert callers.inside == ["small"]
    await callers.end("small")
    assert callers.budget.num_taken == 0


async def test_who_is_cancelled_leaves_room() -> None:
    callers = Callers(Budget(10))
    await callers.enter("a", 8)
    await callers.enter("waiting", 8)
    await callers.enter("b", 2)
    for name in ("waiting", "a"):
        callers.tasks[name].cancel()
        await asyncio.gather(callers.tasks[name], return_exceptions=True)
        await callers.turns()
        assert callers.inside[-1] == "b"
    await callers.end("b")
    await callers.enter("c", 10)
    assert callers.inside == ["c"]
    await callers.end("c")
