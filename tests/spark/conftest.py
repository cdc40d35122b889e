"""One Spark session for all tests of this folder; without Java or PySpark they do not run."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from alance.spark.java import MISSING, find_java

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
REASON = None
if importlib.util.find_spec("pyspark") is None:
    REASON = "no pyspark; install alance[spark]"
elif find_java() is None:
    REASON = MISSING
collect_ignore_glob = ["test_*.py"] if REASON else []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            # Sockets of py4j are closed by its own threads, some after the test that opened them.
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(
                pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
            )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if REASON:
        terminalreporter.section("Spark")
        terminalreporter.line(f"The Spark tests did not run: {REASON}")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores; a task may fail once."""
    from alance.spark.session import session

    folder = tmp_path_factory.mktemp("spark")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
    made = session(
        "alance tests",
        master="local[2,2]",
        conf={
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
            "spark.sql.session.timeZone": "America/New_York",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.local.dir": str(folder / "local"),
        },
        warehouse=str(folder / "lake"),
    )
    made.sparkContext.setLogLevel("OFF")
    yield made
    made.stop()
