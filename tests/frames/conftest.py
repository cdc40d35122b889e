"""Without Dask and Daft the tests of this folder do not run."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ABSENT = [name for name in ("distributed", "daft") if importlib.util.find_spec(name) is None]
REASON = f"no {' and no '.join(ABSENT)}: the group `frames` has it" if ABSENT else None
collect_ignore_glob = ["test_*.py"] if REASON else []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.frames)
            item.add_marker(pytest.mark.filterwarnings("ignore"))  # those of the engines


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if REASON:
        terminalreporter.section("Dask and Daft")
        terminalreporter.line(f"The tests of their pages did not run: {REASON}")
