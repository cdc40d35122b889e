"""Removal of files of a version that is not made, as far as the store can be reached.

Whoever was cancelled does not wait for a store that does not answer; see `io.background`. What
stays are orphans, which a cleanup finds.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from alance.errors import AlanceError
from alance.io.background import DISCARD_S, grace_of

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from alance.io.engine import Engine
    from alance.io.store import Store


async def in_time(engine: Engine, store: Store, work: Coroutine[object, object, object]) -> None:
    """Clean up on a store; a task that was cancelled waits a moment, and `work` goes on."""
    with suppress(AlanceError):
        await engine.background.finish(work, DISCARD_S, grace_of(store))


async def discard_objects(engine: Engine, locations: Sequence[str]) -> None:
    """Remove objects of one store that no version has."""
    if not locations:
        return
    places = [engine.registry.resolve(location) for location in locations]
    store = places[0][0]
    await in_time(engine, store, store.delete([path for _, path in places]))
