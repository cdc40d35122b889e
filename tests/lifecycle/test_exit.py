"""Short programs end by themselves: no abort at exit, whatever is still under way."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

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


def program(number: int, lab: Lab) -> str:
    names = [*PROGRAMS, "blocking"]
    name = names[number % len(names)]
    if name == "blocking":
        return BLOCKING.format(options=lab.lance_options())
    body = "\n".join("    " + line for line in PROGRAMS[name].strip().splitlines())
    return HEAD.format(options=lab.lance_options(), body=body)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("runs", [8, pytest.param(100, marks=pytest.mark.soak)])
async def test_short_programs_end_well(lineitem_lab: Lab, runs: int) -> None:
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

    ends = await asyncio.gather(*(run(number) for number in range(runs)))
    assert [end for end in ends if end[1] != 0 or end[2]] == []


FORK = """
import asyncio, os, sys
import alance, obstore
import alance.sync
from alance.io.loop import forked

uri, options = "s3://lab/lineitem.lance", {options!r}
{before}

async def read(again=None):
    dataset = again or await alance.dataset(uri, storage_options=options)
    rows = await dataset.take([1])
    await dataset.session.aclose()
    return dataset, rows.num_rows

def in_child(work):
    child = os.fork()
    if child == 0:
        try:
            code = work()
        except alance.ForkedError as error:
            assert "spawn" in str(error), error
            code = 7
        os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)

{program}
"""
# What a parent and its forked child do with a store, and the code that the program ends with.
FORKED = {
    "nothing before": ("", "sys.exit(in_child(lambda: asyncio.run(read())[1]))", 1),
    "opened in the child": (
        "",
        "asyncio.run(read())\nsys.exit(in_child(lambda: asyncio.run(read())[1]))",
        1,
    ),
    "inherited, and the parent and another child go on": (
        "",
        """
inherited, _ = asyncio.run(read())
blocking = alance.sync.dataset(uri, storage_options=options)
blocking.take([2])
def work():
    rows = asyncio.run(read(inherited))[1] + len(blocking.take([2, 3]))
    rows += len(alance.sync.dataset(uri, storage_options=options).take([4]))
    return rows + in_child(lambda: len(blocking.take([5, 6, 7])) + asyncio.run(read(inherited))[1])
codes = [in_child(work), in_child(work), len(blocking.take([5])), asyncio.run(read(inherited))[1]]
sys.exit(0 if codes == [8, 8, 1, 1] else str(codes))
""",
        0,
    ),
    "store objects": (
        "",
        """
def make():
    config = {{"endpoint": options["endpoint"], "region": "us-east-1",
               "access_key_id": "lab", "secret_access_key": "lab"}}
    return obstore.store.S3Store("lab", config=config, client_options={{"allow_http": True}})
store = make()
given = alance.sync.dataset("lineitem.lance", store=store)
given.take([1])
def work():
    made = make()  # by the library of the parent, as alance has done nothing here yet
    rows = len(given.take([1])) + len(alance.sync.dataset("lineitem.lance", store=made).take([1]))
    rows += len(alance.sync.dataset("lineitem.lance", store=store).take([1]))
    rows += len(alance.sync.dataset("lineitem.lance", store=make()).take([1]))
    return rows + (0 < obstore.head(make(), "lineitem.lance/_refs/tags/loaded.json")["size"])
sys.exit(in_child(work))
""",
        5,
    ),
    "a system without files in memory": (
        "del os.memfd_create",
        "asyncio.run(read())\nsys.exit(in_child(lambda: asyncio.run(read())[1]))",
        1,
    ),
    "a system that forbids it": (
        "forked._copy = lambda path: open('/no/such/file')",
        "asyncio.run(read())\nsys.exit(in_child(lambda: asyncio.run(read())[1]))",
        7,
    ),
    "a system that forbids it, nothing before": (
        "forked._copy = lambda path: open('/no/such/file')",
        "sys.exit(in_child(lambda: asyncio.run(read())[1]))",
        1,
    ),
}


@pytest.mark.parametrize("name", FORKED)
def test_a_forked_child_reads_or_says_why_not(lineitem_lab: Lab, name: str) -> None:
    before, program, code = FORKED[name]
    options = lineitem_lab.lance_options()
    text = FORK.format(options=options, before=before, program=program.format())
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text], check=False, timeout=300, capture_output=True
    )
    assert (done.returncode, done.stderr.decode()) == (code, "")


# Programs over `uri`, a table on local disk or at the lab, opened with `options`, that end while
# something is under way.
ENDS_BLOCKING = {
    "an iterator of a function": """
def run():
    batches = alance.dataset(uri, storage_options=options).to_batches(batch_size=100)
    next(batches)
run()
""",
    "an iterator of a module": """
batches = alance.dataset(uri, storage_options=options).to_batches(batch_size=100)
next(batches)
""",
    "an iterator in a generator": """
def rows():
    for batch in alance.dataset(uri, storage_options=options).to_batches(batch_size=100):
        yield batch
kept = rows()
next(kept)
""",
    "an iterator in a cycle": """
class Holder:
    pass
holder = Holder()
holder.me = holder
holder.batches = alance.dataset(uri, storage_options=options).to_batches(batch_size=100)
next(holder.batches)
del holder
""",
    "a reader of Arrow": """
reader = alance.dataset(uri, storage_options=options).to_reader(batch_size=100)
reader.read_next_batch()
""",
    "a daemon thread that reads on and on": """
ready = threading.Event()
def work():
    while True:
        for batch in alance.dataset(uri, storage_options=options).to_batches(batch_size=100):
            ready.set()
threading.Thread(target=work, daemon=True).start()
ready.wait()
""",
    "a thread that reads to its end": """
ready = threading.Event()
def work():
    dataset = alance.dataset(uri, storage_options=options)
    for batch in dataset.to_batches(batch_size=100):
        ready.set()
    assert dataset.to_table().num_rows == dataset.count_rows()
threading.Thread(target=work).start()
ready.wait()
""",
    "a call of __del__": """
class Holder:
    def __init__(self):
        self.dataset = alance.dataset(uri, storage_options=options)
        self.batches = self.dataset.to_batches(batch_size=100)
        next(self.batches)
    def __del__(self):
        assert self.dataset.count_rows() > 0
        self.batches.close()
holder = Holder()
""",
    "an exit in an iteration": """
for batch in alance.dataset(uri, storage_options=options).to_batches(batch_size=100):
    sys.exit(3)
""",
    "an interrupt in an iteration": """
batches = alance.dataset(uri, storage_options=options).to_batches(batch_size=100)
try:
    for batch in batches:
        signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    pass
""",
    "an error that is kept": """
try:
    for batch in alance.dataset(uri, storage_options=options).to_batches(batch_size=100):
        raise ValueError("kept")
except ValueError as error:
    kept = error
""",
    "a file that is open": """
reader = alance.FileReader.open(data_file, storage_options=options)
batches = reader.to_batches(batch_size=100)
next(batches)
""",
    "a sink that is open": """
sink = alance.ingest("memory://exit/sink", schema=pa.schema([("a", pa.int64())]))
sink.__enter__()
sink.write(pa.table({"a": [1]}))
""",
}
ENDS_ASYNC = {
    "a scan that is kept": """
batches = dataset.to_batches(batch_size=100)
kept.append(batches)
await anext(batches)
""",
    "many scans that are kept": """
for filter in (None, "l_orderkey > 5"):
    for batches in (
        dataset.to_batches(batch_size=100, filter=filter),
        dataset.scanner(filter=filter, scan_in_order=False).to_batches(),
    ):
        kept.append(batches)
        await anext(batches)
""",
    "a scan of a generator": """
async def rows():
    async for batch in dataset.to_batches(batch_size=100):
        yield batch
kept.append(rows())
await anext(kept[0])
""",
    "a file that is read": """
reader = await alance.FileReader.open(data_file, storage_options=options)
kept.append(reader.to_batches(batch_size=100))
await anext(kept[0])
""",
    "a table that is read": """
kept.append(asyncio.ensure_future(dataset.to_table()))
await anext(dataset.to_batches(batch_size=100))
""",
}
AT_THE_LAB = (
    "an iterator of a module",
    "a daemon thread that reads on and on",
    "a thread that reads to its end",
    "a call of __del__",
    "a scan that is kept",
    "a table that is read",
)
HEAD_BLOCKING = """
import signal, sys, threading
import pyarrow as pa
import alance.sync as alance
uri, data_file, options = {place!r}
"""
HEAD_ASYNC = """
import asyncio
import alance
uri, data_file, options = {place!r}
kept = []
async def main():
    dataset = await alance.dataset(uri, storage_options=options)
{body}
asyncio.run(main())
"""


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "is_local"),
    [(name, True) for name in (*ENDS_BLOCKING, *ENDS_ASYNC)]
    + [(name, False) for name in AT_THE_LAB],
)
def test_a_program_ends_whatever_is_under_way(
    lineitem_lab: Lab, golden: Path, name: str, is_local: bool
) -> None:
    uri = str(golden / "lineitem.lance") if is_local else "s3://lab/lineitem.lance"
    data_file = next((golden / "lineitem.lance" / "data").glob("*.lance")).name
    options = None if is_local else lineitem_lab.lance_options()
    place = (uri, f"{uri}/data/{data_file}", options)
    if name in ENDS_BLOCKING:
        text = HEAD_BLOCKING.format(place=place) + ENDS_BLOCKING[name]
    else:
        body = "\n".join("    " + line for line in ENDS_ASYNC[name].strip().splitlines())
        text = HEAD_ASYNC.format(place=place, body=body)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", text],
        check=False,
        timeout=300,  # far beyond what a busy machine needs; what hung did so for ever
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (3 if "exit" in name else 0, "")
