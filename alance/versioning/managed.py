"""Versions that a catalog manages: the committer stages a manifest, and the catalog publishes it.

  PUT     {manifest}-{uuid}                 staged: invisible to others
  create  (table, version) <- staged        if absent: the catalog moves it to {manifest}

If a committer stops before the call, there is no new version; cleanup removes the staged object. A
version whose manifest is in the folder, but which the catalog does not list, does not exist.

Source: docs/catalogs.md, "Versions that the catalog manages".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from alance.versioning.external_store import Entry, ExternalManifests, ExternalStore
from alance.versioning.load import all_listed

if TYPE_CHECKING:
    from alance.versioning.load import ManifestLocation


class ManagedStore(ExternalStore, Protocol):
    """Interface of an external store whose `put_if_not_exists` moves the staged manifest."""

    async def entries(self, table: str) -> list[Entry]:
        """Return all versions of a table or branch; empty if the store has none.

        Cost: a call per page.

        Args:
            table: as for `ExternalStore.get`.

        Raises:
            StoreError: the store failed.
        """


class ManagedManifests(ExternalManifests):
    """Manifests that a catalog publishes."""

    _external: ManagedStore

    async def all(self) -> list[ManifestLocation]:
        """Return the versions that the catalog lists, oldest first.

        Versions whose manifests were cleaned up are omitted. If the catalog lists none, the table
        was made before the catalog managed versions, and all versions in the folder are returned.
        Cost: a call per page, then one LIST.
        """
        published = {entry.version for entry in await self._external.entries(self._key)}
        listed = await all_listed(self._engine, self._table)
        return [where for where in listed if not published or where.version in published]

    async def _finish(self, staged: Entry, final: str) -> None:
        """Do nothing: the catalog has moved the staged manifest."""
