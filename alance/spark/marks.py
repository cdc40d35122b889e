"""What a driver remembers of a commit over its processes: that it was begun.

A mark is an empty file in a folder of this user, in a subfolder named by when it lapses, in steps
of ten minutes. Making one costs a listing of the subfolders, of which there are no more than a day
has steps; those that have lapsed go as a whole.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

FOLDER: Final = "alance-spark-commits"
STEP_S: Final = 600
BEGUN_STEPS: Final = 144  # a day: no commit takes longer
DONE_STEPS: Final = 2  # Spark aborts within seconds of a commit that it thinks has failed


def begin_commit(job: str) -> None:
    """Note on the driver that a commit is begun, until `not_committed` takes the note away.

    Spark aborts a write whose commit did not come to an end, in another process. What may be in a
    version must then stay, also where the process was killed after the version was made.
    """
    now = _step()
    for name in _names():
        if name.isdecimal() and int(name) < now:
            shutil.rmtree(_marks() / name, ignore_errors=True)
    _mark(job, BEGUN_STEPS).touch()


def committed(job: str) -> None:
    """Note that the version was made: the mark of its commit lapses soon.

    Not at once: this process may die before Spark learns of the success.
    """
    target = _mark(job, DONE_STEPS)
    for mark in _marks_of(job):
        mark.replace(target)


def not_committed(job: str) -> None:
    """Note that the version was not made, and never will be."""
    for mark in _marks_of(job):
        mark.unlink(missing_ok=True)


def may_be_committed(job: str) -> bool:
    """Whether a commit was begun."""
    return bool(_marks_of(job))


def _step() -> int:
    return int(time.time() // STEP_S)


def _marks() -> Path:
    return Path(tempfile.gettempdir()) / f"{FOLDER}-{os.getuid()}"


def _names() -> list[str]:
    try:
        return os.listdir(_marks())
    except FileNotFoundError:
        return []


def _mark(job: str, steps: int) -> Path:
    """Where a mark is made that lapses after some steps."""
    _marks().mkdir(mode=0o700, exist_ok=True)
    folder = _marks() / str(_step() + steps)
    folder.mkdir(exist_ok=True)
    return folder / job


def _marks_of(job: str) -> list[Path]:
    """The marks of a commit that have not lapsed."""
    now = _step()
    marks = [_marks() / name / job for name in _names() if name.isdecimal() and int(name) >= now]
    return [mark for mark in marks if mark.exists()]
