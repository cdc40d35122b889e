"""Versions in a SQLite file: an external store for a single host, and for tests."""

from __future__ import annotations

import asyncio
import os
from contextlib import closing
from typing import TYPE_CHECKING, Final, TypeVar

from alance.base.calls import public
from alance.errors import AlreadyExistsError, InvalidInputError, NotFoundError, StoreError
from alance.versioning.external_store import Entry

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

T = TypeVar("T")

MANIFESTS_BUSY_S: Final = 5.0  # maximum wait for another process that writes
_TABLE: Final = """
    CREATE TABLE IF NOT EXISTS manifests (
        base_uri TEXT NOT NULL, version INTEGER NOT NULL, path TEXT NOT NULL, size INTEGER,
        PRIMARY KEY (base_uri, version)
    ) WITHOUT ROWID
"""
_SELECT: Final = "SELECT version, path, size FROM manifests WHERE base_uri = ? "


@public
class SqliteStore:
    """Versions in a SQLite file on a local disk, which several processes may use concurrently.

    Each call opens the file in a thread and closes it again.

    Args:
        path: path of the file, which is created if it is missing.

    Raises:
        InvalidInputError: the path is not that of a file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        if not self._path or self._path.startswith(":"):
            raise InvalidInputError(f"SqliteStore({self._path!r}): expected the path of a file")

    async def get(self, table: str, version: int) -> Entry | None:
        """Return a version of a table. Returns None if there is no such version.

        Cost: a query of the local file.

        Args:
            table: path of the table's folder inside the object store.
            version: number of the version.

        Raises:
            StoreError: SQLite failed.
        """
        return await self._run(
            lambda database: _entry(
                database.execute(_SELECT + "AND version = ?", (table, version)).fetchone()
            )
        )

    async def get_latest(self, table: str) -> Entry | None:
        """Return the version with the highest number. Returns None if there is no version.

        Cost: a query of the local file.

        Args:
            table: as for `get`.

        Raises:
            StoreError: SQLite failed.
        """
        return await self._run(
            lambda database: _entry(
                database.execute(_SELECT + "ORDER BY version DESC LIMIT 1", (table,)).fetchone()
            )
        )

    async def put_if_not_exists(self, table: str, entry: Entry) -> None:
        """Add a version, which is on the disk when the call returns.

        Cost: a transaction in the local file.

        Args:
            table: as for `get`.
            entry: the version.

        Raises:
            AlreadyExistsError: there is such a version.
            StoreError: SQLite failed.
        """
        row = (table, entry.version, entry.path, entry.num_bytes)

        def put(database: sqlite3.Connection) -> int:
            return database.execute(
                "INSERT OR IGNORE INTO manifests VALUES (?, ?, ?, ?)", row
            ).rowcount

        if not await self._run(put):
            raise AlreadyExistsError(f"{self._path}: version {entry.version} of {table!r} is there")

    async def put_if_exists(self, table: str, entry: Entry) -> None:
        """Replace the entry of a version.

        Cost: a transaction in the local file.

        Args:
            table: as for `get`.
            entry: the version.

        Raises:
            NotFoundError: there is no such version.
            StoreError: SQLite failed.
        """
        row = (entry.path, entry.num_bytes, table, entry.version)

        def put(database: sqlite3.Connection) -> int:
            return database.execute(
                "UPDATE manifests SET path = ?, size = ? WHERE base_uri = ? AND version = ?", row
            ).rowcount

        if not await self._run(put):
            raise NotFoundError(f"{self._path}: no version {entry.version} of {table!r}")

    async def delete_table(self, table: str) -> None:
        """Delete the entries of all versions of a table.

        Cost: a transaction in the local file.

        Args:
            table: as for `get`.

        Raises:
            StoreError: SQLite failed.
        """
        await self._run(
            lambda database: database.execute("DELETE FROM manifests WHERE base_uri = ?", (table,))
        )

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        import sqlite3  # imported here, because few users need it

        def job() -> T:
            # Without an isolation level, each statement is a transaction.
            opened = sqlite3.connect(self._path, timeout=MANIFESTS_BUSY_S, isolation_level=None)
            with closing(opened) as database:
                database.execute("PRAGMA synchronous = FULL")
                database.execute(_TABLE)
                return work(database)

        try:
            return await asyncio.to_thread(job)
        except sqlite3.OperationalError as error:
            raise StoreError(f"{self._path}: {error}", retryable=True) from error
        except sqlite3.Error as error:
            raise StoreError(f"{self._path}: {error}") from error


def _entry(row: tuple[int, str, int | None] | None) -> Entry | None:
    return None if row is None else Entry(*row)
