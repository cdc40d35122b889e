"""The threads in which local files are read and written."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from alance.io import lifecycle

THREADS: Final = 16  # 32 read no faster


class _Threads:
    """The threads of all local stores of this process: to start one holds the loop up."""

    def __init__(self) -> None:
        self.after_fork()

    def after_fork(self) -> None:
        """Begin anew: a parent's threads are not in its child."""
        self._executor: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def executor(self) -> ThreadPoolExecutor:
        """The pool, made when first needed."""
        with self._lock:
            if self._executor is None:
                lifecycle.on_fork(self)
                self._executor = ThreadPoolExecutor(THREADS, "alance-io")
            return self._executor


threads: Final = _Threads()
