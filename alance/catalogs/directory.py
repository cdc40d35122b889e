"""A folder as a catalog: tables `name.lance`, and a table `__manifest` with namespaces.

`catalog_manifest` has the rows of `__manifest`. A table in the root is identified by its folder,
and may have a row. A table in a namespace is identified only by its row, which is written after the
data and deleted before it. So a name always stands for a complete table.

`register` adds a row for a table that is already below the catalog. `deregister` removes the row.
The table `name.lance` in the root needs no row, so `deregister` puts the object
`.lance-deregistered` in its folder, which hides it. pylance reads and writes the same object.

Source: directory namespace catalog specification of lance-namespace.
"""

from __future__ import annotations

import json
import os
import posixpath
import uuid
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from alance.catalogs.backend import DELIMITER, Place, changed, shown
from alance.catalogs.catalog_manifest import (
    CATALOG_SCHEMA,
    MANIFEST,
    CatalogManifest,
    parse_properties,
    row_of,
)
from alance.datasets import dataset
from alance.distributed.folder_walk import DEREGISTERED, WalkedFolders, walk_folders
from alance.distributed.folders import (
    CHECKED_AT_ONCE,
    TABLE_SUFFIX,
    is_table,
    list_folders,
    move_table,
    tables_among,
)
from alance.errors import (
    AlreadyExistsError,
    CorruptFileError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
    TableNotFoundError,
)
from alance.io.loop.tasks import each
from alance.io.stores.uri import quoted
from alance.ops.upkeep.place import drop, drop_named
from alance.session import open_store
from alance.writing import write_dataset

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from alance.catalogs.backend import Names
    from alance.io.opening.credentials import StorageOptions
    from alance.io.stores.store import Store
    from alance.session import Session

MAX_UPDATES: Final = 20  # attempts to change properties that others change at the same time


class DirectoryBackend:
    """Backend of a folder."""

    def __init__(self, uri: str, options: StorageOptions | None, session: Session) -> None:
        self._is_path = "://" not in uri  # a path is literal: no query, no quoting
        self._uri, mark, query = (uri, "", "") if self._is_path else uri.partition("?")
        self._uri = self._uri.rstrip("/") or "/"
        self._query = mark + query
        self._options = options
        self._session = session
        session.engine.registry.open(uri, storage_options=options)  # raises early for a bad URI

    @property
    def uri(self) -> str:
        return self._uri + self._query

    def _place(self, folder: str) -> Place:
        name = folder if self._is_path else quoted(folder)
        return Place(posixpath.join(self._uri, name) + self._query, self._options)

    def _folder(self, place: Place) -> str:
        """Return the folder of a place, relative to the catalog's folder."""
        name = place.uri.removesuffix(self._query).removeprefix(self._uri).lstrip("/")
        return name if self._is_path else unquote(name)

    def _open(self, uri: str) -> tuple[Store, str]:
        """Return the store of a URI, and the path in it."""
        return open_store(uri, storage_options=self._options, session=self._session)[1:]

    async def _manifest(self) -> CatalogManifest:
        """Open the latest version of `__manifest`; each call of the catalog opens it once."""
        place = self._place(MANIFEST)
        try:
            table = await dataset(
                place.uri, storage_options=place.storage_options, session=self._session
            )
        except TableNotFoundError:
            return CatalogManifest(self.uri, None)
        return CatalogManifest(self.uri, table)

    async def _new_manifest(self) -> CatalogManifest:
        place = self._place(MANIFEST)
        try:
            table = await write_dataset(
                CATALOG_SCHEMA.empty_table(),
                place.uri,
                storage_options=place.storage_options,
                session=self._session,
            )
        except AlreadyExistsError:
            return await self._manifest()
        return CatalogManifest(self.uri, table)

    async def _add(
        self,
        manifest: CatalogManifest,
        names: Names,
        kind: str,
        *,
        location: str | None = None,
        metadata: str | None = None,
    ) -> None:
        """Add a row in one commit, which fails if the name is in use."""
        if manifest.table is None:
            manifest = await self._new_manifest()
        try:
            await manifest.add(names, kind, location, metadata)
        except InvalidInputError as error:
            rows = await (await self._manifest()).rows(names)
            if row_of(rows, names, kind) is None:
                raise
            raise _taken(self.uri, names, kind) from error

    async def list_namespaces(self, parent: Names) -> list[str]:
        return list(await (await self._manifest()).below(parent, "namespace"))

    async def create_namespace(self, names: Names, properties: Mapping[str, str]) -> None:
        manifest = await self._manifest()
        if parent := names[:-1]:
            manifest.check_namespace(await manifest.rows(parent), parent)
        metadata = json.dumps(dict(properties)) if properties else None
        await self._add(manifest, names, "namespace", metadata=metadata)

    async def describe_namespace(self, names: Names) -> dict[str, str]:
        return parse_properties(await (await self._manifest()).metadata(names), names)

    async def update_namespace(
        self, names: Names, properties: Mapping[str, str | None], *, replace: bool
    ) -> dict[str, str]:
        for _ in range(MAX_UPDATES):
            manifest = await self._manifest()
            old = await manifest.metadata(names)
            new = changed({} if replace else parse_properties(old, names), properties)
            if await manifest.set_metadata(names, old, json.dumps(new)):
                return new
        raise RetryableConflictError(
            f"catalog {self.uri!r}: others have changed the properties of {shown(names)!r} during "
            f"{MAX_UPDATES} attempts"
        )

    async def drop_namespace(self, names: Names) -> None:
        manifest = await self._manifest()
        if inside := await manifest.below(names, "table", "namespace"):
            raise InvalidInputError(
                f"catalog {self.uri!r}: namespace {shown(names)!r} is not empty: it has "
                f"{min(inside)!r}"
            )
        await manifest.forget(names)

    async def list_tables(
        self, namespace: Names, *, include_declared: bool, check_hidden: bool = True
    ) -> list[str]:
        rows = await (await self._manifest()).below(namespace, "table")
        if not namespace:
            folders = await self._folders(self.uri)
            own = {
                name.removesuffix(TABLE_SUFFIX): name
                for name in folders
                if name.endswith(TABLE_SUFFIX)
            }
            rows = own | rows
        hideable = {
            name: rows[name]
            for name in (rows if check_hidden and not namespace else ())
            if rows[name] == name + TABLE_SUFFIX
        }
        if include_declared:
            for name in await self._hidden(hideable, await self._walk(hideable.values())):
                del rows[name]
            return list(rows)
        checked = {name: _checked(rows[name], (*namespace, name)) for name in rows}
        walked = await self._walk(checked.values())
        hidden = await self._hidden(hideable, walked)
        uris = {folder: self._place(folder).uri for folder in checked.values()}
        written = await tables_among(
            uris, walked, storage_options=self._options, session=self._session
        )
        return [name for name in rows if name not in hidden and checked[name] in written]

    async def _walk(self, folders: Iterable[str]) -> WalkedFolders:
        direct = [folder for folder in folders if "/" not in folder]
        return await walk_folders(*self._open(self.uri), direct)

    async def _folders(self, uri: str) -> list[str]:
        return await list_folders(uri, storage_options=self._options, session=self._session)

    async def find(self, names: Names) -> Place:
        return await self._find(await self._manifest(), names)

    async def _find(self, manifest: CatalogManifest, names: Names) -> Place:
        row = row_of(await manifest.rows(names), names, "table")
        folder = None if row is None else _checked(row["location"], names)
        own = _own_folder(names)
        if own is not None and folder in (None, own):
            is_there, is_hidden = await self._state_in_root(names[0])
            if is_hidden:
                raise TableNotFoundError(f"catalog {self.uri!r}: {_restorable(names[0])}")
            folder = folder or (own if is_there else None)
        if folder is None:
            raise TableNotFoundError(f"catalog {self.uri!r}: no table {shown(names)!r}")
        return self._place(folder)

    async def _state_in_root(self, name: str) -> tuple[bool, bool]:
        """Return two booleans about the folder `name.lance`.

        The first is True if it has subfolders, as every table's folder has. The second is True if
        the table is deregistered.
        """
        store, path = self._open(self._place(name + TABLE_SUFFIX).uri)
        try:
            folders, objects = await store.list_level(path)
        except NotFoundError:
            return False, False
        return bool(folders), f"{path}/{DEREGISTERED}" in objects

    async def _hidden(self, folders: Mapping[str, str], walked: WalkedFolders) -> set[str]:
        """Return the names of the root's tables that are deregistered.

        Cost: a HEAD for each folder that `walked` does not have.

        Args:
            folders: the folder of each name.
            walked: folders that a listing has already visited.
        """

        async def is_hidden(name: str) -> bool:
            if (flag := walked.is_hidden.get(folders[name])) is not None:
                return flag
            store, path = self._open(self._mark(name).uri)
            try:
                await store.size(path)
            except NotFoundError:
                return False
            return True

        flags = await each(is_hidden, folders, at_once=CHECKED_AT_ONCE)
        return {name for name, flag in zip(folders, flags, strict=True) if flag}

    def _mark(self, name: str) -> Place:
        """Return the place of the object that hides a table of the root."""
        return self._place(f"{name}{TABLE_SUFFIX}/{DEREGISTERED}")

    async def begin(self, names: Names) -> Place:
        return await self._begin(await self._manifest(), names)

    async def _begin(self, manifest: CatalogManifest, names: Names) -> Place:
        namespace, name = names[:-1], names[-1]
        rows = await manifest.rows(names, namespace)
        if namespace:
            manifest.check_namespace(rows, namespace)
        if row_of(rows, names, "table"):
            raise _taken(self.uri, names, "table")
        if not namespace:  # the folder reserves the name: the write fails if it exists
            self._check_free(names, *await self._state_in_root(name))
            return self._place(name + TABLE_SUFFIX)
        # A unique folder, independent of other attempts.
        return self._place(f"{uuid.uuid4().hex[:8]}_{DELIMITER.join(names)}")

    def _check_free(self, names: Names, is_there: bool, is_hidden: bool) -> None:
        """Check that there is no table in the folder of a name in the root.

        Raises:
            AlreadyExistsError: there is one, which may be deregistered.
        """
        if is_hidden:
            raise AlreadyExistsError(f"catalog {self.uri!r}: {_restorable(names[0])}")
        if is_there:
            raise _taken(self.uri, names, "table")

    async def finish(self, names: Names, place: Place) -> None:
        if len(names) > 1:
            manifest = await self._manifest()
            await self._add(manifest, names, "table", location=self._folder(place))

    async def abandon(self, names: Names, place: Place) -> None:
        if len(names) > 1:  # only this call knows the folder
            with suppress(NotFoundError):
                await self._drop(place)

    async def drop(self, names: Names) -> None:
        manifest = await self._manifest()
        place = await self._find(manifest, names)
        await drop_named(
            place.uri,
            partial(manifest.forget, names),
            storage_options=place.storage_options,
            session=self._session,
        )

    async def rename(self, names: Names, new: Names) -> None:
        manifest = await self._manifest()
        old = await self._find(manifest, names)
        place = await self._begin(manifest, new)
        if self._folder(old) != _own_folder(names):
            await manifest.rename(names, new)
            return
        await move_table(old.uri, place.uri, storage_options=self._options, session=self._session)
        await manifest.forget(names)
        await manifest.move(self._folder(old), self._folder(place))
        await self.finish(new, place)

    async def register(self, names: Names, location: str) -> None:
        folder = self._below(location)
        namespace, own = names[:-1], _own_folder(names)
        manifest = await self._manifest()
        rows = await manifest.rows(names, namespace)
        if namespace:
            manifest.check_namespace(rows, namespace)
        row = row_of(rows, names, "table")
        if row is not None and (folder, row["location"]) != (own, own):
            raise _taken(self.uri, names, "table")
        place = self._place(folder)
        if not await is_table(place.uri, storage_options=self._options, session=self._session):
            raise TableNotFoundError(
                f"catalog {self.uri!r}: location {location!r}: there is no table in {place.uri!r}; "
                f"a location is relative to the catalog's folder"
            )
        if not namespace:
            is_there, is_hidden = await self._state_in_root(names[0])
            if is_hidden and folder == own:
                store, path = self._open(self._mark(names[0]).uri)
                await store.delete([path])
                return
            self._check_free(names, is_there, is_hidden)
        await self._add(manifest, names, "table", location=folder)

    def _below(self, location: str) -> str:
        """Return a location relative to the catalog's folder.

        Raises:
            InvalidInputError: the location is not below the folder.
        """
        text = location
        if "://" in text or os.path.isabs(text):
            (store, path), (own, root) = self._open(text), self._open(self._uri + self._query)
            root = f"{root}/" if root else ""
            is_below = store.root == own.root and path.startswith(root)
            text = path.removeprefix(root) if is_below else ""
        folder = _inside(text)
        if folder is None or folder.split("/")[0] == MANIFEST:
            raise InvalidInputError(
                f"catalog {self.uri!r}: location {location!r}: expected a table's folder below the "
                f"catalog's, such as 'users.lance'; move the table there by "
                f"alance.distributed.move_table, or open it by its URI"
            )
        return folder

    async def deregister(self, names: Names) -> str:
        manifest = await self._manifest()
        place = await self._find(manifest, names)
        if self._folder(place) == _own_folder(names):
            await self._hide(names[0])
        await manifest.forget(names)
        return self._absolute(place)

    def _absolute(self, place: Place) -> str:
        """Return the URI of a place that does not depend on the working directory."""
        return os.path.abspath(place.uri) if self._is_path else place.uri

    async def _hide(self, name: str) -> None:
        """Put the object that hides a table of the root.

        Raises:
            TableNotFoundError: the table is not yet written.
        """
        is_there, _ = await self._state_in_root(name)
        if not is_there:
            raise TableNotFoundError(
                f"catalog {self.uri!r}: table {name!r} is declared, not written; drop it instead"
            )
        store, path = self._open(self._mark(name).uri)
        await store.put(path, b"")  # without a condition, so that it is repeated if it fails

    async def _drop(self, place: Place) -> None:
        await drop(place.uri, storage_options=place.storage_options, session=self._session)


def _taken(uri: str, names: Names, kind: str) -> AlreadyExistsError:
    return AlreadyExistsError(f"catalog {uri!r}: there is a {kind} {shown(names)!r} already")


def _own_folder(names: Names) -> str | None:
    """Return the folder of a table in the root that has no row; None for names in namespaces."""
    return names[0] + TABLE_SUFFIX if len(names) == 1 else None


def _restorable(name: str) -> str:
    own = name + TABLE_SUFFIX
    return (
        f"table {name!r} is deregistered, and its data is still in {own!r}; restore it by "
        f"register_table({name!r}, {own!r}), or delete the data by alance.drop"
    )


def _inside(location: str) -> str | None:
    """Return a normal path below the catalog's folder; None if it is not below."""
    path = posixpath.normpath(location)
    if not location or "://" in location or path.startswith(("/", "..")) or path == ".":
        return None
    return path


def _checked(location: Any, names: Names) -> str:
    """Check that the folder of a table is below the catalog's folder, and return it.

    Raises:
        CorruptFileError: the folder is outside the catalog.
    """
    path = _inside(str(location or ""))
    if path is None:
        raise CorruptFileError(
            f"{MANIFEST}: table {shown(names)!r} is at {location!r}; expected a folder below"
        )
    return path
