"""Alternatives to conditional puts, for stores without put-if-absent: an external store, a lock.

A `Table` and its branches share a keeper. All commits use the keeper; reads of the latest version
use it if `knows_latest` is true.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol

from alance.base.records import dataclass
from alance.errors import InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from alance.format.table.naming import NamingScheme
    from alance.io.reading.engine import Engine
    from alance.versioning.external_store import ExternalStore
    from alance.versioning.lock import CommitLock
    from alance.versioning.manifest_store import ManifestStore
    from alance.versioning.table import Table

SCHEME: Final = "s3+ddb://"
ENDPOINT: Final = "dynamodb_endpoint"  # name of a storage option
_METHODS: Final = ("get", "get_latest", "put_if_not_exists", "put_if_exists")


class Keeper(Protocol):
    """Interface of an alternative to conditional puts, which makes a table's versions."""

    @property
    def identity(self) -> int:
        """Number that identifies the store or lock during its lifetime."""

    @property
    def knows_latest(self) -> bool:
        """True if the keeper knows the newest version, which a listing of the store may miss."""

    def manifests(
        self, engine: Engine, table: Table, scheme: NamingScheme | None = None
    ) -> ManifestStore:
        """Return the manifests of the table, or of one of its branches.

        Args:
            scheme: naming scheme for a table without versions; None for V2.
        """

    def check_forgets(self) -> None:
        """Check that `forget` is supported.

        Raises:
            UnsupportedError: `forget` is not supported.
        """

    async def forget(self, key: str) -> None:
        """Delete the entries of all versions of a deleted table or branch.

        Args:
            key: path of the folder inside the object store.
        """

    async def forget_versions(self, key: str, versions: Collection[int]) -> None:
        """Delete the entries of versions whose manifests a cleanup has deleted.

        Args:
            key: as for `forget`.
        """


@dataclass(frozen=True, slots=True)
class ExternalKeeper:
    """Versions in an external store; see `external_store`."""

    store: ExternalStore

    @property
    def identity(self) -> int:
        """Number that identifies the store; see `Keeper`."""
        return id(self.store)

    @property
    def knows_latest(self) -> bool:
        """True, because the newest version may still be staged."""
        return True

    def manifests(
        self, engine: Engine, table: Table, scheme: NamingScheme | None = None
    ) -> ManifestStore:
        """Return the manifests of the table; see `Keeper`."""
        if callable(getattr(self.store, "entries", None)):
            from alance.versioning.managed import ManagedManifests

            return ManagedManifests(engine, table, self.store, scheme=scheme)
        from alance.versioning.external_store import ExternalManifests

        return ExternalManifests(engine, table, self.store, scheme=scheme)

    def check_forgets(self) -> None:
        """Check that the store has the method `delete_table`.

        Raises:
            UnsupportedError: the store has no such method, so that entries would outlive the table.
        """
        if not callable(getattr(self.store, "delete_table", None)):
            raise UnsupportedError(
                f"manifest_store: {type(self.store).__name__} has no method delete_table, so that "
                f"it would go on naming versions of a table that is deleted"
            )

    async def forget(self, key: str) -> None:
        """Delete the entries of all versions; see `Keeper`."""
        self.check_forgets()
        await self.store.delete_table(key)  # type: ignore[attr-defined]  # see check_forgets

    async def forget_versions(self, key: str, versions: Collection[int]) -> None:
        """Delete entries, if the store has the method `delete_versions`; see `Keeper`."""
        delete = getattr(self.store, "delete_versions", None)
        if callable(delete):
            await delete(key, versions)


@dataclass(frozen=True, slots=True)
class LockKeeper:
    """Commits under a user's lock; see the module `lock`."""

    lock: CommitLock

    @property
    def identity(self) -> int:
        """Number that identifies the lock; see `Keeper`."""
        return id(self.lock)

    @property
    def knows_latest(self) -> bool:
        """False, because a lock does not stage manifests."""
        return False

    def manifests(
        self, engine: Engine, table: Table, scheme: NamingScheme | None = None
    ) -> ManifestStore:
        """Return the manifests of a table whose commits hold the lock; see `Keeper`."""
        from alance.versioning.lock import LockedManifests

        return LockedManifests(engine, table, self.lock, scheme=scheme)

    def check_forgets(self) -> None:
        """Do nothing, because a lock stores no versions."""

    async def forget(self, key: str) -> None:
        """Do nothing, because a lock stores no versions."""

    async def forget_versions(self, key: str, versions: Collection[int]) -> None:
        """Do nothing, because a lock stores no versions."""


def keeper_of(
    manifest_store: ExternalStore | None, commit_lock: CommitLock | None
) -> Keeper | None:
    """Return the keeper for a user's arguments; None if both are None, for conditional puts.

    Raises:
        InvalidInputError: both arguments are given, `manifest_store` lacks a method, or
            `commit_lock` is no function.
    """
    if manifest_store is not None and commit_lock is not None:
        raise InvalidInputError("manifest_store, commit_lock: expected one of them")
    if manifest_store is not None:
        missing = [name for name in _METHODS if not callable(getattr(manifest_store, name, None))]
        if missing:
            raise InvalidInputError(
                f"manifest_store: {type(manifest_store).__name__} has no {', '.join(missing)}"
            )
        return ExternalKeeper(manifest_store)
    if commit_lock is not None:
        if not callable(commit_lock):
            raise InvalidInputError(
                f"commit_lock: expected a function that gives a context manager, found "
                f"{commit_lock!r}"
            )
        return LockKeeper(commit_lock)
    return None


def is_dynamodb(uri: str) -> bool:
    """True if the URI names a table whose versions are in DynamoDB."""
    return uri.startswith(SCHEME)


def open_dynamodb(uri: str, storage_options: Mapping[str, object] | None) -> tuple[str, Keeper]:
    """Return the `s3://` URI and the keeper for the URI of a table with versions in DynamoDB.

    Raises:
        InvalidInputError: the URI is not `s3+ddb://bucket/path?ddbTableName=table`.
    """
    options = tuple(sorted((name, str(value)) for name, value in (storage_options or {}).items()))
    return _dynamodb(uri, options)


def without_endpoint(options: Mapping[str, object] | None) -> Mapping[str, object] | None:
    """Return the options without the endpoint of DynamoDB; None for None."""
    if not options or ENDPOINT not in options:
        return options
    return {name: value for name, value in options.items() if name != ENDPOINT}


# Because creating a client takes 0.1 s, and its first call reads the table's keys.
@lru_cache(maxsize=64)
def _dynamodb(uri: str, options: tuple[tuple[str, str], ...]) -> tuple[str, Keeper]:
    from alance.versioning.dynamodb_store import parse_dynamodb_uri

    plain, _, store = parse_dynamodb_uri(uri, dict(options))
    return plain, ExternalKeeper(store)
