"""Fixtures of several folders: a lab server, and the golden table on it."""

from __future__ import annotations

import gc
import os
import resource
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from alance.testing.lab import Lab

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

# What a test tells is not to depend on the machine: no limits of time, and in `make test` the same
# examples each time. `make soak` and `make fuzz` try others; a failure prints how to have it again.
_CALM = settings(deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("repeatable", _CALM, derandomize=True, max_examples=40)
settings.register_profile("random", _CALM, print_blob=True)
settings.register_profile("soak", _CALM, print_blob=True, max_examples=20_000)
settings.load_profile("repeatable")

# Files that take long, the longest first: a process that begins such a file at the end of a run has
# no others to share the processors with. All others follow in the order of their names.
LONG = (
    "lifecycle/test_exit.py",
    "test_first_day.py",
    "test_first_use.py",
    "test_examples.py",
    "parity/test_matrix.py",
    "interop/test_fields_of_kernel.py",
    "versioning/test_fault_matrix.py",
    "versioning/test_dynamodb_crashes.py",
    "versioning/test_simulation.py",
    "service/test_service.py",
    "faults/test_killed.py",
    "io/test_upload_faults.py",
    "io/test_time_limits.py",
    "upkeep/test_maintain.py",
    "upkeep/test_killed_upkeep.py",
    "upkeep/test_soak.py",
    "parity/test_reads.py",
    "parity/test_damaged.py",
    "table/test_float_order.py",
    "test_names.py",
    "stateful/test_machine.py",
    "stateful/test_in_place_machine.py",
    "changing/test_conflicts_for_real.py",
    "service/test_json_types.py",
    "text/test_text_search.py",
    "text/test_text_memory.py",
    "search/test_search_requests.py",
)
SPARE_BYTES = 1 << 30  # of addresses, that tests with little memory may reserve
GOLDEN = Path(__file__).parent / "golden"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests stay to the end, so the garbage collector does not look at them again."""
    gc.disable()
    result = yield
    gc.enable()
    gc.collect()
    gc.freeze()
    return result


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files come first; with `--no-loadscope-reorder`, xdist gives files out in this order."""
    places = {Path(__file__).parent / name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path, len(LONG)))


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of golden tables."""
    return GOLDEN


@pytest.fixture
def little_memory() -> Iterator[None]:
    """No more addresses than are in use, and some: memory for what a number claims is an error."""
    if "ASAN_OPTIONS" in os.environ:  # which reserve all addresses, and have a limit of their own
        yield
        return
    with open("/proc/self/statm") as statm:
        pages = int(statm.read().split()[0])
    limits = resource.getrlimit(resource.RLIMIT_AS)
    limit = pages * resource.getpagesize() + SPARE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.fixture(scope="session")
def lab_server() -> Iterator[Lab]:
    """One lab server for the whole process: each test gives its tables names of their own."""
    with Lab() as lab:
        yield lab


@pytest.fixture
def lab(lab_server: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """The lab server, with fine weather before and after the test.

    How fast it is depends on the machine's other work, so takes do not learn it: what they read is
    the same each time.
    """
    lab_server.calm()
    monkeypatch.setattr("alance.io.reading.speed.BURST_BYTES", 1 << 60)
    yield lab_server
    lab_server.calm()


@pytest.fixture
def far(lab: Lab) -> None:
    """The lab server is 20 ms away."""
    lab.config(latency_ms=20)


@pytest.fixture(scope="session")
def _lineitem(lab_server: Lab) -> None:
    shutil.copytree(GOLDEN / "lineitem.lance", Path(lab_server.root) / "lab" / "lineitem.lance")
    lab_server.rescan()


@pytest.fixture
def lineitem_lab(lab: Lab, _lineitem: None) -> Lab:
    """The lab server, with `s3://lab/lineitem.lance`."""
    return lab
