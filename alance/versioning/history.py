"""All versions of a table at once: listed, and by time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.errors import NotFoundError
from alance.io.tasks import all_of
from alance.versioning.load import VersionInfo, list_manifests, load_manifest

if TYPE_CHECKING:
    from datetime import datetime

    from alance.format.table.manifest import Manifest
    from alance.io.engine import Engine
    from alance.versioning.load import ManifestLocation
    from alance.versioning.table import Table


async def versions(engine: Engine, table: Table) -> list[VersionInfo]:
    """All versions, oldest first. Cost: one LIST, and all manifests at once.

    Raises:
        NotFoundError: no dataset there.
    """

    async def info(where: ManifestLocation) -> VersionInfo | None:
        try:
            return VersionInfo.of(await load_manifest(engine, where, keep=False))
        except NotFoundError:
            return None  # cleaned up meanwhile

    infos = await all_of(info(where) for where in await list_manifests(engine, table))
    return [version for version in infos if version is not None]


async def load_asof(engine: Engine, table: Table, time: datetime) -> Manifest:
    """The manifest of the latest version committed strictly before a time (with zone).

    Commit times come from the committers' clocks and need not ascend: all are compared.
    Cost: one LIST, and all manifests at once.

    Raises:
        NotFoundError: no dataset there, or none of its versions is as old.
    """
    best: Manifest | None = None

    async def compare(where: ManifestLocation) -> None:
        nonlocal best
        try:
            manifest = await load_manifest(engine, where, keep=False)
        except NotFoundError:
            return  # cleaned up meanwhile
        if manifest.timestamp is None or manifest.timestamp >= time:
            return
        if best is None or manifest.version > best.version:
            best = manifest

    await all_of(compare(where) for where in await list_manifests(engine, table))
    if best is None:
        raise table.lacks(time, f"no version from before {time.isoformat()}")
    return best
