"""Plans answered from what is kept on disk, and where they leave what they learn: there, for a
scan, or apart from all others.

A plan knows nothing of the disk: its ranges are looked up, or noted, while it is driven.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from alance.errors import AlanceError, CorruptFileError
from alance.format.plans import TURN, ByteRange, Done, NotAtHand, T, answered, step, through

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Sequence

    from alance.file.open.columns import FileColumns, States
    from alance.format.container import Container
    from alance.format.plans import Extent, Plan


class Kept(Protocol):
    """Ranges of files that outlive the process; nothing of files that were not recalled."""

    def get(self, location: str, start: int, stop: int) -> memoryview | None: ...

    def tail(self, location: str) -> memoryview | None: ...

    def put(self, location: str, start: int, stop: int, content: memoryview) -> None: ...

    def discard(self, location: str) -> None: ...


def kept_by(states: Any) -> Kept | None:
    """The part of the disk cache behind a `States`; None where nothing is kept."""
    disk: Kept | None = getattr(states, "disk", None)
    return disk


def recalled(plan: Callable[[], Plan[T]], path: str, kept: Kept | None) -> T | None:
    """The result of a plan over one file, if all that it asks for is kept; else None.

    What is kept and makes no sense is dropped: the store will tell.
    """
    if kept is None:
        return None
    try:
        return answered(
            plan(),
            _looked_up(
                lambda byte_range: kept.get(byte_range.path, byte_range.start, byte_range.stop)
            ),
        )
    except CorruptFileError:
        kept.discard(path)
        return None
    except (AlanceError, NotAtHand):
        return None


def held(plan: Plan[T], container: Container) -> T | None:
    """The result of a plan over one file, if the file's end, as far as it was read, has it all.

    Raises:
        CorruptFileError: what is there makes no sense.
    """
    try:
        return answered(plan, _looked_up(container.held))
    except NotAtHand:
        return None


def _looked_up(
    look_up: Callable[[ByteRange], memoryview | None],
) -> Callable[[Sequence[Extent]], Sequence[memoryview]]:
    """The answer to a round whose ranges are looked up one by one; all have to be there."""

    def answer(ranges: Sequence[Extent]) -> Sequence[memoryview]:
        buffers = []
        for extent in ranges:
            content = look_up(extent) if isinstance(extent, ByteRange) else None
            if content is None:
                raise NotAtHand
            buffers.append(content)
        return buffers

    return answer


def noted(plan: Plan[T], kept: Kept | None, only: Collection[ByteRange] | None = None) -> Plan[T]:
    """The same plan; what it reads is kept.

    Args:
        only: keep these ranges of all that it asks for.
    """
    if kept is None:
        return (yield from plan)

    def read_and_keep(ranges: Sequence[Extent]) -> Plan[Sequence[memoryview]]:
        buffers = (yield ranges) if ranges else ()
        for extent, content in zip(ranges, buffers, strict=True):
            if isinstance(extent, ByteRange) and (only is None or extent in only):
                kept.put(extent.path, extent.start, extent.stop, content)
        return buffers

    return (yield from through(plan, read_and_keep))


def first_ranges(plan: Plan[Any]) -> set[ByteRange]:
    """The first ranges that a plan asks for; it is not driven further."""
    try:
        asked = step(plan)
        while asked is TURN:
            asked = step(plan, ())
    finally:
        plan.close()
    if isinstance(asked, Done):
        return set()
    return {extent for extent in asked if isinstance(extent, ByteRange)}


PATIENCE: Final = 10  # ranges that the page cache had not; four that it had make up for one
COLD_STEP: Final = 4
COLD: Final = PATIENCE * COLD_STEP


class OwnStates:
    """A cache of a single reader in a thread; the session's caches belong to the event loop."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}

    def peek(self, key: Hashable) -> Any | None:
        return self._known.get(key)

    def put(self, key: Hashable, value: Any, num_bytes: int) -> None:
        self._known[key] = value


class ScanStates:
    """The cache for a scan, which works on copies of columns, as far as they are not shared.

    Args:
        shared_bytes: of columns of whose pages as much is learned or less, the cache knows it, too.
    """

    def __init__(self, cache: States, *, shared_bytes: int = 0) -> None:
        self._cache = cache
        self.disk = kept_by(cache)
        self._cold = 0
        self._left = shared_bytes

    @property
    def is_cold(self) -> bool:
        """Whether the page cache is not worth another try."""
        return self._cold >= COLD

    def were_held(self, held: int, waited: int) -> None:
        """Note how many ranges the page cache had, and how many it had not."""
        self._cold = max(0, self._cold - held) + COLD_STEP * waited

    def shares(self, file: FileColumns, indices: Sequence[int]) -> bool:
        """Return True if learned page states of some columns go into the session's cache."""
        if self._left <= 0:
            return False
        self._left -= file.state_bytes(indices)
        return self._left >= 0

    def peek(self, key: Hashable) -> Any | None:
        return self._cache.peek(key)

    def put(self, key: Hashable, value: Any, num_bytes: int) -> None:
        self._cache.put(key, value, num_bytes)
