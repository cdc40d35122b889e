"""Event loop of a Python worker: one per process, used as long as Spark reuses the worker.

Spark forks its workers from a daemon that never runs this loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from alance.distributed import WorkerLoop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from concurrent.futures import Future

    from alance import Session
    from alance.spark.options import TableOptions

T = TypeVar("T")

_loop: Final = WorkerLoop("alance.spark")
_values: dict[str, Any] = {}


# Functions of the module, which Spark pickles by their names. A loop cannot be pickled.


def run(work: Awaitable[T]) -> T:
    """Run work to its end in the worker's loop; an interrupt cancels it there."""
    return _loop.run(work)


def begin(work: Awaitable[T]) -> Future[T]:
    """Begin work in the worker's loop, and return the future of its result."""
    return _loop.begin(work)


def stream(items: AsyncIterator[T]) -> Iterator[T]:
    """Iterate in a task over an async iterator; closing this iterator closes the async one."""
    return _loop.stream(items)


def release() -> None:
    """Return unused memory to the system at the end of a task. Takes some ms."""
    _loop.release()


def session_for(options: TableOptions) -> Session:
    """Return this worker's session for the options' memory and threads. Call it in the loop."""
    return _loop.session(options.memory_bytes, options.decode_threads)


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
