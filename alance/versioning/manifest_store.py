"""Manifests in an object store: the newest versions, and creation of a version by put-if-absent.

On a store with put-if-absent, the manifest's name is the lock: of all committers that put version n
+ 1, one succeeds. The others then build on its version.

Newer versions are listed, not probed by name. After a cleanup, version n + 1 may be gone while
later versions exist; a commit that made n + 1 again would be lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias
from weakref import WeakSet

from alance.base.records import dataclass
from alance.errors import (
    AlreadyExistsError,
    CommitConflictError,
    CorruptFileError,
    NotFoundError,
    RetryableConflictError,
    StoreError,
    UnsupportedError,
)
from alance.format.table.manifest import Manifest, parse_manifest
from alance.format.table.naming import TRANSACTIONS, NamingScheme, manifest_name
from alance.io.loop.tasks import each
from alance.io.stores.store import without_number
from alance.versioning import load
from alance.versioning.load import ManifestLocation, load_manifest
from alance.versioning.settle import Patience, Settled, put_settled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from alance.format.table.transaction import Transaction
    from alance.io.loop.background import Background
    from alance.io.reading.engine import Engine
    from alance.io.stores.store import Store
    from alance.versioning.table import Table

Objects: TypeAlias = "Sequence[tuple[str, bytes]]"  # locations and contents of objects

LISTED_MANIFESTS_AT_ONCE: Final = 64  # maximum manifests to read concurrently
MERGED: Final = "alance.merged"  # transaction property with the uuids of the merged transactions


@dataclass(frozen=True, slots=True)
class Created:
    """Outcome of an attempt to create a version.

    Attributes:
        is_ours: True if the version has our transaction.
        manifest: manifest that was read back from the store. None if ours was put and not read
            back, or if this alance cannot read the other committer's.
        tag: entity tag of the manifest that was put; None if unknown.
    """

    is_ours: bool
    manifest: Manifest | None = None
    tag: str | None = None


def paths_of(named: Objects, store: Store) -> list[tuple[str, bytes]]:
    """Convert locations to paths inside the table's store."""
    return [(location.removeprefix(store.root), content) for location, content in named]


class VersionsGoneError(RetryableConflictError):
    """Error: a version after the commit's base has been cleaned up."""


class ManifestStore(Protocol):
    """Interface by which a committer reads and creates the versions of a table or branch."""

    async def check(self, written: tuple[str, bytes] | None = None) -> None:
        """Check, once per process, that versions can be created safely.

        Args:
            written: location and content of an object that this commit has just written; None to
                write an object for the check.

        Raises:
            UnsupportedError: the store has no working put-if-absent.
        """

    async def latest(self) -> ManifestLocation | None:
        """Return the latest version; None if there is no table."""

    async def all(self) -> list[ManifestLocation]:
        """Return all versions except detached ones, oldest first.

        Raises:
            NotFoundError: there is no table.
        """

    async def version(self, version: int) -> Manifest | None:
        """Return the manifest of a version; None if there is no such version."""

    async def versions_after(self, base: Manifest) -> Sequence[Manifest]:
        """Return the versions after `base`, oldest first, without gaps.

        Raises:
            VersionsGoneError: a version after `base` has been cleaned up.
            CommitConflictError: the table has no such version, or another one with its number: it
                was deleted, and perhaps created again.
        """

    async def create(
        self,
        version: int,
        content: bytes,
        transaction_uuid: str,
        *,
        named: Objects = (),
        peeks: bool = False,
    ) -> Created:
        """Write a version's manifest if it is absent.

        Args:
            named: locations and contents of objects that the manifest refers to; they are written
                before it.
            peeks: True to read an existing manifest concurrently with the put.

        Raises:
            StoreError: the store refused the put; the version was not made.
            CommitStateUnknownError: it is not known if the version was made.
        """


def transaction_uuid_of(manifest: Manifest) -> str | None:
    """Return the uuid of the transaction that made a version; None if the manifest lacks it."""
    if manifest.transaction is not None:
        return str(manifest.transaction.uuid)
    name: str = manifest.head.transaction_file
    return name.removesuffix(".txn").partition("-")[2] or None


def is_commit_of(manifest: Manifest, transaction_uuid: str) -> bool:
    """True if the transaction made the version, by itself or merged with others."""
    return transaction_uuid in makers_of(manifest)


def makers_of(manifest: Manifest) -> set[str]:
    """Return the uuids of a version's transaction and of the transactions merged into it."""
    maker = transaction_uuid_of(manifest)
    makers = set() if maker is None else {maker}
    if manifest.transaction is not None:
        makers.update(manifest.transaction.transaction_properties.get(MERGED, "").split())
    return makers


class ConditionalManifests:
    """Manifests on a store that has put-if-absent.

    Args:
        scheme: naming scheme for a table without versions; None for V2. An existing table keeps its
            scheme.
        is_safe: True if the caller guarantees a single writer at a time, so that the store is not
            probed.
    """

    def __init__(
        self,
        engine: Engine,
        table: Table,
        *,
        scheme: NamingScheme | None = None,
        patience: Patience | None = None,
        is_safe: bool = False,
    ) -> None:
        self._engine = engine
        self._table = table
        self._scheme = scheme
        self.patience = patience or Patience()
        self._is_safe = is_safe

    @property
    def scheme(self) -> NamingScheme:
        """Naming scheme of the table; V2 if it is not known yet."""
        return self._scheme or NamingScheme.V2

    def keep_scheme(self, scheme: NamingScheme) -> None:
        """Set the naming scheme of new manifests."""
        self._scheme = scheme

    def location(self, version: int) -> str:
        """Return the location of a version's manifest.

        Raises:
            UnsupportedError: the version is detached and the table has V1 names; it would break the
                table.
        """
        if version >> 63 and self.scheme is NamingScheme.V1:
            raise UnsupportedError(
                f"dataset {self._table.uri!r}: no detached versions beside manifests with V1 names"
            )
        return self._table.manifest(manifest_name(version, self.scheme))

    async def check(self, written: tuple[str, bytes] | None = None) -> None:
        """Probe the store; see `check_conditional_puts` for the cost."""
        if self._is_safe:
            return
        probe = self._table.folder(f"{TRANSACTIONS}/{PROBE_PREFIX}{uuid.uuid4()}")
        store, path = self._engine.registry.resolve(probe if written is None else written[0])
        if written is None:
            await check_by_probe(store, path, self._engine.background, self.patience)
        else:
            await check_conditional_puts(store, path, written[1], self.patience)

    async def latest(self) -> ManifestLocation | None:
        """Return the latest version; None if there is no table.

        Cost: one LIST, which is stopped early for V2 names on stores that list in order.
        """
        try:
            location = await load.latest_listed(self._engine, self._table)
        except NotFoundError:
            return None
        self._scheme = location.scheme
        return location

    async def all(self) -> list[ManifestLocation]:
        """Return all versions except detached ones, oldest first. Cost: one LIST."""
        return await load.all_listed(self._engine, self._table)

    async def version(self, version: int) -> Manifest | None:
        """Return the manifest of a version; None if there is no such version. Cost: one GET."""
        where = ManifestLocation(version, self.location(version), None, self.scheme)
        try:
            return await load_manifest(self._engine, where)
        except NotFoundError:
            return None

    async def versions_after(self, base: Manifest) -> Sequence[Manifest]:
        """Return the versions after `base`.

        Cost: one LIST, then all GETs concurrently; a GET more unless the LIST identifies `base`.
        """
        listed = await self._listed_since(base.version)
        by_version = {where.version: where for where in listed}
        newest = max(by_version, default=0)
        if newest < base.version:
            raise CommitConflictError(gone_text(self._table, base.version, newest))
        versions = range(base.version + 1, newest + 1)
        where = by_version.get(base.version)  # None if it was cleaned up
        if where is not None and not await load.is_still(self._engine, base, where):
            raise written_anew(self._table, base.version)
        return await load_listed(self._engine, self._table, versions, by_version)

    async def _listed_since(self, version: int) -> Sequence[ManifestLocation]:
        """List the versions from one on, newest first; empty if there is no table."""
        try:
            listed = await load.listed_since(self._engine, self._table, version)
        except NotFoundError:
            return ()
        self._scheme = listed[0].scheme
        return listed

    async def create(
        self,
        version: int,
        content: bytes,
        transaction_uuid: str,
        *,
        named: Objects = (),
        peeks: bool = False,
    ) -> Created:
        """Put a version's manifest if it is absent.

        Cost: one PUT, and GETs if its outcome is open.
        """
        location = self.location(version)
        store, path = self._engine.registry.resolve(location)
        before = paths_of(named, store)
        return await settle_manifest(
            self._engine,
            store,
            path,
            lambda: store.put_in_order([*before, (path, content)], if_absent=True),
            transaction_uuid,
            self.patience.for_bytes(len(content)),
            peeks=peeks,
        )


async def manifest_at(engine: Engine, location: str) -> Manifest | None:
    """Read the manifest at a location; None if this alance cannot read it. Cost: one GET.

    Raises:
        NotFoundError: there is no such object.
    """
    content = await engine.scheduler.read_all(location, reason="whose manifest")
    try:
        return parse_manifest(content, location)
    except (CorruptFileError, UnsupportedError):
        return None  # the reason is reported when it is opened as a newer version


async def settle_manifest(
    engine: Engine,
    store: Store,
    path: str,
    put: Callable[[], Awaitable[str | None]],
    transaction_uuid: str,
    patience: Patience,
    *,
    peeks: bool = False,
) -> Created:
    """Put a manifest by calling `put`, and find out whose manifest exists; see `put_settled`.

    Args:
        put: sends a conditional put, and returns the entity tag of the manifest.
        peeks: True to read the manifest back concurrently with the put, which saves a round if the
            put fails.
    """
    manifest: Manifest | None = None
    tag: str | None = None
    location = store.root + path
    early = [asyncio.ensure_future(manifest_at(engine, location))] if peeks else []

    async def put_tagged() -> None:
        nonlocal tag
        tag = load.unquoted(await put())

    async def look() -> Manifest | None:
        if early:
            with contextlib.suppress(NotFoundError, StoreError):
                return await early.pop()
        return await manifest_at(engine, location)

    async def whose() -> Settled:
        nonlocal manifest
        manifest = await look()
        is_ours = manifest is not None and is_commit_of(manifest, transaction_uuid)
        return Settled.OURS if is_ours else Settled.THEIRS

    try:
        settled = await put_settled(
            put_tagged,
            whose,
            f"manifest {location}",
            patience,
            at_once=not store.profile.is_remote,
        )
    finally:
        for read in early:
            read.cancel()
        await asyncio.gather(*early, return_exceptions=True)
    return Created(settled is Settled.OURS, manifest, tag)


async def load_listed(
    engine: Engine, table: Table, versions: range, by_version: Mapping[int, ManifestLocation]
) -> list[Manifest]:
    """Read the manifests of listed versions.

    Cost: a GET per version, `LISTED_MANIFESTS_AT_ONCE` at a time.

    Raises:
        VersionsGoneError: a version has been cleaned up.
        CorruptFileError: a manifest has the number of another version.
    """

    async def manifest_of(version: int) -> Manifest:
        gone = gone_text(table, version, versions.stop - 1)
        if version not in by_version:
            raise VersionsGoneError(gone)
        try:
            return await load_manifest(engine, by_version[version], keep=False)
        except NotFoundError as error:
            raise VersionsGoneError(gone) from error

    manifests = await each(manifest_of, versions, at_once=LISTED_MANIFESTS_AT_ONCE)
    for version, manifest in zip(versions, manifests, strict=True):
        if manifest.version != version:
            raise CorruptFileError(
                f"dataset {table.uri!r}: the manifest of version {version} says that it is "
                f"version {manifest.version}"
            )
    return manifests


async def newest_for(
    manifests: ManifestStore, transaction: Transaction, base: Manifest
) -> Manifest | None:
    """Return the latest version if a transaction can follow it, without checking earlier versions.

    An UpdateConfig can follow any version; an Append can if the schema did not change. Returns None
    for an Append to a changed schema, for other operations, and if the latest version is gone.

    Args:
        base: version that the transaction was computed from.
    """
    if transaction.operation not in ("Append", "UpdateConfig"):
        return None
    where = await manifests.latest()
    if where is None:
        return None
    newest = await manifests.version(where.version)
    if newest is None:
        return None
    ours, theirs = base.schema.walk(), newest.schema.walk()
    is_schema_equal = [field.message for field in ours] == [field.message for field in theirs]
    return newest if is_schema_equal or transaction.operation == "UpdateConfig" else None


def gone_text(table: Table, version: int, newest: int) -> str:
    """Return the error message of a commit that has to check a version that no longer exists."""
    return (
        f"dataset {table.uri!r}: version {version} is no more (cleaned up, or the table was "
        f"deleted), so that what it did cannot be checked; the latest version is {newest or 'none'}"
    )


def check_unchanged(table: Table, stored: Manifest, base: Manifest) -> None:
    """Check that a version in the store is the one that was read before.

    Raises:
        CommitConflictError: the table was deleted and created again.
    """
    if not stored.same_as(base):
        raise written_anew(table, base.version)


def written_anew(table: Table, version: int) -> CommitConflictError:
    """Return the error of a commit on a version that another one has replaced."""
    return CommitConflictError(
        f"dataset {table.uri!r}: version {version} is another one than before: the table was "
        f"deleted and created again; open it again"
    )


PROBE_PREFIX: Final = ".probe-"

# Stores that obey conditions, and the names of those that have one: other sessions open the same
# bucket of the same server as another store.
_obedient: WeakSet[Store] = WeakSet()
_obedient_names: set[str] = set()


async def check_conditional_puts(
    store: Store, path: str, content: bytes, patience: Patience | None = None
) -> None:
    """Refuse a store that ignores the condition of put-if-absent and overwrites the object.

    Some servers with a cloud's protocol ignore conditions on writes, so that two committers would
    both seem to succeed. So an object that exists is put once more if it is absent, with the same
    content: a store that ignores the condition does no harm.

    Cost: none for local files, memory, and the services S3, GCS and Azure. For other servers, a
    PUT, once per bucket and process.

    Args:
        path: path of the object.
        content: bytes of the object.

    Raises:
        UnsupportedError: the store ignores the condition.
        StoreError: the store refused to write the object.
        CommitStateUnknownError: the store did not answer.
    """
    if is_obedient(store):
        return
    is_refused = False

    async def put() -> None:
        nonlocal is_refused
        try:
            await store.put(path, content, if_absent=True)
        except AlreadyExistsError:
            is_refused = True

    async def whose() -> Settled:
        raise NotFoundError(f"{store.root}{path}: the store has not answered the put")

    limits = (patience or Patience()).for_bytes(len(content))
    await put_settled(put, whose, store.root + path, limits)
    if not is_refused:
        raise UnsupportedError(
            f"{without_number(store.root)}: this store overwrites where it was asked to create an "
            f"object only if it is absent, so that concurrent commits would be lost; give a "
            f"commit_lock or an external manifest store (alance.check_store tells what else is "
            f"amiss)"
        )
    _obedient.add(store)
    if (name := store.lasting_name()) is not None:
        _obedient_names.add(name)


def is_obedient(store: Store) -> bool:
    """True if a store is known to obey the condition of put-if-absent."""
    return store.heeds_conditions() or store in _obedient or store.lasting_name() in _obedient_names


async def check_by_probe(
    store: Store, path: str, background: Background, patience: Patience | None = None
) -> None:
    """Check a store as `check_conditional_puts` does, by a new object, which is then deleted.

    Cost: no request if the store `is_obedient`; else that of `check_conditional_puts`, and a PUT
    and a DELETE.

    Args:
        path: path of the object.
        background: deletes the object, also if the caller is cancelled.
    """
    if is_obedient(store):
        return
    try:
        await store.put(path, b"")
        await check_conditional_puts(store, path, b"", patience)
    finally:
        await background.discard(store.delete([path]), store)
