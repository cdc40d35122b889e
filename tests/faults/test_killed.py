"""The process killed at every turn of a change: the table is at the old or the new version."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from alance.testing.lab import Lab

SCRIPT = Path(__file__).with_name("killed.py")
BEFORE = list(range(50))
AFTER = {
    "insert": [*BEFORE, 100, 101, 102],
    "overwrite": [100, 101, 102],
    "delete": BEFORE[10:],
    "update": [*BEFORE[10:], *(item + 1000 for item in BEFORE[:10])],
}


# Every turn takes minutes: `make test` kills at some, each verb at others; `make soak` at all.
strides = pytest.mark.parametrize("stride", [12, pytest.param(1, marks=pytest.mark.soak)])


def turns(verb: str, stride: int) -> range:
    """The turns to kill at, of which the last ones are behind the verb's end."""
    return range(1 + len(verb) % stride, 1000, stride)


@contextmanager
def killer(uri: str, options: dict[str, str], verb: str) -> Iterator[Callable[[int], bool]]:
    """Gives a function: run the verb, killed at a turn; whether it was killed."""
    command = [sys.executable, str(SCRIPT), uri, json.dumps(options), verb]
    python_path = {"PYTHONPATH": str(SCRIPT.parents[2])}
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | python_path,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def run(turn: int) -> bool:
            print(turn, file=process.stdin, flush=True)
            answer = process.stdout.readline().strip()
            assert answer in ("killed", "done 0"), answer
            return answer == "killed"

        yield run
        process.stdin.close()


def check(uri: str, options: dict[str, str], verb: str, version: int) -> int:
    """Check that pylance reads the old or the new rows and can write; return the version."""
    table = lance.dataset(uri, storage_options=options or None)
    table.validate()
    values = table.to_table()["x"].to_pylist()
    assert values == (BEFORE if table.version == version else AFTER[verb])
    return int(table.version)


@strides
@pytest.mark.parametrize("verb", ["insert", "overwrite", "delete", "update"])
def test_on_local_disk(tmp_path: Path, verb: str, stride: int) -> None:
    first, uri = tmp_path / "first", tmp_path / "table"
    lance.write_dataset(pa.table({"x": BEFORE}), first, max_rows_per_file=20)
    versions = set()
    with killer(str(uri), {}, verb) as run:
        for turn in turns(verb, stride):
            shutil.rmtree(uri, ignore_errors=True)
            shutil.copytree(first, uri)
            was_killed = run(turn)
            versions.add(check(str(uri), {}, verb, 1))
            if not was_killed:
                break
    assert 20 < turn < 990
    assert versions == {1, 2}
    # What the killed ones left harms nobody who goes on.
    lance.write_dataset(pa.table({"x": [1]}), uri, mode="append").validate()


@strides
def test_creating_a_table(tmp_path: Path, stride: int) -> None:
    uri = tmp_path / "table"
    with killer(str(uri), {}, "create") as run:
        for turn in turns("create", stride):
            shutil.rmtree(uri, ignore_errors=True)
            was_killed = run(turn)
            if list(uri.glob("_versions/*.manifest")):
                assert lance.dataset(uri).to_table()["x"].to_pylist() == [100, 101, 102]
            else:
                assert was_killed
                lance.write_dataset(pa.table({"x": [1]}), uri).validate()
            if not was_killed:
                break
    assert 10 < turn < 990


@strides
@pytest.mark.parametrize("verb", ["insert", "delete"])
def test_on_a_store(lab: Lab, verb: str, stride: int) -> None:
    options = lab.lance_options()
    uri = f"s3://lab/killed-{verb}"
    versions = []
    with killer(uri, options, verb) as run:
        for turn in turns(verb, stride):
            table = lance.write_dataset(
                pa.table({"x": BEFORE}), uri, storage_options=options, mode="overwrite"
            )
            was_killed = run(turn)
            versions.append(check(uri, options, verb, table.version) - table.version)
            if not was_killed:
                break
    assert 20 < turn < 990
    assert set(versions) == {0, 1}


@strides
@pytest.mark.parametrize("verb", ["create_index", "optimize_indices"])
async def test_a_killed_build_leaves_the_old_index(tmp_path: Path, verb: str, stride: int) -> None:
    first, uri = tmp_path / "first", tmp_path / "table"
    values = np.random.default_rng(1).standard_normal((600, 8), np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(values.reshape(-1), 8)
    rows = pa.table({"x": range(600), "v": vectors})
    dataset = lance.write_dataset(rows.slice(0, 500), first)
    dataset.create_index("v", "IVF_FLAT", num_partitions=3)
    dataset = lance.write_dataset(rows.slice(500), first, mode="append")
    old, seen = dataset.version, set()
    with killer(str(uri), {}, verb) as run:
        for turn in turns(verb, stride):
            shutil.rmtree(uri, ignore_errors=True)
            shutil.copytree(first, uri)
            was_killed = run(turn)
            table = lance.dataset(uri)
            seen.add(table.version)
            is_new = table.version > old
            kind = table.stats.index_stats("v_idx")["index_type"]
            assert kind == ("IVF_PQ" if is_new and verb == "create_index" else "IVF_FLAT")
            own = await alance.dataset(uri)
            request = {"nprobes": 3, "refine_factor": 9, "fast_search": True}
            for row in (0, 499, 599):  # the last one has no index before
                near = {"column": "v", "q": values[row], "k": 600, "nprobes": 3}
                theirs = table.to_table(["x"], nearest=near, fast_search=True)["x"]
                ours = await own.nearest("v", values[row], 600, columns=["x"], **request)
                assert sorted(ours["x"].to_pylist()) == sorted(theirs.to_pylist())
                assert sorted(theirs.to_pylist()) == [*range(600 if is_new else 500)]
            # What it has left behind goes, and what is there answers as before.
            await own.cleanup_old_versions(timedelta(0), delete_unverified=True)
            files = {file.parent.name for file in (uri / "_indices").glob("*/*")}
            assert files == {segment["uuid"] for segment in own.list_indices()}
            if not was_killed:
                break
    assert 20 < turn < 990
    assert seen == {old, old + 1}
