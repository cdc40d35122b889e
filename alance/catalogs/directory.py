"""A folder as a catalog: tables `name.lance`, and a table `__manifest` that has namespaces.

`__manifest` has a row for each namespace and table: `object_id` is the primary key, the names
joined by `$`; `object_type` is `namespace` or `table`; `location` the folder of a table, below the
catalog's. A table of the root may be in it or not, its folder counts. One of a namespace is known
by its row alone, which is written after the data and deleted before it: a name means a whole table.
"""

from __future__ import annotations

import json
import posixpath
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from alance.catalogs.backend import DELIMITER, Place, shown
from alance.datasets import dataset
from alance.distributed.folders import list_folders, move_table
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
    from collections.abc import Mapping

    from alance.catalogs.backend import Names
    from alance.datasets import Dataset
    from alance.io.credentials import StorageOptions
    from alance.session import Session

SUFFIX: Final = ".lance"
MANIFEST: Final = "__manifest"
KEY: Final = {"lance-schema:unenforced-primary-key:position": "0"}
SCHEMA: Final = pa.schema(
    [
        pa.field("object_id", pa.string(), nullable=False, metadata=KEY),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("base_objects", pa.list_(pa.field("object_id", pa.string()))),
    ]
)


class DirectoryBackend:
    """The tables of a folder."""

    def __init__(self, uri: str, options: StorageOptions | None, session: Session) -> None:
        self._is_path = "://" not in uri  # which is literal: no query, nothing quoted
        self._uri, mark, query = (uri, "", "") if self._is_path else uri.partition("?")
        self._uri = self._uri.rstrip("/") or "/"
        self._query = mark + query
        self._options = options
        self._session = session
        session.engine.registry.open(uri, storage_options=options)  # a bad URI is an error now

    @property
    def uri(self) -> str:
        return self._uri + self._query

    def _place(self, folder: str) -> Place:
        name = folder if self._is_path else folder.replace("%", "%25")
        return Place(posixpath.join(self._uri, name) + self._query, self._options)

    def _folder(self, place: Place) -> str:
        """The folder of a place directly below."""
        name = posixpath.basename(place.uri.removesuffix(self._query))
        return name if self._is_path else name.replace("%25", "%")

    async def _manifest(self) -> Dataset | None:
        """The table of namespaces, if there is one."""
        place = self._place(MANIFEST)
        try:
            return await dataset(
                place.uri, storage_options=place.storage_options, session=self._session
            )
        except TableNotFoundError:
            return None

    async def _rows(self, condition: str, *params: str) -> list[dict[str, Any]]:
        manifest = await self._manifest()
        if manifest is None:
            return []
        columns = ["object_id", "object_type", "location"]
        table = await manifest.to_table(columns, filter=condition, params=list(params) or None)
        return table.to_pylist()  # type: ignore[no-any-return]

    async def _row(self, names: Names, kind: str) -> dict[str, Any] | None:
        object_id = DELIMITER.join(names)
        rows = await self._rows("object_id = ? AND object_type = ?", object_id, kind)
        return rows[0] if rows else None

    async def _below(self, namespace: Names, kind: str) -> list[str]:
        """The last names of what is in a namespace.

        Raises:
            NotFoundError: there is no such namespace.
        """
        if namespace:
            await self._check_namespace(namespace)
        prefix = DELIMITER.join((*namespace, ""))
        rows = await self._rows("object_type = ? AND starts_with(object_id, ?)", kind, prefix)
        names = [row["object_id"].removeprefix(prefix) for row in rows]
        return [name for name in names if DELIMITER not in name]

    async def _check_namespace(self, names: Names) -> None:
        if names and await self._row(names, "namespace") is None:
            raise NotFoundError(f"catalog {self.uri!r}: no namespace {shown(names)!r}")

    async def _add(
        self, names: Names, kind: str, location: str | None, metadata: str | None
    ) -> None:
        """Add a row, in one commit that fails where the name is taken meanwhile."""
        row = {
            "object_id": DELIMITER.join(names),
            "object_type": kind,
            "location": location,
            "metadata": metadata,
            "base_objects": None,
        }
        manifest = await self._manifest()
        if manifest is None:
            place = self._place(MANIFEST)
            with suppress(AlreadyExistsError):
                await write_dataset(
                    SCHEMA.empty_table(),
                    place.uri,
                    storage_options=place.storage_options,
                    session=self._session,
                )
            manifest = await self._manifest()
            assert manifest is not None
        merge = manifest.merge_insert("object_id").when_matched_fail()
        try:
            await merge.when_not_matched_insert_all().execute([row], schema=SCHEMA)
        except InvalidInputError as error:
            if await self._row(names, kind) is None:
                raise
            raise _taken(self.uri, names, kind) from error

    async def list_namespaces(self, parent: Names) -> list[str]:
        return await self._below(parent, "namespace")

    async def create_namespace(self, names: Names, properties: Mapping[str, str]) -> None:
        await self._check_namespace(names[:-1])
        metadata = json.dumps(dict(properties)) if properties else None
        if await self._row(names, "namespace") is not None:
            raise _taken(self.uri, names, "namespace")
        await self._add(names, "namespace", None, metadata)

    async def drop_namespace(self, names: Names) -> None:
        inside = await self._below(names, "table") or await self._below(names, "namespace")
        if inside:
            raise InvalidInputError(
                f"catalog {self.uri!r}: namespace {shown(names)!r} is not empty: it has "
                f"{sorted(inside)[0]!r}"
            )
        manifest = await self._manifest()
        assert manifest is not None
        await manifest.delete("object_id = ?", params=[DELIMITER.join(names)])

    async def list_tables(self, namespace: Names) -> list[str]:
        names = set(await self._below(namespace, "table"))
        if not namespace:
            folders = await list_folders(
                self.uri, storage_options=self._options, session=self._session
            )
            names |= {folder.removesuffix(SUFFIX) for folder in folders if folder.endswith(SUFFIX)}
        return list(names)

    async def find(self, names: Names) -> Place:
        row = await self._row(names, "table")
        if row is not None:
            return self._place(_checked(row["location"], names))
        if len(names) == 1 and names[0] in await self.list_tables(()):
            return self._place(names[0] + SUFFIX)
        raise TableNotFoundError(f"catalog {self.uri!r}: no table {shown(names)!r}")

    async def begin(self, names: Names) -> Place:
        await self._check_namespace(names[:-1])
        if await self._row(names, "table") is not None:
            raise _taken(self.uri, names, "table")
        if len(names) == 1:  # its folder is its name: writing finds out whether that is taken
            return await self._new_in_root(names[0])
        # A folder of its own, whatever happens to those of other attempts.
        return self._place(f"{uuid.uuid4().hex[:8]}_{DELIMITER.join(names)}")

    async def _new_in_root(self, name: str) -> Place:
        if name in await self.list_tables(()):
            raise _taken(self.uri, (name,), "table")
        return self._place(name + SUFFIX)

    async def finish(self, names: Names, place: Place) -> None:
        if len(names) > 1:
            await self._add(names, "table", self._folder(place), None)

    async def abandon(self, names: Names, place: Place) -> None:
        if len(names) > 1:  # nobody knows this folder
            with suppress(NotFoundError):
                await self._drop(place)

    async def drop(self, names: Names) -> None:
        place = await self.find(names)
        await self._forget(names)
        await self._drop(place)

    async def rename(self, names: Names, new: Names) -> None:
        old = await self.find(names)
        place = await self.begin(new)
        if names[0] + SUFFIX == self._folder(old):
            await move_table(
                old.uri, place.uri, storage_options=self._options, session=self._session
            )
            await self._forget(names)
            await self.finish(new, place)
            return
        manifest = await self._manifest()
        assert manifest is not None
        await manifest.update(
            {"object_id": "?"},
            "object_id = ?",
            params=[DELIMITER.join(new), DELIMITER.join(names)],
        )

    async def _forget(self, names: Names) -> None:
        """Delete the row of a table, if it has one."""
        manifest = await self._manifest()
        if manifest is not None:
            await manifest.delete("object_id = ?", params=[DELIMITER.join(names)])

    async def _drop(self, place: Place) -> None:
        await drop(place.uri, storage_options=place.storage_options, session=self._session)


def _taken(uri: str, names: Names, kind: str) -> AlreadyExistsError:
    return AlreadyExistsError(f"catalog {uri!r}: there is a {kind} {shown(names)!r} already")


def _checked(location: Any, names: Names) -> str:
    """The folder of a table, which is below the catalog's.

    Raises:
        CorruptFileError: it is not.
    """
    text = str(location or "")
    path = posixpath.normpath(text)
    if not text or "://" in text or path.startswith(("/", "..")) or path == ".":
        raise CorruptFileError(
            f"{MANIFEST}: table {shown(names)!r} is at {location!r}; expected a folder below"
        )
    return path
