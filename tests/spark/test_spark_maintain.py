"""Maintenance as a job: its steps are tasks of executors, and the driver commits them."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from alance import InvalidInputError, MaintenancePolicy
from alance import sync as alance
from alance.spark import jobs
from alance.spark.__main__ import main

FEW = MaintenancePolicy(
    min_small_fragments=4, target_rows_per_fragment=30, older_than=timedelta(0), min_old_versions=8
)


def rows(start: int, stop: int) -> pa.Table:
    ids = range(start, stop)
    return pa.table({"id": ids, "kind": [n % 7 for n in ids], "text": [f"word{n}" for n in ids]})


@pytest.fixture
def uri(tmp_path) -> str:
    """Twelve fragments of ten rows, of which three indices cover the first."""
    uri = str(tmp_path / "table")
    dataset = alance.write_dataset(rows(0, 10), uri)
    dataset = dataset.create_scalar_index("id", "BTREE")
    dataset = dataset.create_scalar_index("kind", "BITMAP")
    dataset = dataset.create_scalar_index("text", "INVERTED")
    for start in range(10, 120, 10):
        dataset = dataset.insert(rows(start, start + 10))
    return uri


def test_steps_run_as_tasks_and_the_driver_commits_them(spark, uri):
    seen = []
    planned = jobs.maintain(spark, uri, policy=FEW, dry_run=True)
    assert (planned.counts, planned.version) == ({"planned": 4, "tasks": 0}, 15)
    done = jobs.maintain(spark, uri, policy=FEW, on_progress=seen.append)
    # Three groups of fragments, then the three indices by one Spark job.
    assert done.counts == {"done": 5, "tasks": 6}
    assert done.lines[0].startswith("done        compact: 12 small fragments can be joined")
    assert (seen[-1].done, seen[-1].total) == (6, 6)
    dataset = alance.dataset(uri)
    assert dataset.version == done.version
    health = dataset.health()
    assert (health.num_fragments, health.num_versions) == (4, 10)
    assert [index.num_unindexed_rows for index in health.indices] == [0, 0, 0]
    assert health.last_run.steps[0] == "compact"
    dataset.validate()
    assert dataset.search_text("word115", columns=["id"])["id"].to_pylist() == [115]
    peer = lance.dataset(uri)
    assert sorted(peer.to_table()["id"].to_pylist()) == list(range(120))
    assert peer.to_table(filter="id = 77")["kind"].to_pylist() == [0]
    assert jobs.maintain(spark, uri, policy=FEW).counts == {"tasks": 0}


def test_a_run_keeps_to_the_budget_and_the_rules_of_the_table(spark, uri):
    alance.dataset(uri).update_config(FEW.to_config())
    done = jobs.maintain(spark, uri, policy={"max_requests": "25", "older_than": "off"})
    assert done.counts["over_budget"] >= 1
    assert len(lance.dataset(uri).get_fragments()) == 4
    with pytest.raises(InvalidInputError, match=r"min_small_fragments='few'"):
        jobs.maintain(spark, uri, policy={"min_small_fragments": "few"})


def test_a_broken_index_fails_alone(spark, uri, capsys):
    for path in Path(uri, "_indices").glob("*/metadata.lance"):
        path.write_bytes(b"nothing")
    rules = ["--rule", "min_small_fragments=off", "--rule", "older_than=off"]
    assert main(["maintain", uri, "--json", "--quiet", *rules]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["counts"] == {"done": 2, "failed": 1, "tasks": 3}
    health = alance.dataset(uri).health()
    assert [index.num_unindexed_rows for index in health.indices] == [0, 0, 110]
