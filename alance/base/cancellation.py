"""Cooperative cancellation of long work in a thread.

A thread cannot be stopped from outside. The code that starts work in a thread registers a function
that tests for cancellation (`cancelled_when`). Long work calls `check_cancelled` often: between
pieces that take a fraction of a second each.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_is_cancelled: ContextVar[Callable[[], bool] | None] = ContextVar("is_cancelled", default=None)


class WorkCancelled(BaseException):
    """Raised in cancelled work. A BaseException, so that `except Exception` does not catch it."""


@contextmanager
def cancelled_when(is_cancelled: Callable[[], bool]) -> Iterator[None]:
    """Let `check_cancelled` end the work inside the `with` block once it is cancelled.

    Args:
        is_cancelled: returns True once the work is cancelled; called from the thread of the work.
    """
    token = _is_cancelled.set(is_cancelled)
    try:
        yield
    finally:
        _is_cancelled.reset(token)


def check_cancelled() -> None:
    """Raise if the current work is cancelled; do nothing outside `cancelled_when`.

    Raises:
        WorkCancelled: the work is cancelled.
    """
    is_cancelled = _is_cancelled.get()
    if is_cancelled is not None and is_cancelled():
        raise WorkCancelled
