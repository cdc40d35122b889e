"""What everything that reads shares: one scheduler, one search cache, one decode pool."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from alance.io import trace
from alance.io.background import Background
from alance.io.drive import drive, drive_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alance.format.plans import Plan, T
    from alance.io.cache import SearchCache
    from alance.io.files import OpenFile
    from alance.io.pool import DecodePool
    from alance.io.registry import StoreRegistry
    from alance.io.scheduler import Scheduler

# Below this a hop to the pool (50 to 150 microseconds) costs more than decoding on the loop.
INLINE_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Engine:
    """The moving parts of a session, for the layers below it."""

    registry: StoreRegistry
    scheduler: Scheduler
    cache: SearchCache
    pool: DecodePool
    background: Background = field(default_factory=Background)

    async def drive(self, plan: Plan[T], reason: str, *, bulk: bool = False) -> T:
        """Drive a plan over the scheduler; `bulk` merges over wider gaps, as a scan wants."""
        return await drive(
            plan, lambda ranges: self.scheduler.read(ranges, reason=reason, bulk=bulk)
        )

    async def drive_all(self, plans: Sequence[Plan[T]], reason: str) -> list[T]:
        """Drive plans together, in as many rounds as the longest needs."""
        return await drive_all(plans, lambda ranges: self.scheduler.read(ranges, reason=reason))

    def local_file(self, location: str) -> OpenFile | None:
        """The file at a location, if it is local and kept open. Costs a stat."""
        store, path = self.registry.resolve(location)
        return store.open_file(path)

    async def decode(self, work: Callable[[], T], num_bytes: int) -> T:
        """Run CPU work in the pool, or here where it is too small for a hop."""
        if num_bytes <= INLINE_BYTES:
            recorder = trace.current()
            return work() if recorder is None else trace.timed(work, recorder)()
        return await self.pool.run(work)
