"""Event loop and sessions of a process that runs tasks of an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from alance.blocking import OwnLoop
from alance.distributed.writing import release_memory
from alance.session import Session

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

T = TypeVar("T")

CACHE_SHARE: Final = 4  # divisor: the share of the memory for caches of footers and page tables
# Bytes of blocks that decoding reuses in the next task; less if tasks have less memory.
DECODE_BLOCKS_BYTES: Final = 96 << 20


class WorkerLoop(OwnLoop):
    """Event loop for tasks, with the sessions that they share. An engine has one per process.

    A forked child starts a loop and sessions of its own. A pickled loop contains only its name, so
    that functions that use the loop can be pickled; each process runs them on its own loop.

    Args:
        name: name of the loop's thread.
    """

    def __reduce__(self) -> tuple[Callable[[str], WorkerLoop], tuple[str]]:
        return _loop_of, (self._name,)

    def after_fork(self) -> None:
        """Reset the state: threads and connections do not exist in a forked child."""
        super().after_fork()
        self._sessions: dict[tuple[int, int], Session] = {}
        self._retained_bytes = DECODE_BLOCKS_BYTES

    def session(self, memory_bytes: int, decode_threads: int) -> Session:
        """Return this process's session for a memory and a number of threads. Call it in the loop.

        Args:
            memory_bytes: bytes of tasks for reads that wait; caches have a quarter of it.
            decode_threads: threads that decode.
        """
        self._retained_bytes = min(DECODE_BLOCKS_BYTES, memory_bytes * 3 // 2)
        key = (memory_bytes, decode_threads)
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = Session(
                cache_bytes=memory_bytes // CACHE_SHARE,
                io_buffer_bytes=memory_bytes,
                block_cache_bytes=0,
                decode_threads=decode_threads,
            )
        return session

    def stream(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Iterate in a task over an async iterator; closing this iterator closes the async one.

        Args:
            items: the async iterator.
        """
        try:
            yield from self.iterate(items)
        finally:
            self.release()

    def release(self) -> None:
        """Return unused memory to the system at the end of a task, which takes some ms.

        The process may next run other tasks, also of unrelated code.
        """
        release_memory(self._retained_bytes)


# Loops that came to this process in pickles, by name. A name has a single loop per process.
_unpickled: Final[dict[str, WorkerLoop]] = {}


def _loop_of(name: str) -> WorkerLoop:
    return _unpickled.get(name) or _unpickled.setdefault(name, WorkerLoop(name))
