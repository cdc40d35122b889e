"""Manifests with V1 names get V2 names; their content stays."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from alance.errors import UnsupportedError
from alance.format.table.naming import (
    VERSIONS,
    NamingScheme,
    manifest_name,
    parse_manifest_name,
)
from alance.io.tasks import all_of

if TYPE_CHECKING:
    from alance.io.engine import Engine
    from alance.versioning.table import Table

AT_ONCE: Final = 16


async def migrate_manifest_paths_v2(engine: Engine, table: Table) -> None:
    """See `UpkeepVerbs.migrate_manifest_paths_v2`.

    All are copied before the first one is deleted: whenever this is interrupted, each version has
    a name, and the next call goes on.
    """
    if table.keeper is not None and table.keeper.is_asked_by_readers:
        raise UnsupportedError(
            f"dataset {table.uri!r}: its versions are kept by an external store, which knows their "
            "names; they are not renamed"
        )
    folder = table.folder(VERSIONS)
    old: dict[str, str] = {}
    listing = engine.scheduler.list(folder, reason="migrate")
    async with aclosing(listing) as entries:  # type: ignore[type-var]  # a generator
        async for entry in entries:
            name = entry.path[len(folder) + 1 :]
            parsed = parse_manifest_name(name)
            if parsed is not None and parsed.scheme is NamingScheme.V1:
                old[name] = manifest_name(parsed.version, NamingScheme.V2)
    store, path = engine.registry.resolve(folder)
    limit = asyncio.Semaphore(AT_ONCE)

    async def copy(name: str) -> None:
        async with limit:
            await store.copy(f"{path}/{name}", f"{path}/{old[name]}")

    async def delete(name: str) -> None:
        async with limit:
            await store.delete([f"{path}/{name}"])

    await all_of(copy(name) for name in old)
    await all_of(delete(name) for name in old)
