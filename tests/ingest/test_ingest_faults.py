"""Streams that are cut off: the store fails, a task is cancelled, a process is killed."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from alance.errors import StoreError

if TYPE_CHECKING:
    from alance.testing.lab import Lab

SCHEMA = pa.schema([("id", pa.int64())])
ROWS = 50
_numbers = itertools.count()

CHILD = """
import asyncio, sys, pyarrow as pa, alance

async def main():
    async with alance.ingest(sys.argv[1], producer="p", commit_interval=0.01,
                             max_rows_per_file=70) as sink:
        print(sink.last_sequence, flush=True)
        for number in range(sink.last_sequence, int(sys.argv[2])):
            rows = list(range(number * 50, number * 50 + 50))
            await sink.write(pa.record_batch([rows], names=["id"]))
            await asyncio.sleep(0.002)

asyncio.run(main())
"""


def batch(number: int) -> pa.RecordBatch:
    return pa.record_batch([list(range(number * ROWS, (number + 1) * ROWS))], schema=SCHEMA)


def place(lab: Lab) -> tuple[str, dict[str, str]]:
    """A new table's URI, and the options to reach it without long patience."""
    options = {**lab.lance_options(), "client_max_retries": "1", "read_timeout": "500ms"}
    return f"s3://lab/faults-{next(_numbers)}.lance", options


@pytest.mark.parametrize("action", ["apply_reset", "apply_stall", "apply_status", "reset"])
@pytest.mark.parametrize("key", ["_versions/", "_transactions/", "/data/"])
async def test_lost_answers_lose_and_double_nothing(lab: Lab, action: str, key: str) -> None:
    uri, options = place(lab)
    async with alance.ingest(uri, SCHEMA, producer="p", storage_options=options) as sink:
        for number in range(4):
            if number == 2:
                rule = {"action": action, "method": "PUT", "key": key, "times": 1, "status": 500}
                lab.config(faults=[rule])
            await sink.write(batch(number))
            await sink.flush()
    lab.calm()
    table = lance.dataset(uri, storage_options=lab.lance_options())
    table.validate()
    assert table.to_table()["id"].to_pylist() == list(range(4 * ROWS))


async def test_a_store_that_refuses_ends_the_stream(lab: Lab) -> None:
    uri, options = place(lab)

    async def work() -> None:
        async with alance.ingest(uri, SCHEMA, producer="p", storage_options=options) as sink:
            await sink.write(batch(0))
            await sink.flush()
            rule = {"action": "status", "method": "PUT", "key": "/data/", "status": 403}
            lab.config(faults=[rule])
            await sink.write(batch(1))
            with pytest.raises(StoreError):
                await sink.flush()
            with pytest.raises(StoreError):
                await sink.write(batch(2))
            lab.calm()
            await sink.flush()  # it has failed for good

    with pytest.raises(StoreError):
        await work()
    table = lance.dataset(uri, storage_options=lab.lance_options())
    assert table.to_table()["id"].to_pylist() == list(range(ROWS))
    folder = Path(lab.root, "lab", uri.rpartition("/")[2], "data")
    assert len(os.listdir(folder)) == 1
    async with alance.ingest(uri, producer="p", storage_options=options) as sink:
        assert sink.last_sequence == 1


@pytest.mark.parametrize("seed", range(25))
async def test_whenever_it_is_cancelled_a_prefix_is_there(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "t"
    await alance.write_dataset(batch(0), path)

    async def work() -> None:
        async with alance.ingest(path, max_rows_per_file=120, commit_rows=150) as sink:
            for number in range(1, 40):
                await sink.write(batch(number))

    task = asyncio.create_task(work())
    for _ in range(seed * 12):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    table = lance.dataset(path)
    table.validate()
    ids = table.to_table()["id"].to_pylist()
    assert ids == list(range(len(ids)))
    assert len(ids) % ROWS == 0
    named = [file.path for fragment in table.get_fragments() for file in fragment.data_files()]
    assert sorted(os.listdir(path / "data")) == sorted(named)


def test_a_process_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    path, count = tmp_path / "t", 120
    lance.write_dataset(pa.table({"id": pa.array([], pa.int64())}), path)
    command = [sys.executable, "-c", CHILD, str(path), str(count)]
    dice = random.Random(5)
    begun: list[int] = []
    for attempt in itertools.count():
        assert attempt < 100
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            begun.append(int(process.stdout.readline()))
            if attempt < 3:
                time.sleep(dice.uniform(0.02, 0.2))
                process.send_signal(signal.SIGKILL)
            else:
                assert process.wait() == 0
                break
    assert begun == sorted(begun)
    table = lance.dataset(path)
    table.validate()
    assert table.to_table()["id"].to_pylist() == list(range(count * ROWS))


async def test_who_waits_for_room_can_be_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "t"
    async with alance.ingest(path, SCHEMA, max_buffer_bytes=4 * ROWS * 8) as sink:

        async def produce(number: int) -> Any:
            return await sink.write(batch(number))

        tasks = [asyncio.create_task(produce(number)) for number in range(20)]
        await asyncio.sleep(0)
        for task in tasks[10:]:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        accepted = [number for number, item in enumerate(done) if item is True]
        assert set(accepted) >= set(range(10))
    ids = set(lance.dataset(path).to_table()["id"].to_pylist())
    assert ids == {
        index for number in accepted for index in range(number * ROWS, number * ROWS + 50)
    }
