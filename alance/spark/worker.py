"""Event loop of a Python worker: one per process, used as long as Spark reuses the worker.

Spark forks its workers from a daemon that never runs this loop. A process forked from one with a
running loop starts its own.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, TypeVar

from alance import Session
from alance.blocking import OwnLoop
from alance.distributed import release_memory

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
    from concurrent.futures import Future

    from alance.spark.options import TableOptions

T = TypeVar("T")
CACHE_SHARE: Final = 4  # divisor: the share of the memory for caches of footers and page tables
# Bytes of blocks that decoding reuses; less if the task has less memory.
DECODE_BLOCKS_BYTES: Final = 96 << 20


class _Worker:
    """A loop in a daemon thread, and the sessions that tasks of this process share."""

    def __init__(self) -> None:
        self.loop = OwnLoop("alance.spark")
        self.sessions: dict[tuple[int, int], Session] = {}
        self.kept_bytes = DECODE_BLOCKS_BYTES


_worker = _Worker()
_values: dict[str, Any] = {}


def _forget() -> None:
    global _worker
    _worker = _Worker()


os.register_at_fork(after_in_child=_forget)


def session_for(options: TableOptions) -> Session:
    """Return this worker's session for the options' memory and threads. Call it in the loop."""
    key = (options.memory_bytes, options.decode_threads)
    _worker.kept_bytes = min(DECODE_BLOCKS_BYTES, options.memory_bytes * 3 // 2)
    session = _worker.sessions.get(key)
    if session is None:
        session = _worker.sessions[key] = Session(
            cache_bytes=options.memory_bytes // CACHE_SHARE,
            io_buffer_bytes=options.memory_bytes,
            block_cache_bytes=0,
            decode_threads=options.decode_threads,
        )
    return session


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in the worker's loop; an interrupt cancels it there."""
    return _worker.loop.run(coroutine)


def begin(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Begin a coroutine in the worker's loop, and return the future of its result."""
    return _worker.loop.begin(coroutine)


def once(name: str, make: Callable[[], T]) -> T:
    """Call `make` once per name in this process; return its first result.

    Use it for objects that load slowly, such as a model, in a function for `map_batches` or a
    backfill. The function is pickled into each task, but Spark uses a worker for many tasks.

    Args:
        make: called once in each worker, and again if it failed. The result is held until the
            worker ends, so use different names for different versions.
    """
    if name not in _values:
        _values[name] = make()
    return _values[name]  # type: ignore[no-any-return]


def release() -> None:
    """Return unused memory to the system at the end of a task. Takes some ms.

    The process may next run other tasks, also of unrelated code.
    """
    release_memory(_worker.kept_bytes)


def stream(make: Callable[[], AsyncGenerator[T, None]]) -> Iterator[T]:
    """Iterate over an async iterator; closing this iterator closes the async one."""
    try:
        yield from _worker.loop.iterate(make())
    finally:
        release()
