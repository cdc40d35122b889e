"""Puts of one commit against those of others, and what is seen of theirs meanwhile.

Whoever has made a version needs two rounds for the next one. Those that have lost would be a round
later each time, and lose again, if they looked only then at what has won: so from the first loss on
the winner is read, and versions are listed, beside the next put.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from alance.errors import StoreError
from alance.io.tasks import all_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.table.manifest import Manifest
    from alance.versioning.load import ManifestLocation
    from alance.versioning.manifest_store import Created, ManifestStore

# After a listing, versions are taken as they come for so long; a listing tells whether one was
# cleaned up in between, whose number must not be given again.
SEEN_S: Final = 0.25
BEHIND: Final = 3  # puts lost: others are perhaps more than one version ahead


class Race:
    """The attempts of one commit to be first. For one task at a time."""

    def __init__(self, manifests: ManifestStore) -> None:
        self._manifests = manifests
        self._listed = asyncio.get_running_loop().time()
        self._lost = 0
        self._found: list[Manifest] = []
        self._newest: ManifestLocation | None = None

    async def create(self, version: int, content: bytes, transaction_uuid: str) -> Created:
        """As of `ManifestStore.create`."""
        ahead: asyncio.Task[Manifest | None] | None = None
        listing: asyncio.Task[ManifestLocation | None] | None = None
        begun = asyncio.get_running_loop().time()
        if self._lost >= BEHIND:
            ahead = asyncio.create_task(self._manifests.version(version + 1))
        if self._lost and begun - self._listed > SEEN_S:
            listing = asyncio.create_task(self._manifests.latest())
        beside = [task for task in (ahead, listing) if task is not None]
        try:
            created = await self._manifests.create(
                version, content, transaction_uuid, peeks=self._lost > 0
            )
            if created.is_ours:
                return created
            self._lost += 1
            self._found = [] if created.manifest is None else [created.manifest]
            self._newest = None
            with suppress(StoreError):
                if listing is not None:
                    self._newest, self._listed = await listing, begun
                if ahead is not None and self._found and (further := await ahead) is not None:
                    self._found.append(further)
            return created
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    async def newer(self, base: int) -> Sequence[Manifest]:
        """The versions after the one on which the last put was built, oldest first.

        Raises:
            VersionsGoneError: one of them has been cleaned up.
            CommitConflictError: `base` is none of the table's: it was deleted, or made again.
        """
        seen, newest = self._found, self._newest
        is_recent = asyncio.get_running_loop().time() - self._listed < SEEN_S
        if seen and newest is not None and newest.version > seen[-1].version:
            missing = range(seen[-1].version + 1, newest.version + 1)
            more = await all_of(self._manifests.version(version) for version in missing)
            later = [manifest for manifest in more if manifest is not None]
            if len(later) == len(missing):
                return [*seen, *later]
        elif seen and is_recent:
            return seen
        self._listed = asyncio.get_running_loop().time()
        return await self._manifests.versions_after(base)
