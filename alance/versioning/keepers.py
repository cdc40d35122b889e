"""Keepers of a table's versions: an external store or a lock, where conditional puts do not work.

A keeper belongs to the table and its branches, wherever they are passed. Each read of the latest
version and each commit asks it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol

from alance.errors import InvalidInputError, UnsupportedError
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.format.table.naming import NamingScheme
    from alance.io.reading.engine import Engine
    from alance.versioning.external_store import ExternalStore
    from alance.versioning.lock import CommitLock
    from alance.versioning.manifest_store import ManifestStore
    from alance.versioning.table import Table

SCHEME: Final = "s3+ddb://"
ENDPOINT: Final = "dynamodb_endpoint"  # an option of storage
_METHODS: Final = ("get", "get_latest", "put_if_not_exists", "put_if_exists")


class Keeper(Protocol):
    """How the versions of a table are found and made."""

    @property
    def identity(self) -> int:
        """Equal for the same store or lock, as long as it is used."""

    @property
    def is_asked_by_readers(self) -> bool:
        """Whether a listing alone may miss the newest version."""

    def manifests(
        self, engine: Engine, table: Table, scheme: NamingScheme | None = None
    ) -> ManifestStore:
        """The versions of the table, or of one of its branches.

        Args:
            scheme: of the names, for a table without versions.
        """

    def check_forgets(self) -> None:
        """Make sure that `forget` can be called.

        Raises:
            UnsupportedError: it cannot.
        """

    async def forget(self, key: str) -> None:
        """Forget all versions of a table or branch, which is deleted.

        Args:
            key: path of its folder inside the store of objects.
        """


@dataclass(frozen=True, slots=True)
class ExternalKeeper:
    """Versions in an external store; see `external_store`."""

    store: ExternalStore

    @property
    def identity(self) -> int:
        """See `Keeper`."""
        return id(self.store)

    @property
    def is_asked_by_readers(self) -> bool:
        """True: the newest version may still be staged."""
        return True

    def manifests(
        self, engine: Engine, table: Table, scheme: NamingScheme | None = None
    ) -> ManifestStore:
        """See `Keeper`."""
        from alance.versioning.external_store import ExternalManifests

        return ExternalManifests(engine, table, self.store, scheme=scheme)

    def check_forgets(self) -> None:
        """Make sure that the store has the method `delete_table`.

        Raises:
            UnsupportedError: it has not: its entries would outlive the table.
        """
        if not callable(getattr(self.store, "delete_table", None)):
            raise UnsupportedError(
                f"manifest_store: {type(self.store).__name__} has no method delete_table, so that "
                f"it would go on naming versions of a table that is deleted"
            )

    async def forget(self, key: str) -> None:
        """See `Keeper`."""
        self.check_forgets()
        await self.store.delete_table(key)  # type: ignore[attr-defined]  # it was looked at


@dataclass(frozen=True, slots=True)
class LockKeeper:
    """Commits under a user's lock; see `lock`."""

    lock: CommitLock

    @property
    def identity(self) -> int:
        """See `Keeper`."""
        return id(self.lock)

    @property
    def is_asked_by_readers(self) -> bool:
        """False: a lock does not move manifests."""
        return False

    def manifests(
        self, engine: Engine, table: Table, scheme: NamingScheme | None = None
    ) -> ManifestStore:
        """Return the manifests of a table whose commits hold the lock; see `Keeper.manifests`."""
        from alance.versioning.lock import LockedManifests

        return LockedManifests(engine, table, self.lock, scheme=scheme)

    def check_forgets(self) -> None:
        """Nothing: a lock remembers nothing."""

    async def forget(self, key: str) -> None:
        """Nothing."""


def keeper_of(
    manifest_store: ExternalStore | None, commit_lock: CommitLock | None
) -> Keeper | None:
    """Return the keeper for a user's arguments; None for conditional puts.

    Raises:
        InvalidInputError: both arguments, or an object without the needed methods.
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
    """Whether a URI names a table whose versions DynamoDB keeps."""
    return uri.startswith(SCHEME)


def open_dynamodb(uri: str, storage_options: Mapping[str, object] | None) -> tuple[str, Keeper]:
    """The `s3://` URI of such a table, and its keeper. Sends nothing.

    Raises:
        InvalidInputError: no URI of this kind.
    """
    options = tuple(sorted((name, str(value)) for name, value in (storage_options or {}).items()))
    return _dynamodb(uri, options)


def without_endpoint(options: Mapping[str, object] | None) -> Mapping[str, object] | None:
    """The options of the store of objects alone."""
    if not options or ENDPOINT not in options:
        return options
    return {name: value for name, value in options.items() if name != ENDPOINT}


@lru_cache(maxsize=64)  # making a client takes 0.1 s, and its first call looks at the table's keys
def _dynamodb(uri: str, options: tuple[tuple[str, str], ...]) -> tuple[str, Keeper]:
    from alance.versioning.dynamodb_store import parse_dynamodb_uri

    plain, _, store = parse_dynamodb_uri(uri, dict(options))
    return plain, ExternalKeeper(store)
