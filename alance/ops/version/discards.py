"""Removal of files of a version that is not made, as far as the store can be reached.

Whoever was cancelled does not wait for a store that does not answer; see `io.background`. What
stays are orphans, which a cleanup finds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.io.engine import Engine


async def discard_objects(engine: Engine, locations: Sequence[str]) -> None:
    """Remove objects of one store that no version has."""
    if not locations:
        return
    places = [engine.registry.resolve(location) for location in locations]
    store = places[0][0]
    await engine.background.discard(store.delete([path for _, path in places]), store)
