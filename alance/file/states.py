"""Where plans leave what they learn of files: for a scan, or apart from all others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from alance.file.recall import kept_by

if TYPE_CHECKING:
    from collections.abc import Hashable

    from alance.file.columns import States

PATIENCE: Final = 10  # ranges that the page cache had not; four that it had make up for one
COLD_STEP: Final = 4
COLD: Final = PATIENCE * COLD_STEP


class OwnStates:
    """What plans learn of a few files, apart from all caches."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}

    def peek(self, key: Hashable) -> Any | None:
        return self._known.get(key)

    def put(self, key: Hashable, value: Any, num_bytes: int) -> None:
        self._known[key] = value


class ScanStates:
    """Page states of one scan: reads what the cache knows, keeps what it learns as `own`.

    Args:
        shared_bytes: the search cache gets so many of what is learned, too.
    """

    def __init__(self, cache: States, *, shared_bytes: int = 0) -> None:
        self._cache = cache
        self.kept = kept_by(cache)
        self.own: dict[Hashable, Any] = {}
        self._cold = 0
        self._left = shared_bytes

    @property
    def is_cold(self) -> bool:
        """Whether the page cache is not worth another try."""
        return self._cold >= COLD

    def were_held(self, held: int, waited: int) -> None:
        """Note how many ranges the page cache had, and how many it had not."""
        self._cold = max(0, self._cold - held) + COLD_STEP * waited

    def peek(self, key: Hashable) -> Any | None:
        value = self.own.get(key)
        if value is None:
            value = self._cache.peek(key)
            if value is not None and key[0] == "page":  # type: ignore[index]  # as in `put`
                self.own[key] = value
        return value

    def put(self, key: Hashable, value: Any, num_bytes: int) -> None:
        if key[0] == "page":  # type: ignore[index]  # our keys are tuples that begin with a kind
            self.own[key] = value
            self._left -= num_bytes
        if key[0] != "page" or self._left > 0:  # type: ignore[index]
            self._cache.put(key, value, num_bytes)
