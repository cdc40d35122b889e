"""A folder as alance and as pylance's directory namespace have it, and pylance's server over it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from lance.namespace import DirectoryNamespace, RestAdapter

import alance

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from alance import Catalog


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "catalog")


@pytest.fixture
def theirs(root: str) -> DirectoryNamespace:
    return DirectoryNamespace(root=root)


@pytest.fixture
def server(root: str) -> Iterator[str]:
    """Its URI."""
    with RestAdapter("dir", {"root": root}, port=0) as adapter:
        yield f"http://127.0.0.1:{adapter.port}"


@pytest.fixture(params=["folder", "client", "server"])
async def catalog(
    request: pytest.FixtureRequest, root: str, theirs: DirectoryNamespace, server: str
) -> Catalog:
    """The folder by each of its three doors."""
    kinds = {"folder": root, "client": theirs, "server": server}
    return await alance.connect(kinds[request.param])
