"""Without Ray the tests of this folder do not run."""

from __future__ import annotations

import importlib.util
import os
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

import alance.sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parent
REASON = None if importlib.util.find_spec("ray") else "no ray: the extra `ray` has it"
collect_ignore_glob = ["test_*.py"] if REASON else []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.ray)
            # Ray's own: its files, processes, and calls of old names of pandas and numpy.
            item.add_marker(pytest.mark.filterwarnings("ignore"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if REASON:
        terminalreporter.section("Ray")
        terminalreporter.line(f"The tests of alance.ray did not run: {REASON}")


@pytest.fixture(scope="session", autouse=True)
def cluster() -> Iterator[None]:
    """Two processors on this machine, without a dashboard or an access token."""
    os.environ["RAY_AUTH_MODE"] = "disabled"
    import ray

    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=200 << 20,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": str(HERE.parents[1])}},
    )
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    yield
    ray.shutdown()


def rows(num_rows: int) -> pa.Table:
    """`id` counts from 0, the others follow from it."""
    ids = np.arange(num_rows)
    numbers = range(num_rows)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(ids.repeat(4).astype(np.float32)), 4)
    large = [None if n % 3 == 0 else f"text {n}" for n in numbers]
    nested = [None if n % 5 == 0 else {"a": n, "b": [str(n), None]} for n in numbers]
    return pa.table(
        {
            "id": ids,
            "v": vectors,
            "large": pa.array(large, pa.large_string()),
            "kind": pa.array(["abc"[n % 3] for n in numbers], pa.string()).dictionary_encode(),
            "nested": pa.array(
                nested, pa.struct([("a", pa.int32()), ("b", pa.large_list(pa.string()))])
            ),
            "price": pa.array([Decimal(n) / 4 for n in numbers], pa.decimal128(12, 2)),
            "at": pa.array(ids * 1000, pa.timestamp("us", "UTC")),
            "day": pa.array(ids, pa.int32()).cast(pa.date32()),
            "none": pa.nulls(num_rows, pa.float16()),
        }
    )


@pytest.fixture
def table(tmp_path: Path) -> Callable[[int], str]:
    """Writes a table of so many rows, in files of 2,000; gives its path."""

    def write(num_rows: int) -> str:
        uri = str(tmp_path / f"{num_rows}.lance")
        alance.sync.write_dataset(rows(num_rows), uri, max_rows_per_file=2000)
        return uri

    return write
