from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from alance.testing.lab import Lab

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def server() -> Iterator[Lab]:
    with Lab() as lab:
        yield lab


@pytest.fixture
def lab(server: Lab) -> Iterator[Lab]:
    """The lab's server, with fine weather before and after the test."""
    server.calm()
    yield server
    server.calm()
