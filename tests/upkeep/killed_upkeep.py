"""A process that looks after a table and is killed at the n-th turn of its tasks.

    python killed_upkeep.py PATH VERB

Lines of the input are numbers of turns; answers are as of `tests/faults/killed.py`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from datetime import timedelta

import alance
from tests.faults.killed import Turns


async def work(path: str, verb: str) -> None:
    loop = asyncio.get_running_loop()
    loop.set_task_factory(
        lambda on, coroutine, **more: asyncio.Task(Turns(coroutine), loop=on, **more)  # type: ignore[arg-type]
    )
    await loop.create_task(_work(path, verb))


async def _work(path: str, verb: str) -> None:
    async with alance.Session() as session:
        dataset = await alance.dataset(path, session=session)
        if verb == "compact":
            await dataset.optimize.compact_files(target_rows_per_fragment=10)
        elif verb == "defer":
            await dataset.optimize.compact_files(
                target_rows_per_fragment=10, defer_index_remap=True
            )
        else:
            await dataset.cleanup_old_versions(timedelta(0))


def main(path: str, verb: str) -> None:
    for line in sys.stdin:
        child = os.fork()
        if not child:
            Turns.remaining = int(line)
            asyncio.run(work(path, verb))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        print("killed" if killed else f"done {os.waitstatus_to_exitcode(status)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
