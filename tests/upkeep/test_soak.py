"""Everything at once on one table: nothing is lost or told twice, and the table stays in order.

Four producers append and upsert, pylance appends, two readers follow and search, and two replicas
maintain the table, which are killed again and again. `make soak` does so for an hour, or for
SOAK_SECONDS.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from datetime import timedelta
from pathlib import Path

import lance
import pytest

import alance
from tests.upkeep.soak import POLICY, READERS, RETAINED, rows

SCRIPT = Path(__file__).with_name("soak.py")
HOUR = float(os.environ.get("SOAK_SECONDS", "3600"))


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def run_all(folder: Path, operations: int, seconds: float, kills: int) -> None:
    """Run the processes until all is written and told."""
    arguments = [str(folder), "7", str(operations), str(seconds), str(kills)]
    process = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        env=os.environ | {"PYTHONPATH": str(SCRIPT.parents[2])},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert int((folder / "killed").read_text()) >= kills


def written(folder: Path) -> dict[int, list[int]]:
    """The acknowledged changes of each key, in order."""
    changes: defaultdict[int, list[int]] = defaultdict(list)
    for path in sorted(folder.glob("*.written")):
        for line in lines(path):
            for key, change in json.loads(line).items():
                changes[int(key)].append(change)
    return changes


def changes_read(path: Path) -> tuple[dict[int, list[int]], set[str]]:
    """The changes of each key that a reader was told, in order; and the kinds of wrong ones."""
    changes: defaultdict[int, list[int]] = defaultdict(list)
    wrong: set[str] = set()
    for line in lines(path):
        version, kind, values = json.loads(line)
        for key, change in values.items():
            if kind != ("update" if change else "insert"):
                wrong.add(f"version {version}: {kind} of {key} with change {change}")
            changes[int(key)].append(change)
    return changes, wrong


def grow_old(folder: Path) -> None:
    """Let the files seem older than those that an unfinished commit may need."""
    then = time.time() - timedelta(days=8).total_seconds()
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))


@pytest.mark.parametrize(
    ("operations", "seconds", "kills"),
    [
        pytest.param(8, 0, 4, id="short"),
        pytest.param(8, HOUR, 4, marks=[pytest.mark.soak, pytest.mark.timeout(0)], id="long"),
    ],
)
async def test_producers_readers_and_killed_maintenance_at_once(
    tmp_path: Path, operations: int, seconds: float, kills: int
) -> None:
    uri = str(tmp_path / "table")
    dataset = await alance.write_dataset(
        rows({-1: 0}), uri, stable_row_ids=True, properties={"first": "row"}
    )
    dataset = await dataset.create_scalar_index("id", "BTREE")
    dataset = await dataset.create_scalar_index("text", "INVERTED")
    dataset = await dataset.update_config(POLICY.to_config())
    run_all(tmp_path, operations, seconds, max(kills, int(seconds / 20)))

    # Each acknowledged change is there once, and was told once, in the order of its key.
    changes = {-1: [0], **written(tmp_path)}
    dataset = await alance.dataset(uri)
    await dataset.validate()
    expected = sorted((key, numbers[-1]) for key, numbers in changes.items())
    for table in (await dataset.to_table(), lance.dataset(uri).to_table()):
        columns = (table[name].to_pylist() for name in ("id", "change"))
        assert sorted(zip(*columns, strict=True)) == expected
    for number in range(READERS):
        assert changes_read(tmp_path / f"reader{number}.read") == (changes, set())

    # The table is in order after a run of maintenance that nobody kills.
    while any(step.outcome != "done" for step in (await dataset.maintain()).steps):
        pass
    dataset = await dataset.checkout_latest()
    health = await dataset.health()
    assert (await dataset.maintain(dry_run=True)).steps == ()
    for index in health.indices:
        assert index.num_unindexed_rows <= (POLICY.max_unindexed_rows or 0)
        assert index.num_segments <= (POLICY.max_index_segments or 0)
    assert health.num_versions < RETAINED + POLICY.min_old_versions + 10
    key = expected[-1][0]
    assert (await dataset.to_table(["id"], filter=f"id = {key}"))["id"].to_pylist() == [key]

    # What killed replicas left goes with the next cleanup after a week.
    grow_old(tmp_path / "table")
    for number in range(POLICY.min_old_versions):
        dataset = await dataset.update_config({"number": str(number)})
    assert "cleanup" in [step.kind for step in (await dataset.maintain()).steps]
    grow_old(tmp_path / "table")
    stats = lance.dataset(uri).cleanup_old_versions(
        timedelta(days=9999), delete_unverified=True, error_if_tagged_old_versions=False
    )
    assert (stats.old_versions, stats.bytes_removed) == (0, 0)
