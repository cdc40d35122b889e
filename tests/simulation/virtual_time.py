"""An event loop whose clock jumps from timer to timer: hours pass in no time, always alike.

Programs that wait for nothing but timers and each other run in it the same way each time: what
they do depends on the delays that they ask for, not on the machine.
"""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


class _Selector(selectors.BaseSelector):
    """Waits for nothing: lets the clock jump instead."""

    def __init__(self) -> None:
        self.now = 0.0
        self._keys: dict[int, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: object = None) -> selectors.SelectorKey:
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = self._keys[fd] = selectors.SelectorKey(fileobj, fd, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj if isinstance(fileobj, int) else fileobj.fileno())

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("virtual time stands still: everybody waits, and no timer is set")
        self.now += max(0.0, timeout)
        return []

    def get_map(self) -> dict[int, selectors.SelectorKey]:  # type: ignore[override]
        return self._keys


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop with a clock of its own, which begins at zero."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Seconds of virtual time."""
        return self._virtual.now


def run(program: Coroutine[object, object, T]) -> T:
    """Run a program in virtual time; cancels what it leaves behind.

    Raises:
        RuntimeError: everybody waits, and no timer is set.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(program)
