"""Long work in a thread that ends with its caller: it asks between its steps if anybody waits.

A thread cannot be stopped from outside. So whoever starts work in one says how to learn that its
caller is gone (`halting`), and work that may take long calls `step` between pieces of a fraction
of a second.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_is_over: ContextVar[Callable[[], bool] | None] = ContextVar("is_over", default=None)


class Halted(BaseException):
    """Raised in work whose caller is gone; no handler of ordinary errors takes it."""


@contextmanager
def halting(is_over: Callable[[], bool]) -> Iterator[None]:
    """Have `step` end the work inside as soon as nobody waits for it.

    Args:
        is_over: true once the caller is gone; asked from the thread of the work.
    """
    token = _is_over.set(is_over)
    try:
        yield
    finally:
        _is_over.reset(token)


def step() -> None:
    """Go on with long work, unless its caller is gone.

    Raises:
        Halted: the caller is gone.
    """
    is_over = _is_over.get()
    if is_over is not None and is_over():
        raise Halted
