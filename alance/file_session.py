"""FileSession: Lance files and other files of a folder, by their relative paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from alance.base.calls import public
from alance.base.checks import check_count
from alance.base.deferred import Deferred
from alance.base.hints import Hinted
from alance.errors import CorruptFileError, InvalidInputError, NotFoundError
from alance.file.budgets import BUFFER_BYTES, PAGE_BYTES
from alance.files import FileReader, FileWriter
from alance.format.plans import ByteRange
from alance.io.stores.uri import clean_path, join
from alance.ops.version.objects import copy_object
from alance.session import Session, open_store

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from typing import Unpack

    import pyarrow as pa

    from alance.file_version import FileVersion
    from alance.io.stores.store import Store
    from alance.ops.blobs import writers
    from alance.ops.blobs.writers import DedicatedBlobWriter, PackedBlobWriter
    from alance.session import StoreArguments

else:
    writers = Deferred("alance.ops.blobs.writers")


class ListResult(NamedTuple):
    """Folders and files directly in a folder, as sorted paths relative to the session's folder.

    Attributes:
        common_prefixes: paths of the folders.
        objects: paths of the files.
    """

    common_prefixes: list[str]
    objects: list[str]


@public
class FileSession(Hinted):
    """Files below a folder of a store. Immutable; safe to share among tasks.

        files = alance.FileSession.open("s3://bucket/folder")
        await files.upload_file("rows.lance", "day/rows.lance")
        table = await (await files.open_reader("day/rows.lance")).to_table()

    Paths are relative to the folder. Their parts are separated by `/`, and none is empty, `.` or
    `..`. All calls share the store and its connections.
    """

    __slots__ = ("_folder", "_session", "_store")

    def __init__(self, session: Session, store: Store, folder: str) -> None:
        self._session = session
        self._store = store
        self._folder = folder  # path inside the store

    def __repr__(self) -> str:
        return f"FileSession({self._store.root + self._folder!r})"

    @classmethod
    def open(
        cls, base_path: str | os.PathLike[str], **place: Unpack[StoreArguments]
    ) -> FileSession:
        """Return a session for the files of a folder, which need not exist. Sends no request.

        Args:
            base_path: URI or path of the folder; with `store`, a path inside the store.
            place: `store`, `storage_options` and `session`, as for `dataset`.

        Raises:
            InvalidInputError: a bad URI or option.
        """
        return cls(*open_store(base_path, **place))

    async def open_reader(self, path: str, columns: Sequence[str] | None = None) -> FileReader:
        """Open a Lance file.

        Cost: as `FileReader.open`.

        Args:
            path: path of the file.
            columns: names of the columns that the reader has; None: all.

        Raises:
            NotFoundError, InvalidInputError, CorruptFileError: as from `FileReader.open`.
        """
        return await FileReader.open(
            self._inside(path), columns=columns, store=self._store, session=self._session
        )

    def open_writer(
        self,
        path: str,
        schema: pa.Schema | None = None,
        *,
        version: str | FileVersion = "stable",
        page_bytes: int = PAGE_BYTES,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> FileWriter:
        """Return a writer of a Lance file. Sends no request.

        Args:
            path: path of the file.
            schema, version, page_bytes: as for `FileWriter.open`.
            buffer_bytes: maximum bytes of rows that wait for their pages, in all columns; 40 MiB.

        Raises:
            InvalidInputError, UnsupportedError: as from `FileWriter.open`.
        """
        return FileWriter.open(
            self._inside(path),
            schema,
            version=version,
            page_bytes=page_bytes,
            buffer_bytes=buffer_bytes,
            store=self._store,
            session=self._session,
        )

    async def open_packed_blob_writer(self, path: str, blob_id: int) -> PackedBlobWriter:
        """Return a writer of an object for several blobs of a data file.

        Cost: no request.

        Args:
            path: path of the data file, which ends in `.lance`.
            blob_id: number of the object, at least 1, unique among the objects of the data file.

        Raises:
            InvalidInputError: an invalid path or number.
        """
        await self._session.engine.pool.load(writers)
        return writers.PackedBlobWriter(self._session.engine, self._location(path), blob_id)

    async def open_dedicated_blob_writer(self, path: str, blob_id: int) -> DedicatedBlobWriter:
        """Return a writer of an object for a single blob of a data file.

        Cost: no request.

        Args:
            path, blob_id: as for `open_packed_blob_writer`.

        Raises:
            InvalidInputError: an invalid path or number.
        """
        await self._session.engine.pool.load(writers)
        return writers.DedicatedBlobWriter(self._session.engine, self._location(path), blob_id)

    async def contains(self, path: str) -> bool:
        """Return True if there is a file at a path; a folder does not count.

        Cost: one HEAD.

        Args:
            path: path of the file.

        Raises:
            InvalidInputError: the path leads outside the folder.
            StoreError: the store failed.
        """
        try:
            await self._session.engine.scheduler.size(self._location(path), reason="contains")
        except NotFoundError:
            return False
        return True

    async def list(self, path: str | None = None) -> Sequence[str]:
        """Return the sorted paths of all files below a folder, at any depth; empty if the folder is
        missing.

        Cost: a LIST per thousand files. Memory: all their names.

        Args:
            path: path of the folder; None for the session's folder.

        Raises:
            InvalidInputError: the path leads outside the folder.
            StoreError: the store failed.
        """
        metas = self._session.engine.scheduler.list(self._below(path), reason="list files")
        return sorted([self._shown(meta.path) async for meta in metas])

    async def list_with_delimiter(self, path: str | None = None) -> ListResult:
        """Return the folders and files directly in a folder.

        Cost: a LIST per thousand folders and files.

        Args:
            path: as for `list`.

        Raises:
            InvalidInputError, StoreError: as from `list`.
        """
        folders, objects = await self._session.engine.scheduler.list_level(
            self._below(path), reason="list files"
        )
        return ListResult(
            [self._shown(location) for location in folders],
            [self._shown(location) for location in objects],
        )

    async def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Read bytes of a file, bypassing all caches.

        Cost: a GET per 8 MiB; none for no bytes.

        Args:
            path: path of the file.
            offset: offset of the first byte.
            length: number of bytes.

        Raises:
            InvalidInputError: the file ends before the end of the range, a number is negative, or
                the path leads outside the folder.
            NotFoundError: no such file.
            StoreError: the store failed.
        """
        check_count("offset", offset, least=0)
        check_count("length", length, least=0)
        location = self._location(path)
        if not length:
            return b""
        piece = ByteRange(location, offset, offset + length)
        try:
            # `bulk` bypasses the block cache, because files may be replaced.
            (content,) = await self._session.engine.scheduler.read(
                [piece], reason="read range", bulk=True
            )
        except CorruptFileError as error:
            raise InvalidInputError(f"{length} bytes from {offset} on: {error}") from error
        return bytes(content)

    async def delete_file(self, path: str) -> None:
        """Delete a file.

        Cost: one HEAD and one DELETE.

        Args:
            path: path of the file.

        Raises:
            NotFoundError: no such file.
            InvalidInputError: the path leads outside the folder.
            StoreError: the store failed.
        """
        location = self._location(path)
        await self._session.engine.scheduler.size(location, reason="delete")
        await self._store.delete([location.removeprefix(self._store.root)])

    async def upload_file(self, local_path: str | os.PathLike[str], remote_path: str) -> None:
        """Copy a local file to the store. An existing file is replaced as a whole.

        Cost: one PUT; for a file above 8 MiB a request that begins the upload, one per 8 MiB, and
        one that completes it. Memory: a piece of 8 MiB, and the parts that are under way.

        Args:
            local_path: path of the local file.
            remote_path: path of the copy, in the session's folder.

        Raises:
            NotFoundError: no such local file.
            InvalidInputError: `remote_path` leads outside the folder.
            StoreError: the store failed; no part of the file is visible.
        """
        local, path = self._session.engine.registry.open(local_path)
        await self._copy(local.root + path, self._location(remote_path), "upload")

    async def download_file(self, remote_path: str, local_path: str | os.PathLike[str]) -> None:
        """Copy a file from the store to a local file, which appears as a whole or not at all.

        Missing folders are created, and an existing file is replaced.

        Cost: one HEAD, and a GET per 8 MiB. Memory: a piece of 8 MiB.

        Args:
            remote_path: path of the file, in the session's folder.
            local_path: path of the local copy.

        Raises:
            NotFoundError: no such file.
            InvalidInputError: `remote_path` leads outside the folder.
            StoreError: the store or the disk failed.
        """
        local, path = self._session.engine.registry.open(local_path)
        await self._copy(self._location(remote_path), local.root + path, "download")

    async def _copy(self, source: str, target: str, reason: str) -> None:
        engine = self._session.engine
        num_bytes = await engine.scheduler.size(source, reason=reason)
        await copy_object(engine, source, target, num_bytes, reason)

    def _inside(self, path: str) -> str:
        """Return a path inside the store.

        Raises:
            InvalidInputError: the path is empty, or leads outside the folder.
        """
        inside = clean_path(path)
        if not inside:
            raise InvalidInputError(f"path {path!r}: expected that of a file in {self!r}")
        return join(self._folder, inside)

    def _location(self, path: str) -> str:
        return self._store.root + self._inside(path)

    def _below(self, path: str | None) -> str:
        """Return the location of a folder."""
        return self._store.root + join(self._folder, clean_path(path or ""))

    def _shown(self, location: str) -> str:
        return location.removeprefix(self._store.root + self._folder).lstrip("/")
