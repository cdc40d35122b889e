"""What several parts of the suite use: a lab server, and the golden table on it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from alance.testing.lab import Lab

if TYPE_CHECKING:
    from collections.abc import Iterator

settings.register_profile("soak", max_examples=20_000, deadline=None)

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of golden tables."""
    return GOLDEN


@pytest.fixture(scope="session")
def lab_server() -> Iterator[Lab]:
    """One lab server for the whole process: each test gives its tables names of their own."""
    with Lab() as lab:
        yield lab


@pytest.fixture
def lab(lab_server: Lab) -> Iterator[Lab]:
    """The lab server, with fine weather before and after the test."""
    lab_server.calm()
    yield lab_server
    lab_server.calm()


@pytest.fixture(scope="session")
def _lineitem(lab_server: Lab) -> None:
    shutil.copytree(GOLDEN / "lineitem.lance", Path(lab_server.root) / "lab" / "lineitem.lance")
    lab_server.rescan()


@pytest.fixture
def lineitem_lab(lab: Lab, _lineitem: None) -> Lab:
    """The lab server, with `s3://lab/lineitem.lance`."""
    return lab
