"""Folders as catalogs: listing a folder's tables, and moving tables.

A table is a folder with manifests. Most stores have no folders, only names with `/`: a folder
exists as long as it has an object.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Final

from alance.distributed.folder_walk import walk_folders
from alance.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from alance.format.table.naming import VERSIONS
from alance.io.loop.readahead import Job, readahead
from alance.io.loop.tasks import each
from alance.io.stores.store import SystemErrors
from alance.ops.upkeep.place import drop, forget_commits
from alance.session import open_store, table_at
from alance.versioning import load, refs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Unpack

    from alance.distributed.folder_walk import WalkedFolders
    from alance.session import OpenArguments
    from alance.versioning.table import Table

FOLDER_COPIES_AT_ONCE: Final = 16
CHECKED_AT_ONCE: Final = 32  # tables of a folder checked concurrently
TABLE_SUFFIX: Final = ".lance"


async def list_folders(uri: str, **place: Unpack[OpenArguments]) -> list[str]:
    """Return the sorted names of the folders directly in a folder; empty if the folder is missing.

    Cost: a LIST per thousand names.

    Args:
        uri: URI of the folder.
        place: `storage_options` and `session`, as for `dataset`.

    Raises:
        StoreError: the store failed.
    """
    _, store, path = open_store(uri, **place)
    try:
        folders, _ = await store.list_level(path)
    except NotFoundError:
        return []
    return sorted(folder.rpartition("/")[2] for folder in folders)


async def list_tables(uri: str, suffix: str, **place: Unpack[OpenArguments]) -> list[str]:
    """Return the sorted names, without a suffix, of the tables directly in a folder.

    Cost: a LIST per thousand names, and the cost of `walk_folders`; a LIST per name that the walk
    does not reach, 32 at a time.

    Args:
        uri: URI of the folder.
        suffix: suffix of the tables' names, such as `.lance`.
        place: `storage_options` and `session`, as for `dataset`.

    Raises:
        StoreError: the store failed.
    """
    folders = await list_folders(uri, **place)
    names = [name for name in folders if name.endswith(suffix)]
    _, store, path = open_store(uri, **place)
    walked = await walk_folders(store, path, names)
    uris = {name: f"{uri}/{name}" for name in names}
    written = await tables_among(uris, walked, **place)
    return [name.removesuffix(suffix) for name in names if name in written]


async def tables_among(
    uris: Mapping[str, str], walked: WalkedFolders, **place: Unpack[OpenArguments]
) -> set[str]:
    """Return the folders that have a table.

    Cost: a LIST for each folder that the walk does not know, 32 at a time.

    Args:
        uris: the URI of each folder.
        walked: the folders whose state is known.
        place: `storage_options` and `session`, as for `dataset`.

    Raises:
        StoreError: the store failed.
    """

    async def has_version(folder: str) -> bool:
        uri = uris[folder]
        is_external = table_at(uri, **place)[1].keeper is not None
        flag = None if is_external else walked.has_version.get(folder)
        return await is_table(uri, **place) if flag is None else flag

    answers = await each(has_version, uris, at_once=CHECKED_AT_ONCE)
    return {folder for folder, is_there in zip(uris, answers, strict=True) if is_there}


async def is_table(uri: str, **place: Unpack[OpenArguments]) -> bool:
    """Return True if there is a table at a URI.

    Cost: one LIST; for a table whose versions are in an external store, one query there.

    Args:
        uri: URI of the table.
        place: `storage_options` and `session`, as for `dataset`.

    Raises:
        StoreError: the store failed.
    """
    session, table = table_at(uri, **place)
    try:
        await load.latest(session.engine, table)
    except NotFoundError:
        return False
    return True


async def remove_folder(uri: str, names: tuple[str, ...], **place: Unpack[OpenArguments]) -> None:
    """Remove objects of a folder, and the folder if it is then empty.

    Cost: one DELETE.

    Args:
        uri: URI of the folder.
        names: names of the objects in it.
        place: `storage_options` and `session`, as for `dataset`.

    Raises:
        StoreError: the store failed.
    """
    _, store, path = open_store(uri, **place)
    await store.delete([f"{path}/{name}" for name in names])
    await store.remove_folders(path)


async def move_table(uri: str, target: str, **place: Unpack[OpenArguments]) -> None:
    """Move a table to another place in the same store, with all versions, branches and tags.

    On a local disk the folder is renamed. On other stores all objects are copied and then deleted,
    both with the manifests last. Nobody may write to the table meanwhile. If the copy is
    interrupted, the table is still at its old place: remove the objects at the new place before the
    next call. If the deletion is interrupted, the table is at its new place: call `drop` for the
    old place.

    Cost: LISTs of the versions, the target and the branches, a GET of the latest version and of
    each branch; on other stores than a local disk also a LIST and a COPY per object, and the cost
    of `drop`.

    Args:
        uri: URI of the table.
        target: its new URI.
        place: `storage_options` and `session`, as for `dataset`.

    Raises:
        NotFoundError: no such table.
        AlreadyExistsError: there are objects at the target.
        InvalidInputError: `uri` is a single branch, the target is on another store, or the table's
            versions are in an external store.
        StoreError: the store failed, or the target is on another local disk.
    """
    session, source = table_at(uri, **place)
    _, other = table_at(target, **place)
    latest = await load.load_latest(session.engine, source)
    if latest.branch is not None or source.keeper is not None:
        raise InvalidInputError(f"move: {uri!r} is a branch, or its versions are kept elsewhere")
    if source.store.root != other.store.root:
        raise InvalidInputError(f"move: {target!r} is not on the store of {uri!r}")
    async with aclosing(other.store.list(other.path)) as entries:  # type: ignore[type-var]  # a generator
        async for entry in entries:
            raise AlreadyExistsError(f"move: {target!r} has objects such as {entry.path!r}")
    branches = [None, *await refs.list_branches(session.engine, source)]
    folder, new_folder = (table.store.uri_of(table.path) for table in (source, other))
    if folder is not None and new_folder is not None and folder.startswith("/"):
        with SystemErrors(target):
            await asyncio.to_thread(_rename, folder, new_folder)
    else:
        await _copy(source, other)
        await drop(uri, **place)
    for part in map(source.on_branch, branches):
        forget_commits(session, part)


def _rename(folder: str, new_folder: str) -> None:
    os.makedirs(os.path.dirname(new_folder), exist_ok=True)
    os.rename(folder, new_folder)


async def _copy(source: Table, target: Table) -> None:
    """Copy all objects, the manifests last."""
    store = source.store

    async def copy(path: str) -> None:
        await store.copy(path, target.path + path[len(source.path) :])

    manifests: list[str] = []
    others: list[str] = []
    async with aclosing(store.list(source.path)) as entries:  # type: ignore[type-var]  # a generator
        async for entry in entries:
            is_manifest = f"/{VERSIONS}/" in entry.path[len(source.path) :]
            (manifests if is_manifest else others).append(entry.path)
    for paths in (others, manifests):
        jobs = (Job(0, partial(copy, path)) for path in paths)
        copies = readahead(jobs, budget_bytes=0, max_jobs=FOLDER_COPIES_AT_ONCE, ordered=False)
        async with aclosing(copies):
            async for _ in copies:
                pass
