"""The meter of stalls sees what keeps a loop, and nothing else."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from alance.testing.stalls import Queues, Stalls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIMIT = 0.010  # seconds
BUSY = "while True: pass"


def work() -> None:
    end = time.thread_time() + 0.015
    while time.thread_time() < end:
        pass


def sleep() -> None:
    time.sleep(0.015)


def wait_for_a_lock() -> None:
    threading.Event().wait(0.015)


async def longest(callback: Callable[[], object]) -> tuple[float, str]:
    loop = asyncio.get_running_loop()
    async with Stalls() as stalls:
        loop.call_soon(callback)
        for _ in range(10):
            await asyncio.sleep(0.001)
    return stalls.longest_callback, stalls.slowest


def test_a_closed_meter_of_queues_opens_no_file() -> None:
    queues = Queues()
    assert queues.waited() >= 0.0
    queues.close()
    assert queues.waited() == 0.0
    assert not queues._files


# In a process without other threads: what these wait for a processor counts as the loop's waiting,
# and those that earlier tests have left here would wait for longer than the callback takes.
ALONE = """
import asyncio, json, sys
from tests.testing import test_stalls
print(json.dumps(asyncio.run(test_stalls.longest(getattr(test_stalls, sys.argv[1])))))
"""


@pytest.mark.parametrize("callback", [work, sleep, wait_for_a_lock])
def test_fifteen_milliseconds_are_seen(callback: Callable[[], None]) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", ALONE, callback.__name__]
    seconds, slowest = json.loads(subprocess.check_output(command, cwd=root, text=True))
    assert seconds > LIMIT
    assert callback.__name__ in slowest


async def test_an_empty_loop_has_no_stalls() -> None:
    seconds, slowest = await longest(lambda: None)
    assert seconds < LIMIT, slowest


@pytest.fixture
def _crowd() -> Iterator[None]:
    """Other processes that want the processors."""
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(8)]
    yield
    for process in others:
        process.kill()
        process.wait()


@pytest.mark.usefixtures("_crowd")
async def test_other_processes_are_no_stall() -> None:
    """A callback of some milliseconds of work, for which it has to wait a long time."""

    def computation() -> None:
        end = time.thread_time() + 0.002
        while time.thread_time() < end:
            pass

    loop = asyncio.get_running_loop()
    async with Stalls() as stalls:
        for _ in range(20):
            loop.call_soon(computation)
            await asyncio.sleep(0.001)
    assert stalls.longest_callback < LIMIT, stalls.slowest
