"""What several parts of the suite use: the golden table on a lab server."""

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
def _lineitem_server() -> Iterator[Lab]:
    with Lab() as lab:
        shutil.copytree(GOLDEN / "lineitem.lance", Path(lab.root) / "lab" / "lineitem.lance")
        lab.rescan()
        yield lab


@pytest.fixture
def lineitem_lab(_lineitem_server: Lab) -> Iterator[Lab]:
    """A lab server with `s3://lab/lineitem.lance`, calm before and after the test."""
    _lineitem_server.calm()
    yield _lineitem_server
    _lineitem_server.calm()
