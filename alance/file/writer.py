"""FileWriter: batches in, pages out as they fill, one object on a store.

Rows are kept as views of the batches until a column has a page full; then its rows are joined and
encoded by threads, and the bytes go to the upload. Memory is what the pages being filled hold, up
to a budget, and what the upload has under way.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from alance.errors import InvalidInputError, UnsupportedError
from alance.file.blob_placer import BlobPlacer
from alance.file.parts import owned, steps
from alance.file.version_rules import check_version
from alance.file.waiting import WaitingColumn
from alance.file_version import FileVersion
from alance.format.blocks import VariableWidth
from alance.format.encode.arrays import leaf_values
from alance.format.encode.blob import encode_blob_page
from alance.format.encode.blob_v2 import BlobRows
from alance.format.encode.container import FileBuilder
from alance.format.encode.pages import encode_pages, hints_of
from alance.format.encode.statistics import FileStatistics
from alance.format.layouts.fields import leaf_columns
from alance.io.tasks import all_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from alance.file.blob_placer import Sidecars
    from alance.format.blocks import Bytes
    from alance.format.encode.base import EncodedPage
    from alance.format.field import Field
    from alance.format.layouts.base import PageValues
    from alance.format.schema import Schema
    from alance.io.pool import DecodePool
    from alance.io.upload import Upload

T = TypeVar("T")

PAGE_BYTES: Final = 8 << 20  # of values in memory, before they are encoded
BUFFER_BYTES: Final = 128 << 20  # of rows that wait for a page, of all columns


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A data file that is there.

    Attributes:
        num_bytes: its exact size.
        columns: the column of each field that has one, by field id.
    """

    num_rows: int
    num_bytes: int
    columns: dict[int, int]


@dataclass(frozen=True, slots=True)
class _Flushed:
    """Rows of a column that leave: as pages, or as blobs that have to be placed first."""

    column: WaitingColumn
    pages: Sequence[EncodedPage] = ()
    blobs: Sequence[PageValues] = ()
    rows: PageValues | None = None  # of version 2 blobs, which wait for a page when they are placed


class FileWriter:
    """Writes one data file. For one task at a time; after an error it can only be aborted.

    Args:
        upload: the object; ended by `finish` and `abort`.
        schema: of the file, with the field ids that its descriptor names.
        version: 2.1 or later; of 2.3 there is a warning, it is unstable.
        pool: threads that encode.
        threads: of them, how many may work for this file at once.
        page_bytes: values of a page, before they are encoded.
        buffer_bytes: rows that may wait for pages.
        statistics: the file says what its zones of rows hold (not in 2.0): docs/statistics.md.

    Raises:
        UnsupportedError: a version that is not written.
    """

    _blobs: BlobPlacer | None = None

    def __init__(
        self,
        upload: Upload,
        schema: Schema,
        version: FileVersion,
        pool: DecodePool,
        *,
        threads: int = 2,
        page_bytes: int = PAGE_BYTES,
        buffer_bytes: int = BUFFER_BYTES,
        statistics: bool = True,
    ) -> None:
        self._upload = upload
        self._schema = schema
        self._version = version
        self._pool = pool
        self._threads = max(1, threads)
        self._page_bytes = page_bytes
        self._buffer_bytes = buffer_bytes
        self._builder = FileBuilder(schema, version)
        leaves = [(root, leaf) for root in schema.fields for leaf in leaf_columns(root)]
        told = statistics and version > FileVersion.V2_0
        self._statistics = FileStatistics([leaf for _, leaf in leaves]) if told else None
        self._columns = [
            WaitingColumn(n, root, leaf, self._statistics) for n, (root, leaf) in enumerate(leaves)
        ]
        self._by_field = {one.leaf.field.id: one for one in self._columns}
        self._num_rows = 0
        check_version(version, [leaf.field for _, leaf in leaves])

    def attach(self, sidecars: Sidecars) -> None:
        """Tell where blobs of version 2 go; without it they are refused."""
        self._blobs = BlobPlacer(sidecars, self._builder, self._pool, self._upload_all)

    @property
    def num_rows(self) -> int:
        """Rows written so far."""
        return self._num_rows

    @property
    def num_bytes(self) -> int:
        """Bytes of the file so far, and of the rows that wait, before they are encoded."""
        return self._builder.num_bytes + sum(column.num_bytes for column in self._columns)

    async def write(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        Args:
            batch: a column for each field of the schema, by position, of a type that casts to it.

        Raises:
            InvalidInputError: another number of columns, or values that the format cannot hold.
            StoreError: of the upload.
        """
        if batch.num_columns != len(self._schema.fields):
            raise InvalidInputError(
                f"a batch of {batch.num_columns} columns for {len(self._schema.fields)} fields"
            )
        for part in steps(batch):
            await self._write(part)
        self._num_rows += batch.num_rows

    async def finish(self) -> WrittenFile:
        """Write what waits and the file's end; the object is visible when this returns.

        Raises:
            InvalidInputError, StoreError: as of `write`.
        """
        written = await self.seal()
        await self.publish()
        return written

    async def seal(self) -> WrittenFile:
        """Hand all bytes to the upload; the object is not visible yet. Errors as of `write`."""
        await self._flush(self._columns)
        if self._statistics is not None:
            content = await self._pool.run(self._statistics.finish)
            if content is not None:
                await self._upload_all(self._builder.add_buffer(content)[1])
        await self._upload_all(self._builder.finish())
        columns = {column.leaf.field.id: column.number for column in self._columns}
        return WrittenFile(self._num_rows, self._builder.num_bytes, columns)

    async def publish(self) -> None:
        """Make the sealed object visible. Errors as of `write`."""
        if self._blobs is not None:
            await self._blobs.finish()
        await self._upload.finish()

    async def abort(self) -> None:
        """Leave no object and no part of one."""
        await self._upload.abort()

    async def _write(self, batch: pa.RecordBatch) -> None:
        fields = list(zip(self._schema.fields, batch.columns, strict=True))
        flushed = await self._in_threads([partial(self._add, *one) for one in fields])
        await self._put([one for group in flushed for one in group])
        waiting = sum(column.num_bytes for column in self._columns)
        if waiting > self._buffer_bytes:
            largest = sorted(self._columns, key=lambda column: -column.num_bytes)
            chosen = []
            for column in largest:
                if waiting <= self._buffer_bytes // 2:
                    break
                chosen.append(column)
                waiting -= column.num_bytes
            await self._flush(chosen)

    def _add(self, root: Field, array: pa.Array) -> list[_Flushed]:
        """Take rows of a field, and encode the columns whose page is full; CPU work."""
        flushed = []
        if array.nbytes < self._page_bytes:
            array = owned(array)
        for field_id, values in leaf_values(root, array).items():
            column = self._by_field[field_id]
            if column.leaf.field.is_blob_v2:
                flushed.append(_Flushed(column, rows=self._blob_rows(column, values)))
                continue
            column.add(values)
            if column.num_bytes >= self._page_bytes:
                flushed.append(self._encode(column))
        return flushed

    def _blob_rows(self, column: WaitingColumn, values: PageValues) -> PageValues:
        name = column.leaf.field.name
        if not isinstance(values.values, BlobRows):
            raise InvalidInputError(
                f"field {name!r}: descriptions where blobs are expected; read them as bytes, with "
                f"blob_handling='all_binary'"
            )
        if self._blobs is None:
            raise UnsupportedError(
                f"field {name!r}: blobs of version 2 have objects beside the file: they are "
                "written in tables, not to single files"
            )
        return values

    def _encode(self, column: WaitingColumn) -> _Flushed:
        pieces = column.take(self._page_bytes)
        leaf = column.leaf.field
        if leaf.is_blob_v1:
            return _Flushed(column, blobs=pieces)
        hints = hints_of(column.root, leaf, self._version)
        pages = [page for piece in pieces for page in encode_pages(leaf, piece, hints)]
        return _Flushed(column, pages)

    async def _flush(self, columns: Sequence[WaitingColumn]) -> None:
        """Write the rows that wait, a few columns at a time."""
        waiting = [column for column in columns if column.parts]
        for start in range(0, len(waiting), self._threads):
            some = waiting[start : start + self._threads]
            await self._put(
                await self._in_threads([partial(self._encode, column) for column in some])
            )

    async def _in_threads(self, works: Sequence[Callable[[], T]]) -> list[T]:
        """The results of CPU work, in order; some at a time."""
        limit = asyncio.Semaphore(self._threads)

        async def run(work: Callable[[], T]) -> T:
            async with limit:
                return await self._pool.run(work)

        return await all_of(run(work) for work in works)

    async def _put(self, flushed: Sequence[_Flushed]) -> None:
        for one in flushed:
            leaf = one.column.leaf.field
            pages = list(one.pages)
            if one.rows is not None and self._blobs is not None:
                one.column.add(await self._blobs.place(leaf, one.rows))
                if one.column.num_bytes >= self._page_bytes:
                    pages += (await self._pool.run(partial(self._encode, one.column))).pages
            for values in one.blobs:
                hints = hints_of(one.column.root, leaf, self._version)
                positions, chunks = await self._pool.run(
                    partial(self._builder.add_blobs, _payloads(values))
                )
                await self._upload_all(chunks)
                pages.append(
                    await self._pool.run(partial(encode_blob_page, leaf, values, positions, hints))
                )
            for page in pages:
                await self._upload_all(self._builder.add_page(one.column.number, page))

    async def _upload_all(self, chunks: Sequence[Bytes]) -> None:
        for chunk in chunks:
            await self._upload.write(chunk)


def _payloads(values: PageValues) -> VariableWidth:
    assert isinstance(values.values, VariableWidth)
    return values.values
