"""System calls that only some systems have: Linux has all of them, macOS fewer, Windows fewest.

The code checks for each call, not for the system's name, so that tests can remove a call.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

from alance import _kernels

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# O_NONBLOCK: opening a pipe does not wait for a writer. O_BINARY: Windows must not translate line
# ends.
READ_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
WRITE_NEW_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
USUAL_OPEN_FILES: Final = 512  # limit for a process on Windows

_seeking: Final = threading.Lock()  # a descriptor has a single position, which all threads share


def read_at(fd: int, buffer: memoryview, start: int, flags: int = 0) -> int:
    """Read from position `start` of a file into a buffer; return the number of bytes read.

    Args:
        flags: flags of `os.preadv`; ignored on systems without that call.

    Raises:
        OSError: the read fails.
    """
    if hasattr(os, "preadv"):
        return os.preadv(fd, [buffer], start, flags)
    with _seeking:
        os.lseek(fd, start, os.SEEK_SET)
        content = os.read(fd, len(buffer))
    buffer[: len(content)] = content
    return len(content)


def max_open_files() -> int:
    """Number of files that this process may have open."""
    if resource is None:
        return USUAL_OPEN_FILES
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def environment(names: Sequence[str]) -> list[str | None]:
    """Return the text of each variable of the environment; None if it is not set.

    Takes half a microsecond for nine variables of which none is set; `os.environ` takes 9 us.
    """
    return _kernels.environment(names)


class ProcessorUse(NamedTuple):
    """Processor use of a thread since its start.

    Attributes:
        seconds: processor time of the thread; wall-clock time if the system does not measure it.
        waits: voluntary context switches, as for a disk or a lock; 0 if the system does not count.
    """

    seconds: float
    waits: int


def processor_use() -> ProcessorUse:
    """Return the processor use of the calling thread since its start."""
    if resource is None or not hasattr(resource, "RUSAGE_THREAD"):
        return ProcessorUse(time.perf_counter(), 0)
    use = resource.getrusage(resource.RUSAGE_THREAD)
    return ProcessorUse(use.ru_utime + use.ru_stime, use.ru_nvcsw)


def at_fork(
    *,
    before: Callable[[], object] | None = None,
    after_in_parent: Callable[[], object] | None = None,
    after_in_child: Callable[[], object] | None = None,
) -> None:
    """Register functions to call when the process forks; does nothing on systems without fork."""
    calls = {
        "before": before,
        "after_in_parent": after_in_parent,
        "after_in_child": after_in_child,
    }
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(**{name: call for name, call in calls.items() if call is not None})


def sync_folder(folder: str) -> None:
    """Sync the entries of a folder to the disk. Does nothing on systems that cannot open folders.

    Raises:
        OSError: the folder cannot be opened or synced.
    """
    if not hasattr(os, "O_DIRECTORY"):
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
