"""`connect()` and `Catalog`: tables by name."""

from __future__ import annotations

import logging
import os
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, Literal

from alance.base.calls import public
from alance.base.checks import check_choice, check_text, check_type, did_you_mean
from alance.base.deferred import Deferred
from alance.base.hints import Hinted
from alance.catalogs.backend import (
    changed,
    namespace_names,
    properties_of,
    shown,
    table_names,
)
from alance.datasets import Dataset, dataset
from alance.errors import (
    AlanceError,
    AlreadyExistsError,
    CommitStateUnknownError,
    InvalidInputError,
    NotFoundError,
    TableNotFoundError,
)
from alance.ops.version.options import MAX_ROWS_PER_FILE
from alance.session import Session
from alance.writing import write_dataset

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from typing import Unpack

    import pyarrow as pa

    from alance.catalogs.backend import Backend, Place, TableName
    from alance.file_version import FileVersion
    from alance.io.opening.credentials import StorageOptions
    from alance.ops.version.options import CommitArguments
    from alance.ops.write import sources
    from alance.ops.write.options import WriteProgress
    from alance.ops.write.sources import Data
else:
    sources = Deferred("alance.ops.write.sources")

ABANDON_S: Final = 60.0  # seconds to undo the beginning of a table
_log: Final = logging.getLogger(__name__)


@public
async def connect(
    uri: str | os.PathLike[str] | object,
    *,
    headers: Mapping[str, str] | None = None,
    storage_options: StorageOptions | None = None,
    session: Session | None = None,
) -> Catalog:
    """Open a catalog of tables: a folder, a server, AWS Glue, or Unity Catalog.

    A folder contains its tables as `name.lance`, like LanceDB; a table `__manifest` in it, if there
    is one, lists namespaces and the tables in them. A server speaks the REST protocol of Lance
    namespaces. It returns the places of tables, and may return credentials for them, which are
    renewed before they expire. Databases of Glue and schemas of Unity are namespaces, and their
    tables of Lance are those with the property `table_type=lance`.

    Cost: no request.

    Args:
        uri: a path or URI of a folder; an `http://` or `https://` URI of a server; an object with
            the methods of a `lance_namespace.LanceNamespace`, whose calls are made in threads;
            `glue://[CATALOG_ID][?region=...&endpoint=...&root=...]`, or boto3's client for Glue;
            `unity://HOST[:PORT]/CATALOG[?root=...]`, or `unity+http://` without encryption.
        headers: headers of each request to a server, such as `Authorization`.
        storage_options: options of a folder's store; for a server, options of tables for which it
            returns none; for Glue and Unity, options of all tables.
        session: shared scheduler, cache and limits; None: the session of the event loop.

    Raises:
        InvalidInputError: a bad URI or option.
        MissingPackageError: a server's client (the extra `catalog`) or boto3 (the extra `glue`) is
            not installed.
    """
    from alance.catalogs.client import ClientBackend, rest_client
    from alance.catalogs.directory import DirectoryBackend
    from alance.catalogs.metastore import MetastoreBackend
    from alance.catalogs.metastores import open_metastore

    backend: Backend
    if (opened := await open_metastore(uri, headers or {})) is not None:
        session = session or Session.of_loop()
        backend = MetastoreBackend(*opened, storage_options, session)
    elif not isinstance(uri, str | os.PathLike):
        backend = ClientBackend(uri, repr(uri), storage_options)
    elif str(uri).startswith(("http://", "https://")):
        client = rest_client(str(uri), dict(headers or {}))
        backend = ClientBackend(client, str(uri), storage_options)
    else:
        session = session or Session.of_loop()
        backend = DirectoryBackend(os.fspath(uri), storage_options, session)
    if headers and isinstance(backend, DirectoryBackend):
        raise InvalidInputError("headers: of a server; a folder has none")
    return Catalog(backend, session)


@public
class Catalog(Hinted):
    r"""Tables by name, opened by `connect`.

    A table is named by a text, `"users"`, or by texts, its namespace first: `("shop", "users")`.
    Names contain no `/`, `\` or `$`, and begin neither with a dot nor with `__`.
    """

    __slots__ = ("_backend", "_session")

    def __init__(self, backend: Backend, session: Session | None = None) -> None:
        self._backend = backend
        self._session = session

    def __repr__(self) -> str:
        return f"Catalog({self.uri!r})"

    @property
    def uri(self) -> str:
        """URI or path of the folder or server; of a client's object its `repr`."""
        return self._backend.uri

    async def list_tables(
        self, namespace: TableName = (), *, include_declared: bool = True
    ) -> list[str]:
        """Return the sorted names of the tables of a namespace.

        Cost: from a server, a request per page of names. In a folder, a LIST, and a GET and a scan
        of `__manifest` if it exists. The root also costs a LIST per thousand tables, and a HEAD per
        table to learn if the table is deregistered. With 5 tables or more, each LIST of a thousand
        objects saves the HEADs of the tables that it passes; after a LIST that passes fewer than
        16 tables, the other tables get HEADs.

        Args:
            namespace: default: the root.
            include_declared: True to include names that were declared for tables that are not yet
                written. In a folder, False costs a LIST per table that no LIST of a thousand
                objects has passed.

        Raises:
            NotFoundError: no such namespace.
            InvalidInputError: a bad name.
        """
        names = namespace_names(namespace)
        return sorted(await self._backend.list_tables(names, include_declared=include_declared))

    async def list_namespaces(self, parent: TableName = ()) -> list[str]:
        """Return the sorted names of the namespaces directly in another namespace.

        Cost: in a folder a LIST, and a GET and a scan of `__manifest` if it exists; from a server a
        request per page.

        Args:
            parent: default: the root.

        Raises:
            NotFoundError: no such namespace.
            InvalidInputError: a bad name.
        """
        return sorted(await self._backend.list_namespaces(namespace_names(parent)))

    async def create_namespace(
        self, namespace: TableName, *, properties: Mapping[str, str] | None = None
    ) -> None:
        """Create a namespace.

        Cost: in a folder a LIST and a GET to open `__manifest`, its creation if it is missing, a
        scan of it, and an append to it; from a server a request.

        Args:
            namespace: names of the enclosing namespaces, then its own name.
            properties: texts by key, stored with the namespace.

        Raises:
            AlreadyExistsError: the namespace already exists.
            NotFoundError: no such parent namespace.
            InvalidInputError: a bad name, or the root.
        """
        names = _not_root(namespace)
        await self._backend.create_namespace(names, changed({}, properties_of(properties)))

    async def describe_namespace(self, namespace: TableName) -> dict[str, str]:
        """Return the properties of a namespace: texts by key.

        Cost: in a folder a LIST and a GET to open `__manifest`, and a scan of it; from a server a
        request.

        Args:
            namespace: names of the enclosing namespaces, then its own name.

        Raises:
            NotFoundError: no such namespace.
            InvalidInputError: a bad name, or the root.
            UnsupportedError: the client has no such call.
        """
        return await self._backend.describe_namespace(_not_root(namespace))

    async def update_namespace(
        self,
        namespace: TableName,
        properties: Mapping[str, str | None],
        *,
        replace: bool = False,
    ) -> dict[str, str]:
        """Change properties of a namespace in a folder, Glue or Unity, and return all properties.

        In a folder, changes of other properties at the same time are kept; in Glue and Unity, the
        last change counts. Servers have no call for this: their namespaces get properties only by
        `create_namespace`.

        Cost: as `describe_namespace`, and an update of `__manifest`; again for each change that
        somebody else makes at the same time.

        Args:
            namespace: names of the enclosing namespaces, then its own name.
            properties: new texts by key; None removes a key.
            replace: True to remove all other keys.

        Raises:
            NotFoundError: no such namespace.
            InvalidInputError: a bad name, the root, or a key or value that is not text.
            UnsupportedError: the catalog is a server or client.
            RetryableConflictError: others change the properties all the time.
        """
        names, changes = _not_root(namespace), properties_of(properties, removes=True)
        return await self._backend.update_namespace(names, changes, replace=replace)

    async def drop_namespace(self, namespace: TableName) -> None:
        """Remove an empty namespace.

        Cost: in a folder a LIST and a GET to open `__manifest`, a scan of it, and a delete from it;
        from a server a request.

        Args:
            namespace: names of the enclosing namespaces, then its own name.

        Raises:
            NotFoundError: no such namespace.
            InvalidInputError: the namespace has tables or namespaces, or is the root.
        """
        await self._backend.drop_namespace(_not_root(namespace))

    async def create_table(
        self,
        table: TableName,
        data: Data | None = None,
        *,
        mode: Literal["create", "overwrite", "append"] = "create",
        exist_ok: bool = False,
        schema: pa.Schema | None = None,
        stable_row_ids: bool = False,
        data_storage_version: str | FileVersion | None = None,
        max_rows_per_file: int = MAX_ROWS_PER_FILE,
        progress: WriteProgress | None = None,
        **commit: Unpack[CommitArguments],
    ) -> Dataset:
        """Write rows as a new table, or to an existing one.

        For other arguments of `alance.write_dataset`, call it with the result of `place`.
        Cost: as `place` and `alance.write_dataset`; in a namespace of a folder also an append to
        `__manifest`.

        Args:
            table: name of the table.
            data: anything that `write_dataset` accepts; None: no rows, which needs `schema`.
            mode: `create`: the name must be unused; `overwrite` replaces rows and schema, `append`
                adds rows; both create the table if it does not exist.
            exist_ok: with `create`: True to open an existing table, without writing anything.
            schema, stable_row_ids, data_storage_version, max_rows_per_file, progress: as for
                `write_dataset`.
            commit: see `alance.types.CommitArguments`.

        Raises:
            AlreadyExistsError: the table exists, the mode is `create`, and `exist_ok` is False.
            NotFoundError: no such namespace.
            InvalidInputError: a bad name, mode or data; neither data nor schema.
        """
        names = table_names(table)
        check_choice("mode", mode, ("create", "overwrite", "append"))
        if data is None:
            sources.check_schema(schema)
            if schema is None:
                raise InvalidInputError("data: expected rows, or for a table without rows `schema`")
            data = schema.empty_table()
        is_new = True
        try:
            place = await self._backend.begin(names)
        except AlreadyExistsError:
            if mode == "create" and exist_ok:
                return await self.open_table(table)
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
                data_storage_version=data_storage_version,
                max_rows_per_file=max_rows_per_file,
                progress=progress,
                storage_options=place.storage_options,
                manifest_store=place.manifest_store,
                session=self._session,
                **commit,
            )
            if is_new:
                await self._backend.finish(names, place)
        except CommitStateUnknownError:
            raise  # the table may exist
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

    async def open_table(
        self,
        table: TableName,
        *,
        version: int | str | None = None,
        follow: float | None = None,
        rests: bool = True,
    ) -> Dataset:
        """Open a table at its latest version, at a requested version, or as a handle that follows
        it.

        Cost: as `place` and `alance.dataset`.

        Args:
            table: its name.
            version: a number or a tag; None: the latest.
            follow: seconds that the dataset may be behind the table, as for `alance.dataset`. The
                catalog looks the name up once: a table that moves has to be opened again.
            rests: as for `alance.dataset`.

        Raises:
            TableNotFoundError: no table of that name.
            VersionNotFoundError: no such version or tag.
            InvalidInputError: `follow` beside `version`, or not a number above 0.
        """
        place = await self.place(table)
        return await dataset(
            place.uri,
            version=version,
            follow=follow,
            rests=rests,
            storage_options=place.storage_options,
            manifest_store=place.manifest_store,
            session=self._session,
        )

    async def table_exists(self, table: TableName) -> bool:
        """Return True if there is a table of that name.

        Cost: as `place`.

        Args:
            table: its name.

        Raises:
            InvalidInputError: a bad name.
            StoreError: the store failed.
        """
        try:
            await self._backend.find(table_names(table))
        except NotFoundError:
            return False
        return True

    async def place(self, table: TableName) -> Place:
        """Return the `uri`, `storage_options` and `manifest_store` of a table, for functions
        outside this class.

        Cost: in a folder a LIST, a GET and a scan of `__manifest` if it exists, and a LIST for a
        table of the root; from a server a request. If there is no such table, also that of
        `list_tables`, for the names that the error suggests.

        Args:
            table: its name.

        Raises:
            TableNotFoundError: no table of that name.
            InvalidInputError: a bad name.
        """
        names = table_names(table)
        async with self._suggesting(names):
            return await self._backend.find(names)

    @asynccontextmanager
    async def _suggesting(self, names: tuple[str, ...]) -> AsyncIterator[None]:
        """Add similar names to the error for a missing table, at the cost of listing names."""
        try:
            yield
        except TableNotFoundError as error:
            hint = ""
            with suppress(AlanceError):
                others = await self._backend.list_tables(
                    names[:-1], include_declared=True, check_hidden=False
                )
                hint = did_you_mean(names[-1], set(others) - {names[-1]})
            if not hint:
                raise
            raise TableNotFoundError(f"{error}{hint}", error.uri) from error

    async def rename_table(self, table: TableName, new: TableName) -> None:
        """Rename a table, or move it to another namespace.

        Tables in the root of a folder are moved with their data, which is copied on stores other
        than local disks; see `alance.distributed.move_table`. The data of other tables is not
        moved.

        Cost: as `place`, twice, and an update of `__manifest`, or a move of the data; from a server
        a request.

        Args:
            table: its name.
            new: its new name.

        Raises:
            TableNotFoundError: no table of that name.
            NotFoundError: there is no namespace for the new name.
            AlreadyExistsError: the new name is in use.
            InvalidInputError: a bad name.
        """
        async with self._suggesting(table_names(table)):
            await self._backend.rename(table_names(table), table_names(new))

    async def drop_table(self, table: TableName) -> None:
        """Delete a table with all its versions.

        Cost: as `place` and `alance.drop`; in a namespace of a folder also a delete from
        `__manifest`; from a server a request.

        Args:
            table: its name.

        Raises:
            TableNotFoundError: no table of that name.
            InvalidInputError: a bad name, or tags record shallow clones that read its files.
            StoreError: the store or server failed; the table may be deleted in part, or may have
                lost its name. Glue and Unity: a second call by the same catalog deletes the rest.
        """
        async with self._suggesting(table_names(table)):
            await self._backend.drop(table_names(table))

    async def register_table(self, table: TableName, location: str | os.PathLike[str]) -> None:
        """Give a name to a table that is already written.

        In a folder, `__manifest` gets a row. A table `name.lance` of the root that was deregistered
        gets its name back. A table may have several names; `drop_table` of any deletes its data. A
        server may accept a location without looking for a table there.

        Cost: in a folder as `place`, a LIST to see the table, and an append to `__manifest`, or a
        DELETE for a table of the root that was deregistered; from a server a request.

        Args:
            table: its name; the namespace must exist.
            location: in a folder, the path or URI of the table's folder below it, or the path
                relative to it; for a server, as it expects it.

        Raises:
            AlreadyExistsError: the name is in use.
            TableNotFoundError: there is no table at the location.
            NotFoundError: no such namespace.
            InvalidInputError: a bad name, or a location outside the folder.
            UnsupportedError: the server or client cannot register tables.
            StoreError: the store or server failed; if the answer of a server was lost, the table
                may be registered.
        """
        names = table_names(table)
        check_type("location", location, str | os.PathLike, "the path or URI of a table's folder")
        text = os.fspath(location)
        check_text("location", text)
        await self._backend.register(names, text)

    async def deregister_table(self, table: TableName) -> str | None:
        """Remove the name of a table, and keep its data.

        In a folder, the table's row in `__manifest` is deleted. A table `name.lance` of the root
        is hidden by the object `.lance-deregistered` in its folder, until it is registered again.

        Cost: in a folder as `place`, and a delete from `__manifest`, or a LIST and a PUT for a
        table of the root; from a server a request.

        Args:
            table: its name.

        Returns:
            The path or URI of the table's folder; None if a server does not say it.

        Raises:
            TableNotFoundError: no table of that name, or its name is only declared.
            InvalidInputError: a bad name.
            UnsupportedError: the server or client cannot deregister tables.
        """
        async with self._suggesting(table_names(table)):
            return await self._backend.deregister(table_names(table))


def _not_root(namespace: TableName) -> tuple[str, ...]:
    names = namespace_names(namespace)
    if not names:
        raise InvalidInputError(f"namespace: expected a name, not {shown(names)}")
    return names
