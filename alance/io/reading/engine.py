"""What everything that reads shares: one scheduler, one search cache, one decode pool."""

from __future__ import annotations

from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Protocol

from alance.format.plans import all_read
from alance.io.loop.background import Background
from alance.io.reading.drive import drive, drive_all
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alance.format.plans import Pieces, Plan, Reader, T
    from alance.io.caches.cache import SearchCache
    from alance.io.disk.files import OpenFile
    from alance.io.opening.registry import StoreRegistry
    from alance.io.reading.pool import DecodePool
    from alance.io.reading.scheduler import Scheduler


class Unread(Protocol):
    """Rows that were placed in objects, and are still to be read."""

    content: memoryview | None

    @property
    def paths(self) -> Sequence[str]:
        """The objects."""
        ...

    @property
    def pieces(self) -> Pieces:
        """What is to be read; the `content` is the answer."""
        ...


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

    async def drive(self, plan: Plan[T], reason: str, *, bulk: bool = False, takes: int = 0) -> T:
        """Drive a plan over the scheduler.

        Args:
            bulk: merge over wider gaps, as a scan wants.
            takes: how many it is for, if any.
        """
        scheduler = self.scheduler
        send = partial(scheduler.send, reason=reason, bulk=bulk, takes=takes)
        if bulk:
            return await drive(plan, send)
        await self.pool.share_turn()  # what is at hand is read without waiting
        return await drive(plan, send, partial(scheduler.at_hand, reason=reason))

    async def drive_all(self, plans: Sequence[Plan[T]], reason: str) -> list[T]:
        """Drive plans together, in as many rounds as the longest needs."""
        return await drive_all(plans, lambda ranges: self.scheduler.read(ranges, reason=reason))

    async def reader(
        self, unread: Sequence[Unread], reason: str, *, inline: bool = False, takes: int = 0
    ) -> Reader:
        """What brings the bytes of rows to the kernel that decodes them.

        Of stores whose reads need no loop they are decoded while the processor's cache holds them.
        What others have is read now.

        Args:
            inline: the rows are decoded on the loop: all is read now.
            takes: how many it is for, if any.
        """
        if not unread:
            return all_read
        if not inline and (read := self.source(unread, reason)) is not None:
            return read
        pieces = [rows.pieces for rows in unread]
        held = await self.scheduler.hold(pieces, reason=reason, takes=takes)
        for rows, content in zip(unread, held.contents, strict=True):
            rows.content = content
        return held.reader

    def source(self, unread: Sequence[Unread], reason: str) -> Reader | None:
        """What reads the bytes of rows in the thread that decodes them, which holds few at a time;
        None where a store has to be waited for.
        """
        if not unread:
            return all_read
        return self.scheduler.reader({path for rows in unread for path in rows.paths}, reason)

    async def hold(self, pieces: Sequence[Pieces], reason: str, *, takes: int = 0) -> Reader:
        """What brings the bytes of pieces, which are read now, to the kernel that decodes them."""
        held = await self.scheduler.hold(pieces, reason=reason, takes=takes, is_part=True)
        return held.reader

    def held_bytes(self, pieces: Sequence[Pieces]) -> int:
        """Memory that a `hold` of pieces takes, about: what is read over small gaps included."""
        num_bytes = 0
        for own in pieces:
            store, _ = self.registry.resolve(own.paths[0])
            num_bytes += own.bytes_over(store.profile.take_gap)
        return num_bytes

    def local_file(self, location: str) -> OpenFile | None:
        """The file at a location, if it is local and kept open. Costs a stat."""
        store, path = self.registry.resolve(location)
        return store.open_file(path)

    async def decode(self, work: Callable[[], T], num_bytes: float) -> T:
        """Run CPU work in the pool, or here where it is too small for a hop."""
        return await self.pool.run(work, inline=num_bytes <= INLINE_BYTES)
