"""pylance in a process of its own, with a set number of decoding threads.

The library reads the number at its first use (`LANCE_CPU_THREADS`), so each setting needs a
process. By default pylance leaves two processors unused, but uses at least one.

python -m benchmarks.peer   answers tasks, lines of JSON, until its input ends.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from benchmarks.measure import Turn, timed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.cases import Case, Opened

VARIABLE: Final = "LANCE_CPU_THREADS"


@dataclass(frozen=True)
class Task:
    """A round of a case; the peer knows cases by their labels."""

    label: str
    uri: str
    options: dict[str, str] | None
    count: int
    number: int


class Peer:
    """The process, which runs until `close`."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.peer"],
            env={**os.environ, VARIABLE: str(threads)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """End the input of the process, and wait for its end."""
        self._process.communicate()

    def run(self, case: Case, opened: Opened) -> Turn:
        """Run a round of a case. Blocks.

        Raises:
            RuntimeError: the process has ended; it has printed the reason.
        """
        task = Task(case.label, opened.uri, opened.options, opened.count, opened.number)
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(asdict(task)) + "\n")
        stdin.flush()
        answer = stdout.readline()
        if not answer:
            raise RuntimeError(f"pylance with {self.threads} threads ended: {case.label}")
        return Turn(**json.loads(answer))


def settings() -> list[int]:
    """Return the numbers of threads to measure: one, and the number of processors."""
    return sorted({1, os.cpu_count() or 1})


def answers(tasks: Iterator[str]) -> Iterator[Turn]:
    """Yield the measurements of each task; the first round of a case opens its table."""
    import lance

    from benchmarks.all_cases import ALL
    from benchmarks.cases import Opened

    cases = {case.label: case for case in ALL}
    label, dataset, nothing = "", None, cast("Any", None)
    for line in tasks:
        task = Task(**json.loads(line))
        if task.label != label:
            dataset = lance.dataset(task.uri, storage_options=task.options)
            label = task.label
        elif task.number == 1:
            gc.collect()
            gc.freeze()
        opened = Opened(task.uri, nothing, dataset, task.options, task.count, nothing, nothing)
        yield timed(partial(cases[label].theirs, replace(opened, number=task.number)))


def main() -> None:
    """Run the command line."""
    for turn in answers(iter(sys.stdin)):
        print(json.dumps(asdict(turn)), flush=True)


if __name__ == "__main__":
    main()
