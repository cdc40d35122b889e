"""FileWriter: one Lance file by itself, without a table around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alance.errors import InvalidInputError
from alance.file.budgets import BUFFER_BYTES, PAGE_BYTES
from alance.file_version import FileVersion
from alance.format.schema import Schema
from alance.session import Session

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self

    import pyarrow as pa

    from alance.file import writer
    from alance.file.writer import WrittenFile
    from alance.io.upload import Upload
    from alance.ops.write.sources import Data

WRITER: Final = "alance.file.v0_1_writer"
NOT_OPEN: Final = "expected a writer inside of its `async with` block"


class FileWriter:
    """Writes a Lance data file: whole at the end of its block, or not there at all.

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
        buffer_bytes: int,
    ) -> None:
        self._upload = upload
        self._session = session
        self._schema = schema
        self._version = version
        self._page_bytes = page_bytes
        self._buffer_bytes = buffer_bytes
        self._writer: writer.FileWriter | None = None
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
        buffer_bytes: int = BUFFER_BYTES,
        store: object | None = None,
        storage_options: Mapping[str, str] | None = None,
        session: Session | None = None,
    ) -> FileWriter:
        """A writer of the object at a URI or path; sends no request.

        An object that is there is replaced, when the block ends. The first call of a process
        with a schema imports what writes, which takes up to a tenth of a second.

        Args:
            schema: of the file, what batches are cast to; None: that of the first batch.
            version: "0.1", "2.0", "2.1", "2.2", or "stable", which is 2.2.
            page_bytes: values of a page, before they are encoded.
            buffer_bytes: rows that may wait for their pages, of all columns.

        Raises:
            InvalidInputError: a bad URI, option or schema.
            UnsupportedError: a version or type that is not written.
        """
        for name, value in (("page_bytes", page_bytes), ("buffer_bytes", buffer_bytes)):
            if not isinstance(value, int) or value < 1:
                raise InvalidInputError(f"{name}={value!r}: expected a positive integer")
        if not isinstance(version, FileVersion):
            version = FileVersion.parse(version)
        session = session or Session.of_loop()
        opened, path = session.engine.registry.open(
            uri, storage_options=storage_options, store=store
        )
        upload = opened.open_upload(path)
        upload.background = session.engine.background
        made = cls(upload, session, schema, version, page_bytes, buffer_bytes)
        if schema is not None:
            made._begin(schema)
        return made

    @property
    def schema(self) -> pa.Schema | None:
        """The Arrow schema; None before the first batch, where none was given."""
        return self._schema

    @property
    def version(self) -> FileVersion:
        """The file's format version."""
        return self._version

    @property
    def num_rows(self) -> int:
        """Rows written so far."""
        return 0 if self._writer is None else self._writer.num_rows

    @property
    def num_bytes(self) -> int:
        """After the block the file's size; in it, bytes so far and of rows not yet encoded."""
        if self._written is not None:
            return self._written.num_bytes
        return 0 if self._writer is None else self._writer.num_bytes

    @property
    def columns(self) -> dict[int, int]:
        """After the block: the column of each field that has one, by field id."""
        if self._written is None:
            raise InvalidInputError(f"{self._upload.where}: the file is not finished")
        return dict(self._written.columns)

    async def write(self, data: Data) -> None:
        """Add rows. Waits while too many bytes are under way to the store.

        Args:
            data: a batch, or what else `write_dataset` takes.

        Raises:
            InvalidInputError: rows that do not fit the schema, or the writer's block is over.
            StoreError: the store failed.
        """
        if not self._is_open:
            raise InvalidInputError(f"{self._upload.where}: {NOT_OPEN}")
        await self._session.engine.pool.load(WRITER)
        from alance.ops.write.sources import open_source

        source = await open_source(data, self._schema, self._session.engine.pool)
        inner = self._writer or self._begin(source.schema)
        is_begun = False
        try:
            async for batch in source.batches:
                is_begun = True
                await inner.write(batch)
        except BaseException:
            self._is_open = not is_begun  # else a part of the rows is in the file
            raise

    async def __aenter__(self) -> Self:
        if self._is_open or self._written is not None:
            raise InvalidInputError(f"{self._upload.where}: a writer writes one file")
        self._is_open = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        is_whole, self._is_open = self._is_open, False
        async with self._upload:  # drops what is not finished
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
            self._written = await self._writer.finish()

    def _begin(self, schema: pa.Schema) -> writer.FileWriter:
        from alance.file.v0_1_writer import writer_of

        self._schema = schema
        self._writer = writer_of(self._version)(
            self._upload,
            Schema.from_arrow(schema),
            self._version,
            self._session.engine.pool,
            threads=self._session.decode_threads,
            page_bytes=self._page_bytes,
            buffer_bytes=self._buffer_bytes,
        )
        return self._writer
