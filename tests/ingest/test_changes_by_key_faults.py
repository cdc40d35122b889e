"""Streams of changes by key that are cut off: the store fails, a task is cancelled."""

from __future__ import annotations

import asyncio
import itertools
import os
from typing import TYPE_CHECKING, Any

import lance
import pytest

import alance
from alance.errors import StoreError
from tests.ingest.steps import SCHEMA, Model, after, take_step

if TYPE_CHECKING:
    from pathlib import Path

    from alance.testing.lab import Lab

_numbers = itertools.count()


def read(uri: str, **options: Any) -> Model:
    table = lance.dataset(uri, **options)
    table.validate()  # type: ignore[no-untyped-call]
    rows = table.to_table().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: (row["x"], row["y"]) for row in rows}


@pytest.mark.parametrize("action", ["apply_reset", "apply_stall", "apply_status", "reset"])
@pytest.mark.parametrize("key", ["_versions/", "_deletions/", "/data/"])
async def test_lost_answers_lose_and_double_nothing(lab: Lab, action: str, key: str) -> None:
    options = {**lab.lance_options(), "client_max_retries": "1", "read_timeout": "500ms"}
    uri = f"s3://lab/changes-{next(_numbers)}.lance"
    sink = alance.ingest(uri, SCHEMA, on="id", producer="p", storage_options=options)
    async with sink:
        for number in range(1, 5):
            if number == 3:
                rule = {"action": action, "method": "PUT", "key": key, "times": 1, "status": 500}
                lab.config(faults=[rule])
            await take_step(sink, number)
            await sink.flush()
    lab.calm()
    assert sink.metrics.num_commits == 4
    assert sink.metrics.last_version == 5
    assert read(uri, storage_options=lab.lance_options()) == after(4)


async def test_a_store_that_refuses_ends_the_stream_and_another_sink_goes_on(lab: Lab) -> None:
    options = {**lab.lance_options(), "client_max_retries": "1", "read_timeout": "500ms"}
    uri = f"s3://lab/changes-{next(_numbers)}.lance"

    async def work() -> None:
        sink = alance.ingest(uri, SCHEMA, on="id", producer="p", storage_options=options)
        async with sink:
            for number in range(1, 4):
                await take_step(sink, number)
                if number == 2:
                    rule = {"action": "status", "method": "PUT", "key": "/data/", "status": 403}
                    lab.config(faults=[rule])
                await sink.flush()

    with pytest.raises(StoreError):
        await work()
    lab.calm()
    assert read(uri, storage_options=lab.lance_options()) == after(1)
    sink = alance.ingest(uri, on="id", producer="p", storage_options=options)
    async with sink:
        assert sink.last_sequence == 5
        for number in range(1, 4):  # the first step is skipped
            await take_step(sink, number)
        assert sink.metrics.num_skipped == 3
    assert read(uri, storage_options=lab.lance_options()) == after(3)


@pytest.mark.parametrize("seed", range(20))
async def test_whenever_it_is_cancelled_whole_steps_are_there(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "t"
    await alance.write_dataset(SCHEMA.empty_table(), path)
    done = 0

    async def work() -> None:
        nonlocal done
        async with alance.ingest(path, on="id", producer="p", commit_interval=None) as sink:
            for number in range(1, 12):
                await take_step(sink, number)
                await sink.flush()
                done = number

    task = asyncio.create_task(work())
    for _ in range(seed * 40):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    table = read(str(path))
    assert table in (after(done), after(done + 1))
    dataset = lance.dataset(str(path))
    named = [file.path for fragment in dataset.get_fragments() for file in fragment.data_files()]
    older = [
        file.path
        for version in dataset.versions()
        for fragment in lance.dataset(str(path), version=version["version"]).get_fragments()
        for file in fragment.data_files()
    ]
    files = os.listdir(path / "data") if (path / "data").exists() else []
    assert set(files) == {*named, *older}
    async with alance.ingest(path, on="id", producer="p") as sink:
        for number in range(1, 12):
            await take_step(sink, number)
    assert read(str(path)) == after(11)
