"""A process that writes to a table and is killed at the n-th turn of its tasks.

    python killed.py URI STORAGE_OPTIONS VERB

Each line of the input is a number n. A child is forked that runs the verb and kills itself, as
the kernel would, before the n-th turn of any of its tasks, or change of a file by any of its
threads; the answer is a line: `killed`, or `done` where there were fewer. Nothing is opened before
the fork.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pyarrow as pa

import alance

ROWS = pa.table({"x": [100, 101, 102]})
SMALL: Any = {"num_partitions": 3, "num_sub_vectors": 4, "num_bits": 4}


class Turns(Coroutine[Any, Any, Any]):
    """A coroutine that counts down each time it goes on, together with all others.

    Attributes:
        remaining: turns until `end` is called; 0 or less: it is not called.
    """

    remaining = 0
    end: Callable[[], object] = staticmethod(lambda: os.kill(os.getpid(), signal.SIGKILL))

    def __init__(self, inner: Coroutine[Any, Any, Any]) -> None:
        self.inner = inner

    def send(self, value: Any) -> Any:
        Turns.count()
        return self.inner.send(value)

    @classmethod
    def count(cls) -> None:
        """Count one down; the last one is the end, by default of the process."""
        cls.remaining -= 1
        if cls.remaining == 0:
            cls.end()

    def throw(self, *error: Any) -> Any:
        return self.inner.throw(*error)

    def close(self) -> None:
        self.inner.close()

    def __await__(self) -> Any:
        return self.inner.__await__()


CHANGES = ("write", "fsync", "replace", "link", "unlink", "mkdir")  # of `os`


def counted(change: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **more: Any) -> Any:
        Turns.count()
        return change(*args, **more)

    return call


async def write(uri: str, options: dict[str, str], verb: str) -> None:
    for name in CHANGES:
        setattr(os, name, counted(getattr(os, name)))
    loop = asyncio.get_running_loop()
    loop.set_task_factory(
        lambda on, coroutine, **more: asyncio.Task(Turns(coroutine), loop=on, **more)  # type: ignore[arg-type]
    )
    await loop.create_task(_write(uri, options, verb))


async def _write(uri: str, options: dict[str, str], verb: str) -> None:
    async with alance.Session() as session:
        if verb == "create":
            await alance.write_dataset(ROWS, uri, storage_options=options, session=session)
            return
        dataset = await alance.dataset(uri, storage_options=options, session=session)
        if verb == "insert":
            await dataset.insert(ROWS)
        elif verb == "overwrite":
            await dataset.insert(ROWS, mode="overwrite")
        elif verb == "delete":
            await dataset.delete("x < 10")
        elif verb == "create_index":
            await dataset.create_index("v", "IVF_PQ", replace=True, **SMALL)
        elif verb == "optimize_indices":
            await dataset.optimize.optimize_indices(num_indices_to_merge=9)
        else:
            await dataset.update({"x": "x + 1000"}, where="x < 10")


def main(uri: str, options: dict[str, str], verb: str) -> None:
    for line in sys.stdin:
        child = os.fork()
        if not child:
            Turns.remaining = int(line)
            asyncio.run(write(uri, options, verb))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        print("killed" if killed else f"done {os.waitstatus_to_exitcode(status)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3])
