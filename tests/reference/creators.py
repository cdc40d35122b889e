"""Many that create one object at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from alance.errors import AlreadyExistsError

if TYPE_CHECKING:
    from alance.io.stores.store import Store


async def check_one_wins(store: Store, path: str, count: int) -> None:
    """One creates it, the others are told that it is there; it is what the one wrote."""
    calls = [store.put(path, b"%d" % one, if_absent=True) for one in range(count)]
    found = await asyncio.gather(*calls, return_exceptions=True)
    (winner,) = [one for one, error in enumerate(found) if error is None]
    assert sum(isinstance(one, AlreadyExistsError) for one in found) == count - 1
    assert await store.get(path) == b"%d" % winner
