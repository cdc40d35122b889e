"""Backfills: crashes between fragments and what their checkpoints keep; functions of all kinds."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from alance.errors import InvalidInputError
from tests.changing.backfills import OUTPUT, Doubling, check, check_rows
from tests.changing.both_ways import Twins, files_of, latest, read, rows

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_run_after_a_failure_goes_on(path: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "done.sqlite"
    first = Doubling(fails_at=17)
    dataset = await alance.dataset(str(path))
    for _ in range(2):  # how often it fails does not matter
        with pytest.raises(OSError, match="stopped"):
            await dataset.add_columns(
                alance.batch_udf(OUTPUT, checkpoint)(first), read_columns=["id"]
            )
    assert latest(path).version == 2
    with closing(sqlite3.connect(checkpoint)) as database:
        done = {item for (item,) in database.execute("SELECT fragment_id FROM fragments")}
    second = Doubling()
    widened = await dataset.add_columns(
        alance.batch_udf(OUTPUT, checkpoint)(second), read_columns=["id"]
    )
    assert widened.version == 3
    assert {*first.seen, *second.seen} == {*range(1, 9), 10, 11, *range(13, 20)}
    assert not {item // 5 for item in second.seen} & done
    assert not checkpoint.exists()
    check(path)


async def test_batches_of_an_unfinished_fragment_are_kept(path: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "done.sqlite"
    first, second = Doubling(fails_at=3), Doubling()
    dataset = await alance.dataset(str(path))
    for function in (first, second):
        udf = alance.batch_udf(OUTPUT, checkpoint)(function)
        try:
            await dataset.add_columns(udf, read_columns=["id"], batch_size=1)
        except OSError:
            assert function is first
    assert {1, 2} <= set(first.seen)
    assert {*first.seen, *second.seen} == {*range(1, 9), 10, 11, *range(13, 20)}
    assert not {1, 2} & set(second.seen), "in the fragment that failed at its third row"
    check(path)


KILLED = """
import asyncio, os, signal, sys
import pyarrow as pa
import alance

calls = []

@alance.batch_udf(pa.schema([("x", pa.int64())]), sys.argv[2])
def double(batch):
    ids = batch["id"].to_pylist()
    with open(sys.argv[3], "a") as file:
        file.write("".join(f"{one}\\n" for one in ids))
    calls.append(ids)
    if len(calls) == int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)
    return pa.record_batch({"x": pa.array([2 * one for one in ids], pa.int64())})

async def main():
    await (await alance.dataset(sys.argv[1])).add_columns(double, read_columns=["id"])

asyncio.run(main())
"""


async def test_processes_that_are_killed(tmp_path: Path) -> None:
    """Three die in a call; that call is made again, and no other."""
    path = tmp_path / "t"
    lance.write_dataset(rows(0, 80), str(path), max_rows_per_file=5)
    checkpoint, log = tmp_path / "done.sqlite", tmp_path / "log"
    loop = asyncio.get_running_loop()
    for last in (6, 4, 2, -1):
        command = [sys.executable, "-c", KILLED, str(path), str(checkpoint), str(log), str(last)]
        ended = await loop.run_in_executor(
            None, lambda command=command: subprocess.run(command, check=False, env=os.environ)
        )
        assert ended.returncode == (0 if last < 0 else -signal.SIGKILL)
    seen = [int(item) for item in log.read_text().split()]
    assert set(seen) == set(range(80))
    assert len(seen) == 80 + 3 * 5
    table = read(path)
    assert table["x"].to_pylist() == [2 * index for index in range(80)]
    assert not checkpoint.exists()


async def test_a_checkpoint_serves_nothing_else(path: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "done.sqlite"
    dataset = await alance.dataset(str(path))
    with pytest.raises(OSError, match="stopped"):
        await dataset.add_columns(alance.batch_udf(OUTPUT, checkpoint)(Doubling(fails_at=19)))
    # Rows that have moved are computed again.
    await dataset.update({"id": "id + 100"}, where="id = 13")
    second = Doubling()
    named = await (await dataset.checkout_latest()).add_columns(
        alance.batch_udf(OUTPUT, checkpoint)(second)
    )
    assert 113 in second.seen
    table = await named.to_table(["id", "x"])
    assert table["x"].to_pylist() == [2 * value for value in table["id"].to_pylist()]


async def test_a_checkpoint_of_other_columns(path: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "done.sqlite"
    dataset = await alance.dataset(str(path))
    first, second = Doubling(fails_at=19), Doubling()
    with pytest.raises(OSError, match="stopped"):
        await dataset.add_columns(alance.batch_udf(OUTPUT, checkpoint)(first))
    output = pa.schema([("y", pa.int64())])

    def renamed(batch: pa.RecordBatch) -> pa.RecordBatch:
        return second(batch).rename_columns(["y"])

    await dataset.add_columns(alance.batch_udf(output, checkpoint)(renamed))
    assert len(second.seen) == 17
    check_rows(path, "y")


async def test_files_of_a_checkpoint_that_are_gone(path: Path, tmp_path: Path) -> None:
    """As after a cleanup: they are computed again."""
    checkpoint = tmp_path / "done.sqlite"
    dataset = await alance.dataset(str(path))
    before = files_of(path)
    udf = alance.batch_udf(OUTPUT, checkpoint)
    await dataset.fragments[0].add_columns(udf(Doubling()))
    await dataset.fragments[1].add_columns(udf(Doubling()))
    gone, _ = sorted(files_of(path) - before)
    (path / gone).unlink()
    again = Doubling()
    await dataset.add_columns(udf(again))
    assert len(again.seen) == 17 - 4
    check(path)


async def test_a_file_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    path = Twins.make(tmp_path).ours
    (tmp_path / "no").write_text("this is no database" * 100)
    dataset = await alance.dataset(str(path))
    with pytest.raises(InvalidInputError, match="checkpoint_file"):
        await dataset.add_columns(alance.batch_udf(OUTPUT, tmp_path / "no")(Doubling()))


async def test_calls_at_once(path: Path) -> None:
    """One at a time, unless the function allows more."""
    dataset = await alance.dataset(str(path))
    most = {1: 0, 3: 0}
    running = 0

    def function(limit: int) -> Any:
        async def call(batch: pa.RecordBatch) -> pa.RecordBatch:
            nonlocal running
            running += 1
            most[limit] = max(most[limit], running)
            for _ in range(20):
                await asyncio.sleep(0)
            running -= 1
            return pa.record_batch({f"x{limit}": [2 * value for value in batch["id"].to_pylist()]})

        return call

    for limit in most:
        udf = alance.batch_udf(pa.schema([(f"x{limit}", pa.int64())]), concurrency=limit)
        dataset = await dataset.add_columns(udf(function(limit)), batch_size=1)
        check(path, f"x{limit}")
    assert most == {1: 1, 3: 3}


@pytest.mark.parametrize("kind", ["table", "pandas", "polars", "narrower", "other order"])
async def test_what_functions_give(path: Path, kind: str) -> None:
    import polars

    def function(batch: pa.RecordBatch) -> Any:
        ids = batch["id"].to_pylist()
        table = pa.table({"x": pa.array([2 * row_id for row_id in ids], pa.int64()), "y": ids})
        if kind == "pandas":
            return table.to_pandas()
        if kind == "polars":
            return polars.from_arrow(table)
        if kind == "narrower":
            return table.set_column(0, "x", table["x"].cast(pa.int32()))
        return table.select(["y", "x"]) if kind == "other order" else table

    output = pa.schema([("x", pa.int64()), ("y", pa.int64())])
    dataset = await alance.dataset(str(path))
    await dataset.add_columns(alance.batch_udf(output)(function))
    check(path)
    assert read(path)["y"].to_pylist() == read(path)["id"].to_pylist()


async def test_a_table_without_rows(tmp_path: Path) -> None:
    lance.write_dataset(rows(0, 0), str(tmp_path / "t"))
    dataset = await alance.dataset(str(tmp_path / "t"))
    with pytest.raises(InvalidInputError, match="give output_schema"):
        await dataset.add_columns(Doubling())
    dataset = await dataset.add_columns(alance.batch_udf(OUTPUT)(Doubling()))
    dataset = await dataset.add_columns({"y": "id + 1"})
    dataset = await dataset.add_columns(pa.table({"z": pa.array([], pa.int8())}))
    dataset = await dataset.merge(pa.table({"id": pa.array([1], pa.int64()), "w": [1]}), "id")
    dataset = await dataset.alter_columns({"path": "id", "data_type": pa.int32()})
    more = rows(0, 3)
    more = more.set_column(0, "id", more["id"].cast(pa.int32()))
    lance.dataset(str(tmp_path / "t")).insert(more)
    assert read(tmp_path / "t").select(["id", "x", "w"]).to_pylist() == [
        {"id": n, "x": None, "w": None} for n in range(3)
    ]
