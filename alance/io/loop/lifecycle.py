"""Start, fork and exit of obstore's runtime and of loops that run in threads.

Each process has one runtime, which never stops by itself. Three rules avoid known crashes and
hangs:

1. A runtime thread that delivers a result while the interpreter shuts down aborts the process
   (SIGABRT; 5 to 68 % of short programs). So at exit pending requests are cancelled, and the
   threads get a moment to finish.
2. The runtime's threads do not survive a fork: any call in the child would hang for ever. So a
   child loads the library anew (`io.loop.forked`), and never frees objects that its parent made.
3. A loop that is closed while requests are pending makes the runtime print errors. So the owner of
   requests cancels and awaits them (`Scheduler.aclose`).

At exit, the loops in threads end first (`at_exit`), then rule 1 applies.

Importing this module starts nothing.
"""

from __future__ import annotations

import atexit
import threading
import time
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, cast
from weakref import WeakSet

from alance.errors import ForkedError, StoreError
from alance.io.loop import system

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

T = TypeVar("T")

# seconds; with 1 ms 5 % of the programs aborted, with 5 ms none; a loaded machine may need more.
EXIT_PAUSE_S: Final = 0.025
EXIT_DRAIN_S: Final = 1.0  # seconds for loops that still run in other threads at exit


class Forkable(Protocol):
    """Protocol of an object with threads or locks, which it creates again in a forked child."""

    def after_fork(self) -> None: ...


class _Process:
    """State of the runtime in this process."""

    def __init__(self) -> None:
        self.used = False  # True once this process has sent requests
        self.was_used = False  # True if a parent has sent requests
        self.forked = False  # True after a fork until the library is loaded again
        self.inherited: list[object] = []  # never freed: that waits for the parent's threads
        self.lock = threading.Lock()
        self.live: WeakSet[asyncio.Future[object]] = WeakSet()
        self.forkables: WeakSet[Forkable] = WeakSet()
        self.endings: list[Callable[[], None]] = []
        self.exits = False  # True once `_at_exit` is registered
        self.ended = False


_process: Final = _Process()


def enter() -> None:
    """Prepare for a call of obstore that does I/O. Call this before each of them.

    Raises:
        ForkedError: this process was forked, and the library cannot be loaded again.
        StoreError: the interpreter is shutting down.
    """
    revive()
    if _process.ended:
        raise StoreError("the interpreter shuts down: no request can be sent any more")
    if not _process.used:
        with _process.lock:
            _process.used = True
            _exit_hook()


def revive() -> None:
    """Load the library again if this process was forked. Call this before creating a store object.

    Raises:
        ForkedError: this process was forked, and the library cannot be loaded again.
    """
    if _process.forked:
        _load_again()


def inherit(value: object) -> None:
    """Hold a reference to an object of the parent until this forked child ends."""
    _process.inherited.append(value)


def at_exit(ending: Callable[[], None]) -> None:
    """Register `ending` to be called at exit, before pending requests are cancelled."""
    with _process.lock:
        _process.endings.append(ending)
        _exit_hook()


def _exit_hook() -> None:
    if not _process.exits:
        _process.exits = True
        atexit.register(_at_exit)


def watch(future: asyncio.Future[T]) -> asyncio.Future[T]:
    """Register a future of obstore to be cancelled if the process exits first; return it."""
    _process.live.add(cast("asyncio.Future[object]", future))
    return future


def on_fork(holder: Forkable) -> None:
    """Register `holder.after_fork()` to be called in forked children as long as `holder` lives."""
    _process.forkables.add(holder)


def _after_fork() -> None:
    _process.lock = threading.Lock()
    _process.was_used |= _process.used
    _process.used = False
    _process.forked = True
    _process.endings.clear()
    _process.exits = False
    atexit.unregister(_at_exit)
    inherit([*_process.live])
    _process.live = WeakSet()
    for holder in list(_process.forkables):
        holder.after_fork()


system.at_fork(after_in_child=_after_fork)


def _load_again() -> None:
    from alance.io.loop import forked

    with _process.lock:
        if not _process.forked:
            return
        try:
            forked.load_again()
            _process.was_used = False
        except (OSError, ImportError) as error:
            # If the parent sent no request, its library has no threads and works in the child as
            # well.
            if _process.was_used:
                raise ForkedError(
                    "this process was forked from one whose client of object stores does not "
                    f"survive a fork, and it cannot be loaded anew ({error}); use the spawn or "
                    "forkserver start method of multiprocessing"
                ) from error
        _process.forked = False


def _at_exit() -> None:
    for ending in _process.endings:
        ending()
    if _process.used:
        _drain()
    _process.ended = True


def _drain() -> None:
    deadline = time.monotonic() + EXIT_DRAIN_S
    waiting = []
    for future in list(_process.live):
        loop = future.get_loop()
        if not future.done() and loop.is_running():
            try:
                loop.call_soon_threadsafe(future.cancel)
            except RuntimeError:  # the loop has been closed
                continue
            waiting.append(future)
    while time.monotonic() < deadline and any(
        not future.done() and future.get_loop().is_running() for future in waiting
    ):
        time.sleep(0.001)
    time.sleep(EXIT_PAUSE_S)  # releases the GIL
