"""Catalogs of databases and tables of any format, in which some tables are Lance's.

A namespace of one name is a database, and the root has no tables. A table of Lance is marked in the
catalog by its property `table_type=lance`, as by lance-namespace, and its location is the table's
folder; all other tables are left out. A table's entry is added after its data is written, by a call
that fails if the name is in use, and is removed before the data is deleted. So a name always stands
for a whole table. If the answer to a call is lost, the entries are looked up; if that fails as
well, the data stays, and a second removal by the same catalog deletes it.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from alance.base.records import dataclass
from alance.catalogs.backend import Place, changed, shown
from alance.distributed.folders import CHECKED_AT_ONCE, TABLE_SUFFIX, is_table
from alance.errors import (
    AccessError,
    AlanceError,
    AlreadyExistsError,
    CommitStateUnknownError,
    InvalidInputError,
    NotFoundError,
    StoreError,
    TableNotFoundError,
)
from alance.io.loop.futures import Threads, in_thread
from alance.io.loop.tasks import each
from alance.io.stores.uri import quoted
from alance.ops.upkeep.place import drop, drop_named

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from alance.catalogs.backend import Names
    from alance.io.opening.credentials import StorageOptions
    from alance.session import Session

T = TypeVar("T")

# Not the loop's own threads: `asyncio.run` waits for these, and so for a server that hangs.
_threads: Final = Threads("alance-catalogs")
ANSWER_S: Final = 180.0  # seconds for a call, with the retries of its client
TABLE_TYPE: Final = "table_type"
LANCE: Final = "lance"
# Statuses after which a server may still do what it was asked; None: it did not answer.
_OPEN_STATUS: Final = (None, 500, 502, 504)


@dataclass(frozen=True, slots=True)
class Entry:
    """Entry of a table in a metastore.

    Attributes:
        location: URI of the table's folder; empty if the entry has none.
        properties: texts by key.
    """

    location: str
    properties: Mapping[str, str]

    @property
    def is_lance(self) -> bool:
        """True if the table is one of Lance."""
        return self.properties.get(TABLE_TYPE, "").lower() == LANCE


class Metastore(Protocol):
    """Protocol of a client of a metastore. Its calls block, and are made in threads.

    Calls raise NotFoundError, AlreadyExistsError, AccessError, InvalidInputError or StoreError.
    """

    uri: str

    def databases(self) -> list[str]: ...

    def database(self, name: str) -> dict[str, str]:
        """Return the properties of a database, among them its `location`, if it has one."""
        ...

    def create_database(self, name: str, properties: Mapping[str, str]) -> None: ...

    def update_database(self, name: str, properties: Mapping[str, str]) -> None:
        """Replace all properties of a database."""
        ...

    def drop_database(self, name: str) -> None:
        """Remove a database that has no tables."""
        ...

    def tables(self, database: str) -> dict[str, Entry]:
        """Return the entries of all tables of a database, of any format."""
        ...

    def table(self, database: str, name: str) -> Entry: ...

    def add_table(self, database: str, name: str, location: str) -> None:
        """Add a table of Lance; its name must not be in use."""
        ...

    def remove_table(self, database: str, name: str) -> None: ...

    def rename_table(self, old: tuple[str, str], new: tuple[str, str]) -> None: ...


class MetastoreBackend:
    """Backend of a metastore.

    Args:
        metastore: its client.
        root: folder of the tables of databases without a location; None for no such folder.
        options: storage options of the tables.
    """

    def __init__(
        self,
        metastore: Metastore,
        root: str | None,
        options: StorageOptions | None,
        session: Session,
    ) -> None:
        self._metastore = metastore
        self._root = root
        self._options = options
        self._session = session
        self._adding: dict[str, asyncio.Task[None]] = {}  # by URI: calls of cancelled callers
        # By table: data whose entry may be removed, and that is not deleted yet.
        self._dropping: dict[tuple[str, str], Place] = {}

    @property
    def uri(self) -> str:
        return self._metastore.uri

    async def list_namespaces(self, parent: Names) -> list[str]:
        if parent:
            await self._call(self._metastore.database, self._database(parent))
            return []
        return await self._call(self._metastore.databases)

    async def create_namespace(self, names: Names, properties: Mapping[str, str]) -> None:
        if len(names) > 1:
            raise InvalidInputError(
                f"catalog {self.uri!r}: namespace {shown(names)!r}: expected one name: databases "
                f"contain tables only"
            )
        await self._call(self._metastore.create_database, names[0], properties)

    async def describe_namespace(self, names: Names) -> dict[str, str]:
        return await self._call(self._metastore.database, self._database(names))

    async def update_namespace(
        self, names: Names, properties: Mapping[str, str | None], *, replace: bool
    ) -> dict[str, str]:
        name = self._database(names)
        before = await self._call(self._metastore.database, name)
        after = changed({} if replace else before, properties)
        await self._call(self._metastore.update_database, name, after)
        return after

    async def drop_namespace(self, names: Names) -> None:
        name = self._database(names)
        if await self._call(self._metastore.tables, name):
            raise InvalidInputError(
                f"catalog {self.uri!r}: namespace {name!r} is not empty: it has tables, "
                f"of Lance or of another format"
            )
        await self._call(self._metastore.drop_database, name)

    async def list_tables(
        self, namespace: Names, *, include_declared: bool, check_hidden: bool = True
    ) -> list[str]:
        """Return the names of tables.

        Cost: a call; with `include_declared` False also that of `is_table` for each table.
        """
        if not namespace:
            return []
        entries = await self._call(self._metastore.tables, self._database(namespace))
        places = {name: entry.location for name, entry in entries.items() if entry.is_lance}
        if include_declared:
            return [*places]
        written = await each(self._is_table, places.values(), at_once=CHECKED_AT_ONCE)
        return [name for name, is_written in zip(places, written, strict=True) if is_written]

    async def find(self, names: Names) -> Place:
        entry = await self._entry(names)
        if not entry.is_lance or not entry.location:
            kind = entry.properties.get(TABLE_TYPE, "another")
            raise TableNotFoundError(
                f"catalog {self.uri!r}: {shown(names)!r} is no table of Lance, but of {kind} format"
            )
        return Place(entry.location, self._options)

    async def begin(self, names: Names) -> Place:
        database, name = self._own(names)
        folder = await self._folder(database)
        await self._check_free(names)
        # A unique folder: another attempt, or a table that was deregistered, may be beside it.
        inside = f"{name}-{uuid.uuid4().hex[:8]}{TABLE_SUFFIX}"
        return Place(f"{folder}/{quoted(inside) if '://' in folder else inside}", self._options)

    async def finish(self, names: Names, place: Place) -> None:
        adding = asyncio.create_task(self._add(*self._own(names), place.uri))
        try:
            await asyncio.shield(adding)
        except asyncio.CancelledError:
            self._adding[place.uri] = adding  # a call in a thread goes on
            raise

    async def _add(self, database: str, name: str, uri: str) -> None:
        """Add a table.

        Raises:
            AlreadyExistsError: there is another entry of that name.
            CommitStateUnknownError: the entry may be added still.
        """
        try:
            await self._call(self._metastore.add_table, database, name, uri)
        except (AlreadyExistsError, StoreError) as error:
            is_open = isinstance(error, StoreError) and error.status in _OPEN_STATUS
            if not is_open and not isinstance(error, AlreadyExistsError):
                raise
            try:  # a client's retry finds the entry of its first attempt
                entry = await self._call(self._metastore.table, database, name)
            except AlanceError as unknown:
                if not is_open:
                    raise error from None
                raise CommitStateUnknownError(
                    f"catalog {self.uri!r}: it is not known if the table {f'{database}.{name}'!r} "
                    f"was added; its data is in {uri!r}: {error}"
                ) from unknown
            if not entry.location.rstrip("/").endswith(uri.rpartition("-")[2]):
                raise

    async def abandon(self, names: Names, place: Place) -> None:
        adding = self._adding.pop(place.uri, None)
        if adding is not None:
            await asyncio.wait([adding])
            if isinstance(adding.exception(), CommitStateUnknownError):
                return
            if adding.exception() is None:
                await self._drop(self._own(names), place)
                return
        await drop(
            place.uri, ignore_missing=True, storage_options=self._options, session=self._session
        )

    async def drop(self, names: Names) -> None:
        own = self._own(names)
        try:
            place, has_entry = await self.find(names), True
        except TableNotFoundError:
            pending = self._dropping.get(own)
            if pending is None or await self._is_named(pending.uri):
                raise
            place, has_entry = pending, False
        await self._drop(own, place, has_entry=has_entry)

    async def _drop(self, own: tuple[str, str], place: Place, *, has_entry: bool = True) -> None:
        """Remove the entry of a table, if it has one, and delete its data."""
        forget = partial(self._remove, own, place) if has_entry else None
        await drop_named(place.uri, forget, storage_options=self._options, session=self._session)
        self._dropping.pop(own, None)

    async def _remove(self, own: tuple[str, str], place: Place) -> None:
        """Remove the entry of a table; until `_drop` ends, its place is in `_dropping`.

        Raises:
            NotFoundError: another caller has removed or renamed the entry.
            StoreError: the entry is not removed, or it is not known if it is.
        """
        self._dropping[own] = place
        try:
            await self._call(self._metastore.remove_table, *own)
        except AccessError:
            del self._dropping[own]
            raise
        except (NotFoundError, StoreError) as error:  # perhaps an answer was lost
            try:
                is_named = await self._is_named(place.uri)
            except AlanceError:
                text = f"; if its entry is removed, its data is still in {place.uri!r}"
                error.add_note(f"call drop_table({'.'.join(own)!r}) again{text}")
                raise error from None
            if not is_named:
                return
            if isinstance(error, NotFoundError):
                del self._dropping[own]
            raise

    async def _is_named(self, uri: str) -> bool:
        """True if any entry has this location. Cost: a call, and one for each database."""
        for database in await self._call(self._metastore.databases):
            entries = await self._call(self._metastore.tables, database)
            if any(entry.location.rstrip("/") == uri.rstrip("/") for entry in entries.values()):
                return True
        return False

    async def rename(self, names: Names, new: Names) -> None:
        old, target = self._own(names), self._own(new)
        place = await self.find(names)
        await self._check_free(new)
        try:
            await self._call(self._metastore.rename_table, old, target)
        except (AlreadyExistsError, NotFoundError, StoreError) as error:
            try:  # perhaps an answer was lost
                entry = await self._call(self._metastore.table, *target)
            except AlanceError:
                raise error from None
            if entry.location != place.uri:
                raise
            with suppress(NotFoundError):
                await self._call(self._metastore.remove_table, *old)

    async def register(self, names: Names, location: str) -> None:
        own = self._own(names)
        uri = _absolute(location)
        if not await self._is_table(uri):
            raise TableNotFoundError(
                f"catalog {self.uri!r}: location {location!r}: there is no table in {uri!r}"
            )
        await self._call(self._metastore.add_table, *own, uri)

    async def deregister(self, names: Names) -> str:
        place = await self.find(names)
        # A removal of this data that had failed is off: what has no name now is to be kept.
        pending = {own for own, other in self._dropping.items() if other.uri == place.uri}
        for own in pending:
            del self._dropping[own]
        await self._call(self._metastore.remove_table, *self._own(names))
        return place.uri

    async def _is_table(self, location: str) -> bool:
        return await is_table(location, storage_options=self._options, session=self._session)

    async def _entry(self, names: Names) -> Entry:
        if len(names) != 2:
            raise TableNotFoundError(f"catalog {self.uri!r}: no table {shown(names)!r}: {_TWO}")
        return await self._call(self._metastore.table, *names)

    async def _check_free(self, names: Names) -> None:
        """Raise AlreadyExistsError if there is a table of that name, of any format."""
        with suppress(TableNotFoundError):
            await self._entry(names)
            raise AlreadyExistsError(
                f"catalog {self.uri!r}: there is a table {shown(names)!r} already"
            )

    async def _folder(self, database: str) -> str:
        """Return the folder of a database's new tables.

        Raises:
            NotFoundError: there is no such database.
            InvalidInputError: the database has no location, and the catalog has no root.
        """
        properties = await self._call(self._metastore.database, database)
        if location := properties.get("location", "").rstrip("/"):
            return location
        if self._root is not None:
            inside = quoted(database) if "://" in self._root else database
            return f"{self._root.rstrip('/')}/{inside}"
        raise InvalidInputError(
            f"catalog {self.uri!r}: namespace {database!r} has no location for tables; set it by "
            f"update_namespace({database!r}, {{'location': 's3://bucket/folder'}}), or connect by "
            f"a URI that ends in ?root=s3://bucket/folder"
        )

    def _own(self, names: Names) -> tuple[str, str]:
        """Return the database and the name of a new table.

        Raises:
            InvalidInputError: `names` is not a pair of a database and a table.
        """
        if len(names) != 2:
            raise InvalidInputError(f"catalog {self.uri!r}: table {shown(names)!r}: {_TWO}")
        return names[0], names[1]

    def _database(self, names: Names) -> str:
        if len(names) != 1:
            raise NotFoundError(f"catalog {self.uri!r}: no namespace {shown(names)!r}")
        return names[0]

    async def _call(self, call: Callable[..., T], *arguments: object) -> T:
        """Call the metastore in a thread.

        Raises:
            StoreError: no answer after `ANSWER_S`.
        """
        try:
            async with asyncio.timeout(ANSWER_S):
                loop = asyncio.get_running_loop()
                return await in_thread(_threads.executor(), partial(call, *arguments), loop)
        except TimeoutError as error:
            raise StoreError(
                f"catalog {self.uri}: no answer within {ANSWER_S:.0f} s", retryable=True
            ) from error


def _absolute(location: str) -> str:
    return location if "://" in location else os.path.abspath(location)


_TWO: Final = "expected two names, of a database and of a table in it"
