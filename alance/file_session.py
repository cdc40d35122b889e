"""FileSession: the files of one folder, of Lance and others, by their paths in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from alance.checks import check_count
from alance.deferred import Deferred
from alance.errors import CorruptFileError, InvalidInputError, NotFoundError
from alance.file.budgets import BUFFER_BYTES, PAGE_BYTES
from alance.files import FileReader, FileWriter
from alance.format.plans import ByteRange
from alance.io.uri import clean_path, join
from alance.ops.version.objects import copy_object
from alance.session import Session, open_store

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from typing import Unpack

    import pyarrow as pa

    from alance.file_version import FileVersion
    from alance.io.store import Store
    from alance.ops.blobs import writers
    from alance.ops.blobs.writers import DedicatedBlobWriter, PackedBlobWriter
    from alance.session import StoreArguments

else:
    writers = Deferred("alance.ops.blobs.writers")


class ListResult(NamedTuple):
    """What lies directly in a folder, as paths in the session's folder; sorted.

    Attributes:
        common_prefixes: the folders.
        objects: the files.
    """

    common_prefixes: list[str]
    objects: list[str]


class FileSession:
    """The files below one folder of a store. Immutable; safe to share among tasks.

        files = alance.FileSession.open("s3://bucket/folder")
        await files.upload_file("rows.lance", "day/rows.lance")
        table = await (await files.open_reader("day/rows.lance")).to_table()

    Paths are relative to the folder: `/` between their parts, none of them empty, `.` or `..`.
    All calls share the store and its connections.
    """

    __slots__ = ("_folder", "_session", "_store")

    def __init__(self, session: Session, store: Store, folder: str) -> None:
        self._session = session
        self._store = store
        self._folder = folder  # inside the store

    def __repr__(self) -> str:
        return f"FileSession({self._store.root + self._folder!r})"

    @classmethod
    def open(
        cls, base_path: str | os.PathLike[str], **place: Unpack[StoreArguments]
    ) -> FileSession:
        """The files of a folder, by URI or path; it need not be there. Sends no request.

        Args:
            base_path: the folder; with `store`, a path inside it.
            store, storage_options, session: as for `dataset`.

        Raises:
            InvalidInputError: a bad URI or option.
        """
        return cls(*open_store(base_path, **place))

    async def open_reader(self, path: str, columns: Sequence[str] | None = None) -> FileReader:
        """A reader of a Lance file; cost and errors like those of `FileReader.open`.

        Args:
            columns: that it has; None: all.
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
        """A writer of a Lance file; arguments and errors like those of `FileWriter.open`."""
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
        """A writer of an object beside a data file that holds several blobs; sends no request.

        Args:
            path: of the data file, which ends in `.lance`.
            blob_id: of the object, from 1 on, one for each object of the data file.
        """
        await self._session.engine.pool.load(writers)
        return writers.PackedBlobWriter(self._session.engine, self._location(path), blob_id)

    async def open_dedicated_blob_writer(self, path: str, blob_id: int) -> DedicatedBlobWriter:
        """A writer of an object beside a data file that is one blob; as of packed ones."""
        await self._session.engine.pool.load(writers)
        return writers.DedicatedBlobWriter(self._session.engine, self._location(path), blob_id)

    async def contains(self, path: str) -> bool:
        """Whether there is such a file; a folder is none. Cost: one HEAD.

        Raises:
            StoreError: the store failed.
        """
        try:
            await self._session.engine.scheduler.size(self._location(path), reason="contains")
        except NotFoundError:
            return False
        return True

    async def list(self, path: str | None = None) -> Sequence[str]:
        """Paths of all files below a folder, at any depth, sorted; none where it is missing.

        Cost: a LIST for a thousand files; memory for all their names.

        Args:
            path: of the folder; None: the session's.

        Raises:
            StoreError: the store failed.
        """
        metas = self._session.engine.scheduler.list(self._below(path), reason="list files")
        return sorted([self._shown(meta.path) async for meta in metas])

    async def list_with_delimiter(self, path: str | None = None) -> ListResult:
        """What lies directly in a folder; arguments, cost and errors like those of `list`."""
        folders, objects = await self._session.engine.scheduler.list_level(
            self._below(path), reason="list files"
        )
        return ListResult(
            [self._shown(location) for location in folders],
            [self._shown(location) for location in objects],
        )

    async def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Some bytes of a file, as they are there now. Cost: one GET, none for no bytes.

        Raises:
            InvalidInputError: the file ends before.
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
            # Of what may be replaced nothing is kept: in bulk, the block cache is passed by.
            (content,) = await self._session.engine.scheduler.read(
                [piece], reason="read range", bulk=True
            )
        except CorruptFileError as error:
            raise InvalidInputError(f"{length} bytes from {offset} on: {error}") from error
        return bytes(content)

    async def delete_file(self, path: str) -> None:
        """Delete a file. Cost: one HEAD and one DELETE.

        Raises:
            NotFoundError: no such file.
            StoreError: the store failed.
        """
        location = self._location(path)
        await self._session.engine.scheduler.size(location, reason="delete")
        await self._store.delete([location.removeprefix(self._store.root)])

    async def upload_file(self, local_path: str | os.PathLike[str], remote_path: str) -> None:
        """Copy a file of this machine to the store; what was there is replaced by the whole.

        Cost: one PUT, of large files one for each part. Memory: a piece of 8 MiB, and the parts
        that are under way.

        Raises:
            NotFoundError: no such local file.
            StoreError: the store failed; no part of the file is there.
        """
        local, path = self._session.engine.registry.open(local_path)
        await self._copy(local.root + path, self._location(remote_path), "upload")

    async def download_file(self, remote_path: str, local_path: str | os.PathLike[str]) -> None:
        """Copy a file of the store to this machine; it appears as a whole, or not at all.

        Missing folders are made; a file that was there is replaced. Cost: one HEAD, and a GET for
        each 8 MiB, of which a piece is in memory.

        Raises:
            NotFoundError: no such file.
            StoreError: the store or the disk failed.
        """
        local, path = self._session.engine.registry.open(local_path)
        await self._copy(self._location(remote_path), local.root + path, "download")

    async def _copy(self, source: str, target: str, reason: str) -> None:
        engine = self._session.engine
        num_bytes = await engine.scheduler.size(source, reason=reason)
        await copy_object(engine, source, target, num_bytes, reason)

    def _inside(self, path: str) -> str:
        """A path inside the store.

        Raises:
            InvalidInputError: it is empty, or leads elsewhere.
        """
        inside = clean_path(path)
        if not inside:
            raise InvalidInputError(f"path {path!r}: expected that of a file in {self!r}")
        return join(self._folder, inside)

    def _location(self, path: str) -> str:
        return self._store.root + self._inside(path)

    def _below(self, path: str | None) -> str:
        """The location of a folder."""
        return self._store.root + join(self._folder, clean_path(path or ""))

    def _shown(self, location: str) -> str:
        return location.removeprefix(self._store.root + self._folder).lstrip("/")
