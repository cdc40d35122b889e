"""Other orders of events than those of this machine, all of which threads and asyncio allow.

A test may pass on a busy machine for months, and fail on a quiet one, as it looked at a counter
before what it counts was done. This plugin of pytest makes such tests fail where they are written:

    CHAOS=quiet CHAOS_SEED=1 .venv/bin/pytest -p tests.reference.chaos tests/upkeep

| `CHAOS` | what it does |
| --- | --- |
| `slow` | threads begin their work late, and their answers come late to the loop |
| `late` | answers of threads come late, and timers |
| `quiet` | coroutines of tests that have waited go on late: what is in the background has ended |

`CHAOS_SEED` is a number; which callback waits depends on the order of threads, too, so a failure
need not come again with the same one. A test that counts turns of the loop may fail with `quiet`
and be right. Not used by `make test`: `make chaos` is for who looks for tests that stand on chance.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import threading
import time
import types
from asyncio import base_events
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator

Loop = base_events.BaseEventLoop

MODES = ("slow", "late", "quiet")
BEGIN_S = (0.0, 0.002, 0.08)  # late by, of work of a thread
ANSWER_S = 0.008  # late by at most, of half of the answers of threads
TIMER_S = (0.0, 0.001, 0.005)
TURNS = (3, 20, 60)  # of the loop, before a coroutine of a test goes on
PAUSE_S = (0.0, 0.0, 0.006, 0.1)  # after these

mode = os.environ.get("CHAOS", "quiet")
dice = random.Random(int(os.environ.get("CHAOS_SEED", "1")))


def delay_answers() -> None:
    """Have threads tell loops later what they have done, as if others had the processor."""
    tell = Loop.call_soon_threadsafe

    def later(self: Any, callback: Any, *args: Any, context: Any = None) -> Any:
        is_own = self._thread_id == threading.get_ident()
        if not is_own and not sys.is_finalizing() and dice.random() < 0.5:
            time.sleep(dice.uniform(0, ANSWER_S))
        return tell(self, callback, *args, context=context)

    Loop.call_soon_threadsafe = later  # type: ignore[method-assign]


def delay_timers() -> None:
    """Have timers end later; not those of virtual time."""
    at = Loop.call_at

    def later(self: Any, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        more = dice.choice(TIMER_S) if type(self).time is Loop.time else 0.0
        return at(self, when + more, callback, *args, context=context)

    Loop.call_at = later  # type: ignore[method-assign]


def delay_work() -> None:
    """Have threads of pools begin later."""
    submit = ThreadPoolExecutor.submit

    def begin(wait: float, job: Any, *args: Any, **options: Any) -> Any:
        time.sleep(wait)
        return job(*args, **options)

    def later(self: Any, job: Any, /, *args: Any, **options: Any) -> Any:
        return submit(self, begin, dice.choice(BEGIN_S), job, *args, **options)

    ThreadPoolExecutor.submit = later  # type: ignore[method-assign]


@types.coroutine
def _going_on_late(coroutine: Any) -> Generator[Any, Any, Any]:
    step, value = coroutine.send, None
    while True:
        try:
            awaited = step(value)
        except StopIteration as ended:
            return ended.value
        step, value = coroutine.send, None
        try:
            yield awaited
            if awaited is not None:  # who gave one turn up goes on in the next
                yield from [None] * dice.choice(TURNS)
                yield from asyncio.sleep(dice.choice(PAUSE_S)).__await__()
        except GeneratorExit:
            coroutine.close()
            raise
        except BaseException as error:
            step, value = coroutine.throw, error


async def _late(coroutine: Any) -> Any:
    return await _going_on_late(coroutine)


def delay_tests() -> None:
    """Have tests, and the tasks they begin, go on later than what they wait for allows."""
    run, create = asyncio.Runner.run, Loop.create_task

    def run_late(self: Any, coroutine: Any, *, context: Any = None) -> Any:
        return run(self, _late(coroutine), context=context)

    def create_late(self: Any, coroutine: Any, **options: Any) -> Any:
        code = getattr(coroutine, "cr_code", None)
        is_of_a_test = code is not None and "/test_" in code.co_filename
        task = create(self, _late(coroutine) if is_of_a_test else coroutine, **options)
        if is_of_a_test:
            task.add_done_callback(lambda _: coroutine.close())  # it may not have begun
        return task

    asyncio.Runner.run = run_late  # type: ignore[method-assign]
    Loop.create_task = create_late  # type: ignore[method-assign]


def pytest_configure() -> None:
    """Begin, before any test is collected."""
    if mode not in MODES:
        raise ValueError(f"CHAOS={mode!r}: expected one of {MODES}")
    if mode == "quiet":
        delay_tests()
        return
    delay_answers()
    (delay_work if mode == "slow" else delay_timers)()
