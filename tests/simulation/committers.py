"""Committers over a store that fails, in virtual time: one seed, one story, the same each time.

Each process commits a few appends. Requests are lost, late, sent twice or refused; commits are
cancelled; processes crash between any two requests and are started again, with the transaction
that they were at. At the end the table must hold what the processes were told, once.

    for seed in range(1000):
        simulate(seed)          # raises SimulationError, which names the seed
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from alance.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    NotFoundError,
    StoreError,
)
from alance.format.table.manifest import Manifest, parse_manifest
from alance.io.caches.cache import SearchCache
from alance.io.opening.access import Access
from alance.io.reading.engine import Engine
from alance.io.reading.pool import DecodePool
from alance.io.reading.scheduler import Scheduler
from alance.io.stores.profile import GCS
from alance.versioning.backoff import Backoff
from alance.versioning.commit import PendingCommit, commit
from alance.versioning.external_store import ExternalManifests
from alance.versioning.load import load_latest
from alance.versioning.manifest_store import ConditionalManifests, transaction_uuid_of
from alance.versioning.settle import Patience
from alance.versioning.table import Table
from tests.reference.manifest_names import attached
from tests.simulation.append_rules import AppendRules, append, paths_of
from tests.simulation.model_rows import ModelRows
from tests.simulation.model_store import Faults, Model, ModelClient
from tests.simulation.settings import Settings
from tests.simulation.virtual_time import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.format.table.transaction import Transaction
    from alance.io.opening.registry import StoreRegistry
    from alance.versioning.manifest_store import ManifestStore

FOLDER: Final = "table"
Make: TypeAlias = "Callable[[Engine, Table, Play], ManifestStore]"


class SimulationError(AssertionError):
    """The table is not what the processes were told."""


@dataclass(slots=True)
class Story:
    """The processes' knowledge at the end.

    Attributes:
        committed: by uuid, the version of each transaction that its process was told is committed.
        failed: uuids of the transactions that failed, as their processes were told.
        open: uuids of the transactions of which nothing is known.
        paths: the path that each transaction adds.
    """

    committed: dict[str, int] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    open: set[str] = field(default_factory=set)
    paths: dict[str, str] = field(default_factory=dict)
    crashes: int = 0
    cancelled: int = 0
    unknown: int = 0


@dataclass(slots=True)
class _Registry:
    """Knows one store."""

    store: ModelClient

    def resolve(self, location: str) -> tuple[ModelClient, str]:
        return self.store, location[len(self.store.root) :]


def simulate(
    seed: int,
    settings: Settings | None = None,
    manifests: Make | None = None,
) -> Story:
    """Play one story, and check its end.

    Args:
        manifests: how versions are made; None: by conditional puts.

    Raises:
        SimulationError: with the seed and what is wrong.
    """
    dice = random.Random(seed)
    drawn = settings or Settings.drawn(dice)
    play = Play(dice, drawn, manifests or conditional)
    try:
        run(play.run())
    except AssertionError as error:
        raise SimulationError(f"seed {seed}, {drawn}: {error}") from error
    return play.story


def _patience(dice: random.Random) -> Patience:
    return Patience(limit_s=dice.choice([0.5, 30.0]), uniform=dice.uniform)


def conditional(engine: Engine, table: Table, play: Play) -> ManifestStore:
    """Versions by conditional puts."""
    scheme, patience = play.settings.scheme, _patience(play.dice)
    return ConditionalManifests(engine, table, scheme=scheme, patience=patience)


def external(engine: Engine, table: Table, play: Play) -> ManifestStore:
    """Versions by an external store, which fails as the store of objects does."""
    client = cast("ModelClient", table.store)
    scheme, patience = play.settings.scheme, _patience(play.dice)
    rows = ModelRows(client)
    return ExternalManifests(engine, table, rows, scheme=scheme, patience=patience)


class Play:
    """A story while it is played."""

    def __init__(
        self,
        dice: random.Random,
        settings: Settings,
        manifests: Make,
    ) -> None:
        self.dice = dice
        self.settings = settings
        self.story = Story()
        self._manifests = manifests
        profile = replace(GCS, lists_in_order=settings.in_order)
        self.model = Model(dice, Faults(), profile)
        self._pool = DecodePool(1)

    async def run(self) -> None:
        """Create the table, run the processes, and check the final state.

        Raises:
            SimulationError: the table is not what the processes were told.
        """
        await self._commit(self._client(None), append(0, []), None)
        self.model.faults = self.settings.faults
        numbers = range(self.settings.num_processes)
        await asyncio.gather(*(self._process(number) for number in numbers))
        await self.model.settle()
        self.model.faults = Faults()
        engine, table, _ = self._client(None)
        manifests = self._manifests(engine, table, self)
        newest = await manifests.latest()
        assert newest is not None
        for version in range(1, newest.version + 1):
            await manifests.version(version)  # repairs what was left
        self._check()

    def _client(self, crash_after: int | None) -> tuple[Engine, Table, ModelClient]:
        client = ModelClient(self.model, crash_after)
        registry = cast("StoreRegistry", _Registry(client))
        engine = Engine(registry, Scheduler(registry), SearchCache(0), self._pool)
        access = Access.to(client, None, None)
        return engine, Table("model://table", client, FOLDER, None, registry, access), client

    async def _commit(
        self,
        client: tuple[Engine, Table, ModelClient],
        transaction: Transaction,
        base: Manifest | None,
    ) -> Manifest:
        engine, table, _ = client
        pending = PendingCommit(
            table=table,
            transaction=transaction,
            base=base,
            rules=AppendRules(),
            manifests=self._manifests(engine, table, self),
            backoff=Backoff(uniform=self.dice.uniform),
        )
        return await commit(engine, pending)

    async def _process(self, number: int) -> None:
        base = None
        for step in range(self.settings.num_commits):
            await asyncio.sleep(self.dice.random() * 0.2)
            while base is None:
                base = await self._latest()
            path = f"{number}-{step}"
            transaction = append(base.version, [path])
            self.story.paths[transaction.uuid] = path
            base = await self._until_settled(transaction, base)

    async def _latest(self) -> Manifest | None:
        engine, table, _ = self._client(None)
        try:
            return await load_latest(engine, table)
        except (StoreError, NotFoundError):
            return None

    async def _until_settled(self, transaction: Transaction, base: Manifest) -> Manifest | None:
        """Commit one transaction, again and again where the outcome is not known."""
        story, uuid = self.story, transaction.uuid
        in_doubt = False  # of an attempt that crashed, a put may still be under way
        while True:
            try:
                result = await self._attempt(transaction, base)
            except CommitConflictError:
                story.failed.add(uuid)
                return None
            except StoreError:
                if self.dice.random() < self.settings.repeat:
                    continue
                (story.open if in_doubt else story.failed).add(uuid)
                return None
            except CommitStateUnknownError:
                story.unknown += 1
                result = None
            in_doubt = True
            if result is not None:
                story.committed[uuid] = result.version
                return result
            if self.dice.random() >= self.settings.repeat:
                story.open.add(uuid)
                return None

    async def _attempt(self, transaction: Transaction, base: Manifest) -> Manifest | None:
        """One attempt of a process that may crash or be cancelled: then None."""
        dice = self.dice
        crash = dice.randrange(12) if dice.random() < self.settings.crash else None
        client = self._client(crash)
        task = asyncio.ensure_future(self._commit(client, transaction, base))
        limit = dice.expovariate(5.0) if dice.random() < self.settings.cancel else None
        try:
            while not task.done() and not client[2].is_dead:
                await asyncio.wait([task], timeout=0.05 if limit is None else min(0.05, limit))
                limit = None if limit is None else limit - 0.05
                if limit is not None and limit <= 0 and not task.done():
                    task.cancel()
                    await asyncio.wait([task], timeout=0.01)
                    self.story.cancelled += 1
                    return None
            if not task.done():
                self.story.crashes += 1
                return None
            return task.result()
        finally:
            client[2].is_dead = True  # whatever a process that crashed still wants, it does not
            task.cancel()

    def _check(self) -> None:
        names = [name.partition("_versions/")[2] for name in self.model.objects]
        result = attached(name for name in names if name)
        versions = {parsed.version: name for name, parsed in result.items()}
        _expect(sorted(versions) == [*range(1, len(versions) + 1)], f"versions {sorted(versions)}")
        paths: list[str] = []
        by_uuid: dict[str, int] = {}
        for version, name in sorted(versions.items()):
            content = self.model.objects[f"{FOLDER}/_versions/{name}"]
            manifest = parse_manifest(memoryview(content), name)
            uuid = transaction_uuid_of(manifest)
            _expect(uuid is not None and uuid not in by_uuid, f"transaction {uuid} twice")
            by_uuid[str(uuid)] = version
            added = [self.story.paths[str(uuid)]] if version > 1 else []
            _expect(paths_of(manifest) == paths + added, f"version {version} lost something")
            paths = paths_of(manifest)
            file = f"{FOLDER}/_transactions/{manifest.message.transaction_file}"
            _expect(file in self.model.objects, f"{file} is missing")
        for uuid, version in self.story.committed.items():
            _expect(by_uuid.get(uuid) == version, f"told version {version}: {by_uuid.get(uuid)}")
        for uuid in self.story.failed:
            _expect(uuid not in by_uuid, "told to have failed, and is there")


def _expect(condition: bool, what: str) -> None:
    if not condition:
        raise SimulationError(what)
