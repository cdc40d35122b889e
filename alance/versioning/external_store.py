"""Versions in an external store, for object stores without put-if-absent.

  PUT     {manifest}-{uuid}                staged: invisible to others
  put     (table, version) -> staged       if absent: the winner owns the version
  COPY    staged -> {manifest}
  put     (table, version) -> manifest     finalised; the staged object is deleted

If a committer stops halfway, the next client that reads the staged version copies and finalises it.
Readers without the external store may see an older version than the latest.

Source: docs/format/table.md, "External manifest store".
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from alance.base.records import dataclass
from alance.errors import AlanceError, CommitConflictError, CorruptFileError, NotFoundError
from alance.format.table.naming import VERSIONS, NamingScheme, parse_manifest_name
from alance.io.loop.tasks import all_of
from alance.io.stores.store import without_number
from alance.versioning.load import ManifestLocation, load_manifest
from alance.versioning.manifest_store import (
    ConditionalManifests,
    Created,
    VersionsGoneError,
    check_unchanged,
    gone_text,
    is_commit_of,
    manifest_at,
    paths_of,
)
from alance.versioning.settle import Settled, put_settled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.table.manifest import Manifest
    from alance.io.reading.engine import Engine
    from alance.versioning.manifest_store import Objects
    from alance.versioning.settle import Patience
    from alance.versioning.table import Table

STAGED_MARK: Final = 37  # characters behind the name of a staged manifest: "-" and a uuid
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Entry:
    """Version of a table in an external store.

    Attributes:
        path: path inside the object store of the final manifest, or of a staged one.
        num_bytes: size of the manifest in bytes; None if unknown.
    """

    version: int
    path: str
    num_bytes: int | None


class ExternalStore(Protocol):
    """Interface of a store for the versions of tables. Reads must not be stale."""

    async def get(self, table: str, version: int) -> Entry | None:
        """Return a version of a table. Returns None if there is no such version.

        Cost: one call.

        Args:
            table: path of the table's folder inside the object store.
            version: number of the version.

        Raises:
            StoreError: the store failed.
        """

    async def get_latest(self, table: str) -> Entry | None:
        """Return the version with the highest number. Returns None if there is no version.

        Cost: one call.

        Args:
            table: as for `get`.

        Raises:
            StoreError: the store failed.
        """

    async def put_if_not_exists(self, table: str, entry: Entry) -> None:
        """Add a version.

        Cost: one call.

        Args:
            table: as for `get`.
            entry: the version.

        Raises:
            AlreadyExistsError: the version exists. This call may have made it, if its first answer
                was lost.
            StoreError: the store failed; the version may exist, or appear later.
        """

    async def put_if_exists(self, table: str, entry: Entry) -> None:
        """Replace the entry of a version.

        Cost: one call.

        Args:
            table: as for `get`.
            entry: the version.

        Raises:
            NotFoundError: no such version.
            StoreError: the store failed.
        """


class ExternalManifests(ConditionalManifests):
    """Manifests of an external store, which all writers of the table must use."""

    def __init__(
        self,
        engine: Engine,
        table: Table,
        external: ExternalStore,
        *,
        scheme: NamingScheme | None = None,
        patience: Patience | None = None,
    ) -> None:
        # Not probed, because versions are created in the external store.
        super().__init__(engine, table, scheme=scheme, patience=patience, is_safe=True)
        self._external = external
        self._store, self._key = engine.registry.resolve(table.root)

    async def latest(self) -> ManifestLocation | None:
        """Return the latest version; None if there is no table.

        Cost: one call; also one LIST if the external store lacks the table, or the steps that
        finalise a version that is still staged.
        """
        entry = await self._external.get_latest(self._key)
        if entry is None:
            return await super().latest()
        location = await self._final(entry)
        self.keep_scheme(location.scheme)
        return location

    async def all(self) -> list[ManifestLocation]:
        """Return all versions, oldest first. Cost: one call and one LIST."""
        await self.latest()  # finalises the latest version, so that the LIST contains it
        return await super().all()

    async def version(self, version: int) -> Manifest | None:
        """Return the manifest of a version; None if it is gone. Cost: one call and one GET."""
        entry = None if version >> 63 else await self._external.get(self._key, version)
        if entry is None:
            return await super().version(version)
        try:
            return await load_manifest(self._engine, await self._final(entry))
        except NotFoundError:
            return None  # cleaned up

    async def versions_after(self, base: Manifest) -> Sequence[Manifest]:
        """Return the versions after `base`.

        Cost: one call beside a GET of the version of `base`, because the external store does not
        identify it; then all GETs concurrently.
        """
        final = super().version
        newest = 0

        async def look() -> None:
            nonlocal newest
            where = await self.latest()
            newest = 0 if where is None else where.version

        async def at_base() -> Manifest | None:
            with suppress(CorruptFileError):  # what a repair commits after
                return await final(base.version) or await self.version(base.version)
            return None

        stored = (await all_of([at_base(), look()]))[0]
        if newest < base.version:
            raise CommitConflictError(gone_text(self._table, base.version, newest))
        if stored is not None:
            check_unchanged(self._table, stored, base)

        async def manifest_of(version: int) -> Manifest:
            # The version is nearly always finalised.
            manifest = await final(version)
            manifest = manifest or await self.version(version)
            if manifest is None:
                raise VersionsGoneError(gone_text(self._table, version, newest))
            return manifest

        return await all_of(map(manifest_of, range(base.version + 1, newest + 1)))

    async def create(
        self,
        version: int,
        content: bytes,
        transaction_uuid: str,
        *,
        named: Objects = (),
        peeks: bool = False,
    ) -> Created:
        """Make a version: stage its manifest, add its entry, then move the manifest to its place.

        The version exists once its entry is added, even if a later step fails. Cost, in order: a
        PUT, a call of the external store, a COPY, another call, a DELETE.
        """
        if version >> 63:  # a detached version: no other committer has the same random number
            return await super().create(version, content, transaction_uuid, named=named)
        final = self._engine.registry.resolve(self.location(version))[1]
        staged = Entry(version, f"{final}-{uuid.uuid4()}", len(content))
        before = paths_of(named, self._store)
        await self._store.put_in_order([*before, (staged.path, content)])
        existing: Manifest | None = None

        async def whose() -> Settled:
            nonlocal existing
            entry = await self._external.get(self._key, version)
            if entry is None:
                raise NotFoundError(f"version {version} is not in the external store")
            if entry.path == staged.path:
                return Settled.OURS
            existing = await self._manifest_of(entry)
            is_ours = existing is not None and is_commit_of(existing, transaction_uuid)
            return Settled.OURS if is_ours else Settled.THEIRS

        settled = await put_settled(
            lambda: self._external.put_if_not_exists(self._key, staged),
            whose,
            f"version {version} of {without_number(self._store.root)}{self._key}",
            self.patience,
        )
        if settled is Settled.OURS and existing is None:
            await self._finish(staged, final)
        else:
            await self._delete(staged.path)
        return Created(settled is Settled.OURS, existing)

    async def _finish(self, staged: Entry, final: str) -> None:
        """Finalise a version that this committer has created; after a failure, readers do it."""
        try:
            await self._finalise(staged, final)
        except AlanceError as error:
            _log.info("version %d of %s: left for readers: %s", staged.version, self._key, error)

    async def _final(self, entry: Entry) -> ManifestLocation:
        """Return the location of a version's final manifest; if it is staged, finalise it first.

        Raises:
            NotFoundError: neither the staged nor the final object exists.
        """
        name = entry.path.rpartition(f"{VERSIONS}/")[2]
        parsed = parse_manifest_name(name)
        if parsed is None:
            final = entry.path[:-STAGED_MARK]
            parsed = parse_manifest_name(final.rpartition(f"{VERSIONS}/")[2])
            if parsed is None:
                raise NotFoundError(f"{entry.path!r} in the external store is no manifest")
            await self._finalise(entry, final)
            entry = Entry(entry.version, final, entry.num_bytes)
        location = self._store.root + entry.path
        return ManifestLocation(entry.version, location, entry.num_bytes, parsed.scheme)

    async def _finalise(self, staged: Entry, final: str) -> None:
        try:
            await self._store.copy(staged.path, final)
        except NotFoundError:
            # Another client has finalised it, and deleted the staged object.
            await self._store.size(final)
        await self._external.put_if_exists(
            self._key, Entry(staged.version, final, staged.num_bytes)
        )
        await self._delete(staged.path)

    async def _manifest_of(self, entry: Entry) -> Manifest | None:
        where = await self._final(entry)
        return await manifest_at(self._engine, where.location)

    async def _delete(self, path: str) -> None:
        with contextlib.suppress(AlanceError):
            await self._store.delete([path])
