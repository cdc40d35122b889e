"""Tables on each kind of store, with a committer's parts."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from alance.io.caches.cache import SearchCache
from alance.io.opening.registry import StoreRegistry
from alance.io.reading.engine import Engine
from alance.io.reading.pool import DecodePool
from alance.io.reading.scheduler import Scheduler
from alance.versioning.commit import PendingCommit, commit
from alance.versioning.load import load_latest
from alance.versioning.manifest_store import ConditionalManifests
from alance.versioning.settle import Patience
from alance.versioning.table import Table, open_table
from tests.simulation.append_rules import AppendRules, append, paths_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from alance.format.table.manifest import Manifest
    from alance.testing.lab import Lab
    from alance.versioning.manifest_store import ManifestStore

_numbers = itertools.count(1)
QUICK = Patience(limit_s=5.0, first_pause_s=0.005, max_pause_s=0.05)


@dataclass
class Committer:
    """State of one committing process: its engine, its table and the table's manifests."""

    engine: Engine
    table: Table
    patience: Patience = QUICK
    manifests: ManifestStore | None = None

    @classmethod
    def of(cls, uri: str | Path, **options: Any) -> Committer:
        registry = StoreRegistry()
        scheduler = Scheduler(registry)
        engine = Engine(registry, scheduler, SearchCache(1 << 20), DecodePool(1))
        return cls(engine, open_table(registry, uri, **options))

    def store(self) -> ManifestStore:
        if self.manifests is not None:
            return self.manifests
        return ConditionalManifests(self.engine, self.table, patience=self.patience)

    async def create(self) -> Manifest:
        return await self.commit(None)

    async def commit(self, base: Manifest | None, *paths: str, **more: Any) -> Manifest:
        transaction = append(0 if base is None else base.version, paths)
        return await self.run(base, transaction, **more)

    async def run(self, base: Manifest | None, transaction: Any, **more: Any) -> Manifest:
        pending = PendingCommit(
            table=self.table,
            transaction=transaction,
            base=base,
            rules=AppendRules(),
            manifests=self.store(),
            **more,
        )
        return await commit(self.engine, pending)

    async def latest(self) -> Manifest:
        return await load_latest(self.engine, self.table)

    async def paths(self) -> list[str]:
        return paths_of(await self.latest())

    async def aclose(self) -> None:
        await self.engine.scheduler.aclose()
        await self.engine.pool.aclose()


def remote_uri(lab: Lab, kind: str, **more: Any) -> tuple[str, dict[str, Any]]:
    """A new folder in the lab, and the options to reach it."""
    quick = {"client_max_retries": 0, **more}
    if kind == "s3":
        return f"s3://lab/commits-{next(_numbers)}", {**lab.lance_options(), **quick}
    return f"gs://lab/commits-{next(_numbers)}", {**lab.gcs_options(), **quick}


@pytest.fixture(params=["memory", "local", "s3", "gcs"])
async def committer(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Committer]:
    """A committer of a table that is not there yet, on each kind of store."""
    if request.param == "memory":
        built = Committer.of(f"memory://commits{next(_numbers)}/table")
    elif request.param == "local":
        built = Committer.of(tmp_path / "table")
    else:
        uri, options = remote_uri(request.getfixturevalue("lab"), request.param)
        built = Committer.of(uri, storage_options=options)
    yield built
    await built.aclose()
