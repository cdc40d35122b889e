"""Runs what `make test` runs, and ends with what ran and what did not.

    python -m tests.suites

All suites run, beside each other: much of their time is waiting for a server, or for a limit of
time. What the first says is seen at once, that of the others when it has ended. The exit code is
that of the first that failed.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree

from alance.spark.java import MISSING, find_java

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Suite:
    """Tests that are run together.

    Attributes:
        arguments: of pytest.
        command: what runs these tests alone.
        absent: why they do not run now; None: they do.
    """

    name: str
    command: str
    arguments: tuple[str, ...] = ()
    absent: str | None = None


# A file is run by one process; long files come first (`tests/conftest.py`).
THREE: Final = ("-n", "3", "--dist", "loadfile", "--no-loadscope-reorder")
LAKE_PACKAGES: Final = ("deltalake", "pyiceberg", "sqlalchemy")
FAST: Final = (
    "not soak and not browser and not azure and not ray and not torch and not frames and not spark"
    " and not lakes"
)


def suites() -> list[Suite]:
    """Return the suites of the project, with the reason for each that cannot run here."""
    no_spark = "no PySpark" if importlib.util.find_spec("pyspark") is None else None
    no_spark = MISSING if find_java() is None else no_spark
    no_lakes = (
        None if all(map(importlib.util.find_spec, LAKE_PACKAGES)) else "no deltalake, pyiceberg"
    )
    return [
        # Three processes keep two processors busy; each takes some 700 MB.
        Suite("most", "make test", (*THREE, "-m", FAST)),
        Suite("Spark", "make test-spark", ("-m", "spark and not soak", "tests/spark"), no_spark),
        Suite(
            "browser",
            "make test-browser",
            absent="the page of a trace in a real browser: needs a Chromium",
        ),
        Suite("Azure", "make test-azure", absent="Azurite, an emulator: needs node and npm"),
        Suite("Delta, Iceberg", "make test-lakes", ("-m", "lakes", "tests/lakes"), no_lakes),
        Suite("Ray", "make test-ray", absent="Ray is large, and starts a cluster"),
        Suite("Dask, Daft", "make test-frames", absent="Dask and Daft start clusters"),
        Suite("PyTorch", "make test-torch", absent="PyTorch is large"),
        Suite("soak", "make soak, make fuzz", absent="long runs"),
    ]


def run(expected: Sequence[Suite]) -> int:
    """Run the suites, then print a line of each; the exit code of the first that failed, or 0."""
    present = [suite for suite in expected if suite.absent is None]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as processes:
        environment = {**os.environ, **compiled_below(Path(folder, "compiled"))}
        begun = []
        for number, suite in enumerate(present):
            results = Path(folder, f"{number}.xml")
            command = [sys.executable, "-m", "pytest", *suite.arguments, f"--junitxml={results}"]
            message = processes.enter_context(Path(folder, f"{number}.txt").open("w+"))
            output = None if number == 0 else message
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
            begun.append((suite, processes.enter_context(process), message, results))
        codes, ran = [], []
        for suite, process, message, results in begun:
            codes.append(process.wait())
            message.seek(0)
            shutil.copyfileobj(message, sys.stdout)
            ran.append(f"  {suite.name:<8} {counts(results)} (exit code {codes[-1]})")
    absent = [f"  {each.name:<8} {each.command}: {each.absent}" for each in expected if each.absent]
    print("\nWhat ran:", *ran, sep="\n")
    print("What did not run:", *absent, sep="\n", flush=True)
    return next((code for code in codes if code), 0)


def compiled_below(folder: Path) -> dict[str, str]:
    """Variables with which Python keeps compiled modules, if need be in this folder for one run.

    The tests start hundreds of interpreters. Where `PYTHONDONTWRITEBYTECODE` is set, as in many
    images, each would compile all of alance, and pytest all tests: a tenth of the whole run.
    """
    if not os.environ.get("PYTHONDONTWRITEBYTECODE"):
        return {}
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder)}


def counts(results: Path) -> str:
    """Return the numbers of passed, failed and skipped tests in pytest's results, and the time."""
    if not results.exists():
        return "pytest ended without results"
    total: Counter[str] = Counter()
    seconds = 0.0
    for suite in ElementTree.parse(results).iter("testsuite"):
        total.update({name: int(suite.get(name, 0)) for name in ("tests", *NOT_PASSED)})
        seconds += float(suite.get("time", 0))
    passed = total["tests"] - sum(total[name] for name in NOT_PASSED)
    message = [f"{passed} passed", f"{total['failures']} failed", f"{total['skipped']} skipped"]
    if total["errors"]:
        message.append(f"{total['errors']} errors")
    return f"{', '.join(message)} in {seconds:.0f} s"


NOT_PASSED: Final = ("failures", "errors", "skipped")


if __name__ == "__main__":
    raise SystemExit(run(suites()))
