"""Rows of the tables that tests of writes share, and sinks whose processes die at one place."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import lance

from alance.spark.source import AlanceSource

if TYPE_CHECKING:
    from collections.abc import Callable


def ids_of(uri: str) -> list[int]:
    """The ids of a table, sorted; pylance finds nothing wrong with it."""
    dataset = lance.dataset(uri)
    dataset.validate()
    return sorted(dataset.to_table(columns=["id"])["id"].to_pylist())


def dying(where: str, folder: Path) -> Callable[[str], None]:
    """A function that kills its process when it is called with one place, once."""
    mark, signals = str(folder / f"killed {where}"), (os.kill, os.getpid, signal.SIGKILL)

    def die(here: str) -> None:
        if here == where and not os.path.exists(mark):
            open(mark, "w").close()
            kill, pid, number = signals
            kill(pid(), number)

    return die


def source_of(method: str, kind: type) -> type[AlanceSource]:
    """The source under the name `alance_killed`; the writers that a method gives are of a class."""

    class Source(AlanceSource):
        @classmethod
        def name(cls):
            return "alance_killed"

    def writer(self, schema, overwrite):
        result = getattr(AlanceSource, method)(self, schema, overwrite)
        result.__class__ = kind
        return result

    setattr(Source, method, writer)
    return Source


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def killing_python(mark: Path):
    """Rows of a frame; after some the Python process of this executor's JVM is killed, once."""

    def rows(batches):
        for batch in batches:
            yield batch
            if not mark.exists():
                mark.touch()
                jvm = parent_of(os.getppid())  # of the daemon that has forked this worker
                for folder in Path("/proc").iterdir():
                    pid = int(folder.name) if folder.name.isdecimal() else 0
                    with suppress(OSError):
                        command = (folder / "cmdline").read_bytes() if pid else b""
                        if b"alance.spark.connector.server" in command and parent_of(pid) == jvm:
                            os.kill(pid, signal.SIGKILL)

    return rows
