"""The decode pool, plans driven over a store, and what a trace says."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from alance import _kernels
from alance.errors import CorruptFileError, InvalidInputError, StoreError
from alance.format.plans import ByteRange, Plan, together
from alance.io.events import trace
from alance.io.reading.drive import drive
from alance.io.reading.pool import INLINE_OUTPUT_BYTES, LOOP_TURN_S, DecodePool

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def threads_of_pools() -> set[threading.Thread]:
    return {own for own in threading.enumerate() if own.name.startswith("alance-decode")}


async def test_work_runs_in_threads_of_the_pool() -> None:
    pool = DecodePool(2)
    threads = await asyncio.gather(*(pool.run(threading.current_thread) for _ in "abc"))
    assert threads_of_pools().issuperset(threads)
    await pool.aclose()
    await pool.aclose()
    with pytest.raises(InvalidInputError, match="closed"):
        await pool.run(int)


async def test_decoding_that_takes_much_memory_leaves_the_loop() -> None:
    pool = DecodePool(1)
    seen: list[threading.Thread] = []

    def work(num_bytes: int) -> int:
        seen.append(threading.current_thread())
        return len(_kernels.blank(num_bytes // 2)) + len(_kernels.blank(num_bytes // 2))

    for num_bytes in (INLINE_OUTPUT_BYTES, INLINE_OUTPUT_BYTES + 2):
        assert await pool.run(partial(work, num_bytes), inline=True, is_decoding=True) == num_bytes
    assert [thread is threading.main_thread() for thread in seen] == [True, True, False]
    assert len(_kernels.blank(2 * INLINE_OUTPUT_BYTES)) == 2 * INLINE_OUTPUT_BYTES
    await pool.aclose()


async def test_the_next_pool_has_the_threads_of_one_that_was_closed() -> None:
    threads = []
    for number in (1, 1, 2):
        pool = DecodePool(number)
        threads.append(await pool.run(threading.current_thread))
        await pool.aclose()
    assert threads[0] is threads[1] is not threads[2]
    threads[0].join(10.0)  # nobody has it any more
    assert not threads[0].is_alive()
    assert threads[2].is_alive()


async def test_threads_that_work_for_cancelled_callers_are_waited_for_and_end() -> None:
    pool, gate = DecodePool(1), threading.Event()
    thread = await pool.run(threading.current_thread)
    began = threading.Event()
    busy = asyncio.ensure_future(pool.run(lambda: began.set() or gate.wait()))
    await asyncio.to_thread(began.wait)
    busy.cancel()
    closing = asyncio.ensure_future(pool.aclose())
    await asyncio.sleep(0.01)
    assert not closing.done()
    gate.set()
    await closing
    assert not thread.is_alive()


FORK = """
import asyncio, os, signal
from alance.io.reading.pool import DecodePool

async def used(pool):
    await pool.run(int)
    await pool.aclose()

open_still = DecodePool(1)
asyncio.run(open_still.run(int))
asyncio.run(used(DecodePool(1)))
child = os.fork()
if child == 0:
    signal.alarm(30)  # work that no thread does is never done
    asyncio.run(used(DecodePool(1)))
    asyncio.run(open_still.aclose())
    asyncio.run(used(DecodePool(1)))
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
asyncio.run(open_still.aclose())
"""


def test_a_forked_child_has_threads_of_its_own() -> None:
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=200)


async def test_cancelled_work_that_has_not_begun_is_dropped() -> None:
    pool, gate, done = DecodePool(1), threading.Event(), []
    busy = asyncio.ensure_future(pool.run(gate.wait))
    waiting = asyncio.ensure_future(pool.run(lambda: done.append(1)))
    await asyncio.sleep(0.01)
    waiting.cancel()
    await asyncio.sleep(0)  # the pool hears of it in the next turn
    await asyncio.sleep(0)
    gate.set()
    await busy
    await pool.aclose()
    assert done == []


def plan(rounds: int, name: str = "a") -> Plan[bytes]:
    result = b""
    for number in range(rounds):
        (buffer,) = yield [ByteRange(name, number, number + 1)]
        result += bytes(buffer)
    return result


async def test_plans_are_driven_in_lockstep() -> None:
    lists: list[list[str]] = []

    async def read(ranges: Sequence[ByteRange]) -> list[memoryview]:
        lists.append([item.path for item in ranges])
        return [memoryview(b"abcdef")[item.start : item.stop] for item in ranges]

    result = await drive(together([plan(1, "x"), plan(3, "y"), plan(0, "z")]), read)
    assert result == [b"a", b"abc", b""]
    assert lists == [["x", "y"], ["y"], ["y"]]


async def test_a_plan_is_closed_when_its_read_fails() -> None:
    closed = []

    def watched() -> Plan[None]:
        try:
            yield [ByteRange("a", 0, 1)]
        finally:
            closed.append(True)

    async def read(ranges: Sequence[ByteRange]) -> list[memoryview]:
        raise StoreError("down")

    with pytest.raises(StoreError):
        await drive(watched(), read)
    assert closed == [True]


async def test_a_plan_may_fail() -> None:
    def bad() -> Plan[None]:
        yield []
        raise CorruptFileError("bad")

    async def read(ranges: Sequence[ByteRange]) -> list[memoryview]:
        raise AssertionError("nothing is asked for")

    with pytest.raises(CorruptFileError):
        await drive(bad(), read)


def recorder() -> trace.RequestRecorder:
    """Three waves: two requests at once, one, one."""
    result = trace.RequestRecorder()
    for number, (begun, ended, reason) in enumerate(
        [(0.0, 0.03, "open"), (0.001, 0.02, "open"), (0.031, 0.05, "take"), (0.05, 0.06, "")]
    ):
        result.events.append(
            trace.RequestEvent(
                "get",
                f"s3://b/file-{number}",
                0,
                100,
                (reason,) if reason else (),
                begun,
                ended,
                100,
                True,
            )
        )
    return result


def test_what_a_trace_says(tmp_path: Path) -> None:
    result = recorder()
    assert (result.num_requests, result.num_bytes, result.rounds) == (4, 400, 3)
    assert "in 3 rounds" in result.summary()
    assert "open" in result.summary()
    lines = result.waterfall(100).splitlines()
    assert len(lines) == 5
    assert all(len(line) <= 100 for line in lines)
    result.to_chrome(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [event["tid"] for event in events] == [0, 1, 0, 0]
    assert events[2]["dur"] == pytest.approx(19_000)


def test_a_trace_of_nothing() -> None:
    with trace.trace() as result:
        pass
    assert (result.num_requests, result.rounds) == (0, 0)
    assert result.waterfall() == "no requests"
    assert "0" in result.summary()


def test_traces_nest_and_end_in_order() -> None:
    with trace.trace() as outer:
        with trace.trace() as inner:
            assert trace.current() is inner
        assert trace.current() is outer
    assert trace.current() is None


async def test_many_that_work_on_the_loop_go_on_one_a_turn() -> None:
    pool, worked, turn = DecodePool(1), [], 0

    async def caller() -> None:
        for _ in range(3):
            time.sleep(2 * LOOP_TURN_S)  # noqa: ASYNC251  # work that takes its time
            worked.append(turn)
            await pool.share_turn()

    callers = [asyncio.ensure_future(caller()) for _ in range(5)]
    callers.append(asyncio.ensure_future(caller()))
    await asyncio.sleep(0)
    assert worked.count(0) == 7, "the first one had the turn for itself, so far"
    callers.pop().cancel()  # while it waits for its turn
    while not all(call.done() for call in callers):
        turn += 1
        await asyncio.sleep(0)
    after = [worked.count(number) for number in set(worked) - {0}]
    assert after == [1] * 9
