"""Stacks of async generators of which the event loop knows only the outermost.

An event loop remembers each async generator that starts in it. At the loop's end (`asyncio.run`) it
closes all of them at once, in any order. A generator that reads from another may then find that
generator already closing, which prints an error. So only the outermost generator of a stack is
announced to the loop, and it closes the others in order.
"""

from __future__ import annotations

import sys
from functools import wraps
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
    from typing import Any

T = TypeVar("T")
P = ParamSpec("P")


def outermost(
    function: Callable[P, AsyncIterator[T]],
) -> Callable[P, AsyncGenerator[T, None]]:
    """Decorate an async generator function to hide its inner generators from the loop."""

    @wraps(function)
    def generate(*args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[T, None]:
        return _hidden(function(*args, **kwargs))  # a wrong call fails here, not at the first item

    return generate


async def _hidden(inner: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    try:
        while True:
            try:
                item = await _Unlisted(inner.__anext__)
            except StopAsyncIteration:
                return
            yield item
    finally:
        await inner.aclose()  # type: ignore[attr-defined]


class _Unlisted(Generic[T]):
    """An awaitable that hides newly started async generators from the loop while it runs."""

    def __init__(self, start: Callable[[], Awaitable[T]]) -> None:
        self._start = start
        self._steps: Generator[Any, Any, T] | None = None

    def __await__(self) -> Any:
        return self

    def __iter__(self) -> _Unlisted[T]:
        return self

    def send(self, value: Any = None) -> Any:
        """Run to the next suspension."""
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=None)
        try:
            if self._steps is None:
                self._steps = self._start().__await__()
            return self._steps.send(value)
        finally:
            sys.set_asyncgen_hooks(firstiter=hooks.firstiter)

    __next__ = send

    def throw(self, *error: Any) -> Any:
        """Raise an error at the suspension, and run to the next one."""
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=None)
        try:
            assert self._steps is not None
            return self._steps.throw(*error)
        finally:
            sys.set_asyncgen_hooks(firstiter=hooks.firstiter)

    def close(self) -> None:
        """Close the awaitable where it is suspended."""
        if self._steps is not None:
            self._steps.close()
