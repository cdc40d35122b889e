"""What a driver remembers of a commit over its processes: that it was begun."""

from __future__ import annotations

import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

MARK: Final = "alance-spark-commit-"
MARK_LIFE_S: Final = 86400.0  # Spark aborts within minutes


def begin_commit(job: str) -> None:
    """Note on the driver that a commit is begun, until `not_committed` takes the note away.

    Spark aborts a write whose commit did not come to an end, in another process. What may be in a
    version must then stay, also where the process was killed after the version was made.
    """
    for old in _marks().glob(MARK + "*"):
        with suppress(OSError):
            if time.time() - old.stat().st_mtime > MARK_LIFE_S:
                old.unlink()
    (_marks() / (MARK + job)).touch()


def not_committed(job: str) -> None:
    """Note that the version was not made, and never will be."""
    (_marks() / (MARK + job)).unlink(missing_ok=True)


def may_be_committed(job: str) -> bool:
    """Whether a commit was begun."""
    return (_marks() / (MARK + job)).exists()


def _marks() -> Path:
    return Path(tempfile.gettempdir())
