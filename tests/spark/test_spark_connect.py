"""Spark Connect: what a client does on a server whose connector is given by `--jars`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import lance
import pytest

from tests.spark.cluster import JOB_S, connect_server, environment

pytestmark = pytest.mark.timeout(2 * JOB_S)


def done_by_client(folder: Path, *what: str, has_connector: bool = True) -> dict[str, Any]:
    """Return the results of a client, with its log under `log`."""
    with connect_server(folder, has_connector=has_connector) as url:
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.connect_client", str(folder), *what],
            env=environment(SPARK_REMOTE=url),
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            timeout=JOB_S,
        )
    assert done.returncode == 0, done.stdout + done.stderr[-6000:]
    seen: dict[str, Any] = json.loads((folder / "seen.json").read_text())
    return {**seen, "log": done.stderr}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One client does all, as each start costs seconds."""
    return done_by_client(tmp_path_factory.mktemp("connect"))


def test_tables_are_read_by_the_connector_and_written_by_path(seen):
    assert "pushed filters: [k IS NOT NULL, k = 2]" in seen["plan"]
    assert seen["read"] == sorted([2, *range(2, 100, 5)])
    assert seen["mapped"] == 105


def test_tables_of_sql_are_changed_and_asked(seen):
    assert seen["changed"] == {"9": 10, "50": 4, "60": 6}
    assert (seen["old"], seen["versions"]) == (100, 5)


def test_searches_know_the_warehouse_of_the_client(seen):
    assert seen["nearest"] == [1, 3]


def test_jobs_run_from_the_client(seen):
    assert seen["jobs"] == [10, 105]
    assert seen["progress"][0] == "commit"
    assert seen["progress"][1] == seen["progress"][2]
    assert seen["parallelism"] == 2


def test_a_server_without_the_connector_has_tables_by_their_paths(tmp_path):
    seen = done_by_client(tmp_path, "paths", has_connector=False)
    assert "pushed filters" not in seen["plan"]
    assert seen["read"] == sorted([2, *range(2, 100, 5)])
    assert (seen["mapped"], seen["jobs"], seen["parallelism"]) == (105, [10, 105], 2)
    assert "NOT_FOUND" in seen["no catalog"]
    assert "start it with --jars" in seen["log"]


def test_errors_say_what_and_where_in_their_first_line(seen):
    assert "TableNotFoundError" in seen["no table"]
    assert "plain.lance-" in seen["no table"]
    assert "ColumnNotFoundError: column 'x'" in seen["no column"]


@pytest.mark.soak
def test_streams_run_on_the_server(tmp_path):
    seen = done_by_client(tmp_path, "streams")
    assert seen["copied"] == list(range(105))
    assert seen["each"] == 105
    lance.dataset(str(tmp_path / "lake" / "copy.lance")).validate()
