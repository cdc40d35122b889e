"""Without the packages of Delta and Iceberg the tests of this folder do not run."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.suites import LAKE_PACKAGES

HERE = Path(__file__).parent
MISSING = [name for name in LAKE_PACKAGES if importlib.util.find_spec(name) is None]
collect_ignore_glob = ["test_*.py"] if MISSING else []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.lakes)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if MISSING:
        terminalreporter.section("Delta and Iceberg")
        terminalreporter.line(f"Their tests did not run: no {', '.join(MISSING)}")
