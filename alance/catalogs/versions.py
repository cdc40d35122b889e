"""Versions of a table that its catalog manages: an external store made of the catalog's calls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from alance.catalogs.backend import shown
from alance.errors import (
    AlanceError,
    AlreadyExistsError,
    NotFoundError,
    RetryableConflictError,
    StoreError,
    UnsupportedError,
)
from alance.format.table.naming import TREE, VERSIONS, NamingScheme, parse_manifest_name
from alance.versioning.external_store import STAGED_MARK, Entry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable

    from alance.catalogs.backend import Names
    from alance.catalogs.client import ClientBackend

PAGE_VERSIONS: Final = 1000  # versions in one answer
MAX_VERSION_PAGES: Final = 10_000  # answers for one table
READS: Final = 3  # attempts to read versions while the catalog is overloaded
FIRST_PAUSE_S: Final = 0.2  # pause after the first failed read; it doubles
_log: Final = logging.getLogger(__name__)


class TableVersions:
    """Versions of a table and its branches, by the calls of a Lance namespace.

    The catalog moves a staged manifest to its final name when it creates the version. So nothing is
    left to finalise.

    A pickle does not contain the client, because clients may hold secrets. So an unpickled dataset
    can read its own version, but no other.

    Args:
        backend: client of the catalog; None after unpickling.
        names: names of the table.
        path: path of the table's folder inside its object store.
    """

    def __init__(self, backend: ClientBackend | None, names: Names, path: str) -> None:
        self._backend = backend
        self._names = names
        self._path = path

    def __repr__(self) -> str:
        return f"TableVersions({shown(self._names)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return TableVersions, (None, self._names, self._path)

    async def get(self, table: str, version: int) -> Entry | None:
        """Return a version of a table; None if there is none. See `ExternalStore.get`."""
        try:
            answer = await self._read("describe_table_version", table, version=version)
        except NotFoundError:
            return None
        return self._entry(table, field_of(answer, "version"))

    async def get_latest(self, table: str) -> Entry | None:
        """Return the newest version; None if there is none. See `ExternalStore.get_latest`."""
        async for page in self._pages(table, limit=1):
            return max(page, key=lambda entry: entry.version)
        return None

    async def entries(self, table: str) -> list[Entry]:
        """Return all versions. Cost: a call per thousand versions."""
        return [entry async for page in self._pages(table) for entry in page]

    async def put_if_not_exists(self, table: str, entry: Entry) -> None:
        """Publish a staged manifest as a version. See `ExternalStore.put_if_not_exists`."""
        name = entry.path[:-STAGED_MARK].rpartition("/")[2]
        parsed = parse_manifest_name(name)
        assert parsed is not None
        try:
            await self._call(
                "create_table_version",
                table,
                version=entry.version,
                manifest_path=entry.path,
                manifest_size=entry.num_bytes,
                naming_scheme="V1" if parsed.scheme is NamingScheme.V1 else "V2",
            )
        except RetryableConflictError as error:  # the protocol's code for a version that exists
            raise AlreadyExistsError(str(error)) from error

    async def put_if_exists(self, table: str, entry: Entry) -> None:
        """Do nothing: the catalog names the final manifest from the beginning."""

    async def delete_table(self, table: str) -> None:
        """Remove all versions of a deleted table or branch; the catalog still has the name."""
        await self._delete(table, [(0, -1)])

    async def delete_versions(self, table: str, versions: Collection[int]) -> None:
        """Remove versions whose manifests were deleted, if the catalog still lists them.

        A failure is only logged, because reads skip versions without a manifest.
        """
        try:
            listed = {entry.version for entry in await self.entries(table)}
            gone = sorted(listed.intersection(versions))
            if gone:
                await self._delete(table, [(version, version + 1) for version in gone])
        except AlanceError as error:
            _log.warning("%r: versions that were cleaned up stay listed: %s", self, error)

    async def _delete(self, table: str, ranges: Iterable[tuple[int, int]]) -> None:
        """Remove ranges of versions. The end of a range is exclusive; -1 means no end."""
        parts = [{"start_version": start, "end_version": stop} for start, stop in ranges]
        with suppress(NotFoundError):
            await self._call("batch_delete_table_versions", table, ranges=parts)

    async def _pages(self, table: str, limit: int = PAGE_VERSIONS) -> AsyncIterator[list[Entry]]:
        """Yield pages of versions that are not empty, newest first; none if there is no table."""
        token: str | None = None
        for _ in range(MAX_VERSION_PAGES):
            try:
                answer = await self._read(
                    "list_table_versions", table, descending=True, limit=limit, page_token=token
                )
            except NotFoundError:
                return
            versions = field_of(answer, "versions")
            if not isinstance(versions, list):
                raise self._wrong(f"expected a list of versions, found {type(versions).__name__}")
            if versions:
                yield [self._entry(table, version) for version in versions]
            following = field_of(answer, "page_token")
            if not following or following == token:
                return
            token = following
        raise self._wrong("the pages of versions do not end")

    async def _read(self, method: str, table: str, **fields: Any) -> Any:
        """Call a method that changes nothing; try again while the catalog is overloaded."""
        for number in range(READS - 1):
            try:
                return await self._call(method, table, **fields)
            except StoreError as error:
                if not error.retryable:
                    raise
            await asyncio.sleep(FIRST_PAUSE_S * 2**number)
        return await self._call(method, table, **fields)

    async def _call(self, method: str, table: str, **fields: Any) -> Any:
        if self._backend is None:
            raise UnsupportedError(
                f"versions of {shown(self._names)!r}: a pickled dataset does not have its catalog; "
                f"open the table in this process by `alance.connect(...)`"
            )
        branch = self._branch(table)
        return await self._backend.ask(method, self._names, branch=branch, **fields)

    def _branch(self, table: str) -> str | None:
        """Return the branch whose folder has this path; None for main."""
        below = table.removeprefix(self._path).lstrip("/")
        return below.removeprefix(f"{TREE}/") or None

    def _entry(self, table: str, version: Any) -> Entry:
        """Check a version in an answer, and return its entry with the path inside alance's store.

        Clients may see the store below another root, so only the end of the path counts.

        Raises:
            StoreError: the answer does not follow the protocol, or the manifest is elsewhere.
        """
        number, path = field_of(version, "version"), field_of(version, "manifest_path")
        size = field_of(version, "manifest_size")
        if not isinstance(number, int) or not isinstance(path, str):
            raise self._wrong(f"expected a version and its manifest_path, found {version!r}")
        folder, _, name = path.rpartition("/")
        parsed = parse_manifest_name(name)
        inside = f"{self._path.rpartition('/')[2]}{table.removeprefix(self._path)}/{VERSIONS}"
        is_there = f"/{folder}".endswith(f"/{inside.lstrip('/')}")
        if parsed is None or parsed.version != number or not is_there:
            raise self._wrong(
                f"the manifest of version {number} is at {path!r}; expected one in {inside!r}"
            )
        return Entry(number, f"{table}/{VERSIONS}/{name}".lstrip("/"), size)

    def _wrong(self, what: str) -> StoreError:
        catalog = "" if self._backend is None else f"catalog {self._backend.uri}: "
        return StoreError(f"{catalog}versions of {shown(self._names)!r}: {what}")


def field_of(answer: Any, name: str) -> Any:
    """Return a field of an answer (a message or a mapping); None if it has no such field."""
    if isinstance(answer, Mapping):
        return answer.get(name)
    return getattr(answer, name, None)
