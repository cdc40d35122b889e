"""FileReader and FileWriter: a single Lance file, independent of any table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.base.calls import public
from alance.base.checks import check_count, check_type, list_hint
from alance.base.deferred import Deferred
from alance.base.hints import Hinted
from alance.errors import InvalidInputError, UnsupportedError
from alance.file.budgets import PAGE_BYTES
from alance.file.older.entry import holds_older
from alance.file.open.columns import ScanStates
from alance.file.open.files import from_tail, open_file
from alance.file.open.plain import columns_of
from alance.file.rows.fragment import FileSource, open_fragment
from alance.file_version import FileVersion
from alance.format.container import TAIL_BYTES
from alance.format.numbers import distinct
from alance.format.schema import Schema
from alance.io.loop.generators import outermost
from alance.ops.read.take import as_positions
from alance.ops.version.first_use import OLDER_FILES
from alance.session import Session, open_store

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Sequence
    from typing import Self, Unpack

    from alance.file.open import describe as description
    from alance.file.open.describe import FileDescription
    from alance.file.rows.fragment import OpenFragment
    from alance.file.rows.tasks import FragmentTask
    from alance.file.write import page_writer
    from alance.file.write.writer import DataFileWriter, WrittenFile
    from alance.format.container import Container
    from alance.format.plans import Plan
    from alance.io.stores.store import Store
    from alance.io.stores.upload import Upload
    from alance.ops.write import sources
    from alance.ops.write.sources import Data
    from alance.session import StoreArguments
else:
    description = Deferred("alance.file.open.describe")
    sources = Deferred("alance.ops.write.sources")
    page_writer = Deferred("alance.file.write.page_writer")

FILE_BATCH_ROWS: Final = 64 << 10  # default number of rows per batch
NOT_OPEN: Final = "expected a writer inside of its `async with` block"


@public
class FileReader(Hinted):
    """A Lance data file. Immutable; safe to share among tasks."""

    __slots__ = ("_container", "_num_rows", "_schema", "_session", "_source", "_store")

    def __init__(
        self,
        session: Session,
        source: FileSource,
        container: Container,
        schema: Schema,
        num_rows: int,
        store: Store,
    ) -> None:
        self._session = session
        self._store = store  # otherwise the registry may drop the store
        self._source = source
        self._container = container
        self._schema = schema
        self._num_rows = num_rows

    def __repr__(self) -> str:
        return f"FileReader({self._source.location!r}, {self.num_rows} rows)"

    @classmethod
    async def open(
        cls,
        uri: str | os.PathLike[str],
        *,
        columns: Sequence[str] | None = None,
        **place: Unpack[StoreArguments],
    ) -> FileReader:
        """Open a file by URI or path.

        Cost: one GET of its last 64 KiB, rarely a second.

        Args:
            uri: URI or path of the file; with `store`, a path inside the store.
            columns: names of the columns that the reader has; None: all.
            place: `store`, `storage_options` and `session`, as for `dataset`.

        Raises:
            NotFoundError: there is no such object.
            InvalidInputError: a bad URI or option, or the file has no such column.
            CorruptFileError: the object is not a Lance file.
        """
        session, opened, path = open_store(uri, **place)
        engine = session.engine
        location = opened.root + path
        tail, file_bytes = await engine.scheduler.read_tail(
            location, TAIL_BYTES, reason="open file"
        )

        if holds_older(tail):
            await engine.pool.load(*OLDER_FILES)

        def plan() -> Plan[tuple[Container, Schema, int, dict[int, int]]]:
            container = yield from open_file(location, file_bytes, engine.cache)
            descriptor = yield from container.read_descriptor()
            schema = Schema.from_protobuf(descriptor.schema.fields, descriptor.schema.metadata)
            places = yield from columns_of(container, schema, engine.cache)
            return container, schema, descriptor.length, places

        container, schema, num_rows, places = await engine.drive(
            from_tail(plan(), location, tail, file_bytes - len(tail)), "open file"
        )
        schema = _projected(schema, columns)
        source = FileSource(location, file_bytes, places)
        return cls(session, source, container, schema, num_rows, opened)

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the file."""
        return self._schema.to_arrow()

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self._num_rows

    @property
    def version(self) -> FileVersion:
        """File format version."""
        return self._container.version

    @property
    def num_global_buffers(self) -> int:
        """Number of global buffers; buffer 0 is the schema."""
        return len(self._container.buffers)

    async def global_buffer(self, index: int) -> bytes:
        """Return the content of a global buffer.

        Cost: one GET, unless the buffer is in the last 64 KiB of the file.

        Args:
            index: number of the buffer; 0 is the schema.

        Raises:
            InvalidInputError: the file has no such buffer.
        """
        if not 0 <= index < self.num_global_buffers:
            raise InvalidInputError(
                f"global buffer {index}: the file has {self.num_global_buffers}"
            )
        plan = self._container.read_buffer(index)
        return bytes(await self._session.engine.drive(plan, "global buffer"))

    async def describe(self) -> FileDescription:
        """Describe columns and pages of the file: their encodings and their bytes.

        Cost: none if the metadata of all columns is in the file's last 64 KiB, as is usual; else
        one GET.

        Raises:
            UnsupportedError: the file has version 0.1.
            CorruptFileError: the metadata contradict the file.
        """
        await self._session.engine.pool.load(description)
        return await self._session.engine.drive(
            description.describe(
                self._container, self._schema, self.num_rows, dict(self._source.columns)
            ),
            "describe file",
        )

    async def take(self, rows: object, columns: Sequence[str] | None = None) -> pa.Table:
        """Read rows by position, in the given order; repeated positions give repeated rows.

        Cost: one round of requests, none for a file of up to 64 KiB; before it a round for page
        tables that are not cached and not in the last 64 KiB of the file.

        Args:
            rows: positions from 0; a list, numpy or Arrow array of integers.
            columns: names or dotted paths; None: all.

        Raises:
            InvalidInputError: a position beyond the end, or an unknown column.
            CorruptFileError: the file contradicts the format.
        """
        positions = as_positions(rows, "rows")
        if len(positions) and positions.max() >= self.num_rows:
            raise InvalidInputError(f"row {positions.max()}: the file has {self.num_rows}")
        unique, places = distinct(positions)
        engine = self._session.engine

        def plan() -> Plan[FragmentTask]:
            opened = yield from self._open(columns)
            return (yield from opened.take(unique, engine.cache))

        task = await engine.drive(plan(), "take")
        return await engine.decode(
            lambda: pa.Table.from_batches([task.decode(order=places)]), task.num_bytes
        )

    @outermost
    async def to_batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        start: int = 0,
        stop: int | None = None,
        batch_size: int | None = None,
    ) -> AsyncIterator[pa.RecordBatch]:
        """Stream rows as batches.

        Cost: per batch a round, with a request per page that has rows of the batch, or per 8 MiB of
        a larger page; pages close together share one. Page states that are not cached take a round
        before it. No request for a file of up to 64 KiB.

        Args:
            columns: names or dotted paths; None: all.
            start: position of the first row.
            stop: position after the last row; None: the end of the file.
            batch_size: rows of a batch; None: 65 536.

        Raises:
            InvalidInputError: rows beyond the file, or an unknown column.
            CorruptFileError: the file contradicts the format.
        """
        engine = self._session.engine
        stop = self.num_rows if stop is None else stop
        check_type("start", start, int, "an integer")
        check_type("stop", stop, int, "an integer, or None for the last row")
        if batch_size is not None:
            check_count("batch_size", batch_size)
        if not 0 <= start <= stop <= self.num_rows:
            raise InvalidInputError(f"rows {start} to {stop}: the file has {self.num_rows}")
        states = ScanStates(engine.cache)
        opened = await engine.drive(self._open(columns), "open columns")
        step = batch_size or FILE_BATCH_ROWS
        for first in range(start, stop, step):
            last = min(stop, first + step)
            task = await engine.drive(opened.read(first, last, states), "scan", bulk=True)
            yield await engine.pool.run(task.decode)

    async def to_table(
        self, columns: Sequence[str] | None = None, *, start: int = 0, stop: int | None = None
    ) -> pa.Table:
        """Read rows into memory.

        Cost: as `to_batches`.

        Args:
            columns, start, stop: as for `to_batches`.

        Raises:
            InvalidInputError, CorruptFileError: as from `to_batches`.
        """
        batches = [batch async for batch in self.to_batches(columns, start=start, stop=stop)]
        schema = self._projected(columns).read_arrow()
        return pa.Table.from_batches(batches, schema=schema)

    def _projected(self, columns: Sequence[str] | None) -> Schema:
        return _projected(self._schema, columns)

    def _open(self, columns: Sequence[str] | None) -> Plan[OpenFragment]:
        return open_fragment(
            self._projected(columns), [self._source], self.num_rows, self._session.engine.cache
        )


def _projected(schema: Schema, columns: Sequence[str] | None) -> Schema:
    if isinstance(columns, str):
        hint = list_hint("columns", columns)
        raise InvalidInputError(f"columns={columns!r}: expected a list of names{hint}")
    return schema if columns is None else schema.project(columns)


@public
class FileWriter(Hinted):
    """Writer of a Lance data file, which appears as a whole at the end of the block or not at all.

        async with FileWriter.open("s3://bucket/rows.lance", schema) as writer:
            await writer.write(batch)
        writer.num_bytes

    For one task at a time. An error in the block, or a cancellation, leaves no object.
    """

    def __init__(
        self,
        upload: Upload,
        session: Session,
        schema: pa.Schema | None,
        version: FileVersion,
        page_bytes: int,
        buffer_bytes: int | None,
    ) -> None:
        self._upload = upload
        self._session = session
        self._schema = schema
        self._version = version
        self._page_bytes = page_bytes
        self._buffer_bytes = buffer_bytes
        self._metadata: dict[str, str] = {}
        self._buffers: list[bytes] = []
        self._writer: DataFileWriter | None = None
        self._written: WrittenFile | None = None
        self._is_open = False

    def __repr__(self) -> str:
        return f"FileWriter({self._upload.where!r}, {self.num_rows} rows)"

    @classmethod
    def open(
        cls,
        uri: str | os.PathLike[str],
        schema: pa.Schema | None = None,
        *,
        version: str | FileVersion = "stable",
        page_bytes: int = PAGE_BYTES,
        buffer_bytes: int | None = None,
        **place: Unpack[StoreArguments],
    ) -> FileWriter:
        """Return a writer of the object at a URI or path. Sends no request.

        An existing object is replaced when the block ends. The first call of a process with a
        schema imports the writers, which takes up to a tenth of a second.

        Args:
            uri: URI or path of the object; with `store`, a path inside the store.
            schema: schema of the file, to which batches are cast; None: the schema of the first
                batch.
            version: "0.1", "2.0", "2.1", "2.2", or "stable", which is 2.2. "2.3" is unstable: it is
                written with a warning, and later releases may not read it.
            page_bytes: bytes of a page's values before encoding.
            buffer_bytes: maximum bytes of rows that wait for their pages, in all columns; None: 1
                MiB per column, but at least 40 and at most 128 MiB.
            place: `store`, `storage_options` and `session`, as for `dataset`.

        Raises:
            InvalidInputError: a bad URI, option or schema.
            UnsupportedError: a version or type that is not written.
        """
        check_count("page_bytes", page_bytes)
        if buffer_bytes is not None:
            check_count("buffer_bytes", buffer_bytes)
        if not isinstance(version, FileVersion):
            version = FileVersion.parse(version)
        if schema is not None:
            check_type("schema", schema, pa.Schema, "a pyarrow Schema")
        session, opened, path = open_store(uri, **place)
        upload = opened.open_upload(path)
        upload.background = session.engine.background
        writer = cls(upload, session, schema, version, page_bytes, buffer_bytes)
        if schema is not None:
            writer._begin(schema)
        return writer

    @property
    def schema(self) -> pa.Schema | None:
        """Arrow schema of the file; None before the first batch if `open` got no schema."""
        return self._schema

    @property
    def version(self) -> FileVersion:
        """File format version."""
        return self._version

    @property
    def num_rows(self) -> int:
        """Number of rows written so far."""
        return 0 if self._writer is None else self._writer.num_rows

    @property
    def num_bytes(self) -> int:
        """Size of the file in bytes. Before the end of the block: the bytes written so far, plus
        those of buffered rows.
        """
        if self._written is not None:
            return self._written.num_bytes
        return 0 if self._writer is None else self._writer.num_bytes

    @property
    def columns(self) -> dict[int, int]:
        """Column number of each field that has a column, by field id.

        Raises:
            InvalidInputError: the writer's block has not ended.
        """
        if self._written is None:
            raise InvalidInputError(f"{self._upload.where}: the file is not finished")
        return dict(self._written.columns)

    def add_schema_metadata(self, key: str, value: str) -> None:
        """Set an entry of the metadata of the file's schema.

        Args:
            key, value: texts; an entry with this key is replaced.

        Raises:
            InvalidInputError: the writer's block is not open, or a value is not text.
        """
        self._check_open()
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidInputError(f"schema metadata {key!r}: {value!r}: expected text")
        self._metadata[key] = value

    def add_global_buffer(self, data: bytes) -> int:
        """Add a global buffer, and return its number (from 1) for `FileReader.global_buffer`.

        Args:
            data: content of the buffer, which is held in memory until the block ends.

        Raises:
            InvalidInputError: the writer's block is not open, or `data` is not bytes.
            UnsupportedError: the file has version 0.1, which has no global buffers.
        """
        self._check_open()
        if self._version is FileVersion.V0_1:
            raise UnsupportedError("global buffers: files of version 0.1 have none")
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InvalidInputError(f"global buffer: expected bytes, found {type(data).__name__}")
        self._buffers.append(bytes(data))
        return len(self._buffers)

    async def write(self, data: Data) -> None:
        """Add rows. Waits while too many bytes are under way to the store.

        Cost: one PUT at the end of the block; for a file above 8 MiB a request that begins the
        upload, one per 8 MiB, and one that completes it.

        Args:
            data: anything that `write_dataset` accepts.

        Raises:
            InvalidInputError: rows do not fit the schema, or the writer's block has ended.
            StoreError: the store failed.
        """
        self._check_open()
        load = self._session.engine.pool.load
        await load(page_writer)
        await load(*page_writer.older_writers(self._version))
        source = await sources.open_source(data, self._schema, self._session.engine.pool)
        inner = self._writer or self._begin(source.schema)
        is_begun = False
        try:
            async for batch in source.batches:
                is_begun = True
                await inner.write(batch)
        except BaseException:
            self._is_open = not is_begun  # once it has begun, a part of the rows is in the file
            raise

    async def __aenter__(self) -> Self:
        if self._is_open or self._written is not None:
            raise InvalidInputError(f"{self._upload.where}: a writer writes one file")
        self._is_open = True
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        is_whole, self._is_open = self._is_open, False
        async with self._upload:  # drops the object if it is not finished
            if error is not None:
                return
            if not is_whole:
                raise InvalidInputError(
                    f"{self._upload.where}: a write has failed, so the file is not there"
                )
            if self._writer is None:
                raise InvalidInputError(
                    f"{self._upload.where}: a file without a batch needs a schema"
                )
            for buffer in self._buffers:
                self._writer.add_buffer(np.frombuffer(buffer, np.uint8))
            self._written = await self._writer.finish()

    def _check_open(self) -> None:
        if not self._is_open:
            raise InvalidInputError(f"{self._upload.where}: {NOT_OPEN}")

    def _begin(self, schema: pa.Schema) -> DataFileWriter:
        self._schema = schema
        fields = Schema.from_arrow(schema)
        self._metadata = {**fields.metadata, **self._metadata}  # at the end of the file
        self._writer = page_writer.writer_of(self._version)(
            self._upload,
            Schema(fields.fields, self._metadata),
            self._version,
            self._session.engine.pool,
            threads=self._session.decode_threads,
            page_bytes=self._page_bytes,
            buffer_bytes=self._buffer_bytes,
        )
        return self._writer
