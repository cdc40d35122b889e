"""Many that create one object at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from alance.errors import AlreadyExistsError

if TYPE_CHECKING:
    from alance.io.stores.store import Store


async def check_single_winner(store: Store, path: str, count: int) -> None:
    """One creates it, the others are told that it is there; it is what the one wrote."""
    calls = [store.put(path, b"%d" % index, if_absent=True) for index in range(count)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    (winner,) = [item for item, result in enumerate(results) if not isinstance(result, Exception)]
    assert sum(isinstance(item, AlreadyExistsError) for item in results) == count - 1
    assert await store.get(path) == b"%d" % winner
