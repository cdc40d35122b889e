"""A folder as a catalog: tables `name.lance`, and a table `__manifest` with namespaces.

`__manifest` has a row for each namespace and table: `object_id` is the primary key, the names
joined by `$`; `object_type` is `namespace` or `table`; `location` is a table's folder below the
catalog's. A table in the root is identified by its folder, and may have a row. A table in a
namespace is identified only by its row, which is written after the data and deleted before it. So a
name always stands for a complete table.
"""

from __future__ import annotations

import json
import posixpath
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from alance.base.records import dataclass
from alance.catalogs.backend import DELIMITER, Place, shown
from alance.datasets import dataset
from alance.distributed.folders import TABLE_SUFFIX, list_folders, move_table, tables_among
from alance.errors import (
    AlreadyExistsError,
    CorruptFileError,
    InvalidInputError,
    NotFoundError,
    TableNotFoundError,
)
from alance.ops.upkeep.place import drop
from alance.writing import write_dataset

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from alance.catalogs.backend import Names
    from alance.datasets import Dataset
    from alance.io.opening.credentials import StorageOptions
    from alance.session import Session

MANIFEST: Final = "__manifest"
OBJECT_ID_METADATA: Final = {"lance-schema:unenforced-primary-key:position": "0"}
CATALOG_SCHEMA: Final = pa.schema(
    [
        pa.field("object_id", pa.string(), nullable=False, metadata=OBJECT_ID_METADATA),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("base_objects", pa.list_(pa.field("object_id", pa.string()))),
    ]
)


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
        name = folder if self._is_path else folder.replace("%", "%25")
        return Place(posixpath.join(self._uri, name) + self._query, self._options)

    def _folder(self, place: Place) -> str:
        """Return the folder name of a place directly below the catalog."""
        name = posixpath.basename(place.uri.removesuffix(self._query))
        return name if self._is_path else name.replace("%25", "%")

    async def _manifest(self) -> _CatalogManifest:
        """Open the latest version of `__manifest`; each call of the catalog opens it once."""
        place = self._place(MANIFEST)
        try:
            table = await dataset(
                place.uri, storage_options=place.storage_options, session=self._session
            )
        except TableNotFoundError:
            return _CatalogManifest(self.uri, None)
        return _CatalogManifest(self.uri, table)

    async def _new_manifest(self) -> _CatalogManifest:
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
        return _CatalogManifest(self.uri, table)

    async def _add(
        self,
        manifest: _CatalogManifest,
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
            if _row(rows, names, kind) is None:
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

    async def drop_namespace(self, names: Names) -> None:
        manifest = await self._manifest()
        if inside := await manifest.below(names, "table", "namespace"):
            raise InvalidInputError(
                f"catalog {self.uri!r}: namespace {shown(names)!r} is not empty: it has "
                f"{min(inside)!r}"
            )
        await manifest.forget(names)

    async def list_tables(self, namespace: Names, *, include_declared: bool) -> list[str]:
        rows = await (await self._manifest()).below(namespace, "table")
        if not namespace:
            folders = await self._folders(self.uri)
            own = {
                name.removesuffix(TABLE_SUFFIX): name
                for name in folders
                if name.endswith(TABLE_SUFFIX)
            }
            rows = own | rows
        if include_declared:
            return list(rows)
        places = [self._place(_checked(rows[name], (*namespace, name))) for name in rows]
        uris = [place.uri for place in places]
        are_there = await tables_among(uris, storage_options=self._options, session=self._session)
        return [name for name, is_there in zip(rows, are_there, strict=True) if is_there]

    async def _folders(self, uri: str) -> list[str]:
        return await list_folders(uri, storage_options=self._options, session=self._session)

    async def find(self, names: Names) -> Place:
        return await self._find(await self._manifest(), names)

    async def _find(self, manifest: _CatalogManifest, names: Names) -> Place:
        row = _row(await manifest.rows(names), names, "table")
        if row is not None:
            return self._place(_checked(row["location"], names))
        if len(names) == 1 and await self._is_in_root(names[0]):
            return self._place(names[0] + TABLE_SUFFIX)
        raise TableNotFoundError(f"catalog {self.uri!r}: no table {shown(names)!r}")

    async def _is_in_root(self, name: str) -> bool:
        """True if the folder `name.lance` has subfolders, as every table's folder has."""
        return bool(await self._folders(self._place(name + TABLE_SUFFIX).uri))

    async def begin(self, names: Names) -> Place:
        return await self._begin(await self._manifest(), names)

    async def _begin(self, manifest: _CatalogManifest, names: Names) -> Place:
        namespace, name = names[:-1], names[-1]
        rows = await manifest.rows(names, namespace)
        if namespace:
            manifest.check_namespace(rows, namespace)
        if _row(rows, names, "table") or (not namespace and await self._is_in_root(name)):
            raise _taken(self.uri, names, "table")
        if not namespace:  # the folder reserves the name: the write fails if it exists
            return self._place(name + TABLE_SUFFIX)
        # A unique folder, independent of other attempts.
        return self._place(f"{uuid.uuid4().hex[:8]}_{DELIMITER.join(names)}")

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
        await manifest.forget(names)
        await self._drop(place)

    async def rename(self, names: Names, new: Names) -> None:
        manifest = await self._manifest()
        old = await self._find(manifest, names)
        place = await self._begin(manifest, new)
        if names[0] + TABLE_SUFFIX != self._folder(old):
            await manifest.rename(names, new)
            return
        await move_table(old.uri, place.uri, storage_options=self._options, session=self._session)
        await manifest.forget(names)
        await self.finish(new, place)

    async def _drop(self, place: Place) -> None:
        await drop(place.uri, storage_options=place.storage_options, session=self._session)


@dataclass(frozen=True, slots=True)
class _CatalogManifest:
    """The table `__manifest` at a version, if it exists.

    Attributes:
        uri: URI of the catalog, for messages.
        table: the dataset `__manifest`; None if there is none.
    """

    uri: str
    table: Dataset | None

    async def _rows(self, condition: str, params: list[str]) -> list[dict[str, Any]]:
        if self.table is None:
            return []
        columns = ["object_id", "object_type", "location"]
        rows = await self.table.to_table(columns, filter=condition, params=params)
        return rows.to_pylist()  # type: ignore[no-any-return]

    async def rows(self, *objects: Names) -> list[dict[str, Any]]:
        """Return the rows of tables and namespaces with one of these names, by one scan."""
        condition = f"object_id IN ({', '.join('?' * len(objects))})"
        return await self._rows(condition, [DELIMITER.join(names) for names in objects])

    async def below(self, namespace: Names, *kinds: str) -> dict[str, Any]:
        """Return the last names and the locations of a namespace's direct children, by one scan.

        Raises:
            NotFoundError: no such namespace.
        """
        prefix = DELIMITER.join((*namespace, ""))
        rows = await self._rows(
            "object_id = ? OR starts_with(object_id, ?)", [DELIMITER.join(namespace), prefix]
        )
        if namespace:
            self.check_namespace(rows, namespace)
        locations = {
            row["object_id"].removeprefix(prefix): row["location"]
            for row in rows
            if row["object_type"] in kinds and row["object_id"].startswith(prefix)
        }
        return {name: location for name, location in locations.items() if DELIMITER not in name}

    def check_namespace(self, rows: Iterable[dict[str, Any]], names: Names) -> None:
        """Check that the rows include a namespace.

        Raises:
            NotFoundError: the namespace does not exist.
        """
        if _row(rows, names, "namespace") is None:
            raise NotFoundError(f"catalog {self.uri!r}: no namespace {shown(names)!r}")

    async def add(
        self, names: Names, kind: str, location: str | None, metadata: str | None
    ) -> None:
        """Add a row.

        Raises:
            InvalidInputError: a row with these names exists.
        """
        assert self.table is not None
        row = {
            "object_id": DELIMITER.join(names),
            "object_type": kind,
            "location": location,
            "metadata": metadata,
            "base_objects": None,
        }
        merge = self.table.merge_insert("object_id").when_matched_fail()
        await merge.when_not_matched_insert_all().execute([row], schema=CATALOG_SCHEMA)

    async def rename(self, names: Names, new: Names) -> None:
        assert self.table is not None
        await self.table.update(
            {"object_id": "?"},
            "object_id = ?",
            params=[DELIMITER.join(new), DELIMITER.join(names)],
        )

    async def forget(self, names: Names) -> None:
        """Delete the row with these names, if it exists."""
        if self.table is not None and await self.rows(names):
            await self.table.delete("object_id = ?", params=[DELIMITER.join(names)])


def _row(rows: Iterable[dict[str, Any]], names: Names, kind: str) -> dict[str, Any] | None:
    """Return the row with these names and this kind; None if there is none."""
    key = (DELIMITER.join(names), kind)
    return next((row for row in rows if (row["object_id"], row["object_type"]) == key), None)


def _taken(uri: str, names: Names, kind: str) -> AlreadyExistsError:
    return AlreadyExistsError(f"catalog {uri!r}: there is a {kind} {shown(names)!r} already")


def _checked(location: Any, names: Names) -> str:
    """Check that the folder of a table is below the catalog's folder, and return it.

    Raises:
        CorruptFileError: the folder is outside the catalog.
    """
    text = str(location or "")
    path = posixpath.normpath(text)
    if not text or "://" in text or path.startswith(("/", "..")) or path == ".":
        raise CorruptFileError(
            f"{MANIFEST}: table {shown(names)!r} is at {location!r}; expected a folder below"
        )
    return path
