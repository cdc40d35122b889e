"""Columns of open files, and the caches of their page states and ranges.

Page states are kept with the columns of their file, as one entry of the session's search
cache. A scan works on a copy of the columns if its page states would only fill the cache.

Plans do not use the disk cache of file ranges themselves. The functions here run a plan, and look
up or store its ranges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from alance.errors import AlanceError, CorruptFileError
from alance.format.plans import ByteRange, NotAtHand, T, answered, through

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from alance._kernels import LeafTables
    from alance.format.container import Container
    from alance.format.plans import Extent, Plan
    from alance.io.caches.disk_cache import DiskCache

SMALL_BYTES: Final = 256 << 10  # a scan reads a page up to this size whole, in one round


class States(Protocol):
    """Cache of facts about files, such as opened columns."""

    def peek(self, key: Hashable) -> Any | None: ...

    def peek_all(self, keys: Sequence[Hashable]) -> list[Any | None]: ...

    def put(self, key: Hashable, value: Any, num_bytes: int) -> None: ...


def keep_grown(container: Container, num_bytes: int, states: States) -> None:
    """Add the memory of new page states to the size of their file, and update the cache."""
    container.columns.grow(num_bytes)
    states.put(("file", container.path), container, container.num_bytes)


def kept_by(states: Any) -> DiskCache | None:
    """Return the disk cache of a `States`; None if it has none."""
    disk: DiskCache | None = getattr(states, "disk", None)
    return disk


def recalled(plan: Callable[[], Plan[T]], path: str, disk: DiskCache | None) -> T | None:
    """Run a plan over one file with bytes from the disk cache alone.

    Returns None if the cache lacks a range, or if the plan fails. After a `CorruptFileError`, the
    file's ranges are removed from the cache, so that they are read from the store again.
    """
    if disk is None:
        return None

    def look_up(ranges: Sequence[Extent]) -> Sequence[memoryview]:
        buffers = []
        for extent in ranges:
            content = disk.get(*extent) if isinstance(extent, ByteRange) else None
            if content is None:
                raise NotAtHand
            buffers.append(content)
        return buffers

    try:
        return answered(plan(), look_up)
    except CorruptFileError:
        disk.discard(path)
        return None
    except (AlanceError, NotAtHand):
        return None


def noted(plan: Plan[T], disk: DiskCache | None) -> Plan[T]:
    """Run a plan, and add the ranges that it reads to the disk cache."""
    if disk is None:
        return (yield from plan)

    def read_and_keep(ranges: Sequence[Extent]) -> Plan[Sequence[memoryview]]:
        buffers = (yield ranges) if ranges else ()
        for extent, content in zip(ranges, buffers, strict=True):
            if isinstance(extent, ByteRange):
                disk.put(extent.path, extent.start, extent.stop, content)
        return buffers

    return (yield from through(plan, read_and_keep))


PATIENCE: Final = 10  # page cache misses after which a scan stops trying the page cache
COLD_STEP: Final = 4  # hits that make up for one miss
COLD: Final = PATIENCE * COLD_STEP


class OwnStates:
    """Cache for a reader in a thread, because only the event loop may use the session's caches."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}

    def peek(self, key: Hashable) -> Any | None:
        return self._known.get(key)

    def peek_all(self, keys: Sequence[Hashable]) -> list[Any | None]:
        return [*map(self._known.get, keys)]

    def put(self, key: Hashable, value: Any, num_bytes: int) -> None:
        self._known[key] = value


class ScanStates:
    """Cache for a scan, which limits the page states that the scan adds to the session's cache.

    Args:
        shared_bytes: maximum bytes of page states that the scan may add. Beyond this budget, the
            scan copies columns and adds page states only to its copies.
    """

    def __init__(self, cache: States, *, shared_bytes: int = 0) -> None:
        self.disk = kept_by(cache)
        self.peek, self.peek_all, self.put = cache.peek, cache.peek_all, cache.put
        self._cold = 0
        self._budget = shared_bytes

    @property
    def is_cold(self) -> bool:
        """True if the page cache missed so often that it is not worth trying."""
        return self._cold >= COLD

    def were_held(self, held: int, waited: int) -> None:
        """Count hits (`held`) and misses (`waited`) of the page cache."""
        self._cold = max(0, self._cold - held) + COLD_STEP * waited

    def shares(self, tables: LeafTables) -> bool:
        """Charge a fragment's page states to the budget; return False if they exceed it."""
        if self._budget <= 0:
            return False
        self._budget -= tables.state_bytes
        return self._budget >= 0
