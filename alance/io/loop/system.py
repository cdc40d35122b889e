"""System calls that only some systems have: Linux has all of them, macOS fewer, Windows fewest.

The code checks for each call, not for the system's name, so tests can take a call away.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

# Not to wait for a writer, should the path be a pipe; and bytes as they are, on Windows.
READ_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
WRITE_NEW_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
USUAL_OPEN_FILES: Final = 512  # of a process on Windows

_seeking: Final = threading.Lock()  # a descriptor has one position


def read_at(fd: int, buffer: memoryview, start: int, flags: int = 0) -> int:
    """Read from a position of a file into a buffer; gives how much was read.

    Args:
        flags: of `os.preadv`; 0 where there is no such call.

    Raises:
        OSError: the system refuses.
    """
    if hasattr(os, "preadv"):
        return os.preadv(fd, [buffer], start, flags)
    with _seeking:
        os.lseek(fd, start, os.SEEK_SET)
        content = os.read(fd, len(buffer))
    buffer[: len(content)] = content
    return len(content)


def max_open_files() -> int:
    """How many files a process may have open."""
    try:
        import resource
    except ImportError:
        return USUAL_OPEN_FILES
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class Held(NamedTuple):
    """What this thread has taken so far.

    Attributes:
        seconds: of its processor, those that others had in between left out.
        waits: how often it let the processor go, to wait for a disk or a lock.
    """

    seconds: float
    waits: int


def held() -> Held:
    """What this thread has taken so far; where the system does not tell, the time of a clock."""
    try:
        import resource

        waits = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    except (ImportError, AttributeError):
        return Held(time.perf_counter(), 0)
    return Held(time.thread_time(), waits)


def at_fork(
    *,
    before: Callable[[], object] | None = None,
    after_in_parent: Callable[[], object] | None = None,
    after_in_child: Callable[[], object] | None = None,
) -> None:
    """Have functions called when the process is forked; nothing where there is no fork."""
    calls = {
        "before": before,
        "after_in_parent": after_in_parent,
        "after_in_child": after_in_child,
    }
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(**{name: call for name, call in calls.items() if call is not None})


def sync_folder(folder: str) -> None:
    """Bring the names in a folder to the disk; where folders cannot be opened, the system does.

    Raises:
        OSError: the disk fails.
    """
    if not hasattr(os, "O_DIRECTORY"):
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
