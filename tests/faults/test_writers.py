"""Processes of alance and pylance that write to one table, in turn and at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import alance

if TYPE_CHECKING:
    from alance.testing.lab import Lab

SCRIPT = Path(__file__).with_name("writers.py")


def race(uri: str, options: dict[str, str], processes: int, commits: int) -> None:
    """Half of the processes are alance's; each row must be there, once, and every version."""
    empty = pa.table({"process": pa.array([], pa.int64()), "commit": pa.array([], pa.int64())})
    lance.write_dataset(empty, uri, storage_options=options or None)
    running = [
        subprocess.Popen(
            [
                sys.executable,
                str(SCRIPT),
                "pylance" if number % 2 else "alance",
                uri,
                json.dumps(options),
                str(number),
                str(commits),
            ],
            env=os.environ | {"PYTHONPATH": str(SCRIPT.parents[2])},
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(processes)
    ]
    try:
        for process in running:
            _, errors = process.communicate()
            assert process.returncode == 0, errors
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.communicate()
    table = lance.dataset(uri, storage_options=options or None)
    table.validate()
    rows = table.to_table()
    ordered = sorted(zip(*(rows[name].to_pylist() for name in rows.column_names), strict=True))
    assert ordered == [(number, commit) for number in range(processes) for commit in range(commits)]
    versions = [version["version"] for version in table.versions()]
    assert sorted(versions) == list(range(1, processes * commits + 2))


def test_at_once_on_local_disk(tmp_path: Path) -> None:
    race(str(tmp_path / "table"), {}, 4, 12)


def test_at_once_on_a_store(lab: Lab) -> None:
    lab.config(latency_ms=3)
    race("s3://lab/race", lab.lance_options(), 4, 10)


@pytest.mark.soak
def test_many_at_once_on_local_disk(tmp_path: Path) -> None:
    race(str(tmp_path / "table"), {}, 8, 200)


@pytest.mark.soak
def test_many_at_once_on_a_store(lab: Lab) -> None:
    race("s3://lab/long-race", lab.lance_options(), 8, 200)


@pytest.mark.parametrize("v2_names", [True, False])
@pytest.mark.parametrize("version", ["2.1", "2.2"])
async def test_writers_in_turn_lose_no_row(tmp_path: Path, version: str, v2_names: bool) -> None:
    uri = str(tmp_path / "table")
    expected: list[int] = []
    lance.write_dataset(
        pa.table({"x": pa.array([], pa.int64())}),
        uri,
        data_storage_version=version,
        enable_v2_manifest_paths=v2_names,
    )
    dataset = await alance.dataset(uri)
    for number in range(12):
        rows = pa.table({"x": [number, -number]})
        overwrites = number in (5, 8)
        mode = "overwrite" if overwrites else "append"
        if overwrites:
            expected = []
        expected += [number, -number]
        if number % 2:
            lance.write_dataset(rows, uri, mode=mode)
        elif number % 4:
            dataset = await alance.write_dataset(rows, uri, mode=mode)
        else:
            dataset = await (await dataset.checkout_latest()).insert(rows, mode=mode)
        theirs = lance.dataset(uri)
        theirs.validate()
        assert theirs.to_table()["x"].to_pylist() == expected
        ours = await (await alance.dataset(uri)).to_table()
        assert ours["x"].to_pylist() == expected
        assert theirs.version == number + 2
        assert theirs.data_storage_version == version
    names = [name for name in os.listdir(f"{uri}/_versions") if name.endswith(".manifest")]
    assert {len(name) == len("18446744073709551615.manifest") for name in names} == {v2_names}
