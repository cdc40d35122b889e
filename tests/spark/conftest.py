"""One Spark session for all tests of this folder; without Java or PySpark they do not run."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from alance.spark.java import MISSING, find_java
from tests.spark.cluster import SMALL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
TEST_S = 3600  # seconds; a session takes some to begin, and minutes where many want the processors
REASON = None
if importlib.util.find_spec("pyspark") is None:
    REASON = "no pyspark: the extra `spark` has it"
elif find_java() is None:
    REASON = MISSING
collect_ignore_glob = ["test_*.py"] if REASON else []
# Of each JVM that these tests start by `spark-submit`, as PySpark does: what they run is short, and
# the second compiler takes more time than it saves.
os.environ.setdefault("SPARK_SUBMIT_OPTS", SMALL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(TEST_S))
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
    from tests.spark.cluster import PATIENT

    folder = tmp_path_factory.mktemp("spark")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
    result = session(
        "alance tests",
        master="local[2,2]",
        conf={
            **PATIENT,
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
    result.sparkContext.setLogLevel("OFF")
    yield result
    result.stop()


@pytest.fixture(autouse=True)
def leaves_nothing(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that fails or ends early leaves no query, no view and no setting to later ones."""
    if "spark" not in request.fixturenames:
        yield
        return
    spark: SparkSession = request.getfixturevalue("spark")
    before = spark.conf.getAll
    yield
    for query in spark.streams.active:
        query.stop()
    spark._jsparkSession.sessionState().catalog().clearTempTables()
    for name in spark.conf.getAll.keys() - before.keys():
        spark.conf.unset(name)
    for name, value in before.items():
        if spark.conf.get(name) != value:
            spark.conf.set(name, value)
