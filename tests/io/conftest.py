"""Stores to test against: memory, local files, and servers of the lab."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from obstore import store as obstore_stores

from alance.io.opening.registry import StoreRegistry
from alance.io.reading.scheduler import Scheduler
from tests.io.slow_store import Registry, Slow

if TYPE_CHECKING:
    from pathlib import Path

    from alance.io.stores.store import Store
    from alance.testing.lab import Lab

_numbers = itertools.count(1)


@dataclass
class Place:
    """A store and an empty folder in it."""

    store: Store
    folder: str

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}"


def lab_options(lab: Lab, **more: object) -> dict[str, object]:
    """Storage options for the lab, without obstore's own retries."""
    return {**lab.lance_options(), "client_max_retries": 0, **more}


@pytest.fixture
def bucket(lab: Lab) -> Place:
    """A folder in the lab's bucket."""
    store, folder = StoreRegistry().open(
        f"s3://lab/io-{next(_numbers)}", storage_options=lab_options(lab)
    )
    return Place(store, folder)


@pytest.fixture(params=["memory", "local", "s3", "gcs", "obstore-memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A folder in each kind of store."""
    registry = StoreRegistry()
    match request.param:
        case "memory":
            return Place(*registry.open("memory://tests/a folder"))
        case "local":
            return Place(*registry.open(tmp_path / "a folder"))
        case "s3":
            bucket: Place = request.getfixturevalue("bucket")
            return bucket
        case "gcs":
            gcs: Lab = request.getfixturevalue("lab")
            uri = f"gs://lab/gcs-{next(_numbers)}"
            return Place(*registry.open(uri, storage_options=gcs.gcs_options()))
        case _:
            arguments = obstore_stores.MemoryStore()
            return Place(*registry.open("a folder", store=arguments))


@pytest.fixture
def store() -> Slow:
    """A store of the test's own, whose answers land when the test says so."""
    return Slow()


@pytest.fixture
def scheduler(store: Slow) -> Scheduler:
    """A scheduler of the slow store."""
    return Scheduler(Registry(store), io_buffer_bytes=1 << 20)  # type: ignore[arg-type]
