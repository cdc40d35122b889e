"""Plans driven over bytes in memory, and the caches that they may ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from alance.format import plans

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

T = TypeVar("T")


class Known:
    """A cache that keeps everything, of one file."""

    def __init__(self) -> None:
        self.entries: dict[Hashable, Any] = {}

    def peek(self, key: Hashable) -> Any:
        return self.entries.get(key)

    def peek_all(self, keys: Sequence[Hashable]) -> list[Any]:
        return [*map(self.entries.get, keys)]

    def put(self, key: Hashable, value: Any, num_bytes: int) -> None:
        self.entries[key] = value


class Nothing:
    """A cache that keeps nothing."""

    def peek(self, key: Hashable) -> Any:
        return None

    def peek_all(self, keys: Sequence[Hashable]) -> list[Any]:
        return [None] * len(keys)

    def put(self, key: Hashable, value: Any, num_bytes: int) -> None:
        pass


def run(plan: plans.Plan[T], content: bytes) -> T:
    """Return the result of a plan."""
    return plans.run(plan, content)[0]
