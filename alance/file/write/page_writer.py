"""Writer of files of 2.1 and later: writes a page of a column when it is full.

Rows are buffered as views of the batches until a column has a full page; then its rows are joined
and encoded.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar, cast

import pyarrow as pa

from alance import _kernels
from alance.base.deferred import Deferred
from alance.errors import InvalidInputError
from alance.file.write.blob_placer import BlobPlacer
from alance.file.write.small_batches import SmallBatches, whole_bytes
from alance.file.write.writer import (
    NUM_BYTES_OF,
    QUICK_COLUMNS,
    BufferUpload,
    DataFileWriter,
    Here,
    WaitingColumn,
    WrittenFile,
    check_version,
    largest,
    owned,
    without_waiting,
)
from alance.file_version import FileVersion
from alance.format.encode.arrays import leaf_values
from alance.format.encode.blobs import BlobRows, encode_blob_page
from alance.format.encode.container import FileBuilder, with_small_ones_joined
from alance.format.encode.page_inputs import EncodedPage
from alance.format.encode.pages import encode_pages, hints_of
from alance.format.encode.small_file import small_files
from alance.format.encode.statistics import NewStatistics
from alance.format.layouts.fields import leaf_columns
from alance.io.loop.readahead import grouped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from alance.base.arrays import Bytes
    from alance.file.older import v0_1_writer, v2_0_writer
    from alance.file.write.blob_placer import Sidecars
    from alance.format.blocks import VariableWidth
    from alance.format.field import Field
    from alance.format.layouts.base import PageValues
    from alance.format.schema import Schema

    # Rows of a column to write: a page, or blobs, which have to be stored first.
    _Flushed: TypeAlias = tuple[WaitingColumn, EncodedPage | PageValues]
else:
    v0_1_writer = Deferred("alance.file.older.v0_1_writer")
    v2_0_writer = Deferred("alance.file.older.v2_0_writer")

T = TypeVar("T")
# Encoded bytes after which free memory is released, which takes 0.3 ms; encoding them takes 5 ms.
RELEASED_PAGE_BYTES: Final = 1 << 20
KEPT_BYTES: Final = 16 << 20  # bytes of free memory to retain, because encoding reuses blocks
# Maximum pages that the event loop adds to the file, at 30 microseconds each.
QUICK_PAGES: Final = 4


class PageWriter(DataFileWriter):
    """Writer of a data file of version 2.1 or later, page by page."""

    _sidecars: Sidecars | None = None
    _blobs: BlobPlacer | None = None
    _columns: Sequence[WaitingColumn] = ()

    def _begin(self) -> None:
        self._plain = small_files(self._schema, self._version)
        if self._plain is not None:
            self._small = SmallBatches(enough_bytes=whole_bytes(len(self._schema.fields)))
        else:  # no checks, because columns are plain
            leaves = [leaf.field for root in self._schema.fields for leaf in leaf_columns(root)]
            check_version(self._version, leaves)
            if any(leaf.is_blob_v2 for leaf in leaves):
                # Because sidecar objects may be uploaded before the file ends.
                self.is_small = False

    def _prepare(self) -> None:
        """Create the state for writing pages. A file that is encoded at once does not need it."""
        if self._columns:
            return
        self._builder = FileBuilder(self._schema, self._version)
        leaves = [(root, leaf) for root in self._schema.fields for leaf in leaf_columns(root)]
        fields = [leaf for _, leaf in leaves]
        self._statistics = NewStatistics(fields) if self._has_statistics else None
        self._columns = [
            WaitingColumn(n, root, leaf, self._statistics) for n, (root, leaf) in enumerate(leaves)
        ]
        self._by_field = {column.leaf.field.id: column for column in self._columns}
        self._blobs = BlobPlacer(self._sidecars, self._builder, self._pool, self._upload_all)

    def attach(self, sidecars: Sidecars) -> None:
        """Set the sidecars for version 2 blobs; without them, all blobs must be stored already."""
        self._sidecars = sidecars

    def _bytes_so_far(self) -> int:
        self._prepare()
        return self._builder.num_bytes + sum(column.num_bytes for column in self._columns)

    async def _of_columns(self, work: Callable[[], T]) -> T:
        """Do work for all columns, in a thread if they are many."""
        is_quick = self._schema.num_fields <= QUICK_COLUMNS
        return work() if is_quick else await self._pool.run(work)

    async def _seal(self) -> WrittenFile:
        await self._of_columns(self._prepare)
        await self._flush(self._columns)
        for extra in self._extra_buffers:
            await self._upload_all(self._builder.add_buffer(extra)[1])
        if self._statistics is not None:
            content = await self._pool.run(self._statistics.finish)
            if content is not None:
                await self._upload_all(self._builder.add_buffer(content)[1])
        await self._upload_all(await self._of_columns(self._builder.finish))
        columns = {column.leaf.field.id: column.number for column in self._columns}
        return WrittenFile(self.num_rows, self._builder.num_bytes, columns)

    async def publish(self, content: bytes = b"") -> None:
        """Make the object visible, after its sidecar objects."""
        if self._blobs is not None:
            await self._blobs.finish()
        await super().publish(content)

    async def _write(self, batch: pa.RecordBatch) -> None:
        await self._of_columns(self._prepare)
        fields = list(zip(self._schema.fields, batch.columns, strict=True))
        flushed = await self._in_threads([partial(self._add, *pair) for pair in fields])
        await self._put([part for group in flushed for part in group])
        await self._flush(largest(self._columns, self._buffer_bytes))

    def _add(self, root: Field, array: pa.Array) -> list[_Flushed]:
        """Buffer rows of a field, and encode the columns whose page is full. CPU work.

        Blobs of version 2 are returned; later their descriptions are buffered up to a page.
        """
        flushed: list[_Flushed] = []
        if array.nbytes < self._page_bytes:
            array = owned(array)
        for field_id, values in leaf_values(root, array).items():
            column = self._by_field[field_id]
            if not column.leaf.field.is_blob_v2:
                column.add(values)
                flushed += self._encode_full(column)
            elif isinstance(values.values, BlobRows):
                flushed.append((column, values))
            else:
                raise InvalidInputError(
                    f"field {column.leaf.field.name!r}: descriptions where blobs are expected; "
                    "read them as bytes, with blob_handling='all_binary'"
                )
        return flushed

    def _encode_full(self, column: WaitingColumn) -> list[_Flushed]:
        """Encode the waiting rows of a column if its page is full."""
        return self._encode([column]) if column.num_bytes >= self._page_bytes else []

    def _encode(self, columns: Sequence[WaitingColumn]) -> list[_Flushed]:
        num_bytes = sum(column.num_bytes for column in columns)
        flushed = self._encoded(columns)
        if num_bytes >= RELEASED_PAGE_BYTES:
            # Pages of varying sizes reuse little memory, and Arrow's allocator retains memory per
            # thread.
            _kernels.trim_memory(KEPT_BYTES)
            pa.default_memory_pool().release_unused()
        return flushed

    def _encoded(self, columns: Sequence[WaitingColumn]) -> list[_Flushed]:
        """Encode the waiting rows of columns as pages, in one kernel call."""
        flushed: list[_Flushed] = []
        leaves, owners = [], []
        for column in columns:
            pieces, leaf = column.take(self._page_bytes), column.leaf.field
            if leaf.is_blob_v1:
                flushed += [(column, piece) for piece in pieces]
                continue
            hints = hints_of(column.root, leaf, self._version)
            leaves += [(leaf, piece, hints) for piece in pieces]
            owners += [column] * len(pieces)
        pairs = zip(owners, encode_pages(leaves), strict=True)
        return flushed + [(column, page) for column, pages in pairs for page in pages]

    async def _flush(self, columns: Sequence[WaitingColumn]) -> None:
        """Write the waiting rows of columns, about a page per thread at a time."""
        waiting = [column for column in columns if column.parts]
        for group in grouped(waiting, NUM_BYTES_OF, self._threads * self._page_bytes):
            share = -(-sum(map(NUM_BYTES_OF, group)) // self._threads)
            shares = grouped(group, NUM_BYTES_OF, share)
            flushed = await self._in_threads([partial(self._encode, share) for share in shares])
            await self._put([part for share in flushed for part in share])

    async def _put(self, flushed: Sequence[_Flushed]) -> None:
        """Write pages, after the blobs that they describe."""
        pages: list[tuple[int, EncodedPage]] = []
        for column, part in flushed:
            added = [part] if isinstance(part, EncodedPage) else await self._put_blobs(column, part)
            pages += [(column.number, page) for page in added]
        if pages:
            place = partial(self._place, pages)
            await self._upload_all(await self._pool.run(place, inline=len(pages) <= QUICK_PAGES))

    async def _put_blobs(self, column: WaitingColumn, values: PageValues) -> list[EncodedPage]:
        """Write blobs; return full pages with their descriptions."""
        leaf = column.leaf.field
        if leaf.is_blob_v2:
            assert self._blobs is not None
            column.add(await self._blobs.place(leaf, values))
            full = await self._pool.run(partial(self._encode_full, column))
            return [cast("EncodedPage", page) for _, page in full]
        hints = hints_of(column.root, leaf, self._version)
        payloads = cast("VariableWidth", values.values)
        positions, chunks = await self._pool.run(partial(self._builder.add_blobs, payloads))
        await self._upload_all(chunks)
        return [await self._pool.run(partial(encode_blob_page, leaf, values, positions, hints))]

    def _place(self, pages: Sequence[tuple[int, EncodedPage]]) -> list[Bytes]:
        """Add pages to the file; return the bytes to append."""
        chunks = [chunk for number, page in pages for chunk in self._builder.add_page(number, page)]
        return with_small_ones_joined(chunks)


def writer_of(version: FileVersion) -> type[DataFileWriter]:
    """Return the writer class of a version. For 2.0 and 0.1, import `older_writers` first."""
    if version is FileVersion.V0_1:
        return v0_1_writer.BatchWriter
    return v2_0_writer.ArrayWriter if version is FileVersion.V2_0 else PageWriter


def older_writers(version: FileVersion) -> Sequence[ModuleType]:
    """Return the modules to import for `writer_of`; empty for 2.1 and later.

    Importing takes 0.1 s, so a thread should do it before the event loop needs them.
    """
    older = {FileVersion.V0_1: v0_1_writer, FileVersion.V2_0: v2_0_writer}
    return [older[version]] if version in older else []


def encode_file(
    schema: Schema, version: FileVersion, batch: pa.RecordBatch, *, statistics: bool = True
) -> tuple[bytes, WrittenFile]:
    """Encode a batch as a complete data file; return its bytes and description. CPU work.

    Args:
        schema: schema of the file, without blobs of version 2, because these need sidecar objects.

    Raises:
        InvalidInputError: the format cannot hold a value.
        UnsupportedError: files of the version cannot hold a type.
    """
    upload = BufferUpload()
    writer = writer_of(version)(upload, schema, version, Here(), threads=1, statistics=statistics)
    without_waiting(writer.write(batch))
    written = without_waiting(writer.seal())
    return upload.content(), written
