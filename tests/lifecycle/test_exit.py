"""Short programs end by themselves: no abort at exit, whatever is still under way."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from alance.testing.lab import Lab

# Each is the body of `main`, with `dataset` open over the lab; many ways to leave work behind.
PROGRAMS = {
    "finished": "await dataset.take([1, 2, 3])",
    "closed": "await dataset.take([1])\nawait dataset.session.aclose()",
    "cancelled": """
task = asyncio.ensure_future(dataset.to_table())
await asyncio.sleep(random.random() * 0.02)
task.cancel()
""",
    "left behind": """
asyncio.ensure_future(dataset.take([5]))
await asyncio.sleep(random.random() * 0.01)
""",
    "half a scan": """
async for batch in dataset.to_batches(batch_size=100):
    break
""",
    "error": """
try:
    await dataset.take([10**9])
except alance.InvalidInputError:
    pass
""",
    "many callers": "await asyncio.gather(*(dataset.take([n]) for n in range(40)))",
}
HEAD = """
import asyncio, random, sys
import alance

async def main():
    dataset = await alance.dataset("s3://lab/lineitem.lance", storage_options={options!r})
{body}

asyncio.run(main())
"""
BLOCKING = """
import alance.sync as alance
dataset = alance.dataset("s3://lab/lineitem.lance", storage_options={options!r})
dataset.take([1, 2, 3])
next(dataset.to_batches())
"""
RUNS = 100


def program(number: int, lab: Lab) -> str:
    names = [*PROGRAMS, "blocking"]
    name = names[number % len(names)]
    if name == "blocking":
        return BLOCKING.format(options=lab.lance_options())
    body = "\n".join("    " + line for line in PROGRAMS[name].strip().splitlines())
    return HEAD.format(options=lab.lance_options(), body=body)


@pytest.mark.timeout(600)
async def test_a_hundred_short_programs_end_well(lineitem_lab: Lab) -> None:
    room = asyncio.Semaphore(os.cpu_count() or 1)

    async def run(number: int) -> tuple[int, int | None, str]:
        async with room:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                program(number, lineitem_lab),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            _, errors = await process.communicate()
            return number, process.returncode, errors.decode()

    ends = await asyncio.gather(*(run(number) for number in range(RUNS)))
    assert [end for end in ends if end[1] != 0 or end[2]] == []


FORK = """
import asyncio, os, sys
import alance

uri, options = "s3://lab/lineitem.lance", {options!r}

async def read():
    dataset = await alance.dataset(uri, storage_options=options)
    rows = await dataset.take([1])
    await dataset.session.aclose()
    return rows.num_rows

if {used_before}:
    asyncio.run(read())
child = os.fork()
if child == 0:
    try:
        code = asyncio.run(read())
    except alance.ForkedError as error:
        assert "spawn" in str(error)
        code = 7
    os._exit(code)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.parametrize(("used_before", "code"), [(False, 1), (True, 7)])
def test_a_forked_child_reads_or_says_why_not(
    lineitem_lab: Lab, used_before: bool, code: int
) -> None:
    text = FORK.format(options=lineitem_lab.lance_options(), used_before=used_before)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text], check=False, timeout=60, capture_output=True
    )
    assert (done.returncode, done.stderr) == (code, b"")
