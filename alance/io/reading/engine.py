"""The engine of a session: its scheduler, search cache and decode pool, shared by all reads."""

from __future__ import annotations

from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from alance.base.records import dataclass
from alance.format.plans import all_read
from alance.io.loop.background import Background
from alance.io.reading.drive import drive, drive_all

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from alance.format.plans import Pieces, Plan, Reader, T
    from alance.io.caches.cache import SearchCache
    from alance.io.disk.files import OpenFile
    from alance.io.opening.registry import StoreRegistry
    from alance.io.reading.pool import DecodePool
    from alance.io.reading.scheduler import Scheduler


class Unread(Protocol):
    """Rows whose positions in objects are known, but whose bytes have not been read."""

    content: memoryview | None

    @property
    def paths(self) -> Sequence[str]:
        """Locations of the objects that contain the rows."""
        ...

    @property
    def pieces(self) -> Pieces:
        """Pieces to read; their bytes become the `content`."""
        ...


# Decoding fewer bytes on the loop costs less than a hop to the pool (50 to 150 microseconds).
DECODED_INLINE_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Engine:
    """Scheduler, search cache and decode pool of a session, as readers use them."""

    registry: StoreRegistry
    scheduler: Scheduler
    cache: SearchCache
    pool: DecodePool
    background: Background = field(default_factory=Background)

    async def drive(self, plan: Plan[T], reason: str, *, bulk: bool = False, takes: int = 0) -> T:
        """Run a plan over the scheduler, and return its result.

        Args:
            reason: purpose of the requests, for traces.
            bulk: merge ranges over the wider gaps of a scan.
            takes: number of takes that the plan serves.
        """
        scheduler = self.scheduler
        send = partial(scheduler.send, reason=reason, bulk=bulk, takes=takes)
        if bulk:
            return await drive(plan, send)
        await self.pool.share_turn()  # reads from memory never wait, so others might never run
        return await drive(plan, send, partial(scheduler.at_hand, reason=reason))

    async def drive_all(self, plans: Sequence[Plan[T]], reason: str) -> list[T]:
        """Run plans in lockstep; costs as many rounds as the longest plan."""
        return await drive_all(plans, lambda ranges: self.scheduler.read(ranges, reason=reason))

    async def reader(
        self, unread: Sequence[Unread], reason: str, *, inline: bool = False, takes: int = 0
    ) -> Reader:
        """Return a reader that provides the bytes of rows to the kernel that decodes them.

        If a store can be read without the loop, the kernel reads in its own thread, and decodes the
        bytes while they are in the processor's cache. Bytes of other stores are read now, into the
        `content` of the rows.

        Args:
            inline: True if the rows are decoded on the loop, so that all bytes are read now.
            takes: number of takes that the read serves.
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
        """Return a reader with which the decoding thread reads by itself, a few bytes at a time.

        Returns None if the reads would have to wait, or there are too many objects for one reader.
        """
        if not unread:
            return all_read
        return self.scheduler.reader({path for rows in unread for path in rows.paths}, reason)

    async def hold(self, pieces: Sequence[Pieces], reason: str, *, takes: int = 0) -> Reader:
        """Read pieces now, and return a reader of their bytes for the kernel that decodes them."""
        held = await self.scheduler.hold(pieces, reason=reason, takes=takes, is_part=True)
        return held.reader

    def held_bytes(self, pieces: Sequence[Pieces]) -> int:
        """Return the approximate memory of a `hold` of pieces, with the bytes of small gaps."""
        num_bytes = 0
        for own in pieces:
            store, _ = self.registry.resolve(own.paths[0])
            num_bytes += own.bytes_over(store.profile.take_gap)
        return num_bytes

    def local_file(self, location: str) -> OpenFile | None:
        """Return the open local file at a location; None if there is none. Costs a stat."""
        store, path = self.registry.resolve(location)
        return store.open_file(path)

    def decode(self, work: Callable[[], T], num_bytes: float) -> Coroutine[Any, Any, T]:
        """Run CPU work on `num_bytes` in the pool, or on the loop if it is too small for a hop."""
        return self.pool.run(work, inline=num_bytes <= DECODED_INLINE_BYTES)
