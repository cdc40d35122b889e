"""Where plans leave what they learn of files that nobody else is to know of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable


class OwnStates:
    """What plans learn of a few files, apart from all caches."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}

    def peek(self, key: Hashable) -> Any | None:
        return self._known.get(key)

    def put(self, key: Hashable, value: Any, num_bytes: int) -> None:
        self._known[key] = value
