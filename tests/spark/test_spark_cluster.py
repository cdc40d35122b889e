"""A cluster of processes: executors without alance, and killed ones and drivers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pytest

import alance.spark
from alance import sync
from tests.spark.cluster import ARCHIVE, JOB_S, cluster, environment, packed
from tests.spark.cluster_driver import ROWS, items
from tests.spark.spark_cases import ids_of

pytestmark = pytest.mark.timeout(2 * JOB_S)


@dataclass(frozen=True)
class Run:
    """Result of a driver on a cluster.

    Attributes:
        seen: results that the driver wrote before it died.
        lake: folder of the driver's tables.
    """

    seen: dict[str, Any]
    lake: Path


def driven(folder: Path, *what: str) -> subprocess.CompletedProcess[str]:
    """A driver on a cluster, at its end."""
    with cluster(folder) as master:
        arguments = [master, packed(folder), str(folder), *what]
        # The Python of the executors, which has no alance, is that of the driver's JVM, too.
        python, packages = str(folder / "python3"), str(folder / "packages")
        return subprocess.run(
            [sys.executable, "-m", "tests.spark.cluster_driver", *arguments],
            env=environment(PYSPARK_PYTHON=python, PYTHONPATH=packages),
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            timeout=JOB_S,
        )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One driver does all, as each start costs seconds, and dies."""
    folder = tmp_path_factory.mktemp("cluster")
    done = driven(folder)
    assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr[-6000:]
    assert (folder / "in last write").exists()
    return Run(json.loads((folder / "seen.json").read_text()), folder / "lake")


def expected_ids() -> list[int]:
    """Return the ids of `items` after a DELETE and a MERGE."""
    last = [*range(ROWS - 10, ROWS + 10)]
    return sorted({number for number in range(ROWS) if number % 10 != 1} | set(last))


def test_executors_have_alance_by_an_archive(run):
    assert all(f"/{ARCHIVE}/alance/" in path for path in run.seen["paths"])


def test_executors_read_columns_and_rows_that_the_planner_asks_for(run):
    assert run.seen["count"] == ROWS
    assert run.seen["filtered"] == len([number for number in range(ROWS) if number % 7 == 3])
    assert "text" not in run.seen["scan"]


def test_tables_of_sql_are_changed_on_the_executors(run):
    table = lance.dataset(str(run.lake / "items.lance"))
    assert ids_of(table.uri) == expected_ids()
    rows = {row["id"]: row for row in table.to_table().to_pylist()}
    updated = {number for number, row in rows.items() if row["text"].startswith("x")}
    assert updated == {number for number in range(ROWS) if number % 10 == 2}
    moved = {number: row["k"] for number, row in rows.items() if row["k"] >= 100}
    new = {ROWS - 9, *range(ROWS, ROWS + 10)}  # the first was deleted before
    assert moved == {n: 200 if n in new else 100 for n in range(ROWS - 10, ROWS + 10)}


def test_a_job_spreads_its_tasks_over_the_executors(run):
    assert run.seen["indexed"]["tasks"] >= 4
    scanner = sync.dataset(str(run.lake / "items.lance")).scanner(filter="k = 200")
    assert "index k_idx" in str(scanner.explain())
    assert scanner.to_table().num_rows == 11


def test_an_executor_killed_while_it_reads_and_writes_loses_and_repeats_no_row(run):
    assert (run.lake.parent / "killed").exists()
    table = lance.dataset(str(run.lake / "killed.lance"))
    assert ids_of(table.uri) == expected_ids()
    assert table.version == 1


def test_a_driver_killed_in_a_write_leaves_the_table_as_it_was(run, spark):
    """The write is done again, and what the dead one has left goes with a cleanup."""
    uri = str(run.lake / "kept.lance")
    assert (ids_of(uri), lance.dataset(uri).version) == (list(range(10)), 1)
    alance.spark.write(items(spark), uri, mode="append")
    assert ids_of(uri) == sorted([*range(10), *range(ROWS)])
    sync.dataset(uri).cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    table = lance.dataset(uri)
    files = {file.path for part in table.get_fragments() for file in part.metadata.files}
    assert {path.name for path in (Path(uri) / "data").iterdir()} == files
    assert len(ids_of(uri)) == ROWS + 10


@pytest.mark.soak
def test_streams_and_many_killed_executors_on_a_cluster(tmp_path):
    """A stream goes on behind a killed executor; a write of which each task kills one is whole."""
    done = driven(tmp_path, "long")
    assert done.returncode == 0, done.stdout + done.stderr[-6000:]
    for name in ("copy", "killed"):
        assert ids_of(str(tmp_path / "lake" / f"{name}.lance")) == list(range(ROWS))
