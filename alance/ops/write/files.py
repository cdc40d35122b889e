"""Writing of rows to data files, split by rows and bytes, with a few uploads at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Final

from alance.base.progress import Stage
from alance.base.records import dataclass
from alance.errors import AlanceError
from alance.file.write.page_writer import older_writers, writer_of
from alance.file_version import FileVersion
from alance.format.encode.container import MANIFEST_NUMBERS
from alance.format.proto import table_pb2
from alance.format.table.flags import MANAGED_KEY
from alance.format.table.naming import data_file_name
from alance.io.loop.tasks import all_of
from alance.ops.blobs.files import BlobFiles
from alance.ops.write.options import Limits

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence

    import pyarrow as pa

    from alance.file.write.writer import DataFileWriter, WrittenFile
    from alance.format.schema import Schema
    from alance.format.table.fragment import DatasetBasePath
    from alance.io.reading.engine import Engine
    from alance.io.stores.store import Store
    from alance.ops.write.options import FragmentWriteProgress
    from alance.session import Session
    from alance.versioning.table import Table

# Maximum columns, over all files, whose records the event loop builds, at 80 ns each.
FEW_RECORDS: Final = 4096
FILES_ENDING: Final = 2  # files whose last bytes are uploaded while the next file is written
FILES_TOGETHER: Final = 64  # small files put at once, as many as stores accept
FILES_TOGETHER_BYTES: Final = 16 << 20  # bytes of these files
FEW_FILES: Final = 2  # files that one thread writes together with the manifest that names them
FEW_BYTES: Final = 1 << 20  # bytes of these files


@dataclass(slots=True)
class _File:
    """Data file with its writer and location."""

    writer: DataFileWriter
    name: str
    location: str
    base: DatasetBasePath | None = None
    blobs: BlobFiles | None = None
    written: WrittenFile | None = None
    ending: asyncio.Task[None] | None = None  # task that several small files may share
    is_handed: bool = False


@dataclass(slots=True)
class DataFiles:
    """Writer of rows to new files of a table. For one task at a time.

    The files are not part of the table until their fragments are committed. Call `discard` if
    `publish` is not called or fails.

    Args:
        hooks: called at the beginning and the end of each file; None: nothing is called.
        bases: the table's base paths, for URIs of blobs.
        targets: base paths for the files, used in turn; None: the table's folder.
    """

    session: Session
    table: Table
    schema: Schema
    version: FileVersion
    limits: Limits = field(default_factory=Limits)
    hooks: FragmentWriteProgress | None = None
    buffer_bytes: int | None = None
    bases: Mapping[int, DatasetBasePath] = field(default_factory=dict)
    targets: Sequence[DatasetBasePath | None] = (None,)
    _files: list[_File] = field(default_factory=list, init=False)
    _current: _File | None = field(default=None, init=False)
    _ended_rows: int = field(default=0, init=False)
    _ended_bytes: int = field(default=0, init=False)
    _small: list[tuple[_File, bytes]] = field(default_factory=list, init=False)
    _small_bytes: int = field(default=0, init=False)
    _endings: deque[asyncio.Task[None]] = field(default_factory=deque, init=False)
    _engine: Engine = field(init=False)
    _has_blobs: bool = field(init=False)

    def __post_init__(self) -> None:
        self._has_blobs = any(leaf.is_blob_v2 for leaf in self.schema.walk())
        self._engine = self.session.engine

    @property
    def num_rows(self) -> int:
        """Number of rows written so far."""
        return self._ended_rows + (self._current.writer.num_rows if self._current else 0)

    @property
    def num_files(self) -> int:
        """Number of files started so far."""
        return len(self._files)

    @property
    def num_bytes(self) -> int:
        """Bytes of the files so far, plus bytes of rows that are not yet encoded."""
        return self._ended_bytes + (self._current.writer.num_bytes if self._current else 0)

    async def write(self, batch: pa.RecordBatch) -> None:
        """Write rows with the columns of the schema, in its order.

        Raises:
            InvalidInputError: the format cannot hold a value.
            StoreError: the store failed.
        """
        start = 0
        while start < batch.num_rows:
            if (file := self._current) is None:
                await self._engine.pool.load(*older_writers(self.version))
                file = self._open()
            writer = file.writer
            room = self.limits.max_rows_per_file - writer.num_rows
            fits = start == 0 and batch.num_rows <= room
            part = batch if fits else batch.slice(start, room)
            await writer.write(part)
            start += part.num_rows
            if (
                writer.num_rows >= self.limits.max_rows_per_file
                or writer.num_bytes >= self.limits.max_bytes_per_file
            ):
                await self._seal(file)

    async def cut(self) -> None:
        """End the current file and all before it; later rows start another file.

        Raises:
            StoreError: the store failed.
        """
        if self._current is not None:
            await self._seal(self._current)
        await self._end_small()

    async def seal(self) -> list[table_pb2.DataFragment]:
        """End all files; return one fragment for each. Last bytes may still be uploading.

        Small files of a local table wait in memory for `handed` or `publish`.

        Raises:
            StoreError: the store failed.
        """
        if self._current is not None:
            await self._seal(self._current)
        if not self._may_wait:
            await self._end_small()
        num_columns = sum([len(file.written.columns) for file in self._files if file.written])
        if num_columns <= FEW_RECORDS:
            return [*map(self._fragment, self._files)]
        return await self._engine.pool.run(lambda: [*map(self._fragment, self._files)])

    async def write_all(
        self, batches: AsyncIterable[pa.RecordBatch], num_rows: int | None
    ) -> list[table_pb2.DataFragment]:
        """Write the rows of all batches, then `seal`.

        Args:
            num_rows: number of rows of all batches; None: unknown.

        Raises:
            InvalidInputError: the format cannot hold a value.
            StoreError: the store failed. Errors of `batches` are also raised.
        """
        with Stage("write", num_rows, "rows") as stage:
            async for batch in batches:
                await self.write(batch)
                stage.at(self.num_rows)
            return await self.seal()

    @property
    def _may_wait(self) -> bool:
        """True if all files are small enough to be written together with the manifest."""
        is_own = not (self.table.is_remote or any(self.targets) or self.hooks)
        return (
            is_own
            and len(self._files) == len(self._small) <= FEW_FILES
            and self._small_bytes <= FEW_BYTES
        )

    @property
    def is_waiting(self) -> bool:
        """True if no file is being uploaded after `seal`."""
        return not self._endings

    def handed(self) -> list[tuple[str, bytes]]:
        """Hand over small files that are not yet written: the location and content of each."""
        small, self._small = self._small, []
        for file, _ in small:
            file.is_handed = True
        return [(file.location, content) for file, content in small]

    def before(self) -> tuple[Awaitable[object] | None, Sequence[tuple[str, bytes]]]:
        """Return `data` and `named` for the commit of the sealed files; see `PendingCommit`."""
        return (None, self.handed()) if self.is_waiting else (self.publish(), ())

    async def publish(self) -> None:
        """Wait until all files are stored.

        Raises:
            StoreError: the store failed.
        """
        await self._end_small()
        await all_of([asyncio.shield(ending) for ending in self._endings])

    async def discard(self) -> None:
        """Remove all files. Errors of the store are ignored; see `io.loop.background`."""
        await self._engine.background.discard(self._discard(), self.table.store)

    async def _discard(self) -> None:
        endings = {file.ending for file in self._files if file.ending is not None}
        for ending in endings:
            ending.cancel()
        await asyncio.gather(*endings, return_exceptions=True)
        await asyncio.gather(*(self._remove(file) for file in self._files), return_exceptions=True)
        self._files.clear()
        self._small.clear()
        self._current = None

    def _open(self) -> _File:
        name = data_file_name()
        base = self.targets[len(self._files) % len(self.targets)]
        location = self.table.new_data_file(name, base)
        session, engine = self.session, self._engine
        store, path = engine.registry.resolve(location)
        upload = store.open_upload(path)
        upload.background = self._engine.background
        writer = writer_of(self.version)(
            upload,
            self.schema,
            self.version,
            engine.pool,
            threads=session.decode_threads,
            buffer_bytes=self.buffer_bytes,
            statistics=self.limits.statistics,
        )
        blobs = None
        if self._has_blobs:
            options = self.limits.blobs
            blobs = BlobFiles(
                engine,
                self.table,
                location,
                options,
                self.bases,
                self.schema.metadata.get(MANAGED_KEY) == "true",
            )
            writer.attach(blobs)
        self._current = _File(writer, name, location, base, blobs)
        self._files.append(self._current)
        if self.hooks is not None:
            named = table_pb2.DataFile(path=name)
            self.hooks.begin(table_pb2.DataFragment(files=[named]))
        return self._current

    async def _seal(self, file: _File) -> None:
        """End a file. Small files wait, because a store writes several almost as fast as one."""
        self._current = None
        if file.writer.is_small:
            content, file.written = await file.writer.encode()
            self._small.append((file, content))
            self._small_bytes += len(content)
            if len(self._small) >= FILES_TOGETHER or self._small_bytes >= FILES_TOGETHER_BYTES:
                await self._end_small()
        else:
            file.written = await file.writer.seal()
            await self._end([file], file.writer.publish)
        self._ended_rows += file.written.num_rows
        self._ended_bytes += file.written.num_bytes

    async def _end_small(self) -> None:
        """Put the waiting small files."""
        small, self._small, self._small_bytes = self._small, [], 0
        if small:
            await self._end([file for file, _ in small], partial(self._put, small))

    async def _put(self, small: Sequence[tuple[_File, bytes]]) -> None:
        if len(small) == 1:  # by an upload, which removes the stored part if it is cancelled
            ((file, content),) = small
            await file.writer.publish(content)
            return
        by_store: dict[Store, list[tuple[str, bytes]]] = {}
        for file, content in small:
            store, path = self._engine.registry.resolve(file.location)
            by_store.setdefault(store, []).append((path, content))
        await all_of([store.put_many(objects) for store, objects in by_store.items()])

    async def _end(self, files: Sequence[_File], publish: Callable[[], Awaitable[None]]) -> None:
        """Start to publish files; wait if too many earlier files are still being published."""
        ending = asyncio.create_task(self._complete(files, publish))
        for file in files:
            file.ending = ending
        self._endings.append(ending)
        while len(self._endings) > FILES_ENDING:
            await asyncio.shield(self._endings[0])
            self._endings.popleft()

    async def _complete(
        self, files: Sequence[_File], publish: Callable[[], Awaitable[None]]
    ) -> None:
        await publish()
        if self.hooks is not None:
            for file in files:
                self.hooks.complete(self._fragment(file))

    async def _remove(self, file: _File) -> None:
        paths = [] if file.blobs is None else await file.blobs.abort()
        store, path = self._engine.registry.resolve(file.location)
        if file.ending is not None or file.is_handed:
            paths.append(path)
        try:
            await file.writer.abort()
        finally:
            if paths:
                with suppress(AlanceError):  # the files are orphans, which a cleanup removes
                    await store.delete(paths)

    def _fragment(self, file: _File) -> table_pb2.DataFragment:
        written = file.written
        assert written is not None
        data_file = data_file_of(file.name, self.version, written)
        if file.base is not None:
            data_file.base_id = file.base.id
        return table_pb2.DataFragment(files=[data_file], physical_rows=written.num_rows)


def data_file_of(name: str, version: FileVersion, written: WrittenFile) -> table_pb2.DataFile:
    """Return the record of a written data file."""
    major, minor = MANIFEST_NUMBERS[version]
    return table_pb2.DataFile(
        path=name,
        fields=list(written.columns),
        column_indices=written.columns.values() if version > FileVersion.V0_1 else (),
        file_major_version=major,
        file_minor_version=minor,
        file_size_bytes=written.num_bytes,
    )


def rows_of(fragments: Sequence[table_pb2.DataFragment]) -> int:
    """Return the number of rows of new fragments."""
    return sum(fragment.physical_rows for fragment in fragments)
