"""`connect()` and `Catalog`: tables by name."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Final, Literal

from alance.catalogs.backend import namespace_names, shown, table_names
from alance.checks import check_choice
from alance.datasets import Dataset, dataset
from alance.errors import (
    AlreadyExistsError,
    CommitStateUnknownError,
    InvalidInputError,
    NotFoundError,
)
from alance.session import Session
from alance.writing import write_dataset

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Unpack

    import pyarrow as pa

    from alance.catalogs.backend import Backend, Place, TableName
    from alance.io.credentials import StorageOptions
    from alance.ops.version.options import CommitArguments
    from alance.ops.write.sources import Data

ABANDON_S: Final = 60.0  # to undo what was begun
_log: Final = logging.getLogger(__name__)


async def connect(
    uri: str | os.PathLike[str] | object,
    *,
    headers: Mapping[str, str] | None = None,
    storage_options: StorageOptions | None = None,
    session: Session | None = None,
) -> Catalog:
    """Open a catalog of tables: a folder, or a server.

    A folder has its tables as `name.lance`, as LanceDB lays them out; a table `__manifest` in it,
    if there is one, has namespaces and the tables in them. A server speaks the REST protocol of
    Lance namespaces; it tells where tables are, and may give credentials for them, which are
    renewed before they expire.

    Cost: no request.

    Args:
        uri: a path or URI of a folder; `http://` or `https://`: that of a server; or an object with
            the methods of a `lance_namespace.LanceNamespace`, whose calls are made in threads.
        headers: of each request to a server, such as `Authorization`.
        storage_options: of a folder's store; those of tables of a server where it names none.
        session: shared scheduler, cache and limits; by default the event loop's own.

    Raises:
        InvalidInputError: a bad URI or option.
        UnsupportedError: a server, and its client is not installed (the extra `catalog`).
    """
    from alance.catalogs.client import ClientBackend, rest_client
    from alance.catalogs.directory import DirectoryBackend

    backend: Backend
    if not isinstance(uri, str | os.PathLike):
        backend = ClientBackend(uri, repr(uri), storage_options)
    elif str(uri).startswith(("http://", "https://")):
        client = rest_client(str(uri), dict(headers or {}))
        backend = ClientBackend(client, str(uri), storage_options)
    else:
        session = session or Session.of_loop()
        backend = DirectoryBackend(os.fspath(uri), storage_options, session)
    if headers and not isinstance(backend, ClientBackend):
        raise InvalidInputError("headers: of a server; a folder has none")
    return Catalog(backend, session)


class Catalog:
    """Tables by name, made by `connect`.

    A table is named by a text, `"users"`, or by texts, that of its namespace first:
    `("shop", "users")`. Names have no `/`, `\\` or `$`, and begin neither with a dot nor with `__`.
    """

    __slots__ = ("_backend", "_session")

    def __init__(self, backend: Backend, session: Session | None = None) -> None:
        self._backend = backend
        self._session = session

    def __repr__(self) -> str:
        return f"Catalog({self.uri!r})"

    @property
    def uri(self) -> str:
        """What it was connected to."""
        return self._backend.uri

    async def list_tables(
        self, namespace: TableName = (), *, include_declared: bool = True
    ) -> list[str]:
        """The names of the tables of a namespace, in order; by default those of the root.

        Cost: of a folder one LIST for each thousand tables, and a scan of `__manifest` if there is
        one; of a server a request a page.

        Args:
            include_declared: also names that another program has declared for tables that are not
                written yet; without them a folder is asked by one LIST more for each table.

        Raises:
            NotFoundError: no such namespace.
        """
        names = namespace_names(namespace)
        return sorted(await self._backend.list_tables(names, include_declared=include_declared))

    async def list_namespaces(self, parent: TableName = ()) -> list[str]:
        """The names of the namespaces in another, in order; by default those of the root.

        Raises:
            NotFoundError: no such namespace.
        """
        return sorted(await self._backend.list_namespaces(namespace_names(parent)))

    async def create_namespace(
        self, namespace: TableName, *, properties: Mapping[str, str] | None = None
    ) -> None:
        """Make a namespace.

        Args:
            properties: kept with it.

        Raises:
            AlreadyExistsError: it is there.
            NotFoundError: the namespace that it is to be in is not there.
        """
        names = _not_root(namespace)
        await self._backend.create_namespace(names, dict(properties or {}))

    async def drop_namespace(self, namespace: TableName) -> None:
        """Remove a namespace that is empty.

        Raises:
            NotFoundError: it is not there.
            InvalidInputError: it has tables or namespaces.
        """
        await self._backend.drop_namespace(_not_root(namespace))

    async def create_table(
        self,
        table: TableName,
        data: Data,
        *,
        mode: Literal["create", "overwrite", "append"] = "create",
        schema: pa.Schema | None = None,
        stable_row_ids: bool = False,
        **commit: Unpack[CommitArguments],
    ) -> Dataset:
        """Write rows as a new table, or to one that is there; see `alance.write_dataset`.

        For its other arguments, `place` says where the table is.

        Args:
            table: its name.
            data: anything that `write_dataset` takes.
            mode: `create`: there must be no table of that name; `overwrite` replaces its rows and
                schema, `append` adds rows; both make the table where there is none.

        Raises:
            AlreadyExistsError: there is one, and the mode is `create`.
            NotFoundError: the namespace is not there.
            InvalidInputError: a bad name, mode or data.
        """
        names = table_names(table)
        check_choice("mode", mode, ("create", "overwrite", "append"))
        is_new = True
        try:
            place = await self._backend.begin(names)
        except AlreadyExistsError:
            if mode == "create":
                raise
            place, is_new = await self._backend.find(names), False
        try:
            dataset = await write_dataset(
                data,
                place.uri,
                mode=mode,
                schema=schema,
                stable_row_ids=stable_row_ids,
                storage_options=place.storage_options,
                session=self._session,
                **commit,
            )
            if is_new:
                await self._backend.finish(names, place)
        except CommitStateUnknownError:
            raise  # it may be there
        except BaseException:
            if is_new:
                await self._abandon(names, place)
            raise
        return dataset

    async def _abandon(self, names: tuple[str, ...], place: Place) -> None:
        background = (self._session or Session.of_loop()).engine.background
        what = f"catalog {self.uri!r}: table {shown(names)!r}, which was not made"
        try:
            await background.finish(self._backend.abandon(names, place), ABANDON_S, what=what)
        except Exception as error:
            _log.warning("%s, is not undone: %s", what, error)

    async def open_table(self, table: TableName, *, version: int | str | None = None) -> Dataset:
        """Open a table at its latest version, or the one asked for.

        Cost: that of `place`, and of `alance.dataset`.

        Args:
            version: a number or a tag.

        Raises:
            TableNotFoundError: there is no table of that name.
            VersionNotFoundError: it has no such version or tag.
        """
        place = await self.place(table)
        return await dataset(
            place.uri,
            version=version,
            storage_options=place.storage_options,
            session=self._session,
        )

    async def table_exists(self, table: TableName) -> bool:
        """Whether there is a table of that name."""
        try:
            await self.place(table)
        except NotFoundError:
            return False
        return True

    async def place(self, table: TableName) -> Place:
        """Where a table is: its `uri` and `storage_options`, for calls that this class has not.

        Cost: of a folder a LIST to open `__manifest`, a scan of it if there is one, and a LIST for
        a table of the root; of a server a request.

        Raises:
            TableNotFoundError: there is no table of that name.
        """
        return await self._backend.find(table_names(table))

    async def rename_table(self, table: TableName, new: TableName) -> None:
        """Give a table another name, or move it to another namespace.

        Of a folder, tables of the root are moved with their data, which on stores other than local
        disks is copied; see `alance.distributed.move_table`. All others stay where they are.

        Raises:
            TableNotFoundError: it is not there.
            AlreadyExistsError: the new name is taken.
        """
        await self._backend.rename(table_names(table), table_names(new))

    async def drop_table(self, table: TableName) -> None:
        """Delete a table with all its versions.

        Raises:
            TableNotFoundError: it is not there.
        """
        await self._backend.drop(table_names(table))


def _not_root(namespace: TableName) -> tuple[str, ...]:
    names = namespace_names(namespace)
    if not names:
        raise InvalidInputError(f"namespace: expected a name, not {shown(names)}")
    return names
