"""Without PyTorch the tests of this folder do not run."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

import alance.sync

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
REASON = None if importlib.util.find_spec("torch") else "no torch: the extra `torch` has it"
collect_ignore_glob = ["test_*.py"] if REASON else []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.torch)
            # Of workers: this process has threads, and imports pylance.
            item.add_marker(pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore:lance is not fork-safe"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if REASON:
        terminalreporter.section("PyTorch")
        terminalreporter.line(f"The tests of alance.torch did not run: {REASON}")


def rows(num_rows: int) -> pa.Table:
    """`id` counts from 0, the others follow from it."""
    ids = np.arange(num_rows)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(ids.repeat(4).astype(np.float32)), 4)
    texts = [f"text {number}" for number in ids]
    return pa.table({"id": ids, "label": (ids % 10).astype(np.int32), "v": vectors, "text": texts})


@pytest.fixture
def table(tmp_path: Path) -> Callable[[int], str]:
    """Writes a table of so many rows, in files of 40; gives its path."""

    def write(num_rows: int) -> str:
        uri = str(tmp_path / f"{num_rows}.lance")
        alance.sync.write_dataset(rows(num_rows), uri, max_rows_per_file=40)
        return uri

    return write
